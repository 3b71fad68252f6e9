//! The deadlines of one core, soonest first.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::ring::task::TaskId;

/// Nanoseconds on the core's monotonic clock; only differences mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// This moment and `ms` milliseconds.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }

    /// This moment and `us` microseconds.
    pub fn plus_us(self, us: u64) -> Self {
        Self(self.0.saturating_add(us.saturating_mul(1_000)))
    }

    /// Nanoseconds from `earlier` to this moment, 0 where it lies ahead.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Names one deadline, to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    deadline: Nanos,
    sequence: u64,
}

/// Tasks to be woken at a deadline, in the order of deadlines and, among equals, of their setting.
#[derive(Default)]
pub struct Timers {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    sequence: u64,
    by_deadline: BTreeMap<(Nanos, u64), TaskId>,
}

impl Timers {
    /// Wakes `task` when the clock has reached `deadline`.
    pub fn set(&self, deadline: Nanos, task: TaskId) -> TimerId {
        let mut inner = self.inner.borrow_mut();
        inner.sequence += 1;
        let sequence = inner.sequence;
        inner.by_deadline.insert((deadline, sequence), task);
        TimerId { deadline, sequence }
    }

    /// Takes a deadline back; nothing where it has passed already.
    pub fn cancel(&self, timer: TimerId) {
        self.inner.borrow_mut().by_deadline.remove(&(timer.deadline, timer.sequence));
    }

    /// The soonest deadline.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.inner.borrow().by_deadline.keys().next().map(|(deadline, _)| *deadline)
    }

    /// The task of one deadline that `now` has reached, taken out; `None` where none is left.
    pub fn pop_due(&self, now: Nanos) -> Option<TaskId> {
        let mut inner = self.inner.borrow_mut();
        let first = inner.by_deadline.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Takes all deadlines back, as a crash does.
    pub fn clear(&self) {
        self.inner.borrow_mut().by_deadline.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::task::Executor;

    #[test]
    fn due_in_order_of_deadline_then_of_setting() {
        let executor = Executor::new();
        let ids: Vec<TaskId> = (0..4).map(|_| executor.spawn(async {})).collect();
        let timers = Timers::default();
        timers.set(Nanos(30), ids[0]);
        timers.set(Nanos(10), ids[1]);
        let taken_back = timers.set(Nanos(10), ids[2]);
        timers.set(Nanos(10), ids[3]);
        timers.cancel(taken_back);
        assert_eq!(timers.next_deadline(), Some(Nanos(10)));
        assert_eq!(timers.pop_due(Nanos(9)), None);
        assert_eq!(timers.pop_due(Nanos(10)), Some(ids[1]));
        assert_eq!(timers.pop_due(Nanos(10)), Some(ids[3]));
        assert_eq!(timers.pop_due(Nanos(29)), None);
        assert_eq!(timers.pop_due(Nanos(31)), Some(ids[0]));
        assert_eq!(timers.next_deadline(), None);
    }
}
