//! WriteTxnMarkers: transactions end in partitions, as a coordinator (or an operator's tool) has decided.

use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::error_map;
use crate::api::reply::Outcome;
use crate::record::control::EndMarker;
use crate::record::offset::{PartitionId, ProducerId};
use crate::shard::core::Shard;
use crate::shard::markers::{self, Ending};
use crate::shard::router::Route;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::write_txn_markers_request::WriteTxnMarkersRequest;
use crate::wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult, WriteTxnMarkersResponse,
};
use crate::wire::reader::Reader;

/// Answers WriteTxnMarkers when all markers are durable. Those of one request are written one after the other.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match WriteTxnMarkersRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let mut results = Vec::with_capacity(request.markers.len());
    for wanted in &request.markers {
        let ending = Ending {
            producer_id: ProducerId(wanted.producer_id),
            producer_epoch: wanted.producer_epoch,
            marker: EndMarker {
                is_commit: wanted.transaction_result,
                coordinator_epoch: wanted.coordinator_epoch,
                transaction_version: wanted.transaction_version,
            },
        };
        let mut topics = Vec::with_capacity(wanted.topics.len());
        for topic in &wanted.topics {
            let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
            for partition_index in topic.partition_indexes.iter().copied() {
                let ended = end(shard, topic.name, partition_index, ending).await;
                let error_code = ended.map_or_else(ErrorCode::code, |()| 0);
                partitions.push(WritableTxnMarkerPartitionResult { partition_index, error_code });
            }
            topics.push(WritableTxnMarkerTopicResult { name: topic.name, partitions });
        }
        results.push(WritableTxnMarkerResult { producer_id: wanted.producer_id, topics });
    }
    let response = WriteTxnMarkersResponse { markers: results };
    Outcome::message(context, |out, version| response.encode(out, version))
}

async fn end(shard: &Rc<Shard>, topic: &str, partition: i32, ending: Ending) -> Result<(), ErrorCode> {
    let topic_id = shard.snapshot().topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?.id;
    let id = PartitionId { topic_id, partition };
    let ended = match shard.route(id) {
        // The client is to find the core that leads, as with any other request.
        Route::Elsewhere { .. } => return Err(ErrorCode::NotLeaderOrFollower),
        _ => markers::end_transaction(shard, id, ending).await,
    };
    ended.map(|_| ()).map_err(|failure| error_map::marker_failure(&failure))
}
