//! Committed offsets that nobody needs any more, and groups that have nothing left.

use std::rc::Rc;
use std::sync::Arc;

use crate::group::classic_group::{ClassicGroup, ClassicState};
use crate::group::coordinator::{GroupCoordinator, push};
use crate::group::records;
use crate::group::reply::GroupReply;
use crate::group::stored_offsets::StoredOffset;
use crate::record::coordination::{Effects, Moment};

/// From when on the age of an offset counts.
#[derive(Clone, Copy)]
pub(in crate::group) enum AgeFrom {
    /// From its commit.
    Commit,
    /// From when its group became empty, where that is known.
    Empty(i64),
}

impl GroupCoordinator {
    /// Takes back the offsets that are too old, and the groups that have nothing else.
    pub(in crate::group) fn expire_offsets(&mut self, now: Moment, effects: &mut Effects<GroupReply>) {
        let retention_ms = i64::try_from(self.config.offsets_retention_ms).unwrap_or(i64::MAX);
        let mut gone: Vec<Rc<str>> = Vec::new();
        for (group_id, group) in &mut self.groups {
            let (members, pending) = (group.members(), &self.pending);
            let is_empty = members.is_empty();
            let expired = match members.age_from() {
                None => Vec::new(),
                Some(from) => group.offsets.places(|topic, partition, (_, stored)| {
                    is_expired(stored, from, now.wall_ms, retention_ms)
                        && !members.is_subscribed_to(topic)
                        && !pending.has(group_id, topic, partition)
                }),
            };
            for (topic, partition) in expired {
                group.offsets.remove(&topic, partition);
                push(&mut effects.records, records::offset_tombstone(group_id, &topic, partition));
            }
            if group.offsets.is_empty() && is_empty && !pending.has_group(group_id) {
                gone.push(group_id.clone());
            }
        }
        for group_id in gone {
            if let Some(group) = self.groups.remove(&group_id) {
                group.push_tombstones(&group_id, effects);
            }
        }
    }

    /// Topics are gone: nobody goes on reading them where it stopped.
    pub fn topics_deleted(&mut self, topics: &[Arc<str>], effects: &mut Effects<GroupReply>) {
        let is_gone = |topic: &str| topics.iter().any(|gone| **gone == *topic);
        let ids: Vec<Rc<str>> = self.groups.keys().cloned().collect();
        for group_id in ids {
            let Some(group) = self.groups.get(&group_id) else { continue };
            let mut places = group.offsets.places(|topic, _, _| is_gone(topic));
            places.extend(self.pending.places(&group_id).into_iter().filter(|(topic, _)| is_gone(topic)));
            for (topic, partition) in places {
                self.put_offset(&group_id, &topic, partition, None, None, 0);
                push(&mut effects.records, records::offset_tombstone(&group_id, &topic, partition));
            }
        }
    }
}

pub(in crate::group) fn age_from(group: &ClassicGroup) -> Option<AgeFrom> {
    if group.protocol_type.is_none() {
        // Nobody was ever in it: its offsets are all that there is.
        return Some(AgeFrom::Commit);
    }
    match group.state() {
        ClassicState::Empty => Some(group.state_since_ms.map_or(AgeFrom::Commit, AgeFrom::Empty)),
        ClassicState::Stable if group.is_of_consumers() && group.subscribed_topics.is_some() => Some(AgeFrom::Commit),
        _ => None,
    }
}

fn is_expired(stored: &StoredOffset, from: AgeFrom, now_ms: i64, retention_ms: i64) -> bool {
    match (stored.expires_ms, from) {
        (Some(expires_ms), _) => now_ms >= expires_ms,
        (None, AgeFrom::Commit) => now_ms.saturating_sub(stored.committed_ms) >= retention_ms,
        (None, AgeFrom::Empty(since_ms)) => now_ms.saturating_sub(since_ms) >= retention_ms,
    }
}
