//! The one thread of a process that speaks to HDFS, and how cores ask it.
//!
//! The client of HDFS needs tokio, and keeps its connections to DataNodes for the whole process: on two runtimes one's
//! connection could come to wait for the other's. So there is one, of a single thread, for all cores. It only carries out
//! calls; what is to be done when is decided on the cores.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::mpsc as answers;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc;

use crate::ring::io::Io;
use crate::ring::mesh::Notifier;

/// How a core asks. Cheap to clone; for any thread.
#[derive(Clone, Debug)]
pub struct Companion {
    jobs: mpsc::UnboundedSender<Job>,
    deadline: Duration,
}

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the core, however a job ends.
struct Told(Notifier);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify();
    }
}

impl Companion {
    /// Starts the thread. It ends with the last of the handles.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub fn start(deadline_ms: u64) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (jobs, mut waiting) = mpsc::unbounded_channel::<Job>();
        std::thread::Builder::new().name("tier".to_owned()).spawn(move || {
            // Cores come first.
            let _ = rustix::process::nice(5);
            runtime.block_on(async move {
                while let Some(job) = waiting.recv().await {
                    // A job that panics ends alone: whoever waits for it is told.
                    tokio::spawn(job);
                }
            });
        })?;
        Ok(Self { jobs, deadline: Duration::from_millis(deadline_ms) })
    }

    /// Has a call carried out, and waits for its answer within the deadline. Jobs are bounded by those who ask.
    ///
    /// # Errors
    /// `TimedOut` where it took too long: it was dropped then.
    pub async fn call<T: Send + 'static>(
        &self,
        io: &Io,
        job: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let (sender, answer) = answers::sync_channel(1);
        let told = Told(io.notifier().ok_or(io::ErrorKind::Unsupported)?);
        let deadline = self.deadline;
        let job = async move {
            let _told = told;
            let done = tokio::time::timeout(deadline, job).await;
            // Nobody may want it any more.
            let _ = sender.send(done.map_err(|_| io::Error::from(io::ErrorKind::TimedOut)));
            drop(sender);
        };
        self.jobs.send(Box::pin(job)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        std::future::poll_fn(|_| {
            io.note_notified();
            match answer.try_recv() {
                Ok(answer) => Poll::Ready(answer),
                Err(answers::TryRecvError::Empty) => Poll::Pending,
                Err(answers::TryRecvError::Disconnected) => {
                    Poll::Ready(Err(io::Error::other("the client of HDFS failed; see the lines above")))
                }
            }
        })
        .await
    }
}
