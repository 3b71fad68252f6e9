//! OffsetForLeaderEpoch: where a leader epoch ends, for clients that look for a truncation.

use std::rc::Rc;

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
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match OffsetForLeaderEpochRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            partitions.push(one(shard, topic.topic, wanted).await);
        }
        topics.push(OffsetForLeaderTopicResult { topic: topic.topic, partitions });
    }
    let response = OffsetForLeaderEpochResponse { topics, ..OffsetForLeaderEpochResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

async fn one(shard: &Rc<Shard>, topic: &str, wanted: &OffsetForLeaderPartition) -> EpochEndOffset {
    let unknown = EpochEndOffset { partition: wanted.partition, ..EpochEndOffset::default() };
    match find(shard, topic, wanted).await {
        Ok(Some((leader_epoch, end_offset))) => EpochEndOffset { leader_epoch, end_offset, ..unknown },
        Ok(None) => unknown,
        Err(error) => EpochEndOffset { error_code: error.code(), ..unknown },
    }
}

async fn find(
    shard: &Rc<Shard>,
    topic: &str,
    wanted: &OffsetForLeaderPartition,
) -> Result<Option<(i32, i64)>, ErrorCode> {
    let topic_id = shard.snapshot().topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?.id;
    let id = PartitionId { topic_id, partition: wanted.partition };
    let (current_leader_epoch, leader_epoch) = (wanted.current_leader_epoch, LeaderEpoch(wanted.leader_epoch));
    if let Route::There { core } = shard.route(id) {
        let job = move |there: Rc<Shard>| async move { look_up(&there, id, current_leader_epoch, leader_epoch) };
        return shard.on_core(core, job).await.unwrap_or(Err(ErrorCode::NotLeaderOrFollower));
    }
    look_up(shard, id, current_leader_epoch, leader_epoch)
}

fn look_up(
    shard: &Shard,
    id: PartitionId,
    current_leader_epoch: i32,
    leader_epoch: LeaderEpoch,
) -> Result<Option<(i32, i64)>, ErrorCode> {
    let partition = match shard.route(id) {
        Route::Here(partition) if partition.is_online() => partition,
        Route::Here(_) | Route::NotReady { offline: true } => return Err(ErrorCode::KafkaStorageError),
        Route::There { .. } | Route::Elsewhere { .. } | Route::NotReady { offline: false } => {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Route::Unknown => return Err(ErrorCode::UnknownTopicOrPartition),
    };
    let log = partition.log().borrow();
    if let Some(error) = error_map::leader_epoch_error(current_leader_epoch, log.leader_epoch()) {
        return Err(error);
    }
    let end = log.offset_for_epoch(leader_epoch);
    Ok(end.map(|(epoch, end)| (epoch.get(), end.get())))
}
