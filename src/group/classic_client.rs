//! Members that speak the classic protocol in a group of the consumer protocol.
//!
//! A group is upgraded one member at a time, so for a while both kinds are in it. The server assigns for all. A member of the
//! classic protocol is told by REBALANCE_IN_PROGRESS that there is something new, joins again with what it has given back, and
//! finds its assignment by SyncGroup; its generation is its epoch.

use std::rc::Rc;

use crate::group::classic_group::CONSUMER_PROTOCOL_TYPE;
use crate::group::consumer_group::ConsumerGroup;
use crate::group::consumer_member::{ConsumerMember, MemberState};
use crate::group::consumer_records as records;
use crate::group::coordinator::push;
use crate::group::deadlines::DeadlineOf;
use crate::group::reply::{Joined, Synced};
use crate::group::request::{Join, Leaver, Protocol, Speaker, Sync};
use crate::group::subscription;
use crate::group::topics::Topics;
use crate::group::turn::Turn;
use crate::wire::error_code::ErrorCode;

/// What a member of the classic protocol has said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicClient {
    /// Silent for longer, it is out.
    pub session_timeout_ms: u32,
    /// What it can do, the preferred first; not empty.
    pub protocols: Vec<Protocol>,
}

impl ClassicClient {
    /// The protocol that it is told of.
    pub fn protocol_name(&self) -> &str {
        self.protocols.first().map_or("", |protocol| &protocol.name)
    }

    /// Its subscription.
    pub fn metadata(&self) -> &[u8] {
        self.protocols.first().map_or(&[], |protocol| &protocol.metadata)
    }
}

impl ConsumerGroup {
    /// True where all who are in it speak the classic protocol.
    pub fn is_all_classic(&self) -> bool {
        !self.members.is_empty() && self.members.values().all(|member| member.classic.is_some())
    }

    /// A member of the classic protocol joins; it is answered at once.
    ///
    /// # Errors
    /// The id that it is told, and why it has not joined.
    pub(in crate::group) fn join_classic(
        &mut self,
        join: &Join,
        topics: &dyn Topics,
        turn: &mut Turn<'_>,
    ) -> Result<Joined, (String, ErrorCode)> {
        let refused = |error| (String::new(), error);
        let is_unknown = join.member_id.is_empty();
        let member_id: Rc<str> = Rc::from(if is_unknown { &*join.new_member_id } else { &*join.member_id });
        let is_full = self.members.len() >= turn.config.group_consumer_max_size as usize;
        if is_full && !self.members.contains_key(&member_id) {
            return Err(refused(ErrorCode::GroupMaxSizeReached));
        }
        let first = join.protocols.first().filter(|_| self.supports(join));
        let first = first.ok_or_else(|| refused(ErrorCode::InconsistentGroupProtocol))?;
        if is_unknown && join.requires_known_member_id && join.instance_id.is_none() {
            return Err((member_id.to_string(), ErrorCode::MemberIdRequired));
        }
        // As Kafka says where the bytes are no subscription.
        let said = subscription::subscription(&first.metadata, topics);
        let said = said.ok_or_else(|| refused(ErrorCode::UnknownServerError))?;
        self.find_classic(join, &member_id, turn).map_err(refused)?;

        let before = self.members.get(&member_id).cloned();
        let mut member = before.clone().unwrap_or_else(|| ConsumerMember::new(member_id.clone()));
        if let Some(instance_id) = &join.instance_id {
            member.instance_id = Some(Rc::from(&**instance_id));
        }
        if said.rack_id.is_some() {
            member.rack_id = said.rack_id;
        }
        member.rebalance_timeout_ms = i32::try_from(join.rebalance_timeout_ms).unwrap_or(i32::MAX);
        member.subscribed_topics = said.topics;
        member.subscribed_regex = String::new();
        member.client_id.clone_from(&join.client_id);
        member.client_host.clone_from(&join.client_host);
        member.classic =
            Some(ClassicClient { session_timeout_ms: join.session_timeout_ms, protocols: join.protocols.clone() });
        if before.as_ref() != Some(&member) {
            push(&mut turn.effects.records, records::member(&self.id, &member));
        }
        let is_changed = before.is_none_or(|before| !before.reads_the_same(&member));
        self.members.insert(member_id.clone(), member);
        self.follow(is_changed, topics, turn);
        self.reconcile(&member_id, Some(&said.owned), turn).map_err(refused)?;

        let key = DeadlineOf::ClassicJoin { group_id: self.id.clone(), member_id: member_id.clone() };
        turn.deadlines.cancel(&key);
        turn.expect_member(&self.id, &member_id, u64::from(join.session_timeout_ms));
        let key = DeadlineOf::ClassicSync { group_id: self.id.clone(), member_id: member_id.clone() };
        turn.deadlines.set(key, turn.now.now_ms.saturating_add(u64::from(join.rebalance_timeout_ms)));
        Ok(Joined {
            error: ErrorCode::None,
            generation: self.members.get(&member_id).map_or(0, |member| member.epoch),
            protocol_type: Some(CONSUMER_PROTOCOL_TYPE.to_owned()),
            protocol_name: Some(first.name.clone()),
            member_id: member_id.to_string(),
            ..Joined::default()
        })
    }

    /// True where who joins has a protocol that all others of its kind have.
    fn supports(&self, join: &Join) -> bool {
        let clients = || self.members.values().filter_map(|member| member.classic.as_ref());
        let is_spoken_by_all =
            |name: &str| clients().all(|client| client.protocols.iter().any(|offered| offered.name == name));
        join.protocol_type == CONSUMER_PROTOCOL_TYPE
            && join.protocols.iter().any(|offered| is_spoken_by_all(&offered.name))
    }

    /// Who it is that joins: anybody, unless it is static; a static one that is back has what it had.
    fn find_classic(&mut self, join: &Join, member_id: &Rc<str>, turn: &mut Turn<'_>) -> Result<(), ErrorCode> {
        let Some(instance_id) = &join.instance_id else { return Ok(()) };
        match self.static_member(instance_id).cloned() {
            Some(known) if join.member_id.is_empty() => {
                self.replace(&known, member_id.clone(), turn);
                Ok(())
            }
            None if join.member_id.is_empty() => Ok(()),
            None => Err(ErrorCode::UnknownMemberId),
            Some(known) if known.member_id != *member_id => Err(ErrorCode::FencedInstanceId),
            Some(_) => Ok(()),
        }
    }

    fn classic_member(&self, speaker: &Speaker) -> Result<(&ConsumerMember, &ClassicClient), ErrorCode> {
        let member = match &speaker.instance_id {
            None => self.members.get(&*speaker.member_id).ok_or(ErrorCode::UnknownMemberId)?,
            Some(instance_id) => {
                let member = self.static_member(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
                if *member.member_id != *speaker.member_id {
                    return Err(ErrorCode::FencedInstanceId);
                }
                member
            }
        };
        let client = member.classic.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
        if member.epoch != speaker.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        Ok((member, client))
    }

    /// A member of the classic protocol asks for its assignment.
    ///
    /// # Errors
    /// It has to join again, or is none.
    pub(in crate::group) fn sync_classic(
        &self,
        sync: &Sync,
        topics: &dyn Topics,
        turn: &mut Turn<'_>,
    ) -> Result<Synced, ErrorCode> {
        let (member, client) = self.classic_member(&sync.speaker)?;
        let differs = |said: &Option<String>, known: &str| said.as_deref().is_some_and(|said| said != known);
        let name = client.protocol_name();
        if differs(&sync.protocol_type, CONSUMER_PROTOCOL_TYPE) || differs(&sync.protocol_name, name) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        // Who has to give something back is told by its assignment what it may keep.
        if member.epoch < self.assignment_epoch && member.state != MemberState::Unrevoked {
            self.expect_classic_join(member, turn);
            return Err(ErrorCode::RebalanceInProgress);
        }
        let key = DeadlineOf::ClassicSync { group_id: self.id.clone(), member_id: member.member_id.clone() };
        turn.deadlines.cancel(&key);
        turn.expect_member(&self.id, &member.member_id, u64::from(client.session_timeout_ms));
        Ok(Synced {
            error: ErrorCode::None,
            protocol_type: sync.protocol_type.clone(),
            protocol_name: sync.protocol_name.clone(),
            assignment: subscription::assignment(&member.assigned, client.metadata(), topics),
        })
    }

    /// A sign of life of a member of the classic protocol.
    ///
    /// # Errors
    /// It has to join again, or is none.
    pub(in crate::group) fn heartbeat_classic(
        &mut self,
        speaker: &Speaker,
        topics: &dyn Topics,
        turn: &mut Turn<'_>,
    ) -> Result<(), ErrorCode> {
        self.classic_member(speaker)?;
        self.follow(false, topics, turn);
        let (member, client) = self.classic_member(speaker)?;
        turn.expect_member(&self.id, &member.member_id, u64::from(client.session_timeout_ms));
        let has_news = match member.state {
            MemberState::Unrevoked => true,
            MemberState::Unreleased => self.has_all_released(member),
            MemberState::Stable | MemberState::Unknown => false,
        };
        if member.epoch < self.assignment_epoch || has_news {
            self.expect_classic_join(member, turn);
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    fn expect_classic_join(&self, member: &ConsumerMember, turn: &mut Turn<'_>) {
        let key = DeadlineOf::ClassicJoin { group_id: self.id.clone(), member_id: member.member_id.clone() };
        let timeout_ms = u64::try_from(member.rebalance_timeout_ms).unwrap_or(0);
        turn.deadlines.set_if_absent(key, turn.now.now_ms.saturating_add(timeout_ms));
    }

    /// True where nobody else has any of what a member shall have.
    fn has_all_released(&self, member: &ConsumerMember) -> bool {
        let Some(target) = self.target.get(&member.member_id) else { return true };
        let others = self.members.values().filter(|other| other.member_id != member.member_id);
        let mut held = others.flat_map(|other| other.assigned.iter().chain(&other.pending_revocation));
        !held.any(|(topic, parts)| target.get(topic).is_some_and(|target| !target.is_disjoint(parts)))
    }

    /// The member that LeaveGroup names.
    ///
    /// # Errors
    /// It is none.
    pub(in crate::group) fn leaving(&self, leaver: &Leaver) -> Result<Rc<str>, ErrorCode> {
        let Some(instance_id) = &leaver.instance_id else {
            let member = self.members.get(&*leaver.member_id).ok_or(ErrorCode::UnknownMemberId)?;
            return Ok(member.member_id.clone());
        };
        let member = self.static_member(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
        // An administrator knows the instance alone.
        if !leaver.member_id.is_empty() && *member.member_id != *leaver.member_id {
            return Err(ErrorCode::FencedInstanceId);
        }
        Ok(member.member_id.clone())
    }
}
