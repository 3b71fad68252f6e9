//! A classic group: its members, its generation, and what state it is in.
//!
//! ```text
//!            a member joins                all have joined                   the leader's assignment
//!   Empty ----------------> Preparing ----------------------> Completing ----------------------> Stable
//!     ^                     Rebalance <---------------------- Rebalance                            |
//!     |                       |  ^      somebody joins, leaves, is late                            |
//!     +--- nobody is left ----+  +-----------------------------------------------------------------+
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::group::classic_member::ClassicMember;
use crate::group::reply::{GroupReply, Joined, JoinedMember, Synced};
use crate::group::request::Protocol;
use crate::group::subscription::subscribed_topics;
use crate::record::coordination::{Effects, Ticket};
use crate::wire::error_code::ErrorCode;

/// The states, by Kafka's names. A group that is dead is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassicState {
    /// No members; perhaps committed offsets.
    Empty,
    /// Waits for its members to join again.
    PreparingRebalance,
    /// Waits for the leader's assignment.
    CompletingRebalance,
    /// Its members have assignments.
    Stable,
}

impl ClassicState {
    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// How long the first rebalance of an empty group goes on waiting for more members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialDelay {
    /// The wait that is under way.
    pub delay_ms: u64,
    /// What may come after it.
    pub remaining_ms: u64,
}

/// A classic group.
#[derive(Debug)]
pub struct ClassicGroup {
    /// Its name.
    pub id: Rc<str>,
    state: ClassicState,
    previous_state: ClassicState,
    /// When it came into its state, in milliseconds since 1970, where that is known.
    pub state_since_ms: Option<i64>,
    /// Counts rebalances.
    pub generation: i32,
    /// What kind of members it has, from the first on.
    pub protocol_type: Option<String>,
    /// What they all speak in this generation.
    pub protocol_name: Option<String>,
    /// Who assigns.
    pub leader: Option<Rc<str>>,
    members: BTreeMap<Rc<str>, ClassicMember>,
    /// Member ids by instance id.
    static_members: BTreeMap<Rc<str>, Rc<str>>,
    /// Ids that were given out, and have not come back yet.
    pending_join: BTreeSet<Rc<str>>,
    /// Members of this generation that have not asked for their assignments yet.
    pub pending_sync: BTreeSet<Rc<str>>,
    /// Somebody came while the initial delay was on.
    pub new_member_added: bool,
    /// Set while the first rebalance waits.
    pub initial_delay: Option<InitialDelay>,
    /// What its consumers subscribe to, where that is known.
    pub subscribed_topics: Option<BTreeSet<String>>,
}

impl ClassicGroup {
    /// A group without members.
    pub fn new(id: Rc<str>, wall_ms: i64) -> Self {
        Self {
            id,
            state: ClassicState::Empty,
            previous_state: ClassicState::Empty,
            state_since_ms: Some(wall_ms),
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_join: BTreeSet::new(),
            pending_sync: BTreeSet::new(),
            new_member_added: false,
            initial_delay: None,
            subscribed_topics: None,
        }
    }

    /// A group as its record says it is.
    pub fn replayed(mut self, members: Vec<ClassicMember>) -> Self {
        self.state = if members.is_empty() { ClassicState::Empty } else { ClassicState::Stable };
        self.previous_state = self.state;
        for member in members {
            if let Some(instance_id) = &member.instance_id {
                self.static_members.insert(instance_id.clone(), member.member_id.clone());
            }
            self.members.insert(member.member_id.clone(), member);
        }
        // A leader that is no member would leave the group without one.
        if self.leader.as_ref().is_none_or(|leader| !self.members.contains_key(leader)) {
            self.leader = self.members.keys().next().cloned();
        }
        self.subscribed_topics = self.compute_subscribed_topics();
        self
    }

    /// Its state.
    pub fn state(&self) -> ClassicState {
        self.state
    }

    /// The state before.
    pub fn previous_state(&self) -> ClassicState {
        self.previous_state
    }

    /// True in this state.
    pub fn is(&self, state: ClassicState) -> bool {
        self.state == state
    }

    /// Goes over into a state.
    pub fn go_to(&mut self, state: ClassicState, wall_ms: i64) {
        let is_legal = match state {
            ClassicState::Empty | ClassicState::CompletingRebalance => self.is(ClassicState::PreparingRebalance),
            ClassicState::PreparingRebalance => !self.is(ClassicState::PreparingRebalance),
            ClassicState::Stable => self.is(ClassicState::CompletingRebalance),
        };
        assert!(is_legal, "a group may not go from {:?} to {state:?}", self.state);
        self.previous_state = std::mem::replace(&mut self.state, state);
        self.state_since_ms = Some(wall_ms);
    }

    /// Its members, by id.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &ClassicMember> {
        self.members.values()
    }

    /// Its members, to be changed.
    pub fn members_mut(&mut self) -> impl ExactSizeIterator<Item = &mut ClassicMember> {
        self.members.values_mut()
    }

    /// A member.
    pub fn member(&self, member_id: &str) -> Option<&ClassicMember> {
        self.members.get(member_id)
    }

    /// A member, to be changed.
    pub fn member_mut(&mut self, member_id: &str) -> Option<&mut ClassicMember> {
        self.members.get_mut(member_id)
    }

    /// The member of a static instance.
    pub fn static_member_id(&self, instance_id: &str) -> Option<Rc<str>> {
        self.static_members.get(instance_id).cloned()
    }

    /// True for an id that was given out and has not come back yet.
    pub fn is_pending_join(&self, member_id: &str) -> bool {
        self.pending_join.contains(member_id)
    }

    /// Ids that were given out and have not come back yet.
    pub fn pending_join(&self) -> impl Iterator<Item = &Rc<str>> {
        self.pending_join.iter()
    }

    /// Gives an id out.
    pub fn add_pending_join(&mut self, member_id: Rc<str>) {
        self.pending_join.insert(member_id);
    }

    /// True where it has a leader of this id.
    pub fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// Takes a member in.
    pub fn add(&mut self, member: ClassicMember, protocol_type: &str) {
        if self.members.is_empty() {
            self.protocol_type = Some(protocol_type.to_owned());
        }
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), member.member_id.clone());
        }
        self.leader.get_or_insert_with(|| member.member_id.clone());
        self.pending_join.remove(&member.member_id);
        self.members.insert(member.member_id.clone(), member);
    }

    /// Lets a member go, or takes an id back that was given out.
    pub fn remove(&mut self, member_id: &str) {
        if let Some(member) = self.members.remove(member_id)
            && let Some(instance_id) = &member.instance_id
        {
            self.static_members.remove(instance_id);
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending_join.remove(member_id);
        self.pending_sync.remove(member_id);
    }

    /// A static member comes back under a new id; the old one is fenced.
    pub fn replace_static(&mut self, old_id: &str, new_id: Rc<str>, effects: &mut Effects<GroupReply>) {
        let Some(mut member) = self.members.remove(old_id) else { return };
        if let Some(ticket) = member.awaiting_join.take() {
            effects.reply(ticket, Joined::refused(old_id, ErrorCode::FencedInstanceId));
        }
        if let Some(ticket) = member.awaiting_sync.take() {
            effects.reply(ticket, Synced::refused(ErrorCode::FencedInstanceId));
        }
        if self.is_leader(old_id) {
            self.leader = Some(new_id.clone());
        }
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), new_id.clone());
        }
        // The old id's place in the generation is the new one's.
        self.pending_sync.remove(old_id);
        member.member_id = new_id.clone();
        member.is_new = false;
        self.members.insert(new_id, member);
    }

    /// Judges who speaks.
    ///
    /// # Errors
    /// Not a member, or fenced by another of the same instance.
    pub fn validate_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(known) if **known != *member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// True where members with these protocols can be in it.
    pub fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.is(ClassicState::Empty) {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|offered| self.is_spoken_by_all(&offered.name))
    }

    fn is_spoken_by_all(&self, protocol: &str) -> bool {
        self.members.values().all(|member| member.supports(protocol))
    }

    /// The protocol that most members prefer of those that all speak.
    pub fn select_protocol(&self) -> Option<String> {
        let first = self.members.values().next()?;
        let candidates: BTreeSet<&str> = first
            .protocols
            .iter()
            .map(|offered| offered.name.as_str())
            .filter(|name| self.is_spoken_by_all(name))
            .collect();
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(vote) = member.vote(|name| candidates.contains(name)) {
                *votes.entry(vote).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.to_owned())
    }

    /// Members whose JoinGroup waits.
    pub fn awaiting_join_count(&self) -> usize {
        self.members.values().filter(|member| member.awaiting_join.is_some()).count()
    }

    /// True where everybody is there.
    pub fn have_all_joined(&self) -> bool {
        self.pending_join.is_empty() && self.members.values().all(|member| member.awaiting_join.is_some())
    }

    /// Makes sure that the leader is one who has joined. False where nobody has.
    pub fn elect_joined_leader(&mut self) -> bool {
        let Some(leader) = self.leader.as_deref().and_then(|leader| self.members.get(leader)) else { return false };
        if leader.awaiting_join.is_some() {
            return true;
        }
        let joined = self.members.values().find(|member| member.awaiting_join.is_some());
        let joined = joined.map(|member| member.member_id.clone());
        if joined.is_some() {
            self.leader = joined;
            return true;
        }
        false
    }

    /// The longest that a member asks for to join again.
    pub fn rebalance_timeout_ms(&self) -> u64 {
        self.members.values().map(|member| u64::from(member.rebalance_timeout_ms)).max().unwrap_or(0)
    }

    /// Begins the next generation.
    pub fn next_generation(&mut self, wall_ms: i64) {
        self.generation = self.generation.checked_add(1).unwrap_or(0);
        self.protocol_name = self.select_protocol();
        let state = if self.members.is_empty() { ClassicState::Empty } else { ClassicState::CompletingRebalance };
        self.go_to(state, wall_ms);
        self.subscribed_topics = self.compute_subscribed_topics();
        self.pending_sync.clear();
    }

    /// True for a group of consumers.
    pub fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    pub(in crate::group) fn compute_subscribed_topics(&self) -> Option<BTreeSet<String>> {
        if !self.is_of_consumers() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol = self.protocol_name.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.extend(subscribed_topics(member.metadata(protocol))?);
        }
        Some(topics)
    }

    /// True where its consumers may be reading the topic.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscribed_topics.as_ref().map_or(self.is_of_consumers(), |topics| topics.contains(topic))
    }

    /// What a member is told of the generation; the leader is also told of the members.
    pub fn joined(&self, member_id: &str) -> Joined {
        Joined {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.as_deref().unwrap_or_default().to_owned(),
            skip_assignment: false,
            member_id: member_id.to_owned(),
            members: if self.is_leader(member_id) { self.joined_members() } else { Vec::new() },
        }
    }

    fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let each = |member: &ClassicMember| JoinedMember {
            member_id: member.member_id.to_string(),
            instance_id: member.instance_id.as_deref().map(str::to_owned),
            metadata: member.metadata(protocol).to_vec(),
        };
        self.members.values().map(each).collect()
    }

    /// Answers the waiting JoinGroup of a member.
    pub fn complete_join(&mut self, member_id: &str, reply: GroupReply, effects: &mut Effects<GroupReply>) {
        if let Some(ticket) = self.members.get_mut(member_id).and_then(|member| member.awaiting_join.take()) {
            effects.reply(ticket, reply);
        }
    }

    /// Has a member wait for the others; an earlier request of it, on a connection that it has given up, is sent away.
    pub fn await_join(&mut self, member_id: &str, ticket: Ticket, effects: &mut Effects<GroupReply>) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        if let Some(earlier) = member.awaiting_join.replace(ticket) {
            effects.reply(earlier, Joined::refused(member_id, ErrorCode::RebalanceInProgress));
        }
    }
}

/// The protocol type of consumers.
pub const CONSUMER_PROTOCOL_TYPE: &str = "consumer";
