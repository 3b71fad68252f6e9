//! JoinGroup: who is taken in, and what that means for the others.

use std::rc::Rc;

use crate::group::classic_group::{ClassicGroup, ClassicState};
use crate::group::classic_member::ClassicMember;
use crate::group::coordinator::push;
use crate::group::records;
use crate::group::reply::{GroupReply, Joined};
use crate::group::request::Join;
use crate::group::turn::Turn;
use crate::record::coordination::Ticket;
use crate::wire::error_code::ErrorCode;

impl ClassicGroup {
    /// Takes a JoinGroup in; its reply comes when all others have joined too.
    pub(in crate::group) fn join(&mut self, ticket: Ticket, join: Join, turn: &mut Turn<'_>) {
        if !self.has_room_for(&join.member_id, turn.config.group_max_size as usize) {
            self.remove(&join.member_id);
            return turn.effects.reply(ticket, Joined::refused("", ErrorCode::GroupMaxSizeReached));
        }
        if !self.supports(&join.protocol_type, &join.protocols) {
            return turn.effects.reply(ticket, Joined::refused(&join.member_id, ErrorCode::InconsistentGroupProtocol));
        }
        if join.member_id.is_empty() {
            self.join_new(ticket, join, turn);
        } else {
            self.join_known(ticket, join, turn);
        }
    }

    fn has_room_for(&self, member_id: &str, size_max: usize) -> bool {
        match self.state() {
            ClassicState::Empty => true,
            ClassicState::PreparingRebalance => {
                let is_awaited = self.member(member_id).is_some_and(|member| member.awaiting_join.is_some());
                is_awaited || self.awaiting_join_count() < size_max
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                self.member(member_id).is_some() || self.members().len() < size_max
            }
        }
    }

    fn join_new(&mut self, ticket: Ticket, join: Join, turn: &mut Turn<'_>) {
        let new_id: Rc<str> = Rc::from(&*join.new_member_id);
        if let Some(instance_id) = &join.instance_id {
            return match self.static_member_id(instance_id) {
                Some(old_id) => self.rejoin_static(ticket, &old_id, new_id, join, turn),
                None => self.add_member(ticket, new_id, join, turn),
            };
        }
        if !join.requires_known_member_id {
            return self.add_member(ticket, new_id, join, turn);
        }
        // The client comes again with this id: a reply that got lost leaves no ghost in the group.
        self.add_pending_join(new_id.clone());
        turn.expect_member(&self.id, &new_id, u64::from(join.session_timeout_ms));
        turn.effects.reply(ticket, Joined::refused(&new_id, ErrorCode::MemberIdRequired));
    }

    fn join_known(&mut self, ticket: Ticket, join: Join, turn: &mut Turn<'_>) {
        if self.is_pending_join(&join.member_id) {
            if join.instance_id.is_some() {
                // Ids are given out to dynamic members alone; Kafka fails here in the same way.
                return turn.effects.reply(ticket, Joined::refused(&join.member_id, ErrorCode::UnknownServerError));
            }
            let member_id = Rc::from(&*join.member_id);
            return self.add_member(ticket, member_id, join, turn);
        }
        if let Err(error) = self.validate_member(&join.member_id, join.instance_id.as_deref()) {
            return turn.effects.reply(ticket, Joined::refused(&join.member_id, error));
        }
        let is_unchanged = self.member(&join.member_id).is_some_and(|member| member.protocols == join.protocols);
        match self.state() {
            ClassicState::PreparingRebalance => self.update_member(ticket, join, "a member joined again", turn),
            // It has not got its answer, perhaps: the same once more.
            ClassicState::CompletingRebalance if is_unchanged => {
                let joined = self.joined(&join.member_id);
                turn.effects.reply(ticket, GroupReply::Joined(joined));
            }
            ClassicState::Stable if is_unchanged && !self.is_leader(&join.member_id) => {
                let joined = self.joined(&join.member_id);
                turn.effects.reply(ticket, GroupReply::Joined(joined));
            }
            ClassicState::Stable if self.is_leader(&join.member_id) => {
                self.update_member(ticket, join, "its leader joined again", turn);
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                self.update_member(ticket, join, "a member changed what it subscribes to", turn);
            }
            ClassicState::Empty => {
                turn.effects.reply(ticket, Joined::refused(&join.member_id, ErrorCode::UnknownMemberId));
            }
        }
    }

    fn add_member(&mut self, ticket: Ticket, member_id: Rc<str>, join: Join, turn: &mut Turn<'_>) {
        let member = ClassicMember {
            member_id: member_id.clone(),
            instance_id: join.instance_id.map(Rc::from),
            client_id: join.client_id,
            client_host: join.client_host,
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            protocols: join.protocols,
            assignment: Vec::new(),
            is_new: true,
            awaiting_join: Some(ticket),
            awaiting_sync: None,
        };
        if self.is(ClassicState::PreparingRebalance) && self.previous_state() == ClassicState::Empty {
            self.new_member_added = true;
        }
        let patience_ms = member.patience_ms();
        self.add(member, &join.protocol_type);
        turn.expect_member(&self.id, &member_id, patience_ms);
        self.rebalance_or_complete("a member joined", turn);
    }

    fn update_member(&mut self, ticket: Ticket, join: Join, reason: &'static str, turn: &mut Turn<'_>) {
        self.take_over(ticket, &join.member_id.clone(), join, turn);
        self.rebalance_or_complete(reason, turn);
    }

    fn take_over(&mut self, ticket: Ticket, member_id: &str, join: Join, turn: &mut Turn<'_>) {
        self.await_join(member_id, ticket, turn.effects);
        if let Some(member) = self.member_mut(member_id) {
            member.protocols = join.protocols;
            member.session_timeout_ms = join.session_timeout_ms;
            member.rebalance_timeout_ms = join.rebalance_timeout_ms;
        }
    }

    /// A static member is back, under a new id. In a group that is stable it goes on where it was.
    fn rejoin_static(&mut self, ticket: Ticket, old_id: &str, new_id: Rc<str>, join: Join, turn: &mut Turn<'_>) {
        let leader_before = self.leader.clone();
        let old_id: Rc<str> = Rc::from(old_id);
        turn.forget_member(&self.id, &old_id);
        self.replace_static(&old_id, new_id.clone(), turn.effects);
        let supports_skipping = join.supports_skipping_assignment;
        self.take_over(ticket, &new_id, join, turn);
        let session_timeout_ms = self.member(&new_id).map_or(0, |member| u64::from(member.session_timeout_ms));
        turn.expect_member(&self.id, &new_id, session_timeout_ms);
        match self.state() {
            ClassicState::Stable if self.select_protocol() == self.protocol_name => {
                push(&mut turn.effects.records, records::classic(self));
                let mut joined = self.joined(&new_id);
                if supports_skipping {
                    joined.skip_assignment = self.is_leader(&new_id);
                } else {
                    // An old client would take itself for the leader and assign anew: it is told of the leader that was.
                    joined.leader = leader_before.as_deref().unwrap_or_default().to_owned();
                    joined.members = Vec::new();
                }
                self.complete_join(&new_id, GroupReply::Joined(joined), turn.effects);
            }
            ClassicState::Stable => self.rebalance_or_complete("a static member changed what all have in common", turn),
            ClassicState::CompletingRebalance => self.prepare_rebalance("a static member came back", turn),
            ClassicState::PreparingRebalance | ClassicState::Empty => self.complete_joins_if_ready(turn),
        }
    }
}
