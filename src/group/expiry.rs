//! Committed offsets that nobody needs any more, and groups that have nothing left.

use std::ops::Bound;
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
    /// Takes back offsets that are too old, and groups that have nothing else: a slice of them, from where it stopped the last
    /// time. Says how long to wait for the next one.
    pub(in crate::group) fn expire_offsets(&mut self, now: Moment, effects: &mut Effects<GroupReply>) -> u64 {
        let from = self.expire_from.take().map_or(Bound::Unbounded, Bound::Included);
        let mut looked_at = 0;
        let retention_ms = i64::try_from(self.config.offsets_retention_ms).unwrap_or(i64::MAX);
        let mut gone: Vec<Rc<str>> = Vec::new();
        for (group_id, group) in self.groups.range_mut::<Rc<str>, _>((from, Bound::Unbounded)) {
            if looked_at >= SLICE_OFFSETS_MAX {
                self.expire_from = Some(group_id.clone());
                break;
            }
            let (members, pending) = (group.members(), &self.pending);
            let is_empty = members.is_empty();
            let mut expired = match members.age_from() {
                None => Vec::new(),
                Some(from) => group.offsets.places(|topic, partition, (_, stored)| {
                    is_expired(stored, from, now.wall_ms, retention_ms)
                        && !members.is_subscribed_to(topic)
                        && !pending.has(group_id, topic, partition)
                }),
            };
            looked_at += 1 + group.offsets.len();
            let has_more = expired.len() > SLICE_OFFSETS_MAX;
            expired.truncate(SLICE_OFFSETS_MAX);
            for (topic, partition) in expired {
                group.offsets.remove(&topic, partition);
                push(&mut effects.records, records::offset_tombstone(group_id, &topic, partition));
            }
            if group.offsets.is_empty() && is_empty && !pending.has_group(group_id) {
                gone.push(group_id.clone());
            }
            if has_more {
                self.expire_from = Some(group_id.clone());
                break;
            }
        }
        for group_id in gone {
            if let Some(group) = self.groups.remove(&group_id) {
                group.push_tombstones(&group_id, effects);
            }
        }
        if self.expire_from.is_some() { SLICE_PAUSE_MS } else { self.config.offsets_retention_check_interval_ms }
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

/// Offsets that one slice looks at, and takes back, at most; a group is looked at as a whole.
pub(in crate::group) const SLICE_OFFSETS_MAX: usize = 2_000;
/// The core does other things meanwhile.
const SLICE_PAUSE_MS: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::stage::config;

    #[test]
    fn offsets_expire_in_slices_and_all_of_them() {
        let mut coordinator = GroupCoordinator::new(config());
        let stored = |committed_ms| StoredOffset {
            offset: 1,
            leader_epoch: -1,
            metadata: "".into(),
            committed_ms,
            expires_ms: None,
            topic_id: [0; 16],
        };
        // One group has more than a slice, many have little, one has something that is new.
        let counts =
            [("big", 5 * SLICE_OFFSETS_MAX as i32 / 2), ("a", 1), ("c", 700), ("d", 900), ("e", 600), ("f", 1)];
        for (group, count) in counts {
            for partition in 0..count {
                coordinator.put_offset(group, "t", partition, Some(stored(0)), None, 0);
            }
        }
        let now = Moment { now_ms: 10, wall_ms: 8 * 86_400_000 };
        coordinator.put_offset("f", "new", 0, Some(stored(now.wall_ms)), None, 0);
        coordinator.loaded(Moment::default(), &mut Effects::default());
        let (mut now, mut taken_back, mut slices) = (now, 0, 0);
        now.now_ms = coordinator.next_deadline_ms().expect("a check");
        let end_ms = now.now_ms + 1_000;
        while now.now_ms < end_ms {
            let mut effects = Effects::default();
            coordinator.tick(now, &mut effects);
            // A group that has nothing left is taken back with its last offsets.
            assert!(effects.records.len() <= 2 * SLICE_OFFSETS_MAX, "{}", effects.records.len());
            taken_back += effects.records.len();
            slices += 1;
            now.now_ms = coordinator.next_deadline_ms().expect("the next one");
        }
        let all: i32 = counts.iter().map(|(_, count)| count).sum();
        assert_eq!(taken_back, all as usize + counts.len() - 1, "and the groups, but for one");
        assert!(slices >= 3, "{slices}");
        assert_eq!(coordinator.groups.keys().map(|id| &**id).collect::<Vec<_>>(), ["f"]);
    }
}
