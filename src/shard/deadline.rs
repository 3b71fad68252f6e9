//! Waiting until a deadline, and no longer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::ring::io::Io;
use crate::ring::timer::Nanos;

/// What `work` comes to by the deadline; `None`: it was dropped then. It is polled once in any case.
pub async fn within<T>(io: &Io, deadline: Nanos, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut timer = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        if io.now() >= deadline {
            return Poll::Ready(None);
        }
        timer.get_or_insert_with(|| io.wake_at(deadline));
        Poll::Pending
    })
    .await
}
