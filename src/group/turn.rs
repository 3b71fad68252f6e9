//! What one step of a coordinator works with, besides the group itself.

use std::rc::Rc;

use crate::group::config::GroupConfig;
use crate::group::deadlines::{DeadlineOf, Deadlines};
use crate::group::reply::GroupReply;
use crate::record::coordination::{Effects, Moment};

/// The surroundings of a group while something happens to it.
pub struct Turn<'a> {
    /// The bounds.
    pub config: &'a GroupConfig,
    /// All deadlines of the coordinator.
    pub deadlines: &'a mut Deadlines,
    /// Now.
    pub now: Moment,
    /// What comes of it.
    pub effects: &'a mut Effects<GroupReply>,
}

impl Turn<'_> {
    /// A member must be heard of within `timeout_ms`.
    pub fn expect_member(&mut self, group_id: &Rc<str>, member_id: &Rc<str>, timeout_ms: u64) {
        let key = DeadlineOf::Session { group_id: group_id.clone(), member_id: member_id.clone() };
        self.deadlines.set(key, self.now.now_ms.saturating_add(timeout_ms));
    }

    /// A member need not be heard of any more.
    pub fn forget_member(&mut self, group_id: &Rc<str>, member_id: &Rc<str>) {
        self.deadlines.cancel(&DeadlineOf::Session { group_id: group_id.clone(), member_id: member_id.clone() });
    }

    /// The members must have joined within `timeout_ms`.
    pub fn expect_joins(&mut self, group_id: &Rc<str>, timeout_ms: u64) {
        let key = DeadlineOf::Join { group_id: group_id.clone() };
        self.deadlines.set(key, self.now.now_ms.saturating_add(timeout_ms));
    }

    /// The members must have asked for their assignments within `timeout_ms`.
    pub fn expect_syncs(&mut self, group_id: &Rc<str>, timeout_ms: u64) {
        let key = DeadlineOf::Sync { group_id: group_id.clone() };
        self.deadlines.set(key, self.now.now_ms.saturating_add(timeout_ms));
    }
}
