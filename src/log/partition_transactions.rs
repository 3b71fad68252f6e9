//! Transactions in one partition's log: the last stable offset, and what was aborted.

use crate::log::log_offsets::LogOffsets;
use crate::log::partition_log::{PartitionLog, Place};
use crate::log::plan::{ReadBound, ReadPlan, SegmentId};
use crate::log::producer_state::ProducerUndo;
use crate::log::segment::Segment;
use crate::log::transaction_index::AbortedTransaction;
use crate::record::offset::Offset;

/// Where the aborted transactions of a range are to be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortedPlan {
    /// The reader wants those that have records from here on,
    pub from: Offset,
    /// and below here.
    pub upper: Offset,
    /// In this order, until one says that no later one has any.
    pub sources: Vec<AbortedSource>,
}

/// The aborted transactions of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortedSource {
    /// All of them.
    Memory(Vec<AbortedTransaction>),
    /// So many, in the segment's `.txnindex`.
    File {
        /// The segment.
        segment: SegmentId,
        /// Entries in its file.
        entry_count: u32,
    },
}

impl PartitionLog {
    /// Takes in what a planned batch, which begins at `at`, made of its producer's transaction.
    pub(in crate::log) fn note_transaction(&mut self, undo: &ProducerUndo, base_offset: Offset, at: Place) {
        let Some(change) = undo.change else { return };
        if let Some(aborted) = self.transactions.apply(undo.producer_id, change, base_offset, at) {
            self.active_mut().transaction_index_mut().push(aborted);
        }
    }

    /// Moves the last stable offset to where it is now: the high watermark, or the oldest transaction below it that is
    /// open or whose marker is not durable.
    pub(in crate::log) fn move_last_stable(&mut self) {
        let high_watermark = self.offsets.high_watermark;
        self.transactions.passed(high_watermark);
        let first_unstable = self.transactions.first_unstable().filter(|(first, _)| *first < high_watermark);
        let (last_stable, at) = first_unstable.unwrap_or((high_watermark, self.high_watermark_at));
        let last_stable = last_stable.max(self.offsets.log_start);
        self.last_stable_at = at;
        self.offsets.set(LogOffsets { last_stable, ..self.offsets });
    }

    /// What is to be read for the aborted transactions that a reader of `range` has to know. `None`: there are none.
    pub fn plan_aborted(&self, range: &ReadPlan) -> Option<AbortedPlan> {
        let first = self.segments.binary_search_by_key(&range.segment, Segment::id).ok()?;
        self.plan_aborted_from(first, range.start_offset, self.upper_bound(first, range))
    }

    /// What of the local log is to be read besides for a reader of `from..upper`, which lies below it in the tier.
    pub fn plan_aborted_above(&self, from: Offset, upper: Offset) -> Option<AbortedPlan> {
        self.plan_aborted_from(0, from, upper)
    }

    fn plan_aborted_from(&self, first: usize, from: Offset, upper: Offset) -> Option<AbortedPlan> {
        // An entry stands in the segment of its marker, which may be a later one than the transaction's records.
        let with_any = self.segments[first..].iter().filter(|segment| segment.transaction_index().entry_count() > 0);
        let sources: Vec<AbortedSource> = with_any
            .map(|segment| match segment.transaction_index().in_memory() {
                Some(entries) => AbortedSource::Memory(entries.to_vec()),
                None => AbortedSource::File {
                    segment: segment.id(),
                    entry_count: segment.transaction_index().entry_count(),
                },
            })
            .collect();
        (!sources.is_empty()).then_some(AbortedPlan { from, upper, sources })
    }

    /// An offset behind all of a range, as near as memory knows one: Kafka's `fetchUpperBoundOffset`.
    fn upper_bound(&self, at: usize, range: &ReadPlan) -> Offset {
        let segment = &self.segments[at];
        let end_bytes = range.position_bytes + u64::from(range.len_bytes);
        let index = segment.index();
        let flushed_before = index.last_flushed().is_none_or(|last| u64::from(last.position_bytes) < end_bytes);
        if flushed_before {
            let tail = index.tail();
            let next = tail.partition_point(|entry| u64::from(entry.position) < end_bytes);
            if let Some(entry) = tail.get(next) {
                return segment.base_offset().plus(i64::from(entry.last));
            }
        } else if let Some(hint) = range.next_hint {
            return hint.offset;
        }
        self.segments.get(at + 1).map_or(self.offsets.log_end, Segment::base_offset)
    }

    /// The first abort marker whose entry is not on stable storage: a start after a crash has to see it again.
    pub(in crate::log) fn transaction_index_unsynced(&self) -> Option<Offset> {
        let first = self.segments.partition_point(|segment| segment.id() < self.index_completed_below);
        self.segments[first..].iter().find_map(|segment| segment.transaction_index().unsynced_from())
    }

    /// How far a reader sees.
    pub fn end_for(&self, bound: ReadBound) -> Offset {
        self.bound(bound).0
    }
}
