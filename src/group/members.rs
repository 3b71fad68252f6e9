//! What is asked of a group whatever protocol its members speak, and how it goes from one to the other.

use std::rc::Rc;

use crate::group::classic_group::{ClassicGroup, ClassicState};
use crate::group::consumer_group::ConsumerGroup;
use crate::group::consumer_member::{ConsumerMember, MemberState};
use crate::group::consumer_records::{self, ConsumerRecord};
use crate::group::coordinator::{Group, GroupCoordinator, push};
use crate::group::expiry::AgeFrom;
use crate::group::records;
use crate::group::reply::{ConsumerBeat, GroupReply};
use crate::group::request::{ConsumerHeartbeat, Speaker};
use crate::group::stored_offsets::ByPartition;
use crate::group::turn::Turn;
use crate::record::coordination::{Effects, Moment};
use crate::wire::error_code::ErrorCode;

/// The members of a group.
pub enum Members<'a> {
    /// They speak the classic protocol.
    Classic(&'a ClassicGroup),
    /// They speak the consumer protocol.
    Consumer(&'a ConsumerGroup),
}

impl Members<'_> {
    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Classic(group) => group.is(ClassicState::Empty),
            Self::Consumer(group) => group.members.is_empty(),
        }
    }

    /// True where they may be reading the topic.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match self {
            Self::Classic(group) => group.is_subscribed_to(topic),
            Self::Consumer(group) => group.is_subscribed_to(topic),
        }
    }

    /// From when on the age of an offset counts; `None`: not now.
    pub(in crate::group) fn age_from(&self) -> Option<AgeFrom> {
        match self {
            Self::Classic(group) => super::expiry::age_from(group),
            Self::Consumer(_) => Some(AgeFrom::Commit),
        }
    }
}

impl Group {
    /// Its members.
    pub fn members(&self) -> Members<'_> {
        match &self.consumer {
            Some(group) => Members::Consumer(group),
            None => Members::Classic(&self.classic),
        }
    }

    /// True where it has none.
    pub fn is_empty(&self) -> bool {
        self.members().is_empty()
    }

    /// True where its members may be reading the topic.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        self.members().is_subscribed_to(topic)
    }

    /// Takes it back.
    pub(in crate::group) fn push_tombstones(&self, group_id: &str, effects: &mut Effects<GroupReply>) {
        if self.consumer.is_some() {
            for tombstone in consumer_records::group_tombstones(group_id) {
                push(&mut effects.records, tombstone);
            }
        } else {
            push(&mut effects.records, records::classic_tombstone(group_id));
        }
    }
}

impl GroupCoordinator {
    pub(in crate::group) fn consumer_heartbeat(
        &mut self,
        beat: ConsumerHeartbeat,
        now: Moment,
        effects: &mut Effects<GroupReply>,
    ) -> Result<ConsumerBeat, ErrorCode> {
        let group_id: Rc<str> = Rc::from(&*beat.group_id);
        let is_joining = beat.member_epoch == 0;
        let mut turn = Turn { config: &self.config, deadlines: &mut self.deadlines, now, effects };
        match self.groups.get_mut(&group_id) {
            None if !is_joining => return Err(ErrorCode::GroupIdNotFound),
            None => {
                let group = Group {
                    classic: ClassicGroup::new(group_id.clone(), now.wall_ms),
                    consumer: Some(ConsumerGroup::new(group_id.clone())),
                    offsets: ByPartition::default(),
                };
                self.groups.insert(group_id.clone(), group);
            }
            Some(group) if group.consumer.is_some() => {}
            Some(_) if !is_joining => return Err(ErrorCode::GroupIdNotFound),
            Some(group) if !group.classic.is(ClassicState::Empty) => group.upgrade(&beat, &*self.topics, &mut turn)?,
            Some(group) => {
                push(&mut turn.effects.records, records::classic_tombstone(&group_id));
                group.classic = ClassicGroup::new(group_id.clone(), now.wall_ms);
                group.consumer = Some(ConsumerGroup::new(group_id.clone()));
            }
        }
        let group = self.groups.get_mut(&group_id).ok_or(ErrorCode::GroupIdNotFound)?;
        let consumer = group.consumer.as_mut().ok_or(ErrorCode::GroupIdNotFound)?;
        if beat.member_epoch >= 0 {
            return consumer.heartbeat(beat, &*self.topics, &mut turn);
        }
        if let Some(member_id) = consumer.leave(&beat, &mut turn)? {
            group.fence(&member_id, &*self.topics, &mut turn);
        }
        Ok(ConsumerBeat { member_id: beat.member_id, member_epoch: beat.member_epoch, assignment: None })
    }

    /// Whether a member that says who it is may ask for offsets.
    pub(in crate::group) fn judge_fetch(&self, group_id: &str, speaker: Option<&Speaker>) -> Result<(), ErrorCode> {
        let group = self.groups.get(group_id).and_then(|group| group.consumer.as_ref());
        match (group, speaker) {
            (Some(group), Some(speaker)) => group.validate_epoch(&speaker.member_id, speaker.generation),
            _ => Ok(()),
        }
    }

    pub(in crate::group) fn forget_classic(&mut self, group_id: &str) {
        match self.groups.get_mut(group_id) {
            Some(group) if group.consumer.is_some() => {}
            Some(group) if !group.offsets.is_empty() => group.classic = ClassicGroup::new(group.classic.id.clone(), 0),
            _ => {
                self.groups.remove(group_id);
            }
        }
    }

    pub(in crate::group) fn replay_consumer(&mut self, group_id: &str, record: ConsumerRecord) {
        if let ConsumerRecord::Epoch(None) = record {
            self.taken_back.insert(group_id.to_owned());
            if let Some(group) = self.groups.get_mut(group_id) {
                group.consumer = None;
                if group.offsets.is_empty() && group.classic.is(ClassicState::Empty) {
                    self.groups.remove(group_id);
                }
            }
            return;
        }
        let is_known = self.groups.get(group_id).is_some_and(|group| group.consumer.is_some());
        let takes_back = matches!(
            record,
            ConsumerRecord::Member(_, None)
                | ConsumerRecord::AssignmentEpoch(None)
                | ConsumerRecord::Target(_, None)
                | ConsumerRecord::Current(_, None)
                | ConsumerRecord::Regex(_, None)
                | ConsumerRecord::Derived
        );
        if takes_back && !is_known {
            return;
        }
        self.taken_back.remove(group_id);
        let id: Rc<str> = Rc::from(group_id);
        let group = self.groups.entry(id.clone()).or_insert_with(|| Group {
            classic: ClassicGroup::new(id.clone(), 0),
            consumer: None,
            offsets: ByPartition::default(),
        });
        let group = group.consumer.get_or_insert_with(|| ConsumerGroup::new(id));
        group.replay(record);
    }
}

impl ConsumerGroup {
    /// All was replayed, or the core stood still: members have a full time-out from now on.
    pub(in crate::group) fn loaded(&self, turn: &mut Turn<'_>) {
        for member in self.members.values() {
            turn.expect_member(&self.id, &member.member_id, member.session_timeout_ms(turn.config));
            if member.state == MemberState::Unrevoked {
                let key = crate::group::deadlines::DeadlineOf::Revocation {
                    group_id: self.id.clone(),
                    member_id: member.member_id.clone(),
                };
                let timeout_ms = u64::try_from(member.rebalance_timeout_ms).unwrap_or(0);
                turn.deadlines.set(key, turn.now.now_ms.saturating_add(timeout_ms));
            }
        }
    }

    fn replay(&mut self, record: ConsumerRecord) {
        match record {
            ConsumerRecord::Epoch(Some((epoch, metadata_hash))) => {
                self.epoch = epoch;
                self.metadata_hash = metadata_hash;
            }
            ConsumerRecord::Member(member_id, Some(member)) => {
                let id: Rc<str> = Rc::from(member_id);
                let known = self.members.remove(&id).unwrap_or_else(|| ConsumerMember::new(id.clone()));
                let member = ConsumerMember {
                    epoch: known.epoch,
                    previous_epoch: known.previous_epoch,
                    state: known.state,
                    assigned: known.assigned,
                    pending_revocation: known.pending_revocation,
                    ..*member
                };
                self.members.insert(id, member);
            }
            ConsumerRecord::Member(member_id, None) => {
                self.members.remove(&*member_id);
            }
            ConsumerRecord::AssignmentEpoch(epoch) => self.assignment_epoch = epoch.unwrap_or(0),
            ConsumerRecord::Target(member_id, Some(parts)) => {
                self.target.insert(Rc::from(member_id), parts);
            }
            ConsumerRecord::Target(member_id, None) => {
                self.target.remove(&*member_id);
            }
            ConsumerRecord::Current(member_id, current) => {
                let id: Rc<str> = Rc::from(member_id);
                let Some(current) = current else {
                    if let Some(member) = self.members.get_mut(&id) {
                        *member = ConsumerMember {
                            epoch: LEAVE_EPOCH,
                            previous_epoch: LEAVE_EPOCH,
                            assigned: Default::default(),
                            pending_revocation: Default::default(),
                            ..member.clone()
                        };
                    }
                    return;
                };
                let member = self.members.entry(id.clone()).or_insert_with(|| ConsumerMember::new(id));
                member.epoch = current.epoch;
                member.previous_epoch = current.previous_epoch;
                member.state = current.state;
                member.assigned = current.assigned;
                member.pending_revocation = current.pending_revocation;
            }
            ConsumerRecord::Regex(regex, Some(topics)) => {
                self.resolved.insert(regex, topics);
            }
            ConsumerRecord::Regex(regex, None) => {
                self.resolved.remove(&regex);
            }
            ConsumerRecord::Epoch(None) | ConsumerRecord::Derived => {}
        }
    }
}

/// Of a member that is about to be taken back.
const LEAVE_EPOCH: i32 = -1;
