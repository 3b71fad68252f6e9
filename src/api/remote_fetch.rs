//! Reads of partitions that another core leads: a file and a range come back, and this core sends them.

use std::rc::Rc;

use crate::api::partition_read::{self, Ask, Budget, Found};
use crate::api::tier_reads::TierReads;
use crate::log::plan::ReadPlan;
use crate::log::transaction_index::AbortedTransaction;
use crate::record::offset::{LeaderEpoch, Offset};
use crate::ring::buffer::Buffer;
use crate::ring::shared_file::SharedFile;
use crate::shard::core::Shard;
use crate::shard::read::{RangeSource, RecordsRange};
use crate::shard::remote_bytes::RemoteBytes;
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
    diverging: Option<(LeaderEpoch, Offset)>,
}

/// A range's source, on its way.
enum CrossingSource {
    File(SharedFile),
    Memory(Vec<u8>),
}

/// Reads partitions of `core`, in order, within the budget. One answer for each; and whether the tier was asked for any.
pub async fn read(
    shard: &Rc<Shard>,
    core: usize,
    asks: &[Ask],
    budget: Budget,
    read_committed: bool,
) -> (Vec<Found>, bool) {
    let count = asks.len();
    let asks = asks.to_vec();
    let job = move |there| read_here(there, asks, budget, read_committed);
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
                CrossingSource::Memory(bytes) => RangeSource::Memory(RemoteBytes::of(Buffer::from_vec(bytes))),
            };
            RecordsRange { source, plan }
        }),
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
) -> (Vec<Crossing>, bool) {
    let mut all = Vec::with_capacity(asks.len());
    let here = asks.iter().filter_map(|ask| match shard.route(ask.id) {
        Route::Here(partition) => Some((partition, *ask)),
        _ => None,
    });
    let reads = TierReads::begin(&shard, here, budget.left_bytes, read_committed).await;
    for ask in &asks {
        let found = match shard.route(ask.id) {
            Route::Here(partition) => {
                partition_read::read_one(&shard, &partition, ask, budget, read_committed, &reads).await
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
            RangeSource::Memory(bytes) => CrossingSource::Memory(bytes.joined().into_owned()),
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
        diverging: found.diverging,
    }
}
