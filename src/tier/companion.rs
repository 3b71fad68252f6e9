//! The thread beside a core that speaks to HDFS, and how the core asks it.
//!
//! The client of HDFS needs tokio: each core has a thread of its own for it, on the same CPU, which stands behind the core
//! and comes forward the more waits for the tier. It only carries out calls; what is to be done when is decided on the core.
//!
//! A call that hangs holds up no other: each is a task, so many at once, and each has a deadline; one whose bytes should
//! move has a watchdog besides. A panic of the client ends its call alone. Where the thread itself stands still, its core's
//! calls fail in time, and those of other cores go on: they share nothing, but for what the client keeps for the process
//! (see `hdfs_store`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc as answers;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::ring::heap;
use crate::ring::io::Io;
use crate::ring::mesh::Notifier;
use crate::ring::thread_priority::{self, ThreadPriority};
use crate::tier::hdfs_options::{HdfsOptions, TIER_THREADS};

/// What a companion is made of.
#[derive(Clone, Copy, Debug)]
pub struct CompanionOptions {
    core_index: usize,
    cpu: Option<usize>,
    deadline: Duration,
    watchdog: Duration,
}

impl CompanionOptions {
    /// For a core, on its CPU where it has one.
    #[must_use]
    pub fn new(core_index: usize, cpu: Option<usize>, hdfs: &HdfsOptions) -> Self {
        let (deadline, watchdog) = (Duration::from_millis(hdfs.deadline_ms), Duration::from_millis(hdfs.watchdog_ms));
        Self { core_index, cpu, deadline, watchdog }
    }
}

/// How its core asks it. Cheap to clone; for any thread.
#[derive(Clone, Debug)]
pub struct Companion {
    jobs: mpsc::Sender<Job>,
    places: Arc<Semaphore>,
    deadline: Duration,
    watchdog: Watchdog,
    priority: ThreadPriority,
    steps_behind: Arc<AtomicU8>,
}

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the answer of a job goes. However the job ends, the core is told, after all else of it is gone.
struct Reply<T> {
    sender: Option<answers::SyncSender<io::Result<T>>>,
    place: Option<OwnedSemaphorePermit>,
    core: Notifier,
}

impl<T> Reply<T> {
    fn send(mut self, answer: io::Result<T>) {
        if let Some(sender) = self.sender.take() {
            // Nobody may want it any more.
            let _ = sender.send(answer);
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        drop(self.sender.take());
        drop(self.place.take());
        self.core.notify();
    }
}

/// How long the bytes of a call may stand still.
#[derive(Clone, Copy, Debug)]
pub struct Watchdog(Duration);

impl Watchdog {
    /// Waits for what moves a call on; `what` is said where nothing did.
    ///
    /// # Errors
    /// `TimedOut`.
    pub async fn step<T>(self, what: &str, step: impl Future<Output = T>) -> io::Result<T> {
        let stands_still = |_| {
            let waited_ms = self.0.as_millis();
            io::Error::new(io::ErrorKind::TimedOut, format!("{what} for {waited_ms} ms (--tier-watchdog)"))
        };
        tokio::time::timeout(self.0, step).await.map_err(stands_still)
    }
}

impl Companion {
    /// Starts the thread, and waits until it has its CPU and its priority. It ends with the last of the handles.
    ///
    /// # Errors
    /// There is no thread to be had, or not on that CPU.
    pub fn start(options: &CompanionOptions) -> io::Result<Self> {
        let CompanionOptions { core_index, cpu, deadline, watchdog } = *options;
        let name = format!("{TIER_THREADS}{core_index}");
        heap::keep_freed(KEPT_BYTES);
        // Threads that the runtime makes to resolve names stand where this one stands.
        let runtime = Builder::new_current_thread().thread_name(&name).enable_all().build()?;
        let (jobs, mut waiting) = mpsc::channel::<Job>(JOBS_MAX);
        let (tell_place, place) = answers::sync_channel(1);
        std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
            let pinned = cpu.map_or(Ok(()), thread_priority::pin_to);
            let placed = pinned.and_then(|()| ThreadPriority::behind(STEPS_BEHIND_MAX));
            let is_placed = placed.is_ok();
            if tell_place.send(placed).is_err() || !is_placed {
                return;
            }
            runtime.block_on(async move {
                while let Some(job) = waiting.recv().await {
                    // A job that panics ends alone: whoever waits for it is told.
                    tokio::spawn(job);
                }
            });
        })?;
        let priority = place.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))??;
        Ok(Self {
            jobs,
            places: Arc::new(Semaphore::new(CALLS_MAX)),
            deadline,
            watchdog: Watchdog(watchdog),
            priority,
            steps_behind: Arc::new(AtomicU8::new(STEPS_BEHIND_MAX)),
        })
    }

    /// True where its priority may rise with what waits for it.
    #[must_use]
    pub fn can_rise(&self) -> bool {
        self.priority.can_rise()
    }

    /// The watchdog of its calls.
    #[must_use]
    pub fn watchdog(&self) -> Watchdog {
        self.watchdog
    }

    /// Gives the thread the priority that goes with what waits for the tier.
    pub fn note_backlog(&self, waiting_bytes: u64) {
        let steps = steps_behind(waiting_bytes);
        if !self.can_rise() || self.steps_behind.swap(steps, Ordering::Relaxed) == steps {
            return;
        }
        let priority = self.priority;
        let put = Box::pin(async move {
            let _ = priority.put_behind(steps);
        });
        if self.jobs.try_send(put).is_err() {
            // The thread hangs: told again later.
            self.steps_behind.store(u8::MAX, Ordering::Relaxed);
        }
    }

    /// Has a call carried out, and waits for a place and for its answer, each within the deadline.
    ///
    /// # Errors
    /// `TimedOut` where it took too long: it was dropped then. `Other` where the client panicked.
    pub async fn call<T: Send + 'static>(
        &self,
        io: &Io,
        job: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let core = io.notifier().ok_or(io::ErrorKind::Unsupported)?;
        let place = self.place(io).await?;
        let (sender, answer) = answers::sync_channel(1);
        let reply = Reply { sender: Some(sender), place: Some(place), core };
        let deadline = self.deadline;
        let job = async move {
            // Owned here before anything can panic.
            let reply = reply;
            let done = tokio::time::timeout(deadline, job).await;
            reply.send(done.map_err(|_| late(deadline)));
        };
        self.jobs.try_send(Box::pin(job)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        // The thread keeps the deadline; that the thread itself stands still is noticed here.
        let given_up_at = io.now().plus_ms(self.deadline_ms().saturating_add(GRACE_MS));
        let _timer = io.wake_at(given_up_at);
        std::future::poll_fn(|_| {
            io.note_notified();
            match answer.try_recv() {
                Ok(answer) => Poll::Ready(answer),
                Err(answers::TryRecvError::Empty) if io.now() >= given_up_at => {
                    Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the thread that speaks to HDFS hangs")))
                }
                Err(answers::TryRecvError::Empty) => Poll::Pending,
                Err(answers::TryRecvError::Disconnected) => {
                    Poll::Ready(Err(io::Error::other("the client of HDFS panicked; its message is on standard error")))
                }
            }
        })
        .await
    }

    /// A place for a call, when there is one.
    async fn place(&self, io: &Io) -> io::Result<OwnedSemaphorePermit> {
        let given_up_at = io.now().plus_ms(self.deadline_ms());
        let _timer = io.wake_at(given_up_at);
        std::future::poll_fn(|_| {
            io.note_notified();
            match self.places.clone().try_acquire_owned() {
                Ok(place) => Poll::Ready(Ok(place)),
                Err(_) if io.now() >= given_up_at => Poll::Ready(Err(late(self.deadline))),
                Err(_) => Poll::Pending,
            }
        })
        .await
    }

    fn deadline_ms(&self) -> u64 {
        u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX)
    }
}

fn late(deadline: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {} ms (--tier-deadline)", deadline.as_millis()))
}

/// How far the thread stands behind its core: a step less with each doubling of what waits.
fn steps_behind(waiting_bytes: u64) -> u8 {
    let doublings = (waiting_bytes / BACKLOG_BYTES).checked_ilog2().map_or(0, |log| log + 1);
    STEPS_BEHIND_MAX.saturating_sub(u8::try_from(doublings).unwrap_or(u8::MAX))
}

/// Steps of `nice` behind the core where little waits: a core that has work gets three times what the thread gets.
const STEPS_BEHIND_MAX: u8 = 5;
/// So much has been sealed a moment ago; more than that waits. At sixteen times as much the thread stands beside the core.
const BACKLOG_BYTES: u64 = 256 << 20;
/// Calls that are under way; others wait for a place.
const CALLS_MAX: usize = 64;
/// Calls, and changes of the priority.
const JOBS_MAX: usize = CALLS_MAX + 16;
const GRACE_MS: u64 = 2_000;
/// The client takes memory for each packet of 64 KiB, up to 100 in a read: two reads ahead, and as much again.
const KEPT_BYTES: usize = 32 << 20;
/// The client nests deeply, above all where nothing is optimized.
const STACK_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::atomic::AtomicBool;

    use rustix::process::getpriority_process;

    use super::*;
    use crate::ring::affinity::{CoresWanted, choose_cpus};
    use crate::ring::core::{self as ring_core, CoreOptions};
    use crate::ring::mesh::CoreMesh;

    fn on_a_ring<F: Future<Output = ()> + 'static>(main: impl FnOnce(Io) -> F) {
        let mesh = CoreMesh::new(1).expect("a descriptor");
        let options = CoreOptions { receive_buffer_count: 1, receive_buffer_bytes: 4096, ..CoreOptions::default() };
        ring_core::run(options, mesh.seat(0), main).expect("a ring");
    }

    fn started(core_index: usize, deadline_ms: u64) -> Companion {
        let hdfs = HdfsOptions { deadline_ms, watchdog_ms: 50, ..HdfsOptions::default() };
        Companion::start(&CompanionOptions::new(core_index, None, &hdfs)).expect("a thread")
    }

    #[test]
    fn a_call_that_panics_ends_alone() {
        on_a_ring(|io| async move {
            let companion = started(0, 60_000);
            let failed = companion.call(&io, async { panic!("a fault of the client, on purpose") }).await;
            let failed: io::Result<()> = failed;
            assert!(failed.expect_err("it panicked").to_string().contains("panicked"));
            assert_eq!(companion.call(&io, async { 7 }).await.expect("the thread goes on"), 7);
        });
    }

    #[test]
    fn calls_that_hang_end_at_their_deadline() {
        on_a_ring(|io| async move {
            let companion = started(0, 300);
            let ended = Rc::new(Cell::new(0));
            // More than there are places: those that find none end as well.
            for _ in 0..CALLS_MAX + 10 {
                let (call, io_of_call, ended) = (companion.clone(), io.clone(), ended.clone());
                io.spawn(async move {
                    let hung = call.call(&io_of_call, std::future::pending::<()>()).await.expect_err("it hangs");
                    assert_eq!(hung.kind(), io::ErrorKind::TimedOut);
                    assert!(hung.to_string().contains("300 ms (--tier-deadline)"), "{hung}");
                    ended.set(ended.get() + 1);
                });
            }
            io.yield_now().await;
            assert_eq!(companion.places.available_permits(), 0, "all places are taken");
            while ended.get() < CALLS_MAX + 10 {
                io.sleep_until(io.now().plus_ms(10)).await;
            }
            assert_eq!(companion.call(&io, async { 7 }).await.expect("places are free again"), 7);
        });
    }

    #[test]
    fn a_call_whose_bytes_stand_still_ends_before_its_deadline() {
        on_a_ring(|io| async move {
            let companion = started(0, 60_000);
            let watchdog = companion.watchdog();
            let moved = Arc::new(AtomicU8::new(0));
            let counts = moved.clone();
            let stood = companion.call(&io, async move {
                // Longer in all than the watchdog waits, but each step is in time.
                for _ in 0..4 {
                    watchdog.step("nothing came", tokio::time::sleep(Duration::from_millis(20))).await?;
                    counts.fetch_add(1, Ordering::Relaxed);
                }
                watchdog.step("nothing came", std::future::pending::<()>()).await
            });
            let stood = stood.await.expect("it has an answer").expect_err("it stood still");
            assert_eq!(stood.kind(), io::ErrorKind::TimedOut);
            assert_eq!(stood.to_string(), "nothing came for 50 ms (--tier-watchdog)");
            assert_eq!(moved.load(Ordering::Relaxed), 4);
        });
    }

    #[test]
    fn a_thread_that_stands_still_holds_up_no_other_core() {
        on_a_ring(|io| async move {
            let (blocked, other) = (started(0, 100), started(1, 100));
            let goes_on = Arc::new(AtomicBool::new(false));
            let until = goes_on.clone();
            let (io_of_call, call, has_failed) = (io.clone(), blocked.clone(), Rc::new(Cell::new(false)));
            let fails = has_failed.clone();
            io.spawn(async move {
                let hung = call.call(&io_of_call, async move {
                    // A job that never lets the thread go, as a library that waits for a socket.
                    while !until.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                });
                let hung = hung.await.expect_err("the thread stands still");
                assert!(hung.to_string().contains("the thread that speaks to HDFS hangs"), "{hung}");
                fails.set(true);
            });
            let mut answers = 0;
            while !has_failed.get() {
                assert_eq!(other.call(&io, async { 7 }).await.expect("not held up"), 7);
                answers += 1;
            }
            assert!(answers > 10, "{answers} answers while the other thread stood still");
            goes_on.store(true, Ordering::Release);
            assert_eq!(blocked.call(&io, async { 7 }).await.expect("it goes on"), 7);
        });
    }

    #[test]
    fn it_runs_where_its_core_runs_and_comes_forward_with_the_backlog() {
        on_a_ring(|io| async move {
            let cpu = *choose_cpus(&CoresWanted::Physical).expect("known").last().expect("at least one");
            let hdfs = HdfsOptions { deadline_ms: 60_000, watchdog_ms: 60_000, ..HdfsOptions::default() };
            let companion = Companion::start(&CompanionOptions::new(3, Some(cpu), &hdfs)).expect("a thread");
            let place = companion.call(&io, async {
                let cpus = rustix::thread::sched_getaffinity(None).expect("known");
                let name = std::thread::current().name().map(str::to_owned);
                (name, (0..1024).filter(|cpu| cpus.is_set(*cpu)).collect::<Vec<_>>())
            });
            assert_eq!(place.await.expect("an answer"), (Some("tier-3".to_owned()), vec![cpu]));
            let nice = async || companion.call(&io, async { getpriority_process(None).expect("known") }).await;
            let behind = nice().await.expect("an answer");
            for (waiting_bytes, steps) in [(1 << 30, 2), (1 << 40, 0), (1 << 20, STEPS_BEHIND_MAX)] {
                companion.note_backlog(waiting_bytes);
                let wanted = if companion.can_rise() { behind - i32::from(STEPS_BEHIND_MAX - steps) } else { behind };
                assert_eq!(nice().await.expect("an answer"), wanted, "{waiting_bytes} bytes wait");
            }
        });
    }

    #[test]
    fn the_more_waits_the_less_it_stands_behind() {
        let steps = [0, 255, 256, 511, 512, 1024, 2048, 4095, 4096, 1 << 40].map(|mib: u64| steps_behind(mib << 20));
        assert_eq!(steps, [5, 5, 4, 4, 3, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn it_ends_with_its_core() {
        struct Told(answers::Sender<()>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let (tell, told) = answers::channel();
        on_a_ring(|io| async move {
            let companion = started(0, 60_000);
            let of_thread = Told(tell);
            let began = companion.call(&io, async move {
                tokio::spawn(async move {
                    let _of_thread = of_thread;
                    std::future::pending::<()>().await;
                });
            });
            began.await.expect("an answer");
        });
        // What was under way is dropped with the runtime, at the thread's end.
        told.recv_timeout(Duration::from_secs(60)).expect("the thread has ended");
    }
}
