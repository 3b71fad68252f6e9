//! The simulated network: who listens where, and how connections come to be and end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::{Rc, Weak};
use std::task::Poll;

use crate::ring::io::Io;
use crate::ring::sim::core::CoreState;
use crate::ring::sim::options::Crash;
use crate::ring::sim::pipe::{Connection, End};
use crate::ring::sim::stream::SimStream;
use crate::ring::sim::world::{BootedCore, World};
use crate::ring::task::WaitList;

/// One network that all machines are on; an address belongs to whoever listens on it.
#[derive(Default)]
pub(in crate::ring::sim) struct Net {
    /// More than one listener of an address: cores of one machine that share a port (SO_REUSEPORT).
    listeners: RefCell<BTreeMap<SocketAddr, Vec<Rc<Listening>>>>,
    connections: RefCell<Vec<Weak<Connection>>>,
    port_count: Cell<u16>,
}

struct Listening {
    io: Io,
    core: Rc<CoreState>,
    address: SocketAddr,
    backlog: RefCell<VecDeque<SimStream>>,
    waiting: WaitList,
}

impl Net {
    /// Makes a connection to whoever listens on `address`: the handshake, at the moment it is done.
    pub(in crate::ring::sim) fn connect(
        &self,
        world: &Rc<World>,
        core: &Rc<CoreState>,
        io: &Io,
        address: SocketAddr,
    ) -> io::Result<SimStream> {
        let listening = self.find_listener(world, address).ok_or(ErrorKind::ConnectionRefused)?;
        let is_full = listening.backlog.borrow().len() >= BACKLOG_MAX;
        if is_full || world.random.chance(world.faults.get().connect_refused_per_million) {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let local = SocketAddr::new(address.ip(), self.next_port());
        let client = End { io: io.clone(), core: core.clone(), address: local };
        let server = End { io: listening.io.clone(), core: listening.core.clone(), address };
        let connection = Rc::new(Connection::new(world, client, server));
        let mut connections = self.connections.borrow_mut();
        connections.retain(|connection| connection.strong_count() > 0);
        connections.push(Rc::downgrade(&connection));
        drop(connections);
        listening.backlog.borrow_mut().push_back(SimStream::new(world.clone(), connection.clone(), 1));
        listening.io.wake_all(&listening.waiting);
        Ok(SimStream::new(world.clone(), connection, 0))
    }

    fn find_listener(&self, world: &World, address: SocketAddr) -> Option<Rc<Listening>> {
        let any: IpAddr = match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let listeners = self.listeners.borrow();
        let sharing = listeners.get(&address).or_else(|| listeners.get(&SocketAddr::new(any, address.port())))?;
        sharing.get(world.random.index(sharing.len())).cloned()
    }

    fn next_port(&self) -> u16 {
        self.port_count.set(self.port_count.get().wrapping_add(1) % EPHEMERAL_PORTS);
        EPHEMERAL_PORT_MIN + self.port_count.get()
    }

    /// Ends what `cores` have on the network, as the others see it: a cut cable, the kernel's RST or FIN, a close.
    pub(in crate::ring::sim) fn end_cores(&self, world: &Rc<World>, cores: &[BootedCore], how: Crash) {
        let is_ended = |core: &Rc<CoreState>| cores.iter().any(|ended| Rc::ptr_eq(&ended.state, core));
        let closed: Vec<Rc<Listening>> = {
            let mut listeners = self.listeners.borrow_mut();
            let mut closed = Vec::new();
            listeners.retain(|_, sharing| {
                closed.extend(sharing.extract_if(.., |listening| is_ended(&listening.core)));
                !sharing.is_empty()
            });
            closed
        };
        let connections: Vec<Rc<Connection>> = self.connections.borrow().iter().filter_map(Weak::upgrade).collect();
        for connection in connections {
            for end in 0..2 {
                if !is_ended(&connection.ends[end].core) {
                    continue;
                }
                match how {
                    Crash::Stop => connection.close(world, end),
                    Crash::Kill if world.random.coin() => connection.close(world, end),
                    Crash::Kill => connection.reset(world),
                    Crash::PowerCut => {
                        // Nobody says anything: the other end finds out when it is told so after the next boot.
                        connection.cut(end);
                        connection.lose_under_way(world, end);
                        let reset = connection.clone();
                        let delay_ns = world.random.between(1_000_000, POWER_CUT_NOTICED_NS_MAX);
                        world.schedule(None, delay_ns, "noticed", move |world| reset.reset(world));
                    }
                }
            }
        }
        drop(closed);
    }

    pub(in crate::ring::sim) fn clear(&self) {
        let listeners = std::mem::take(&mut *self.listeners.borrow_mut());
        for listening in listeners.values().flatten() {
            let backlog = std::mem::take(&mut *listening.backlog.borrow_mut());
            drop(backlog);
        }
    }
}

/// A socket that listens, of one core.
pub struct SimListener {
    world: Rc<World>,
    listening: Rc<Listening>,
}

impl SimListener {
    pub(in crate::ring::sim) fn bind(
        world: &Rc<World>,
        core: &Rc<CoreState>,
        io: &Io,
        address: SocketAddr,
    ) -> io::Result<Self> {
        let mut address = address;
        if address.port() == 0 {
            address.set_port(world.net.next_port());
        }
        let listening = Rc::new(Listening {
            io: io.clone(),
            core: core.clone(),
            address,
            backlog: RefCell::default(),
            waiting: WaitList::default(),
        });
        let mut listeners = world.net.listeners.borrow_mut();
        let sharing = listeners.entry(address).or_default();
        let clashes = sharing.iter().any(|other| {
            other.core.index() == core.index() || other.core.machine().number() != core.machine().number()
        });
        if clashes {
            return Err(ErrorKind::AddrInUse.into());
        }
        sharing.push(listening.clone());
        drop(listeners);
        Ok(Self { world: world.clone(), listening })
    }

    pub(in crate::ring) fn poll_accept(&self) -> Poll<io::Result<SimStream>> {
        let next = self.listening.backlog.borrow_mut().pop_front();
        match next {
            Some(stream) => Poll::Ready(Ok(stream)),
            None => {
                self.listening.waiting.wait(self.listening.io.current_task());
                Poll::Pending
            }
        }
    }

    pub(in crate::ring) fn local_address(&self) -> SocketAddr {
        self.listening.address
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut listeners = self.world.net.listeners.borrow_mut();
        if let Some(sharing) = listeners.get_mut(&self.listening.address) {
            sharing.retain(|listening| !Rc::ptr_eq(listening, &self.listening));
            if sharing.is_empty() {
                listeners.remove(&self.listening.address);
            }
        }
        drop(listeners);
        let backlog = std::mem::take(&mut *self.listening.backlog.borrow_mut());
        drop(backlog);
    }
}

const BACKLOG_MAX: usize = 128;
const EPHEMERAL_PORT_MIN: u16 = 32_768;
const EPHEMERAL_PORTS: u16 = 28_000;
const POWER_CUT_NOTICED_NS_MAX: u64 = 2_000_000_000;
