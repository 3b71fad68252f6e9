//! CreateTopics and DeleteTopics: on any core; the controller's core makes the change.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracing::info;

use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::control::catalog::{Command, NewTopic};
use crate::control::catalog_error::CatalogError;
use crate::control::config_rows::ConfigRow;
use crate::control::internal_topics::InternalTopic;
use crate::control::placement::PlacementError;
use crate::control::topic::Topic;
use crate::control::topic_config;
use crate::record::offset::TopicId;
use crate::shard::core::Shard;
use crate::shard::message::ProposeError;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use crate::wire::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};
use crate::wire::messages::delete_topics_request::DeleteTopicsRequest;
use crate::wire::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use crate::wire::reader::Reader;
use crate::wire::uuid::Uuid;

/// A change that is refused, as the client is told.
struct Refused {
    error: ErrorCode,
    message: Option<String>,
}

/// A topic that was made, or would be.
struct Created {
    topic_id: Uuid,
    partition_count: i32,
    configs: Vec<ConfigRow>,
}

/// Answers CreateTopics when every new partition can be written to.
pub async fn create(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match CreateTopicsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    // A name that stands there more than once is answered once, as in Kafka.
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let mut topics: Vec<&CreatableTopic<'_>> = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let times = times.entry(topic.name).or_default();
        *times += 1;
        if *times == 1 {
            topics.push(topic);
        }
    }
    let mut made = Vec::with_capacity(topics.len());
    for topic in &topics {
        let twice = times.get(topic.name).is_some_and(|times| *times > 1);
        made.push(match twice {
            true => Err(Refused { error: ErrorCode::InvalidRequest, message: Some("Duplicate topic name.".into()) }),
            false => create_one(shard, topic, request.validate_only).await,
        });
    }
    let topics = topics
        .iter()
        .zip(&made)
        .map(|(topic, made)| match made {
            Ok(created) => created_row(topic.name, created, context.api_version),
            Err(refused) => CreatableTopicResult {
                name: topic.name,
                error_code: refused.error.code(),
                error_message: refused.message.as_deref(),
                ..CreatableTopicResult::default()
            },
        })
        .collect();
    let response = CreateTopicsResponse { topics, ..CreateTopicsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn created_row<'a>(name: &'a str, created: &'a Created, version: i16) -> CreatableTopicResult<'a> {
    let row = |row: &'a ConfigRow| CreatableTopicConfigs {
        name: row.name,
        value: row.value.as_deref(),
        read_only: row.read_only,
        config_source: row.source as i8,
        is_sensitive: row.sensitive,
    };
    let mut result = CreatableTopicResult { name, ..CreatableTopicResult::default() };
    if version >= 5 {
        result.num_partitions = created.partition_count;
        result.replication_factor = 1;
        result.configs = Some(created.configs.iter().map(row).collect());
    }
    if version >= 7 {
        result.topic_id = created.topic_id;
    }
    result
}

async fn create_one(shard: &Rc<Shard>, topic: &CreatableTopic<'_>, validate_only: bool) -> Result<Created, Refused> {
    let explicit = !topic.assignments.is_empty();
    if explicit && (topic.num_partitions != -1 || topic.replication_factor != -1) {
        let message = "Both numPartitions or replicationFactor and replicasAssignments were set. \
                       Both cannot be used at the same time.";
        return Err(Refused { error: ErrorCode::InvalidRequest, message: Some(message.into()) });
    }
    let new_topic = NewTopic {
        name: topic.name.to_owned(),
        topic_id: random_topic_id(shard),
        partition_count: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic
            .assignments
            .iter()
            .map(|assigned| (assigned.partition_index, assigned.broker_ids.clone()))
            .collect(),
        configs: topic.configs.iter().map(|config| (config.name.to_owned(), config.value.map(str::to_owned))).collect(),
        created_ms: shard.io().wall_ms(),
        seed: shard.io().random_u64(),
    };
    let command = Command::CreateTopic(new_topic);
    let snapshot = if validate_only { shard.validate(command).await } else { shard.propose(command).await };
    let snapshot = snapshot.map_err(refused)?;
    let created = snapshot.topic(topic.name).ok_or(Refused { error: ErrorCode::UnknownServerError, message: None })?;
    if !validate_only {
        info!(topic = topic.name, topic_id = %created.id, partitions = created.partitions.len(), "topic created");
    }
    Ok(described(shard, created))
}

fn described(shard: &Shard, topic: &Topic) -> Created {
    Created {
        topic_id: Uuid(topic.id.0),
        partition_count: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
        configs: topic_config::describe(&topic.configs, &shard.options().broker_config),
    }
}

/// Makes a topic that a client asked Metadata for, with the server's defaults.
///
/// # Errors
/// What Metadata says of the topic then.
pub async fn auto_create(shard: &Rc<Shard>, name: &str) -> Result<(), ErrorCode> {
    if let Some(topic) = InternalTopic::of(name) {
        return shard.ensure_internal_topic(topic).await.map_err(|error| refused(error).error);
    }
    let new_topic = NewTopic {
        name: name.to_owned(),
        topic_id: random_topic_id(shard),
        partition_count: -1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
        created_ms: shard.io().wall_ms(),
        seed: shard.io().random_u64(),
    };
    match shard.propose(Command::CreateTopic(new_topic)).await {
        Ok(_) => {
            info!(topic = name, "topic created for a client that asked for it (auto.create.topics.enable)");
            Ok(())
        }
        // Another client was quicker.
        Err(ProposeError::Refused(CatalogError::TopicExists { .. })) => Ok(()),
        Err(error) => Err(refused(error).error),
    }
}

/// Answers DeleteTopics when no core serves the topic any more.
pub async fn delete(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match DeleteTopicsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let by_name = request.topic_names.iter().map(|name| (Some(*name), Uuid::ZERO));
    let by_state = request.topics.iter().map(|topic| (topic.name, topic.topic_id));
    let wanted: Vec<(Option<&str>, Uuid)> = by_name.chain(by_state).collect();
    let mut gone = Vec::with_capacity(wanted.len());
    for (name, topic_id) in &wanted {
        gone.push(delete_one(shard, *name, *topic_id).await);
    }
    let responses = wanted
        .iter()
        .zip(&gone)
        .map(|((asked_name, asked_id), gone)| {
            let mut result = DeletableTopicResult { name: *asked_name, ..DeletableTopicResult::default() };
            if context.api_version >= 6 {
                result.topic_id = *asked_id;
            }
            match gone {
                Ok(topic) => {
                    result.name = Some(&topic.name);
                    if context.api_version >= 6 {
                        result.topic_id = Uuid(topic.id.0);
                    }
                }
                Err(refused) => {
                    result.error_code = refused.error.code();
                    result.error_message = refused.message.as_deref().filter(|_| context.api_version >= 5);
                }
            }
            result
        })
        .collect();
    let response = DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

async fn delete_one(shard: &Rc<Shard>, name: Option<&str>, topic_id: Uuid) -> Result<std::sync::Arc<Topic>, Refused> {
    let snapshot = shard.snapshot();
    let found = match name {
        Some(_) if !topic_id.is_zero() => {
            let message = "You may not specify both topic name and topic id.";
            return Err(Refused { error: ErrorCode::InvalidRequest, message: Some(message.into()) });
        }
        Some(name) => snapshot.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition),
        None if topic_id.is_zero() => {
            let message = "Neither topic name nor id were specified.";
            return Err(Refused { error: ErrorCode::InvalidRequest, message: Some(message.into()) });
        }
        None => snapshot.topic_by_id(TopicId(topic_id.0)).ok_or(ErrorCode::UnknownTopicId),
    };
    let topic = found.map_err(|error| Refused { error, message: Some(error.default_message().to_owned()) })?.clone();
    shard.propose(Command::DeleteTopic { topic_id: topic.id }).await.map_err(refused)?;
    info!(topic = &*topic.name, topic_id = %topic.id, "topic deleted");
    Ok(topic)
}

fn random_topic_id(shard: &Shard) -> TopicId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&shard.io().random_u64().to_be_bytes());
    bytes[8..].copy_from_slice(&shard.io().random_u64().to_be_bytes());
    TopicId(Uuid::from_random_bytes(bytes).0)
}

fn refused(error: ProposeError) -> Refused {
    let code = match &error {
        ProposeError::Refused(error) => catalog_error(error),
        ProposeError::Storage { .. } => ErrorCode::KafkaStorageError,
        ProposeError::Busy => ErrorCode::ThrottlingQuotaExceeded,
        ProposeError::Stopping => ErrorCode::NotController,
    };
    Refused { error: code, message: Some(error.to_string()) }
}

fn catalog_error(error: &CatalogError) -> ErrorCode {
    match error {
        CatalogError::TopicName(_) => ErrorCode::InvalidTopicException,
        CatalogError::TopicExists { .. } => ErrorCode::TopicAlreadyExists,
        CatalogError::InternalTopic { .. } => ErrorCode::InvalidRequest,
        CatalogError::UnknownTopic => ErrorCode::UnknownTopicOrPartition,
        CatalogError::Placement(error) => placement_error(error),
        CatalogError::Config(_) => ErrorCode::InvalidConfig,
        CatalogError::UnknownCore { .. } => ErrorCode::InvalidReplicaAssignment,
        CatalogError::TopicIdTaken { .. } | CatalogError::NoPlace | CatalogError::UsedUp { .. } => {
            ErrorCode::UnknownServerError
        }
    }
}

fn placement_error(error: &PlacementError) -> ErrorCode {
    match error {
        PlacementError::PartitionCount | PlacementError::SameCount { .. } | PlacementError::NoIncrease { .. } => {
            ErrorCode::InvalidPartitions
        }
        PlacementError::TooManyPartitions => ErrorCode::PolicyViolation,
        PlacementError::ReplicationFactor | PlacementError::TooFewMachines { .. } => {
            ErrorCode::InvalidReplicationFactor
        }
        PlacementError::Assignment(_) => ErrorCode::InvalidReplicaAssignment,
    }
}
