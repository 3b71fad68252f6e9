//! What keeps a compaction from being in the way: its pace, its slices, and its end.

use std::rc::Rc;

use crate::ring::io::Io;
use crate::ring::timer::Nanos;
use crate::shard::core::Shard;
use crate::shard::error::CleanFailure;
use crate::shard::partition::Partition;

/// The turns of one compaction: it reads and writes no faster than `log.cleaner.io.max.bytes.per.second`, leaves the core
/// to others after each slice of work, and ends where its partition does.
pub(in crate::shard) struct CleaningTurns {
    shard: Rc<Shard>,
    partition: Rc<Partition>,
    /// This core's share; `None`: no limit.
    bytes_per_second: Option<f64>,
    /// What was read and written so far is paid for by then.
    paid_at: Nanos,
    /// Bytes that may be worked on in this turn.
    left_bytes: usize,
}

impl CleaningTurns {
    pub(in crate::shard) fn begin(shard: &Rc<Shard>, partition: &Rc<Partition>) -> Self {
        let of_machine = shard.options().broker_config.log_cleaner_io_max_bytes_per_second();
        let share = (of_machine / f64::from(shard.options().core_count.max(1))).max(BYTES_PER_SECOND_MIN);
        Self {
            shard: shard.clone(),
            partition: partition.clone(),
            bytes_per_second: (share < BYTES_PER_SECOND_UNLIMITED).then_some(share),
            paid_at: shard.io().now(),
            left_bytes: SLICE_BYTES,
        }
    }

    pub(in crate::shard) fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    pub(in crate::shard) fn partition(&self) -> &Rc<Partition> {
        &self.partition
    }

    pub(in crate::shard) fn io(&self) -> &Io {
        self.shard.io()
    }

    /// `Stopped` where the partition is no longer to be compacted.
    pub(in crate::shard) fn check(&self) -> Result<(), CleanFailure> {
        let goes_on =
            !self.shard.is_stopping() && self.partition.is_online() && self.shard.hosted(self.partition.id()).is_some();
        if goes_on { Ok(()) } else { Err(CleanFailure::Stopped) }
    }

    /// `bytes` were read or written: waits until that is no more than the pace allows.
    pub(in crate::shard) async fn pay(&mut self, bytes: usize) -> Result<(), CleanFailure> {
        if let Some(bytes_per_second) = self.bytes_per_second {
            // What was not used up earlier than a moment ago is gone: no burst after a pause.
            let from = self.paid_at.max(self.io().now());
            self.paid_at = from.plus_us((bytes as f64 / bytes_per_second * 1e6) as u64);
            self.io().sleep_until(self.paid_at).await;
        }
        self.check()
    }

    /// `bytes` were worked on: lets others have their turn after a slice.
    pub(in crate::shard) async fn work(&mut self, bytes: usize) {
        match self.left_bytes.checked_sub(bytes) {
            Some(left_bytes) => self.left_bytes = left_bytes,
            None => {
                self.left_bytes = SLICE_BYTES;
                self.io().yield_now().await;
            }
        }
    }
}

/// Records are judged and copied at some 300 MB/s, so that a slice takes a fifth of a millisecond.
pub(in crate::shard) const SLICE_BYTES: usize = 64 * 1024;
/// A limit below this would never come to an end.
const BYTES_PER_SECOND_MIN: f64 = 1024.0;
/// No disk is as fast: not worth a timer.
const BYTES_PER_SECOND_UNLIMITED: f64 = 1e12;
