//! When something is due: one deadline a key, the earliest first.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a deadline is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeadlineOf {
    /// A member must be heard of by then.
    Session {
        /// The group.
        group_id: Rc<str>,
        /// The member.
        member_id: Rc<str>,
    },
    /// A member must have given back by then what is no longer its own.
    Revocation {
        /// The group.
        group_id: Rc<str>,
        /// The member.
        member_id: Rc<str>,
    },
    /// A member of the classic protocol must have joined its group of the consumer protocol again by then.
    ClassicJoin {
        /// The group.
        group_id: Rc<str>,
        /// The member.
        member_id: Rc<str>,
    },
    /// A member of the classic protocol must have asked its group of the consumer protocol for its assignment by then.
    ClassicSync {
        /// The group.
        group_id: Rc<str>,
        /// The member.
        member_id: Rc<str>,
    },
    /// The members of a rebalance must have joined by then.
    Join {
        /// The group.
        group_id: Rc<str>,
    },
    /// The members of a generation must have asked for their assignments by then.
    Sync {
        /// The group.
        group_id: Rc<str>,
    },
    /// Committed offsets are looked at for expiry.
    OffsetExpiry,
}

/// All deadlines of a coordinator.
///
/// A deadline that is put off, as each heartbeat does, stays where it is in the order of time until it comes up there.
#[derive(Debug, Default)]
pub struct Deadlines {
    by_key: BTreeMap<DeadlineOf, Deadline>,
    by_time: BTreeSet<(u64, DeadlineOf)>,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at_ms: u64,
    /// Where it stands in the order of time: never later than `at_ms`.
    looked_at_ms: u64,
}

impl Deadlines {
    /// Sets a deadline, in place of the one that the key has.
    pub fn set(&mut self, key: DeadlineOf, at_ms: u64) {
        match self.by_key.get_mut(&key) {
            Some(deadline) if deadline.looked_at_ms <= at_ms => deadline.at_ms = at_ms,
            _ => {
                self.cancel(&key);
                self.insert(key, at_ms);
            }
        }
    }

    fn insert(&mut self, key: DeadlineOf, at_ms: u64) {
        self.by_time.insert((at_ms, key.clone()));
        self.by_key.insert(key, Deadline { at_ms, looked_at_ms: at_ms });
    }

    /// Sets a deadline, unless the key has one.
    pub fn set_if_absent(&mut self, key: DeadlineOf, at_ms: u64) {
        if !self.by_key.contains_key(&key) {
            self.insert(key, at_ms);
        }
    }

    /// Takes a deadline back.
    pub fn cancel(&mut self, key: &DeadlineOf) {
        if let Some((key, deadline)) = self.by_key.remove_entry(key) {
            let was_there = self.by_time.remove(&(deadline.looked_at_ms, key));
            assert!(was_there, "a deadline stands in both maps");
        }
    }

    /// When one may be due: never later than the earliest, and earlier where that was put off.
    pub fn next_ms(&self) -> Option<u64> {
        self.by_time.first().map(|(at_ms, _)| *at_ms)
    }

    /// Takes the earliest, where it is due.
    pub fn pop_due(&mut self, now_ms: u64) -> Option<DeadlineOf> {
        while self.next_ms()? <= now_ms {
            let (_, key) = self.by_time.pop_first()?;
            let (key, deadline) = self.by_key.remove_entry(&key)?;
            if deadline.at_ms <= now_ms {
                return Some(key);
            }
            self.insert(key, deadline.at_ms);
        }
        None
    }

    /// Puts off all of rebalances: those who were to come could not.
    pub fn put_off_rebalances(&mut self, by_ms: u64) {
        let is_of_rebalance = |key: &DeadlineOf| !matches!(key, DeadlineOf::Session { .. } | DeadlineOf::OffsetExpiry);
        let late: Vec<(DeadlineOf, u64)> = self
            .by_key
            .iter()
            .filter(|(key, _)| is_of_rebalance(key))
            .map(|(key, deadline)| (key.clone(), deadline.at_ms))
            .collect();
        for (key, at_ms) in late {
            self.set(key, at_ms.saturating_add(by_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_due_first_and_each_key_has_one() {
        let join = |name: &str| DeadlineOf::Join { group_id: name.into() };
        let mut deadlines = Deadlines::default();
        deadlines.set(join("a"), 30);
        deadlines.set(join("b"), 20);
        deadlines.set(join("a"), 10);
        deadlines.set(DeadlineOf::OffsetExpiry, 20);
        assert_eq!(deadlines.next_ms(), Some(10));
        assert_eq!(deadlines.pop_due(9), None);
        assert_eq!(deadlines.pop_due(10), Some(join("a")));
        deadlines.cancel(&DeadlineOf::OffsetExpiry);
        deadlines.put_off_rebalances(5);
        assert_eq!(deadlines.pop_due(24), None);
        assert_eq!(deadlines.pop_due(25), Some(join("b")));
        assert_eq!(deadlines.next_ms(), None);
    }

    #[test]
    fn a_deadline_that_is_put_off_is_due_once_and_then() {
        let session = |member: &str| DeadlineOf::Session { group_id: "g".into(), member_id: member.into() };
        let mut deadlines = Deadlines::default();
        deadlines.set(session("a"), 10);
        deadlines.set(session("b"), 15);
        for at_ms in 11..=40 {
            deadlines.set(session("a"), at_ms);
        }
        assert_eq!(deadlines.next_ms(), Some(10), "looked at where it stood");
        assert_eq!(deadlines.pop_due(14), None);
        assert_eq!(deadlines.next_ms(), Some(15));
        assert_eq!(deadlines.pop_due(39), Some(session("b")));
        assert_eq!(deadlines.pop_due(39), None);
        deadlines.set(session("a"), 30);
        assert_eq!(deadlines.pop_due(30), Some(session("a")), "brought forward");
        assert_eq!(deadlines.next_ms(), None);
        deadlines.set(session("a"), 50);
        deadlines.set(session("a"), 60);
        deadlines.cancel(&session("a"));
        assert_eq!(deadlines.next_ms(), None);
    }
}
