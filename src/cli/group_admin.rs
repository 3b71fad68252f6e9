//! What can be asked about consumer groups, as calls to their coordinators.
#![allow(clippy::disallowed_methods)] // waits between questions to a server

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::client_error::ClientError;
use super::cluster::Cluster;
use super::connection::Connection;
use crate::wire::api_keys::ApiKey;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use crate::wire::messages::consumer_group_describe_response::ConsumerGroupDescribeResponse;
use crate::wire::messages::consumer_protocol_assignment::ConsumerProtocolAssignment;
use crate::wire::messages::delete_groups_request::DeleteGroupsRequest;
use crate::wire::messages::delete_groups_response::DeleteGroupsResponse;
use crate::wire::messages::describe_groups_request::DescribeGroupsRequest;
use crate::wire::messages::describe_groups_response::DescribeGroupsResponse;
use crate::wire::messages::find_coordinator_request::FindCoordinatorRequest;
use crate::wire::messages::find_coordinator_response::FindCoordinatorResponse;
use crate::wire::messages::list_groups_request::ListGroupsRequest;
use crate::wire::messages::list_groups_response::ListGroupsResponse;
use crate::wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use crate::wire::messages::offset_commit_response::OffsetCommitResponse;
use crate::wire::messages::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestGroup};
use crate::wire::messages::offset_fetch_response::OffsetFetchResponse;
use crate::wire::reader::Reader;

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedGroup {
    /// Its id.
    pub group: String,
    /// `consumer`, or another protocol's name.
    pub protocol_type: String,
    /// Its state; empty where the server is too old to say.
    pub state: String,
    /// `classic` or `consumer`; empty likewise.
    pub group_type: String,
}

/// A group and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its state.
    pub state: String,
    /// `classic` or `consumer`.
    pub group_type: &'static str,
    /// The assignor's name.
    pub assignor: String,
    /// The broker that coordinates it.
    pub coordinator: i32,
    /// Who is in it.
    pub members: Vec<Member>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: String,
    /// Of a static member.
    pub instance_id: Option<String>,
    /// What its client calls itself.
    pub client_id: String,
    /// Where it comes from.
    pub host: String,
    /// What it reads: topic and partition.
    pub partitions: Vec<(String, i32)>,
}

/// Committed offsets by topic and partition.
pub type Committed = BTreeMap<(String, i32), i64>;

/// What coordinates: a group's, or a transactional id's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorKind {
    /// Consumer groups.
    Group = 0,
    /// Transactions.
    Transaction = 1,
}

/// The groups of all brokers, in these states or in any.
pub fn list(cluster: &mut Cluster, states: &[String]) -> Result<Vec<ListedGroup>, ClientError> {
    let api_key = ApiKey::ListGroups;
    let mut groups = Vec::new();
    for broker_id in cluster.broker_ids() {
        let broker = cluster.broker(broker_id)?;
        let version = broker.version(api_key, i16::MAX)?;
        // What an older server cannot select is left out here.
        let filter = if version >= 4 { states.iter().map(String::as_str).collect() } else { Vec::new() };
        let request = ListGroupsRequest { states_filter: filter, ..ListGroupsRequest::default() };
        let response =
            broker.call(api_key, version, |out, version| request.encode(out, version), ListGroupsResponse::decode)?;
        ClientError::check(api_key, response.error_code, None)?;
        groups.extend(response.groups.iter().map(|group| ListedGroup {
            group: group.group_id.to_owned(),
            protocol_type: group.protocol_type.to_owned(),
            state: group.group_state.to_owned(),
            group_type: group.group_type.to_owned(),
        }));
    }
    groups.retain(|group| states.is_empty() || states.iter().any(|state| state.eq_ignore_ascii_case(&group.state)));
    groups.sort();
    groups.dedup();
    Ok(groups)
}

/// A group's state and members.
pub fn describe(cluster: &mut Cluster, group: &str, limit: Duration) -> Result<Group, ClientError> {
    at_coordinator(cluster, CoordinatorKind::Group, group, limit, |coordinator, broker_id| {
        // As Kafka's own tools: the new protocol first, the classic one where the group is none of that.
        if coordinator.version(ApiKey::ConsumerGroupDescribe, i16::MAX).is_ok()
            && let Some(found) = describe_consumer(coordinator, group, broker_id)?
        {
            return Ok(found);
        }
        describe_classic(coordinator, group, broker_id)
    })
}

fn describe_consumer(coordinator: &mut Connection, group: &str, broker_id: i32) -> Result<Option<Group>, ClientError> {
    let api_key = ApiKey::ConsumerGroupDescribe;
    let version = coordinator.version(api_key, i16::MAX)?;
    let request = ConsumerGroupDescribeRequest { group_ids: vec![group], include_authorized_operations: false };
    let response = coordinator.call(
        api_key,
        version,
        |out, version| request.encode(out, version),
        ConsumerGroupDescribeResponse::decode,
    )?;
    let Some(found) = response.groups.first() else { return Ok(None) };
    let is_other = [ErrorCode::GroupIdNotFound, ErrorCode::UnsupportedVersion];
    if is_other.iter().any(|error| error.code() == found.error_code) {
        return Ok(None);
    }
    ClientError::check(api_key, found.error_code, found.error_message)?;
    let members = found.members.iter().map(|member| {
        let assigned = member.assignment.topic_partitions.iter();
        let partitions = assigned
            .flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic_name.to_owned(), *partition)));
        Member {
            id: member.member_id.to_owned(),
            instance_id: member.instance_id.map(str::to_owned),
            client_id: member.client_id.to_owned(),
            host: member.client_host.to_owned(),
            partitions: partitions.collect(),
        }
    });
    Ok(Some(Group {
        state: found.group_state.to_owned(),
        group_type: "consumer",
        assignor: found.assignor_name.to_owned(),
        coordinator: broker_id,
        members: members.collect(),
    }))
}

fn describe_classic(coordinator: &mut Connection, group: &str, broker_id: i32) -> Result<Group, ClientError> {
    let api_key = ApiKey::DescribeGroups;
    let version = coordinator.version(api_key, i16::MAX)?;
    let request = DescribeGroupsRequest { groups: vec![group], include_authorized_operations: false };
    let response = coordinator.call(
        api_key,
        version,
        |out, version| request.encode(out, version),
        DescribeGroupsResponse::decode,
    )?;
    let missing = || ClientError::Refusal {
        api: api_key.name(),
        code: ErrorCode::GroupIdNotFound.code(),
        message: Some(format!("there is no group {group}; `alluvium group list` shows those there are")),
    };
    let found = response.groups.first().ok_or_else(missing)?;
    // Older servers know no error for it.
    if found.error_code == ErrorCode::GroupIdNotFound.code() || found.group_state == "Dead" {
        return Err(missing());
    }
    ClientError::check(api_key, found.error_code, found.error_message)?;
    let members = found.members.iter().map(|member| Member {
        id: member.member_id.to_owned(),
        instance_id: member.group_instance_id.map(str::to_owned),
        client_id: member.client_id.to_owned(),
        host: member.client_host.to_owned(),
        partitions: assignment(member.member_assignment),
    });
    Ok(Group {
        state: found.group_state.to_owned(),
        group_type: "classic",
        assignor: found.protocol_data.to_owned(),
        coordinator: broker_id,
        members: members.collect(),
    })
}

/// What a classic member reads; nothing where its assignment is not a consumer's.
fn assignment(bytes: &[u8]) -> Vec<(String, i32)> {
    let mut reader = Reader::new(bytes);
    let Ok(version) = reader.int16("version") else { return Vec::new() };
    let version = version.clamp(ConsumerProtocolAssignment::VERSION_MIN, ConsumerProtocolAssignment::VERSION_MAX);
    let Ok(assignment) = ConsumerProtocolAssignment::decode(&mut reader, version) else { return Vec::new() };
    let topics = assignment.assigned_partitions.iter();
    topics.flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic.to_owned(), *partition))).collect()
}

/// All offsets that a group has committed.
pub fn committed(cluster: &mut Cluster, group: &str, limit: Duration) -> Result<Committed, ClientError> {
    at_coordinator(cluster, CoordinatorKind::Group, group, limit, |coordinator, _| {
        let api_key = ApiKey::OffsetFetch;
        let version = coordinator.version(api_key, OFFSET_FETCH_VERSION_MAX)?;
        let mut request = OffsetFetchRequest { topics: None, ..OffsetFetchRequest::default() };
        if version >= GROUPS_VERSION_MIN {
            let asked = OffsetFetchRequestGroup { group_id: group, topics: None, ..OffsetFetchRequestGroup::default() };
            request = OffsetFetchRequest { groups: vec![asked], ..OffsetFetchRequest::default() };
        } else {
            request.group_id = group;
        }
        let response = coordinator.call(
            api_key,
            version,
            |out, version| request.encode(out, version),
            OffsetFetchResponse::decode,
        )?;
        ClientError::check(api_key, response.error_code, None)?;
        let mut found = Committed::new();
        let mut take = |topic: &str, partition: i32, offset: i64, code: i16| {
            ClientError::check(api_key, code, None)?;
            if offset >= 0 {
                found.insert((topic.to_owned(), partition), offset);
            }
            Ok::<(), ClientError>(())
        };
        for topic in &response.topics {
            for partition in &topic.partitions {
                take(topic.name, partition.partition_index, partition.committed_offset, partition.error_code)?;
            }
        }
        for answered in &response.groups {
            ClientError::check(api_key, answered.error_code, None)?;
            for topic in &answered.topics {
                for partition in &topic.partitions {
                    take(topic.name, partition.partition_index, partition.committed_offset, partition.error_code)?;
                }
            }
        }
        Ok(found)
    })
}

/// Moves a group's offsets; it has no members.
pub fn commit(cluster: &mut Cluster, group: &str, offsets: &Committed, limit: Duration) -> Result<(), ClientError> {
    at_coordinator(cluster, CoordinatorKind::Group, group, limit, |coordinator, _| {
        let api_key = ApiKey::OffsetCommit;
        let version = coordinator.version(api_key, OFFSET_COMMIT_VERSION_MAX)?;
        let mut topics: Vec<OffsetCommitRequestTopic<'_>> = Vec::new();
        for ((topic, partition_index), committed_offset) in offsets {
            let (partition_index, committed_offset) = (*partition_index, *committed_offset);
            let partition = OffsetCommitRequestPartition { partition_index, committed_offset, ..Default::default() };
            match topics.last_mut().filter(|last| last.name == topic) {
                Some(last) => last.partitions.push(partition),
                None => topics.push(OffsetCommitRequestTopic {
                    name: topic,
                    partitions: vec![partition],
                    ..OffsetCommitRequestTopic::default()
                }),
            }
        }
        let request = OffsetCommitRequest { group_id: group, topics, ..OffsetCommitRequest::default() };
        let response = coordinator.call(
            api_key,
            version,
            |out, version| request.encode(out, version),
            OffsetCommitResponse::decode,
        )?;
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            ClientError::check(api_key, partition.error_code, None)?;
        }
        Ok(())
    })
}

/// Deletes a group and its offsets.
pub fn delete(cluster: &mut Cluster, group: &str, limit: Duration) -> Result<(), ClientError> {
    at_coordinator(cluster, CoordinatorKind::Group, group, limit, |coordinator, _| {
        let api_key = ApiKey::DeleteGroups;
        let version = coordinator.version(api_key, i16::MAX)?;
        let request = DeleteGroupsRequest { groups_names: vec![group] };
        let response = coordinator.call(
            api_key,
            version,
            |out, version| request.encode(out, version),
            DeleteGroupsResponse::decode,
        )?;
        for result in &response.results {
            ClientError::check(api_key, result.error_code, result.error_message)?;
        }
        Ok(())
    })
}

/// Asks the coordinator of a group or a transactional id, which may still be coming up, or moving.
pub fn at_coordinator<T>(
    cluster: &mut Cluster,
    kind: CoordinatorKind,
    key: &str,
    limit: Duration,
    ask: impl Fn(&mut Connection, i32) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let deadline = Instant::now() + limit;
    loop {
        let asked = find(cluster, kind, key).and_then(|broker_id| ask(cluster.broker(broker_id)?, broker_id));
        match asked {
            Err(error) if is_passing(&error) && Instant::now() < deadline => thread::sleep(RETRY_PAUSE),
            done => return done,
        }
    }
}

fn find(cluster: &mut Cluster, kind: CoordinatorKind, key: &str) -> Result<i32, ClientError> {
    let api_key = ApiKey::FindCoordinator;
    let connection = cluster.any();
    let version = connection.version(api_key, FIND_VERSION_MAX)?;
    let key_type = kind as i8;
    let request = FindCoordinatorRequest { key, key_type, ..FindCoordinatorRequest::default() };
    let response = connection.call(
        api_key,
        version,
        |out, version| request.encode(out, version),
        FindCoordinatorResponse::decode,
    )?;
    ClientError::check(api_key, response.error_code, response.error_message)?;
    Ok(response.node_id)
}

/// Errors that go away by themselves.
fn is_passing(error: &ClientError) -> bool {
    let passing = [ErrorCode::CoordinatorLoadInProgress, ErrorCode::CoordinatorNotAvailable, ErrorCode::NotCoordinator];
    passing.into_iter().any(|code| error.is_refusal(code))
}

/// The last that asks for one key.
const FIND_VERSION_MAX: i16 = 3;
/// The last that names topics.
const OFFSET_FETCH_VERSION_MAX: i16 = 9;
const OFFSET_COMMIT_VERSION_MAX: i16 = 9;
/// The first that asks for several groups.
const GROUPS_VERSION_MIN: i16 = 8;
const RETRY_PAUSE: Duration = Duration::from_millis(50);
