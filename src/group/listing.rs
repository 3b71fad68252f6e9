//! What administrators ask of groups: which there are, who is in one, and that it may go.

use crate::group::classic_group::ClassicState;
use crate::group::coordinator::{GroupCoordinator, push};
use crate::group::records;
use crate::group::reply::{DescribedGroup, DescribedMember, GroupReply, ListedGroup};
use crate::record::coordination::Effects;
use crate::wire::error_code::ErrorCode;

impl GroupCoordinator {
    /// A group and its members.
    pub(in crate::group) fn describe(&self, group_id: &str) -> GroupReply {
        let Some(group) = self.groups.get(group_id).map(|group| &group.classic) else {
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

    /// The groups that are in one of these states and of one of these types.
    pub(in crate::group) fn list(&self, states: &[String], types: &[String]) -> GroupReply {
        let is_wanted = |wanted: &[String], name: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        let listed = self
            .groups
            .values()
            .map(|group| &group.classic)
            .filter(|group| is_wanted(states, group.state().name()) && is_wanted(types, CLASSIC))
            .map(|group| ListedGroup {
                group_id: group.id.to_string(),
                protocol_type: group.protocol_type.clone().unwrap_or_default(),
                state: group.state().name(),
                group_type: CLASSIC,
            })
            .collect();
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
        if !group.classic.is(ClassicState::Empty) {
            return Err(ErrorCode::NonEmptyGroup);
        }
        self.delete_all_offsets(group_id, effects);
        self.groups.remove(group_id);
        push(&mut effects.records, records::classic_tombstone(group_id));
        tracing::info!(group = group_id, "group deleted");
        Ok(())
    }
}

/// Kafka's name of the state of a group that is not there.
const DEAD: &str = "Dead";
/// Kafka's name of the type.
const CLASSIC: &str = "classic";
