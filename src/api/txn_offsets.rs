//! TxnOffsetCommit: how far a group has read, as part of a transaction.

use std::rc::Rc;

use crate::api::committed_offsets::{CommitCodes, NamedOffsets};
use crate::api::context::RequestContext;
use crate::api::group_members::ask;
use crate::api::reply::Outcome;
use crate::api::transactions::offsets_partition;
use crate::group::reply::GroupReply;
use crate::group::request::{CommitOffsets, CommitTopic, GroupRequest, Speaker, TransactionalCommit};
use crate::record::coordination::TransactionalWriter;
use crate::record::offset::ProducerId;
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::txn_offset_commit_request::TxnOffsetCommitRequest;
use crate::wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use crate::wire::reader::Reader;

/// Answers TxnOffsetCommit when the offsets are safe. They count when the transaction is committed.
pub async fn commit(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let version = context.api_version;
    let request = match TxnOffsetCommitRequest::decode(&mut Reader::new(body), version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let snapshot = shard.snapshot();
    let named = request.topics.iter().map(NamedOffsets::from);
    let (mut codes, topics) = CommitCodes::judge(&snapshot, named, version >= TOPIC_ID_MIN);
    if !topics.is_empty() {
        let answered = store(shard, &request, topics, version).await;
        codes.fill_in(answered);
    }
    let rows = request.topics.iter().zip(codes.by_topic()).map(|(topic, codes)| TxnOffsetCommitResponseTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .zip(codes)
            .map(|(partition, code)| TxnOffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: code.code(),
            })
            .collect(),
    });
    let response = TxnOffsetCommitResponse { topics: rows.collect(), ..TxnOffsetCommitResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

async fn store(
    shard: &Rc<Shard>,
    request: &TxnOffsetCommitRequest<'_>,
    topics: Vec<CommitTopic>,
    version: i16,
) -> Result<GroupReply, ErrorCode> {
    // Where the topic is not there yet, it is made: its coordinator answers then.
    offsets_partition(shard, request.group_id).await?;
    let writer = TransactionalWriter {
        producer_id: ProducerId(request.producer_id),
        producer_epoch: request.producer_epoch,
        marker_count: None,
    };
    let commit = CommitOffsets {
        group_id: request.group_id.to_owned(),
        speaker: Speaker {
            member_id: request.member_id.to_owned(),
            instance_id: request.group_instance_id.map(str::to_owned),
            generation: request.generation_id_or_member_epoch,
        },
        writer: Some(writer),
        transactional: Some(TransactionalCommit {
            transactional_id: request.transactional_id.to_owned(),
            adds: version >= ADDS_PARTITIONS_MIN,
        }),
        retention_ms: None,
        tells_unknown_group: false,
        topics,
    };
    let asked = ask(shard, request.group_id, GroupRequest::CommitOffsets(commit)).await;
    asked.map_err(|error| match error {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < ABORTABLE_MIN => ErrorCode::InvalidTxnState,
        error => error,
    })
}

/// The first version that names topics by id.
const TOPIC_ID_MIN: i16 = 6;
/// The first one whose clients do not add the partition of the offsets themselves (KIP-890).
const ADDS_PARTITIONS_MIN: i16 = 5;
/// The first one whose clients know TRANSACTION_ABORTABLE.
const ABORTABLE_MIN: i16 = 4;
