//! ListOffsets: where a partition begins and ends.

use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::error_map;
use crate::api::reply::Outcome;
use crate::record::offset::PartitionId;
use crate::shard::core::Shard;
use crate::shard::router::Route;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use crate::wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use crate::wire::reader::Reader;

/// Answers ListOffsets for the first and the last offset.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match ListOffsetsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            partitions.push(one(shard, topic.name, wanted, context.api_version).await);
        }
        topics.push(ListOffsetsTopicResponse { name: topic.name, partitions, ..ListOffsetsTopicResponse::default() });
    }
    let response = ListOffsetsResponse { topics, ..ListOffsetsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

async fn one(
    shard: &Rc<Shard>,
    topic: &str,
    wanted: &ListOffsetsPartition,
    version: i16,
) -> ListOffsetsPartitionResponse {
    match find(shard, topic, wanted).await {
        Ok((offset, leader_epoch)) => ListOffsetsPartitionResponse {
            partition_index: wanted.partition_index,
            offset,
            // Earlier versions cannot say it.
            leader_epoch: if version >= LEADER_EPOCH_MIN { leader_epoch } else { NO_EPOCH },
            ..ListOffsetsPartitionResponse::default()
        },
        Err(error) => ListOffsetsPartitionResponse {
            partition_index: wanted.partition_index,
            error_code: error.code(),
            ..ListOffsetsPartitionResponse::default()
        },
    }
}

async fn find(shard: &Rc<Shard>, topic: &str, wanted: &ListOffsetsPartition) -> Result<(i64, i32), ErrorCode> {
    let topic_id = shard.snapshot().topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?.id;
    let id = PartitionId { topic_id, partition: wanted.partition_index };
    let (timestamp, epoch) = (wanted.timestamp, wanted.current_leader_epoch);
    if let Route::There { core } = shard.route(id) {
        let job = move |there: Rc<Shard>| async move { look_up(&there, id, timestamp, epoch) };
        return shard.on_core(core, job).await.unwrap_or(Err(ErrorCode::NotLeaderOrFollower));
    }
    look_up(shard, id, timestamp, epoch)
}

fn look_up(shard: &Shard, id: PartitionId, timestamp: i64, leader_epoch: i32) -> Result<(i64, i32), ErrorCode> {
    let partition = match shard.route(id) {
        Route::Here(partition) if partition.is_online() => partition,
        Route::Here(_) | Route::NotReady { offline: true } => return Err(ErrorCode::KafkaStorageError),
        Route::There { .. } | Route::Elsewhere { .. } | Route::NotReady { offline: false } => {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Route::Unknown => return Err(ErrorCode::UnknownTopicOrPartition),
    };
    let log = partition.log().borrow();
    if let Some(error) = error_map::leader_epoch_error(leader_epoch, log.leader_epoch()) {
        return Err(error);
    }
    let offsets = log.offsets();
    match timestamp {
        LATEST => Ok((offsets.high_watermark.get(), log.leader_epoch().get())),
        EARLIEST => {
            let epoch = log.earliest().1.map_or(-1, |epoch| epoch.get());
            Ok((offsets.log_start.get(), epoch))
        }
        // Times are looked up in the time index, which this server does not have yet.
        _ => Err(ErrorCode::UnsupportedForMessageFormat),
    }
}

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// The first version that tells the leader epoch.
const LEADER_EPOCH_MIN: i16 = 4;
const NO_EPOCH: i32 = -1;
