//! Listeners and connections of the real ring.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::IntoRawFd;
use std::rc::Rc;
use std::task::Poll;

use crate::ring::buffer::Buffer;
use crate::ring::descriptor::Descriptor;
use crate::ring::io::Io;
use crate::ring::operation::Operation;
use crate::ring::receive_ring::GROUP;
use crate::ring::request::{Payload, Request};
use crate::ring::ring_mask::RingMask;
use crate::ring::send::Sender;
use crate::ring::send_queue::SendQueue;
use crate::ring::syscall;
use crate::ring::uring::Ring;

/// A socket that listens.
pub struct UringListener {
    io: Io,
    ring: Rc<Ring>,
    descriptor: Rc<Descriptor>,
    address: SocketAddr,
    accepting: RefCell<Option<Operation>>,
}

impl UringListener {
    #[allow(clippy::disallowed_types)]
    pub(in crate::ring) fn adopt(io: Io, ring: Rc<Ring>, listener: std::net::TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let descriptor = Descriptor::of_socket(listener.into_raw_fd());
        syscall::listen(descriptor.fd(), BACKLOG)?;
        Ok(Self { io, ring, descriptor, address, accepting: RefCell::new(None) })
    }

    /// See [`crate::ring::io::Listener::poll_accept`].
    pub(in crate::ring) fn poll_accept(&self) -> Poll<io::Result<UringStream>> {
        let task = self.io.current_task();
        let mut accepting = self.accepting.borrow_mut();
        loop {
            let operation = accepting.get_or_insert_with(|| {
                let multishot = self.ring.has(RingMask::MULTISHOT_ACCEPT);
                self.ring.start(Request::accept(&self.descriptor, multishot), task)
            });
            match operation.poll_next(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(result)) if result >= 0 => {
                    let socket = Descriptor::of_socket(result);
                    return Poll::Ready(UringStream::new(self.io.clone(), self.ring.clone(), socket));
                }
                Poll::Ready(Some(result)) => {
                    return Poll::Ready(Err(io::Error::from_raw_os_error(-result)));
                }
                // It has ended (by an error, or one at a time): the next one is started.
                Poll::Ready(None) => *accepting = None,
            }
        }
    }

    pub(in crate::ring) fn local_address(&self) -> SocketAddr {
        self.address
    }
}

/// A connection.
///
/// Receiving is one operation at a time: while bytes are few, a receive that takes a buffer of the receive ring when
/// something arrives; for the rest of a large frame, plain recv(2) into its own memory, with a poll in between. One of
/// each kind is never in flight together, so bytes cannot overtake each other.
pub struct UringStream {
    io: Io,
    ring: Rc<Ring>,
    descriptor: Rc<Descriptor>,
    peer: SocketAddr,
    incoming: RefCell<Incoming>,
    sender: Sender,
}

struct Incoming {
    state: Receiving,
    /// Received, but not asked for yet.
    leftover: Option<Buffer>,
    /// The kernel said that more was there at the last receive.
    more_is_there: bool,
}

enum Receiving {
    Idle,
    /// A buffer will come.
    Buffer(Operation),
    /// The socket will have something.
    Readable(Operation),
}

impl UringStream {
    pub(in crate::ring) fn new(io: Io, ring: Rc<Ring>, descriptor: Rc<Descriptor>) -> io::Result<Self> {
        let peer = syscall::peer_address(descriptor.fd())?;
        syscall::set_no_delay(descriptor.fd())?;
        if let Some(name) = &ring.options.tcp_congestion {
            syscall::set_congestion(descriptor.fd(), name)?;
        }
        let incoming = Incoming { state: Receiving::Idle, leftover: None, more_is_there: true };
        let sender = Sender::new(io.clone(), ring.clone(), descriptor.clone());
        Ok(Self { io, ring, descriptor, peer, incoming: RefCell::new(incoming), sender })
    }

    /// See [`crate::ring::io::Stream::poll_receive`].
    pub(in crate::ring) fn poll_receive(&self) -> Poll<io::Result<Buffer>> {
        let incoming = &mut *self.incoming.borrow_mut();
        if let Some(buffer) = incoming.leftover.take() {
            return Poll::Ready(Ok(buffer));
        }
        loop {
            match self.poll_incoming(incoming) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(Some(buffer))) => return Poll::Ready(Ok(buffer)),
                Poll::Ready(Ok(None)) => {}
            }
            if self.ring.receive_ring().is_some() {
                let request = Request::receive(&self.descriptor, GROUP, !incoming.more_is_there);
                incoming.state = Receiving::Buffer(self.ring.start(request, self.io.current_task()));
                return Poll::Pending;
            }
            let mut buffer = self.io.buffer(self.ring.options.receive_buffer_bytes);
            match syscall::receive(self.descriptor.fd(), &mut buffer) {
                Ok(count) => {
                    buffer.truncate(count);
                    return Poll::Ready(Ok(buffer));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_readable(incoming),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// See [`crate::ring::io::Stream::poll_receive_into`].
    pub(in crate::ring) fn poll_receive_into(&self, buffer: &mut Buffer, filled: &mut usize) -> Poll<io::Result<()>> {
        let incoming = &mut *self.incoming.borrow_mut();
        let mut budget = RECEIVE_BUDGET_BYTES;
        while *filled < buffer.len() {
            if let Some(mut received) = incoming.leftover.take() {
                let count = received.len().min(buffer.len() - *filled);
                buffer[*filled..*filled + count].copy_from_slice(&received[..count]);
                *filled += count;
                received.advance(count);
                incoming.leftover = (!received.is_empty()).then_some(received);
                continue;
            }
            match self.poll_incoming(incoming) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(Some(received))) if received.is_empty() => return ended_early(),
                Poll::Ready(Ok(Some(received))) => {
                    incoming.leftover = Some(received);
                    continue;
                }
                Poll::Ready(Ok(None)) => {}
            }
            if budget == 0 {
                self.io.wake(self.io.current_task());
                return Poll::Pending;
            }
            let room = &mut buffer[*filled..];
            let room_bytes = room.len().min(budget);
            match syscall::receive(self.descriptor.fd(), &mut room[..room_bytes]) {
                Ok(0) => return ended_early(),
                Ok(count) => {
                    *filled += count;
                    budget -= count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_readable(incoming),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// What the operation in flight brought: a buffer, or (ready with none) that another may be started.
    fn poll_incoming(&self, incoming: &mut Incoming) -> Poll<io::Result<Option<Buffer>>> {
        let task = self.io.current_task();
        let (done, brings_buffer) = match &mut incoming.state {
            Receiving::Idle => return Poll::Ready(Ok(None)),
            Receiving::Buffer(operation) => (std::task::ready!(operation.poll(task)), true),
            Receiving::Readable(operation) => (std::task::ready!(operation.poll(task)), false),
        };
        incoming.state = Receiving::Idle;
        match done.count() {
            Ok(_) if !brings_buffer => Poll::Ready(Ok(None)),
            Ok(_) => {
                incoming.more_is_there = io_uring::cqueue::sock_nonempty(done.flags);
                match done.payload {
                    Payload::Buffer(buffer) => Poll::Ready(Ok(Some(buffer))),
                    // The end of the stream takes no buffer.
                    _ => Poll::Ready(Ok(Some(Buffer::from_vec(Vec::new())))),
                }
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => {
                    // The bytes stay in the socket. Polled again when a buffer came back.
                    incoming.more_is_there = true;
                    if let Some(ring) = self.ring.receive_ring() {
                        ring.wait(task);
                    }
                    Poll::Pending
                }
                Some(libc::EINTR | libc::EAGAIN) => Poll::Ready(Ok(None)),
                _ => Poll::Ready(Err(error)),
            },
        }
    }

    fn wait_readable(&self, incoming: &mut Incoming) {
        let request = Request::poll(&self.descriptor, libc::POLLIN);
        incoming.state = Receiving::Readable(self.ring.start(request, self.io.current_task()));
    }

    /// See [`crate::ring::io::Stream::poll_send`].
    pub(in crate::ring) fn poll_send(&self, queue: &mut SendQueue) -> Poll<io::Result<()>> {
        self.sender.poll_send(queue)
    }

    pub(in crate::ring) fn peer_address(&self) -> SocketAddr {
        self.peer
    }
}

fn ended_early<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof)))
}

/// Connections that may wait to be accepted; the kernel cuts it to net.core.somaxconn.
const BACKLOG: i32 = 4096;
/// Most that one call of `poll_receive_into` takes before the others have their turn.
const RECEIVE_BUDGET_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::core::tests::{masks, run_alone};
    use crate::ring::core::{CoreOptions, run};
    use crate::ring::io::Stream;
    use crate::ring::mesh::CoreMesh;
    use crate::ring::send_queue::Part;
    use std::future::{Future, poll_fn};
    use std::task::{Context, Waker};

    async fn send_all(stream: &Stream, bytes: Vec<u8>) {
        let mut queue = SendQueue::default();
        queue.push(Part::Bytes(bytes));
        poll_fn(|_| stream.poll_send(&mut queue)).await.unwrap();
    }

    fn frame(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| (seed + at) as u8).collect()
    }

    #[test]
    fn frames_of_all_sizes_come_back_whole() {
        const SIZES: [usize; 9] = [1, 100, 4096, 65535, 65536, 65537, 300_000, 1 << 20, 8 << 20];
        for mask in masks() {
            run_alone(mask, |io| async move {
                let listener = io.listen("127.0.0.1:0".parse().unwrap()).unwrap();
                let address = listener.local_address();
                let own_io = io.clone();
                // The server: a length of 4 bytes, then so many bytes, which it sends back.
                io.spawn(async move {
                    let stream = poll_fn(|_| listener.poll_accept()).await.unwrap();
                    assert!(stream.peer_address().ip().is_loopback());
                    let mut held: Option<Buffer> = None;
                    loop {
                        let mut head = Vec::new();
                        while head.len() < 4 {
                            let mut buffer = match held.take() {
                                Some(buffer) => buffer,
                                None => poll_fn(|_| stream.poll_receive()).await.unwrap(),
                            };
                            if buffer.is_empty() {
                                return;
                            }
                            let taken = buffer.split_to(buffer.len().min(4 - head.len()));
                            head.extend_from_slice(&taken);
                            held = (!buffer.is_empty()).then_some(buffer);
                        }
                        let len = u32::from_be_bytes(head.try_into().unwrap()) as usize;
                        let mut body = own_io.buffer(len);
                        let mut filled = 0;
                        if let Some(mut buffer) = held.take() {
                            let taken = buffer.split_to(buffer.len().min(len));
                            body[..taken.len()].copy_from_slice(&taken);
                            filled = taken.len();
                            held = (!buffer.is_empty()).then_some(buffer);
                        }
                        poll_fn(|_| stream.poll_receive_into(&mut body, &mut filled)).await.unwrap();
                        send_all(&stream, body.to_vec()).await;
                    }
                });
                let client = io.connect(address).await.unwrap();
                for (seed, size) in SIZES.into_iter().enumerate() {
                    let mut message = (size as u32).to_be_bytes().to_vec();
                    message.extend(frame(seed, size));
                    let (mut answer, mut filled) = (io.buffer(size), 0);
                    // Both directions at once, or large frames would fill both sockets.
                    let mut queue = SendQueue::default();
                    queue.push(Part::Bytes(message));
                    poll_fn(|_| {
                        let sent = client.poll_send(&mut queue).map(Result::unwrap).is_ready();
                        let got = client.poll_receive_into(&mut answer, &mut filled).map(Result::unwrap).is_ready();
                        if sent && got { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                    assert!(*answer == frame(seed, size)[..], "mask {mask}, size {size}");
                }
                drop(client);
            });
        }
    }

    #[test]
    fn more_connections_than_buffers_lose_nothing() {
        const CONNECTIONS: usize = 40;
        let options = CoreOptions { receive_buffer_count: 2, receive_buffer_bytes: 1024, ..CoreOptions::default() };
        let mesh = CoreMesh::new(1).unwrap();
        run(options, mesh.seat(0), |io| async move {
            let listener = io.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let mut clients = Vec::new();
            let left = Rc::new(std::cell::Cell::new(CONNECTIONS));
            for seed in 0..CONNECTIONS {
                let client = io.connect(listener.local_address()).await.unwrap();
                let server = poll_fn(|_| listener.poll_accept()).await.unwrap();
                let (io, left) = (io.clone(), left.clone());
                io.clone().spawn(async move {
                    let mut got = Vec::new();
                    while got.len() < 10_000 {
                        let buffer = poll_fn(|_| server.poll_receive()).await.unwrap();
                        assert!(!buffer.is_empty(), "connection {seed} ended after {} bytes", got.len());
                        // Held over a sleep, so that the others find none.
                        io.sleep_ms(1).await;
                        got.extend_from_slice(&buffer);
                    }
                    assert!(got == frame(seed, 10_000), "connection {seed}");
                    left.set(left.get() - 1);
                });
                clients.push(client);
            }
            for (seed, client) in clients.iter().enumerate() {
                send_all(client, frame(seed, 10_000)).await;
            }
            while left.get() > 0 {
                io.sleep_ms(1).await;
            }
        })
        .unwrap();
    }

    #[test]
    fn dropped_sockets_leave_the_ring_whole() {
        for mask in masks() {
            run_alone(mask, |io| async move {
                let listener = io.listen("127.0.0.1:0".parse().unwrap()).unwrap();
                let address = listener.local_address();
                for _ in 0..10 {
                    // A connect, an accept and a receive, each dropped in flight.
                    let mut connecting = Box::pin(io.connect(address));
                    let _ = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    drop(connecting);
                    let client = io.connect(address).await.unwrap();
                    let server = poll_fn(|_| listener.poll_accept()).await.unwrap();
                    let _ = server.poll_receive();
                    drop(server);
                    drop(client);
                }
                drop(listener);
                let deadline = io.now().plus_ms(5000);
                let listener = loop {
                    // The port is free when the dropped accept has ended.
                    match io.listen(address) {
                        Ok(listener) => break listener,
                        Err(error) => assert!(io.now() < deadline, "mask {mask}: {error}"),
                    }
                    io.sleep_ms(1).await;
                };
                let _ = listener.poll_accept();
                io.sleep_ms(1).await;
                drop(listener);
                let deadline = io.now().plus_ms(5000);
                while io.connect(address).await.is_ok() && io.now() < deadline {
                    io.sleep_ms(1).await;
                }
                assert_eq!(
                    io.connect(address).await.err().unwrap().kind(),
                    io::ErrorKind::ConnectionRefused,
                    "mask {mask}"
                );
            });
        }
    }
}
