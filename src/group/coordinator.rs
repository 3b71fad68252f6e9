//! The coordinator of the groups of one partition: requests, replayed records and the time in; records and replies out.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::group::classic_group::{ClassicGroup, ClassicState};
use crate::group::config::GroupConfig;
use crate::group::consumer_group::ConsumerGroup;
use crate::group::consumer_records;
use crate::group::deadlines::{DeadlineOf, Deadlines};
use crate::group::offsets::PendingOffsets;
use crate::group::records::{self, GroupRecord};
use crate::group::reply::{GroupReply, Joined, Synced};
use crate::group::request::{GroupRequest, Speaker};
use crate::group::stored_offsets::ByPartition;
use crate::group::topics::{NoTopics, Topics};
use crate::group::turn::Turn;
use crate::record::coordination::{CoordinatorRecord, Effects, Moment, ReplayError, ReplayedRecord, Ticket};
use crate::wire::error_code::ErrorCode;
use crate::wire::writer::EncodeError;

/// A group: its members, and what they have committed.
#[derive(Debug)]
pub struct Group {
    /// Its members, where they speak the classic protocol; none where `consumer` is set.
    pub classic: ClassicGroup,
    /// Its members, where they speak the consumer protocol.
    pub consumer: Option<ConsumerGroup>,
    /// Its committed offsets, each with its place in the order of all commits.
    pub offsets: ByPartition<(u64, super::stored_offsets::StoredOffset)>,
}

/// The groups whose ids fall on one partition of `__consumer_offsets`.
pub struct GroupCoordinator {
    pub(in crate::group) topics: Rc<dyn Topics>,
    pub(in crate::group) config: GroupConfig,
    pub(in crate::group) groups: BTreeMap<Rc<str>, Group>,
    pub(in crate::group) deadlines: Deadlines,
    pub(in crate::group) pending: PendingOffsets,
    /// Commits so far, replayed ones included.
    pub(in crate::group) commits: u64,
    /// Where the next slice of expiry begins, while one is under way.
    pub(in crate::group) expire_from: Option<Rc<str>>,
    /// While it is replayed: groups of the consumer protocol that were taken back.
    pub(in crate::group) taken_back: BTreeSet<String>,
    /// While it is replayed: classic groups that were of the consumer protocol just before, and have had no rebalance since.
    downgraded: BTreeSet<String>,
}

impl GroupCoordinator {
    /// A coordinator that knows no groups.
    pub fn new(config: GroupConfig) -> Self {
        Self {
            topics: Rc::new(NoTopics),
            config,
            groups: BTreeMap::new(),
            deadlines: Deadlines::default(),
            pending: PendingOffsets::default(),
            commits: 0,
            expire_from: None,
            taken_back: BTreeSet::new(),
            downgraded: BTreeSet::new(),
        }
    }

    /// The catalog has changed.
    pub fn set_topics(&mut self, topics: Rc<dyn Topics>) {
        self.topics = topics;
    }

    /// Takes one record in that was read back.
    ///
    /// # Errors
    /// What it does not understand.
    pub fn replay(&mut self, record: &ReplayedRecord<'_>) -> Result<(), ReplayError> {
        match records::decode(record.key, record.value)? {
            GroupRecord::Offset { group_id, topic, partition, value } => {
                let producer_id = record.writer.map(|writer| writer.producer_id);
                self.put_offset(&group_id, &topic, partition, value, producer_id, NO_TIME.wall_ms);
            }
            GroupRecord::Classic { group_id, value: Some(value) } => {
                self.downgraded.remove(&group_id);
                match self.groups.get_mut(&*group_id) {
                    Some(group) => {
                        group.classic = *value;
                        group.consumer = None;
                    }
                    None => {
                        let group = Group { classic: *value, consumer: None, offsets: ByPartition::default() };
                        self.groups.insert(group.classic.id.clone(), group);
                    }
                }
                if self.taken_back.remove(&group_id) {
                    self.downgraded.insert(group_id);
                }
            }
            // A group that went over to the other protocol is taken back as what it was: its offsets stay.
            GroupRecord::Classic { group_id, value: None } => self.forget_classic(&group_id),
            GroupRecord::Consumer { group_id, record } => self.replay_consumer(&group_id, record),
        }
        Ok(())
    }

    /// All was replayed: members have a full time-out from now on.
    pub fn loaded(&mut self, now: Moment, effects: &mut Effects<GroupReply>) {
        let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects };
        for group in self.groups.values_mut() {
            if let Some(group) = &group.consumer {
                group.loaded(&mut turn);
            }
            let group = &mut group.classic;
            let members: Vec<(Rc<str>, u32)> =
                group.members().map(|member| (member.member_id.clone(), member.session_timeout_ms)).collect();
            for (member_id, session_timeout_ms) in members {
                turn.expect_member(&group.id, &member_id, u64::from(session_timeout_ms));
            }
            if group.members().len() > turn.config.group_max_size as usize {
                group.prepare_rebalance("it has more members than group.max.size", &mut turn);
            } else if self.downgraded.contains(&*group.id) && group.is(ClassicState::Stable) {
                // Its members were to join again, and may not know that.
                group.prepare_rebalance("it was of the consumer protocol before", &mut turn);
            }
        }
        self.taken_back.clear();
        self.downgraded.clear();
        let check_ms = self.config.offsets_retention_check_interval_ms;
        self.deadlines.set(DeadlineOf::OffsetExpiry, now.now_ms.saturating_add(check_ms));
    }

    /// Takes one request in. The reply comes now or in a later step.
    pub fn handle(&mut self, ticket: Ticket, request: GroupRequest, now: Moment, effects: &mut Effects<GroupReply>) {
        match request {
            GroupRequest::Join(join) => self.join(ticket, join, now, effects),
            GroupRequest::Sync(sync) => {
                let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects };
                match self.groups.get_mut(&*sync.group_id) {
                    Some(Group { consumer: Some(group), .. }) => {
                        let synced = group.sync_classic(&sync, &*self.topics, &mut turn);
                        turn.effects.reply(ticket, synced.map_or_else(Synced::refused, GroupReply::Synced));
                    }
                    Some(group) => group.classic.sync(ticket, sync, &mut turn),
                    None => turn.effects.reply(ticket, Synced::refused(ErrorCode::UnknownMemberId)),
                }
            }
            GroupRequest::ConsumerHeartbeat(beat) => {
                let reply = self.consumer_heartbeat(beat, now, effects);
                effects.reply(ticket, reply.map_or_else(GroupReply::Refused, GroupReply::Beat));
            }
            GroupRequest::DescribeConsumer { group_id } => effects.reply(ticket, self.describe_consumer(&group_id)),
            GroupRequest::Heartbeat { group_id, speaker } => {
                let reply = self.heartbeat(&group_id, &speaker, now, effects);
                effects.reply(ticket, reply.map_or_else(GroupReply::Refused, |()| GroupReply::Done));
            }
            GroupRequest::Leave { group_id, members } => {
                let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects };
                let reply = match self.groups.get_mut(&*group_id) {
                    Some(group) if group.consumer.is_some() => {
                        GroupReply::Left(group.leave_mixed(&members, &*self.topics, &mut turn))
                    }
                    Some(group) => GroupReply::Left(group.classic.leave(&members, &mut turn)),
                    None => GroupReply::Left(vec![ErrorCode::UnknownMemberId; members.len()]),
                };
                turn.effects.reply(ticket, reply);
            }
            GroupRequest::CommitOffsets(commit) => {
                let reply = self.commit_offsets(&commit, now, effects).unwrap_or_else(GroupReply::Refused);
                effects.reply(ticket, reply);
            }
            GroupRequest::FetchOffsets { group_id, topics, speaker, require_stable } => {
                let reply = match self.judge_fetch(&group_id, speaker.as_ref()) {
                    Ok(()) => self.fetch_offsets(&group_id, topics, require_stable),
                    Err(error) => GroupReply::Refused(error),
                };
                effects.reply(ticket, reply);
            }
            GroupRequest::DeleteOffsets { group_id, topics } => {
                let reply = self.delete_offsets(&group_id, topics, effects).unwrap_or_else(GroupReply::Refused);
                effects.reply(ticket, reply);
            }
            GroupRequest::Describe { group_id } => effects.reply(ticket, self.describe(&group_id)),
            GroupRequest::Delete { group_id } => {
                let reply = self.delete(&group_id, effects);
                effects.reply(ticket, reply.map_or_else(GroupReply::Refused, |()| GroupReply::Done));
            }
            GroupRequest::List { states, types } => effects.reply(ticket, self.list(&states, &types)),
        }
    }

    fn heartbeat(
        &mut self,
        group_id: &str,
        speaker: &Speaker,
        now: Moment,
        effects: &mut Effects<GroupReply>,
    ) -> Result<(), ErrorCode> {
        let group = self.groups.get_mut(group_id).ok_or(ErrorCode::UnknownMemberId)?;
        let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects };
        match &mut group.consumer {
            Some(consumer) => consumer.heartbeat_classic(speaker, &*self.topics, &mut turn),
            None => group.classic.heartbeat(speaker, &mut turn),
        }
    }

    /// The next time at which [`GroupCoordinator::tick`] has something to do.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.next_ms()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment, effects: &mut Effects<GroupReply>) {
        while let Some(due) = self.deadlines.pop_due(now.now_ms) {
            let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects };
            match due {
                DeadlineOf::Session { group_id, member_id } => {
                    if let Some(group) = self.groups.get_mut(&group_id) {
                        match &group.consumer {
                            Some(_) => group.fence(&member_id, &*self.topics, &mut turn),
                            None => group.classic.session_ended(&member_id, &mut turn),
                        }
                    }
                }
                DeadlineOf::Revocation { group_id, member_id }
                | DeadlineOf::ClassicJoin { group_id, member_id }
                | DeadlineOf::ClassicSync { group_id, member_id } => {
                    if let Some(group) = self.groups.get_mut(&group_id) {
                        group.fence(&member_id, &*self.topics, &mut turn);
                    }
                }
                DeadlineOf::Join { group_id } => {
                    if let Some(group) = self.groups.get_mut(&group_id) {
                        group.classic.joins_are_due(&mut turn);
                    }
                }
                DeadlineOf::Sync { group_id } => {
                    if let Some(group) = self.groups.get_mut(&group_id) {
                        group.classic.syncs_are_due(&mut turn);
                    }
                }
                DeadlineOf::OffsetExpiry => {
                    let next_ms = self.expire_offsets(now, effects);
                    self.deadlines.set(DeadlineOf::OffsetExpiry, now.now_ms.saturating_add(next_ms));
                }
            }
        }
    }

    /// The core stood still: all members get a full time-out, and rebalances as much longer.
    pub fn stalled(&mut self, now: Moment, stall_ms: u64) {
        let mut effects = Effects::default();
        let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects: &mut effects };
        for group in self.groups.values() {
            if let Some(group) = &group.consumer {
                group.loaded(&mut turn);
            }
            for member in group.classic.members().filter(|member| !member.is_excused()) {
                turn.expect_member(&group.classic.id, &member.member_id, member.patience_ms());
            }
        }
        self.deadlines.put_off_rebalances(stall_ms);
    }

    fn join(&mut self, ticket: Ticket, join: super::request::Join, now: Moment, effects: &mut Effects<GroupReply>) {
        if let Some(group) = self.groups.get_mut(&*join.group_id)
            && group.consumer.as_ref().is_some_and(|group| !group.members.is_empty())
        {
            let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects };
            return group.join_mixed(ticket, &join, &*self.topics, &mut turn);
        }
        let known = self.groups.get(&*join.group_id);
        let is_new_group = known.is_none_or(|group| group.consumer.is_some());
        if is_new_group && !join.member_id.is_empty() {
            return effects.reply(ticket, Joined::refused(&join.member_id, ErrorCode::UnknownMemberId));
        }
        let group_id: Rc<str> = Rc::from(&*join.group_id);
        let group = self.groups.entry(group_id.clone()).or_insert_with(|| Group {
            classic: ClassicGroup::new(group_id, now.wall_ms),
            consumer: None,
            offsets: ByPartition::default(),
        });
        if let Some(consumer) = &group.consumer {
            for tombstone in consumer_records::group_tombstones(&consumer.id) {
                push(&mut effects.records, tombstone);
            }
            group.consumer = None;
        }
        let records_before = effects.records.len();
        let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects };
        group.classic.join(ticket, join, &mut turn);
        if is_new_group && effects.records.len() == records_before {
            // As Kafka: a group is written down as soon as somebody has asked for it.
            push(&mut effects.records, records::empty_classic(&group.classic));
        }
    }
}

/// Adds a record. What cannot be encoded was refused when it came in: names and texts have 16-bit lengths on the wire too.
pub(in crate::group) fn push(records: &mut Vec<CoordinatorRecord>, record: Result<CoordinatorRecord, EncodeError>) {
    match record {
        Ok(record) => records.push(record),
        Err(error) => tracing::error!(%error, "a record of a group is longer than its format takes; it is left out"),
    }
}

/// At the replay it is the records that have times.
const NO_TIME: Moment = Moment { now_ms: 0, wall_ms: 0 };
