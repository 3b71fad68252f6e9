//! Committed offsets: stored, asked for, taken back; and those of transactions that have not ended.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::group::classic_group::{ClassicGroup, ClassicState};
use crate::group::consumer_group::ConsumerGroup;
use crate::group::coordinator::{Group, GroupCoordinator, push};
use crate::group::records;
use crate::group::reply::{FetchedOffset, GroupReply};
use crate::group::request::{CommitOffsets, CommitPartition};
use crate::group::stored_offsets::{ByPartition, StoredOffset};
use crate::group::turn::Turn;
use crate::record::coordination::{Effects, Moment};
use crate::record::offset::ProducerId;
use crate::wire::error_code::ErrorCode;

/// Offsets of one transaction, by group; each with its place in the order of all commits.
type ByGroup = BTreeMap<Rc<str>, ByPartition<(u64, StoredOffset)>>;

/// Offsets that transactions have committed, and that count when these do.
#[derive(Debug, Default)]
pub struct PendingOffsets {
    by_producer: BTreeMap<ProducerId, ByGroup>,
    /// Who has open transactions, by group.
    open: BTreeMap<Rc<str>, BTreeSet<ProducerId>>,
}

impl PendingOffsets {
    fn put(
        &mut self,
        producer_id: ProducerId,
        group_id: &Rc<str>,
        topic: &str,
        partition: i32,
        value: (u64, StoredOffset),
    ) {
        let groups = self.by_producer.entry(producer_id).or_default();
        groups.entry(group_id.clone()).or_default().put(topic, partition, value);
        self.open.entry(group_id.clone()).or_default().insert(producer_id);
    }

    fn remove(&mut self, group_id: &str, topic: &str, partition: i32) {
        for producer_id in self.open.get(group_id).into_iter().flatten() {
            let offsets = self.by_producer.get_mut(producer_id).and_then(|groups| groups.get_mut(group_id));
            offsets.and_then(|offsets| offsets.remove(topic, partition));
        }
    }

    /// True where a transaction may still change what is committed there.
    pub fn has(&self, group_id: &str, topic: &str, partition: i32) -> bool {
        let of_group = |producer_id| self.by_producer.get(producer_id).and_then(|groups| groups.get(group_id));
        let mut open = self.open.get(group_id).into_iter().flatten().filter_map(of_group);
        open.any(|offsets| offsets.get(topic, partition).is_some())
    }

    /// True where the group has transactions that have not ended.
    pub fn has_group(&self, group_id: &str) -> bool {
        self.open.contains_key(group_id)
    }

    /// What transactions have committed for a group.
    pub fn places(&self, group_id: &str) -> BTreeSet<(Box<str>, i32)> {
        let of_group = |producer_id| self.by_producer.get(producer_id).and_then(|groups| groups.get(group_id));
        let open = self.open.get(group_id).into_iter().flatten().filter_map(of_group);
        open.flat_map(|offsets| offsets.places(|_, _, _| true)).collect()
    }

    fn take(&mut self, producer_id: ProducerId) -> ByGroup {
        let groups = self.by_producer.remove(&producer_id).unwrap_or_default();
        for group_id in groups.keys() {
            if let Some(producers) = self.open.get_mut(group_id) {
                producers.remove(&producer_id);
                if producers.is_empty() {
                    self.open.remove(group_id);
                }
            }
        }
        groups
    }
}

impl GroupCoordinator {
    /// Stores offsets, or keeps them for the end of their transaction.
    pub(in crate::group) fn commit_offsets(
        &mut self,
        commit: &CommitOffsets,
        now: Moment,
        effects: &mut Effects<GroupReply>,
    ) -> Result<GroupReply, ErrorCode> {
        match self.groups.get(&*commit.group_id) {
            Some(group) => match &group.consumer {
                Some(consumer) => judge_consumer_commit(consumer, commit)?,
                None => judge_commit(&group.classic, commit)?,
            },
            // Somebody who assigns partitions by hand has offsets, and no group to be in.
            None if commit.speaker.generation < 0 => {}
            None if commit.tells_unknown_group => return Err(ErrorCode::GroupIdNotFound),
            None => return Err(ErrorCode::IllegalGeneration),
        }
        if let Some(group) = self.groups.get(&*commit.group_id)
            && matches!(group.classic.state(), ClassicState::Stable | ClassicState::PreparingRebalance)
            && commit.writer.is_none()
        {
            let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects };
            group.classic.is_alive(&commit.speaker.member_id, &mut turn);
        }
        let mut topics = Vec::with_capacity(commit.topics.len());
        for topic in &commit.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                let code = self.commit_one(commit, &topic.name, topic.topic_id, partition, now, effects);
                partitions.push((partition.index, code));
            }
            topics.push((topic.name.clone(), partitions));
        }
        effects.writer = commit.writer;
        Ok(GroupReply::Partitions(topics))
    }

    fn commit_one(
        &mut self,
        commit: &CommitOffsets,
        topic: &str,
        topic_id: [u8; 16],
        partition: &CommitPartition,
        now: Moment,
        effects: &mut Effects<GroupReply>,
    ) -> ErrorCode {
        // Java counts UTF-16 units.
        if partition.metadata.encode_utf16().count() > self.config.offset_metadata_max_bytes as usize {
            return ErrorCode::OffsetMetadataTooLarge;
        }
        let expires_ms =
            commit.retention_ms.map(|ms| now.wall_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)));
        let stored = StoredOffset {
            offset: partition.offset,
            leader_epoch: partition.leader_epoch,
            metadata: partition.metadata.as_str().into(),
            committed_ms: now.wall_ms,
            expires_ms,
            topic_id,
        };
        let Ok(record) = records::offset(&commit.group_id, topic, partition.index, &stored) else {
            return ErrorCode::UnknownServerError;
        };
        effects.records.push(record);
        let producer_id = commit.writer.map(|writer| writer.producer_id);
        self.put_offset(&commit.group_id, topic, partition.index, Some(stored), producer_id, now.wall_ms);
        ErrorCode::None
    }

    /// Takes in what a record says of an offset.
    pub(in crate::group) fn put_offset(
        &mut self,
        group_id: &str,
        topic: &str,
        partition: i32,
        value: Option<StoredOffset>,
        producer_id: Option<ProducerId>,
        wall_ms: i64,
    ) {
        let Some(value) = value else {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.offsets.remove(topic, partition);
            }
            return self.pending.remove(group_id, topic, partition);
        };
        self.commits += 1;
        let value = (self.commits, value);
        let group = self.group_or_new(group_id, wall_ms);
        match producer_id {
            None => group.offsets.put(topic, partition, value),
            Some(producer_id) => {
                let group_id = group.classic.id.clone();
                self.pending.put(producer_id, &group_id, topic, partition, value);
            }
        }
    }

    fn group_or_new(&mut self, group_id: &str, wall_ms: i64) -> &mut Group {
        if !self.groups.contains_key(group_id) {
            let id: Rc<str> = Rc::from(group_id);
            let group = Group {
                classic: ClassicGroup::new(id.clone(), wall_ms),
                consumer: None,
                offsets: ByPartition::default(),
            };
            self.groups.insert(id, group);
        }
        self.groups.get_mut(group_id).expect("it was just made, or there before")
    }

    /// A transaction has ended: what it committed counts, or is forgotten.
    pub fn transaction_ended(&mut self, producer_id: ProducerId, committed: bool) {
        for (group_id, offsets) in self.pending.take(producer_id) {
            if !committed {
                continue;
            }
            let group = self.group_or_new(&group_id, 0);
            for (topic, partitions) in offsets.topics() {
                for (partition, (number, stored)) in partitions {
                    // A later commit outside the transaction stays.
                    let is_newer = group.offsets.get(topic, *partition).is_none_or(|(known, _)| known < number);
                    if is_newer {
                        group.offsets.put(topic, *partition, (*number, stored.clone()));
                    }
                }
            }
        }
    }

    /// What is committed.
    pub(in crate::group) fn fetch_offsets(
        &self,
        group_id: &str,
        topics: Option<Vec<(String, Vec<i32>)>>,
        require_stable: bool,
    ) -> GroupReply {
        let group = self.groups.get(group_id);
        let one = |topic: &str, index: i32| {
            let stored = group.and_then(|group| group.offsets.get(topic, index)).map(|(_, stored)| stored);
            let is_unstable = require_stable && self.pending.has(group_id, topic, index);
            let error = if is_unstable { ErrorCode::UnstableOffsetCommit } else { ErrorCode::None };
            let stored = stored.filter(|_| !is_unstable);
            FetchedOffset {
                index,
                offset: stored.map_or(NO_OFFSET, |stored| stored.offset),
                leader_epoch: stored.map_or(NO_EPOCH, |stored| stored.leader_epoch),
                metadata: stored.map_or_else(String::new, |stored| stored.metadata.to_string()),
                error,
            }
        };
        let topics: Vec<(String, Vec<FetchedOffset>)> = match topics {
            Some(topics) => topics
                .into_iter()
                .map(|(topic, indexes)| {
                    let offsets = indexes.into_iter().map(|index| one(&topic, index)).collect();
                    (topic, offsets)
                })
                .collect(),
            None => group
                .into_iter()
                .flat_map(|group| group.offsets.topics())
                .map(|(topic, partitions)| {
                    (topic.to_owned(), partitions.keys().map(|index| one(topic, *index)).collect())
                })
                .collect(),
        };
        GroupReply::Offsets(topics)
    }

    /// Takes offsets back.
    pub(in crate::group) fn delete_offsets(
        &mut self,
        group_id: &str,
        topics: Vec<(String, Vec<i32>)>,
        effects: &mut Effects<GroupReply>,
    ) -> Result<GroupReply, ErrorCode> {
        let group = self.groups.get_mut(group_id).ok_or(ErrorCode::GroupIdNotFound)?;
        if group.consumer.is_none() && !group.classic.is(ClassicState::Empty) && !group.classic.is_of_consumers() {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let mut answered = Vec::with_capacity(topics.len());
        for (topic, indexes) in topics {
            let is_read = group.is_subscribed_to(&topic);
            let code = if is_read { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None };
            for index in indexes.iter().filter(|_| !is_read) {
                if group.offsets.remove(&topic, *index).is_some() || self.pending.has(group_id, &topic, *index) {
                    self.pending.remove(group_id, &topic, *index);
                    push(&mut effects.records, records::offset_tombstone(group_id, &topic, *index));
                }
            }
            answered.push((topic, indexes.into_iter().map(|index| (index, code)).collect()));
        }
        Ok(GroupReply::Partitions(answered))
    }

    /// Takes back all that a group has committed.
    pub(in crate::group) fn delete_all_offsets(&mut self, group_id: &str, effects: &mut Effects<GroupReply>) {
        let Some(group) = self.groups.get_mut(group_id) else { return };
        let mut places: BTreeSet<(Box<str>, i32)> = group.offsets.places(|_, _, _| true).into_iter().collect();
        group.offsets = ByPartition::default();
        places.extend(self.pending.places(group_id));
        for (topic, partition) in places {
            self.pending.remove(group_id, &topic, partition);
            push(&mut effects.records, records::offset_tombstone(group_id, &topic, partition));
        }
    }
}

/// Whether a group of the consumer protocol takes an offset from who commits it.
fn judge_consumer_commit(group: &ConsumerGroup, commit: &CommitOffsets) -> Result<(), ErrorCode> {
    let speaker = &commit.speaker;
    if speaker.generation < 0 && group.members.is_empty() {
        return Ok(());
    }
    let judged = group.validate_epoch(&speaker.member_id, speaker.generation);
    match judged {
        // A transaction is told in words that its producer knows.
        Err(ErrorCode::StaleMemberEpoch) if commit.writer.is_some() => Err(ErrorCode::IllegalGeneration),
        judged => judged,
    }
}

/// Whether a group takes an offset from who commits it.
fn judge_commit(group: &ClassicGroup, commit: &CommitOffsets) -> Result<(), ErrorCode> {
    let (speaker, is_transactional) = (&commit.speaker, commit.writer.is_some());
    if speaker.generation < 0 && group.is(ClassicState::Empty) {
        return Ok(());
    }
    if speaker.generation >= 0 || !speaker.member_id.is_empty() || speaker.instance_id.is_some() {
        group.validate_member(&speaker.member_id, speaker.instance_id.as_deref())?;
        if speaker.generation != group.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
    } else if !is_transactional && !group.is(ClassicState::Empty) {
        return Err(ErrorCode::UnknownMemberId);
    }
    if !is_transactional && group.is(ClassicState::CompletingRebalance) {
        return Err(ErrorCode::RebalanceInProgress);
    }
    Ok(())
}

const NO_OFFSET: i64 = -1;
const NO_EPOCH: i32 = -1;
