//! Metadata: the brokers (which are cores), topics, and which core leads what.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::api::authorized_operations::{CLUSTER_OPERATIONS, TOPIC_OPERATIONS};
use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::api::topics;
use crate::control::internal_topics::is_internal;
use crate::control::snapshot::Snapshot;
use crate::control::topic::Topic;
use crate::control::topic_name::check_topic_name;
use crate::record::offset::TopicId;
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use crate::wire::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use crate::wire::reader::Reader;
use crate::wire::uuid::Uuid;

/// Answers Metadata, from this core's snapshot of the catalog; makes topics where the client and the server allow it.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match MetadataRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    // Version 0 cannot say null: there an empty list is all topics.
    let asked = request.topics.as_deref().filter(|topics| !(context.api_version == 0 && topics.is_empty()));
    // What stands there more than once is answered once.
    let asked: Option<Vec<&MetadataRequestTopic<'_>>> = asked.map(|asked| {
        let mut known = BTreeSet::new();
        asked.iter().filter(|topic| known.insert((topic.name, topic.topic_id.0))).collect()
    });
    let asked = asked.as_deref();
    let mut snapshot = shard.snapshot();
    let mut created = BTreeMap::new();
    let may_create = request.allow_auto_topic_creation && shard.options().broker_config.auto_create_topics_enable();
    if may_create && let Some(asked) = asked {
        for topic in missing(&snapshot, asked) {
            created.insert(topic, topics::auto_create(shard, topic).await);
        }
        snapshot = shard.snapshot();
    }
    let mut slices = Slices { shard, left: PARTITIONS_A_TURN };
    let mut topics = Vec::with_capacity(asked.map_or(snapshot.topics().len(), <[_]>::len));
    match asked {
        None => {
            for topic in snapshot.topics() {
                topics.push(found(&mut slices, topic).await);
            }
        }
        Some(asked) => {
            for topic in asked {
                topics.push(match look_up(&snapshot, topic) {
                    Some(topic) => found(&mut slices, topic).await,
                    None => absent(&mut slices, topic, &created).await,
                });
            }
        }
    }
    let options = shard.options();
    let brokers = options
        .brokers
        .iter()
        .map(|broker| MetadataResponseBroker {
            node_id: broker.id,
            host: &broker.host,
            port: i32::from(broker.port),
            rack: None,
        })
        .collect();
    if request.include_topic_authorized_operations {
        // As Kafka: not where an id is of no topic.
        for topic in topics.iter_mut().filter(|topic| topic.name.is_some()) {
            topic.topic_authorized_operations = TOPIC_OPERATIONS;
        }
    }
    let mut response = MetadataResponse {
        brokers,
        cluster_id: Some(&options.cluster_id),
        controller_id: options.brokers[0].id,
        topics,
        ..MetadataResponse::default()
    };
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn look_up<'a>(snapshot: &'a Snapshot, asked: &MetadataRequestTopic<'_>) -> Option<&'a Arc<Topic>> {
    match asked.name {
        Some(name) => snapshot.topic(name),
        None => snapshot.topic_by_id(TopicId(asked.topic_id.0)),
    }
}

/// The names that are asked for, legal, and not there.
fn missing<'a>(snapshot: &Snapshot, asked: &[&MetadataRequestTopic<'a>]) -> Vec<&'a str> {
    let names = asked.iter().filter_map(|topic| topic.name);
    names.filter(|name| snapshot.topic(name).is_none() && check_topic_name(name).is_ok()).collect()
}

async fn absent<'a>(
    slices: &mut Slices<'_>,
    asked: &MetadataRequestTopic<'a>,
    created: &BTreeMap<&str, Result<(), ErrorCode>>,
) -> MetadataResponseTopic<'a> {
    slices.spend().await;
    let error = match asked.name {
        None => ErrorCode::UnknownTopicId,
        Some(name) if check_topic_name(name).is_err() => ErrorCode::InvalidTopicException,
        Some(name) => match created.get(name) {
            Some(Err(error)) => *error,
            _ => ErrorCode::UnknownTopicOrPartition,
        },
    };
    MetadataResponseTopic {
        error_code: error.code(),
        name: asked.name,
        topic_id: if asked.name.is_none() { asked.topic_id } else { Uuid::ZERO },
        ..MetadataResponseTopic::default()
    }
}

async fn found<'a>(slices: &mut Slices<'_>, topic: &'a Topic) -> MetadataResponseTopic<'a> {
    let mut partitions = Vec::with_capacity(topic.partitions.len());
    for (partition, partition_index) in topic.partitions.iter().zip(0..) {
        slices.spend().await;
        let core = u32::from(partition.core.index());
        let leader_id = slices.shard.options().broker_of(core).map_or(-1, |broker| broker.id);
        partitions.push(MetadataResponsePartition {
            partition_index,
            leader_id,
            leader_epoch: partition.leader_epoch,
            replica_nodes: vec![leader_id],
            isr_nodes: vec![leader_id],
            ..MetadataResponsePartition::default()
        });
    }
    MetadataResponseTopic {
        name: Some(&topic.name),
        topic_id: Uuid(topic.id.0),
        is_internal: is_internal(&topic.name),
        partitions,
        ..MetadataResponseTopic::default()
    }
}

/// A big answer is made in slices, so that others have their turn.
struct Slices<'a> {
    shard: &'a Shard,
    left: u32,
}

impl Slices<'_> {
    /// One partition, or a topic that is not there.
    async fn spend(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.left = PARTITIONS_A_TURN;
            self.shard.io().yield_now().await;
        }
    }
}

/// About 50 us.
const PARTITIONS_A_TURN: u32 = 500;
