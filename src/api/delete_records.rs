//! DeleteRecords: a partition's log begins later, on the core that leads it.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::error_map;
use crate::api::reply::Outcome;
use crate::control::internal_topics::is_internal;
use crate::record::offset::PartitionId;
use crate::shard::checkpoints;
use crate::shard::core::Shard;
use crate::shard::forward::Sent;
use crate::shard::partition::Partition;
use crate::shard::retention;
use crate::shard::router::Route;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::delete_records_request::DeleteRecordsRequest;
use crate::wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use crate::wire::reader::Reader;

/// Answers DeleteRecords when the new starts would survive a crash.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match DeleteRecordsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    // As in Kafka a partition that is named more than once is answered once, and the last offset counts.
    let mut wanted: BTreeMap<&str, BTreeMap<i32, i64>> = BTreeMap::new();
    for topic in &request.topics {
        let offsets = wanted.entry(topic.name).or_default();
        offsets.extend(topic.partitions.iter().map(|partition| (partition.partition_index, partition.offset)));
    }
    // All starts are moved first: what makes them durable is then one write.
    let mut topics: Vec<DeleteRecordsTopicResult<'_>> = Vec::with_capacity(wanted.len());
    let mut moved: Vec<(Begun, usize, usize)> = Vec::new();
    for (name, offsets) in wanted {
        let mut partitions = Vec::with_capacity(offsets.len());
        for (partition_index, offset) in offsets {
            let mut row =
                DeleteRecordsPartitionResult { partition_index, low_watermark: NO_LOW_WATERMARK, error_code: 0 };
            match begin(shard, name, partition_index, offset).await {
                Ok(begun) => moved.push((begun, topics.len(), partitions.len())),
                Err(error) => row.error_code = error.code(),
            }
            partitions.push(row);
        }
        topics.push(DeleteRecordsTopicResult { name, partitions });
    }
    for (begun, topic, row) in moved {
        let outcome = match begun {
            Begun::Here(partition, low_watermark) => finish(shard, &partition, low_watermark).await,
            Begun::There(sent) => sent.await.unwrap_or(Err(ErrorCode::NotLeaderOrFollower)),
        };
        let row = &mut topics[topic].partitions[row];
        match outcome {
            Ok(low_watermark) => row.low_watermark = low_watermark,
            Err(error) => row.error_code = error.code(),
        }
    }
    let response = DeleteRecordsResponse { throttle_time_ms: 0, topics };
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// A deletion that was begun.
enum Begun {
    /// The log begins here now, in memory.
    Here(Rc<Partition>, i64),
    /// The core that leads does all of it.
    There(Sent<Result<i64, ErrorCode>>),
}

async fn begin(shard: &Rc<Shard>, topic: &str, index: i32, offset: i64) -> Result<Begun, ErrorCode> {
    let topic_id = shard.snapshot().topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?.id;
    let id = PartitionId { topic_id, partition: index };
    let partition = match shard.route(id) {
        Route::Unknown => return Err(ErrorCode::UnknownTopicOrPartition),
        _ if is_internal(topic) => return Err(ErrorCode::InvalidTopicException),
        Route::Here(partition) => partition,
        Route::There { core } => {
            let job = move |there| async move { delete_here(&there, id, offset).await };
            return Ok(Begun::There(shard.send_job(core, job).await));
        }
        Route::NotReady { offline: true } => return Err(ErrorCode::KafkaStorageError),
        Route::Elsewhere { .. } | Route::NotReady { offline: false } => return Err(ErrorCode::NotLeaderOrFollower),
    };
    let low_watermark =
        retention::delete_records(shard, &partition, offset).map_err(|failure| error_map::delete_failure(&failure))?;
    Ok(Begun::Here(partition, low_watermark.get()))
}

/// All of it, for a connection of another core.
async fn delete_here(shard: &Rc<Shard>, id: PartitionId, offset: i64) -> Result<i64, ErrorCode> {
    let Route::Here(partition) = shard.route(id) else { return Err(ErrorCode::NotLeaderOrFollower) };
    let low_watermark =
        retention::delete_records(shard, &partition, offset).map_err(|failure| error_map::delete_failure(&failure))?;
    finish(shard, &partition, low_watermark.get()).await
}

/// Makes the new start durable.
async fn finish(shard: &Rc<Shard>, partition: &Rc<Partition>, low_watermark: i64) -> Result<i64, ErrorCode> {
    checkpoints::make_log_start_durable(shard, partition).await.map_err(|error| {
        tracing::error!(topic = partition.topic(), partition = partition.id().partition, %error, "a log start offset could not be written; the client is told to try again");
        ErrorCode::KafkaStorageError
    })?;
    Ok(low_watermark)
}

/// Kafka's DeleteRecordsResponse.INVALID_LOW_WATERMARK.
const NO_LOW_WATERMARK: i64 = -1;
