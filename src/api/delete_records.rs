//! DeleteRecords: a partition's log begins later, on the core that leads it.

use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::error_map;
use crate::api::reply::Outcome;
use crate::record::offset::PartitionId;
use crate::shard::checkpoints;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;
use crate::shard::retention;
use crate::shard::router::Route;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsRequest};
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
    // All starts are moved first: what makes them durable is then one write.
    let mut moved: Vec<Rc<Partition>> = Vec::new();
    let mut topics: Vec<DeleteRecordsTopicResult<'_>> = Vec::with_capacity(request.topics.len());
    let mut places: Vec<(usize, usize)> = Vec::new();
    for topic in &request.topics {
        let mut result = DeleteRecordsTopicResult { name: topic.name, partitions: Vec::new() };
        for wanted in &topic.partitions {
            result.partitions.push(match begin(shard, topic.name, wanted) {
                Ok((partition, low_watermark)) => {
                    places.push((topics.len(), result.partitions.len()));
                    moved.push(partition);
                    row(wanted, low_watermark, ErrorCode::None)
                }
                Err(error) => row(wanted, NO_LOW_WATERMARK, error),
            });
        }
        topics.push(result);
    }
    for (partition, (topic, place)) in moved.iter().zip(places) {
        if let Err(error) = checkpoints::make_log_start_durable(shard, partition).await {
            tracing::error!(topic = partition.topic(), partition = partition.id().partition, %error, "a log start offset could not be written; the client is told to try again");
            let failed = &mut topics[topic].partitions[place];
            failed.low_watermark = NO_LOW_WATERMARK;
            failed.error_code = ErrorCode::KafkaStorageError.code();
        }
    }
    let response = DeleteRecordsResponse { throttle_time_ms: 0, topics };
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn row(wanted: &DeleteRecordsPartition, low_watermark: i64, error: ErrorCode) -> DeleteRecordsPartitionResult {
    DeleteRecordsPartitionResult { partition_index: wanted.partition_index, low_watermark, error_code: error.code() }
}

fn begin(shard: &Shard, topic: &str, wanted: &DeleteRecordsPartition) -> Result<(Rc<Partition>, i64), ErrorCode> {
    let snapshot = shard.snapshot();
    let known = snapshot.topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let partition = match shard.route(PartitionId { topic_id: known.id, partition: wanted.partition_index }) {
        Route::Unknown => return Err(ErrorCode::UnknownTopicOrPartition),
        _ if INTERNAL_TOPICS.contains(&topic) => return Err(ErrorCode::InvalidTopicException),
        Route::Here(partition) => partition,
        Route::NotReady { offline: true } => return Err(ErrorCode::KafkaStorageError),
        Route::Elsewhere { .. } | Route::NotReady { offline: false } => return Err(ErrorCode::NotLeaderOrFollower),
    };
    let low_watermark = retention::delete_records(shard, &partition, wanted.offset)
        .map_err(|failure| error_map::delete_failure(&failure))?;
    Ok((partition, low_watermark.get()))
}

/// Kafka's DeleteRecordsResponse.INVALID_LOW_WATERMARK.
const NO_LOW_WATERMARK: i64 = -1;
/// Kafka deletes no records of these for clients.
const INTERNAL_TOPICS: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];
