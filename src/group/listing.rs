//! What administrators ask of groups: which there are, who is in one, and that it may go.

use crate::group::classic_group::{CONSUMER_PROTOCOL_TYPE, ClassicState};
use crate::group::coordinator::GroupCoordinator;
use crate::group::reply::{
    DescribedConsumer, DescribedConsumers, DescribedGroup, DescribedMember, GroupReply, ListedGroup,
};
use crate::record::coordination::Effects;
use crate::wire::error_code::ErrorCode;

impl GroupCoordinator {
    /// A group and its members.
    pub(in crate::group) fn describe(&self, group_id: &str) -> GroupReply {
        let classic = self.groups.get(group_id).filter(|group| group.consumer.is_none());
        let Some(group) = classic.map(|group| &group.classic) else {
            return GroupReply::Described(DescribedGroup { state: DEAD.to_owned(), ..DescribedGroup::default() });
        };
        // What they say in a protocol is known when there is one.
        let protocol = group.protocol_name.as_deref().filter(|_| group.is(ClassicState::Stable));
        let members = group
            .members()
            .map(|member| DescribedMember {
                member_id: member.member_id.to_string(),
                instance_id: member.instance_id.as_deref().map(str::to_owned),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                metadata: protocol.map(|protocol| member.metadata(protocol).to_vec()).unwrap_or_default(),
                assignment: member.assignment.clone(),
            })
            .collect();
        GroupReply::Described(DescribedGroup {
            is_known: true,
            state: group.state().name().to_owned(),
            protocol_type: group.protocol_type.clone().unwrap_or_default(),
            protocol_data: protocol.unwrap_or_default().to_owned(),
            members,
        })
    }

    /// A group of the consumer protocol and its members.
    pub(in crate::group) fn describe_consumer(&self, group_id: &str) -> GroupReply {
        let Some(group) = self.groups.get(group_id).and_then(|group| group.consumer.as_ref()) else {
            return GroupReply::Refused(ErrorCode::GroupIdNotFound);
        };
        let members = group
            .members
            .values()
            .map(|member| DescribedConsumer {
                member_id: member.member_id.to_string(),
                instance_id: member.instance_id.as_deref().map(str::to_owned),
                rack_id: member.rack_id.clone(),
                epoch: member.epoch,
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                topics: member.subscribed_topics.iter().cloned().collect(),
                regex: member.subscribed_regex.clone(),
                is_classic: member.classic.is_some(),
                assigned: member.assigned.clone(),
                target: group.target.get(&member.member_id).cloned().unwrap_or_default(),
            })
            .collect();
        GroupReply::ConsumerDescribed(Box::new(DescribedConsumers {
            state: group.state(),
            epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            assignor: group.assignor().name(),
            members,
        }))
    }

    /// The groups that are in one of these states and of one of these types.
    pub(in crate::group) fn list(&self, states: &[String], types: &[String]) -> GroupReply {
        let is_wanted = |wanted: &[String], name: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        let each = self.groups.iter().map(|(group_id, group)| {
            let (protocol_type, state, group_type) = match &group.consumer {
                Some(consumer) => (CONSUMER_PROTOCOL_TYPE.to_owned(), consumer.state(), CONSUMER),
                None => {
                    let protocol_type = group.classic.protocol_type.clone().unwrap_or_default();
                    (protocol_type, group.classic.state().name(), CLASSIC)
                }
            };
            ListedGroup { group_id: group_id.to_string(), protocol_type, state, group_type }
        });
        let listed =
            each.filter(|group| is_wanted(states, group.state) && is_wanted(types, group.group_type)).collect();
        GroupReply::Listed(listed)
    }

    /// Takes a group back that has no members, with all that it has committed.
    ///
    /// # Errors
    /// It stays as it is.
    pub(in crate::group) fn delete(
        &mut self,
        group_id: &str,
        effects: &mut Effects<GroupReply>,
    ) -> Result<(), ErrorCode> {
        let group = self.groups.get(group_id).ok_or(ErrorCode::GroupIdNotFound)?;
        if !group.is_empty() {
            return Err(ErrorCode::NonEmptyGroup);
        }
        self.delete_all_offsets(group_id, effects);
        if let Some(group) = self.groups.remove(group_id) {
            group.push_tombstones(group_id, effects);
        }
        tracing::info!(group = group_id, "group deleted");
        Ok(())
    }
}

/// Kafka's name of the state of a group that is not there.
const DEAD: &str = "Dead";
/// Kafka's name of the type.
const CLASSIC: &str = "classic";
/// Kafka's name of the other type.
const CONSUMER: &str = "consumer";
