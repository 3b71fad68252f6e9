//! One end of a simulated connection.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use crate::ring::buffer::Buffer;
use crate::ring::io::File;
use crate::ring::send_queue::{Part, SendQueue};
use crate::ring::sim::events::World;
use crate::ring::sim::pipe::Connection;

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
                queue.pop_sent();
            }
        }
    }

    pub(in crate::ring) fn peer_address(&self) -> SocketAddr {
        self.connection.ends[1 - self.end].address
    }

    /// Sends at most `count_max` bytes of `part` from `start`; says how many, and whether they were its last.
    fn send_of(&self, part: &Part, start: u64, count_max: usize) -> io::Result<(usize, bool)> {
        match part {
            Part::Bytes(_) | Part::Shared(_) => {
                let bytes = part.bytes().unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::path::Path;

    use crate::ring::io::{Io, Listener, OpenHow, Stream};
    use crate::ring::sim::machine::Machine;
    use crate::ring::sim::options::{Crash, Faults, SimOptions};
    use crate::ring::sim::world::{Sim, SimError};

    const SECOND_NS: u64 = 1_000_000_000;

    fn address() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 9092))
    }

    /// Bytes that differ from place to place, so that one lost, doubled or moved is seen.
    fn pattern(len: usize) -> Vec<u8> {
        (0..len as u64).map(|index| crate::ring::sim::random::mix(index) as u8).collect()
    }

    async fn accept(listener: &Listener) -> Stream {
        poll_fn(|_| listener.poll_accept()).await.expect("accepts")
    }

    async fn receive_all(stream: &Stream) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let piece = poll_fn(|_| stream.poll_receive()).await?;
            if piece.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&piece);
        }
    }

    async fn send(stream: &Stream, part: Part) -> io::Result<()> {
        let mut queue = SendQueue::default();
        queue.push(part);
        poll_fn(|_| stream.poll_send(&mut queue)).await
    }

    /// A world with a server that runs `serve` on its one connection, and a client.
    fn served<F>(options: SimOptions, serve: impl FnOnce(Io, Stream) -> F + 'static) -> (Sim, Machine, Io)
    where
        F: Future<Output = ()> + 'static,
    {
        let sim = Sim::new(options);
        let (server, client) = (sim.machine(), sim.machine());
        let io = server.core(0);
        let listener = io.listen(address()).expect("listens");
        io.clone().spawn(async move {
            let stream = accept(&listener).await;
            serve(io, stream).await;
        });
        let client = client.core(0);
        (sim, server, client)
    }

    #[test]
    fn bytes_and_file_ranges_arrive_in_order_and_then_the_end() {
        for seed in 0..50 {
            let (sim, _server, client) = served(SimOptions::calm(seed), async |io, stream| {
                let file = io.open(Path::new("/log"), OpenHow::CreateNew).await.expect("opens");
                file.write_at(Buffer::from_vec(pattern(200_000)), 0).await.0.expect("writes");
                io.remove_file(Path::new("/log")).await.expect("an open file stays readable");
                let mut queue = SendQueue::default();
                queue.push(Part::Bytes(b"head".to_vec()));
                queue.push(Part::Bytes(Vec::new()));
                queue.push(Part::File { file, position_bytes: 1000, len_bytes: 150_000 });
                queue.push(Part::Bytes(b"tail".to_vec()));
                assert_eq!(queue.queued_bytes(), 150_008);
                poll_fn(|_| stream.poll_send(&mut queue)).await.expect("sends");
                assert_eq!((queue.queued_bytes(), queue.is_empty()), (0, true));
            });
            let task = client.clone();
            let received = sim.run(&client, 60 * SECOND_NS, async move {
                let stream = task.connect(address()).await.expect("connects");
                assert_eq!(stream.peer_address(), address());
                receive_all(&stream).await.expect("receives")
            });
            let wanted = [b"head", &pattern(200_000)[1000..151_000], b"tail"].concat();
            assert!(received.expect("ends") == wanted, "seed {seed}");
        }
    }

    #[test]
    fn a_sender_waits_for_a_receiver_that_does_not_read() {
        for seed in 0..20 {
            let sent_bytes: Rc<Cell<u64>> = Rc::default();
            let seen = sent_bytes.clone();
            let (sim, _server, client) = served(SimOptions::calm(seed), async move |_, stream| {
                let mut queue = SendQueue::default();
                queue.push(Part::Bytes(pattern(4 << 20)));
                poll_fn(|_| {
                    let sent = stream.poll_send(&mut queue);
                    seen.set((4 << 20) - queue.queued_bytes());
                    sent
                })
                .await
                .expect("sends");
            });
            let task = client.clone();
            let stream = sim.run(&client, SECOND_NS, async move { task.connect(address()).await.expect("connects") });
            let stream = stream.expect("connects");
            sim.run_for(10 * SECOND_NS);
            let stuck_at = sent_bytes.get();
            assert!((1..=1 << 19).contains(&stuck_at), "seed {seed}: {stuck_at}");
            let received = sim.run(&client, 600 * SECOND_NS, async move {
                let mut frame = Buffer::zeroed(1 << 20);
                let mut filled = 0;
                poll_fn(|_| stream.poll_receive_into(&mut frame, &mut filled)).await.expect("receives");
                let mut all = frame.to_vec();
                all.extend(receive_all(&stream).await.expect("receives"));
                all
            });
            assert!(received.expect("ends") == pattern(4 << 20), "seed {seed}");
        }
    }

    #[test]
    fn a_frame_cut_short_is_an_unexpected_end() {
        let (sim, _server, client) = served(SimOptions::calm(1), async |_, stream| {
            send(&stream, Part::Bytes(vec![1; 99])).await.expect("sends");
        });
        let task = client.clone();
        let error = sim.run(&client, SECOND_NS, async move {
            let stream = task.connect(address()).await.expect("connects");
            let (mut frame, mut filled) = (Buffer::zeroed(100), 0);
            poll_fn(|_| stream.poll_receive_into(&mut frame, &mut filled)).await.expect_err("ends").kind()
        });
        assert_eq!(error, Ok(ErrorKind::UnexpectedEof));
    }

    #[test]
    fn who_sends_to_a_closed_stream_is_told() {
        for seed in 0..20 {
            let (sim, _server, client) = served(SimOptions::calm(seed), async |_, stream| drop(stream));
            let task = client.clone();
            let error = sim.run(&client, 10 * SECOND_NS, async move {
                let stream = task.connect(address()).await.expect("connects");
                loop {
                    if let Err(error) = send(&stream, Part::Bytes(vec![1; 1000])).await {
                        return error.kind();
                    }
                    task.sleep_ms(1).await;
                }
            });
            assert_eq!(error, Ok(ErrorKind::ConnectionReset), "seed {seed}");
        }
    }

    #[test]
    fn nobody_listens_once_refused_and_two_machines_cannot_share_an_address() {
        let sim = Sim::new(SimOptions::calm(1));
        let (one, two) = (sim.machine(), sim.machine());
        let io = two.core(0);
        let task = io.clone();
        let refused = sim.run(&io, SECOND_NS, async move { task.connect(address()).await.map(drop) });
        assert_eq!(refused.map(|result| result.map_err(|error| error.kind())), Ok(Err(ErrorKind::ConnectionRefused)));
        let (first, second) = (one.core(0), one.core(1));
        let listener = first.listen(address()).expect("listens");
        let sharing = second.listen(address()).expect("cores of one machine share a port");
        let kind = |result: io::Result<Listener>| result.map(drop).map_err(|error| error.kind());
        assert_eq!(kind(io.listen(address())), Err(ErrorKind::AddrInUse));
        assert_eq!(kind(first.listen(address())), Err(ErrorKind::AddrInUse));
        drop((listener, sharing));
        assert_eq!(kind(io.listen(address())), Ok(()));
        let any_port = io.listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("listens");
        assert_ne!(any_port.local_address().port(), 0);
    }

    #[test]
    fn a_crash_ends_the_connections_as_the_others_see_it() {
        for (crash, legal) in [
            (Crash::Stop, vec![Ok(true)]),
            (Crash::Kill, vec![Ok(true), Err(ErrorKind::ConnectionReset)]),
            (Crash::PowerCut, vec![Err(ErrorKind::ConnectionReset)]),
        ] {
            let mut seen = Vec::new();
            for seed in 0..50 {
                let (sim, server, client) = served(SimOptions::calm(seed), async |_, stream| {
                    send(&stream, Part::Bytes(vec![7; 300])).await.expect("sends");
                    std::future::pending::<()>().await;
                });
                let task = client.clone();
                let result: Rc<Cell<Option<Result<bool, ErrorKind>>>> = Rc::default();
                let slot = result.clone();
                client.spawn(async move {
                    let stream = task.connect(address()).await.expect("connects");
                    let received = receive_all(&stream).await;
                    slot.set(Some(received.map(|all| all == [7; 300]).map_err(|error| error.kind())));
                });
                let waits = sim.run_until(|| result.get().is_some(), SECOND_NS);
                assert_eq!(waits, Err(SimError::Idle), "{crash:?}, seed {seed}");
                server.crash(crash);
                sim.run_until(|| result.get().is_some(), 10 * SECOND_NS).expect("the client is told");
                let found = result.get().expect("it is there");
                assert!(legal.contains(&found), "{crash:?}, seed {seed}: {found:?}");
                if !seen.contains(&found) {
                    seen.push(found);
                }
                let io = server.core(0);
                assert!(io.listen(address()).is_ok(), "{crash:?}, seed {seed}: the address is free again");
            }
            assert_eq!(seen.len(), legal.len(), "{crash:?}: only {seen:?}");
        }
    }

    #[test]
    fn a_connection_that_nobody_waits_for_comes_to_be_and_ends() {
        let ended: Rc<Cell<bool>> = Rc::default();
        let seen = ended.clone();
        let (sim, _server, client) = served(SimOptions::calm(1), async move |_, stream| {
            seen.set(receive_all(&stream).await.is_ok_and(|all| all.is_empty()));
        });
        let task = client.clone();
        client.spawn(async move {
            let mut connecting = Box::pin(task.connect(address()));
            poll_fn(|context| Poll::Ready(connecting.as_mut().poll(context).is_ready())).await;
        });
        assert_eq!(sim.run_until(|| ended.get(), SECOND_NS), Ok(()));
    }

    #[test]
    fn connections_are_reset_as_often_as_asked() {
        let faults = Faults { stream_reset_per_million: 50_000, ..Faults::default() };
        let mut reset_count = 0;
        for seed in 0..200 {
            let (sim, _server, client) =
                served(SimOptions { seed, faults, ..SimOptions::default() }, async |_, stream| {
                    send(&stream, Part::Bytes(vec![1; 20_000])).await.ok();
                });
            let task = client.clone();
            let received = sim.run(&client, 60 * SECOND_NS, async move {
                let stream = task.connect(address()).await.expect("connects");
                receive_all(&stream).await
            });
            reset_count += usize::from(received.unwrap_or_else(|error| panic!("seed {seed}: {error}")).is_err());
        }
        assert!((5..150).contains(&reset_count), "{reset_count}");
    }
}
