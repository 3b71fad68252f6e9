//! One core's share of memory for frames, handed out in order.
//!
//! A frame reserves its whole length before it is read, so that a core never holds half of more frames than it can
//! finish. Who comes first is served first: a large frame is not overtaken for ever by small ones. Small frames have a
//! share of their own, so that a heartbeat passes while big produces wait.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Poll;

use crate::ring::io::Io;
use crate::ring::task::TaskId;

/// Bytes that frames of one core may hold at once.
pub struct MemoryBudget {
    large: Share,
    small: Share,
}

struct Share {
    total_bytes: usize,
    free_bytes: Cell<usize>,
    waiting: RefCell<VecDeque<(TaskId, usize)>>,
}

impl MemoryBudget {
    /// A budget of `total_bytes`, of which a sixteenth (1 MiB at least) is for frames up to [`SMALL_FRAME_BYTES_MAX`].
    pub fn new(total_bytes: usize) -> Rc<Self> {
        let small_bytes = (total_bytes / 16).max(SMALL_SHARE_BYTES_MIN);
        Rc::new(Self { large: Share::new(total_bytes.saturating_sub(small_bytes)), small: Share::new(small_bytes) })
    }

    /// The largest frame that can ever be reserved.
    pub fn frame_bytes_max(&self) -> usize {
        self.large.total_bytes
    }

    /// Bytes that are held now.
    pub fn held_bytes(&self) -> usize {
        self.large.held_bytes() + self.small.held_bytes()
    }

    /// Reserves `len_bytes`, or notes the current task: it is polled again when it is its turn.
    ///
    /// # Panics
    /// Where `len_bytes` is over [`MemoryBudget::frame_bytes_max`]: the frame limit was checked at start.
    pub fn poll_reserve(self: &Rc<Self>, io: &Io, len_bytes: usize) -> Poll<Reservation> {
        let small = len_bytes <= SMALL_FRAME_BYTES_MAX;
        if !self.share(small).poll_reserve(io.current_task(), len_bytes) {
            return Poll::Pending;
        }
        Poll::Ready(Reservation { io: io.clone(), budget: self.clone(), len_bytes, small })
    }

    /// Reserves `len_bytes` of the large share now, or not at all. For what grows while it is held: whoever waits for more
    /// with memory in hand may wait for ever.
    pub fn try_reserve(self: &Rc<Self>, io: &Io, len_bytes: usize) -> Option<Reservation> {
        let free_bytes = self.large.free_bytes.get().checked_sub(len_bytes)?;
        self.large.free_bytes.set(free_bytes);
        Some(Reservation { io: io.clone(), budget: self.clone(), len_bytes, small: false })
    }

    /// The task waits no longer (its connection was closed).
    pub fn forget(&self, io: &Io, task: TaskId) {
        self.large.forget(task);
        self.small.forget(task);
        self.large.wake_waiting(io);
        self.small.wake_waiting(io);
    }

    fn share(&self, small: bool) -> &Share {
        if small { &self.small } else { &self.large }
    }
}

impl Share {
    fn new(total_bytes: usize) -> Self {
        Self { total_bytes, free_bytes: Cell::new(total_bytes), waiting: RefCell::new(VecDeque::new()) }
    }

    fn held_bytes(&self) -> usize {
        self.total_bytes - self.free_bytes.get()
    }

    fn poll_reserve(&self, task: TaskId, len_bytes: usize) -> bool {
        assert!(len_bytes <= self.total_bytes, "a frame of {len_bytes} bytes is over the core's share");
        let mut waiting = self.waiting.borrow_mut();
        let place = waiting.iter().position(|(other, _)| *other == task);
        let first = place.unwrap_or(waiting.len()) == 0;
        if first && len_bytes <= self.free_bytes.get() {
            if place.is_some() {
                waiting.pop_front();
            }
            self.free_bytes.set(self.free_bytes.get() - len_bytes);
            return true;
        }
        if place.is_none() {
            waiting.push_back((task, len_bytes));
        }
        false
    }

    fn forget(&self, task: TaskId) {
        self.waiting.borrow_mut().retain(|(other, _)| *other != task);
    }

    fn release(&self, io: &Io, len_bytes: usize) {
        self.free_bytes.set(self.free_bytes.get() + len_bytes);
        assert!(self.free_bytes.get() <= self.total_bytes, "more memory given back than was reserved");
        self.wake_waiting(io);
    }

    /// Wakes as many of those in front as fit together; each takes its part when it is polled.
    fn wake_waiting(&self, io: &Io) {
        let mut free_bytes = self.free_bytes.get();
        for (task, wanted_bytes) in self.waiting.borrow().iter() {
            if *wanted_bytes > free_bytes {
                break;
            }
            free_bytes -= wanted_bytes;
            io.wake(*task);
        }
    }
}

/// Memory held of a core's budget; given back when dropped.
pub struct Reservation {
    io: Io,
    budget: Rc<MemoryBudget>,
    len_bytes: usize,
    small: bool,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.share(self.small).release(&self.io, self.len_bytes);
    }
}

/// Frames up to this length draw on the share of the small.
pub const SMALL_FRAME_BYTES_MAX: usize = 64 * 1024;
const SMALL_SHARE_BYTES_MIN: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::task::Executor;

    #[test]
    fn a_large_frame_is_not_overtaken() {
        let executor = Executor::new();
        let tasks: Vec<TaskId> = (0..3).map(|_| executor.spawn(async {})).collect();
        let share = Share::new(100);
        assert!(share.poll_reserve(tasks[0], 60));
        assert!(!share.poll_reserve(tasks[1], 80), "80 do not fit beside 60");
        assert!(!share.poll_reserve(tasks[2], 10), "10 would fit, but 80 came first");
        share.free_bytes.set(100);
        assert!(!share.poll_reserve(tasks[2], 10), "still behind");
        assert!(share.poll_reserve(tasks[1], 80));
        assert!(share.poll_reserve(tasks[2], 10));
        assert_eq!(share.free_bytes.get(), 10);
    }

    #[test]
    fn who_is_gone_holds_nobody_up() {
        let executor = Executor::new();
        let tasks: Vec<TaskId> = (0..2).map(|_| executor.spawn(async {})).collect();
        let share = Share::new(100);
        share.free_bytes.set(50);
        assert!(!share.poll_reserve(tasks[0], 80));
        share.forget(tasks[0]);
        assert!(share.poll_reserve(tasks[1], 50));
    }
}
