//! How parts get to a socket: bytes by sendmsg, hot file ranges by sendfile, cold ones by way of a pipe.
//!
//! A core never waits for a disk here. A range that is not in the page cache is moved into a pipe by the ring (its
//! workers wait), and from the pipe to the socket by the core. Measured against the other ways in `tuning/`.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Poll, ready};

use crate::ring::buffer::Buffer;
use crate::ring::descriptor::Descriptor;
use crate::ring::io::{File, Io};
use crate::ring::operation::Operation;
use crate::ring::pipe::Pipe;
use crate::ring::request::{Payload, Request};
use crate::ring::residency::is_resident;
use crate::ring::ring_mask::RingMask;
use crate::ring::send_queue::{Part, SendQueue};
use crate::ring::syscall;
use crate::ring::uring::Ring;

/// The sending half of a connection.
pub(in crate::ring) struct Sender {
    io: Io,
    ring: Rc<Ring>,
    socket: Rc<Descriptor>,
    /// A poll in flight: the socket was full.
    writable: RefCell<Option<Operation>>,
    /// The socket holds short segments back.
    corked: Cell<bool>,
}

/// A cold piece of the first part of a [`SendQueue`], on its way. Dropped in the middle, its pipe is never used again.
pub(in crate::ring) struct LoadedPipe(Stage);

enum Stage {
    /// The ring moves file pages into a pipe or reads them into a buffer.
    Loading(Operation),
    Pipe(Pipe),
    /// Where the ring cannot splice: what was read, less what was sent.
    Buffer(Buffer),
}

/// What one step did.
enum Step {
    Sent(usize),
    /// A cold piece is loaded, or on its way.
    Again,
}

impl Sender {
    pub(in crate::ring) fn new(io: Io, ring: Rc<Ring>, socket: Rc<Descriptor>) -> Self {
        Self { io, ring, socket, writable: RefCell::new(None), corked: Cell::new(false) }
    }

    /// See [`crate::ring::io::Stream::poll_send`].
    pub(in crate::ring) fn poll_send(&self, queue: &mut SendQueue) -> Poll<io::Result<()>> {
        let mut budget = SEND_BUDGET_BYTES;
        while !queue.parts.is_empty() {
            if budget == 0 {
                self.io.wake(self.io.current_task());
                return Poll::Pending;
            }
            ready!(self.poll_writable());
            if let (Part::File { .. }, true) = (&queue.parts[0], queue.parts.len() > 1) {
                self.cork(true)?;
            }
            let step = match &queue.parts[0] {
                Part::Bytes(_) | Part::Shared(_) => self.send_bytes(queue, budget),
                Part::File { .. } => ready!(self.poll_send_file(queue, budget)),
            };
            match step {
                Ok(Step::Sent(count)) => {
                    budget = budget.saturating_sub(count);
                    advance(queue, count);
                }
                Ok(Step::Again) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let request = Request::poll(&self.socket, libc::POLLOUT);
                    *self.writable.borrow_mut() = Some(self.ring.start(request, self.io.current_task()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.cork(false)?;
        Poll::Ready(Ok(()))
    }

    /// Holds a short last segment back until all parts are sent: sendfile has no flag to say that more follows, and the
    /// few bytes behind a range of records would go out, and wake the client, on their own.
    fn cork(&self, on: bool) -> io::Result<()> {
        if self.corked.replace(on) == on {
            return Ok(());
        }
        syscall::set_cork(self.socket.fd(), on)
    }

    fn poll_writable(&self) -> Poll<()> {
        let mut writable = self.writable.borrow_mut();
        if let Some(operation) = &mut *writable {
            // Whatever it says, the next send finds out.
            ready!(operation.poll(self.io.current_task()));
            *writable = None;
        }
        Poll::Ready(())
    }

    /// Sends the byte parts at the front, as many as fit in one call.
    fn send_bytes(&self, queue: &SendQueue, budget: usize) -> io::Result<Step> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut slice_count = 0;
        let mut gathered = 0;
        let mut skip = usize::try_from(queue.sent_bytes).unwrap_or(usize::MAX);
        for part in &queue.parts {
            let Some(bytes) = part.bytes() else { break };
            if slice_count == SLICES_MAX || gathered >= budget {
                break;
            }
            slices[slice_count] = IoSlice::new(&bytes[skip..]);
            gathered += bytes.len() - skip;
            slice_count += 1;
            skip = 0;
        }
        let more_follows = slice_count < queue.parts.len();
        syscall::send(self.socket.fd(), &slices[..slice_count], more_follows).map(Step::Sent)
    }

    /// Sends of the file part at the front: what is loaded, or hot pages, or starts to load.
    fn poll_send_file(&self, queue: &mut SendQueue, budget: usize) -> Poll<io::Result<Step>> {
        match &mut queue.pipe {
            None => Poll::Ready(self.send_hot(queue, budget)),
            Some(LoadedPipe(Stage::Loading(operation))) => {
                let done = ready!(operation.poll(self.io.current_task()));
                queue.pipe = None;
                let count = match done.count() {
                    // Shorter than its part says.
                    Ok(0) => {
                        return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof)));
                    }
                    Ok(count) => count,
                    Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => 0,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                queue.pipe = match done.payload {
                    Payload::Pipe(mut pipe) => {
                        pipe.set_residue(count);
                        (count > 0).then_some(LoadedPipe(Stage::Pipe(pipe)))
                    }
                    Payload::Buffer(mut buffer) => {
                        buffer.truncate(count);
                        (count > 0).then_some(LoadedPipe(Stage::Buffer(buffer)))
                    }
                    _ => unreachable!("a pipe or a buffer comes back as one"),
                };
                Poll::Ready(Ok(Step::Again))
            }
            Some(LoadedPipe(Stage::Pipe(pipe))) => {
                let more_follows = queue.queued_bytes > pipe.residue_bytes() as u64;
                let sent = match pipe.send_to(self.socket.fd(), budget, more_follows) {
                    Ok(sent) => sent,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                if pipe.residue_bytes() == 0 {
                    queue.pipe = None;
                } else if sent == 0 {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero)));
                }
                Poll::Ready(Ok(Step::Sent(sent)))
            }
            Some(LoadedPipe(Stage::Buffer(buffer))) => {
                let slice = IoSlice::new(&buffer[..buffer.len().min(budget)]);
                let more_follows = queue.queued_bytes > slice.len() as u64;
                let sent = match syscall::send(self.socket.fd(), &[slice], more_follows) {
                    Ok(sent) => sent,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                buffer.advance(sent);
                if buffer.is_empty() {
                    queue.pipe = None;
                }
                Poll::Ready(Ok(Step::Sent(sent)))
            }
        }
    }

    /// Sends pages that are in memory; where they are not, has the ring load a piece.
    fn send_hot(&self, queue: &mut SendQueue, budget: usize) -> io::Result<Step> {
        let Part::File { file, position_bytes, len_bytes } = &queue.parts[0] else {
            unreachable!("the caller looked at the part")
        };
        let file = match file {
            File::Uring(file) => file.descriptor(),
            #[cfg(feature = "sim")]
            File::Sim(_) => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
        };
        let rest_bytes = len_bytes - queue.sent_bytes;
        let position = position_bytes + queue.sent_bytes;
        if queue.resident_bytes <= queue.sent_bytes {
            let probed_bytes = rest_bytes.min(PROBE_BYTES);
            let hot = self.ring.has(RingMask::SENDFILE) && is_resident(&self.ring, file.fd(), position, probed_bytes);
            if !hot {
                queue.pipe = Some(LoadedPipe(Stage::Loading(self.load(file, position, probed_bytes)?)));
                return Ok(Step::Again);
            }
            queue.resident_bytes = queue.sent_bytes + probed_bytes;
        }
        let slice_bytes = (queue.resident_bytes - queue.sent_bytes).min(budget as u64) as usize;
        match syscall::send_file(self.socket.fd(), file.fd(), position, slice_bytes)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            sent => Ok(Step::Sent(sent)),
        }
    }

    /// Starts to bring a cold piece in.
    fn load(&self, file: &Rc<Descriptor>, position_bytes: u64, len_bytes: u64) -> io::Result<Operation> {
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let request = if self.ring.has(RingMask::SPLICE) {
            let mut pipe = self.ring.pipes.take()?;
            let count = len.min(pipe.capacity_bytes());
            // Until the completion says how much.
            pipe.set_residue(count);
            Request::fill_pipe(file, pipe, position_bytes, u32::try_from(count).unwrap_or(u32::MAX))
        } else {
            Request::read(file, self.io.buffer(len.min(COLD_READ_BYTES)), 0, position_bytes)
        };
        Ok(self.ring.start(request, self.io.current_task()))
    }
}

/// Takes `count` sent bytes off the front of the queue.
fn advance(queue: &mut SendQueue, count: usize) {
    let count = count as u64;
    queue.queued_bytes = queue.queued_bytes.checked_sub(count).expect("no more was sent than queued");
    queue.sent_bytes += count;
    while let Some(part) = queue.parts.front() {
        let len_bytes = part.len_bytes();
        if queue.sent_bytes < len_bytes {
            return;
        }
        queue.sent_bytes -= len_bytes;
        queue.resident_bytes = 0;
        queue.pop_sent();
    }
    assert_eq!(queue.sent_bytes, 0, "an empty queue has nothing sent");
}

/// Most that one call sends before the other connections have their turn.
const SEND_BUDGET_BYTES: usize = 256 * 1024;
/// Parts gathered in one call.
const SLICES_MAX: usize = 16;
/// A hot range is probed once in so many bytes; a cold one is brought in by as many.
const PROBE_BYTES: u64 = 1 << 20;
/// As cold pieces are read where the ring cannot splice.
const COLD_READ_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::core::tests::{masks, run_alone};
    use crate::ring::io::{Listener, OpenHow, Stream};
    use crate::ring::shared_bytes::SharedBytes;
    use std::future::poll_fn;

    /// Two ends of a connection on the loopback, both on this core.
    pub(in crate::ring) async fn pair(io: &Io) -> (Stream, Stream) {
        let listener: Listener = io.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let near = io.connect(listener.local_address()).await.unwrap();
        let far = poll_fn(|_| listener.poll_accept()).await.unwrap();
        (near, far)
    }

    #[allow(clippy::disallowed_types)]
    fn drop_from_cache(path: &std::path::Path) {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open(path).unwrap();
        file.sync_all().unwrap();
        syscall::drop_from_cache(file.as_raw_fd());
    }

    fn byte_at(at: u64) -> u8 {
        (at % 253) as u8 ^ (at >> 12) as u8
    }

    #[test]
    fn parts_arrive_whole_hot_and_cold_to_a_slow_reader() {
        const FILE_BYTES: u64 = 5 << 20;
        for mask in masks() {
            for cold in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("x");
                run_alone(mask, move |io| async move {
                    let file = io.open(&path, OpenHow::CreateNew).await.unwrap();
                    let bytes = (0..FILE_BYTES).map(byte_at).collect();
                    file.write_at(Buffer::from_vec(bytes), 0).await.0.unwrap();
                    if cold {
                        drop_from_cache(&path);
                    }
                    let mut queue = SendQueue::default();
                    let mut want: Vec<u8> = Vec::new();
                    for (position_bytes, len_bytes) in
                        [(0, 1), (1, 4095), (4096, 65536), (3, FILE_BYTES - 5), (777, 2 << 20)]
                    {
                        queue.push(Part::Bytes(vec![9; 10]));
                        let shared = Rc::new(vec![8; 9]);
                        queue.push(Part::Shared(SharedBytes::new(shared, 2..5)));
                        queue.push(Part::File { file: file.clone(), position_bytes, len_bytes });
                        want.extend([9; 10]);
                        want.extend([8; 3]);
                        want.extend((position_bytes..position_bytes + len_bytes).map(byte_at));
                    }
                    queue.push(Part::Bytes(vec![5; 3 << 20]));
                    want.extend(vec![5; 3 << 20]);
                    assert_eq!(queue.queued_bytes(), want.len() as u64);
                    let (near, far) = pair(&io).await;
                    io.spawn(async move {
                        poll_fn(|_| near.poll_send(&mut queue)).await.unwrap();
                        assert_eq!(queue.queued_bytes(), 0);
                    });
                    let mut got = Vec::new();
                    loop {
                        let buffer = poll_fn(|_| far.poll_receive()).await.unwrap();
                        if buffer.is_empty() {
                            break;
                        }
                        got.extend_from_slice(&buffer);
                        drop(buffer);
                        if got.len() % 7 == 0 {
                            io.sleep_ms(1).await;
                        }
                    }
                    assert_eq!(got.len(), want.len(), "mask {mask}, cold {cold}");
                    assert!(got == want, "mask {mask}, cold {cold}: bytes differ");
                });
            }
        }
    }

    #[test]
    fn a_file_shorter_than_its_part_ends_the_stream() {
        for mask in masks() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x");
            run_alone(mask, move |io| async move {
                let file = io.open(&path, OpenHow::CreateNew).await.unwrap();
                file.write_at(Buffer::from_vec(vec![1; 1000]), 0).await.0.unwrap();
                let (near, _far) = pair(&io).await;
                let mut queue = SendQueue::default();
                queue.push(Part::File { file, position_bytes: 500, len_bytes: 5000 });
                let sent = poll_fn(|_| near.poll_send(&mut queue)).await;
                assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "mask {mask}");
            });
        }
    }

    #[test]
    fn streams_dropped_in_the_middle_of_a_cold_part_leave_no_pipe() {
        for mask in masks() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x");
            run_alone(mask, move |io| async move {
                let file = io.open(&path, OpenHow::CreateNew).await.unwrap();
                let bytes = (0..4_u64 << 20).map(byte_at).collect();
                file.write_at(Buffer::from_vec(bytes), 0).await.0.unwrap();
                for round in 0..12 {
                    drop_from_cache(&path);
                    let (near, far) = pair(&io).await;
                    let mut queue = SendQueue::default();
                    queue.push(Part::File { file: file.clone(), position_bytes: 0, len_bytes: 4 << 20 });
                    io.spawn(async move {
                        // Full before the end: nobody reads.
                        let _ = poll_fn(|_| near.poll_send(&mut queue)).await;
                    });
                    if round % 3 > 0 {
                        io.sleep_ms(round % 3).await;
                    }
                    drop(far);
                }
                // A later stream gets its own bytes and no others'.
                let (near, far) = pair(&io).await;
                let mut queue = SendQueue::default();
                queue.push(Part::File { file, position_bytes: 1 << 20, len_bytes: 1 << 20 });
                io.spawn(async move { poll_fn(|_| near.poll_send(&mut queue)).await.unwrap() });
                let (mut buffer, mut filled) = (io.buffer(1 << 20), 0);
                poll_fn(|_| far.poll_receive_into(&mut buffer, &mut filled)).await.unwrap();
                assert!((0..1_u64 << 20).all(|at| buffer[at as usize] == byte_at((1 << 20) + at)), "mask {mask}");
            });
        }
    }
}
