//! A group goes over to the other protocol while it has members (`group.consumer.migration.policy`).
//!
//! The first member of the consumer protocol that joins a classic group turns it into one of the consumer protocol, in which the
//! others are members of the classic protocol (`classic_client`). When the last one of the consumer protocol goes, and the others
//! are left, it is a classic group again, and they rebalance. What was assigned stays, either way.

use std::rc::Rc;

use tracing::info;

use crate::group::classic_client::ClassicClient;
use crate::group::classic_group::{CONSUMER_PROTOCOL_TYPE, ClassicGroup};
use crate::group::classic_member::ClassicMember;
use crate::group::config::MigrationPolicy;
use crate::group::consumer_group::ConsumerGroup;
use crate::group::consumer_member::ConsumerMember;
use crate::group::consumer_records;
use crate::group::coordinator::{Group, push};
use crate::group::deadlines::DeadlineOf;
use crate::group::records;
use crate::group::reply::{GroupReply, Joined};
use crate::group::request::{ConsumerHeartbeat, Join, Leaver};
use crate::group::subscription;
use crate::group::topics::{Partitions, Topics};
use crate::group::turn::Turn;
use crate::record::coordination::Ticket;
use crate::wire::error_code::ErrorCode;

impl Group {
    /// Makes a classic group that has members one of the consumer protocol, for who wants to join it.
    ///
    /// # Errors
    /// It stays as it is, and the consumer is told that there is no such group.
    pub(in crate::group) fn upgrade(
        &mut self,
        beat: &ConsumerHeartbeat,
        topics: &dyn Topics,
        turn: &mut Turn<'_>,
    ) -> Result<(), ErrorCode> {
        let size_max = turn.config.group_consumer_max_size as usize;
        let refuse = |reason: &'static str| {
            info!(group = &*beat.group_id, reason, "a classic group does not go over to the consumer protocol");
            ErrorCode::GroupIdNotFound
        };
        if !turn.config.group_consumer_migration_policy.may_upgrade() {
            return Err(refuse("group.consumer.migration.policy does not let it"));
        }
        if !self.classic.is_of_consumers() {
            return Err(refuse("its members are no consumers"));
        }
        if self.classic.members().len() > size_max {
            return Err(refuse("it has more members than group.consumer.max.size"));
        }
        let replaces = beat.instance_id.as_deref().is_some_and(|id| self.classic.static_member_id(id).is_some());
        if self.classic.members().len() >= size_max && !replaces {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let upgraded = upgraded(&self.classic, topics)
            .ok_or_else(|| refuse("its subscriptions or assignments are not those of Kafka's own assignors"))?;

        self.classic.answer_joins(ErrorCode::RebalanceInProgress, turn);
        self.classic.answer_syncs(ErrorCode::RebalanceInProgress, turn);
        let group_id = self.classic.id.clone();
        turn.deadlines.cancel(&DeadlineOf::Join { group_id: group_id.clone() });
        turn.deadlines.cancel(&DeadlineOf::Sync { group_id: group_id.clone() });
        for member_id in self.classic.pending_join() {
            turn.forget_member(&group_id, member_id);
        }
        let out = &mut turn.effects.records;
        push(out, records::classic_tombstone(&group_id));
        upgraded.members.values().for_each(|member| push(out, consumer_records::member(&group_id, member)));
        push(out, consumer_records::epoch(&upgraded));
        for (member_id, parts) in &upgraded.target {
            push(out, consumer_records::target(&group_id, member_id, parts));
        }
        push(out, consumer_records::assignment_epoch(&group_id, upgraded.assignment_epoch, turn.now.wall_ms));
        upgraded.members.values().for_each(|member| push(out, consumer_records::current(&group_id, member)));
        for member in upgraded.members.values() {
            turn.expect_member(&group_id, &member.member_id, member.session_timeout_ms(turn.config));
        }
        info!(
            group = &*group_id,
            members = upgraded.members.len(),
            "a classic group goes over to the consumer protocol"
        );
        self.classic = ClassicGroup::new(group_id, turn.now.wall_ms);
        self.consumer = Some(upgraded);
        Ok(())
    }

    /// JoinGroup to a group of the consumer protocol that has members.
    pub(in crate::group) fn join_mixed(
        &mut self,
        ticket: Ticket,
        join: &Join,
        topics: &dyn Topics,
        turn: &mut Turn<'_>,
    ) {
        let Some(group) = &mut self.consumer else { return };
        if turn.config.group_consumer_migration_policy == MigrationPolicy::Disabled {
            return turn.effects.reply(ticket, Joined::refused("", ErrorCode::InconsistentGroupProtocol));
        }
        let instance_id = join.instance_id.as_deref();
        let replaced = instance_id.and_then(|instance_id| group.static_member(instance_id));
        let replaces_consumer = replaced.is_some_and(|known| known.classic.is_none());
        match group.join_classic(join, topics, turn) {
            Ok(joined) => {
                turn.effects.reply(ticket, GroupReply::Joined(joined));
                if replaces_consumer {
                    // It has what the one before had, so nobody need join again.
                    self.downgrade_if_classic(topics, turn);
                }
            }
            Err((member_id, error)) => turn.effects.reply(ticket, Joined::refused(&member_id, error)),
        }
    }

    /// LeaveGroup to a group of the consumer protocol: a code for each.
    pub(in crate::group) fn leave_mixed(
        &mut self,
        leavers: &[Leaver],
        topics: &dyn Topics,
        turn: &mut Turn<'_>,
    ) -> Vec<ErrorCode> {
        let Some(group) = &mut self.consumer else { return Vec::new() };
        let mut codes = Vec::with_capacity(leavers.len());
        for leaver in leavers {
            let leaving = group.leaving(leaver);
            if let Ok(member_id) = &leaving {
                tracing::debug!(group = &*group.id, member = &**member_id, reason = leaver.reason, "a member left");
                group.remove(member_id, turn);
            }
            codes.push(leaving.err().unwrap_or_default());
        }
        if codes.contains(&ErrorCode::None) {
            self.go_on_without(topics, turn);
        }
        codes
    }

    /// A member of a group of the consumer protocol is out.
    pub(in crate::group) fn fence(&mut self, member_id: &str, topics: &dyn Topics, turn: &mut Turn<'_>) {
        let Some(group) = self.consumer.as_mut().filter(|group| group.members.contains_key(member_id)) else { return };
        group.remove(member_id, turn);
        self.go_on_without(topics, turn);
    }

    /// Members have gone: the others are assigned anew, or are a classic group from now on.
    fn go_on_without(&mut self, topics: &dyn Topics, turn: &mut Turn<'_>) {
        if self.downgrade_if_classic(topics, turn) {
            self.classic.prepare_rebalance("the last member of the consumer protocol is gone", turn);
        } else if let Some(group) = &mut self.consumer {
            group.raise_epoch(turn);
        }
    }

    /// Makes a group of the consumer protocol whose members all speak the classic one a classic group; true where it did.
    fn downgrade_if_classic(&mut self, topics: &dyn Topics, turn: &mut Turn<'_>) -> bool {
        let Some(group) = self.consumer.as_ref().filter(|group| group.is_all_classic()) else { return false };
        let is_too_large = group.members.len() > turn.config.group_max_size as usize;
        if is_too_large || !turn.config.group_consumer_migration_policy.may_downgrade() {
            info!(group = &*group.id, is_too_large, "a group does not go over to the classic protocol");
            return false;
        }
        let classic = downgraded(group, topics, turn.now.wall_ms);
        for member_id in group.members.keys() {
            group.forget(member_id, turn);
        }
        for regex in group.resolved.keys() {
            push(&mut turn.effects.records, consumer_records::regex_tombstone(&group.id, regex));
        }
        for tombstone in consumer_records::group_tombstones(&group.id) {
            push(&mut turn.effects.records, tombstone);
        }
        push(&mut turn.effects.records, records::classic(&classic));
        for member in classic.members() {
            turn.expect_member(&classic.id, &member.member_id, u64::from(member.session_timeout_ms));
        }
        info!(group = &*classic.id, members = classic.members().len(), "a group goes over to the classic protocol");
        self.classic = classic;
        self.consumer = None;
        true
    }
}

/// A classic group as one of the consumer protocol; `None` where its members are not understood.
fn upgraded(classic: &ClassicGroup, topics: &dyn Topics) -> Option<ConsumerGroup> {
    let mut group = ConsumerGroup::new(classic.id.clone());
    group.epoch = classic.generation;
    group.assignment_epoch = classic.generation;
    for member in classic.members() {
        let target: Partitions = subscription::assigned(&member.assignment, topics)?;
        let protocol = classic.protocol_name.as_deref().or_else(|| member.protocols.first().map(|one| &*one.name))?;
        let said = subscription::subscription(member.metadata(protocol), topics)?;
        // In a rebalance it may still have what it has said that it has, and what it is not to have any more.
        let mut assigned = target.clone();
        for (topic, parts) in said.owned {
            assigned.entry(topic).or_default().extend(parts);
        }
        let upgraded = ConsumerMember {
            instance_id: member.instance_id.clone(),
            rack_id: said.rack_id,
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: i32::try_from(member.rebalance_timeout_ms).unwrap_or(i32::MAX),
            subscribed_topics: said.topics,
            classic: Some(ClassicClient {
                session_timeout_ms: member.session_timeout_ms,
                protocols: member.protocols.clone(),
            }),
            epoch: classic.generation,
            previous_epoch: classic.generation,
            assigned,
            ..ConsumerMember::new(member.member_id.clone())
        };
        group.target.insert(member.member_id.clone(), target);
        group.members.insert(member.member_id.clone(), upgraded);
    }
    // The topics are those that the classic group was assigned; only a change of them raises the epoch.
    group.know_topics(topics);
    Some(group)
}

/// A group of the consumer protocol, whose members all speak the classic one, as a classic group that is stable.
fn downgraded(group: &ConsumerGroup, topics: &dyn Topics, wall_ms: i64) -> ClassicGroup {
    let member = |member: &ConsumerMember| {
        let client = member.classic.clone()?;
        Some(ClassicMember {
            member_id: member.member_id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            session_timeout_ms: client.session_timeout_ms,
            rebalance_timeout_ms: u32::try_from(member.rebalance_timeout_ms).unwrap_or(0),
            protocols: client.protocols,
            assignment: Vec::new(),
            is_new: false,
            awaiting_join: None,
            awaiting_sync: None,
        })
    };
    let mut classic = ClassicGroup::new(Rc::clone(&group.id), wall_ms);
    classic.generation = group.epoch;
    classic.protocol_type = Some(CONSUMER_PROTOCOL_TYPE.to_owned());
    let mut classic = classic.replayed(group.members.values().filter_map(member).collect());
    classic.protocol_name = classic.select_protocol();
    let protocol = classic.protocol_name.clone().unwrap_or_default();
    let none = Partitions::new();
    for member in classic.members_mut() {
        let target = group.target.get(&member.member_id).unwrap_or(&none);
        member.assignment = subscription::assignment(target, member.metadata(&protocol), topics);
    }
    classic.subscribed_topics = classic.compute_subscribed_topics();
    classic
}
