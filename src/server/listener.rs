//! Accepts connections on one core, within the limits on their number.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;

use tracing::warn;

use crate::api::context::Api;
use crate::ring::io::{Listener, Stream};
use crate::ring::task::WaitList;
use crate::server::connection;

/// The connections of one core, counted.
pub struct Connections {
    count: Cell<usize>,
    by_address: RefCell<HashMap<IpAddr, usize, ahash::RandomState>>,
    /// Polled when the last one has ended.
    all_ended: WaitList,
}

impl Connections {
    /// None yet; `seed` is for the hashes.
    pub fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self {
            count: Cell::new(0),
            by_address: RefCell::new(HashMap::with_hasher(ahash::RandomState::with_seeds(seed, 1, 2, 3))),
            all_ended: WaitList::default(),
        })
    }

    /// Connections open.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// Who waits for the end of all connections.
    pub fn all_ended(&self) -> &WaitList {
        &self.all_ended
    }

    fn count_from(&self, address: IpAddr) -> usize {
        self.by_address.borrow().get(&address).copied().unwrap_or(0)
    }

    fn enter(&self, address: IpAddr) {
        self.count.set(self.count.get() + 1);
        *self.by_address.borrow_mut().entry(address).or_insert(0) += 1;
    }

    fn leave(&self, address: IpAddr) {
        assert!(self.count.get() > 0, "a connection ended that was not counted");
        self.count.set(self.count.get() - 1);
        let mut by_address = self.by_address.borrow_mut();
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }
}

/// Accepts until the server stops. A connection over a limit is closed at once; those that are open go on.
pub async fn accept(api: Rc<Api>, listener: Listener, connections: Rc<Connections>) {
    let shard = api.shard().clone();
    let mut refused = RefusalLog::default();
    loop {
        let accepted = poll_fn(|_| {
            if shard.is_stopping() {
                return Poll::Ready(None);
            }
            shard.note_stopping();
            listener.poll_accept().map(Some)
        })
        .await;
        match accepted {
            None => return,
            Some(Ok(stream)) => {
                if let Some(limit) = limit_reached(&api, &connections, &stream) {
                    shard.counters().connections_refused.add(1);
                    refused.note(shard.io().now().0, limit, &stream);
                    continue;
                }
                start(&api, stream, &connections);
            }
            Some(Err(error)) => {
                warn!(%error, "a connection could not be accepted; too few open files? see `ulimit -n`");
                // The next try would fail the same way until something is closed.
                shard.io().sleep_ms(ACCEPT_PAUSE_MS).await;
            }
        }
    }
}

fn start(api: &Rc<Api>, stream: Stream, connections: &Rc<Connections>) {
    let address = stream.peer_address().ip();
    connections.enter(address);
    let (api, connections) = (api.clone(), connections.clone());
    let io = api.shard().io().clone();
    io.clone().spawn(async move {
        connection::serve(api, stream).await;
        connections.leave(address);
        if connections.count() == 0 {
            io.wake_all(connections.all_ended());
        }
    });
}

/// The name of the limit that this connection is over.
fn limit_reached(api: &Api, connections: &Connections, stream: &Stream) -> Option<&'static str> {
    let options = api.shard().options();
    if connections.count() >= options.connections_max {
        return Some("max.connections");
    }
    if connections.count_from(stream.peer_address().ip()) >= options.connections_per_ip_max {
        return Some("max.connections.per.ip");
    }
    None
}

/// One line a second at most: a storm of connections is not to become a storm of lines.
#[derive(Default)]
struct RefusalLog {
    last_ns: Option<u64>,
    unsaid: u64,
}

impl RefusalLog {
    fn note(&mut self, now_ns: u64, limit: &'static str, stream: &Stream) {
        self.unsaid += 1;
        if self.last_ns.is_none_or(|last_ns| now_ns.saturating_sub(last_ns) > 1_000_000_000) {
            warn!(peer = %stream.peer_address(), limit, refused = self.unsaid, "connections refused by a limit; raise it with --set");
            self.last_ns = Some(now_ns);
            self.unsaid = 0;
        }
    }
}

const ACCEPT_PAUSE_MS: u64 = 100;
