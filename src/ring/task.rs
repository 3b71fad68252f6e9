//! The tasks of one core, and which of them are ready to run.
//!
//! A task is a future that never leaves its core. Nothing here uses a [`std::task::Waker`]: whoever makes a task wait
//! notes its [`TaskId`] (from [`Executor::current`]) and hands it to [`Executor::wake`] later. So a wake costs one push
//! on a queue, there is no atomic and no `unsafe`, and the order of polls is the same in each run of a simulation.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use slab::Slab;

/// Names one task of one core; a stale id (its task has ended) is harmless to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    index: u32,
    generation: u32,
}

impl TaskId {
    /// An id that no task ever has.
    pub const NONE: Self = Self { index: u32::MAX, generation: u32::MAX };
}

/// The tasks of one core. Not shared between threads.
pub struct Executor {
    tasks: RefCell<Slab<Task>>,
    ready: RefCell<VecDeque<TaskId>>,
    current: Cell<TaskId>,
    generation: Cell<u32>,
}

struct Task {
    generation: u32,
    queued: bool,
    /// `None` while the task is being polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Executor {
    /// An executor with no tasks.
    pub fn new() -> Self {
        Self {
            tasks: RefCell::new(Slab::new()),
            ready: RefCell::new(VecDeque::new()),
            current: Cell::new(TaskId::NONE),
            generation: Cell::new(0),
        }
    }

    /// Adds a task and queues it for its first poll.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> TaskId {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let task = Task { generation, queued: true, future: Some(Box::pin(future)) };
        let index = self.tasks.borrow_mut().insert(task);
        let id = TaskId { index: u32::try_from(index).expect("a core has under 2^32 tasks"), generation };
        self.ready.borrow_mut().push_back(id);
        id
    }

    /// The task that is being polled now; [`TaskId::NONE`] outside of a poll.
    pub fn current(&self) -> TaskId {
        self.current.get()
    }

    /// Queues `id` for a poll, once however often it is woken before that poll. A task may wake itself.
    pub fn wake(&self, id: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        if let Some(task) = tasks.get_mut(id.index as usize)
            && task.generation == id.generation
            && !task.queued
        {
            task.queued = true;
            self.ready.borrow_mut().push_back(id);
        }
    }

    /// Tasks that wait for a poll now.
    pub fn ready_count(&self) -> usize {
        self.ready.borrow().len()
    }

    /// Tasks alive.
    pub fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Polls the task that has waited longest. Returns false where none is ready.
    pub fn poll_one(&self) -> bool {
        self.poll_next().is_some()
    }

    /// As [`Executor::poll_one`]; says which task it was.
    pub fn poll_next(&self) -> Option<TaskId> {
        let id = self.ready.borrow_mut().pop_front()?;
        let future = {
            let mut tasks = self.tasks.borrow_mut();
            match tasks.get_mut(id.index as usize) {
                Some(task) if task.generation == id.generation => {
                    task.queued = false;
                    task.future.take()
                }
                _ => return Some(id),
            }
        };
        let Some(mut future) = future else {
            return Some(id);
        };
        self.current.set(id);
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.current.set(TaskId::NONE);
        match polled {
            Poll::Ready(()) => {
                // Removed before the future is dropped: its destructors may spawn or wake.
                self.tasks.borrow_mut().remove(id.index as usize);
                drop(future);
            }
            Poll::Pending => self.tasks.borrow_mut()[id.index as usize].future = Some(future),
        }
        Some(id)
    }

    /// Drops every task, as a crash does; what they own is released by their destructors.
    pub fn clear(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        self.ready.borrow_mut().clear();
        drop(tasks);
    }
}

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

/// Tasks that wait for something to change, woken all at once. Each looks again at what it waits for.
#[derive(Default)]
pub struct WaitList {
    waiting: RefCell<Vec<TaskId>>,
}

impl WaitList {
    /// Notes that `task` waits; noting it twice is the same as once.
    pub fn wait(&self, task: TaskId) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.contains(&task) {
            waiting.push(task);
        }
    }

    /// Takes `task` off the list, where it no longer waits.
    pub fn forget(&self, task: TaskId) {
        self.waiting.borrow_mut().retain(|waiting| *waiting != task);
    }

    /// True where nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// Wakes all, and forgets them.
    pub fn wake_all(&self, executor: &Executor) {
        for task in self.waiting.borrow_mut().drain(..) {
            executor.wake(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::rc::Rc;

    #[test]
    fn a_task_is_polled_once_a_wake_and_in_the_order_of_wakes() {
        let executor = Rc::new(Executor::new());
        let polls = Rc::new(RefCell::new(Vec::new()));
        let spawn = |name: u32| {
            let polls = polls.clone();
            executor.spawn(poll_fn(move |_| {
                polls.borrow_mut().push(name);
                Poll::<()>::Pending
            }))
        };
        let first = spawn(1);
        let second = spawn(2);
        while executor.poll_one() {}
        executor.wake(second);
        executor.wake(first);
        executor.wake(second);
        while executor.poll_one() {}
        assert_eq!(*polls.borrow(), [1, 2, 2, 1]);
    }

    #[test]
    fn a_stale_id_wakes_nobody() {
        let executor = Rc::new(Executor::new());
        let ended = executor.spawn(async {});
        while executor.poll_one() {}
        let polls = Rc::new(Cell::new(0));
        let seen = polls.clone();
        executor.spawn(poll_fn(move |_| {
            seen.set(seen.get() + 1);
            Poll::<()>::Pending
        }));
        while executor.poll_one() {}
        executor.wake(ended);
        assert!(!executor.poll_one(), "the slot's new task was woken by the old id");
        assert_eq!(polls.get(), 1);
    }

    #[test]
    fn a_task_may_wake_itself_and_spawn_others() {
        let executor = Rc::new(Executor::new());
        let inner = executor.clone();
        let count = Rc::new(Cell::new(0));
        let seen = count.clone();
        executor.spawn(poll_fn(move |_| {
            seen.set(seen.get() + 1);
            if seen.get() == 3 {
                let seen = seen.clone();
                inner.spawn(async move { seen.set(seen.get() + 10) });
                return Poll::Ready(());
            }
            inner.wake(inner.current());
            Poll::Pending
        }));
        while executor.poll_one() {}
        assert_eq!(count.get(), 13);
        assert_eq!(executor.task_count(), 0);
    }
}
