//! What a fetch wants of a tier that is elsewhere: asked for all at once, waited for as long as Kafka does.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::api::error_map;
use crate::api::partition_read::Ask;
use crate::log::error::ReadError;
use crate::log::plan::ReadBound;
use crate::record::offset::{Offset, PartitionId};
use crate::ring::timer::Nanos;
use crate::shard::core::Shard;
use crate::shard::deadline::within;
use crate::shard::error::ReadFailure;
use crate::shard::partition::Partition;
use crate::shard::read::{self, RecordsRange};
use crate::shard::remote_read::{self, REMOTE_BYTES_MAX};
use crate::wire::error_code::ErrorCode;

/// The reads of one fetch on one core. What was read stays in memory until this is dropped.
///
/// The store is asked for all partitions side by side, before they are read one after the other with what is left of the
/// fetch's bytes: that finds all in memory then. A partition whose records are not there in time is answered without any,
/// and its read goes on: the next fetch finds it done.
#[derive(Default)]
pub struct TierReads {
    until: Nanos,
    asked: Vec<(PartitionId, Outcome)>,
}

enum Outcome {
    /// In memory, or nothing to be had.
    Done(#[allow(dead_code, reason = "held, so that it stays in memory")] Option<RecordsRange>),
    Late,
    Failed(ErrorCode),
}

type Reading = Pin<Box<dyn Future<Output = Result<Option<RecordsRange>, ReadFailure>>>>;

impl TierReads {
    /// Reads what partitions of this core want of the tier, up to `bytes_max` in all, no longer than `until`.
    pub async fn begin(
        shard: &Rc<Shard>,
        asks: impl Iterator<Item = (Rc<Partition>, Ask)>,
        bytes_max: i64,
        read_committed: bool,
        until: Nanos,
    ) -> Self {
        if !remote_read::is_elsewhere(shard) {
            return Self::default();
        }
        let mut left_bytes = bytes_max.min(reply_bytes_max(shard));
        let mut reading: Vec<(PartitionId, Reading)> = Vec::new();
        for (partition, ask) in asks.filter(|(partition, ask)| is_remote(partition, ask)) {
            if left_bytes <= 0 && !reading.is_empty() {
                break;
            }
            let bytes = left_bytes.min(i64::from(ask.bytes_max)).clamp(0, i64::from(REMOTE_BYTES_MAX));
            // No more than its segment has.
            let span = remote_read::find(&partition, Offset(ask.fetch_offset));
            left_bytes -= bytes.min(span.map_or(0, |span| i64::from(span.segment_bytes())));
            let is_first = reading.is_empty();
            let bytes = u32::try_from(bytes).unwrap_or(0);
            reading.push((ask.id, Box::pin(read(shard.clone(), partition, ask, bytes, is_first, read_committed))));
        }
        if reading.is_empty() {
            return Self::default();
        }
        let io = shard.io();
        let mut asked: Vec<(PartitionId, Outcome)> = reading.iter().map(|(id, _)| (*id, Outcome::Late)).collect();
        let mut left = reading.len();
        let all = poll_fn(|polled| {
            for ((_, reading), (id, outcome)) in reading.iter_mut().zip(&mut asked) {
                if let Outcome::Late = outcome
                    && let Poll::Ready(done) = reading.as_mut().poll(polled)
                {
                    count(shard, &done);
                    *outcome = match done {
                        Ok(range) => Outcome::Done(range),
                        Err(failure) => {
                            tracing::warn!(partition = id.partition, error = %failure, "a fetch could not read the tier");
                            Outcome::Failed(error_map::read_failure(&failure))
                        }
                    };
                    left -= 1;
                }
            }
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        if within(io, until, all).await.is_none() {
            shard.counters().remote_fetches_expired.add(1);
        }
        Self { until, asked }
    }

    /// True where the fetch has asked the tier for anything: it waits for no more then, as in Kafka.
    pub fn is_any(&self) -> bool {
        !self.asked.is_empty()
    }

    /// How a partition that is read from the tier is read now; `None`: it is not, or its files are here.
    pub fn turn(&self, shard: &Shard, partition: &Partition, ask: &Ask) -> Option<Turn> {
        if !remote_read::is_elsewhere(shard) || !is_remote(partition, ask) {
            return None;
        }
        match self.asked.iter().find(|(id, _)| *id == ask.id) {
            Some((_, Outcome::Failed(error))) => Some(Turn::Failed(*error)),
            Some((_, Outcome::Done(_))) => Some(Turn::Until(self.until)),
            // What is in memory already.
            Some((_, Outcome::Late)) | None => Some(Turn::Until(Nanos(0))),
        }
    }
}

/// How long a fetch that begins now waits for the tier.
pub fn deadline(shard: &Shard) -> Nanos {
    shard.io().now().plus_ms(shard.options().broker_config.remote_fetch_wait_ms_max())
}

/// How a partition is read from the tier.
pub enum Turn {
    /// No longer than this; it is looked at once in any case.
    Until(Nanos),
    /// It was tried, and is not tried again for this fetch.
    Failed(ErrorCode),
}

/// Counts a read of the tier, as Kafka does.
pub fn count(shard: &Shard, read: &Result<Option<RecordsRange>, ReadFailure>) {
    let counters = shard.counters();
    counters.remote_fetch_requests.add(1);
    match read {
        Ok(range) => {
            counters.remote_fetch_bytes.add(range.as_ref().map_or(0, |range| u64::from(range.plan.len_bytes)));
        }
        Err(ReadFailure::Refused(ReadError::OutOfRange { .. })) => {}
        Err(_) => counters.remote_fetch_errors.add(1),
    }
}

/// True where what is wanted is in the tier alone.
pub fn is_remote(partition: &Partition, ask: &Ask) -> bool {
    let offsets = partition.log().borrow().offsets();
    let from = Offset(ask.fetch_offset);
    partition.is_online() && offsets.log_start <= from && from < offsets.local_log_start
}

async fn read(
    shard: Rc<Shard>,
    partition: Rc<Partition>,
    ask: Ask,
    bytes_max: u32,
    whole_first_batch: bool,
    read_committed: bool,
) -> Result<Option<RecordsRange>, ReadFailure> {
    let from = Offset(ask.fetch_offset);
    let bound = if read_committed { ReadBound::LastStable } else { ReadBound::HighWatermark };
    let range = remote_read::locate(&shard, &partition, from, bytes_max, whole_first_batch, bound).await?;
    if let Some(range) = range.as_ref().filter(|_| read_committed) {
        read::aborted_transactions(&shard, &partition, &range.plan).await?;
    }
    Ok(range)
}

/// What one fetch may hold of the tier's memory.
fn reply_bytes_max(shard: &Shard) -> i64 {
    let memory_bytes = shard.tier().map_or(0, |tier| tier.cache().memory().total_bytes());
    i64::try_from(memory_bytes / REPLIES_AT_ONCE).unwrap_or(i64::MAX).max(i64::from(REMOTE_BYTES_MAX))
}

/// So many of the largest answers fit into the tier's memory.
const REPLIES_AT_ONCE: usize = 4;
