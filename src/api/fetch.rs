//! Fetch: ranges of segments, sent as they lie in the files; waits for new records where there are too few.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use crate::api::context::{Api, RequestContext};
use crate::api::fetch_session::{SessionKind, SessionRequest, Telling, TopicKey, WantedPartition};
use crate::api::partition_read::{Ask, Budget, Found, read_one};
use crate::api::remote_fetch;
use crate::api::reply::Outcome;
use crate::api::tier_reads::{self, Patience, TierReads};
use crate::record::offset::{Offset, PartitionId, TopicId};
use crate::ring::send_queue::Part;
use crate::ring::task::TaskId;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;
use crate::shard::read::RangeSource;
use crate::shard::remote_bytes::RemoteBytes;
use crate::shard::remote_read;
use crate::shard::router::Route;
use crate::shard::watch::{RemoteWatch, Seen};
use crate::wire::error_code::ErrorCode;
use crate::wire::fetch::FetchFrame;
use crate::wire::fetch_reply::{FetchRecords, FetchResponseEncoder, FetchResponseHead, RecordsCut};
use crate::wire::frame;
use crate::wire::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use crate::wire::topic_ref::{Topic, TopicRef};
use crate::wire::writer::EncodeError;

/// Answers Fetch.
pub async fn handle(api: &Rc<Api>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match FetchFrame::parse(body, context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let shard = api.shard();
    let io = shard.io();
    let session_request = session_request(&request, body, context.api_version);
    let now_ms = io.now().0 / 1_000_000;
    let begun = api.sessions().borrow_mut().begin(session_request, now_ms, io.random_u64());
    let (kind, wanted) = match begun {
        Ok(begun) => begun,
        Err(error) => return encode(api, context, error, SessionKind::Sessionless, &[], Vec::new()),
    };
    let bytes_max = i64::from(request.max_bytes).min(i64::from(shard.options().fetch_bytes_max));
    let limits = Limits {
        // Who wants more at least than at most gets what he may have.
        bytes_min: u64::try_from(request.min_bytes).unwrap_or(0).min(u64::try_from(bytes_max).unwrap_or(0)),
        bytes_max,
        wait_ms: u64::try_from(request.max_wait_ms).unwrap_or(0),
        read_committed: request.isolation_level == READ_COMMITTED,
    };
    let found = read_or_wait(shard, &wanted, &limits).await;
    encode(api, context, ErrorCode::None, kind, &wanted, found)
}

struct Limits {
    bytes_min: u64,
    bytes_max: i64,
    wait_ms: u64,
    read_committed: bool,
}

fn session_request(request: &FetchFrame, body: &[u8], version: i16) -> SessionRequest {
    // One name for all partitions of a topic.
    let mut last: Option<(TopicRef, TopicKey)> = None;
    let mut key_of = |topic: TopicRef| match &last {
        Some((known, key)) if *known == topic => key.clone(),
        _ => {
            let key = match topic.resolve(body) {
                Topic::Name(name) => TopicKey::Name(Rc::from(name)),
                Topic::Id(id) => TopicKey::Id(id),
            };
            last = Some((topic, key.clone()));
            key
        }
    };
    SessionRequest {
        id: request.session_id,
        epoch: request.session_epoch,
        by_topic_id: version >= TOPIC_ID_MIN,
        wanted: request
            .partitions
            .iter()
            .map(|wanted| WantedPartition {
                topic: key_of(wanted.topic),
                partition: wanted.partition,
                current_leader_epoch: wanted.current_leader_epoch,
                fetch_offset: wanted.fetch_offset,
                last_fetched_epoch: wanted.last_fetched_epoch,
                bytes_max: wanted.partition_max_bytes,
            })
            .collect(),
        forgotten: request.forgotten.iter().map(|gone| (key_of(gone.topic), gone.partition)).collect(),
    }
}

/// Reads; and where that is too little and nothing is wrong, waits for more until the client's time is up.
async fn read_or_wait(shard: &Rc<Shard>, wanted: &[WantedPartition], limits: &Limits) -> Vec<Found> {
    let io = shard.io();
    let deadline = io.now().plus_ms(limits.wait_ms);
    let mut timer = None;
    loop {
        let ReadAll { found, partitions, remote, asked_tier } = read_all(shard, wanted, limits).await;
        let bytes = found.iter().fold(0, |bytes: u64, found| bytes.saturating_add(found.available_bytes));
        // What is missing ends no wait for the others, as in Kafka.
        let is_final =
            |found: &Found| (found.error != ErrorCode::None && !found.is_missing()) || found.diverging.is_some();
        if bytes >= limits.bytes_min
            || asked_tier
            || (partitions.is_empty() && remote.is_empty())
            || found.iter().any(is_final)
            || shard.is_stopping()
            || io.now() >= deadline
        {
            return found;
        }
        // The bytes that are there are looked up again then: the log may have been cut meanwhile.
        let Some(watches) = watch_all(shard, &remote).await else { continue };
        let _waiting = Waiting { task: io.current_task(), partitions: &partitions, watches: &watches };
        timer.get_or_insert_with(|| io.wake_at(deadline));
        // A log that begins later, too, may change the answer.
        let seen: Vec<Seen> = partitions.iter().map(|partition| partition.seen()).collect();
        poll_fn(|_| {
            let moved =
                |(partition, seen): (&Rc<Partition>, &Seen)| !partition.is_online() || partition.seen() != *seen;
            if partitions.iter().zip(&seen).any(moved) || shard.is_stopping() || io.now() >= deadline {
                return Poll::Ready(());
            }
            if watches.iter().any(|watch| watch.poll_moved(io)) {
                return Poll::Ready(());
            }
            for partition in &partitions {
                partition.progress().wait(io.current_task());
            }
            Poll::Pending
        })
        .await;
    }
}

/// Takes the task off the lists of partitions when its fetch is over, however it ends.
struct Waiting<'a> {
    task: TaskId,
    partitions: &'a [Rc<Partition>],
    watches: &'a [Rc<RemoteWatch>],
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        for partition in self.partitions {
            partition.progress().forget(self.task);
        }
        for watch in self.watches {
            watch.forget(self.task);
        }
    }
}

/// A partition of another core, and what was seen of it.
type Remote = (usize, PartitionId, Seen);

/// What one look at all partitions has found.
struct ReadAll {
    found: Vec<Found>,
    /// Those of this core.
    partitions: Vec<Rc<Partition>>,
    remote: Vec<Remote>,
    /// The tier has had its time: there is no other wait, as in Kafka.
    asked_tier: bool,
}

async fn read_all(shard: &Rc<Shard>, wanted: &[WantedPartition], limits: &Limits) -> ReadAll {
    let mut all: Vec<Found> = Vec::with_capacity(wanted.len());
    let mut partitions = Vec::with_capacity(wanted.len());
    let mut remote = Vec::new();
    // The first batch of the first partition that has any comes whole, however small the limits: KIP-74.
    let mut budget = Budget { left_bytes: limits.bytes_max, whole_first_batch: true };
    let mut places: VecDeque<Place> = wanted.iter().map(|wanted| find(shard, wanted)).collect();
    let is_elsewhere = remote_read::is_elsewhere(shard);
    let here: Vec<(Rc<Partition>, Ask)> = places
        .iter()
        .filter_map(|place| match place {
            Place::Here(partition, ask) if is_elsewhere => Some((partition.clone(), *ask)),
            _ => None,
        })
        .collect();
    let (bytes_max, read_committed) = (limits.bytes_max, limits.read_committed);
    let until = tier_reads::deadline(shard);
    // Neighbours of one other core go together; where there is more than that, its wait for the tier is not added to others'.
    let mut there: BTreeMap<usize, Vec<Ask>> = BTreeMap::new();
    if remote_fetch::is_scattered(shard, places.iter().map(Place::core)) {
        for place in &places {
            if let Place::There(core, ask) = place {
                there.entry(*core).or_default().push(*ask);
            }
        }
    }
    let mut begun = pin!(remote_fetch::begin_tier_reads(shard, there, bytes_max, read_committed, until));
    // What lies on other cores has a wait of its own, which is no shorter.
    let is_here = places.iter().all(|place| place.core().is_none());
    let patience = Patience { until, enough_bytes: is_here.then_some(limits.bytes_min.max(1)) };
    let mut reading = pin!(TierReads::begin(shard, here.into_iter(), bytes_max, read_committed, patience));
    let (mut is_begun, mut read) = (false, None);
    let mut reads = poll_fn(|polled| {
        is_begun = is_begun || begun.as_mut().poll(polled).is_ready();
        if read.is_none()
            && let Poll::Ready(reads) = reading.as_mut().poll(polled)
        {
            read = Some(reads);
        }
        if is_begun { read.take().map_or(Poll::Pending, Poll::Ready) } else { Poll::Pending }
    })
    .await;
    let mut asked_tier = reads.is_any();
    while let Some(place) = places.pop_front() {
        match place {
            Place::Here(partition, ask) => {
                let found = read_one(shard, &partition, &ask, budget, limits.read_committed, &mut reads).await;
                partitions.push(partition);
                budget.take(&found);
                all.push(found);
            }
            Place::There(core, ask) => {
                // Neighbours of the same core go together.
                let mut asks = vec![ask];
                while let Some(Place::There(next, ask)) = places.front()
                    && *next == core
                {
                    asks.push(*ask);
                    places.pop_front();
                }
                let (there, asked) = remote_fetch::read(shard, core, &asks, budget, read_committed, until).await;
                asked_tier |= asked;
                for (found, ask) in there.into_iter().zip(&asks) {
                    budget.take(&found);
                    let seen = Seen {
                        high_watermark: Offset(found.high_watermark),
                        last_stable: Offset(found.last_stable),
                        log_start: Offset(found.log_start),
                    };
                    remote.push((core, ask.id, seen));
                    all.push(found);
                }
            }
            Place::Nowhere(found) => {
                if !found.is_missing() {
                    budget.take(&found);
                }
                all.push(*found);
            }
        }
    }
    ReadAll { found: all, partitions, remote, asked_tier }
}

/// Watches what lies on other cores. `None`: something has moved there already.
async fn watch_all(shard: &Rc<Shard>, remote: &[Remote]) -> Option<Vec<Rc<RemoteWatch>>> {
    let mut watches = Vec::with_capacity(remote.len());
    for group in remote.chunk_by(|(one, ..), (next, ..)| one == next) {
        let asked: Vec<(PartitionId, Seen)> = group.iter().map(|(_, id, seen)| (*id, *seen)).collect();
        watches.extend(shard.watch_on(group[0].0, &asked).await?);
    }
    Some(watches)
}

/// Where a partition is read.
enum Place {
    Here(Rc<Partition>, Ask),
    There(usize, Ask),
    /// Not: this is the answer.
    Nowhere(Box<Found>),
}

impl Place {
    /// The other core that reads it.
    fn core(&self) -> Option<usize> {
        match self {
            Self::There(core, _) => Some(*core),
            Self::Here(..) | Self::Nowhere(_) => None,
        }
    }
}

fn find(shard: &Rc<Shard>, wanted: &WantedPartition) -> Place {
    let nowhere = |found| Place::Nowhere(Box::new(found));
    let snapshot = shard.snapshot();
    let (topic, unknown) = match &wanted.topic {
        TopicKey::Name(name) => (snapshot.topic(name), ErrorCode::UnknownTopicOrPartition),
        TopicKey::Id(id) => (snapshot.topic_by_id(TopicId(id.0)), ErrorCode::UnknownTopicId),
    };
    let Some(topic) = topic else { return nowhere(Found::missing(unknown)) };
    let ask = Ask {
        id: PartitionId { topic_id: topic.id, partition: wanted.partition },
        // Each negative epoch is none to Kafka's Fetch.
        current_leader_epoch: wanted.current_leader_epoch.max(-1),
        fetch_offset: wanted.fetch_offset,
        last_fetched_epoch: wanted.last_fetched_epoch,
        bytes_max: wanted.bytes_max,
    };
    match shard.route(ask.id) {
        Route::Here(partition) => Place::Here(partition, ask),
        Route::There { core } => Place::There(core, ask),
        Route::Elsewhere { core, leader_epoch } => {
            nowhere(Found { leader: Some((core, leader_epoch)), ..Found::error(ErrorCode::NotLeaderOrFollower) })
        }
        Route::NotReady { offline: true } => nowhere(Found::error(ErrorCode::KafkaStorageError)),
        Route::NotReady { offline: false } => nowhere(Found::error(ErrorCode::NotLeaderOrFollower)),
        Route::Unknown => nowhere(Found::missing(ErrorCode::UnknownTopicOrPartition)),
    }
}

fn encode(
    api: &Api,
    context: &RequestContext,
    error: ErrorCode,
    kind: SessionKind,
    wanted: &[WantedPartition],
    mut found: Vec<Found>,
) -> Outcome {
    // Only what the client has not been told, in the order of service.
    let told: Vec<usize> = {
        let mut sessions = api.sessions().borrow_mut();
        // As Kafka: what is not there comes last, ids that are of no topic before partitions that no topic has.
        let mut in_order: Vec<usize> = (0..found.len()).collect();
        in_order.sort_by_key(|at| match found[*at].error {
            ErrorCode::UnknownTopicId => 1,
            ErrorCode::UnknownTopicOrPartition => 2,
            _ => 0,
        });
        in_order
            .into_iter()
            .filter(|at| {
                let (wanted, found) = (&wanted[*at], &found[*at]);
                let telling = Telling {
                    error: found.error,
                    high_watermark: found.high_watermark,
                    log_start: found.log_start,
                    records_bytes: found.records_bytes(),
                    diverges: found.diverging.is_some(),
                };
                sessions.tell(kind, &wanted.topic, wanted.partition, telling)
            })
            .collect()
    };
    let head = FetchResponseHead { error_code: error.code(), session_id: kind.reply_id(), ..Default::default() };
    let mut out = Vec::with_capacity(64 + 80 * told.len());
    let mut cuts = Vec::new();
    let header_version = context.api_key.response_header_version(context.api_version);
    let open = frame::begin_frame(&mut out, context.correlation_id, header_version);
    let encoded = encode_body(api.shard(), &mut out, &mut cuts, context.api_version, head, wanted, &found, &told)
        .and_then(|records_bytes| {
            api.shard().counters().bytes_fetched.add(records_bytes);
            open.end_with(&mut out, records_bytes)
        });
    if let Err(error) = encoded {
        return Outcome::Close(format!("the reply to Fetch could not be encoded: {error}"));
    }
    if cuts.is_empty() {
        return Outcome::Bytes(out);
    }
    let mut parts = Vec::with_capacity(2 * cuts.len() + 1);
    let mut from = 0;
    for cut in &cuts {
        parts.push(Part::Bytes(out[from..cut.position_bytes].to_vec()));
        from = cut.position_bytes;
        if let Some(range) = found[cut.slot].records.take() {
            match range.source {
                RangeSource::File(file) => parts.push(Part::File {
                    file,
                    position_bytes: range.plan.position_bytes,
                    len_bytes: u64::from(range.plan.len_bytes),
                }),
                RangeSource::Tier(bytes, _) => parts.extend(bytes.into_slices().into_iter().map(Part::Shared)),
                RangeSource::Memory(buffer) => {
                    parts.extend(RemoteBytes::of(buffer).into_slices().into_iter().map(Part::Shared))
                }
            }
        }
    }
    parts.push(Part::Bytes(out.split_off(from)));
    Outcome::Parts(parts)
}

#[allow(clippy::too_many_arguments, reason = "one pass over one reply: its parts have no life together elsewhere")]
fn encode_body(
    shard: &Shard,
    out: &mut Vec<u8>,
    cuts: &mut Vec<RecordsCut>,
    version: i16,
    head: FetchResponseHead,
    wanted: &[WantedPartition],
    found: &[Found],
    told: &[usize],
) -> Result<u64, EncodeError> {
    let by_topic: Vec<&[usize]> = told.chunk_by(|one, next| wanted[*one].topic == wanted[*next].topic).collect();
    let mut leaders: Vec<u32> = Vec::new();
    let mut encoder = FetchResponseEncoder::new(out, cuts, version, head, by_topic.len())?;
    for group in by_topic {
        let topic = match &wanted[group[0]].topic {
            TopicKey::Name(name) => Topic::Name(name),
            TopicKey::Id(id) => Topic::Id(*id),
        };
        encoder.topic(topic, group.len())?;
        for slot in group {
            let found = &found[*slot];
            if let Some((core, _)) = found.leader
                && !leaders.contains(&core)
            {
                leaders.push(core);
            }
            let records = match found.records_bytes() {
                0 => FetchRecords::Inline(&[]),
                len_bytes => {
                    FetchRecords::Range { slot: *slot, len_bytes: u32::try_from(len_bytes).unwrap_or(u32::MAX) }
                }
            };
            encoder.partition(&partition_data(shard, wanted[*slot].partition, found), records)?;
        }
    }
    let endpoints: Vec<NodeEndpoint<'_>> = leaders
        .iter()
        .filter_map(|core| shard.options().brokers.get(*core as usize))
        .map(|broker| NodeEndpoint { node_id: broker.id, host: &broker.host, port: i32::from(broker.port), rack: None })
        .collect();
    encoder.end(&endpoints)
}

fn partition_data(shard: &Shard, partition_index: i32, found: &Found) -> PartitionData<'static> {
    let mut data = PartitionData {
        partition_index,
        error_code: found.error.code(),
        high_watermark: found.high_watermark,
        last_stable_offset: found.last_stable,
        log_start_offset: found.log_start,
        aborted_transactions: (!found.aborted_is_null).then(|| {
            let aborted = found.aborted.iter();
            aborted
                .map(|aborted| AbortedTransaction {
                    producer_id: aborted.producer_id.0,
                    first_offset: aborted.first_offset.get(),
                })
                .collect()
        }),
        preferred_read_replica: -1,
        ..PartitionData::default()
    };
    if let Some((epoch, end)) = found.diverging {
        data.diverging_epoch = EpochEndOffset { epoch: epoch.get(), end_offset: end.get() };
    }
    if let Some((core, epoch)) = found.leader
        && let Some(broker) = shard.options().brokers.get(core as usize)
    {
        data.current_leader = LeaderIdAndEpoch { leader_id: broker.id, leader_epoch: epoch.get() };
    }
    data
}

const READ_COMMITTED: i8 = 1;
/// The first version that names topics by id (KIP-516).
const TOPIC_ID_MIN: i16 = 13;
