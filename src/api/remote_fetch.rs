//! Reads of partitions that another core leads: a file and a range come back, and this core sends them.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use crate::api::partition_read::{self, Ask, Budget, Found};
use crate::api::tier_reads::{Patience, TierReads};
use crate::log::plan::ReadPlan;
use crate::log::transaction_index::AbortedTransaction;
use crate::record::offset::{LeaderEpoch, Offset};
use crate::ring::buffer::Buffer;
use crate::ring::shared_file::SharedFile;
use crate::ring::timer::Nanos;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;
use crate::shard::read::{RangeSource, RecordsRange};
use crate::shard::remote_read;
use crate::shard::router::Route;
use crate::wire::error_code::ErrorCode;

/// What was found, on its way between cores.
struct Crossing {
    error: ErrorCode,
    high_watermark: i64,
    last_stable: i64,
    log_start: i64,
    aborted: Vec<AbortedTransaction>,
    aborted_is_null: bool,
    records: Option<(CrossingSource, ReadPlan)>,
    available_bytes: u64,
    diverging: Option<(LeaderEpoch, Offset)>,
}

/// A range's source, on its way.
enum CrossingSource {
    File(SharedFile),
    Memory(Vec<u8>),
}

/// Has other cores ask the tier for what lies on them, all side by side, no longer than `until`: their [`read`]s find it in
/// memory then.
pub async fn begin_tier_reads(
    shard: &Rc<Shard>,
    asks: BTreeMap<usize, Vec<Ask>>,
    bytes_max: i64,
    read_committed: bool,
    until: Nanos,
) {
    let begin = |(core, asks): (usize, Vec<Ask>)| {
        let shard = shard.clone();
        Box::pin(async move {
            let job = move |there: Rc<Shard>| async move {
                let patience = Patience { until, enough_bytes: None };
                TierReads::begin(&there, here(&there, &asks), bytes_max, read_committed, patience).await;
            };
            // Who does not answer is asked again for the records.
            let _ = shard.on_core(core, job).await;
        })
    };
    let mut running: Vec<_> = asks.into_iter().map(begin).collect();
    poll_fn(|polled| {
        running.retain_mut(|asking| asking.as_mut().poll(polled).is_pending());
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// True where partitions lie on several cores, or between each other's, and the tier may be asked for them: one core would
/// wait after the other. `cores` are those of the partitions, in their order; `None` is this one.
pub fn is_scattered(shard: &Shard, cores: impl Iterator<Item = Option<usize>>) -> bool {
    let mut groups = 0;
    let mut last = None;
    for core in cores {
        if last != Some(core) {
            groups += 1;
            last = Some(core);
        }
    }
    groups > 1 && remote_read::is_elsewhere(shard)
}

/// Those of the partitions that this core leads.
fn here(shard: &Shard, asks: &[Ask]) -> impl Iterator<Item = (Rc<Partition>, Ask)> {
    asks.iter().filter_map(|ask| match shard.route(ask.id) {
        Route::Here(partition) => Some((partition, *ask)),
        _ => None,
    })
}

/// Reads partitions of `core`, in order, within the budget. One answer for each; and whether the tier was asked for any,
/// which is waited for until `until`.
pub async fn read(
    shard: &Rc<Shard>,
    core: usize,
    asks: &[Ask],
    budget: Budget,
    read_committed: bool,
    until: Nanos,
) -> (Vec<Found>, bool) {
    let count = asks.len();
    let asks = asks.to_vec();
    let job = move |there| read_here(there, asks, budget, read_committed, until);
    let Ok((crossed, asked_tier)) = shard.on_core(core, job).await else {
        return ((0..count).map(|_| Found::error(ErrorCode::NotLeaderOrFollower)).collect(), false);
    };
    let found = |crossing: Crossing| Found {
        high_watermark: crossing.high_watermark,
        last_stable: crossing.last_stable,
        log_start: crossing.log_start,
        aborted: crossing.aborted,
        aborted_is_null: crossing.aborted_is_null,
        records: crossing.records.map(|(source, plan)| {
            let source = match source {
                CrossingSource::File(file) => RangeSource::File(shard.io().adopt_file(file)),
                CrossingSource::Memory(bytes) => RangeSource::Memory(Buffer::from_vec(bytes)),
            };
            RecordsRange { source, plan }
        }),
        available_bytes: crossing.available_bytes,
        diverging: crossing.diverging,
        ..Found::error(crossing.error)
    };
    (crossed.into_iter().map(found).collect(), asked_tier)
}

async fn read_here(
    shard: Rc<Shard>,
    asks: Vec<Ask>,
    mut budget: Budget,
    read_committed: bool,
    until: Nanos,
) -> (Vec<Crossing>, bool) {
    let mut all = Vec::with_capacity(asks.len());
    let patience = Patience { until, enough_bytes: None };
    let mut reads = TierReads::begin(&shard, here(&shard, &asks), budget.left_bytes, read_committed, patience).await;
    for ask in &asks {
        let found = match shard.route(ask.id) {
            Route::Here(partition) => {
                partition_read::read_one(&shard, &partition, ask, budget, read_committed, &mut reads).await
            }
            Route::NotReady { offline: true } => Found::error(ErrorCode::KafkaStorageError),
            Route::Unknown => Found::missing(ErrorCode::UnknownTopicOrPartition),
            Route::NotReady { offline: false } | Route::There { .. } | Route::Elsewhere { .. } => {
                Found::error(ErrorCode::NotLeaderOrFollower)
            }
        };
        budget.take(&found);
        all.push(cross(found));
    }
    (all, reads.is_any())
}

fn cross(found: Found) -> Crossing {
    let share = |range: RecordsRange| {
        let source = match range.source {
            RangeSource::File(file) => CrossingSource::File(file.share()?),
            // Copied: what a core's memory counts does not leave it.
            RangeSource::Tier(bytes, _) => CrossingSource::Memory(bytes.joined().into_owned()),
            RangeSource::Memory(buffer) => CrossingSource::Memory(buffer.to_vec()),
        };
        Ok((source, range.plan))
    };
    let shared = found.records.map(share).transpose();
    let (error, records) = match shared {
        Ok(records) => (found.error, records),
        Err(error) => {
            let error: std::io::Error = error;
            tracing::warn!(%error, "a segment could not be handed to another core; too few open files? see `ulimit -n`");
            (ErrorCode::UnknownServerError, None)
        }
    };
    Crossing {
        error,
        high_watermark: found.high_watermark,
        last_stable: found.last_stable,
        log_start: found.log_start,
        aborted: found.aborted,
        aborted_is_null: found.aborted_is_null,
        records,
        available_bytes: found.available_bytes,
        diverging: found.diverging,
    }
}
