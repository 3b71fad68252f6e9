//! Produce: batches are checked, get their offsets in order, are written, and acknowledged when they are safe.

use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use crate::api::context::{Api, ConnectionState, RequestContext};
use crate::api::error_map::{self, Refusal};
use crate::api::reply::Outcome;
use crate::record::check::{CheckedBatch, DeepCheck, Progress};
use crate::record::compression::Compression;
use crate::record::offset::{PartitionId, TopicId};
use crate::record::record_tally::AppendLimits;
use crate::ring::buffer::Buffer;
use crate::shard::append::{self, Appended};
use crate::shard::core::Shard;
use crate::shard::memory::Reservation;
use crate::shard::partition::Partition;
use crate::shard::recompression::{self, Recompression, RecompressionFailure};
use crate::shard::router::Route;
use crate::wire::error_code::ErrorCode;
use crate::wire::frame;
use crate::wire::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
};
use crate::wire::produce::{ProduceFrame, ProduceResponseEncoder};
use crate::wire::topic_ref::{Topic, TopicRef};
use crate::wire::writer::EncodeError;

/// How one partition of a request came out.
enum PartitionOutcome {
    /// It has its offsets; the write may still be under way.
    Appended { appended: Appended, log_start: i64 },
    /// Nothing was appended.
    Refused(Refusal),
}

/// A batch that may be appended.
struct Ready {
    partition: Rc<Partition>,
    records: Buffer,
    batch: CheckedBatch,
    /// Memory that it needs beyond its frame's.
    reserved: Vec<Reservation>,
    /// Set where it may not, for a reason that passes: it is refused in its turn.
    refusal: Option<Refusal>,
}

/// Answers Produce. Appends of one connection get their offsets in the order of its requests.
pub async fn handle(
    api: &Rc<Api>,
    connection: &Rc<ConnectionState>,
    context: &RequestContext,
    mut body: Buffer,
) -> Outcome {
    let ticket = connection.take_ticket();
    let shard = api.shard();
    let request = match ProduceFrame::parse(&body, context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    // What the reply says of topics, before their records are cut out of the body.
    let names: Vec<TopicName> = request.topics.iter().map(|topic| TopicName::of(topic.topic, &body)).collect();
    let refused_whole = refuse_whole(&request);

    let mut outcomes = Vec::with_capacity(request.partitions.len());
    let mut checked = Vec::with_capacity(request.partitions.len());
    let mut cut_to = 0;
    for (topic, name) in request.topics.iter().zip(&names) {
        for wanted in &request.partitions[topic.partitions.clone()] {
            let records = wanted.records.clone().map(|range| cut(&mut body, &mut cut_to, range));
            checked.push(match &refused_whole {
                Some(refusal) => Err(refusal.clone()),
                None => check(shard, name, wanted.index, records, &request, context.api_version).await,
            });
        }
    }
    drop(body);
    ticket.wait_turn().await;
    // Held until the request is answered, as its frame's memory is.
    let mut held = Vec::new();
    for checked in checked {
        outcomes.push(match checked {
            Ok(Ready { partition, batch, refusal: Some(refusal), .. }) => {
                // What its producer sent behind it may not go before it.
                partition.log().borrow_mut().refuse_append(&batch);
                PartitionOutcome::Refused(refusal)
            }
            Ok(Ready { partition, records, batch, reserved, refusal: None }) => {
                held.extend(reserved);
                match append::start(shard, &partition, records, &batch).await {
                    Ok(appended) => {
                        let log_start = partition.log().borrow().offsets().log_start.get();
                        PartitionOutcome::Appended { appended, log_start }
                    }
                    Err(failure) => PartitionOutcome::Refused(error_map::append_failure(&failure)),
                }
            }
            Err(refusal) => PartitionOutcome::Refused(refusal),
        });
    }
    drop(ticket);

    if request.acks == 0 {
        return finish_unacknowledged(shard, outcomes).await;
    }
    wait_durable(shard, &mut outcomes, request.timeout_ms).await;
    encode(shard, context, &request, &names, &outcomes)
}

/// The topic of a request, kept apart from its body.
enum TopicName {
    Name(String),
    Id([u8; 16]),
}

impl TopicName {
    fn of(topic: TopicRef, body: &[u8]) -> Self {
        match topic.resolve(body) {
            Topic::Name(name) => Self::Name(name.to_owned()),
            Topic::Id(id) => Self::Id(id.0),
        }
    }

    fn as_topic(&self) -> Topic<'_> {
        match self {
            Self::Name(name) => Topic::Name(name),
            Self::Id(id) => Topic::Id(crate::wire::uuid::Uuid(*id)),
        }
    }
}

/// Cuts the records at `range` (of the body as it was received) out, in order; `cut_to` is how far that has gone.
fn cut(body: &mut Buffer, cut_to: &mut usize, range: Range<usize>) -> Buffer {
    debug_assert!(range.start >= *cut_to, "the parser goes forward");
    body.advance(range.start - *cut_to);
    *cut_to = range.end;
    body.split_to(range.end - range.start)
}

/// What is wrong with the request as a whole: then each of its partitions is refused.
fn refuse_whole(request: &ProduceFrame) -> Option<Refusal> {
    if !(-1..=1).contains(&request.acks) {
        return Some(Refusal::new(ErrorCode::InvalidRequiredAcks));
    }
    None
}

/// Checks one partition's batch: whether it may be appended here, and whether it is whole.
async fn check(
    shard: &Rc<Shard>,
    topic: &TopicName,
    index: i32,
    records: Option<Buffer>,
    request: &ProduceFrame,
    version: i16,
) -> Result<Ready, Refusal> {
    let snapshot = shard.snapshot();
    let found = match topic {
        TopicName::Name(name) => snapshot.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition),
        TopicName::Id(id) => snapshot.topic_by_id(TopicId(*id)).ok_or(ErrorCode::UnknownTopicId),
    };
    let topic = found.map_err(Refusal::new)?;
    let partition = match shard.route(PartitionId { topic_id: topic.id, partition: index }) {
        Route::Here(partition) => partition,
        Route::Elsewhere { core, leader_epoch } => return Err(Refusal::led_by(core, leader_epoch)),
        Route::NotReady { offline: true } => return Err(Refusal::new(ErrorCode::KafkaStorageError)),
        Route::NotReady { offline: false } => return Err(Refusal::new(ErrorCode::NotLeaderOrFollower)),
        Route::Unknown => return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition)),
    };
    let mut records = records
        .ok_or_else(|| Refusal::with_message(ErrorCode::InvalidRecord, "The partition has no records.".to_owned()))?;
    let limits = AppendLimits { now_ms: shard.io().wall_ms(), ..partition.limits().append };
    let mut check = DeepCheck::begin(&records, &limits).map_err(|error| error_map::batch_error(&error))?;
    if check.compression() == Some(Compression::Zstd) && version < ZSTD_MIN {
        return Err(Refusal::with_message(
            ErrorCode::UnsupportedCompressionType,
            format!("Produce requests with version {version} are not allowed to use ZStandard compression"),
        ));
    }
    let batch = loop {
        match check.step(&records, CHECK_BYTES_A_TURN).map_err(|error| error_map::batch_error(&error))? {
            Progress::Done(batch) => break batch,
            Progress::More => shard.io().yield_now().await,
        }
    };
    if batch.is_transactional() {
        return Err(match request.transactional_id {
            // As Kafka: a transactional batch without an id is refused as not authorized.
            None => Refusal::new(ErrorCode::TransactionalIdAuthorizationFailed),
            Some(_) => Refusal::with_message(
                ErrorCode::InvalidTxnState,
                "Transactions are not served by this version of the server.".to_owned(),
            ),
        });
    }
    records.truncate(batch.len_bytes as usize);
    let Some(codec) = check.recompression() else {
        return Ok(Ready { partition, records, batch, reserved: Vec::new(), refusal: None });
    };
    let wanted = Recompression {
        header: check.header(),
        checked: &batch,
        codec,
        records_bytes: check.records_bytes(),
        batch_bytes_max: limits.max_message_bytes,
    };
    match recompression::recompress(shard, records, wanted).await {
        Ok(done) => {
            Ok(Ready { partition, records: done.records, batch: done.checked, reserved: done.reserved, refusal: None })
        }
        Err(RecompressionFailure::Batch(error)) => Err(error_map::batch_error(&error)),
        Err(failure @ RecompressionFailure::NoMemory) => {
            // Kafka has no word for it; this is one after which clients try again.
            let refusal = Refusal::with_message(ErrorCode::RequestTimedOut, failure.to_string());
            let records = Buffer::from_vec(Vec::new());
            Ok(Ready { partition, records, batch, reserved: Vec::new(), refusal: Some(refusal) })
        }
    }
}

/// acks=0: nothing is answered, and an error closes the connection, as in Kafka. The writes are waited for (not their
/// syncs), so that a client cannot pile up more than its connection's share.
async fn finish_unacknowledged(shard: &Rc<Shard>, outcomes: Vec<PartitionOutcome>) -> Outcome {
    for outcome in &outcomes {
        match outcome {
            PartitionOutcome::Refused(refusal) => {
                return Outcome::Close(format!("a produce with acks=0 failed: {}", refusal.text()));
            }
            PartitionOutcome::Appended { appended, .. } => {
                if let Err(failure) = appended.wait_written(shard.io()).await {
                    return Outcome::Close(format!("a produce with acks=0 failed: {failure}"));
                }
            }
        }
    }
    Outcome::NoReply
}

/// Waits for each append to be safe, up to the client's time limit.
async fn wait_durable(shard: &Rc<Shard>, outcomes: &mut [PartitionOutcome], timeout_ms: i32) {
    let io = shard.io();
    let deadline = io.now().plus_ms(u64::try_from(timeout_ms).unwrap_or(0));
    let mut timer = None;
    for outcome in outcomes {
        let PartitionOutcome::Appended { appended, .. } = outcome else { continue };
        let waited = poll_fn(|_| match appended.poll_durable(io) {
            Poll::Ready(waited) => Poll::Ready(Some(waited)),
            Poll::Pending if io.now() >= deadline => Poll::Ready(None),
            Poll::Pending => {
                timer.get_or_insert_with(|| io.wake_at(deadline));
                Poll::Pending
            }
        })
        .await;
        match waited {
            Some(Ok(())) => {}
            Some(Err(failure)) => *outcome = PartitionOutcome::Refused(error_map::append_failure(&failure)),
            None => *outcome = PartitionOutcome::Refused(Refusal::new(ErrorCode::RequestTimedOut)),
        }
    }
}

fn encode(
    shard: &Shard,
    context: &RequestContext,
    request: &ProduceFrame,
    names: &[TopicName],
    outcomes: &[PartitionOutcome],
) -> Outcome {
    let mut out = Vec::with_capacity(64 + 64 * outcomes.len());
    let header_version = context.api_key.response_header_version(context.api_version);
    let open = frame::begin_frame(&mut out, context.correlation_id, header_version);
    match encode_body(shard, &mut out, context.api_version, request, names, outcomes).and_then(|()| open.end(&mut out))
    {
        Ok(()) => Outcome::Bytes(out),
        Err(error) => Outcome::Close(format!("the reply to Produce could not be encoded: {error}")),
    }
}

fn encode_body(
    shard: &Shard,
    out: &mut Vec<u8>,
    version: i16,
    request: &ProduceFrame,
    names: &[TopicName],
    outcomes: &[PartitionOutcome],
) -> Result<(), EncodeError> {
    let mut leaders = Vec::new();
    let mut encoder = ProduceResponseEncoder::new(out, version, request.topics.len())?;
    for (topic, name) in request.topics.iter().zip(names) {
        encoder.topic(name.as_topic(), topic.partitions.len())?;
        for at in topic.partitions.clone() {
            let index = request.partitions[at].index;
            match &outcomes[at] {
                PartitionOutcome::Appended { appended, log_start } => encoder.partition(&PartitionProduceResponse {
                    index,
                    base_offset: appended.base_offset.get(),
                    log_append_time_ms: appended.log_append_time_ms.unwrap_or(-1),
                    log_start_offset: *log_start,
                    ..PartitionProduceResponse::default()
                })?,
                PartitionOutcome::Refused(refusal) => {
                    if let Some((core, _)) = refusal.leader
                        && !leaders.contains(&core)
                    {
                        leaders.push(core);
                    }
                    encoder.partition(&refused(shard, index, refusal, version))?;
                }
            }
        }
    }
    let options = shard.options();
    let endpoints: Vec<NodeEndpoint<'_>> = leaders
        .iter()
        .filter_map(|core| options.brokers.get(*core as usize))
        .map(|broker| NodeEndpoint { node_id: broker.id, host: &broker.host, port: i32::from(broker.port), rack: None })
        .collect();
    encoder.end(0, &endpoints)
}

fn refused<'a>(shard: &Shard, index: i32, refusal: &'a Refusal, version: i16) -> PartitionProduceResponse<'a> {
    let mut response = PartitionProduceResponse {
        index,
        error_code: refusal.error.code(),
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
        ..PartitionProduceResponse::default()
    };
    if version >= 8 {
        response.error_message = refusal.message.as_deref();
        response.record_errors = refusal
            .record_index
            .iter()
            .map(|batch_index| BatchIndexAndErrorMessage { batch_index: *batch_index, ..Default::default() })
            .collect();
    }
    if let Some((core, leader_epoch)) = refusal.leader
        && version >= crate::wire::produce::LEADER_MIN
        && let Some(broker) = shard.options().brokers.get(core as usize)
    {
        response.current_leader = LeaderIdAndEpoch { leader_id: broker.id, leader_epoch: leader_epoch.get() };
    }
    response
}

/// The first version in which a batch may be compressed with zstd (KIP-110).
const ZSTD_MIN: i16 = 7;
/// Bytes (before compression) that a check goes through before others have their turn: about 100 us.
const CHECK_BYTES_A_TURN: usize = 256 * 1024;
