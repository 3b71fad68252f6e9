//! What can be asked about topics, as calls to a cluster.
#![allow(clippy::disallowed_methods)] // waits between questions to a server

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::client_error::ClientError;
use super::cluster::{Cluster, Topic};
use super::connection::Connection;
use crate::wire::api_keys::ApiKey;
use crate::wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use crate::wire::messages::create_topics_response::CreateTopicsResponse;
use crate::wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use crate::wire::messages::delete_topics_response::DeleteTopicsResponse;
use crate::wire::messages::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use crate::wire::messages::describe_configs_response::DescribeConfigsResponse;
use crate::wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use crate::wire::messages::list_offsets_response::ListOffsetsResponse;
use crate::wire::uuid::Uuid;

/// A topic to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewTopic<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many partitions; the server's default where `None`.
    pub partitions: Option<i32>,
    /// How many machines keep a copy.
    pub replication_factor: i16,
    /// Settings, as Kafka spells them.
    pub configs: &'a [(String, String)],
}

/// What a partition's log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetAnswer {
    /// This offset.
    Offset(i64),
    /// Kafka's error code.
    Error(i16),
}

/// Makes a topic and waits until each partition has a leader that answers for it; returns it.
pub fn create(cluster: &mut Cluster, new: &NewTopic<'_>, limit: Duration) -> Result<Topic, ClientError> {
    let config = |(name, value): &'_ (String, String)| (name.clone(), value.clone());
    let configs: Vec<_> = new.configs.iter().map(config).collect();
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: new.name,
            num_partitions: new.partitions.unwrap_or(-1),
            replication_factor: new.replication_factor,
            assignments: Vec::new(),
            configs: configs.iter().map(|(name, value)| CreatableTopicConfig { name, value: Some(value) }).collect(),
        }],
        timeout_ms: timeout_ms(limit),
        validate_only: false,
    };
    let api_key = ApiKey::CreateTopics;
    let controller = cluster.controller()?;
    let version = controller.version(api_key, i16::MAX)?;
    let response =
        controller.call(api_key, version, |out, version| request.encode(out, version), CreateTopicsResponse::decode)?;
    for topic in &response.topics {
        ClientError::check(api_key, topic.error_code, topic.error_message)?;
    }
    wait_until_led(cluster, new.name, limit)
}

/// Waits until each partition of a topic has a leader that answers for it.
///
/// Kafka shows a leader a moment before that broker takes writes for the partition.
pub fn wait_until_led(cluster: &mut Cluster, name: &str, limit: Duration) -> Result<Topic, ClientError> {
    let deadline = Instant::now() + limit;
    loop {
        let pending = match cluster.topic(name) {
            Ok(topic) => match unready_partition(cluster, &topic) {
                Ok(None) => return Ok(topic),
                Ok(Some(partition)) => ClientError::NoLeader { topic: name.to_owned(), partition },
                Err(error) => error,
            },
            Err(error @ ClientError::Refusal { .. }) => error,
            Err(error) => return Err(error),
        };
        if Instant::now() >= deadline {
            return Err(pending);
        }
        thread::sleep(RETRY_PAUSE);
    }
}

/// Deletes a topic.
pub fn delete(cluster: &mut Cluster, name: &str, limit: Duration) -> Result<(), ClientError> {
    let api_key = ApiKey::DeleteTopics;
    let controller = cluster.controller()?;
    let version = controller.version(api_key, i16::MAX)?;
    let mut request = DeleteTopicsRequest { timeout_ms: timeout_ms(limit), ..DeleteTopicsRequest::default() };
    if version >= 6 {
        request.topics.push(DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO });
    } else {
        request.topic_names.push(name);
    }
    let response =
        controller.call(api_key, version, |out, version| request.encode(out, version), DeleteTopicsResponse::decode)?;
    for topic in &response.responses {
        ClientError::check(api_key, topic.error_code, topic.error_message)?;
    }
    Ok(())
}

/// The offset at a timestamp ([`EARLIEST`], [`LATEST`]) of each partition, from its leader.
pub fn offsets(
    cluster: &mut Cluster,
    topic: &Topic,
    timestamp: i64,
) -> Result<BTreeMap<i32, OffsetAnswer>, ClientError> {
    isolated_offsets(cluster, topic, timestamp, READ_UNCOMMITTED)
}

/// The same for a reader of this isolation level, for whom an open transaction ends the partition.
pub fn isolated_offsets(
    cluster: &mut Cluster,
    topic: &Topic,
    timestamp: i64,
    isolation_level: i8,
) -> Result<BTreeMap<i32, OffsetAnswer>, ClientError> {
    let mut by_leader: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for partition in &topic.partitions {
        let led = by_leader.entry(partition.leader_id).or_default();
        led.push(partition.index);
    }
    let mut answers = BTreeMap::new();
    for (leader_id, partitions) in by_leader {
        if leader_id < 0 {
            continue;
        }
        let leader = cluster.broker(leader_id)?;
        answers.extend(leader_offsets(leader, &topic.name, &partitions, timestamp, isolation_level)?);
    }
    Ok(answers)
}

/// The settings of a topic that differ from the broker's, by key. A secret value is `None`.
pub fn overridden_configs(cluster: &mut Cluster, name: &str) -> Result<Vec<(String, Option<String>)>, ClientError> {
    let api_key = ApiKey::DescribeConfigs;
    let connection = cluster.any();
    let version = connection.version(api_key, i16::MAX)?;
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: RESOURCE_TOPIC,
            resource_name: name,
            configuration_keys: None,
        }],
        ..DescribeConfigsRequest::default()
    };
    let response = connection.call(
        api_key,
        version,
        |out, version| request.encode(out, version),
        DescribeConfigsResponse::decode,
    )?;
    let mut configs = Vec::new();
    for result in &response.results {
        ClientError::check(api_key, result.error_code, result.error_message)?;
        let own = result.configs.iter().filter(|config| config.config_source == SOURCE_TOPIC);
        configs.extend(own.map(|config| (config.name.to_owned(), config.value.map(str::to_owned))));
    }
    configs.sort();
    Ok(configs)
}

/// The first partition without a leader that answers for it.
fn unready_partition(cluster: &mut Cluster, topic: &Topic) -> Result<Option<i32>, ClientError> {
    let leaderless = |partition: &&super::cluster::Partition| partition.leader_id < 0;
    if let Some(partition) = topic.partitions.iter().find(leaderless) {
        return Ok(Some(partition.index));
    }
    let answers = offsets(cluster, topic, LATEST)?;
    let unready = topic
        .partitions
        .iter()
        .find(|partition| !matches!(answers.get(&partition.index), Some(OffsetAnswer::Offset(_))));
    Ok(unready.map(|partition| partition.index))
}

fn leader_offsets(
    leader: &mut Connection,
    topic: &str,
    partitions: &[i32],
    timestamp: i64,
    isolation_level: i8,
) -> Result<Vec<(i32, OffsetAnswer)>, ClientError> {
    let api_key = ApiKey::ListOffsets;
    let version = leader.version(api_key, LIST_OFFSETS_VERSION_MAX)?;
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: if version < ISOLATION_VERSION_MIN { READ_UNCOMMITTED } else { isolation_level },
        topics: vec![ListOffsetsTopic {
            name: topic,
            partitions: partitions
                .iter()
                .map(|&partition_index| ListOffsetsPartition { partition_index, current_leader_epoch: -1, timestamp })
                .collect(),
        }],
        ..ListOffsetsRequest::default()
    };
    let response =
        leader.call(api_key, version, |out, version| request.encode(out, version), ListOffsetsResponse::decode)?;
    let answers = response.topics.iter().flat_map(|topic| &topic.partitions);
    let read = answers.map(|partition| {
        let answer = match partition.error_code {
            0 => OffsetAnswer::Offset(partition.offset),
            code => OffsetAnswer::Error(code),
        };
        (partition.partition_index, answer)
    });
    Ok(read.collect())
}

fn timeout_ms(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX)
}

/// ListOffsets: the log start offset.
pub const EARLIEST: i64 = -2;
/// ListOffsets: the high watermark.
pub const LATEST: i64 = -1;

const RESOURCE_TOPIC: i8 = 2;
/// `DYNAMIC_TOPIC_CONFIG`: set for the topic itself.
const SOURCE_TOPIC: i8 = 1;
const READ_UNCOMMITTED: i8 = 0;
/// The first version that carries an isolation level.
const ISOLATION_VERSION_MIN: i16 = 2;
/// Enough for times and the two timestamps that are none.
const LIST_OFFSETS_VERSION_MAX: i16 = 7;
const RETRY_PAUSE: Duration = Duration::from_millis(50);
