//! The ports of all cores, bound before any core runs.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // std's listener and clock, before any core runs

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use crate::ring::io::{Io, Listener};
use crate::ring::syscall;

/// A port that is bound; connections wait in the kernel until a core takes it.
#[derive(Debug)]
pub struct BoundPort {
    listener: TcpListener,
}

/// A port that cannot be had.
#[derive(Debug)]
pub struct PortTaken {
    /// Index of the core that it was for.
    pub core: usize,
    /// The address.
    pub address: SocketAddr,
    /// What the kernel said.
    pub source: io::Error,
}

/// Binds `address` once, or for `count` listeners that share it: the kernel spreads the connections over them
/// (SO_REUSEPORT).
///
/// # Errors
/// As bind(2); an address that anybody else listens on, also with SO_REUSEPORT, is taken.
pub fn bind_shared_port(address: SocketAddr, count: usize) -> Result<Vec<BoundPort>, PortTaken> {
    let taken = |address| move |source| PortTaken { core: 0, address, source };
    // Without the option first: a second server would otherwise take half of the connections of the first one.
    let alone = TcpListener::bind(address).map_err(taken(address))?;
    if count == 1 {
        return Ok(vec![BoundPort { listener: alone }]);
    }
    let address = alone.local_addr().map_err(taken(address))?;
    drop(alone);
    let bind = |_| syscall::listen_shared(&address).map(|fd| BoundPort { listener: TcpListener::from(fd) });
    (0..count).map(bind).collect::<io::Result<_>>().map_err(taken(address))
}

/// Binds with `bind`, and tries again for `TAKEN_MS_MAX` while a port is taken: the kernel gives the ports of a killed
/// server back some milliseconds after the process is gone, when it has taken that one's rings down.
///
/// # Errors
/// As `bind`, at the last try.
pub fn bind_soon<T>(bind: impl Fn() -> Result<T, PortTaken>) -> Result<T, PortTaken> {
    let deadline = Instant::now() + Duration::from_millis(TAKEN_MS_MAX);
    loop {
        match bind() {
            Err(taken) if taken.source.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(TAKEN_PAUSE_MS));
            }
            bound => return bound,
        }
    }
}

/// Binds `count` ports: core i gets the port of `first` plus i, or any port where that is 0.
///
/// # Errors
/// The first that cannot be bound; none is kept then.
pub fn bind_ports(first: SocketAddr, count: usize) -> Result<Vec<BoundPort>, PortTaken> {
    (0..count)
        .map(|core| {
            let mut address = first;
            let port = usize::from(first.port()) + if first.port() == 0 { 0 } else { core };
            let bound = match u16::try_from(port) {
                Ok(port) => {
                    address.set_port(port);
                    TcpListener::bind(address)
                }
                Err(_) => Err(io::Error::from(io::ErrorKind::AddrNotAvailable)),
            };
            bound.map(|listener| BoundPort { listener }).map_err(|source| PortTaken { core, address, source })
        })
        .collect()
}

impl BoundPort {
    /// The address bound.
    ///
    /// # Errors
    /// As getsockname(2).
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Hands it to a core, on that core's thread.
    ///
    /// # Errors
    /// Where it cannot be made non-blocking.
    pub fn into_listener(self, io: &Io) -> io::Result<Listener> {
        io.adopt_listener(self.listener)
    }
}

/// How long a taken port is tried again.
const TAKEN_MS_MAX: u64 = 1000;
const TAKEN_PAUSE_MS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// A killed server's port is given back late: the next one waits for it, and not for ever.
    #[test]
    fn a_port_that_is_given_back_soon_is_waited_for() {
        let held = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = held.local_addr().expect("bound");
        let error = bind_soon(|| bind_ports(address, 1)).expect_err("taken all the time");
        assert_eq!((error.core, error.address), (0, address));
        let (told, tried) = std::sync::mpsc::channel();
        let freeing = std::thread::spawn(move || {
            // At least one try has found it taken.
            tried.recv().expect("the other side lives");
            drop(held);
        });
        assert!(bind_ports(address, 1).is_err(), "taken still");
        told.send(()).expect("the other side lives");
        bind_soon(|| bind_ports(address, 1)).expect("given back within the time");
        freeing.join().expect("it ended");
    }

    #[test]
    fn a_taken_port_names_its_core() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
        let held = TcpListener::bind(taken);
        let held = held.unwrap_or_else(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let address = held.local_addr().expect("bound");
        let error = bind_ports(address, 1).expect_err("taken");
        assert_eq!((error.core, error.address), (0, address));
        let shared = bind_shared_port(address, 2).expect_err("taken");
        assert_eq!(shared.address, address);
        let past_the_end = bind_ports("127.0.0.1:65535".parse().expect("an address"), 2);
        assert!(past_the_end.is_err(), "there is no port 65536");
    }

    #[test]
    fn a_shared_port_is_one_port_and_nobody_elses() {
        let bound = bind_shared_port("127.0.0.1:0".parse().expect("an address"), 3).expect("a free port");
        let addresses: Vec<_> = bound.iter().map(|port| port.local_address().expect("bound")).collect();
        assert!(addresses[0].port() > 0);
        assert_eq!(addresses, [addresses[0]; 3]);
        assert!(bind_shared_port(addresses[0], 3).is_err(), "a second server must be told");
        drop(bound);
        assert!(bind_shared_port(addresses[0], 1).is_ok());
    }
}
