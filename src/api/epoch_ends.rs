//! OffsetForLeaderEpoch: where a leader epoch ends, for clients that look for a truncation.

use crate::api::context::RequestContext;
use crate::api::error_map;
use crate::api::reply::Outcome;
use crate::record::offset::{LeaderEpoch, PartitionId};
use crate::shard::core::Shard;
use crate::shard::router::Route;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::offset_for_leader_epoch_request::{OffsetForLeaderEpochRequest, OffsetForLeaderPartition};
use crate::wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};
use crate::wire::reader::Reader;

/// Answers OffsetForLeaderEpoch.
pub fn handle(shard: &Shard, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match OffsetForLeaderEpochRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic,
            partitions: topic.partitions.iter().map(|wanted| one(shard, topic.topic, wanted)).collect(),
        })
        .collect();
    let response = OffsetForLeaderEpochResponse { topics, ..OffsetForLeaderEpochResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn one(shard: &Shard, topic: &str, wanted: &OffsetForLeaderPartition) -> EpochEndOffset {
    let unknown = EpochEndOffset { partition: wanted.partition, ..EpochEndOffset::default() };
    match find(shard, topic, wanted) {
        Ok(Some((leader_epoch, end_offset))) => EpochEndOffset { leader_epoch, end_offset, ..unknown },
        Ok(None) => unknown,
        Err(error) => EpochEndOffset { error_code: error.code(), ..unknown },
    }
}

fn find(shard: &Shard, topic: &str, wanted: &OffsetForLeaderPartition) -> Result<Option<(i32, i64)>, ErrorCode> {
    let snapshot = shard.snapshot();
    let topic = snapshot.topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let partition = match shard.route(PartitionId { topic_id: topic.id, partition: wanted.partition }) {
        Route::Here(partition) if partition.is_online() => partition,
        Route::Here(_) | Route::NotReady { offline: true } => return Err(ErrorCode::KafkaStorageError),
        Route::Elsewhere { .. } | Route::NotReady { offline: false } => return Err(ErrorCode::NotLeaderOrFollower),
        Route::Unknown => return Err(ErrorCode::UnknownTopicOrPartition),
    };
    let log = partition.log().borrow();
    if let Some(error) = error_map::leader_epoch_error(wanted.current_leader_epoch, log.leader_epoch()) {
        return Err(error);
    }
    let end = log.offset_for_epoch(LeaderEpoch(wanted.leader_epoch));
    Ok(end.map(|(epoch, end)| (epoch.get(), end.get())))
}
