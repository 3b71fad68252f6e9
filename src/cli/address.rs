//! A host and a port, as a person writes them and as Kafka carries them.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use thiserror::Error;

/// A host name or IP address and a TCP port. IPv6 addresses are kept without brackets and printed with them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port; [`KAFKA_PORT`] where none was written.
    pub port: u16,
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Nothing before the port.
    #[error("no host in it; write HOST:PORT, for example 127.0.0.1:9092 or [::1]:9092")]
    NoHost,
    /// What follows the last colon is no port.
    #[error("{text:?} is no port; write a number from 1 to 65535, for example 127.0.0.1:9092")]
    Port {
        /// What stands where the port should be.
        text: String,
    },
    /// A bracket that is not closed, or holds no IPv6 address.
    #[error("an IPv6 address goes in brackets: [::1]:9092")]
    Brackets,
}

impl Address {
    /// An address from the parts that a server announces.
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// Asks the system for the socket addresses behind the name.
    pub fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or(AddressError::Brackets)?;
            if !matches!(host.parse(), Ok(IpAddr::V6(_))) {
                return Err(AddressError::Brackets);
            }
            match rest {
                "" => (host, None),
                _ => (host, Some(rest.strip_prefix(':').ok_or(AddressError::Brackets)?)),
            }
        } else if matches!(text.parse(), Ok(IpAddr::V6(_))) {
            // Without brackets the last group could be a port; only a whole address is taken, with the usual port.
            (text, None)
        } else {
            match text.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => return Err(AddressError::Brackets),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() {
            return Err(AddressError::NoHost);
        }
        let port = match port {
            None => KAFKA_PORT,
            Some(text) => match text.parse() {
                Ok(port) if port > 0 => port,
                _ => {
                    return Err(AddressError::Port { text: text.to_owned() });
                }
            },
        };
        Ok(Self::new(host, port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

/// Kafka's port, where none is written.
pub const KAFKA_PORT: u16 = 9092;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_written() {
        let cases = [
            ("127.0.0.1:9092", "127.0.0.1", 9092, "127.0.0.1:9092"),
            ("localhost", "localhost", 9092, "localhost:9092"),
            (" kafka-1.example:1 ", "kafka-1.example", 1, "kafka-1.example:1"),
            ("[::1]:19092", "::1", 19092, "[::1]:19092"),
            ("[fe80::1]", "fe80::1", 9092, "[fe80::1]:9092"),
            ("::1", "::1", 9092, "[::1]:9092"),
            ("0.0.0.0:65535", "0.0.0.0", 65535, "0.0.0.0:65535"),
        ];
        for (text, host, port, printed) in cases {
            let address: Address = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
            assert_eq!(address.to_string(), printed, "{text}");
            assert_eq!(printed.parse(), Ok(address), "{printed}");
        }
    }

    #[test]
    fn what_is_no_address_says_what_to_write() {
        let port = |text: &str| AddressError::Port { text: text.to_owned() };
        let cases = [
            ("", AddressError::NoHost),
            (":9092", AddressError::NoHost),
            ("a:", port("")),
            ("a:0", port("0")),
            ("a:65536", port("65536")),
            ("a:http", port("http")),
            ("fe80::1:zz", AddressError::Brackets),
            ("[::1", AddressError::Brackets),
            ("[a]:1", AddressError::Brackets),
            ("[::1]9092", AddressError::Brackets),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Address>(), Err(error), "{text}");
        }
    }
}
