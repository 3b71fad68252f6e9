//! Produce: batches are checked, get their offsets in order, are written, and acknowledged when they are safe.

use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use crate::api::context::{Api, ConnectionState, RequestContext};
use crate::api::error_map::{self, Refusal};
use crate::api::forwarded_append::{self, Client, ForwardedAppend, Landed, Until};
use crate::api::reply::Outcome;
use crate::control::internal_topics::is_internal;
use crate::record::batch_error::{BatchError, Invalidity};
use crate::record::check::{CheckedBatch, DeepCheck, Progress, begins_transactional, first_codec};
use crate::record::compression::Compression;
use crate::record::offset::{PartitionId, ProducerId, TopicId};
use crate::record::record_tally::AppendLimits;
use crate::ring::buffer::Buffer;
use crate::shard::append::{self, Appended};
use crate::shard::core::Shard;
use crate::shard::memory::Reservation;
use crate::shard::partition::Partition;
use crate::shard::recompression::{self, Recompression, RecompressionFailure};
use crate::shard::router::Route;
use crate::shard::topic_limits::TopicLimits;
use crate::shard::verification::{self, Transactional};
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
    /// It is on its way to the core that leads the partition.
    Forwarded(ForwardedAppend),
    /// It is in the log of a partition that another core leads.
    Landed(Landed),
    /// Nothing was appended.
    Refused(Refusal),
}

/// A batch that may be appended.
struct Ready {
    place: Place,
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
    let refused_whole = refuse_whole(&request, &body);
    let transactional = request.transactional_id.map(|id| Transactional {
        transactional_id: id.text(&body).to_owned(),
        adds: context.api_version >= error_map::ADDS_PARTITIONS_MIN,
    });

    let client = Client { transactional, version: context.api_version };
    let mut outcomes = Vec::with_capacity(request.partitions.len());
    let mut checked = Vec::with_capacity(request.partitions.len());
    let mut cut_to = 0;
    for (topic, name) in request.topics.iter().zip(&names) {
        for wanted in &request.partitions[topic.partitions.clone()] {
            let records = wanted.records.clone().map(|range| cut(&mut body, &mut cut_to, range));
            checked.push(match &refused_whole {
                Some(refusal) => Err(refusal.clone()),
                None => check(shard, name, wanted.index, records, &request, context).await,
            });
        }
    }
    drop(body);
    ticket.wait_turn().await;
    // Held until the request is answered, as its frame's memory is.
    let mut held = Vec::new();
    for checked in checked {
        outcomes.push(match checked {
            Ok(Ready { place, batch, refusal: Some(refusal), .. }) => {
                // What its producer sent behind it may not go before it.
                if let Place::Here(partition) = place {
                    partition.log().borrow_mut().refuse_append(&batch);
                }
                PartitionOutcome::Refused(refusal)
            }
            Ok(Ready { place: Place::Here(partition), records, batch, reserved, refusal: None }) => {
                held.extend(reserved);
                append_here(shard, &partition, records, batch, &client).await
            }
            Ok(Ready { place: Place::There { core, id }, records, batch, reserved, refusal: None }) => {
                held.extend(reserved);
                let until = match request.acks {
                    0 => Until::Written,
                    _ => Until::Durable { timeout_ms: u64::try_from(request.timeout_ms).unwrap_or(0) },
                };
                let transactional = client.transactional.clone().filter(|_| batch.is_transactional());
                let client = Client { transactional, version: client.version };
                let sent = forwarded_append::send(shard, core, id, &records, batch, client, until).await;
                PartitionOutcome::Forwarded(sent)
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

/// Gives a batch its offsets; the first one of a transaction when its coordinator has said that it may.
async fn append_here(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    records: Buffer,
    mut batch: CheckedBatch,
    client: &Client,
) -> PartitionOutcome {
    if let Some(transactional) = client.transactional.as_ref().filter(|_| batch.is_transactional())
        && let Err(failure) = verification::verify(shard, partition, &mut batch, transactional).await
    {
        return PartitionOutcome::Refused(error_map::verification_failure(failure, client.version));
    }
    match append::start(shard, partition, records, &batch).await {
        Ok(appended) => {
            let log_start = partition.log().borrow().offsets().log_start.get();
            PartitionOutcome::Appended { appended, log_start }
        }
        Err(failure) => {
            let log_start = partition.log().borrow().offsets().log_start;
            let refusal = error_map::append_failure(&failure);
            // Kafka's coordinator refuses such an epoch before the log is asked.
            let is_coordinators = client.transactional.is_some()
                && batch.is_transactional()
                && refusal.error == ErrorCode::InvalidProducerEpoch;
            PartitionOutcome::Refused(if is_coordinators { refusal } else { refusal.at(log_start) })
        }
    }
}

/// Where a batch is appended.
enum Place {
    Here(Rc<Partition>),
    There { core: usize, id: PartitionId },
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
///
/// Kafka asks first whether any batch is part of a transaction, and stops at the first that is, or that cannot be read.
fn refuse_whole(request: &ProduceFrame, body: &[u8]) -> Option<Refusal> {
    let all = request.partitions.iter().filter_map(|wanted| body.get(wanted.records.clone()?));
    for records in all {
        match begins_transactional(records) {
            // As Kafka: a transactional batch without an id is refused as not authorized.
            Ok(true) if request.transactional_id.is_none() => {
                return Some(Refusal::new(ErrorCode::TransactionalIdAuthorizationFailed));
            }
            Ok(true) => return None,
            Ok(false) => {}
            Err(error) => return Some(error_map::batch_error(&error)),
        }
    }
    None
}

/// Kafka looks at this of each partition's records before it looks at what the request asks of all (its acks).
fn is_seen_first(error: &BatchError) -> bool {
    let shape = [Invalidity::NoBatch, Invalidity::OldMagic, Invalidity::SecondBatch];
    matches!(error, BatchError::Corrupt(_)) || matches!(error, BatchError::Invalid(cause) if shape.contains(cause))
}

/// A codec that came with a later version. Kafka looks for it when it has seen the first batch, and not whether another follows.
fn is_early_zstd(version: i16, records: &[u8]) -> bool {
    version < ZSTD_MIN && first_codec(records) == Some(Compression::Zstd)
}

/// Checks one partition's batch: whether it may be appended here, and whether it is whole.
async fn check(
    shard: &Rc<Shard>,
    topic: &TopicName,
    index: i32,
    records: Option<Buffer>,
    request: &ProduceFrame,
    context: &RequestContext,
) -> Result<Ready, Refusal> {
    // Kept of the client's name only where it is this one.
    let (version, may_write_internal) = (context.api_version, context.client_id.is_some());
    let snapshot = shard.snapshot();
    let found = match topic {
        TopicName::Name(name) => snapshot.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition),
        TopicName::Id(id) => snapshot.topic_by_id(TopicId(*id)).ok_or(ErrorCode::UnknownTopicId),
    };
    let topic = found.map_err(Refusal::new)?;
    if is_internal(&topic.name) && !may_write_internal {
        let message = format!("Cannot append to internal topic {}", topic.name);
        return Err(Refusal::with_message(ErrorCode::InvalidTopicException, message));
    }
    let id = PartitionId { topic_id: topic.id, partition: index };
    let acks_refusal = match request.acks {
        -1..=1 => Ok(()),
        _ => Err(Refusal::new(ErrorCode::InvalidRequiredAcks)),
    };
    let (place, limits) = match shard.route(id) {
        Route::Here(partition) => {
            let limits = partition.limits();
            (Place::Here(partition), limits)
        }
        Route::Unknown => return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition)),
        Route::There { core } => (Place::There { core, id }, TopicLimits::of(shard.options(), &topic.configs)),
        _ if acks_refusal.is_err() => return Err(Refusal::new(ErrorCode::InvalidRequiredAcks)),
        Route::Elsewhere { core, leader_epoch } => return Err(Refusal::led_by(core, leader_epoch)),
        Route::NotReady { offline: true } => return Err(Refusal::new(ErrorCode::KafkaStorageError)),
        Route::NotReady { offline: false } => return Err(Refusal::new(ErrorCode::NotLeaderOrFollower)),
    };
    let mut records = records
        .ok_or_else(|| Refusal::with_message(ErrorCode::InvalidRecord, "The partition has no records.".to_owned()))?;
    let limits = AppendLimits { now_ms: shard.io().wall_ms(), ..limits.append };
    let refused = |error: BatchError| match &place {
        Place::Here(partition) => error_map::batch_error(&error).at(partition.log().borrow().offsets().log_start),
        Place::There { .. } => error_map::batch_error(&error),
    };
    let begun = DeepCheck::begin(&records, &limits);
    let has_second = matches!(begun, Err(BatchError::Invalid(Invalidity::SecondBatch)));
    if let Err(error) = &begun
        && is_seen_first(error)
        && !(has_second && is_early_zstd(version, &records))
    {
        return Err(error_map::batch_error(error));
    }
    if is_early_zstd(version, &records) {
        return Err(Refusal::with_message(
            ErrorCode::UnsupportedCompressionType,
            format!("Produce requests with version {version} are not allowed to use ZStandard compression"),
        ));
    }
    acks_refusal?;
    let mut check = begun.map_err(refused)?;
    let batch = loop {
        match check.step(&records, CHECK_BYTES_A_TURN).map_err(refused)? {
            Progress::Done(batch) => break batch,
            Progress::More => shard.io().yield_now().await,
        }
    };
    records.truncate(batch.len_bytes as usize);
    let Some(codec) = check.recompression() else {
        return Ok(Ready { place, records, batch, reserved: Vec::new(), refusal: None });
    };
    if batch.producer_id != ProducerId::NONE && (batch.producer_epoch < 0 || batch.base_sequence < 0) {
        // Kafka cannot write a batch of such a producer anew, though it takes one as it comes.
        return Err(refused(BatchError::Undecodable));
    }
    let wanted = Recompression {
        header: check.header(),
        checked: &batch,
        codec,
        records_bytes: check.records_bytes(),
        batch_bytes_max: limits.max_message_bytes,
    };
    match recompression::recompress(shard, records, wanted).await {
        Ok(done) => {
            Ok(Ready { place, records: done.records, batch: done.checked, reserved: done.reserved, refusal: None })
        }
        Err(RecompressionFailure::Batch(error)) => Err(refused(error)),
        Err(failure @ RecompressionFailure::NoMemory) => {
            // Kafka has no word for it; this is one after which clients try again.
            let refusal = Refusal::with_message(ErrorCode::RequestTimedOut, failure.to_string());
            let records = Buffer::from_vec(Vec::new());
            Ok(Ready { place, records, batch, reserved: Vec::new(), refusal: Some(refusal) })
        }
    }
}

/// acks=0: nothing is answered, and an error closes the connection, as in Kafka. The writes are waited for (not their
/// syncs), so that a client cannot pile up more than its connection's share.
async fn finish_unacknowledged(shard: &Rc<Shard>, outcomes: Vec<PartitionOutcome>) -> Outcome {
    for outcome in outcomes {
        match outcome {
            PartitionOutcome::Refused(refusal) => {
                return Outcome::Close(format!("a produce with acks=0 failed: {}", refusal.text()));
            }
            PartitionOutcome::Forwarded(append) => {
                if let Err(refusal) = forwarded_append::outcome(append).await {
                    return Outcome::Close(format!("a produce with acks=0 failed: {}", refusal.text()));
                }
            }
            PartitionOutcome::Landed(_) => {}
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
        if matches!(outcome, PartitionOutcome::Forwarded(_)) {
            let placeholder = PartitionOutcome::Refused(Refusal::new(ErrorCode::NotLeaderOrFollower));
            if let PartitionOutcome::Forwarded(append) = std::mem::replace(outcome, placeholder) {
                *outcome = match forwarded_append::outcome(append).await {
                    Ok(landed) => PartitionOutcome::Landed(landed),
                    Err(refusal) => PartitionOutcome::Refused(refusal),
                };
            }
        }
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
                PartitionOutcome::Appended { appended, log_start } => encoder.partition(&landed(
                    index,
                    appended.base_offset.get(),
                    appended.log_append_time_ms,
                    *log_start,
                ))?,
                PartitionOutcome::Landed(at) => {
                    encoder.partition(&landed(index, at.base_offset, at.log_append_time_ms, at.log_start))?;
                }
                PartitionOutcome::Forwarded(_) => unreachable!("all appends were waited for"),
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

fn landed(
    index: i32,
    base_offset: i64,
    log_append_time_ms: Option<i64>,
    log_start_offset: i64,
) -> PartitionProduceResponse<'static> {
    PartitionProduceResponse {
        index,
        base_offset,
        log_append_time_ms: log_append_time_ms.unwrap_or(-1),
        log_start_offset,
        ..PartitionProduceResponse::default()
    }
}

fn refused<'a>(shard: &Shard, index: i32, refusal: &'a Refusal, version: i16) -> PartitionProduceResponse<'a> {
    let mut response = PartitionProduceResponse {
        index,
        error_code: refusal.error.code(),
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: refusal.log_start_offset,
        ..PartitionProduceResponse::default()
    };
    if version >= 8 {
        response.error_message = refusal.message.as_deref();
        response.record_errors = refusal
            .record_indexes
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
