//! What requests share: their core, their connection, their header.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Poll;

use crate::api::fetch_session::FetchSessions;
use crate::shard::core::Shard;
use crate::wire::api_keys::ApiKey;

/// What the requests of one core share.
pub struct Api {
    shard: Rc<Shard>,
    sessions: RefCell<FetchSessions>,
}

impl Api {
    /// For a core that serves.
    pub fn new(shard: Rc<Shard>) -> Rc<Self> {
        let sessions = FetchSessions::new(shard.core_index(), shard.options().fetch_sessions_max);
        Rc::new(Self { shard, sessions: RefCell::new(sessions) })
    }

    /// The core.
    pub fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    /// Its fetch sessions; never borrowed across an await.
    pub fn sessions(&self) -> &RefCell<FetchSessions> {
        &self.sessions
    }
}

/// What the requests of one connection share.
pub struct ConnectionState {
    peer: SocketAddr,
    /// The listener it came in by; there is one kind now, and Metadata answers for it.
    listener: &'static str,
    /// Produce requests take the next ticket when they arrive, and plan their appends in the order of tickets.
    next_ticket: Cell<u64>,
    served_ticket: Cell<u64>,
}

impl ConnectionState {
    /// For a connection from `peer`.
    pub fn new(peer: SocketAddr) -> Self {
        Self { peer, listener: "PLAINTEXT", next_ticket: Cell::new(0), served_ticket: Cell::new(0) }
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The client's address as Kafka writes it into groups: Java's text of it.
    pub fn client_host(&self) -> String {
        match self.peer.ip() {
            IpAddr::V4(address) => format!("/{address}"),
            IpAddr::V6(address) => {
                let segments: Vec<String> = address.segments().iter().map(|segment| format!("{segment:x}")).collect();
                format!("/{}", segments.join(":"))
            }
        }
    }

    /// Name of the listener.
    pub fn listener(&self) -> &'static str {
        self.listener
    }

    /// A place in the order of this connection's appends; to be taken before the first await.
    pub fn take_ticket(self: &Rc<Self>) -> Ticket {
        let number = self.next_ticket.get();
        self.next_ticket.set(number + 1);
        Ticket { state: self.clone(), number }
    }
}

/// A place in the order of one connection's appends. Dropping it lets the next go on.
pub struct Ticket {
    state: Rc<ConnectionState>,
    number: u64,
}

impl Ticket {
    /// Waits until all with an earlier ticket have planned. The connection polls its requests in their order, each time
    /// that any of them is woken, so nobody has to be told.
    pub async fn wait_turn(&self) {
        poll_fn(|_| if self.state.served_ticket.get() == self.number { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Requests of a connection are dropped oldest first, or all together.
        self.state.served_ticket.set(self.state.served_ticket.get().max(self.number + 1));
    }
}

/// The header of a request.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The API.
    pub api_key: ApiKey,
    /// The version of the body.
    pub api_version: i16,
    /// Goes back with the reply.
    pub correlation_id: i32,
    /// What the client calls itself. Kept for requests of groups and transactions; for a Produce only where it is
    /// [`ADMIN_CLIENT_ID`].
    pub client_id: Option<String>,
}

/// Kafka's own tools write to internal topics under this name.
pub const ADMIN_CLIENT_ID: &str = "__admin_client";
