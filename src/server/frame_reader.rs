//! Cuts a connection's bytes into request frames, without copying.
//!
//! A frame that lies whole in one receive buffer is handed on as a range of it. A frame that straddles buffers gets
//! memory of its own, reserved at its whole length before the rest is read: the head (at most one receive buffer) is
//! copied, the rest is received straight behind it.

use std::io;
use std::rc::Rc;
use std::task::Poll;

use crate::ring::buffer::Buffer;
use crate::ring::io::{Io, Stream};
use crate::ring::task::TaskId;
use crate::shard::memory::{MemoryBudget, Reservation};

/// The request frames of one connection.
pub struct FrameReader {
    io: Io,
    memory: Rc<MemoryBudget>,
    frame_bytes_max: u32,
    /// Received and not yet handed on.
    chunk: Option<Buffer>,
    state: State,
    /// The task that waits for memory.
    waiting: Option<TaskId>,
}

enum State {
    /// Collecting the length of a frame whose first bytes ended a receive buffer.
    Length { bytes: [u8; LENGTH_BYTES], have: usize },
    /// The length is known; memory for the frame is asked for.
    Reserve { len_bytes: usize },
    /// The frame fills up.
    Body { frame: Buffer, filled: usize, reservation: Reservation },
}

/// One request: what stands behind its length field.
pub struct Frame {
    /// The frame's bytes, header first.
    pub bytes: Buffer,
    /// The memory it holds of the core's budget; given back when dropped. Frames inside a receive buffer hold none.
    pub reservation: Option<Reservation>,
}

/// Why a connection cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length field is negative, zero or over the limit; or the peer speaks HTTP or TLS.
    #[error(
        "frame of {len_bytes} bytes ({hint}); frames here have 1 to {len_bytes_max} bytes (socket.request.max.bytes)"
    )]
    Length {
        /// The length as read.
        len_bytes: i32,
        /// The limit.
        len_bytes_max: u32,
        /// What the peer seems to speak.
        hint: &'static str,
    },
    /// The stream ended inside a frame.
    #[error("the peer closed the connection inside a frame, {missing_bytes} bytes short")]
    Cut {
        /// Bytes that were still to come.
        missing_bytes: usize,
    },
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
}

impl FrameReader {
    /// A reader at the start of a stream.
    pub fn new(io: Io, memory: Rc<MemoryBudget>, frame_bytes_max: u32) -> Self {
        Self {
            io,
            memory,
            frame_bytes_max,
            chunk: None,
            state: State::Length { bytes: [0; LENGTH_BYTES], have: 0 },
            waiting: None,
        }
    }

    /// True in the middle of a frame: something of it was read, something is missing.
    pub fn inside_frame(&self) -> bool {
        !matches!(self.state, State::Length { have: 0, .. })
    }

    /// True while a frame that is not whole holds memory of the core's budget.
    pub fn holds_memory(&self) -> bool {
        matches!(self.state, State::Body { .. })
    }

    /// The next frame; `None` when the peer closed the stream between two frames.
    ///
    /// # Errors
    /// After one, the connection is to be closed.
    pub fn poll_frame(&mut self, stream: &Stream) -> Poll<Result<Option<Frame>, FrameError>> {
        loop {
            match &mut self.state {
                State::Length { bytes, have } => {
                    let Some(chunk) = self.chunk.as_mut() else {
                        match stream.poll_receive()? {
                            Poll::Pending => return Poll::Pending,
                            Poll::Ready(chunk) if chunk.is_empty() => {
                                return Poll::Ready(match *have {
                                    0 => Ok(None),
                                    have => Err(FrameError::Cut { missing_bytes: LENGTH_BYTES - have }),
                                });
                            }
                            Poll::Ready(chunk) => self.chunk = Some(chunk),
                        }
                        continue;
                    };
                    let take = chunk.len().min(LENGTH_BYTES - *have);
                    bytes[*have..*have + take].copy_from_slice(&chunk[..take]);
                    *have += take;
                    chunk.advance(take);
                    if *have == LENGTH_BYTES {
                        let len_bytes = check_length(*bytes, self.frame_bytes_max)?;
                        self.state = State::Reserve { len_bytes };
                    }
                    if self.chunk.as_ref().is_some_and(|chunk| chunk.is_empty()) {
                        self.chunk = None;
                    }
                }
                State::Reserve { len_bytes } => {
                    let len_bytes = *len_bytes;
                    if let Some(chunk) = self.chunk.as_mut()
                        && chunk.len() >= len_bytes
                    {
                        let bytes = chunk.split_to(len_bytes);
                        if chunk.is_empty() {
                            self.chunk = None;
                        }
                        self.state = State::Length { bytes: [0; LENGTH_BYTES], have: 0 };
                        return Poll::Ready(Ok(Some(Frame { bytes, reservation: None })));
                    }
                    let Poll::Ready(reservation) = self.memory.poll_reserve(&self.io, len_bytes) else {
                        self.waiting = Some(self.io.current_task());
                        return Poll::Pending;
                    };
                    self.waiting = None;
                    let mut frame = self.io.buffer(len_bytes);
                    let mut filled = 0;
                    if let Some(chunk) = self.chunk.take() {
                        frame[..chunk.len()].copy_from_slice(&chunk);
                        filled = chunk.len();
                    }
                    self.state = State::Body { frame, filled, reservation };
                }
                State::Body { frame, filled, .. } => {
                    match stream.poll_receive_into(frame, filled) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                            return Poll::Ready(Err(FrameError::Cut { missing_bytes: frame.len() - *filled }));
                        }
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                    }
                    let fresh = State::Length { bytes: [0; LENGTH_BYTES], have: 0 };
                    let State::Body { frame, reservation, .. } = std::mem::replace(&mut self.state, fresh) else {
                        unreachable!("the state was just matched as a body");
                    };
                    return Poll::Ready(Ok(Some(Frame { bytes: frame, reservation: Some(reservation) })));
                }
            }
        }
    }
}

impl Drop for FrameReader {
    fn drop(&mut self) {
        if let Some(task) = self.waiting {
            self.memory.forget(&self.io, task);
        }
    }
}

/// The length of a frame, if it is one.
fn check_length(bytes: [u8; LENGTH_BYTES], len_bytes_max: u32) -> Result<usize, FrameError> {
    let len_bytes = i32::from_be_bytes(bytes);
    match usize::try_from(len_bytes) {
        Ok(len) if len > 0 && len <= len_bytes_max as usize => Ok(len),
        _ => Err(FrameError::Length { len_bytes, len_bytes_max, hint: hint_of(bytes) }),
    }
}

/// What a wrong first word looks like, to spare the operator the guess.
fn hint_of(bytes: [u8; LENGTH_BYTES]) -> &'static str {
    match &bytes {
        b"GET " | b"POST" | b"PUT " | b"HEAD" | b"OPTI" | b"DELE" | b"CONN" => "this is HTTP, not Kafka's protocol",
        [0x16, 0x03, ..] => "this is TLS; this listener is plaintext: set the client to security.protocol=PLAINTEXT",
        _ => "not a frame of Kafka's protocol",
    }
}

const LENGTH_BYTES: usize = 4;
