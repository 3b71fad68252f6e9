//! What a fetch wants of a tier that is elsewhere: asked for all at once, waited for as long as Kafka does.

use std::future::{Future, poll_fn};
use std::mem;
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
use crate::shard::error::ReadFailure;
use crate::shard::partition::Partition;
use crate::shard::read::{self, Located};
use crate::shard::remote_read::{self, REMOTE_BYTES_MAX};
use crate::wire::error_code::ErrorCode;

/// The reads of one fetch on one core. What was read stays in memory until it is taken, or this is dropped.
///
/// The store is asked for all partitions side by side; then they are answered one after the other, each with what was read
/// for it, cut to what is left of the fetch's bytes. Nothing is looked up twice: that would wait for memory which this very
/// fetch holds. A partition whose records are not there in time is answered without any, and its read goes on: the next
/// fetch finds it done. Where there is enough for an answer, those that are late have as long again.
#[derive(Default)]
pub struct TierReads {
    until: Nanos,
    asked: Vec<(PartitionId, Outcome)>,
}

/// How long a fetch waits for the tier.
#[derive(Clone, Copy)]
pub struct Patience {
    /// No longer than this.
    pub until: Nanos,
    /// An answer has so much at least. `None`: all are waited for.
    pub enough_bytes: Option<u64>,
}

enum Outcome {
    /// In memory, or nothing to be had.
    Done(Option<Located>),
    Late,
    Failed(ErrorCode),
}

impl Outcome {
    /// What was read is looked for again.
    fn let_go(&mut self) {
        if let Self::Done(Some(_)) = self {
            *self = Self::Late;
        }
    }
}

type Reading = Pin<Box<dyn Future<Output = Result<Option<Located>, ReadFailure>>>>;

impl TierReads {
    /// Reads what partitions of this core want of the tier, up to `bytes_max` in all, as long as `patience` says.
    pub async fn begin(
        shard: &Rc<Shard>,
        asks: impl Iterator<Item = (Rc<Partition>, Ask)>,
        bytes_max: i64,
        read_committed: bool,
        patience: Patience,
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
        let Patience { until, enough_bytes } = patience;
        let (mut left, mut bytes) = (reading.len(), 0);
        let (began_at, mut due_at, mut is_enough, mut timer) = (io.now(), until, false, None);
        poll_fn(|polled| {
            for ((_, reading), (id, outcome)) in reading.iter_mut().zip(&mut asked) {
                if let Outcome::Late = outcome
                    && let Poll::Ready(done) = reading.as_mut().poll(polled)
                {
                    count(shard, &done);
                    bytes += done.as_ref().map_or(0, |located| {
                        located.as_ref().map_or(0, |located| u64::from(located.range.plan.len_bytes))
                    });
                    *outcome = match done {
                        Ok(located) => Outcome::Done(located),
                        Err(failure) => {
                            tracing::warn!(partition = id.partition, error = %failure, "a fetch could not read the tier");
                            Outcome::Failed(error_map::read_failure(&failure))
                        }
                    };
                    left -= 1;
                }
            }
            if !is_enough && enough_bytes.is_some_and(|enough_bytes| bytes >= enough_bytes) {
                is_enough = true;
                let as_long_ns = io.now().since(began_at).max(LATE_NS_MIN);
                due_at = until.min(Nanos(io.now().0.saturating_add(as_long_ns)));
                timer = None;
            }
            if left == 0 || io.now() >= due_at {
                return Poll::Ready(());
            }
            timer.get_or_insert_with(|| io.wake_at(due_at));
            Poll::Pending
        })
        .await;
        if left > 0 && due_at == until {
            shard.counters().remote_fetches_expired.add(1);
        }
        Self { until, asked }
    }

    /// True where the fetch has asked the tier for anything: it waits for no more then, as in Kafka.
    pub fn is_any(&self) -> bool {
        !self.asked.is_empty()
    }

    /// How a partition is read now. What was read for it is given away.
    pub fn turn(&mut self, shard: &Shard, partition: &Partition, ask: &Ask, whole_first_batch: bool) -> Turn {
        if !remote_read::is_elsewhere(shard) || !is_remote(partition, ask) {
            return Turn::Anew;
        }
        let asked = self.asked.iter_mut().find(|(id, _)| *id == ask.id);
        match asked.map(|(_, outcome)| mem::replace(outcome, Outcome::Late)) {
            Some(Outcome::Failed(error)) => Turn::Failed(error),
            Some(Outcome::Done(Some(located))) if located.is_of_tier() => Turn::Found(located),
            // On this machine by now.
            Some(Outcome::Done(Some(_))) => Turn::Anew,
            // Nothing was found before it after all: its first batch comes whole, and what is held for others makes room.
            Some(Outcome::Done(None)) if whole_first_batch => {
                self.asked.iter_mut().for_each(|(_, outcome)| outcome.let_go());
                Turn::Until(self.until)
            }
            Some(Outcome::Done(None)) => Turn::Nothing,
            // What is in memory already.
            Some(Outcome::Late) | None => Turn::Until(Nanos(0)),
        }
    }
}

/// How long a fetch that begins now waits for the tier.
pub fn deadline(shard: &Shard) -> Nanos {
    shard.io().now().plus_ms(shard.options().broker_config.remote_fetch_wait_ms_max())
}

/// How a partition is read.
pub enum Turn {
    /// As one of this machine.
    Anew,
    /// It was read; it is to be cut to what is left.
    Found(Located),
    /// It was read, and nothing of it fits.
    Nothing,
    /// From the tier, and no longer than this; it is looked at once in any case.
    Until(Nanos),
    /// It was tried, and is not tried again for this fetch.
    Failed(ErrorCode),
}

/// Counts a read of the tier, as Kafka does.
pub fn count(shard: &Shard, read: &Result<Option<Located>, ReadFailure>) {
    let counters = shard.counters();
    counters.remote_fetch_requests.add(1);
    match read {
        Ok(located) => {
            let len_bytes = located.as_ref().map_or(0, |located| located.range.plan.len_bytes);
            counters.remote_fetch_bytes.add(u64::from(len_bytes));
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
) -> Result<Option<Located>, ReadFailure> {
    let from = Offset(ask.fetch_offset);
    let bound = if read_committed { ReadBound::LastStable } else { ReadBound::HighWatermark };
    read::locate_with_aborted(&shard, &partition, from, bytes_max, whole_first_batch, bound).await
}

/// What one fetch may hold of the tier's memory.
fn reply_bytes_max(shard: &Shard) -> i64 {
    let memory_bytes = shard.tier().map_or(0, |tier| tier.cache().memory().total_bytes());
    i64::try_from(memory_bytes / REPLIES_AT_ONCE).unwrap_or(i64::MAX).max(i64::from(REMOTE_BYTES_MAX))
}

/// What comes with the first records, or soon after them, is not left to another fetch.
const LATE_NS_MIN: u64 = 5_000_000;
/// So many of the largest answers fit into the tier's memory.
const REPLIES_AT_ONCE: usize = 4;
