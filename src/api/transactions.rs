//! AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: what a transactional producer does.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::error_map::coordinator_failure;
use crate::api::reply::Outcome;
use crate::control::internal_topics::{InternalTopic, partition_of};
use crate::record::offset::ProducerId;
use crate::shard::core::Shard;
use crate::shard::transaction_machine::TRANSACTION_VERSION;
use crate::txn::coordinator::TransactionCoordinator;
use crate::txn::reply::TransactionReply;
use crate::txn::request::{AddPartitions, End, InitProducerId, TransactionRequest};
use crate::txn::transaction::Partitions;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use crate::wire::messages::add_offsets_to_txn_response::AddOffsetsToTxnResponse;
use crate::wire::messages::add_partitions_to_txn_request::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use crate::wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
};
use crate::wire::messages::end_txn_request::EndTxnRequest;
use crate::wire::messages::end_txn_response::EndTxnResponse;
use crate::wire::reader::Reader;

/// Asks the coordinator of a transactional id.
///
/// # Errors
/// The code that the client is told.
pub async fn ask(
    shard: &Rc<Shard>,
    transactional_id: &str,
    request: TransactionRequest,
) -> Result<TransactionReply, ErrorCode> {
    if transactional_id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    match shard.ask::<TransactionCoordinator>(transactional_id, request).await {
        Ok(TransactionReply::Refused(error)) => Err(error),
        Ok(reply) => Ok(reply),
        Err(failure) => Err(coordinator_failure(failure)),
    }
}

/// A producer id that nobody has.
///
/// # Errors
/// None can be had now.
pub async fn fresh_producer_id(shard: &Rc<Shard>) -> Result<ProducerId, ErrorCode> {
    shard.next_producer_id().await.map(ProducerId).map_err(|error| {
        tracing::warn!(%error, "no producer id could be given out");
        ErrorCode::CoordinatorNotAvailable
    })
}

/// Asks for a producer's id and epoch; once more with a new id where the coordinator needs one.
async fn ask_for_producer(
    shard: &Rc<Shard>,
    transactional_id: &str,
    request: impl Fn(Option<ProducerId>) -> TransactionRequest,
) -> Result<(ProducerId, i16), ErrorCode> {
    let mut fresh = None;
    loop {
        match ask(shard, transactional_id, request(fresh)).await? {
            TransactionReply::NeedsProducerId if fresh.is_none() => fresh = Some(fresh_producer_id(shard).await?),
            TransactionReply::Producer { producer_id, producer_epoch } => return Ok((producer_id, producer_epoch)),
            _ => return Err(ErrorCode::UnknownServerError),
        }
    }
}

/// InitProducerId with a transactional id.
///
/// # Errors
/// The code that the client is told.
pub async fn init_producer_id(
    shard: &Rc<Shard>,
    transactional_id: &str,
    timeout_ms: i32,
    expected: Option<(ProducerId, i16)>,
) -> Result<(ProducerId, i16), ErrorCode> {
    ask_for_producer(shard, transactional_id, |fresh| {
        TransactionRequest::InitProducerId(InitProducerId {
            transactional_id: transactional_id.to_owned(),
            timeout_ms,
            expected,
            fresh,
        })
    })
    .await
}

/// PRODUCER_FENCED, as a client of an older version knows it.
pub fn fencing_code(error: ErrorCode, version: i16, fenced_min: i16) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if version < fenced_min => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}

/// Answers AddPartitionsToTxn, of one transaction or (from version 4, for brokers) of many.
pub async fn add_partitions(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let version = context.api_version;
    let request = match AddPartitionsToTxnRequest::decode(&mut Reader::new(body), version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let mut response = AddPartitionsToTxnResponse::default();
    if version < BATCHED_MIN {
        let adding = Adding {
            transactional_id: request.v3_and_below_transactional_id,
            producer_id: request.v3_and_below_producer_id,
            producer_epoch: request.v3_and_below_producer_epoch,
            verify_only: false,
            version,
        };
        response.results_by_topic_v3_and_below = add(shard, &adding, &request.v3_and_below_topics).await;
    } else {
        for transaction in &request.transactions {
            let adding = Adding {
                transactional_id: transaction.transactional_id,
                producer_id: transaction.producer_id,
                producer_epoch: transaction.producer_epoch,
                verify_only: transaction.verify_only,
                version,
            };
            let topic_results = add(shard, &adding, &transaction.topics).await;
            let transactional_id = transaction.transactional_id;
            response.results_by_transaction.push(AddPartitionsToTxnResult { transactional_id, topic_results });
        }
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

struct Adding<'a> {
    transactional_id: &'a str,
    producer_id: i64,
    producer_epoch: i16,
    verify_only: bool,
    version: i16,
}

async fn add<'a>(
    shard: &Rc<Shard>,
    adding: &Adding<'a>,
    topics: &[AddPartitionsToTxnTopic<'a>],
) -> Vec<AddPartitionsToTxnTopicResult<'a>> {
    let mut partitions = Partitions::new();
    let mut unknown = Vec::new();
    let snapshot = shard.snapshot();
    for topic in topics {
        for index in &topic.partitions {
            if snapshot.partition(topic.name, *index).is_some() {
                partitions.entry(topic.name.to_owned()).or_default().insert(*index);
            } else {
                unknown.push((topic.name, *index));
            }
        }
    }
    let answered = if unknown.is_empty() {
        let request = TransactionRequest::AddPartitions(AddPartitions {
            transactional_id: adding.transactional_id.to_owned(),
            producer_id: ProducerId(adding.producer_id),
            producer_epoch: adding.producer_epoch,
            partitions,
            verify_only: adding.verify_only,
            client_version: 0,
        });
        ask(shard, adding.transactional_id, request).await
    } else {
        // As Kafka: none is added where one is not there.
        Err(ErrorCode::OperationNotAttempted)
    };
    let judged: BTreeMap<(&str, i32), ErrorCode> = match &answered {
        Ok(TransactionReply::Partitions(codes)) => {
            codes.iter().map(|(topic, index, code)| ((topic.as_str(), *index), *code)).collect()
        }
        _ => BTreeMap::new(),
    };
    let code = |topic: &str, index: i32| match &answered {
        Err(_) if unknown.contains(&(topic, index)) => ErrorCode::UnknownTopicOrPartition,
        Err(error) => fencing_code(*error, adding.version, FENCED_MIN),
        Ok(_) => judged.get(&(topic, index)).copied().unwrap_or(ErrorCode::UnknownServerError),
    };
    let row = |topic: &AddPartitionsToTxnTopic<'a>| AddPartitionsToTxnTopicResult {
        name: topic.name,
        results_by_partition: topic
            .partitions
            .iter()
            .map(|index| AddPartitionsToTxnPartitionResult {
                partition_index: *index,
                partition_error_code: code(topic.name, *index).code(),
            })
            .collect(),
    };
    topics.iter().map(row).collect()
}

/// Answers AddOffsetsToTxn: the partition that has a group's offsets becomes part of the transaction.
pub async fn add_offsets(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match AddOffsetsToTxnRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let added = async {
        let (topic, partition) = offsets_partition(shard, request.group_id).await?;
        let request_of = TransactionRequest::AddPartitions(AddPartitions {
            transactional_id: request.transactional_id.to_owned(),
            producer_id: ProducerId(request.producer_id),
            producer_epoch: request.producer_epoch,
            partitions: Partitions::from([(topic.to_owned(), [partition].into())]),
            verify_only: false,
            client_version: 0,
        });
        ask(shard, request.transactional_id, request_of).await
    };
    let error = added.await.err().unwrap_or(ErrorCode::None);
    let error_code = fencing_code(error, context.api_version, FENCED_MIN).code();
    let response = AddOffsetsToTxnResponse { error_code, ..AddOffsetsToTxnResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// The partition that has a group's offsets; its topic is made where it is not there.
///
/// # Errors
/// It could not be made.
pub async fn offsets_partition(shard: &Rc<Shard>, group_id: &str) -> Result<(&'static str, i32), ErrorCode> {
    let topic = InternalTopic::ConsumerOffsets;
    shard.ensure_internal_topic(topic).await.map_err(|error| {
        tracing::warn!(topic = topic.name(), %error, "an internal topic could not be made");
        ErrorCode::CoordinatorNotAvailable
    })?;
    let count = shard.snapshot().topic(topic.name()).map_or(0, |found| found.partitions.len());
    let count = i32::try_from(count).ok().filter(|count| *count > 0).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    Ok((topic.name(), partition_of(group_id, count)))
}

/// Answers EndTxn when the decision is safe; the markers follow.
pub async fn end(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let version = context.api_version;
    let request = match EndTxnRequest::decode(&mut Reader::new(body), version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let bumps = version >= BUMPS_EPOCHS_MIN;
    let ended = ask_for_producer(shard, request.transactional_id, |fresh| {
        TransactionRequest::End(End {
            transactional_id: request.transactional_id.to_owned(),
            producer_id: ProducerId(request.producer_id),
            producer_epoch: request.producer_epoch,
            is_commit: request.committed,
            client_version: if bumps { TRANSACTION_VERSION } else { 0 },
            fresh,
        })
    })
    .await;
    let mut response = EndTxnResponse::default();
    match ended {
        Ok((producer_id, producer_epoch)) if bumps => {
            (response.producer_id, response.producer_epoch) = (producer_id.0, producer_epoch);
        }
        Ok(_) => {}
        Err(error) => response.error_code = fencing_code(error, version, FENCED_MIN).code(),
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// The first version with many transactions.
const BATCHED_MIN: i16 = 4;
/// The first version whose clients know PRODUCER_FENCED.
const FENCED_MIN: i16 = 2;
/// The first version of EndTxn with a new epoch in the answer (KIP-890).
const BUMPS_EPOCHS_MIN: i16 = 5;
