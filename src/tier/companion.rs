//! The one thread of a process that speaks to HDFS, and how cores ask it.
//!
//! The client of HDFS needs tokio, and keeps its connections to DataNodes for the whole process: on two runtimes one's
//! connection could come to wait for the other's. So there is one, of a single thread, for all cores. It only carries out
//! calls; what is to be done when is decided on the cores.
//!
//! No core waits for another's calls: each call is a task of its own, and each core has places of its own for them, so
//! that calls which hang hold up neither the thread nor another core's. A panic of the client ends its call alone.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc as answers;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::ring::io::Io;
use crate::ring::mesh::Notifier;
use crate::tier::hdfs_options::TIER_THREAD;

/// How a core asks. Cheap to clone; for any thread.
#[derive(Clone, Debug)]
pub struct Companion {
    jobs: mpsc::Sender<Job>,
    places: Arc<Semaphore>,
    deadline: Duration,
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

impl Companion {
    /// Starts the thread. It ends with the last of the handles.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub fn start(deadline_ms: u64) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().thread_name(TIER_THREAD).enable_all().build()?;
        let (jobs, mut waiting) = mpsc::channel::<Job>(JOBS_MAX);
        let thread = std::thread::Builder::new().name(TIER_THREAD.to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            // Cores come first.
            let _ = rustix::process::nice(5);
            runtime.block_on(async move {
                while let Some(job) = waiting.recv().await {
                    // A job that panics ends alone: whoever waits for it is told.
                    tokio::spawn(job);
                }
            });
        })?;
        let places = Arc::new(Semaphore::new(CALLS_A_CORE_MAX));
        Ok(Self { jobs, places, deadline: Duration::from_millis(deadline_ms) })
    }

    /// The same thread, with places of its own for calls.
    #[must_use]
    pub fn for_core(&self) -> Self {
        Self { places: Arc::new(Semaphore::new(CALLS_A_CORE_MAX)), ..self.clone() }
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

/// Calls of one core that are under way; others wait for a place.
const CALLS_A_CORE_MAX: usize = 64;
/// Of all cores that there may be.
const JOBS_MAX: usize = CALLS_A_CORE_MAX * 1024;
const GRACE_MS: u64 = 2_000;
/// The client nests deeply, above all where nothing is optimized.
const STACK_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::ring::core::{self as ring_core, CoreOptions};
    use crate::ring::mesh::CoreMesh;

    fn on_a_ring<F: Future<Output = ()> + 'static>(main: impl FnOnce(Io) -> F) {
        let mesh = CoreMesh::new(1).expect("a descriptor");
        let options = CoreOptions { receive_buffer_count: 1, receive_buffer_bytes: 4096, ..CoreOptions::default() };
        ring_core::run(options, mesh.seat(0), main).expect("a ring");
    }

    #[test]
    fn a_call_that_panics_ends_alone() {
        on_a_ring(|io| async move {
            let companion = Companion::start(60_000).expect("a thread");
            let failed = companion.call(&io, async { panic!("a fault of the client, on purpose") }).await;
            let failed: io::Result<()> = failed;
            assert!(failed.expect_err("it panicked").to_string().contains("panicked"));
            assert_eq!(companion.call(&io, async { 7 }).await.expect("the thread goes on"), 7);
        });
    }

    #[test]
    fn calls_that_hang_end_at_their_deadline_and_hold_up_no_other_core() {
        on_a_ring(|io| async move {
            let one = Companion::start(300).expect("a thread");
            let other = one.for_core();
            let ended = Rc::new(Cell::new(0));
            // More than there are places: those that find none end as well.
            for _ in 0..CALLS_A_CORE_MAX + 10 {
                let (call, io_of_call, ended) = (one.clone(), io.clone(), ended.clone());
                io.spawn(async move {
                    let hung = call.call(&io_of_call, std::future::pending::<()>()).await;
                    assert_eq!(hung.expect_err("it hangs").kind(), io::ErrorKind::TimedOut);
                    ended.set(ended.get() + 1);
                });
            }
            io.yield_now().await;
            assert_eq!(one.places.available_permits(), 0, "all places are taken");
            assert_eq!(other.call(&io, async { 7 }).await.expect("not held up"), 7);
            assert_eq!(ended.get(), 0, "answered before any of those that hang had ended");
            while ended.get() < CALLS_A_CORE_MAX + 10 {
                io.sleep_until(io.now().plus_ms(10)).await;
            }
            assert_eq!(one.call(&io, async { 7 }).await.expect("places are free again"), 7);
        });
    }
}
