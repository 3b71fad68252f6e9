//! The one `match` on the API key.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use crate::api::fetch_session::FetchSessions;
use crate::api::reply::Outcome;
use crate::api::{
    cluster, configs, coordinator, fetch, list_offsets, metadata, produce, producer_id, topics, versions,
};
use crate::ring::buffer::Buffer;
use crate::shard::core::Shard;
use crate::wire::api_keys::ApiKey;
use crate::wire::frame::{FrameError, RequestHeader};

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

/// A request whose header was read; its API and version may still be unknown here.
pub struct Request {
    /// Its header.
    pub context: RequestContext,
    /// Its body, and only that.
    pub body: Buffer,
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
}

/// Reads the header of a frame and checks that the API is served in that version.
///
/// # Errors
/// Kafka closes the connection on each.
pub fn parse(mut frame: Buffer) -> Result<Request, RequestError> {
    let (context, body_start) = {
        let header = RequestHeader::parse(&frame)?;
        let context = RequestContext {
            api_key: header.api_key,
            api_version: header.api_version,
            correlation_id: header.correlation_id,
        };
        (context, header.body_start)
    };
    let served = versions::range_of(context.api_key).ok_or(RequestError::NotServed { name: context.api_key.name() })?;
    if !served.contains(context.api_version) && context.api_key != ApiKey::ApiVersions {
        return Err(RequestError::Version {
            name: context.api_key.name(),
            version: context.api_version,
            min: served.min,
            max: served.max,
        });
    }
    // Decoding a message that is all tiny elements takes up to sixteen times its bytes; records alone need large frames.
    if context.api_key != ApiKey::Produce && frame.len() > MESSAGE_BYTES_MAX {
        return Err(RequestError::TooLarge { name: context.api_key.name(), len_bytes: frame.len() });
    }
    frame.advance(body_start);
    Ok(Request { context, body: frame })
}

/// Why a request is not looked at; its connection closes.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The header makes no sense.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A request that this server does not have.
    #[error("{name} is not served here; clients see what is by ApiVersions")]
    NotServed {
        /// The API.
        name: &'static str,
    },
    /// Longer than any request without records has reason to be.
    #[error(
        "a {name} request of {len_bytes} bytes; requests without records have {MESSAGE_BYTES_MAX} at most here: ask for less at once"
    )]
    TooLarge {
        /// The API.
        name: &'static str,
        /// Length of the frame.
        len_bytes: usize,
    },
    /// A version that this server does not have.
    #[error(
        "{name} version {version} is not served here, {min} to {max} are; upgrade the client if it is older than Kafka 2.1"
    )]
    Version {
        /// The API.
        name: &'static str,
        /// What was asked.
        version: i16,
        /// The lowest served.
        min: i16,
        /// The highest served.
        max: i16,
    },
}

/// Answers one request. Its first poll reserves what its order matters for.
pub async fn handle(api: Rc<Api>, connection: Rc<ConnectionState>, request: Request) -> Outcome {
    let Request { context, body } = request;
    match context.api_key {
        ApiKey::Produce => produce::handle(&api, &connection, &context, body).await,
        ApiKey::Fetch => fetch::handle(&api, &context, &body).await,
        ApiKey::ListOffsets => list_offsets::handle(api.shard(), &context, &body),
        ApiKey::Metadata => metadata::handle(api.shard(), &context, &body).await,
        ApiKey::FindCoordinator => coordinator::handle(&context, &body),
        ApiKey::ApiVersions
            if versions::range_of(ApiKey::ApiVersions).is_some_and(|served| served.contains(context.api_version)) =>
        {
            versions::handle(&context, &body)
        }
        ApiKey::ApiVersions => versions::handle_unknown_version(&context),
        ApiKey::CreateTopics => topics::create(api.shard(), &context, &body).await,
        ApiKey::DeleteTopics => topics::delete(api.shard(), &context, &body).await,
        ApiKey::InitProducerId => producer_id::handle(api.shard(), &context, &body).await,
        ApiKey::DescribeConfigs => configs::describe(api.shard(), &context, &body),
        ApiKey::DescribeCluster => cluster::handle(api.shard(), &context, &body),
        other => Outcome::Close(format!("{} is not served here", other.name())),
    }
}

/// Longest request without records: a fetch of 200,000 partitions fits.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
