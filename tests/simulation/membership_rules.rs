//! The rules of a classic group: who is in it, who must join again, and by when. All lies open, and nothing is done quickly.

use std::collections::{BTreeMap, BTreeSet};

use alluvium::group::reply::{GroupReply, Joined, JoinedMember, Synced};
use alluvium::group::request::{Join, Leaver, Protocol, Speaker, Sync};
use alluvium::group::subscription::subscribed_topics;
use alluvium::record::coordination::Ticket;
use alluvium::wire::error_code::ErrorCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Empty,
    /// All are to join; for the first time since it was empty, or again.
    Joining {
        is_first: bool,
    },
    /// The leader is to assign.
    Assigning,
    Stable,
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) instance: Option<String>,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) session_ms: u64,
    rebalance_ms: u64,
    pub(crate) assignment: Vec<u8>,
    /// It has been in a generation.
    is_settled: bool,
    joining: Option<Ticket>,
    syncing: Option<Ticket>,
    pub(crate) heard_by_ms: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) phase: Phase,
    pub(crate) generation: i32,
    pub(crate) kind: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: Option<String>,
    pub(crate) members: BTreeMap<String, Member>,
    /// Ids that nobody has come back with, and until when one may.
    pub(crate) given_out: BTreeMap<String, u64>,
    pub(crate) join_by_ms: Option<u64>,
    /// What the first rebalance still waits for, where somebody comes: this wait, and what may follow.
    delay_ms: Option<(u64, u64)>,
    somebody_came: bool,
    pub(crate) sync_by_ms: Option<u64>,
    /// Who has not asked for its assignment.
    owing: BTreeSet<String>,
    /// What its consumers read, since it has had a generation.
    read: Option<BTreeSet<String>>,
}

/// When something happens, and what comes of it besides.
pub(crate) struct Step<'a> {
    pub(crate) now_ms: u64,
    pub(crate) answers: &'a mut BTreeMap<Ticket, GroupReply>,
    /// What was written down last.
    pub(crate) kept: &'a mut Option<Group>,
}

impl Step<'_> {
    fn answer(&mut self, ticket: Ticket, reply: GroupReply) {
        assert_eq!(self.answers.insert(ticket, reply), None, "the model answers twice");
    }
}

impl Group {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Empty,
            generation: 0,
            kind: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            given_out: BTreeMap::new(),
            join_by_ms: None,
            delay_ms: None,
            somebody_came: false,
            sync_by_ms: None,
            owing: BTreeSet::new(),
            read: None,
        }
    }

    pub(crate) fn is_of_consumers(&self) -> bool {
        self.kind.as_deref() == Some("consumer")
    }

    pub(crate) fn reads(&self, topic: &str) -> bool {
        self.read.as_ref().map_or(self.is_of_consumers(), |read| read.contains(topic))
    }

    fn is_leader(&self, id: &str) -> bool {
        self.leader.as_deref() == Some(id)
    }

    fn holder(&self, instance: &str) -> Option<String> {
        let mut members = self.members.iter();
        members.find(|(_, member)| member.instance.as_deref() == Some(instance)).map(|(id, _)| id.clone())
    }

    fn check(&self, id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        match instance.map(|instance| self.holder(instance)) {
            Some(None) => Err(ErrorCode::UnknownMemberId),
            Some(Some(holder)) if holder != id => Err(ErrorCode::FencedInstanceId),
            _ if self.members.contains_key(id) => Ok(()),
            _ => Err(ErrorCode::UnknownMemberId),
        }
    }

    fn check_generation(&self, speaker: &Speaker) -> Result<(), ErrorCode> {
        self.check(&speaker.member_id, speaker.instance_id.as_deref())?;
        if speaker.generation == self.generation { Ok(()) } else { Err(ErrorCode::IllegalGeneration) }
    }

    fn heard(&mut self, id: &str, now_ms: u64) {
        if let Some(member) = self.members.get_mut(id) {
            member.heard_by_ms = Some(now_ms + member.session_ms);
        }
    }

    fn all_speak(&self, protocol: &str) -> bool {
        self.members.values().all(|member| member.protocols.iter().any(|offered| offered.name == protocol))
    }

    pub(crate) fn join(&mut self, ticket: Ticket, join: &Join, step: &mut Step<'_>) {
        let id = join.member_id.as_str();
        let waiting = self.members.values().filter(|member| member.joining.is_some()).count();
        let has_room = match self.phase {
            Phase::Empty => true,
            Phase::Joining { .. } => {
                waiting < SIZE_MAX || self.members.get(id).is_some_and(|member| member.joining.is_some())
            }
            Phase::Assigning | Phase::Stable => self.members.len() < SIZE_MAX || self.members.contains_key(id),
        };
        if !has_room {
            self.remove(id);
            return step.answer(ticket, Joined::refused("", ErrorCode::GroupMaxSizeReached));
        }
        let fits = match self.phase {
            Phase::Empty => !join.protocol_type.is_empty() && !join.protocols.is_empty(),
            _ => {
                self.kind.as_deref() == Some(&join.protocol_type)
                    && join.protocols.iter().any(|offered| self.all_speak(&offered.name))
            }
        };
        if !fits {
            return step.answer(ticket, Joined::refused(id, ErrorCode::InconsistentGroupProtocol));
        }
        match &join.instance_id {
            _ if !id.is_empty() => self.join_again(ticket, join, step),
            Some(instance) => match self.holder(instance) {
                Some(old_id) => self.replace(ticket, &old_id, join, step),
                None => self.enter(ticket, &join.new_member_id, join, step),
            },
            None if join.requires_known_member_id => {
                self.given_out.insert(join.new_member_id.clone(), step.now_ms + u64::from(join.session_timeout_ms));
                step.answer(ticket, Joined::refused(&join.new_member_id, ErrorCode::MemberIdRequired));
            }
            None => self.enter(ticket, &join.new_member_id, join, step),
        }
    }

    fn join_again(&mut self, ticket: Ticket, join: &Join, step: &mut Step<'_>) {
        let id = join.member_id.as_str();
        let checked = match self.given_out.contains_key(id) {
            true if join.instance_id.is_some() => Err(ErrorCode::UnknownServerError),
            true => return self.enter(ticket, id, join, step),
            false => self.check(id, join.instance_id.as_deref()),
        };
        if let Err(error) = checked {
            return step.answer(ticket, Joined::refused(id, error));
        }
        let is_unchanged = self.members[id].protocols == join.protocols;
        let is_known = match self.phase {
            Phase::Assigning => is_unchanged,
            Phase::Stable => is_unchanged && !self.is_leader(id),
            Phase::Empty | Phase::Joining { .. } => false,
        };
        if is_known {
            return step.answer(ticket, GroupReply::Joined(self.joined(id)));
        }
        self.take_over(ticket, id, join, step);
        self.rebalance(step);
    }

    fn take_over(&mut self, ticket: Ticket, id: &str, join: &Join, step: &mut Step<'_>) {
        let member = self.members.get_mut(id).expect("it was checked");
        if let Some(earlier) = member.joining.replace(ticket) {
            step.answer(earlier, Joined::refused(id, ErrorCode::RebalanceInProgress));
        }
        member.protocols = join.protocols.clone();
        (member.session_ms, member.rebalance_ms) = timeouts(join);
    }

    fn enter(&mut self, ticket: Ticket, id: &str, join: &Join, step: &mut Step<'_>) {
        if self.members.is_empty() {
            self.kind = Some(join.protocol_type.clone());
        }
        self.given_out.remove(id);
        self.leader.get_or_insert_with(|| id.to_owned());
        self.somebody_came |= self.phase == Phase::Joining { is_first: true };
        let (session_ms, rebalance_ms) = timeouts(join);
        let member = Member {
            instance: join.instance_id.clone(),
            protocols: join.protocols.clone(),
            session_ms,
            rebalance_ms,
            assignment: Vec::new(),
            is_settled: false,
            joining: Some(ticket),
            syncing: None,
            heard_by_ms: Some(step.now_ms + FIRST_JOIN_MS_MAX),
        };
        self.members.insert(id.to_owned(), member);
        self.rebalance(step);
    }

    /// A static member is back.
    fn replace(&mut self, ticket: Ticket, old_id: &str, join: &Join, step: &mut Step<'_>) {
        let (new_id, leader_before) = (join.new_member_id.as_str(), self.leader.clone().unwrap_or_default());
        let mut member = self.members.remove(old_id).expect("it holds the instance");
        if let Some(waiting) = member.joining.take() {
            step.answer(waiting, Joined::refused(old_id, ErrorCode::FencedInstanceId));
        }
        if let Some(waiting) = member.syncing.take() {
            step.answer(waiting, Synced::refused(ErrorCode::FencedInstanceId));
        }
        member.is_settled = true;
        self.owing.remove(old_id);
        self.members.insert(new_id.to_owned(), member);
        if self.is_leader(old_id) {
            self.leader = Some(new_id.to_owned());
        }
        self.take_over(ticket, new_id, join, step);
        self.heard(new_id, step.now_ms);
        if self.phase != Phase::Stable || self.choose() != self.protocol {
            return self.rebalance(step);
        }
        self.keep(step);
        let mut joined = self.joined(new_id);
        if join.supports_skipping_assignment {
            joined.skip_assignment = self.is_leader(new_id);
        } else {
            (joined.leader, joined.members) = (leader_before, Vec::new());
        }
        self.members.get_mut(new_id).expect("it is back").joining = None;
        step.answer(ticket, GroupReply::Joined(joined));
    }

    fn remove(&mut self, id: &str) {
        self.members.remove(id);
        self.given_out.remove(id);
        self.owing.remove(id);
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// Lets a member go, with what it waits for.
    fn dismiss(&mut self, id: &str, step: &mut Step<'_>) {
        if let Some(member) = self.members.get_mut(id) {
            if let Some(waiting) = member.joining.take() {
                step.answer(waiting, Joined::refused("", ErrorCode::UnknownMemberId));
            }
            if let Some(waiting) = member.syncing.take() {
                step.answer(waiting, Synced::refused(ErrorCode::UnknownMemberId));
            }
        }
        self.remove(id);
    }

    fn have_all_joined(&self) -> bool {
        self.given_out.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    fn rebalance_ms(&self) -> u64 {
        self.members.values().map(|member| member.rebalance_ms).max().unwrap_or(0)
    }

    /// Somebody has come or gone: all join again. The first rebalance takes its time.
    fn rebalance(&mut self, step: &mut Step<'_>) {
        match self.phase {
            Phase::Joining { is_first } => {
                if !is_first && self.have_all_joined() {
                    self.begin_generation(step);
                }
                return;
            }
            Phase::Assigning => {
                self.members.values_mut().for_each(|member| member.assignment.clear());
                self.answer_syncs(ErrorCode::RebalanceInProgress, step);
            }
            Phase::Empty | Phase::Stable => {}
        }
        self.owing.clear();
        self.sync_by_ms = None;
        let is_first = self.phase == Phase::Empty;
        self.phase = Phase::Joining { is_first };
        if is_first {
            self.delay_ms = Some((DELAY_MS, self.rebalance_ms().saturating_sub(DELAY_MS)));
            self.join_by_ms = Some(step.now_ms + DELAY_MS);
        } else if self.have_all_joined() {
            self.begin_generation(step);
        } else {
            self.join_by_ms = Some(step.now_ms + self.rebalance_ms());
        }
    }

    pub(crate) fn joins_are_due(&mut self, step: &mut Step<'_>) {
        self.join_by_ms = None;
        match self.delay_ms {
            Some((delay_ms, remaining_ms)) if self.somebody_came && remaining_ms > 0 => {
                self.somebody_came = false;
                let next_ms = DELAY_MS.min(remaining_ms);
                self.delay_ms = Some((next_ms, remaining_ms.saturating_sub(delay_ms)));
                self.join_by_ms = Some(step.now_ms + next_ms);
            }
            _ => self.begin_generation(step),
        }
    }

    /// With who is there: who has not joined is out, but for static members, who have their session.
    fn begin_generation(&mut self, step: &mut Step<'_>) {
        (self.join_by_ms, self.delay_ms, self.somebody_came) = (None, None, false);
        let late = self.members.iter().filter(|(_, member)| member.joining.is_none() && member.instance.is_none());
        for id in late.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.remove(&id);
        }
        let joined: Vec<&String> =
            self.members.iter().filter(|(_, member)| member.joining.is_some()).map(|(id, _)| id).collect();
        if joined.is_empty() && !self.members.is_empty() {
            self.join_by_ms = Some(step.now_ms + self.rebalance_ms().max(1));
            return;
        }
        if self.leader.as_ref().is_none_or(|leader| !joined.contains(&leader)) {
            self.leader = joined.first().map(|id| (*id).clone());
        }
        self.generation += 1;
        self.protocol = self.choose();
        self.read = self.subscribed();
        self.owing.clear();
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            return self.keep(step);
        }
        self.phase = Phase::Assigning;
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            let joined = self.joined(&id);
            let member = self.members.get_mut(&id).expect("it is in the list");
            member.is_settled = true;
            if let Some(waiting) = member.joining.take() {
                step.answer(waiting, GroupReply::Joined(joined.clone()));
            }
            self.heard(&id, step.now_ms);
            self.owing.insert(id);
        }
        self.sync_by_ms = Some(step.now_ms + self.rebalance_ms());
    }

    /// What most prefer of what all speak; of equals the last by name.
    fn choose(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let preferred = member.protocols.iter().find(|offered| self.all_speak(&offered.name))?;
            *votes.entry(&preferred.name).or_default() += 1;
        }
        votes.into_iter().map(|(name, count)| (count, name.to_owned())).max().map(|(_, name)| name)
    }

    fn metadata<'a>(&self, member: &'a Member) -> &'a [u8] {
        let spoken = member.protocols.iter().find(|offered| Some(&offered.name) == self.protocol.as_ref());
        spoken.map_or(&[], |offered| &offered.metadata)
    }

    fn subscribed(&self) -> Option<BTreeSet<String>> {
        let topics = self.members.values().map(|member| subscribed_topics(self.metadata(member)));
        let topics: Option<Vec<BTreeSet<String>>> = topics.collect();
        topics.filter(|_| self.is_of_consumers()).map(|topics| topics.into_iter().flatten().collect())
    }

    fn joined(&self, id: &str) -> Joined {
        let each = |(id, member): (&String, &Member)| JoinedMember {
            member_id: id.clone(),
            instance_id: member.instance.clone(),
            metadata: self.metadata(member).to_vec(),
        };
        Joined {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.kind.clone(),
            protocol_name: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            member_id: id.to_owned(),
            members: if self.is_leader(id) { self.members.iter().map(each).collect() } else { Vec::new() },
        }
    }

    pub(crate) fn sync(&mut self, ticket: Ticket, sync: &Sync, step: &mut Step<'_>) -> Result<(), ErrorCode> {
        let id = sync.speaker.member_id.as_str();
        self.check_generation(&sync.speaker)?;
        let differs =
            |said: &Option<String>, known: &Option<String>| said.is_some() && known.is_some() && said != known;
        if differs(&sync.protocol_type, &self.kind) || differs(&sync.protocol_name, &self.protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if matches!(self.phase, Phase::Empty | Phase::Joining { .. }) {
            return Err(ErrorCode::RebalanceInProgress);
        }
        self.owing.remove(id);
        if self.owing.is_empty() {
            self.sync_by_ms = None;
        }
        if self.phase == Phase::Stable {
            let assignment = self.members[id].assignment.clone();
            step.answer(ticket, self.synced(assignment));
            return Ok(());
        }
        let earlier = self.members.get_mut(id).and_then(|member| member.syncing.replace(ticket));
        if let Some(earlier) = earlier {
            step.answer(earlier, Synced::refused(ErrorCode::RebalanceInProgress));
        }
        if self.is_leader(id) {
            for (id, member) in &mut self.members {
                let given = sync.assignments.iter().rev().find(|(given_id, _)| given_id == id);
                member.assignment = given.map(|(_, assignment)| assignment.clone()).unwrap_or_default();
            }
            self.phase = Phase::Stable;
            self.keep(step);
            self.answer_syncs(ErrorCode::None, step);
        }
        Ok(())
    }

    fn synced(&self, assignment: Vec<u8>) -> GroupReply {
        let (protocol_type, protocol_name) = (self.kind.clone(), self.protocol.clone());
        GroupReply::Synced(Synced { error: ErrorCode::None, protocol_type, protocol_name, assignment })
    }

    fn answer_syncs(&mut self, error: ErrorCode, step: &mut Step<'_>) {
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            let Some(ticket) = self.members.get_mut(&id).and_then(|member| member.syncing.take()) else { continue };
            let reply = match error {
                ErrorCode::None => self.synced(self.members[&id].assignment.clone()),
                error => Synced::refused(error),
            };
            step.answer(ticket, reply);
            self.heard(&id, step.now_ms);
        }
    }

    pub(crate) fn syncs_are_due(&mut self, step: &mut Step<'_>) {
        self.sync_by_ms = None;
        let owing = std::mem::take(&mut self.owing);
        owing.iter().for_each(|id| self.remove(id));
        if !owing.is_empty() {
            self.rebalance(step);
        }
    }

    pub(crate) fn session_ended(&mut self, id: &str, step: &mut Step<'_>) {
        let was_member = match self.members.get_mut(id) {
            Some(member) => {
                member.heard_by_ms = None;
                if member.is_settled && (member.joining.is_some() || member.syncing.is_some()) {
                    return;
                }
                true
            }
            None => false,
        };
        self.dismiss(id, step);
        match self.phase {
            Phase::Joining { .. } if self.have_all_joined() => self.begin_generation(step),
            Phase::Assigning | Phase::Stable if was_member => self.rebalance(step),
            _ => {}
        }
    }

    pub(crate) fn heartbeat(&mut self, speaker: &Speaker, step: &mut Step<'_>) -> Result<(), ErrorCode> {
        self.check_generation(speaker)?;
        self.heard(&speaker.member_id, step.now_ms);
        match self.phase {
            Phase::Joining { .. } => Err(ErrorCode::RebalanceInProgress),
            Phase::Empty | Phase::Assigning | Phase::Stable => Ok(()),
        }
    }

    pub(crate) fn leave(&mut self, leavers: &[Leaver], step: &mut Step<'_>) -> Vec<ErrorCode> {
        let mut codes = Vec::new();
        for leaver in leavers {
            let instance = leaver.instance_id.as_deref();
            let id = match leaver.member_id.as_str() {
                "" => instance.and_then(|instance| self.holder(instance)),
                id => Some(id.to_owned()),
            };
            let code = match id {
                None => ErrorCode::UnknownMemberId,
                Some(id) if self.given_out.contains_key(&id) => {
                    self.remove(&id);
                    ErrorCode::None
                }
                Some(id) => match self.check(&id, instance) {
                    Ok(()) => {
                        self.dismiss(&id, step);
                        ErrorCode::None
                    }
                    Err(error) => error,
                },
            };
            codes.push(code);
        }
        if codes.contains(&ErrorCode::None) && self.phase != Phase::Empty {
            self.rebalance(step);
        }
        codes
    }

    pub(crate) fn commit(&mut self, speaker: &Speaker, step: &mut Step<'_>) -> Result<(), ErrorCode> {
        let says_who = speaker.generation >= 0 || !speaker.member_id.is_empty() || speaker.instance_id.is_some();
        if self.phase == Phase::Empty && speaker.generation < 0 {
            return Ok(());
        }
        if !says_who {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.check_generation(speaker)?;
        if self.phase == Phase::Assigning {
            return Err(ErrorCode::RebalanceInProgress);
        }
        self.heard(&speaker.member_id, step.now_ms);
        Ok(())
    }

    /// It is written down: what comes back has nobody waiting, and knows of what members say only what was chosen.
    fn keep(&self, step: &mut Step<'_>) {
        let mut kept = Self {
            phase: if self.members.is_empty() { Phase::Empty } else { Phase::Stable },
            generation: self.generation,
            kind: self.kind.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self.members.clone(),
            ..Self::new()
        };
        for member in kept.members.values_mut() {
            let metadata = self.metadata(member).to_vec();
            member.protocols = vec![Protocol { name: self.protocol.clone().unwrap_or_default(), metadata }];
            (member.joining, member.syncing, member.is_settled) = (None, None, true);
        }
        kept.read = kept.subscribed();
        *step.kept = Some(kept);
    }
}

fn timeouts(join: &Join) -> (u64, u64) {
    (u64::from(join.session_timeout_ms), u64::from(join.rebalance_timeout_ms))
}

/// `group.max.size`.
const SIZE_MAX: usize = 5;
/// `group.initial.rebalance.delay.ms`.
const DELAY_MS: u64 = 3_000;
/// A client that waits for longer in its first JoinGroup has given up.
const FIRST_JOIN_MS_MAX: u64 = 300_000;
