//! One client's connection: frames in, replies out in order, bounded.
//!
//! Requests of one connection are taken up in their order and may be under way together (an append that waits for its
//! sync does not hold up the next); replies leave in the order of the requests. One task does all of it: it reads while
//! there is room, polls what is under way, and sends what is at the front.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tracing::{debug, info};

use crate::api::context::{Api, ConnectionState};
use crate::api::dispatch::{self, Handling};
use crate::api::reply::Outcome;
use crate::ring::io::{Stream, WakeAt};
use crate::ring::send_queue::{Part, SendQueue};
use crate::ring::timer::Nanos;
use crate::server::frame_reader::{Frame, FrameError, FrameReader};
use crate::shard::core::Shard;
use crate::shard::memory::Reservation;

/// Serves one connection until either side closes it, the server stops, or it breaks a rule.
pub async fn serve(api: Rc<Api>, stream: Stream) {
    let shard = api.shard().clone();
    let peer = stream.peer_address();
    shard.counters().connections_opened.add(1);
    let mut connection = Connection::new(api, stream);
    let ended = connection.run().await;
    shard.counters().connections_closed.add(1);
    match ended {
        Ended::Closed => debug!(%peer, "connection closed"),
        Ended::Stopping => debug!(%peer, "connection closed: the server stops"),
        Ended::Idle => debug!(%peer, "connection closed: idle (connections.max.idle.ms)"),
        Ended::Broken(reason) => info!(%peer, reason, "connection closed"),
    }
}

/// Why a connection ended.
enum Ended {
    Closed,
    Stopping,
    Idle,
    Broken(String),
}

struct Connection {
    api: Rc<Api>,
    shard: Rc<Shard>,
    stream: Stream,
    state: Rc<ConnectionState>,
    frames: FrameReader,
    /// Requests under way, oldest first.
    under_way: VecDeque<UnderWay>,
    send_queue: SendQueue,
    /// No more requests are taken up; what is under way is still answered.
    read_closed: bool,
    /// Why, where it is more than the peer's closing.
    ending: Option<Ended>,
    active_at: Nanos,
    /// When the frame that is being read began; it has a deadline.
    frame_began_at: Option<Nanos>,
    frame_timer: Option<WakeAt>,
    /// What is still to be sent of replies that hold memory of the tier, and since when it is that much.
    reply_left: (u64, Nanos),
    reply_timer: Option<(Nanos, WakeAt)>,
    look_idle_at: Nanos,
    idle_timer: Option<WakeAt>,
}

enum UnderWay {
    Running {
        handling: Handling,
        /// The memory of its frame, held to its end.
        _frame: Option<Reservation>,
    },
    Finished(Outcome),
}

impl Connection {
    fn new(api: Rc<Api>, stream: Stream) -> Self {
        let shard = api.shard().clone();
        let io = shard.io().clone();
        let frame_bytes_max = shard.options().request_bytes_max;
        Self {
            frames: FrameReader::new(io.clone(), shard.memory().clone(), frame_bytes_max),
            state: Rc::new(ConnectionState::new(stream.peer_address())),
            active_at: io.now(),
            api,
            shard,
            stream,
            under_way: VecDeque::new(),
            send_queue: SendQueue::default(),
            read_closed: false,
            ending: None,
            frame_began_at: None,
            frame_timer: None,
            reply_left: (0, Nanos::default()),
            reply_timer: None,
            look_idle_at: Nanos::default(),
            idle_timer: None,
        }
    }

    async fn run(&mut self) -> Ended {
        self.shard.note_stopping();
        let ended = poll_fn(|_| match self.poll() {
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => self.poll_deadlines(),
        })
        .await;
        self.shard.forget_stopping();
        ended
    }

    /// Ends an idle connection, and one that holds memory for a frame that does not come.
    fn poll_deadlines(&mut self) -> Poll<Ended> {
        let io = self.shard.io();
        match self.frame_began_at.filter(|_| self.frames.holds_memory()) {
            None => self.frame_timer = None,
            Some(began_at) if io.now() >= began_at.plus_ms(FRAME_MS_MAX) => {
                return Poll::Ready(Ended::Broken(format!(
                    "a request was not received whole within {FRAME_MS_MAX} ms"
                )));
            }
            Some(began_at) => {
                self.frame_timer.get_or_insert_with(|| io.wake_at(began_at.plus_ms(FRAME_MS_MAX)));
            }
        }
        let now = io.now();
        if !self.send_queue.holds_shared() {
            self.reply_timer = None;
        } else {
            let left_bytes = self.send_queue.queued_bytes();
            if self.reply_timer.is_none() || left_bytes != self.reply_left.0 {
                self.reply_left = (left_bytes, now);
            }
            let deadline = self.reply_left.1.plus_ms(REPLY_MS_MAX);
            if now >= deadline {
                return Poll::Ready(Ended::Broken(format!(
                    "a reply that holds memory of the tier was not taken for {REPLY_MS_MAX} ms"
                )));
            }
            // As with the idle timer: set anew only when it fires.
            if self.reply_timer.as_ref().is_none_or(|(at, _)| now >= *at) {
                self.reply_timer = Some((deadline, io.wake_at(deadline)));
            }
        }
        if now < self.look_idle_at {
            return Poll::Pending;
        }
        // The timer is set anew only when it fires: a busy connection does not move it with each request.
        let idle_ms_max = self.shard.options().connection_idle_ms_max;
        let active_at = if self.under_way.is_empty() { self.active_at } else { now };
        if now >= active_at.plus_ms(idle_ms_max) {
            return Poll::Ready(Ended::Idle);
        }
        self.look_idle_at = active_at.plus_ms(idle_ms_max);
        self.idle_timer = Some(io.wake_at(self.look_idle_at));
        Poll::Pending
    }

    /// Does what can be done now. Pending: everything that can change this has noted the task.
    fn poll(&mut self) -> Poll<Ended> {
        loop {
            self.read();
            // Requests may lie received and not taken up: nothing will arrive that could wake the task for them.
            let was_full = !self.has_room();
            self.poll_under_way();
            match self.stream.poll_send(&mut self.send_queue) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Ended::Closed),
                Poll::Pending => {
                    if was_full && self.has_room() {
                        self.shard.io().wake(self.shard.io().current_task());
                    }
                    return Poll::Pending;
                }
            }
            if self.under_way.is_empty() && self.read_closed {
                return Poll::Ready(self.ending.take().unwrap_or(Ended::Closed));
            }
            if self.under_way.is_empty() && self.shard.is_stopping() {
                return Poll::Ready(Ended::Stopping);
            }
            if !(was_full && self.has_room()) {
                return Poll::Pending;
            }
        }
    }

    /// True while another request may be taken up.
    fn has_room(&self) -> bool {
        self.under_way.len() < REQUESTS_UNDER_WAY_MAX && self.send_queue.memory_bytes() < REPLY_BYTES_MAX
    }

    /// No more requests are taken up; the connection closes when what is under way was answered.
    fn end(&mut self, ending: Ended) {
        self.read_closed = true;
        self.ending = Some(ending);
    }

    /// Takes up the requests that have arrived, while there is room for more.
    fn read(&mut self) {
        let mut taken = 0;
        while self.has_room() && !self.read_closed && !self.shard.is_stopping() {
            let frame = match self.frames.poll_frame(&self.stream) {
                Poll::Pending => {
                    self.note_unfinished_frame();
                    return;
                }
                Poll::Ready(Ok(Some(frame))) => frame,
                Poll::Ready(Ok(None)) => return self.end(Ended::Closed),
                Poll::Ready(Err(FrameError::Socket(_))) => return self.end(Ended::Closed),
                Poll::Ready(Err(error)) => return self.end(Ended::Broken(error.to_string())),
            };
            self.frame_began_at = None;
            self.active_at = self.shard.io().now();
            self.start(frame);
            taken += 1;
            if taken >= REQUESTS_A_TURN_MAX {
                self.shard.io().wake(self.shard.io().current_task());
                return;
            }
        }
    }

    fn note_unfinished_frame(&mut self) {
        if !self.frames.inside_frame() {
            self.frame_began_at = None;
        } else if self.frame_began_at.is_none() {
            self.frame_began_at = Some(self.shard.io().now());
        }
    }

    /// Starts one request. It is polled at once: this is where offsets are reserved, so requests keep their order.
    fn start(&mut self, frame: Frame) {
        let request = match dispatch::parse(frame.bytes) {
            Ok(request) => request,
            Err(error) => return self.end(Ended::Broken(error.to_string())),
        };
        let mut handling = dispatch::handle(self.api.clone(), self.state.clone(), request);
        self.under_way.push_back(match poll_once(&mut handling) {
            Poll::Ready(outcome) => UnderWay::Finished(outcome),
            Poll::Pending => UnderWay::Running { handling, _frame: frame.reservation },
        });
    }

    /// Polls what is under way, and queues the replies that are at the front.
    fn poll_under_way(&mut self) {
        for under_way in &mut self.under_way {
            if let UnderWay::Running { handling, .. } = under_way
                && let Poll::Ready(outcome) = poll_once(handling)
            {
                *under_way = UnderWay::Finished(outcome);
            }
        }
        while let Some(UnderWay::Finished(_)) = self.under_way.front() {
            let Some(UnderWay::Finished(outcome)) = self.under_way.pop_front() else { break };
            self.active_at = self.shard.io().now();
            match outcome {
                Outcome::Bytes(bytes) => self.send_queue.push(Part::Bytes(bytes)),
                Outcome::Parts(parts) => parts.into_iter().for_each(|part| self.send_queue.push(part)),
                Outcome::NoReply => {}
                Outcome::Close(reason) => {
                    self.under_way.clear();
                    self.end(Ended::Broken(reason));
                }
            }
        }
    }
}

fn poll_once(handling: &mut Handling) -> Poll<Outcome> {
    // Nothing here looks at a waker: see `ring::task`.
    handling.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Requests of one connection under way at once; more wait in the socket.
const REQUESTS_UNDER_WAY_MAX: usize = 64;
/// Requests taken up before other connections have their turn.
const REQUESTS_A_TURN_MAX: usize = 16;
/// Bytes of replies in memory that a slow reader may leave behind before its requests wait (file ranges are not in memory).
const REPLY_BYTES_MAX: u64 = 1024 * 1024;
/// A reply that holds memory of the tier must go on by then: others wait for it.
const REPLY_MS_MAX: u64 = 30_000;
/// A frame that holds memory of the core must be whole by then.
const FRAME_MS_MAX: u64 = 30_000;
