//! DeleteRecords: a partition's log begins later, on the core that leads it.

use std::collections::BTreeMap;
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
    let mut moved: Vec<(Rc<Partition>, usize, usize)> = Vec::new();
    for (name, offsets) in wanted {
        let mut partitions = Vec::with_capacity(offsets.len());
        for (partition_index, offset) in offsets {
            let mut row =
                DeleteRecordsPartitionResult { partition_index, low_watermark: NO_LOW_WATERMARK, error_code: 0 };
            match begin(shard, name, partition_index, offset) {
                Ok((partition, low_watermark)) => {
                    moved.push((partition, topics.len(), partitions.len()));
                    row.low_watermark = low_watermark;
                }
                Err(error) => row.error_code = error.code(),
            }
            partitions.push(row);
        }
        topics.push(DeleteRecordsTopicResult { name, partitions });
    }
    for (partition, topic, row) in moved {
        if let Err(error) = checkpoints::make_log_start_durable(shard, &partition).await {
            tracing::error!(topic = partition.topic(), partition = partition.id().partition, %error, "a log start offset could not be written; the client is told to try again");
            let failed = &mut topics[topic].partitions[row];
            failed.low_watermark = NO_LOW_WATERMARK;
            failed.error_code = ErrorCode::KafkaStorageError.code();
        }
    }
    let response = DeleteRecordsResponse { throttle_time_ms: 0, topics };
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn begin(shard: &Shard, topic: &str, index: i32, offset: i64) -> Result<(Rc<Partition>, i64), ErrorCode> {
    let snapshot = shard.snapshot();
    let known = snapshot.topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let partition = match shard.route(PartitionId { topic_id: known.id, partition: index }) {
        Route::Unknown => return Err(ErrorCode::UnknownTopicOrPartition),
        _ if INTERNAL_TOPICS.contains(&topic) => return Err(ErrorCode::InvalidTopicException),
        Route::Here(partition) => partition,
        Route::NotReady { offline: true } => return Err(ErrorCode::KafkaStorageError),
        Route::Elsewhere { .. } | Route::NotReady { offline: false } => return Err(ErrorCode::NotLeaderOrFollower),
    };
    let low_watermark =
        retention::delete_records(shard, &partition, offset).map_err(|failure| error_map::delete_failure(&failure))?;
    Ok((partition, low_watermark.get()))
}

/// Kafka's DeleteRecordsResponse.INVALID_LOW_WATERMARK.
const NO_LOW_WATERMARK: i64 = -1;
/// Kafka deletes no records of these for clients.
const INTERNAL_TOPICS: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];
