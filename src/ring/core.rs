//! Running one core: pin the thread, make the ring, turn until the main future ends, drain.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::rc::Rc;

use crate::ring::io::{Driver, Io};
use crate::ring::mesh::CoreSeat;
use crate::ring::request::Request;
use crate::ring::ring_mask::RingMask;
use crate::ring::syscall;
use crate::ring::turn::TurnLoop;
use crate::ring::uring::Uring;

/// How one core runs. [`CoreOptions::default`] is right for one of two cores; its fields say what each costs.
#[derive(Clone, Debug)]
pub struct CoreOptions {
    /// The CPU to run on; `None` leaves the thread where it is.
    pub cpu: Option<usize>,
    /// Kernel features to do without.
    pub ring_mask: RingMask,
    /// Entries of the submission queue (64 bytes each).
    pub submission_entries: u32,
    /// Entries of the completion queue (16 bytes each).
    pub completion_entries: u32,
    /// Receive buffers, a power of two. Count and bytes multiply to memory that the core holds for ever.
    pub receive_buffer_count: u16,
    /// Bytes of one receive buffer.
    pub receive_buffer_bytes: usize,
    /// Idle bytes that the pool behind [`Io::buffer`] keeps.
    pub pool_bytes_max: usize,
    /// Idle pipes (of 1 MiB) that are kept for cold reads.
    pub kept_pipes_max: usize,
    /// Disk operations in flight. More than the device's queue (256) over all cores would make submission wait.
    pub disk_operations_max: usize,
    /// Flushes in flight. Each holds one of the bounded workers.
    pub sync_operations_max: usize,
    /// Most kernel workers of this ring: for disks (bounded), and for pipes and sockets.
    pub worker_counts_max: [u32; 2],
    /// Microseconds to look for work before a sleep: saves a wake-up where the core is ours alone.
    pub spin_us: u64,
    /// Microseconds of polling tasks before the ring is entered again.
    pub turn_budget_us: u64,
    /// Congestion control of connections; `None` is the system's (see `tuning/`: bbr doubles the CPU on a LAN).
    pub tcp_congestion: Option<String>,
    /// Milliseconds that the kernel gets at the end to finish what is in flight.
    pub drain_ms_max: u64,
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self {
            cpu: None,
            ring_mask: RingMask::NONE,
            submission_entries: 1024,
            completion_entries: 8192,
            receive_buffer_count: 128,
            receive_buffer_bytes: 64 * 1024,
            pool_bytes_max: 16 << 20,
            kept_pipes_max: 16,
            disk_operations_max: 128,
            sync_operations_max: 2,
            worker_counts_max: [4, 16],
            spin_us: 0,
            turn_budget_us: 100,
            tcp_congestion: None,
            drain_ms_max: 5000,
        }
    }
}

impl CoreOptions {
    /// With room for `count` flushes in flight, and for as many workers more.
    #[must_use]
    pub fn with_syncs_at_once(mut self, count: usize) -> Self {
        let more = count.saturating_sub(self.sync_operations_max);
        self.sync_operations_max += more;
        self.worker_counts_max[0] += u32::try_from(more).unwrap_or(0);
        self
    }
}

/// A core that cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The thread may not run on the CPU.
    #[error("core {core}: cannot run on CPU {cpu}: {error}")]
    Pin {
        /// Index of the core.
        core: usize,
        /// The CPU.
        cpu: usize,
        /// What the kernel said.
        error: io::Error,
    },
    /// No ring: [`crate::ring::startup_check`] says why beforehand.
    #[error("core {core}: cannot make an io_uring: {error}")]
    Ring {
        /// Index of the core.
        core: usize,
        /// What the kernel said.
        error: io::Error,
    },
    /// The ring failed while it ran.
    #[error("core {core}: the io_uring failed: {error}")]
    Turn {
        /// Index of the core.
        core: usize,
        /// What the kernel said.
        error: io::Error,
    },
}

/// Runs a core on this thread until the future of `main` ends; then drops all other tasks, waits for what they had in
/// flight, and returns what `main` said.
///
/// # Errors
/// Where the thread cannot be pinned, or the kernel refuses the ring.
pub fn run<T, F>(options: CoreOptions, seat: CoreSeat, main: impl FnOnce(Io) -> F) -> Result<T, RunError>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let core = seat.core_index();
    if let Some(cpu) = options.cpu {
        syscall::pin_to(cpu).map_err(|error| RunError::Pin { core, cpu, error })?;
    }
    let (pool_bytes_max, drain_ms_max) = (options.pool_bytes_max, options.drain_ms_max);
    let event_fd = seat.event_fd();
    let uring = Uring::new(options, seat).map_err(|error| RunError::Ring { core, error })?;
    let ring = uring.ring().clone();
    let io = Io::new(core, pool_bytes_max, Driver::Uring(uring));
    let mut turns = TurnLoop::new(io.clone(), ring.clone());

    let answer = Rc::new(RefCell::new(None));
    let (future, answered) = (main(io.clone()), answer.clone());
    io.spawn(async move { *answered.borrow_mut() = Some(future.await) });
    // Threads without a ring wake this core by an eventfd, which the ring reads.
    let event = ring.share_event(event_fd).map_err(|error| RunError::Ring { core, error })?;
    let (own_io, own_ring) = (io.clone(), ring.clone());
    io.spawn(async move { while own_ring.call(&own_io, Request::read_event(&event)).await.result >= 0 {} });
    let failed = |error| RunError::Turn { core, error };
    turns.run_until(|| answer.borrow().is_some()).map_err(failed)?;

    // Destructors of tasks may start tasks; those are dropped too.
    while io.executor().task_count() > 0 {
        io.executor().clear();
    }
    io.timers().clear();
    ring.cancel_all();
    let gave_up = Rc::new(Cell::new(false));
    let (own_io, own_gave_up) = (io.clone(), gave_up.clone());
    io.spawn(async move {
        own_io.sleep_ms(drain_ms_max).await;
        own_gave_up.set(true);
    });
    turns.run_until(|| ring.operations().count() == 0 || gave_up.get()).map_err(failed)?;
    io.executor().clear();
    if gave_up.get() {
        tracing::warn!(
            core,
            operations = ring.operations().count(),
            "the kernel did not finish in time; memory is kept"
        );
        ring.leak();
    }
    let answer = answer.borrow_mut().take();
    Ok(answer.expect("the loop ended because main had answered"))
}

#[cfg(test)]
pub(in crate::ring) mod tests {
    use super::*;
    use crate::ring::mesh::CoreMesh;
    use std::future::poll_fn;
    use std::task::Poll;

    /// Runs `main` on a lone core; sees that nothing stayed in flight.
    pub(in crate::ring) fn run_alone<T: 'static, F: Future<Output = T> + 'static>(
        ring_mask: RingMask,
        main: impl FnOnce(Io) -> F,
    ) -> T {
        let mesh = CoreMesh::new(1).unwrap();
        run(CoreOptions { ring_mask, ..CoreOptions::default() }, mesh.seat(0), main).unwrap()
    }

    /// No feature hidden, and each one alone.
    pub(in crate::ring) fn masks() -> impl Iterator<Item = RingMask> {
        std::iter::once(RingMask::NONE).chain(RingMask::NAMES.into_iter().map(|(_, feature)| feature))
    }

    #[test]
    fn a_core_runs_main_and_its_tasks_and_timers() {
        for mask in masks() {
            let seen = run_alone(mask, |io| async move {
                let seen = Rc::new(RefCell::new(Vec::new()));
                for ms in [3, 1, 2] {
                    let (io, seen) = (io.clone(), seen.clone());
                    io.clone().spawn(async move {
                        io.sleep_ms(ms).await;
                        seen.borrow_mut().push(ms);
                    });
                }
                let before = io.now();
                io.sleep_ms(20).await;
                assert!(io.now().since(before) >= 20_000_000, "slept short");
                io.yield_now().await;
                seen.take()
            });
            assert_eq!(seen, [1, 2, 3], "mask {mask}");
        }
    }

    #[test]
    fn threads_and_cores_wake_a_sleeping_core() {
        for mask in masks() {
            let mesh = CoreMesh::new(2).unwrap();
            let options = CoreOptions { ring_mask: mask, ..CoreOptions::default() };
            let (sender, receiver) = std::sync::mpsc::channel::<u32>();
            let (asleep, is_asleep) = std::sync::mpsc::channel::<()>();
            let (first, second) = (mesh.seat(0), mesh.seat(1));
            let notifier = first.notifier();
            std::thread::scope(|scope| {
                let own_options = options.clone();
                let thread_sender = sender.clone();
                scope.spawn(move || {
                    is_asleep.recv().unwrap();
                    thread_sender.send(1).unwrap();
                    notifier.notify();
                    is_asleep.recv().unwrap();
                    run(own_options, second, |io| async move {
                        sender.send(2).unwrap();
                        io.notify(0);
                    })
                    .unwrap();
                });
                let got = run(options, first, |io| async move {
                    let mut got = Vec::new();
                    asleep.send(()).unwrap();
                    poll_fn(|_| {
                        io.note_notified();
                        while let Ok(word) = receiver.try_recv() {
                            got.push(word);
                            // After the last word nobody listens any more.
                            let _ = asleep.send(());
                        }
                        if got.len() == 2 { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                    got
                });
                assert_eq!(got.unwrap(), [1, 2], "mask {mask}");
            });
        }
    }

    #[test]
    fn an_idle_core_sleeps_until_its_deadline() {
        run_alone(RingMask::NONE, |io| async move {
            io.sleep_ms(5).await;
            let before = io.turn_stats();
            io.sleep_ms(100).await;
            let after = io.turn_stats();
            assert!(after.turns - before.turns <= 3, "{} turns in 100 ms of nothing", after.turns - before.turns);
        });
    }
}
