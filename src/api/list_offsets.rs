//! ListOffsets: where a partition begins and ends.

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
pub fn handle(shard: &Shard, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match ListOffsetsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name,
            partitions: topic
                .partitions
                .iter()
                .map(|wanted| one(shard, topic.name, wanted, context.api_version))
                .collect(),
        })
        .collect();
    let response = ListOffsetsResponse { topics, ..ListOffsetsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn one(shard: &Shard, topic: &str, wanted: &ListOffsetsPartition, version: i16) -> ListOffsetsPartitionResponse {
    match find(shard, topic, wanted) {
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

fn find(shard: &Shard, topic: &str, wanted: &ListOffsetsPartition) -> Result<(i64, i32), ErrorCode> {
    let snapshot = shard.snapshot();
    let topic = snapshot.topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let id = PartitionId { topic_id: topic.id, partition: wanted.partition_index };
    let partition = match shard.route(id) {
        Route::Here(partition) if partition.is_online() => partition,
        Route::Here(_) | Route::NotReady { offline: true } => return Err(ErrorCode::KafkaStorageError),
        Route::Elsewhere { .. } | Route::NotReady { offline: false } => return Err(ErrorCode::NotLeaderOrFollower),
        Route::Unknown => return Err(ErrorCode::UnknownTopicOrPartition),
    };
    let log = partition.log().borrow();
    if let Some(error) = error_map::leader_epoch_error(wanted.current_leader_epoch, log.leader_epoch()) {
        return Err(error);
    }
    let offsets = log.offsets();
    match wanted.timestamp {
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
