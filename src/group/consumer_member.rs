//! One member of a group of the consumer protocol, and how it gets from one assignment to the next.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::group::classic_client::ClassicClient;
use crate::group::config::GroupConfig;
use crate::group::topics::Partitions;
use crate::wire::error_code::ErrorCode;

/// Where a member is on the way to its assignment; numbers as in Kafka's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has all that it shall have.
    Stable,
    /// It has to give partitions back first.
    Unrevoked,
    /// It waits for partitions that others have not given back.
    Unreleased,
    /// Of a newer server.
    Unknown,
}

impl MemberState {
    /// As it is written down.
    pub fn number(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::Unrevoked => 1,
            Self::Unreleased => 2,
            Self::Unknown => 127,
        }
    }

    /// As it was written down.
    pub fn of(number: i8) -> Self {
        match number {
            0 => Self::Stable,
            1 => Self::Unrevoked,
            2 => Self::Unreleased,
            _ => Self::Unknown,
        }
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerMember {
    /// Its id.
    pub member_id: Rc<str>,
    /// Set for a static member.
    pub instance_id: Option<Rc<str>>,
    /// Where it says that it is.
    pub rack_id: Option<String>,
    /// What it calls itself.
    pub client_id: String,
    /// Where it is.
    pub client_host: String,
    /// It has this long to give partitions back.
    pub rebalance_timeout_ms: i32,
    /// What it reads.
    pub subscribed_topics: BTreeSet<String>,
    /// What it reads besides: the topics that match; empty: none.
    pub subscribed_regex: String,
    /// Set for a member that speaks the classic protocol.
    pub classic: Option<ClassicClient>,
    /// The assignor that it prefers.
    pub server_assignor: Option<String>,
    /// The epoch that it is in.
    pub epoch: i32,
    /// The epoch that it was in before: a reply may have been lost.
    pub previous_epoch: i32,
    /// Where it is on the way to its assignment.
    pub state: MemberState,
    /// What it may read.
    pub assigned: Partitions,
    /// What it has to give back.
    pub pending_revocation: Partitions,
}

impl ConsumerMember {
    /// A member that has nothing yet.
    pub fn new(member_id: Rc<str>) -> Self {
        Self {
            member_id,
            instance_id: None,
            rack_id: None,
            client_id: String::new(),
            client_host: String::new(),
            rebalance_timeout_ms: -1,
            subscribed_topics: BTreeSet::new(),
            subscribed_regex: String::new(),
            classic: None,
            server_assignor: None,
            epoch: 0,
            previous_epoch: 0,
            state: MemberState::Stable,
            assigned: Partitions::new(),
            pending_revocation: Partitions::new(),
        }
    }

    /// How long it may be silent.
    pub fn session_timeout_ms(&self, config: &GroupConfig) -> u64 {
        let timeout_ms = self.classic.as_ref().map(|client| client.session_timeout_ms);
        u64::from(timeout_ms.unwrap_or(config.group_consumer_session_timeout_ms))
    }

    /// True where the other one subscribes to the same.
    pub fn reads_the_same(&self, other: &Self) -> bool {
        self.subscribed_topics == other.subscribed_topics && self.subscribed_regex == other.subscribed_regex
    }

    /// True where it has all of the assignment of this epoch.
    pub fn is_reconciled_to(&self, epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == epoch
    }

    /// True where what it says that it owns is all its own.
    pub fn owns_all_of(&self, owned: Option<&Partitions>) -> bool {
        owned.is_some_and(|owned| {
            owned.iter().all(|(topic, parts)| self.assigned.get(topic).is_some_and(|mine| parts.is_subset(mine)))
        })
    }

    /// The next step towards `target`, the assignment of `target_epoch`; `is_free` says that nobody else has a partition.
    ///
    /// # Errors
    /// It has to begin anew.
    pub fn reconcile(
        &mut self,
        target_epoch: i32,
        target: &Partitions,
        owned: Option<&Partitions>,
        is_free: impl Fn([u8; 16], i32) -> bool,
    ) -> Result<(), ErrorCode> {
        let epoch = match self.state {
            MemberState::Stable if self.epoch == target_epoch => return Ok(()),
            MemberState::Stable | MemberState::Unreleased => self.epoch,
            MemberState::Unrevoked if still_owns(owned, &self.pending_revocation) => return Ok(()),
            // All is given back, so it goes on from the epoch in which it had that.
            MemberState::Unrevoked => self.epoch.saturating_add(1),
            MemberState::Unknown if owned.is_none_or(|owned| !owned.is_empty()) => {
                return Err(ErrorCode::FencedMemberEpoch);
            }
            MemberState::Unknown => target_epoch,
        };
        let mut kept = Partitions::new();
        let mut revoked = Partitions::new();
        for (topic, parts) in &self.assigned {
            for part in parts {
                let stays = target.get(topic).is_some_and(|target| target.contains(part));
                let into = if stays { &mut kept } else { &mut revoked };
                into.entry(*topic).or_default().insert(*part);
            }
        }
        if !revoked.is_empty() && still_owns(owned, &revoked) {
            self.state = MemberState::Unrevoked;
            self.go_to(epoch);
            self.assigned = kept;
            self.pending_revocation = revoked;
            return Ok(());
        }
        let mut has_unreleased = false;
        for (topic, parts) in target {
            for part in parts {
                if kept.get(topic).is_some_and(|kept| kept.contains(part)) {
                    continue;
                }
                if is_free(*topic, *part) {
                    kept.entry(*topic).or_default().insert(*part);
                } else {
                    has_unreleased = true;
                }
            }
        }
        self.state = if has_unreleased { MemberState::Unreleased } else { MemberState::Stable };
        self.go_to(target_epoch);
        self.assigned = kept;
        self.pending_revocation = Partitions::new();
        Ok(())
    }

    fn go_to(&mut self, epoch: i32) {
        self.previous_epoch = self.epoch;
        self.epoch = epoch;
    }
}

/// True where it says that it has any of these, or does not say.
fn still_owns(owned: Option<&Partitions>, parts: &Partitions) -> bool {
    owned.is_none_or(|owned| {
        owned.iter().any(|(topic, mine)| parts.get(topic).is_some_and(|parts| !parts.is_disjoint(mine)))
    })
}
