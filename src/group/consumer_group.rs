//! A group of the consumer protocol (KIP-848): the server assigns, and each member goes there at its own pace.
//!
//! The group's epoch rises with each change of members, subscriptions or topics; the assignment's epoch follows when a member
//! is heard of; each member's own epoch follows when it has given back what is no longer its own.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tracing::info;

use crate::group::assignor::{Assignor, Subscriber};
use crate::group::consumer_member::{ConsumerMember, MemberState};
use crate::group::consumer_records as records;
use crate::group::coordinator::push;
use crate::group::deadlines::DeadlineOf;
use crate::group::reply::ConsumerBeat;
use crate::group::request::ConsumerHeartbeat;
use crate::group::topic_regex::{self, ResolvedTopics};
use crate::group::topics::{Partitions, Topics};
use crate::group::turn::Turn;
use crate::wire::error_code::ErrorCode;

/// A group of the consumer protocol.
#[derive(Debug)]
pub struct ConsumerGroup {
    /// Its name.
    pub id: Rc<str>,
    /// Rises with each change of members, subscriptions or topics.
    pub epoch: i32,
    /// Says which topics the epoch knows.
    pub metadata_hash: i64,
    /// The epoch that the assignment is of.
    pub assignment_epoch: i32,
    /// Its members, by id.
    pub members: BTreeMap<Rc<str>, ConsumerMember>,
    /// What each shall have.
    pub target: BTreeMap<Rc<str>, Partitions>,
    /// The topics that the members' regular expressions stand for.
    pub resolved: ResolvedTopics,
    /// The catalog's version when the topics were last looked at.
    checked_version: Option<u64>,
    /// When it was last assigned, by the monotonic clock.
    assigned_at_ms: Option<u64>,
}

impl ConsumerGroup {
    /// A group without members.
    pub fn new(id: Rc<str>) -> Self {
        Self {
            id,
            epoch: 0,
            metadata_hash: 0,
            assignment_epoch: 0,
            members: BTreeMap::new(),
            target: BTreeMap::new(),
            resolved: ResolvedTopics::new(),
            checked_version: None,
            assigned_at_ms: None,
        }
    }

    /// Kafka's name of its state.
    pub fn state(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.assignment_epoch {
            "Assigning"
        } else if self.members.values().all(|member| member.is_reconciled_to(self.assignment_epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// The assignor that most members prefer.
    pub fn assignor(&self) -> Assignor {
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        for name in self.members.values().filter_map(|member| member.server_assignor.as_deref()) {
            if let Some(assignor) = Assignor::of(name) {
                *votes.entry(assignor).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map_or(Assignor::DEFAULT, |(assignor, _)| assignor)
    }

    /// True where a member reads the topic.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        let is_read = |member: &ConsumerMember| {
            let matching = self.resolved.get(&member.subscribed_regex);
            member.subscribed_topics.contains(topic) || matching.is_some_and(|matching| matching.contains(topic))
        };
        self.members.values().any(is_read)
    }

    /// All that a member reads: what it names, and what matches its regular expression.
    fn read_by<'a>(&'a self, member: &'a ConsumerMember) -> BTreeSet<&'a String> {
        let matching = self.resolved.get(&member.subscribed_regex);
        member.subscribed_topics.iter().chain(matching.into_iter().flatten()).collect()
    }

    /// The member of a static instance.
    pub(in crate::group) fn static_member(&self, instance_id: &str) -> Option<&ConsumerMember> {
        self.members.values().find(|member| member.instance_id.as_deref() == Some(instance_id))
    }

    /// Judges a member's epoch, where it commits or asks for offsets.
    ///
    /// # Errors
    /// Not a member, or not in this epoch.
    pub fn validate_epoch(&self, member_id: &str, epoch: i32) -> Result<(), ErrorCode> {
        let member = self.members.get(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        match &member.classic {
            _ if member.epoch == epoch => Ok(()),
            Some(_) => Err(ErrorCode::IllegalGeneration),
            None => Err(ErrorCode::StaleMemberEpoch),
        }
    }

    /// A member is heard of: it joins, or goes on.
    ///
    /// # Errors
    /// What it has to do instead.
    pub(in crate::group) fn heartbeat(
        &mut self,
        beat: ConsumerHeartbeat,
        topics: &dyn Topics,
        turn: &mut Turn<'_>,
    ) -> Result<ConsumerBeat, ErrorCode> {
        let is_joining = beat.member_epoch == 0;
        if is_joining
            && !self.members.contains_key(&*beat.member_id)
            && self.members.len() >= turn.config.group_consumer_max_size as usize
        {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let member_id = self.find_member(&beat, turn)?;
        let before = self.members.get(&member_id).cloned();
        let is_new = before.is_none();
        let mut member = before.clone().unwrap_or_else(|| ConsumerMember::new(member_id.clone()));
        take_over(&mut member, &beat);
        let mut is_changed = is_new;
        if is_new || before.as_ref() != Some(&member) {
            push(&mut turn.effects.records, records::member(&self.id, &member));
            is_changed |= before.as_ref().is_none_or(|before| !before.reads_the_same(&member));
        }
        let assigned_before = before.map(|before| before.assigned).unwrap_or_default();
        self.members.insert(member_id.clone(), member);
        self.forget_classic_deadlines(&member_id, turn);
        self.follow(is_changed, topics, turn);
        self.reconcile(&member_id, beat.owned.as_ref(), turn)?;
        turn.expect_member(&self.id, &member_id, u64::from(turn.config.group_consumer_session_timeout_ms));

        let member = &self.members[&member_id];
        let is_full = is_joining || (beat.rebalance_timeout_ms != -1 && beat.topics.is_some() && beat.owned.is_some());
        Ok(ConsumerBeat {
            member_id: member_id.to_string(),
            member_epoch: member.epoch,
            assignment: (is_full || member.assigned != assigned_before).then(|| member.assigned.clone()),
        })
    }

    /// Who it is that is heard of: a known member, a new one, or a static one that is back.
    fn find_member(&mut self, beat: &ConsumerHeartbeat, turn: &mut Turn<'_>) -> Result<Rc<str>, ErrorCode> {
        let is_joining = beat.member_epoch == 0;
        let member_id: Rc<str> = Rc::from(&*beat.member_id);
        let Some(instance_id) = &beat.instance_id else {
            match self.members.get(&member_id) {
                Some(member) => judge_epoch(member, beat)?,
                None if is_joining => {}
                None => return Err(ErrorCode::UnknownMemberId),
            }
            return Ok(member_id);
        };
        let known = self.static_member(instance_id).cloned();
        match known {
            None if is_joining => Ok(member_id),
            None => Err(ErrorCode::UnknownMemberId),
            Some(known) if *known.member_id == *beat.member_id => {
                judge_epoch(&known, beat)?;
                Ok(member_id)
            }
            Some(_) if !is_joining => Err(ErrorCode::FencedInstanceId),
            // One that spoke the classic protocol does not say that it goes.
            Some(known) if known.epoch != LEAVE_STATIC_EPOCH && known.classic.is_none() => {
                Err(ErrorCode::UnreleasedInstanceId)
            }
            Some(known) => {
                self.replace(&known, member_id.clone(), turn);
                Ok(member_id)
            }
        }
    }

    /// A static member is back under a new id, and has what it had.
    pub(in crate::group) fn replace(&mut self, known: &ConsumerMember, new_id: Rc<str>, turn: &mut Turn<'_>) {
        let member = ConsumerMember { member_id: new_id.clone(), epoch: 0, previous_epoch: 0, ..known.clone() };
        let target = self.target.remove(&known.member_id).unwrap_or_default();
        self.members.remove(&known.member_id);
        self.forget(&known.member_id, turn);
        let out = &mut turn.effects.records;
        push(out, records::member(&self.id, &member));
        push(out, records::target(&self.id, &new_id, &target));
        push(out, records::current(&self.id, &member));
        self.target.insert(new_id.clone(), target);
        self.members.insert(new_id, member);
    }

    pub(in crate::group) fn forget(&self, member_id: &Rc<str>, turn: &mut Turn<'_>) {
        let out = &mut turn.effects.records;
        push(out, records::current_tombstone(&self.id, member_id));
        push(out, records::target_tombstone(&self.id, member_id));
        push(out, records::member_tombstone(&self.id, member_id));
        turn.forget_member(&self.id, member_id);
        turn.deadlines.cancel(&DeadlineOf::Revocation { group_id: self.id.clone(), member_id: member_id.clone() });
        self.forget_classic_deadlines(member_id, turn);
    }

    fn forget_classic_deadlines(&self, member_id: &Rc<str>, turn: &mut Turn<'_>) {
        let (group_id, member_id) = (self.id.clone(), member_id.clone());
        turn.deadlines.cancel(&DeadlineOf::ClassicJoin { group_id: group_id.clone(), member_id: member_id.clone() });
        turn.deadlines.cancel(&DeadlineOf::ClassicSync { group_id, member_id });
    }

    /// Goes with what has changed: the epoch first, then the assignment.
    pub(in crate::group) fn follow(&mut self, is_changed: bool, topics: &dyn Topics, turn: &mut Turn<'_>) {
        self.follow_topics(is_changed, topics, turn);
        self.follow_epoch(topics, turn);
    }

    /// Raises the epoch where members, subscriptions or topics have changed.
    fn follow_topics(&mut self, is_changed: bool, topics: &dyn Topics, turn: &mut Turn<'_>) {
        if !is_changed && self.checked_version == Some(topics.version()) {
            return;
        }
        self.resolve(topics, turn);
        self.checked_version = Some(topics.version());
        let hash = self.hash_topics(topics);
        if is_changed || hash != self.metadata_hash {
            self.metadata_hash = hash;
            self.raise_epoch(turn);
        }
    }

    /// Looks which topics match the members' regular expressions, where that may have changed, and writes down what has.
    fn resolve(&mut self, topics: &dyn Topics, turn: &mut Turn<'_>) {
        let wanted: BTreeSet<&String> =
            self.members.values().map(|member| &member.subscribed_regex).filter(|regex| !regex.is_empty()).collect();
        let out = &mut turn.effects.records;
        self.resolved.retain(|regex, _| {
            let is_wanted = wanted.contains(regex);
            if !is_wanted {
                push(out, records::regex_tombstone(&self.id, regex));
            }
            is_wanted
        });
        let is_current = self.checked_version == Some(topics.version());
        for regex in wanted {
            if is_current && self.resolved.contains_key(regex) {
                continue;
            }
            let matching = topic_regex::matching(regex, topics);
            if self.resolved.get(regex) != Some(&matching) {
                push(out, records::regex(&self.id, regex, &matching, topics.version(), turn.now.wall_ms));
                self.resolved.insert(regex.clone(), matching);
            }
        }
    }

    pub(in crate::group) fn raise_epoch(&mut self, turn: &mut Turn<'_>) {
        self.epoch = self.epoch.saturating_add(1);
        push(&mut turn.effects.records, records::epoch(self));
    }

    /// Takes the topics as they are for those of its epoch.
    pub(in crate::group) fn know_topics(&mut self, topics: &dyn Topics) {
        self.metadata_hash = self.hash_topics(topics);
        self.checked_version = Some(topics.version());
    }

    /// FNV-1a over what is subscribed to and there.
    fn hash_topics(&self, topics: &dyn Topics) -> i64 {
        let names: BTreeSet<&String> = self.members.values().flat_map(|member| self.read_by(member)).collect();
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut take = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for (name, topic) in names.into_iter().filter_map(|name| Some((name, topics.by_name(name)?))) {
            take(name.as_bytes());
            take(&topic.id);
            take(&topic.partition_count.to_be_bytes());
        }
        hash.cast_signed()
    }

    /// Assigns anew where the assignment is behind the group.
    fn follow_epoch(&mut self, topics: &dyn Topics, turn: &mut Turn<'_>) {
        if self.epoch <= self.assignment_epoch {
            return;
        }
        // Members often come and go together: what they did meanwhile is one change then, made at a later heartbeat.
        let interval_ms = u64::from(turn.config.group_consumer_assignment_interval_ms);
        if self.assigned_at_ms.is_some_and(|at_ms| turn.now.now_ms < at_ms.saturating_add(interval_ms)) {
            return;
        }
        self.assigned_at_ms = Some(turn.now.now_ms);
        let none = Partitions::new();
        let subscriber = |member: &'_ ConsumerMember| {
            let mut known: Vec<_> = self.read_by(member).into_iter().filter_map(|name| topics.by_name(name)).collect();
            known.sort_by_key(|topic| topic.id);
            known
        };
        let subscribed: Vec<_> = self.members.values().map(subscriber).collect();
        let members: Vec<Subscriber<'_>> = self
            .members
            .values()
            .zip(subscribed)
            .map(|(member, topics)| Subscriber {
                member_id: &member.member_id,
                instance_id: member.instance_id.as_deref(),
                topics,
                target: self.target.get(&member.member_id).unwrap_or(&none),
            })
            .collect();
        let assignor = self.assignor();
        let assigned = assignor.assign(&members);
        info!(
            group = &*self.id,
            epoch = self.epoch,
            members = self.members.len(),
            assignor = assignor.name(),
            "group assigned"
        );
        for (member_id, parts) in assigned {
            let member_id: Rc<str> = Rc::from(member_id);
            if self.target.get(&member_id) != Some(&parts) {
                push(&mut turn.effects.records, records::target(&self.id, &member_id, &parts));
                self.target.insert(member_id, parts);
            }
        }
        self.assignment_epoch = self.epoch;
        push(&mut turn.effects.records, records::assignment_epoch(&self.id, self.assignment_epoch, turn.now.wall_ms));
    }

    /// Takes a member the next step towards its assignment.
    ///
    /// # Errors
    /// It has to begin anew.
    pub(in crate::group) fn reconcile(
        &mut self,
        member_id: &Rc<str>,
        owned: Option<&Partitions>,
        turn: &mut Turn<'_>,
    ) -> Result<(), ErrorCode> {
        let Some(member) = self.members.get(member_id) else { return Ok(()) };
        if member.is_reconciled_to(self.assignment_epoch) {
            return Ok(());
        }
        let mut held: BTreeSet<([u8; 16], i32)> = BTreeSet::new();
        for other in self.members.values().filter(|other| other.member_id != *member_id) {
            for (topic, parts) in other.assigned.iter().chain(&other.pending_revocation) {
                held.extend(parts.iter().map(|part| (*topic, *part)));
            }
        }
        let before = member.clone();
        let mut member = before.clone();
        let target = self.target.get(member_id).cloned().unwrap_or_default();
        let is_free = |topic, part| !held.contains(&(topic, part));
        member.reconcile(self.assignment_epoch, &target, owned, is_free)?;
        if member == before {
            return Ok(());
        }
        push(&mut turn.effects.records, records::current(&self.id, &member));
        let key = DeadlineOf::Revocation { group_id: self.id.clone(), member_id: member_id.clone() };
        if member.state == MemberState::Unrevoked {
            let timeout_ms = u64::try_from(member.rebalance_timeout_ms).unwrap_or(0);
            turn.deadlines.set(key, turn.now.now_ms.saturating_add(timeout_ms));
        } else {
            turn.deadlines.cancel(&key);
        }
        self.members.insert(member_id.clone(), member);
        Ok(())
    }

    /// A member leaves for good, which is the caller's to carry out: says who; or a static one goes for a while.
    ///
    /// # Errors
    /// It is none.
    pub(in crate::group) fn leave(
        &mut self,
        beat: &ConsumerHeartbeat,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Rc<str>>, ErrorCode> {
        let member_id: Rc<str> = match &beat.instance_id {
            None => Rc::from(&*beat.member_id),
            Some(instance_id) => {
                let known = self.static_member(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
                if *known.member_id != *beat.member_id {
                    return Err(ErrorCode::FencedInstanceId);
                }
                known.member_id.clone()
            }
        };
        let member = self.members.get_mut(&member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if beat.member_epoch == LEAVE_STATIC_EPOCH && beat.instance_id.is_some() {
            // It comes back soon: its place is kept until its session ends.
            member.epoch = LEAVE_STATIC_EPOCH;
            member.pending_revocation = Partitions::new();
            push(&mut turn.effects.records, records::current(&self.id, member));
            return Ok(None);
        }
        Ok(Some(member_id))
    }

    /// A member is out. The epoch is the caller's to raise; the others are assigned anew when they are heard of.
    pub(in crate::group) fn remove(&mut self, member_id: &str, turn: &mut Turn<'_>) {
        let Some((member_id, _)) = self.members.remove_entry(member_id) else { return };
        self.target.remove(&member_id);
        self.forget(&member_id, turn);
    }
}

fn take_over(member: &mut ConsumerMember, beat: &ConsumerHeartbeat) {
    if let Some(instance_id) = &beat.instance_id {
        member.instance_id = Some(Rc::from(&**instance_id));
    }
    if beat.rack_id.is_some() {
        member.rack_id.clone_from(&beat.rack_id);
    }
    if beat.rebalance_timeout_ms != -1 {
        member.rebalance_timeout_ms = beat.rebalance_timeout_ms;
    }
    if beat.server_assignor.is_some() {
        member.server_assignor.clone_from(&beat.server_assignor);
    }
    if let Some(topics) = &beat.topics {
        member.subscribed_topics = topics.iter().cloned().collect();
    }
    if let Some(regex) = &beat.regex {
        member.subscribed_regex.clone_from(regex);
    }
    member.classic = None;
    member.client_id.clone_from(&beat.client_id);
    member.client_host.clone_from(&beat.client_host);
}

/// An epoch that is not the member's is fenced, but for the one before where the reply may have been lost.
fn judge_epoch(member: &ConsumerMember, beat: &ConsumerHeartbeat) -> Result<(), ErrorCode> {
    let is_known = beat.member_epoch == member.epoch
        || beat.member_epoch == 0
        || (beat.member_epoch == member.previous_epoch && member.owns_all_of(beat.owned.as_ref()));
    if is_known { Ok(()) } else { Err(ErrorCode::FencedMemberEpoch) }
}

/// A static member goes, and means to come back.
pub const LEAVE_STATIC_EPOCH: i32 = -2;
