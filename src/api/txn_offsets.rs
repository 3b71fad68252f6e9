//! TxnOffsetCommit: how far a group has read, as part of a transaction.

use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::group_members::ask;
use crate::api::reply::Outcome;
use crate::api::transactions::offsets_partition;
use crate::control::snapshot::Snapshot;
use crate::control::topic::Topic;
use crate::group::reply::GroupReply;
use crate::group::request::{CommitOffsets, CommitPartition, CommitTopic, GroupRequest, Speaker};
use crate::record::coordination::TransactionalWriter;
use crate::record::offset::{PartitionId, ProducerId, TopicId};
use crate::shard::core::Shard;
use crate::shard::router::Route;
use crate::shard::verification::{self, Transactional, VerificationFailure};
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::txn_offset_commit_request::{TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic};
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
    let mut codes: Vec<Vec<ErrorCode>> = Vec::with_capacity(request.topics.len());
    let mut topics = Vec::new();
    for topic in &request.topics {
        let found = committed_topic(&snapshot, topic, version);
        let mut wanted = Vec::with_capacity(topic.partitions.len());
        let row = topic.partitions.iter().map(|partition| match found {
            Err(error) => error,
            Ok(found) if found.partition(partition.partition_index).is_none() => ErrorCode::UnknownTopicOrPartition,
            Ok(_) => {
                wanted.push(CommitPartition {
                    index: partition.partition_index,
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata.unwrap_or_default().to_owned(),
                });
                ErrorCode::None
            }
        });
        codes.push(row.collect());
        if let Ok(found) = found
            && !wanted.is_empty()
        {
            topics.push(CommitTopic { name: found.name.to_string(), topic_id: found.id.0, partitions: wanted });
        }
    }
    if !topics.is_empty() {
        let answered = store(shard, &request, topics, version).await;
        fill_in(&mut codes, answered);
    }
    let rows = request.topics.iter().zip(&codes).map(|(topic, codes)| TxnOffsetCommitResponseTopic {
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
    let (offsets_topic, partition) = offsets_partition(shard, request.group_id).await?;
    let producer_id = ProducerId(request.producer_id);
    let topic_id = shard.snapshot().topic(offsets_topic).ok_or(ErrorCode::CoordinatorNotAvailable)?.id;
    if let Route::Here(hosted) = shard.route(PartitionId { topic_id, partition })
        && hosted.log().borrow().producers().get(producer_id).is_some_and(|known| known.epoch > request.producer_epoch)
    {
        return Err(ErrorCode::InvalidProducerEpoch);
    }
    let transactional =
        Transactional { transactional_id: request.transactional_id.to_owned(), adds: version >= ADDS_PARTITIONS_MIN };
    let producer = (producer_id, request.producer_epoch);
    let verified = verification::is_in_transaction(shard, &transactional, producer, (offsets_topic, partition)).await;
    verified.map_err(|failure| match failure {
        VerificationFailure::Refused(ErrorCode::ProducerFenced) => ErrorCode::InvalidProducerEpoch,
        VerificationFailure::Refused(ErrorCode::TransactionAbortable) if version < ABORTABLE_MIN => {
            ErrorCode::InvalidTxnState
        }
        VerificationFailure::Refused(code) => code,
        VerificationFailure::NoAnswer(_) => ErrorCode::CoordinatorLoadInProgress,
    })?;
    let commit = CommitOffsets {
        group_id: request.group_id.to_owned(),
        speaker: Speaker {
            member_id: request.member_id.to_owned(),
            instance_id: request.group_instance_id.map(str::to_owned),
            generation: request.generation_id_or_member_epoch,
        },
        writer: Some(TransactionalWriter { producer_id, producer_epoch: request.producer_epoch }),
        retention_ms: None,
        tells_unknown_group: false,
        topics,
    };
    ask(shard, request.group_id, GroupRequest::CommitOffsets(commit)).await
}

fn committed_topic<'a>(
    snapshot: &'a Snapshot,
    topic: &TxnOffsetCommitRequestTopic<'_>,
    version: i16,
) -> Result<&'a Topic, ErrorCode> {
    if version >= TOPIC_ID_MIN {
        let found = snapshot.topic_by_id(TopicId(topic.topic_id.0)).ok_or(ErrorCode::UnknownTopicId)?;
        return Ok(found);
    }
    let found = snapshot.topic(topic.name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok(found)
}

/// The coordinator's codes, in the order of what it was asked, into the places that had none.
fn fill_in(codes: &mut [Vec<ErrorCode>], answered: Result<GroupReply, ErrorCode>) {
    let (judged, error) = match &answered {
        Ok(GroupReply::Partitions(topics)) => (topics.as_slice(), ErrorCode::UnknownServerError),
        Ok(_) => (&[][..], ErrorCode::UnknownServerError),
        Err(error) => (&[][..], *error),
    };
    let mut judged = judged.iter().flat_map(|(_, partitions)| partitions.iter().map(|(_, code)| *code));
    for code in codes.iter_mut().flatten().filter(|code| **code == ErrorCode::None) {
        *code = judged.next().unwrap_or(error);
    }
}

/// The first version that names topics by id.
const TOPIC_ID_MIN: i16 = 6;
/// The first one whose clients do not add the partition of the offsets themselves (KIP-890).
const ADDS_PARTITIONS_MIN: i16 = 5;
/// The first one whose clients know TRANSACTION_ABORTABLE.
const ABORTABLE_MIN: i16 = 4;
