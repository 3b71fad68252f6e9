//! A simulated connection: two pipes of bytes with bounded windows.
//!
//! ```text
//! poll_send -> under way -> (after a delay, in pieces of any size) -> arrived -> poll_receive
//!              |<------------------- window_bytes at most ------------------>|
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::ring::io::Io;
use crate::ring::sim::core::CoreState;
use crate::ring::sim::file::checksum;
use crate::ring::sim::world::World;
use crate::ring::task::TaskId;

/// A connection between two ends: 0 connected, 1 accepted.
pub(in crate::ring::sim) struct Connection {
    pub(in crate::ring::sim) ends: [End; 2],
    /// `pipes[end]` carries what `end` sends.
    pub(in crate::ring::sim) pipes: [RefCell<Pipe>; 2],
}

/// Whose end it is.
pub(in crate::ring::sim) struct End {
    pub(in crate::ring::sim) io: Io,
    pub(in crate::ring::sim) core: Rc<CoreState>,
    pub(in crate::ring::sim) address: SocketAddr,
}

/// One direction.
pub(in crate::ring::sim) struct Pipe {
    under_way: VecDeque<u8>,
    arrived: VecDeque<Vec<u8>>,
    arrived_bytes: usize,
    window_bytes: usize,
    /// A delivery is scheduled.
    is_moving: bool,
    /// The sender has closed: the end follows what is under way.
    is_closed: bool,
    end_arrived: bool,
    /// Nobody receives any more: what arrives is answered with a reset.
    is_deaf: bool,
    is_reset: bool,
    receiver: TaskId,
    sender: TaskId,
}

impl Pipe {
    fn new(world: &World) -> Self {
        // From a starved socket to a roomy one.
        let window_bytes = 1 << world.random.between(9, 19);
        Self {
            under_way: VecDeque::new(),
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            window_bytes,
            is_moving: false,
            is_closed: false,
            end_arrived: false,
            is_deaf: false,
            is_reset: false,
            receiver: TaskId::NONE,
            sender: TaskId::NONE,
        }
    }

    pub(in crate::ring::sim) fn is_reset(&self) -> bool {
        self.is_reset
    }

    pub(in crate::ring::sim) fn end_arrived(&self) -> bool {
        self.end_arrived
    }

    /// Bytes that may be sent now.
    pub(in crate::ring::sim) fn free_bytes(&self) -> usize {
        self.window_bytes - self.under_way.len() - self.arrived_bytes
    }

    pub(in crate::ring::sim) fn wait_to_receive(&mut self, task: TaskId) {
        self.receiver = task;
    }

    pub(in crate::ring::sim) fn wait_to_send(&mut self, task: TaskId) {
        self.sender = task;
    }

    /// Takes at most `count_max` of the bytes that arrived next; empty where none have.
    fn take(&mut self, count_max: usize) -> Vec<u8> {
        let Some(mut piece) = self.arrived.pop_front() else { return Vec::new() };
        if piece.len() > count_max {
            let rest = piece.split_off(count_max);
            self.arrived.push_front(rest);
        }
        self.arrived_bytes -= piece.len();
        piece
    }
}

impl Connection {
    pub(in crate::ring::sim) fn new(world: &World, client: End, server: End) -> Self {
        Self { ends: [client, server], pipes: [RefCell::new(Pipe::new(world)), RefCell::new(Pipe::new(world))] }
    }

    /// Puts `bytes` on their way; they fit in the window.
    pub(in crate::ring::sim) fn send(self: &Rc<Self>, world: &World, end: usize, bytes: &[u8]) {
        let mut pipe = self.pipes[end].borrow_mut();
        debug_assert!(bytes.len() <= pipe.free_bytes());
        pipe.under_way.extend(bytes);
        self.keep_moving(world, end, &mut pipe);
    }

    /// Takes what arrived at `end`; empty where nothing has.
    pub(in crate::ring::sim) fn receive(&self, end: usize, count_max: usize) -> Vec<u8> {
        let other = 1 - end;
        let (piece, sender) = {
            let mut pipe = self.pipes[other].borrow_mut();
            let piece = pipe.take(count_max);
            (piece, pipe.sender)
        };
        if !piece.is_empty() {
            self.ends[other].io.wake(sender);
        }
        piece
    }

    /// `end` closes: the other gets what was sent, then the end of the stream; what it still sends is answered with a
    /// reset.
    pub(in crate::ring::sim) fn close(self: &Rc<Self>, world: &World, end: usize) {
        world.trace("close", self.ends[end].core.number(), end as u64);
        let mut sent = self.pipes[end].borrow_mut();
        sent.is_closed = true;
        self.keep_moving(world, end, &mut sent);
        drop(sent);
        self.cut(end);
    }

    /// `end` is no longer there to receive.
    pub(in crate::ring::sim) fn cut(&self, end: usize) {
        let mut received = self.pipes[1 - end].borrow_mut();
        received.is_deaf = true;
        received.arrived.clear();
        received.arrived_bytes = 0;
        let sender = received.sender;
        drop(received);
        self.ends[1 - end].io.wake(sender);
    }

    /// Of what `end` has sent, only the first part gets through: the rest was still in its memory.
    pub(in crate::ring::sim) fn lose_under_way(&self, world: &World, end: usize) {
        let mut pipe = self.pipes[end].borrow_mut();
        let kept_count = world.random.index(pipe.under_way.len() + 1);
        pipe.under_way.truncate(kept_count);
    }

    /// Both ends get an error; what has arrived can still be received.
    pub(in crate::ring::sim) fn reset(&self, world: &World) {
        world.trace("reset", self.ends[0].core.number(), self.ends[1].core.number());
        for end in 0..2 {
            let mut pipe = self.pipes[end].borrow_mut();
            if pipe.end_arrived && pipe.is_deaf {
                continue;
            }
            pipe.is_reset = true;
            pipe.under_way.clear();
            let (sender, receiver) = (pipe.sender, pipe.receiver);
            drop(pipe);
            self.ends[end].io.wake(sender);
            self.ends[1 - end].io.wake(receiver);
        }
    }

    fn keep_moving(self: &Rc<Self>, world: &World, end: usize, pipe: &mut Pipe) {
        let has_end = pipe.is_closed && !pipe.end_arrived;
        if pipe.is_moving || pipe.is_reset || (pipe.under_way.is_empty() && !has_end) {
            return;
        }
        pipe.is_moving = true;
        let connection = self.clone();
        let delay_ns = world.draw_delay(world.delays.network_ns);
        world.schedule(None, delay_ns, "deliver", move |world| connection.deliver(world, end));
    }

    /// A piece of what `end` sent arrives.
    fn deliver(self: &Rc<Self>, world: &Rc<World>, end: usize) {
        let mut pipe = self.pipes[end].borrow_mut();
        pipe.is_moving = false;
        if pipe.is_reset {
            return;
        }
        if world.random.chance(world.faults.get().stream_reset_per_million) {
            drop(pipe);
            return self.reset(world);
        }
        let count = draw_piece_bytes(world).min(pipe.under_way.len());
        let piece: Vec<u8> = pipe.under_way.drain(..count).collect();
        world.trace("piece", checksum(&piece), count as u64);
        if pipe.is_deaf && count > 0 {
            drop(pipe);
            return self.reset(world);
        }
        if count > 0 {
            pipe.arrived_bytes += count;
            pipe.arrived.push_back(piece);
        }
        if pipe.under_way.is_empty() && pipe.is_closed {
            pipe.end_arrived = true;
        }
        self.keep_moving(world, end, &mut pipe);
        let receiver = pipe.receiver;
        drop(pipe);
        self.ends[1 - end].io.wake(receiver);
    }
}

/// How much arrives at once: a few bytes, a packet, or a lot.
fn draw_piece_bytes(world: &World) -> usize {
    let most = match world.random.below(8) {
        0 => 16,
        1..4 => 1460,
        _ => 64 * 1024,
    };
    world.random.between(1, most) as usize
}
