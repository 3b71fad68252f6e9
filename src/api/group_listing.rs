//! DescribeGroups, ListGroups and DeleteGroups: what administrators ask.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::api::authorized_operations::GROUP_OPERATIONS;
use crate::api::context::RequestContext;
use crate::api::error_map::coordinator_failure;
use crate::api::group_members::ask;
use crate::api::reply::Outcome;
use crate::group::coordinator::GroupCoordinator;
use crate::group::reply::{DescribedGroup as Described, GroupReply, ListedGroup as Listed};
use crate::group::request::GroupRequest;
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::delete_groups_request::DeleteGroupsRequest;
use crate::wire::messages::delete_groups_response::{DeletableGroupResult, DeleteGroupsResponse};
use crate::wire::messages::describe_groups_request::DescribeGroupsRequest;
use crate::wire::messages::describe_groups_response::{DescribeGroupsResponse, DescribedGroup, DescribedGroupMember};
use crate::wire::messages::list_groups_request::ListGroupsRequest;
use crate::wire::messages::list_groups_response::{ListGroupsResponse, ListedGroup};
use crate::wire::reader::Reader;

/// Answers DescribeGroups.
pub async fn describe(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match DescribeGroupsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let mut described = Vec::with_capacity(request.groups.len());
    for group_id in &request.groups {
        let asked = ask(shard, group_id, GroupRequest::Describe { group_id: (*group_id).to_owned() }).await;
        let message = format!("Group {group_id} not found.");
        described.push((*group_id, asked, message));
    }
    let nobody = Described::default();
    let operations = if request.include_authorized_operations { Some(GROUP_OPERATIONS) } else { None };
    let groups = described
        .iter()
        .map(|(group_id, asked, message)| {
            let (error, group) = match asked {
                Ok(GroupReply::Described(group)) if !group.is_known && context.api_version >= UNKNOWN_MIN => {
                    (ErrorCode::GroupIdNotFound, group)
                }
                Ok(GroupReply::Described(group)) => (ErrorCode::None, group),
                Ok(_) => unreachable!("a description is answered as one"),
                Err(error) => (*error, &nobody),
            };
            let mut row = DescribedGroup {
                error_code: error.code(),
                error_message: Some(message.as_str()).filter(|_| error == ErrorCode::GroupIdNotFound),
                group_id,
                group_state: &group.state,
                protocol_type: &group.protocol_type,
                protocol_data: &group.protocol_data,
                members: members(group, context.api_version),
                ..DescribedGroup::default()
            };
            if let Some(operations) = operations.filter(|_| error == ErrorCode::None) {
                row.authorized_operations = operations;
            }
            row
        })
        .collect();
    let response = DescribeGroupsResponse { groups, ..DescribeGroupsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn members(group: &Described, version: i16) -> Vec<DescribedGroupMember<'_>> {
    let each = group.members.iter().map(|member| DescribedGroupMember {
        member_id: &member.member_id,
        group_instance_id: member.instance_id.as_deref().filter(|_| version >= INSTANCE_MIN),
        client_id: &member.client_id,
        client_host: &member.client_host,
        member_metadata: &member.metadata,
        member_assignment: &member.assignment,
    });
    each.collect()
}

/// Answers ListGroups, with the groups that this broker coordinates.
pub async fn list(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match ListGroupsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let names = |wanted: &[&str]| wanted.iter().map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    let (states, types) = (names(&request.states_filter), names(&request.types_filter));
    let ask_for = || GroupRequest::List { states: states.clone(), types: types.clone() };
    let (error, groups) = match shard.ask_all::<GroupCoordinator>(ask_for).await {
        Ok(replies) => {
            let each = |reply| match reply {
                GroupReply::Listed(groups) => groups,
                _ => unreachable!("a list is answered as one"),
            };
            (ErrorCode::None, replies.into_iter().flat_map(each).collect())
        }
        Err(failure) => (coordinator_failure(failure), Vec::<Listed>::new()),
    };
    let rows = groups.iter().map(|group| ListedGroup {
        group_id: &group.group_id,
        protocol_type: &group.protocol_type,
        group_state: if context.api_version >= STATE_MIN { group.state } else { "" },
        group_type: if context.api_version >= TYPE_MIN { group.group_type } else { "" },
    });
    let groups = rows.collect();
    let response = ListGroupsResponse { error_code: error.code(), groups, ..ListGroupsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// Answers DeleteGroups.
pub async fn delete(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match DeleteGroupsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let mut results: Vec<DeletableGroupResult<'_>> = Vec::with_capacity(request.groups_names.len());
    let mut known = BTreeSet::new();
    for group_id in &request.groups_names {
        // What stands there more than once is answered once, as in Kafka.
        if !known.insert(*group_id) {
            continue;
        }
        let asked = ask(shard, group_id, GroupRequest::Delete { group_id: (*group_id).to_owned() }).await;
        let error = asked.err().unwrap_or_default();
        results.push(DeletableGroupResult { group_id, error_code: error.code(), ..DeletableGroupResult::default() });
    }
    let response = DeleteGroupsResponse { results, ..DeleteGroupsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

const INSTANCE_MIN: i16 = 4;
const UNKNOWN_MIN: i16 = 6;
const STATE_MIN: i16 = 4;
const TYPE_MIN: i16 = 5;
