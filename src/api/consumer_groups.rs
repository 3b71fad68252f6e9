//! ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the consumer protocol (KIP-848).

use std::rc::Rc;

use crate::api::authorized_operations::GROUP_OPERATIONS;
use crate::api::context::{ConnectionState, RequestContext};
use crate::api::group_members::{NAME_BYTES_MAX, ask};
use crate::api::reply::Outcome;
use crate::control::snapshot::Snapshot;
use crate::group::assignor::Assignor;
use crate::group::reply::{DescribedConsumers, GroupReply};
use crate::group::request::{ConsumerHeartbeat, GroupRequest};
use crate::group::topics::Partitions;
use crate::record::name_pattern;
use crate::record::offset::TopicId;
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use crate::wire::messages::consumer_group_describe_response::{
    Assignment as DescribedAssignment, ConsumerGroupDescribeResponse, DescribedGroup, Member,
    TopicPartitions as DescribedPartitions,
};
use crate::wire::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use crate::wire::messages::consumer_group_heartbeat_response::{
    Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use crate::wire::reader::Reader;
use crate::wire::uuid::Uuid;

/// Why a request is refused before it comes to its coordinator.
type Refusal = (ErrorCode, String);

/// Answers ConsumerGroupHeartbeat.
pub async fn heartbeat(
    shard: &Rc<Shard>,
    connection: &ConnectionState,
    context: &RequestContext,
    body: &[u8],
) -> Outcome {
    let request = match ConsumerGroupHeartbeatRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let asked = match judge(&request, context.api_version) {
        Ok(()) => {
            let beat = beat(shard, connection, context, &request);
            let asked = ask(shard, request.group_id, GroupRequest::ConsumerHeartbeat(beat)).await;
            asked.map_err(|error| (error, error.default_message().to_owned()))
        }
        Err(refusal) => Err(refusal),
    };
    let mut response = ConsumerGroupHeartbeatResponse::default();
    match &asked {
        Ok(GroupReply::Beat(beat)) => {
            let config = &shard.options().broker_config;
            response.member_id = Some(&beat.member_id);
            response.member_epoch = beat.member_epoch;
            let interval_ms = config.group_consumer_heartbeat_interval_ms();
            response.heartbeat_interval_ms = i32::try_from(interval_ms).unwrap_or(i32::MAX);
            response.assignment = beat.assignment.as_ref().map(|parts| Assignment {
                topic_partitions: parts
                    .iter()
                    .map(|(topic, parts)| TopicPartitions {
                        topic_id: Uuid(*topic),
                        partitions: parts.iter().copied().collect(),
                    })
                    .collect(),
            });
        }
        Ok(_) => unreachable!("a heartbeat is answered as one"),
        Err((error, message)) => {
            response.error_code = error.code();
            response.error_message = Some(message);
        }
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// Kafka's rules for the request itself, in its order.
fn judge(request: &ConsumerGroupHeartbeatRequest<'_>, version: i16) -> Result<(), Refusal> {
    let invalid = |message: &str| Err((ErrorCode::InvalidRequest, message.to_owned()));
    let is_blank = |text: Option<&str>| text.is_some_and(|text| text.trim().is_empty());
    if version >= CLIENT_MADE_IDS_MIN && is_blank(Some(request.member_id)) {
        return invalid("MemberId can't be empty.");
    }
    if is_blank(Some(request.group_id)) {
        return invalid("GroupId can't be empty.");
    }
    if is_blank(request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_blank(request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    match request.member_epoch {
        0 => {
            if request.rebalance_timeout_ms == -1 {
                return invalid("RebalanceTimeoutMs must be provided in first request.");
            }
            if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
                return invalid("TopicPartitions must be empty when (re-)joining.");
            }
            // Who names none is in the group all the same.
            if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
                return invalid(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
                );
            }
        }
        1.. | LEAVE => {
            if is_blank(Some(request.member_id)) {
                return invalid("MemberId can't be empty.");
            }
        }
        LEAVE_STATIC => {
            if is_blank(Some(request.member_id)) {
                return invalid("MemberId can't be empty.");
            }
            if request.instance_id.is_none() {
                return invalid("InstanceId can't be null.");
            }
        }
        _ => {
            return invalid(&format!(
                "MemberEpoch is {}, but must be greater than or equal to -2.",
                request.member_epoch
            ));
        }
    }
    if let Some(name) = request.server_assignor.filter(|name| Assignor::of(name).is_none()) {
        let message = format!("ServerAssignor {name} is not supported. Supported assignors: uniform, range.");
        return Err((ErrorCode::UnsupportedAssignor, message));
    }
    let texts = [Some(request.member_id), request.instance_id, request.rack_id, request.subscribed_topic_regex];
    let names = request.subscribed_topic_names.iter().flatten().copied();
    if names.chain(texts.into_iter().flatten()).any(|text| text.len() > NAME_BYTES_MAX) {
        return invalid("A name is too long.");
    }
    if let Some(regex) = request.subscribed_topic_regex.filter(|regex| !regex.is_empty()) {
        name_pattern::compile(regex).map_err(|reason| {
            let message = format!("SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.");
            (ErrorCode::InvalidRegularExpression, message)
        })?;
    }
    Ok(())
}

fn beat(
    shard: &Shard,
    connection: &ConnectionState,
    context: &RequestContext,
    request: &ConsumerGroupHeartbeatRequest<'_>,
) -> ConsumerHeartbeat {
    let member_id = match request.member_id {
        "" => {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&shard.io().random_u64().to_be_bytes());
            bytes[8..].copy_from_slice(&shard.io().random_u64().to_be_bytes());
            Uuid::from_random_bytes(bytes).to_string()
        }
        given => given.to_owned(),
    };
    let owned = request.topic_partitions.as_ref().map(|topics| {
        let mut owned = Partitions::new();
        for topic in topics {
            owned.entry(topic.topic_id.0).or_default().extend(topic.partitions.iter().copied());
        }
        owned
    });
    ConsumerHeartbeat {
        group_id: request.group_id.to_owned(),
        member_id,
        member_epoch: request.member_epoch,
        instance_id: request.instance_id.map(str::to_owned),
        rack_id: request.rack_id.map(str::to_owned),
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        topics: request
            .subscribed_topic_names
            .as_ref()
            .map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        regex: request.subscribed_topic_regex.map(str::to_owned),
        server_assignor: request.server_assignor.map(str::to_owned),
        owned,
        client_id: context.client_id.clone().unwrap_or_default(),
        client_host: connection.client_host(),
    }
}

/// Answers ConsumerGroupDescribe.
pub async fn describe(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match ConsumerGroupDescribeRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let snapshot = shard.snapshot();
    let mut described = Vec::with_capacity(request.group_ids.len());
    for group_id in &request.group_ids {
        let asked = if group_id.is_empty() {
            Err(ErrorCode::InvalidGroupId)
        } else {
            ask(shard, group_id, GroupRequest::DescribeConsumer { group_id: (*group_id).to_owned() }).await
        };
        described.push((*group_id, asked, format!("Group {group_id} is not a consumer group.")));
    }
    let groups = described
        .iter()
        .map(|(group_id, asked, message)| match asked {
            Ok(GroupReply::ConsumerDescribed(group)) => {
                let mut row = group_row(group_id, group, &snapshot, context.api_version);
                if request.include_authorized_operations {
                    row.authorized_operations = GROUP_OPERATIONS;
                }
                row
            }
            Ok(_) => unreachable!("a description is answered as one"),
            Err(error) => DescribedGroup {
                error_code: error.code(),
                error_message: Some(message.as_str()).filter(|_| *error == ErrorCode::GroupIdNotFound),
                group_id,
                ..DescribedGroup::default()
            },
        })
        .collect();
    let response = ConsumerGroupDescribeResponse { groups, ..ConsumerGroupDescribeResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn group_row<'a>(
    group_id: &'a str,
    group: &'a DescribedConsumers,
    snapshot: &'a Snapshot,
    version: i16,
) -> DescribedGroup<'a> {
    let assignment = |parts: &Partitions| DescribedAssignment {
        topic_partitions: parts
            .iter()
            .filter_map(|(topic, parts)| {
                let name = &*snapshot.topic_by_id(TopicId(*topic))?.name;
                let partitions = parts.iter().copied().collect();
                Some(DescribedPartitions { topic_id: Uuid(*topic), topic_name: name, partitions })
            })
            .collect(),
    };
    let members = group
        .members
        .iter()
        .map(|member| Member {
            member_id: &member.member_id,
            instance_id: member.instance_id.as_deref(),
            rack_id: member.rack_id.as_deref(),
            member_epoch: member.epoch,
            client_id: &member.client_id,
            client_host: &member.client_host,
            subscribed_topic_names: member.topics.iter().map(String::as_str).collect(),
            subscribed_topic_regex: Some(&member.regex),
            assignment: assignment(&member.assigned),
            target_assignment: assignment(&member.target),
            member_type: match version {
                MEMBER_TYPE_MIN.. if member.is_classic => CLASSIC_TYPE,
                MEMBER_TYPE_MIN.. => CONSUMER_TYPE,
                _ => NO_TYPE,
            },
        })
        .collect();
    DescribedGroup {
        group_id,
        group_state: group.state,
        group_epoch: group.epoch,
        assignment_epoch: group.assignment_epoch,
        assignor_name: group.assignor,
        members,
        ..DescribedGroup::default()
    }
}

const LEAVE: i32 = -1;
const LEAVE_STATIC: i32 = -2;
/// From this version on a member makes its id itself.
const CLIENT_MADE_IDS_MIN: i16 = 1;
const MEMBER_TYPE_MIN: i16 = 1;
const CONSUMER_TYPE: i8 = 1;
const CLASSIC_TYPE: i8 = 0;
const NO_TYPE: i8 = -1;
