//! A simulated world, and how a test runs it.

use std::cell::RefCell;
use std::rc::Rc;

use crate::ring::io::Io;
use crate::ring::sim::events::World;
use crate::ring::sim::machine::Machine;
use crate::ring::sim::options::{Faults, SimOptions};
use crate::ring::sim::random::Random;

/// One deterministic world in one thread. Dropping it ends every task in it.
pub struct Sim {
    world: Rc<World>,
}

/// Why [`Sim::run_until`] gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The condition was not reached in the simulated time allowed.
    #[error("the limit of simulated time passed")]
    TimeLimit,
    /// Nothing will ever happen again: every task waits for something that is not on its way.
    #[error("nothing is ready and nothing is on its way")]
    Idle,
}

impl Sim {
    /// A world with no machines, at its first moment.
    pub fn new(options: SimOptions) -> Self {
        Self { world: Rc::new(World::new(options)) }
    }

    /// Adds a machine, with an empty disk and no cores. Servers and clients alike run on machines.
    pub fn machine(&self) -> Machine {
        Machine::new(self.world.clone(), self.world.add_machine())
    }

    /// Lets one thing happen: a core polls a task, an operation completes, or, where neither can, time passes up to the
    /// next thing to come. False where there is none.
    pub fn step(&self) -> bool {
        self.world.step()
    }

    /// Steps until `condition` holds, for at most `limit_ns` of simulated time.
    ///
    /// # Errors
    /// Where it does not come to hold.
    pub fn run_until(&self, mut condition: impl FnMut() -> bool, limit_ns: u64) -> Result<(), SimError> {
        let end_ns = self.world.now_ns() + limit_ns;
        while !condition() {
            if self.world.now_ns() >= end_ns {
                return Err(SimError::TimeLimit);
            }
            if !self.step() {
                return Err(SimError::Idle);
            }
        }
        Ok(())
    }

    /// Runs `future` as a task of `io`'s core, for at most `limit_ns`, and hands back what it comes to.
    ///
    /// # Errors
    /// Where it does not end.
    pub fn run<T: 'static>(
        &self,
        io: &Io,
        limit_ns: u64,
        future: impl Future<Output = T> + 'static,
    ) -> Result<T, SimError> {
        let result = Rc::new(RefCell::new(None));
        let slot = result.clone();
        io.spawn(async move {
            let output = future.await;
            *slot.borrow_mut() = Some(output);
        });
        self.run_until(|| result.borrow().is_some(), limit_ns)?;
        result.take().ok_or(SimError::Idle)
    }

    /// Steps for `ns` of simulated time, or until nothing is left to happen.
    pub fn run_for(&self, ns: u64) {
        let end_ns = self.world.now_ns() + ns;
        while self.world.now_ns() < end_ns && self.step() {}
    }

    /// The true time since the world began.
    pub fn now_ns(&self) -> u64 {
        self.world.now_ns()
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.world.faults.set(faults);
    }

    /// A stream of randomness for the test's own choices, from the world's seed.
    pub fn random(&self) -> Random {
        self.world.random.fork()
    }

    /// Hash over everything that has happened: equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        self.world.trace_hash()
    }

    /// The last things that happened, oldest first, one a line: for a failure's message.
    pub fn trace_tail(&self) -> String {
        self.world.trace_tail()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.world.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::net::SocketAddr;
    use std::path::Path;
    use std::task::Poll;

    use crate::ring::buffer::Buffer;
    use crate::ring::io::{Listener, OpenHow, Stream};
    use crate::ring::send_queue::{Part, SendQueue};
    use crate::ring::sim::options::{Crash, Delays};

    const SECOND_NS: u64 = 1_000_000_000;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    async fn accept(listener: &Listener) -> Stream {
        poll_fn(|_| listener.poll_accept()).await.expect("accepts")
    }

    /// Receives to the end of the stream.
    async fn receive_all(stream: &Stream) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let piece = poll_fn(|_| stream.poll_receive()).await?;
            if piece.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&piece);
        }
    }

    async fn send(stream: &Stream, bytes: &[u8]) -> std::io::Result<()> {
        let mut queue = SendQueue::default();
        queue.push(Part::Bytes(bytes.to_vec()));
        poll_fn(|_| stream.poll_send(&mut queue)).await
    }

    /// A server of two cores: core 0 takes connections, core 1 owns the file; a client. Says what the client got.
    fn two_cores_and_a_client(options: SimOptions) -> (u64, Vec<u8>) {
        let sim = Sim::new(options);
        let (server, client) = (sim.machine(), sim.machine());
        let front = server.core(0);
        let back = server.core(1);
        let mailbox: Rc<RefCell<VecDeque<Vec<u8>>>> = Rc::default();
        let stored: Rc<Cell<usize>> = Rc::default();

        let (io, mail, seen) = (front.clone(), mailbox.clone(), stored.clone());
        front.spawn(async move {
            let listener = io.listen(address(9092)).expect("listens");
            let stream = accept(&listener).await;
            let (mut request, mut filled, wanted) = (Buffer::zeroed(5000), 0, 5000);
            poll_fn(|_| stream.poll_receive_into(&mut request, &mut filled)).await.expect("receives");
            mail.borrow_mut().push_back(request.to_vec());
            io.notify(1);
            poll_fn(|_| {
                io.note_notified();
                if seen.get() == wanted { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            send(&stream, b"stored").await.expect("sends");
        });
        let (io, mail, seen) = (back.clone(), mailbox, stored);
        back.spawn(async move {
            let file = io.open(Path::new("/log"), OpenHow::CreateNew).await.expect("opens");
            let request = poll_fn(|_| {
                io.note_notified();
                mail.borrow_mut().pop_front().map_or(Poll::Pending, Poll::Ready)
            })
            .await;
            let len = request.len();
            file.write_at(Buffer::from_vec(request), 0).await.0.expect("writes");
            file.sync_data().await.expect("syncs");
            seen.set(len);
            io.notify(0);
        });
        let io = client.core(0);
        let task = io.clone();
        let reply = sim.run(&io, 60 * SECOND_NS, async move {
            let stream = loop {
                match task.connect(address(9092)).await {
                    Ok(stream) => break stream,
                    Err(_) => task.sleep_ms(1).await,
                }
            };
            send(&stream, &[7; 5000]).await.expect("sends");
            receive_all(&stream).await.expect("receives")
        });
        let reply = reply.unwrap_or_else(|error| panic!("seed {}: {error}\n{}", options.seed, sim.trace_tail()));
        assert_eq!(server.peek("/log").map(|log| log.len()), Some(5000), "seed {}", options.seed);
        (sim.trace_hash(), reply)
    }

    #[test]
    fn the_same_seed_gives_the_same_run_and_another_another() {
        let mut hashes = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let options = SimOptions { seed, ..SimOptions::default() };
            let first = two_cores_and_a_client(options);
            assert_eq!(first, two_cores_and_a_client(options), "seed {seed}");
            assert_eq!(first.1, b"stored", "seed {seed}");
            hashes.insert(first.0);
        }
        assert_eq!(hashes.len(), 50);
    }

    #[test]
    fn time_passes_to_the_next_deadline_and_no_further() {
        let sim = Sim::new(SimOptions::calm(1));
        let machine = sim.machine();
        let io = machine.core(0);
        let started = io.now();
        let task = io.clone();
        sim.run(&io, 3600 * SECOND_NS, async move { task.sleep_ms(1_800_000).await }).expect("sleeps");
        let slept_ns = io.now().since(started);
        assert!((1_800_000_000_000..1_800_001_000_000).contains(&slept_ns), "{slept_ns}");
        let task = io.clone();
        assert_eq!(sim.run(&io, 1_000_000, async move { task.sleep_ms(2).await }), Err(SimError::TimeLimit));
        assert_eq!(sim.run(&io, SECOND_NS, std::future::pending::<()>()), Err(SimError::Idle));
    }

    #[test]
    fn a_task_that_spins_ends_at_the_limit() {
        let sim = Sim::new(SimOptions::calm(1));
        let io = sim.machine().core(0);
        let task = io.clone();
        let spin = async move {
            loop {
                task.yield_now().await;
            }
        };
        assert_eq!(sim.run::<()>(&io, 1_000_000, spin), Err(SimError::TimeLimit));
    }

    #[test]
    fn the_wall_clock_jumps_within_its_bound_and_the_other_never_goes_back() {
        let faults = Faults {
            wall_jump_ms_max: 5_000,
            core_stall_per_million: 10_000,
            core_stall_ms_max: 100,
            ..Faults::default()
        };
        let sim = Sim::new(SimOptions { seed: 3, faults, delays: Delays::default() });
        let io = sim.machine().core(0);
        let task = io.clone();
        let steps = sim.run(&io, 1000 * SECOND_NS, async move {
            let (wall_start, start) = (task.wall_ms(), task.now());
            let (mut steps_back, mut last, mut last_wall) = (0, start, wall_start);
            for _ in 0..200 {
                task.sleep_ms(500).await;
                assert!(task.now() > last, "monotonic");
                last = task.now();
                steps_back += usize::from(task.wall_ms() < last_wall);
                last_wall = task.wall_ms();
                let drift = last_wall - wall_start - (last.since(start) / 1_000_000) as i64;
                assert!(drift.abs() <= 10_001, "{drift}");
            }
            steps_back
        });
        assert!(steps.expect("ends") > 10);
    }

    #[test]
    fn a_paused_core_polls_nothing() {
        let sim = Sim::new(SimOptions::calm(1));
        let machine = sim.machine();
        let io = machine.core(0);
        let ticks = Rc::new(Cell::new(0));
        let (task, seen) = (io.clone(), ticks.clone());
        io.spawn(async move {
            loop {
                task.sleep_ms(1).await;
                seen.set(seen.get() + 1);
            }
        });
        sim.run_for(SECOND_NS / 10);
        let before = ticks.get();
        assert!(before > 50, "{before}");
        machine.pause(0);
        sim.run_for(SECOND_NS / 10);
        assert_eq!(ticks.get(), before);
        machine.resume(0);
        sim.run_for(SECOND_NS / 10);
        assert!(ticks.get() > before);
    }

    /// A store that acknowledges a record once it is written, and synced or not. Says whether one was lost.
    fn loses_what_it_acknowledged(seed: u64, syncs: bool) -> bool {
        let sim = Sim::new(SimOptions::calm(seed));
        let machine = sim.machine();
        let io = machine.core(0);
        let acknowledged: Rc<Cell<u8>> = Rc::default();
        let (task, acked) = (io.clone(), acknowledged.clone());
        io.spawn(async move {
            task.create_dir(Path::new("/data")).await.expect("makes");
            task.sync_dir(Path::new("/")).await.expect("syncs");
            let file = task.open(Path::new("/data/log"), OpenHow::CreateNew).await.expect("opens");
            task.sync_dir(Path::new("/data")).await.expect("syncs");
            for record in 1..=100 {
                file.write_at(Buffer::from_vec(vec![record; 300]), u64::from(record - 1) * 300)
                    .await
                    .0
                    .expect("writes");
                if syncs {
                    file.sync_data().await.expect("syncs");
                } else {
                    task.sleep_ms(1).await;
                }
                acked.set(record);
            }
        });
        sim.run_for(sim.random().below(SECOND_NS / 5));
        machine.crash(Crash::PowerCut);
        let log = machine.peek("/data/log").unwrap_or_default();
        (1..=acknowledged.get()).any(|record| {
            let start = usize::from(record - 1) * 300;
            log.get(start..start + 300).is_none_or(|found| found.iter().any(|byte| *byte != record))
        })
    }

    #[test]
    fn a_store_that_acknowledges_before_the_sync_is_caught_and_one_that_syncs_is_not() {
        let caught = (0..200).filter(|seed| loses_what_it_acknowledged(*seed, false)).count();
        assert!(caught > 100, "{caught} of 200");
        for seed in 0..200 {
            assert!(!loses_what_it_acknowledged(seed, true), "seed {seed}");
        }
    }
}
