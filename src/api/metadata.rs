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
use crate::wire::frame;
use crate::wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use crate::wire::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use crate::wire::metadata_reply::MetadataReplyEncoder;
use crate::wire::reader::Reader;
use crate::wire::uuid::Uuid;
use crate::wire::writer::EncodeError;

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
    let mut head = MetadataResponse {
        brokers,
        cluster_id: Some(&options.cluster_id),
        controller_id: options.brokers[0].id,
        ..MetadataResponse::default()
    };
    if request.include_cluster_authorized_operations {
        head.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    let topics =
        Topics { snapshot: &snapshot, asked, created, operations: request.include_topic_authorized_operations };
    let mut out = Vec::with_capacity(REPLY_BYTES_GUESS);
    let header_version = context.api_key.response_header_version(context.api_version);
    let open = frame::begin_frame(&mut out, context.correlation_id, header_version);
    match write(shard, &mut out, context.api_version, &head, &topics).await.and_then(|()| open.end(&mut out)) {
        Ok(()) => Outcome::Bytes(out),
        Err(error) => Outcome::Close(format!("the reply to Metadata could not be encoded: {error}")),
    }
}

/// What is told of topics.
struct Topics<'a> {
    snapshot: &'a Snapshot,
    /// All where absent.
    asked: Option<&'a [&'a MetadataRequestTopic<'a>]>,
    /// What came of making those that were not there.
    created: BTreeMap<&'a str, Result<(), ErrorCode>>,
    /// With what the client may do with each.
    operations: bool,
}

/// Writes the answer topic by topic: what is told of one is let go before the next.
async fn write(
    shard: &Shard,
    out: &mut Vec<u8>,
    version: i16,
    head: &MetadataResponse<'_>,
    topics: &Topics<'_>,
) -> Result<(), EncodeError> {
    let count = topics.asked.map_or(topics.snapshot.topics().len(), <[_]>::len);
    let mut encoder = MetadataReplyEncoder::new(out, version, head, count)?;
    let mut slices = Slices { shard, left: PARTITIONS_A_TURN };
    match topics.asked {
        None => {
            for topic in topics.snapshot.topics() {
                encoder.topic(&found(&mut slices, topic, topics.operations).await)?;
            }
        }
        Some(asked) => {
            for topic in asked {
                encoder.topic(&match look_up(topics.snapshot, topic) {
                    Some(topic) => found(&mut slices, topic, topics.operations).await,
                    None => absent(&mut slices, topic, topics).await,
                })?;
            }
        }
    }
    encoder.end(head);
    Ok(())
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
    topics: &Topics<'_>,
) -> MetadataResponseTopic<'a> {
    slices.spend().await;
    let error = match asked.name {
        None => ErrorCode::UnknownTopicId,
        Some(name) if check_topic_name(name).is_err() => ErrorCode::InvalidTopicException,
        Some(name) => match topics.created.get(name) {
            Some(Err(error)) => *error,
            _ => ErrorCode::UnknownTopicOrPartition,
        },
    };
    let mut told = MetadataResponseTopic {
        error_code: error.code(),
        name: asked.name,
        topic_id: if asked.name.is_none() { asked.topic_id } else { Uuid::ZERO },
        ..MetadataResponseTopic::default()
    };
    // As Kafka: not where an id is of no topic.
    if topics.operations && asked.name.is_some() {
        told.topic_authorized_operations = TOPIC_OPERATIONS;
    }
    told
}

async fn found<'a>(slices: &mut Slices<'_>, topic: &'a Topic, operations: bool) -> MetadataResponseTopic<'a> {
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
    let mut told = MetadataResponseTopic {
        name: Some(&topic.name),
        topic_id: Uuid(topic.id.0),
        is_internal: is_internal(&topic.name),
        partitions,
        ..MetadataResponseTopic::default()
    };
    if operations {
        told.topic_authorized_operations = TOPIC_OPERATIONS;
    }
    told
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

/// Most replies are shorter; a longer one grows.
const REPLY_BYTES_GUESS: usize = 256;
/// About 10 us; a core looks at its clock after four polls.
const PARTITIONS_A_TURN: u32 = 100;
