//! Produce: batches are checked, get their offsets in order, are written, and acknowledged when they are safe.

use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use crate::api::client_append::{self, Client};
use crate::api::context::{Api, ConnectionState, RequestContext};
use crate::api::error_map::{self, Refusal};
use crate::api::forwarded_append::{self, ForwardedAppend, Landed, Until};
use crate::api::produce_check::{AsksFirst, Place, Ready, Refused, TopicName, check, refuse_whole};
use crate::api::reply::Outcome;
use crate::ring::buffer::Buffer;
use crate::shard::append::Appended;
use crate::shard::core::Shard;
use crate::shard::verification::Transactional;
use crate::wire::error_code::ErrorCode;
use crate::wire::frame;
use crate::wire::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
};
use crate::wire::produce::{ProduceFrame, ProduceResponseEncoder};
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
    let refused_whole = refuse_whole(&shard.snapshot(), &request, &names, &body, context.api_version);
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
                Some(refusal) => Err(Refused::from(refusal.clone())),
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
                match place {
                    Place::Here(partition) => partition.log().borrow_mut().refuse_append(&batch),
                    Place::There { core, id } => forwarded_append::refuse(shard, core, id, batch).await,
                }
                PartitionOutcome::Refused(refusal)
            }
            Ok(Ready { place: Place::Here(partition), records, batch, reserved, refusal: None }) => {
                held.extend(reserved);
                match client_append::start(shard, &partition, records, batch, &client).await {
                    Ok(appended) => {
                        let log_start = partition.log().borrow().offsets().log_start.get();
                        PartitionOutcome::Appended { appended, log_start }
                    }
                    Err(refusal) => PartitionOutcome::Refused(refusal),
                }
            }
            Ok(Ready { place: Place::There { core, id }, records, batch, reserved, refusal: None }) => {
                held.extend(reserved);
                let until = match request.acks {
                    0 => Until::Written,
                    _ => Until::Durable { timeout_ms: u64::try_from(request.timeout_ms).unwrap_or(0) },
                };
                let sent = forwarded_append::send(shard, core, id, &records, batch, client.clone(), until).await;
                PartitionOutcome::Forwarded(sent)
            }
            Err(refused) => PartitionOutcome::Refused(Box::pin(first_refusal(shard, refused, &client)).await),
        });
    }
    drop(ticket);

    if request.acks == 0 {
        return finish_unacknowledged(shard, outcomes).await;
    }
    wait_durable(shard, &mut outcomes, request.timeout_ms).await;
    encode(shard, context, &request, &names, &outcomes)
}

/// What is told of a batch that is refused: what the coordinator of its transaction says against it comes first, in Kafka.
async fn first_refusal(shard: &Rc<Shard>, refused: Refused, client: &Client) -> Refusal {
    let Refused { refusal, asks_first } = refused;
    let Some(AsksFirst { place, producer }) = asks_first else { return refusal };
    let verified = match place {
        Place::Here(partition) => client_append::verify(shard, &partition, producer, client).await,
        Place::There { core, id } => forwarded_append::verify(shard, core, id, producer, client.clone()).await,
    };
    verified.err().unwrap_or(refusal)
}

/// Cuts the records at `range` (of the body as it was received) out, in order; `cut_to` is how far that has gone.
fn cut(body: &mut Buffer, cut_to: &mut usize, range: Range<usize>) -> Buffer {
    debug_assert!(range.start >= *cut_to, "the parser goes forward");
    body.advance(range.start - *cut_to);
    *cut_to = range.end;
    body.split_to(range.end - range.start)
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
