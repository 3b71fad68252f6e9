//! ListOffsets: where a partition begins and ends, and which record has a time.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::api::context::RequestContext;
use crate::api::error_map;
use crate::api::reply::Outcome;
use crate::log::plan::ReadBound;
use crate::record::offset::{LeaderEpoch, PartitionId, TimestampMs};
use crate::ring::timer::Nanos;
use crate::shard::core::Shard;
use crate::shard::deadline::within;
use crate::shard::partition::Partition;
use crate::shard::router::Route;
use crate::shard::time_lookup::{self, TimedRecord};
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use crate::wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use crate::wire::reader::Reader;

/// Answers ListOffsets. Lookups by time go on side by side; the rest is answered from memory.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match ListOffsetsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let version = context.api_version;
    let bound = match (request.replica_id, request.isolation_level) {
        (CONSUMER, READ_COMMITTED) => ReadBound::LastStable,
        (CONSUMER, _) => ReadBound::HighWatermark,
        _ => ReadBound::Written,
    };
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            if !seen.insert((topic.name, partition.partition_index)) {
                twice.insert((topic.name, partition.partition_index));
            }
        }
    }
    let mut lookups = Lookups::default();
    let mut topics: Vec<ListOffsetsTopicResponse<'_>> = Vec::with_capacity(request.topics.len());
    for (topic_at, topic) in request.topics.iter().enumerate() {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (partition_at, wanted) in topic.partitions.iter().enumerate() {
            let found = if twice.contains(&(topic.name, wanted.partition_index)) {
                Err(ErrorCode::InvalidRequest)
            } else {
                begin(shard, topic.name, wanted, bound, version)
            };
            let found = match found {
                Ok(Begun::Known(known)) => Ok(known),
                Ok(Begun::Later(later)) => {
                    lookups.waiting.push((topic_at, partition_at, later));
                    Ok(Found::NONE)
                }
                Err(error) => Err(error),
            };
            partitions.push(answer(wanted.partition_index, found, version));
        }
        topics.push(ListOffsetsTopicResponse { name: topic.name, partitions });
    }
    // The first of them are begun first.
    lookups.waiting.reverse();
    // As Kafka: the client's own patience, where it has told it.
    let wait_ms = match u64::try_from(request.timeout_ms) {
        Ok(wait_ms) if wait_ms > 0 => wait_ms,
        _ => shard.options().broker_config.remote_list_offsets_ms_max(),
    };
    let asked = Asked { bound, tier_deadline: shard.io().now().plus_ms(wait_ms) };
    for (topic_at, partition_at, found) in lookups.run(shard, asked).await {
        if let Some(place) = topics.get_mut(topic_at).and_then(|topic| topic.partitions.get_mut(partition_at)) {
            *place = answer(place.partition_index, found, version);
        }
    }
    let response = ListOffsetsResponse { topics, ..ListOffsetsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// What was found of one partition; -1 where there is none.
#[derive(Clone, Copy)]
struct Found {
    offset: i64,
    timestamp: i64,
    leader_epoch: i32,
}

impl Found {
    const NONE: Self = Self { offset: -1, timestamp: -1, leader_epoch: NO_EPOCH };

    fn at(offset: i64, leader_epoch: Option<LeaderEpoch>) -> Self {
        Self { offset, leader_epoch: leader_epoch.map_or(NO_EPOCH, LeaderEpoch::get), ..Self::NONE }
    }
}

/// What is the same for all partitions of a request.
#[derive(Clone, Copy)]
struct Asked {
    bound: ReadBound,
    /// A search in the tier is given up then.
    tier_deadline: Nanos,
}

enum Begun {
    Known(Found),
    Later(Later),
}

/// What cannot be said at once.
enum Later {
    /// A search in this core's files.
    Search(Rc<Partition>, Search),
    /// A question to the core that leads.
    There(usize, Ask),
}

/// What is asked of one partition.
#[derive(Clone, Copy)]
struct Ask {
    id: PartitionId,
    timestamp: i64,
    current_leader_epoch: i32,
}

#[derive(Clone, Copy)]
enum Search {
    AtOrAfter(TimestampMs),
    MaxTimestamp,
}

fn answer(partition_index: i32, found: Result<Found, ErrorCode>, version: i16) -> ListOffsetsPartitionResponse {
    let (error, found) = match found {
        Ok(found) => (ErrorCode::None, found),
        Err(error) => (error, Found::NONE),
    };
    ListOffsetsPartitionResponse {
        partition_index,
        error_code: error.code(),
        timestamp: found.timestamp,
        offset: found.offset,
        // Earlier versions cannot say it.
        leader_epoch: if version >= LEADER_EPOCH_MIN { found.leader_epoch } else { NO_EPOCH },
    }
}

/// What can be said from memory, or the search that is needed.
fn begin(
    shard: &Shard,
    topic: &str,
    wanted: &ListOffsetsPartition,
    bound: ReadBound,
    version: i16,
) -> Result<Begun, ErrorCode> {
    // Before the partition is looked at, as in Kafka.
    let version_min = match wanted.timestamp {
        0.. | LATEST | EARLIEST => 1,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        _ => return Err(ErrorCode::UnsupportedVersion),
    };
    if version < version_min {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let topic_id = shard.snapshot().topic(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?.id;
    let ask = Ask {
        id: PartitionId { topic_id, partition: wanted.partition_index },
        timestamp: wanted.timestamp,
        current_leader_epoch: wanted.current_leader_epoch,
    };
    begin_one(shard, ask, bound)
}

fn begin_one(shard: &Shard, ask: Ask, bound: ReadBound) -> Result<Begun, ErrorCode> {
    let partition = match shard.route(ask.id) {
        Route::Here(partition) if partition.is_online() => partition,
        Route::There { core } => return Ok(Begun::Later(Later::There(core, ask))),
        Route::Here(_) | Route::NotReady { offline: true } => return Err(ErrorCode::KafkaStorageError),
        Route::Elsewhere { .. } | Route::NotReady { offline: false } => return Err(ErrorCode::NotLeaderOrFollower),
        Route::Unknown => return Err(ErrorCode::UnknownTopicOrPartition),
    };
    let log = partition.log().borrow();
    if let Some(error) = error_map::leader_epoch_error(ask.current_leader_epoch, log.leader_epoch()) {
        return Err(error);
    }
    let search = match ask.timestamp {
        LATEST => {
            let (offset, epoch) = log.latest(bound);
            return Ok(Begun::Known(Found::at(offset.get(), Some(epoch))));
        }
        EARLIEST | EARLIEST_LOCAL => {
            let (offset, epoch) = if ask.timestamp == EARLIEST { log.earliest() } else { log.earliest_local() };
            return Ok(Begun::Known(Found::at(offset.get(), epoch)));
        }
        // What Kafka answers where a topic is not tiered.
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD if !partition.limits().tier.enabled => {
            return Ok(Begun::Known(Found::NONE));
        }
        LATEST_TIERED => {
            let found = partition.remote().and_then(|remote| remote.segments().end());
            return Ok(Begun::Known(found.map_or(Found::NONE, |end| Found::at(end.get(), log.epoch_at(end)))));
        }
        EARLIEST_PENDING_UPLOAD => {
            let copied_to = partition.remote().and_then(|remote| remote.segments().end());
            let offsets = log.offsets();
            let pending = match copied_to {
                Some(end) => end.plus(1).max(offsets.local_log_start),
                None => offsets.log_start,
            };
            return Ok(Begun::Known(Found::at(pending.get(), log.epoch_at(pending))));
        }
        MAX_TIMESTAMP => Search::MaxTimestamp,
        timestamp => Search::AtOrAfter(TimestampMs(timestamp)),
    };
    drop(log);
    Ok(Begun::Later(Later::Search(partition, search)))
}

/// All of it, for a connection of another core.
async fn answer_here(shard: Rc<Shard>, ask: Ask, asked: Asked) -> Result<Found, ErrorCode> {
    match begin_one(&shard, ask, asked.bound)? {
        Begun::Known(found) => Ok(found),
        Begun::Later(Later::Search(partition, wanted)) => search(shard, partition, wanted, asked).await,
        Begun::Later(Later::There(..)) => Err(ErrorCode::NotLeaderOrFollower),
    }
}

async fn finish(shard: Rc<Shard>, later: Later, asked: Asked) -> Result<Found, ErrorCode> {
    match later {
        Later::Search(partition, wanted) => search(shard, partition, wanted, asked).await,
        Later::There(core, ask) => {
            let answered = shard.on_core(core, move |there| answer_here(there, ask, asked)).await;
            answered.unwrap_or(Err(ErrorCode::NotLeaderOrFollower))
        }
    }
}

async fn search(shard: Rc<Shard>, partition: Rc<Partition>, search: Search, asked: Asked) -> Result<Found, ErrorCode> {
    let has_tier = partition.remote().is_some_and(|remote| !remote.segments().finished().is_empty());
    let deadline = if has_tier { asked.tier_deadline } else { Nanos(u64::MAX) };
    let looking_up = async {
        match search {
            Search::AtOrAfter(target) => time_lookup::first_at_or_after(&shard, &partition, target, asked.bound).await,
            Search::MaxTimestamp => time_lookup::earliest_of_max_timestamp(&shard, &partition, asked.bound).await,
        }
    };
    let Some(looked_up) = within(shard.io(), deadline, looking_up).await else {
        shard.counters().remote_list_offsets_expired.add(1);
        return Err(ErrorCode::RequestTimedOut);
    };
    looked_up.map(found).map_err(|failure| {
        let (topic, index) = (partition.topic(), partition.id().partition);
        tracing::warn!(topic, partition = index, error = %failure, "a lookup by time failed");
        error_map::read_failure(&failure)
    })
}

type Running = Pin<Box<dyn Future<Output = Result<Found, ErrorCode>>>>;

/// Searches of one request, a few of them at the same time: one that is slow does not hold up the others.
#[derive(Default)]
struct Lookups {
    /// With their places in the answer; the next one last.
    waiting: Vec<(usize, usize, Later)>,
}

impl Lookups {
    async fn run(mut self, shard: &Rc<Shard>, asked: Asked) -> Vec<(usize, usize, Result<Found, ErrorCode>)> {
        let mut done = Vec::with_capacity(self.waiting.len());
        let mut running: Vec<(usize, usize, Running)> = Vec::new();
        poll_fn(|polled| {
            loop {
                while running.len() < LOOKUPS_AT_ONCE_MAX
                    && let Some((topic_at, partition_at, later)) = self.waiting.pop()
                {
                    let lookup = finish(shard.clone(), later, asked);
                    running.push((topic_at, partition_at, Box::pin(lookup)));
                }
                let under_way = running.len();
                running.retain_mut(|(topic_at, partition_at, lookup)| match lookup.as_mut().poll(polled) {
                    Poll::Pending => true,
                    Poll::Ready(outcome) => {
                        done.push((*topic_at, *partition_at, outcome));
                        false
                    }
                });
                if running.is_empty() && self.waiting.is_empty() {
                    return Poll::Ready(());
                }
                if running.len() == under_way {
                    return Poll::Pending;
                }
            }
        })
        .await;
        done
    }
}

fn found(record: Option<TimedRecord>) -> Found {
    record.map_or(Found::NONE, |record| Found {
        offset: record.offset.get(),
        timestamp: record.timestamp.0,
        leader_epoch: record.leader_epoch.get(),
    })
}

/// As many files are read at the same time for one request.
const LOOKUPS_AT_ONCE_MAX: usize = 16;
/// A client that is no replica.
const CONSUMER: i32 = -1;
const READ_COMMITTED: i8 = 1;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;
/// The first version that tells the leader epoch.
const LEADER_EPOCH_MIN: i16 = 4;
const NO_EPOCH: i32 = -1;
