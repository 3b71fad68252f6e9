//! One end of a simulated connection.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use crate::ring::buffer::Buffer;
use crate::ring::io::{File, Part, SendQueue};
use crate::ring::sim::pipe::Connection;
use crate::ring::sim::world::World;

/// A connected socket of one core.
pub struct SimStream {
    world: Rc<World>,
    connection: Rc<Connection>,
    end: usize,
}

impl SimStream {
    pub(in crate::ring::sim) fn new(world: Rc<World>, connection: Rc<Connection>, end: usize) -> Self {
        Self { world, connection, end }
    }

    pub(in crate::ring) fn poll_receive(&self) -> Poll<io::Result<Buffer>> {
        if self.draws_pause() {
            return Poll::Pending;
        }
        let piece = self.connection.receive(self.end, RECEIVE_BYTES_MAX);
        if !piece.is_empty() {
            return Poll::Ready(Ok(Buffer::from_vec(piece)));
        }
        match self.poll_end() {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(Buffer::from_vec(Vec::new()))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    pub(in crate::ring) fn poll_receive_into(&self, buffer: &mut Buffer, filled: &mut usize) -> Poll<io::Result<()>> {
        let mut budget_bytes = self.draw_budget();
        while *filled < buffer.len() {
            if budget_bytes == 0 {
                self.poll_again();
                return Poll::Pending;
            }
            let piece = self.connection.receive(self.end, budget_bytes.min(buffer.len() - *filled));
            if piece.is_empty() {
                return self.poll_end().map(|ended| ended.and(Err(ErrorKind::UnexpectedEof.into())));
            }
            buffer[*filled..*filled + piece.len()].copy_from_slice(&piece);
            *filled += piece.len();
            budget_bytes -= piece.len();
        }
        Poll::Ready(Ok(()))
    }

    pub(in crate::ring) fn poll_send(&self, queue: &mut SendQueue) -> Poll<io::Result<()>> {
        let mut budget_bytes = self.draw_budget();
        loop {
            if self.connection.pipes[self.end].borrow().is_reset() {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
            let Some(part) = queue.parts.front() else { return Poll::Ready(Ok(())) };
            if budget_bytes == 0 {
                self.poll_again();
                return Poll::Pending;
            }
            let free_bytes = self.connection.pipes[self.end].borrow().free_bytes();
            if free_bytes == 0 {
                let task = self.connection.ends[self.end].io.current_task();
                self.connection.pipes[self.end].borrow_mut().wait_to_send(task);
                return Poll::Pending;
            }
            let count_max = free_bytes.min(budget_bytes);
            let (sent_bytes, is_whole) = match self.send_of(part, queue.sent_bytes, count_max) {
                Ok(sent) => sent,
                Err(error) => return Poll::Ready(Err(error)),
            };
            budget_bytes -= sent_bytes;
            queue.queued_bytes -= sent_bytes as u64;
            queue.sent_bytes += sent_bytes as u64;
            if is_whole {
                queue.sent_bytes = 0;
                queue.parts.pop_front();
            }
        }
    }

    pub(in crate::ring) fn peer_address(&self) -> SocketAddr {
        self.connection.ends[1 - self.end].address
    }

    /// Sends at most `count_max` bytes of `part` from `start`; says how many, and whether they were its last.
    fn send_of(&self, part: &Part, start: u64, count_max: usize) -> io::Result<(usize, bool)> {
        match part {
            Part::Bytes(bytes) => {
                let start = start as usize;
                let count = count_max.min(bytes.len() - start);
                self.connection.send(&self.world, self.end, &bytes[start..start + count]);
                Ok((count, start + count == bytes.len()))
            }
            Part::File { file: File::Sim(file), position_bytes, len_bytes } => {
                let count = usize::try_from(len_bytes - start).unwrap_or(usize::MAX).min(count_max);
                let mut bytes = vec![0; count];
                // What the page cache holds now, as sendfile does.
                if file.node().read(position_bytes + start, &mut bytes) < count {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                self.connection.send(&self.world, self.end, &bytes);
                Ok((count, start + count as u64 == *len_bytes))
            }
            Part::File { .. } => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Nothing more has arrived: the end, an error, or a wait.
    fn poll_end(&self) -> Poll<io::Result<()>> {
        let task = self.connection.ends[self.end].io.current_task();
        let mut pipe = self.connection.pipes[1 - self.end].borrow_mut();
        if pipe.is_reset() {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        if pipe.end_arrived() {
            return Poll::Ready(Ok(()));
        }
        pipe.wait_to_receive(task);
        Poll::Pending
    }

    /// Bytes this turn may move.
    fn draw_budget(&self) -> usize {
        if self.world.random.below(8) == 0 { self.world.random.index(4096) } else { TURN_BYTES_MAX }
    }

    /// Now and then a turn's budget is used up before anything has moved.
    fn draws_pause(&self) -> bool {
        let pauses = self.world.random.below(16) == 0;
        if pauses {
            self.poll_again();
        }
        pauses
    }

    fn poll_again(&self) {
        let io = &self.connection.ends[self.end].io;
        io.wake(io.current_task());
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        // A core that has crashed closes nothing: the world ended its connections as the crash has it.
        if self.connection.ends[self.end].core.is_alive() {
            self.connection.close(&self.world, self.end);
        }
    }
}

const RECEIVE_BYTES_MAX: usize = 16 * 1024;
const TURN_BYTES_MAX: usize = 256 * 1024;
