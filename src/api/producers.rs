//! DescribeProducers: who writes to a partition, and which transactions are open there.

use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::record::offset::PartitionId;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;
use crate::shard::router::Route;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::describe_producers_request::DescribeProducersRequest;
use crate::wire::messages::describe_producers_response::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use crate::wire::reader::Reader;

/// Answers DescribeProducers.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match DescribeProducersRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
        for partition_index in topic.partition_indexes.iter().copied() {
            let mut row = PartitionResponse { partition_index, ..PartitionResponse::default() };
            match describe(shard, topic.name, partition_index).await {
                Ok(producers) => row.active_producers = producers,
                Err(error) => {
                    row.error_code = error.code();
                    row.error_message = Some(error.default_message());
                }
            }
            partitions.push(row);
        }
        topics.push(TopicResponse { name: topic.name, partitions });
    }
    let response = DescribeProducersResponse { throttle_time_ms: 0, topics };
    Outcome::message(context, |out, version| response.encode(out, version))
}

async fn describe(shard: &Rc<Shard>, topic: &str, partition: i32) -> Result<Vec<ProducerState>, ErrorCode> {
    let topic_id = shard.snapshot().topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?.id;
    let id = PartitionId { topic_id, partition };
    match shard.route(id) {
        Route::Here(partition) => Ok(producers_of(&partition)),
        Route::There { core } => {
            let asked = shard.on_core(core, move |there| async move {
                match there.route(id) {
                    Route::Here(partition) => Ok(producers_of(&partition)),
                    _ => Err(ErrorCode::NotLeaderOrFollower),
                }
            });
            asked.await.unwrap_or(Err(ErrorCode::NotLeaderOrFollower))
        }
        Route::NotReady { offline: true } => Err(ErrorCode::KafkaStorageError),
        Route::Elsewhere { .. } | Route::NotReady { offline: false } => Err(ErrorCode::NotLeaderOrFollower),
        Route::Unknown => Err(ErrorCode::UnknownTopicOrPartition),
    }
}

fn producers_of(partition: &Partition) -> Vec<ProducerState> {
    let log = partition.log().borrow();
    let rows = log.producers().iter().map(|(producer_id, state)| ProducerState {
        producer_id: producer_id.0,
        producer_epoch: i32::from(state.epoch),
        last_sequence: state.batches().last().map_or(-1, |batch| batch.last_sequence),
        last_timestamp: state.last_timestamp.get(),
        coordinator_epoch: state.coordinator_epoch,
        current_txn_start_offset: state.transaction_first_offset.get(),
    });
    rows.collect()
}
