//! Why a request to a server failed, and what to do about it.

use std::io;

use thiserror::Error;

use super::address::Address;
use crate::wire::api_keys::ApiKey;
use crate::wire::error_code::ErrorCode;
use crate::wire::reader::DecodeError;
use crate::wire::writer::EncodeError;

/// What went wrong between a command and a server.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error(
        "nothing listens on {address}: is the server running? Start it with `alluvium serve`, or name another with --bootstrap"
    )]
    Refused {
        /// Where.
        address: Address,
    },
    /// The host has no address, or no way leads there.
    #[error(
        "cannot connect to {address}: {source}; check the host in --bootstrap, and what the server has as --advertise"
    )]
    Unreachable {
        /// Where.
        address: Address,
        /// What the system says.
        source: io::Error,
    },
    /// The connection ended before the answer.
    #[error(
        "{address} closed the connection while {api} was asked: is that port Kafka's protocol without TLS? Its log says more"
    )]
    Closed {
        /// Who.
        address: Address,
        /// What was asked.
        api: &'static str,
    },
    /// No answer in time.
    #[error("{address} has not answered {api} in {seconds} s; raise --timeout-seconds if it is only slow")]
    TimedOut {
        /// Who.
        address: Address,
        /// What was asked.
        api: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The connection broke.
    #[error("the connection to {address} broke while {api} was asked: {source}")]
    Broken {
        /// Who.
        address: Address,
        /// What was asked.
        api: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The server lacks the API, or all versions of it that this client has.
    #[error(
        "{address} serves {api} in versions {min} to {max}, and this client needs {ours_min} to {ours_max}: one of the two is too old"
    )]
    Version {
        /// Who.
        address: Address,
        /// The API.
        api: &'static str,
        /// The server's lowest version; -1 with `max` -1 where it lacks the API.
        min: i16,
        /// The server's highest version.
        max: i16,
        /// The client's lowest version.
        ours_min: i16,
        /// The client's highest version.
        ours_max: i16,
    },
    /// An answer that is not Kafka's protocol, or not to this question.
    #[error("{address} answered {api} with something else than Kafka's protocol: is that the right port?")]
    NotKafka {
        /// Who.
        address: Address,
        /// What was asked.
        api: &'static str,
    },
    /// An answer that cannot be read.
    #[error("the answer of {address} to {api} cannot be read: {source}")]
    Decode {
        /// Who.
        address: Address,
        /// What was asked.
        api: &'static str,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// A question that cannot be written: something in it is too long.
    #[error("{api} cannot be asked: {source}")]
    Encode {
        /// What was to be asked.
        api: &'static str,
        /// What is wrong with it.
        source: EncodeError,
    },
    /// The server said no.
    #[error("{api}: {}", refusal(*code, message.as_deref()))]
    Refusal {
        /// What was asked.
        api: &'static str,
        /// Kafka's error code.
        code: i16,
        /// What the server says about it.
        message: Option<String>,
    },
    /// Nobody leads the partition.
    #[error("partition {partition} of topic {topic} has no leader now; see `alluvium topic describe {topic}`")]
    NoLeader {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// The topic has fewer partitions than asked for.
    #[error("topic {topic} has {partitions} partitions and --partitions asks for {wanted}")]
    Partitions {
        /// The topic.
        topic: String,
        /// How many it has.
        partitions: usize,
        /// How many were asked for.
        wanted: u32,
    },
    /// What was asked for was done, but something went wrong on the way.
    #[error("{count} errors; the first: {first}")]
    Errors {
        /// How many.
        count: u64,
        /// What the first one was.
        first: String,
    },
    /// This machine.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// A file of this command.
    #[error("{path}: {source}")]
    File {
        /// Its name.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// Records that should be there are not.
    #[error("{missing} of {partitions} partitions lack acknowledged records; the first: {first}")]
    Missing {
        /// How many partitions lack records.
        missing: usize,
        /// How many were looked at.
        partitions: usize,
        /// Which one, what it should hold, what it holds.
        first: String,
    },
}

impl ClientError {
    /// Names an error of a socket that was connected.
    pub fn of_io(address: &Address, api_key: ApiKey, limit_seconds: u64, source: io::Error) -> Self {
        let (address, api) = (address.clone(), api_key.name());
        match source.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Self::Closed { address, api },
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Self::TimedOut { address, api, seconds: limit_seconds }
            }
            _ => Self::Broken { address, api, source },
        }
    }

    /// Fails where the code is an error.
    pub fn check(api_key: ApiKey, code: i16, message: Option<&str>) -> Result<(), Self> {
        if code == 0 {
            return Ok(());
        }
        Err(Self::Refusal { api: api_key.name(), code, message: message.map(str::to_owned) })
    }

    /// Whether the server answered with this error.
    pub fn is_refusal(&self, error: ErrorCode) -> bool {
        matches!(self, Self::Refusal { code, .. } if *code == error.code())
    }
}

/// Kafka's name of an error code, and what is said about it.
pub fn refusal(code: i16, message: Option<&str>) -> String {
    match (ErrorCode::from_code(code), message) {
        (Some(error), Some(message)) if !message.is_empty() => {
            format!("{}: {message}", error.name())
        }
        (Some(error), _) => format!("{}: {}", error.name(), error.default_message()),
        (None, message) => format!("error {code}: {}", message.unwrap_or("unknown to Kafka 4.4")),
    }
}
