//! Rebalances: waiting for the members, and the next generation.

use std::rc::Rc;

use tracing::{debug, info};

use crate::group::classic_group::{ClassicGroup, ClassicState, InitialDelay};
use crate::group::coordinator::push;
use crate::group::deadlines::DeadlineOf;
use crate::group::records;
use crate::group::reply::{GroupReply, Joined, Synced};
use crate::group::turn::Turn;
use crate::wire::error_code::ErrorCode;

impl ClassicGroup {
    pub(in crate::group) fn rebalance_or_complete(&mut self, reason: &'static str, turn: &mut Turn<'_>) {
        if self.is(ClassicState::PreparingRebalance) {
            self.complete_joins_if_ready(turn);
        } else {
            self.prepare_rebalance(reason, turn);
        }
    }

    /// Has all members join again.
    pub(in crate::group) fn prepare_rebalance(&mut self, reason: &'static str, turn: &mut Turn<'_>) {
        if self.is(ClassicState::CompletingRebalance) {
            for member in self.members_mut() {
                member.assignment.clear();
            }
            self.answer_syncs(ErrorCode::RebalanceInProgress, turn);
        }
        self.pending_sync.clear();
        turn.deadlines.cancel(&DeadlineOf::Sync { group_id: self.id.clone() });
        let is_first = self.is(ClassicState::Empty);
        info!(group = &*self.id, generation = self.generation, state = self.state().name(), reason, "group rebalances");
        self.go_to(ClassicState::PreparingRebalance, turn.now.wall_ms);
        if is_first {
            // More members usually follow within moments: one rebalance for all of them.
            let delay_ms = u64::from(turn.config.group_initial_rebalance_delay_ms);
            let remaining_ms = self.rebalance_timeout_ms().saturating_sub(delay_ms);
            self.initial_delay = Some(InitialDelay { delay_ms, remaining_ms });
            turn.expect_joins(&self.id.clone(), delay_ms);
        } else if self.have_all_joined() {
            self.complete_joins(turn);
        } else {
            turn.expect_joins(&self.id.clone(), self.rebalance_timeout_ms());
        }
    }

    /// Begins the next generation where everybody is there; not in the initial delay.
    pub(in crate::group) fn complete_joins_if_ready(&mut self, turn: &mut Turn<'_>) {
        let is_initial = self.previous_state() == ClassicState::Empty;
        if self.is(ClassicState::PreparingRebalance) && !is_initial && self.have_all_joined() {
            self.complete_joins(turn);
        }
    }

    /// The time to join is over.
    pub(in crate::group) fn joins_are_due(&mut self, turn: &mut Turn<'_>) {
        if !self.is(ClassicState::PreparingRebalance) {
            return;
        }
        match self.initial_delay {
            Some(InitialDelay { delay_ms, remaining_ms }) if self.new_member_added && remaining_ms > 0 => {
                self.new_member_added = false;
                let next_ms = u64::from(turn.config.group_initial_rebalance_delay_ms).min(remaining_ms);
                let remaining_ms = remaining_ms.saturating_sub(delay_ms);
                self.initial_delay = Some(InitialDelay { delay_ms: next_ms, remaining_ms });
                turn.expect_joins(&self.id.clone(), next_ms);
            }
            _ => self.complete_joins(turn),
        }
    }

    /// Goes on with those who have joined: who has not is out, unless it is static.
    fn complete_joins(&mut self, turn: &mut Turn<'_>) {
        self.initial_delay = None;
        self.new_member_added = false;
        turn.deadlines.cancel(&DeadlineOf::Join { group_id: self.id.clone() });
        let late: Vec<Rc<str>> = self
            .members()
            .filter(|member| member.awaiting_join.is_none() && !member.is_static())
            .map(|member| member.member_id.clone())
            .collect();
        for member_id in late {
            debug!(group = &*self.id, member = &*member_id, "a member that has not joined again is out");
            self.remove(&member_id);
            turn.forget_member(&self.id, &member_id);
        }
        if !self.elect_joined_leader() && self.members().len() > 0 {
            // Static members are kept until their sessions end; there is nobody to lead yet.
            return turn.expect_joins(&self.id.clone(), self.rebalance_timeout_ms().max(1));
        }
        self.next_generation(turn.now.wall_ms);
        if self.is(ClassicState::Empty) {
            info!(group = &*self.id, generation = self.generation, "group is empty");
            return push(&mut turn.effects.records, records::classic(self));
        }
        info!(
            group = &*self.id,
            generation = self.generation,
            members = self.members().len(),
            "group has a new generation"
        );
        let ids: Vec<Rc<str>> = self.members().map(|member| member.member_id.clone()).collect();
        for member_id in ids {
            let joined = self.joined(&member_id);
            self.complete_join(&member_id, GroupReply::Joined(joined), turn.effects);
            if let Some(member) = self.member_mut(&member_id) {
                member.is_new = false;
                let session_timeout_ms = u64::from(member.session_timeout_ms);
                turn.expect_member(&self.id, &member_id, session_timeout_ms);
            }
            self.pending_sync.insert(member_id);
        }
        turn.expect_syncs(&self.id.clone(), self.rebalance_timeout_ms());
    }

    /// The time to ask for assignments is over: who has not asked is out.
    pub(in crate::group) fn syncs_are_due(&mut self, turn: &mut Turn<'_>) {
        if !matches!(self.state(), ClassicState::CompletingRebalance | ClassicState::Stable)
            || self.pending_sync.is_empty()
        {
            return;
        }
        for member_id in std::mem::take(&mut self.pending_sync) {
            self.remove(&member_id);
            turn.forget_member(&self.id, &member_id);
        }
        self.prepare_rebalance("members did not ask for their assignments in time", turn);
    }

    /// A member was not heard of in time.
    pub(in crate::group) fn session_ended(&mut self, member_id: &str, turn: &mut Turn<'_>) {
        if self.is_pending_join(member_id) {
            self.remove(member_id);
            // Whoever waits for it alone need not any longer.
            return self.complete_joins_without_delay(turn);
        }
        let Some(member) = self.member(member_id) else { return };
        if member.is_excused() {
            return;
        }
        info!(group = &*self.id, member = member_id, "a member was not heard of in time and is out of its group");
        self.remove_member(member_id, turn);
        match self.state() {
            ClassicState::Stable | ClassicState::CompletingRebalance => {
                self.prepare_rebalance("a member was not heard of in time", turn);
            }
            ClassicState::PreparingRebalance => self.complete_joins_without_delay(turn),
            ClassicState::Empty => {}
        }
    }

    /// As Kafka: when somebody drops out, the initial delay does not hold up those who are there.
    fn complete_joins_without_delay(&mut self, turn: &mut Turn<'_>) {
        if self.is(ClassicState::PreparingRebalance) && self.have_all_joined() {
            self.complete_joins(turn);
        }
    }

    /// Lets a member go; what it waits for is answered.
    pub(in crate::group) fn remove_member(&mut self, member_id: &str, turn: &mut Turn<'_>) {
        self.complete_join(member_id, Joined::refused("", ErrorCode::UnknownMemberId), turn.effects);
        if let Some(ticket) = self.member_mut(member_id).and_then(|member| member.awaiting_sync.take()) {
            turn.effects.reply(ticket, Synced::refused(ErrorCode::UnknownMemberId));
        }
        self.remove(member_id);
    }

    /// Sends all JoinGroups away that wait.
    pub(in crate::group) fn answer_joins(&mut self, error: ErrorCode, turn: &mut Turn<'_>) {
        for member in self.members_mut() {
            if let Some(ticket) = member.awaiting_join.take() {
                turn.effects.reply(ticket, Joined::refused(&member.member_id, error));
            }
        }
    }

    /// Answers all SyncGroups that wait.
    pub(in crate::group) fn answer_syncs(&mut self, error: ErrorCode, turn: &mut Turn<'_>) {
        let is_good = error == ErrorCode::None;
        let protocol_type = self.protocol_type.clone().filter(|_| is_good);
        let protocol_name = self.protocol_name.clone().filter(|_| is_good);
        let group_id = self.id.clone();
        for member in self.members_mut() {
            let Some(ticket) = member.awaiting_sync.take() else { continue };
            let synced = Synced {
                error,
                protocol_type: protocol_type.clone(),
                protocol_name: protocol_name.clone(),
                assignment: member.assignment.clone(),
            };
            turn.effects.reply(ticket, GroupReply::Synced(synced));
            let (member_id, session_timeout_ms) = (member.member_id.clone(), u64::from(member.session_timeout_ms));
            turn.expect_member(&group_id, &member_id, session_timeout_ms);
        }
    }
}
