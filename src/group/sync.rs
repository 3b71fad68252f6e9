//! SyncGroup and Heartbeat: assignments, and signs of life.

use std::collections::BTreeMap;

use crate::group::classic_group::{ClassicGroup, ClassicState};
use crate::group::coordinator::push;
use crate::group::deadlines::DeadlineOf;
use crate::group::records;
use crate::group::reply::{GroupReply, Synced};
use crate::group::request::{Speaker, Sync};
use crate::group::turn::Turn;
use crate::record::coordination::Ticket;
use crate::wire::error_code::ErrorCode;

impl ClassicGroup {
    /// Takes a SyncGroup in; the leader's has the assignments, and the others are answered by it.
    pub(in crate::group) fn sync(&mut self, ticket: Ticket, sync: Sync, turn: &mut Turn<'_>) {
        if let Err(error) = self.judge_sync(&sync) {
            return turn.effects.reply(ticket, Synced::refused(error));
        }
        let member_id = sync.speaker.member_id.as_str();
        self.has_synced(member_id, turn);
        match self.state() {
            ClassicState::Empty => turn.effects.reply(ticket, Synced::refused(ErrorCode::UnknownMemberId)),
            ClassicState::PreparingRebalance => {
                turn.effects.reply(ticket, Synced::refused(ErrorCode::RebalanceInProgress));
            }
            ClassicState::CompletingRebalance => {
                let earlier = self.member_mut(member_id).and_then(|member| member.awaiting_sync.replace(ticket));
                if let Some(earlier) = earlier {
                    turn.effects.reply(earlier, Synced::refused(ErrorCode::RebalanceInProgress));
                }
                if self.is_leader(member_id) {
                    self.assign(sync.assignments, turn);
                }
            }
            ClassicState::Stable => {
                let assignment = self.member(member_id).map(|member| member.assignment.clone()).unwrap_or_default();
                let synced = Synced {
                    error: ErrorCode::None,
                    protocol_type: self.protocol_type.clone(),
                    protocol_name: self.protocol_name.clone(),
                    assignment,
                };
                turn.effects.reply(ticket, GroupReply::Synced(synced));
            }
        }
    }

    fn judge_sync(&self, sync: &Sync) -> Result<(), ErrorCode> {
        if self.is(ClassicState::Empty) {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.validate_member(&sync.speaker.member_id, sync.speaker.instance_id.as_deref())?;
        if sync.speaker.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |said: &Option<String>, known: &Option<String>| matches!((said, known), (Some(said), Some(known)) if said != known);
        if differs(&sync.protocol_type, &self.protocol_type) || differs(&sync.protocol_name, &self.protocol_name) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    fn has_synced(&mut self, member_id: &str, turn: &mut Turn<'_>) {
        if !matches!(self.state(), ClassicState::CompletingRebalance | ClassicState::Stable) {
            return;
        }
        self.pending_sync.remove(member_id);
        if self.pending_sync.is_empty() {
            turn.deadlines.cancel(&DeadlineOf::Sync { group_id: self.id.clone() });
        }
    }

    /// The leader's assignment is the generation's: it is written down, and all who wait get theirs.
    fn assign(&mut self, assignments: Vec<(String, Vec<u8>)>, turn: &mut Turn<'_>) {
        let mut assignments: BTreeMap<String, Vec<u8>> = assignments.into_iter().collect();
        for member in self.members_mut() {
            // Whom the leader has left out gets nothing.
            member.assignment = assignments.remove(&*member.member_id).unwrap_or_default();
        }
        let since_ms = self.state_since_ms;
        push(&mut turn.effects.records, records::classic(self));
        debug_assert_eq!(since_ms, self.state_since_ms, "the record has the time of the generation");
        self.answer_syncs(ErrorCode::None, turn);
        self.go_to(ClassicState::Stable, turn.now.wall_ms);
    }

    /// A sign of life.
    ///
    /// # Errors
    /// What the member has to do instead of going on.
    pub(in crate::group) fn heartbeat(&mut self, speaker: &Speaker, turn: &mut Turn<'_>) -> Result<(), ErrorCode> {
        self.validate_member(&speaker.member_id, speaker.instance_id.as_deref())?;
        if speaker.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        self.is_alive(&speaker.member_id, turn);
        match self.state() {
            ClassicState::Empty => Err(ErrorCode::UnknownMemberId),
            ClassicState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            ClassicState::CompletingRebalance | ClassicState::Stable => Ok(()),
        }
    }

    /// A member was heard of.
    pub(in crate::group) fn is_alive(&self, member_id: &str, turn: &mut Turn<'_>) {
        if let Some(member) = self.member(member_id) {
            turn.expect_member(&self.id, &member.member_id, u64::from(member.session_timeout_ms));
        }
    }
}
