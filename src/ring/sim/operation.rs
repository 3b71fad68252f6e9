//! A simulated operation in flight, and the future that waits for it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::ring::io::Io;
use crate::ring::task::TaskId;

/// Where an operation leaves its result. Dropping the future leaves this, so the operation completes all the same.
pub(in crate::ring) struct Completion<T> {
    io: Io,
    result: RefCell<Option<T>>,
    task: Cell<TaskId>,
}

impl<T> Completion<T> {
    pub(in crate::ring) fn new(io: &Io) -> Rc<Self> {
        Rc::new(Self { io: io.clone(), result: RefCell::new(None), task: Cell::new(TaskId::NONE) })
    }

    /// Hands the result over and wakes who waits. Dropped unseen where nobody does.
    pub(in crate::ring) fn complete(&self, result: T) {
        let before = self.result.borrow_mut().replace(result);
        debug_assert!(before.is_none(), "an operation completes once");
        self.io.wake(self.task.get());
    }

    /// Waits for the result.
    pub(in crate::ring) fn wait(self: Rc<Self>) -> Operation<T> {
        Operation { completion: self }
    }
}

/// The wait for one operation.
pub(in crate::ring) struct Operation<T> {
    completion: Rc<Completion<T>>,
}

impl<T> Future for Operation<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        if let Some(result) = self.completion.result.borrow_mut().take() {
            return Poll::Ready(result);
        }
        self.completion.task.set(self.completion.io.current_task());
        Poll::Pending
    }
}
