//! Work for another core: a job goes over the mailbox, runs there, and its result comes back.
//!
//! Used where a connection's core is not the one that leads the partition (`--listen-mode single`). A job owns all that
//! it takes along and all that it brings back. Jobs for one core begin in the order in which they were sent.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::ring::mailbox::{CallFuture, Full};
use crate::shard::core::Shard;

/// What a core does for another one.
pub type Job = Box<dyn FnOnce(Rc<Shard>) -> Pin<Box<dyn Future<Output = Done>>> + Send>;
/// What comes of a job; [`Sent`] knows its type.
pub type Done = Box<dyn Any + Send>;

/// A job that was sent. Its output is the job's; dropping it does not stop the job.
pub struct Sent<R> {
    call: CallFuture<Job, Done>,
    output: PhantomData<fn() -> R>,
}

/// The core that a job was sent to has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the core that has this partition is stopping")]
pub struct CoreGone;

impl Shard {
    /// Sends a job to `core`; on return it has its place there, behind those sent before. Waits while that core has as
    /// many jobs of this one as it takes ([`JOBS_MAX`]).
    pub async fn send_job<R, F>(&self, core: usize, job: impl FnOnce(Rc<Self>) -> F + Send + 'static) -> Sent<R>
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
    {
        let mut job: Option<Job> =
            Some(Box::new(move |shard| Box::pin(async move { Box::new(job(shard).await) as Done })));
        let call = poll_fn(|_| {
            let body = job.take().expect("a job that was handed back is kept");
            match self.jobs().try_call(core, body) {
                Ok(call) => Poll::Ready(call),
                Err(Full(body)) => {
                    job = Some(body);
                    self.jobs().note_credit();
                    Poll::Pending
                }
            }
        });
        Sent { call: call.await, output: PhantomData }
    }

    /// Runs a job on `core` and waits for its result.
    ///
    /// # Errors
    /// That core has ended.
    pub async fn on_core<R, F>(
        &self,
        core: usize,
        job: impl FnOnce(Rc<Self>) -> F + Send + 'static,
    ) -> Result<R, CoreGone>
    where
        R: Send + 'static,
        F: Future<Output = R> + 'static,
    {
        self.send_job(core, job).await.await
    }
}

impl<R: 'static> Future for Sent<R> {
    type Output = Result<R, CoreGone>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.call).poll(context).map(|answer| {
            let done = answer.map_err(|_| CoreGone)?;
            Ok(*done.downcast::<R>().expect("a job gives what it was sent for"))
        })
    }
}

/// Runs the jobs of the other cores, a task for each; the credits of the mailbox bound them.
pub async fn run_jobs(shard: Rc<Shard>) {
    loop {
        let incoming = poll_fn(|_| shard.jobs().poll_request()).await;
        let running = (incoming.request)(shard.clone());
        shard.io().spawn(async move { incoming.reply.send(running.await) });
    }
}

/// Jobs that one core may have open with another.
pub const JOBS_MAX: usize = 1024;
