//! What one task at a time may do; and work that goes on when nobody waits.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use crate::ring::io::Io;
use crate::ring::task::WaitList;

/// A thing that tasks of one core do one after the other, such as replacing one file.
#[derive(Default)]
pub struct Exclusive {
    is_taken: Cell<bool>,
    waiters: WaitList,
}

/// The right to do it, until dropped.
pub struct Turn<'a> {
    of: &'a Exclusive,
    io: Io,
}

impl Exclusive {
    /// True where nobody does it.
    pub fn is_free(&self) -> bool {
        !self.is_taken.get()
    }

    /// Waits until nobody else does it. In no order.
    pub async fn turn(&self, io: &Io) -> Turn<'_> {
        poll_fn(|_| {
            if !self.is_taken.replace(true) {
                return Poll::Ready(());
            }
            self.waiters.wait(io.current_task());
            Poll::Pending
        })
        .await;
        Turn { of: self, io: io.clone() }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.of.is_taken.set(false);
        self.io.wake_all(&self.of.waiters);
    }
}

/// Does `work` as a task of its own and waits for it: it is done to its end, although the caller may go away.
pub async fn to_its_end<T: 'static>(io: &Io, work: impl Future<Output = T> + 'static) -> T {
    let outcome: Rc<RefCell<Option<T>>> = Rc::default();
    let (told, waiter, io_of_task) = (outcome.clone(), io.current_task(), io.clone());
    io.spawn(async move {
        let done = work.await;
        *told.borrow_mut() = Some(done);
        io_of_task.wake(waiter);
    });
    poll_fn(|_| outcome.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await
}
