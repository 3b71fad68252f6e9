//! The producers' snapshots of one partition's log: when one is taken, written, or of no use any more.

use crate::log::partition_log::PartitionLog;
use crate::log::producer_snapshots::SnapshotWrite;
use crate::log::segment::Segment;
use crate::record::offset::Offset;

impl PartitionLog {
    /// True where a start after a crash would replay much for the producers' sake: take a snapshot of them.
    pub fn producer_snapshot_is_due(&self) -> bool {
        self.snapshots.is_due()
    }

    /// Takes a snapshot of the producers at the log's end, planned batches included; at each roll that is done already.
    /// None of a log without records, unless producers are known whose records were all deleted: it alone tells of them then.
    pub fn snapshot_producers(&mut self) {
        if self.offsets.log_end > self.offsets.log_start || self.has_producers() {
            self.snapshots.take(self.offsets.log_end, &self.producers);
        }
    }

    /// True where [`next_producer_snapshot`](Self::next_producer_snapshot) has one.
    pub fn has_producer_snapshot(&self) -> bool {
        self.snapshots.has_next(self.offsets.written)
    }

    /// A snapshot that was taken, once all that it says is written.
    pub fn next_producer_snapshot(&mut self) -> Option<SnapshotWrite> {
        self.snapshots.next(self.offsets.written)
    }

    /// The snapshot at `offset` did not get to the disk: the next start replays more.
    pub fn producer_snapshot_failed(&mut self, offset: Offset) {
        self.snapshots.failed(offset);
    }

    /// The first snapshot at or above `base`, on disk or taken; where there is none, one is taken now.
    pub fn snapshot_producers_from(&mut self, base: Offset) -> Option<Offset> {
        if let Some(known) = self.snapshots.first_known_from(base) {
            return Some(known);
        }
        self.snapshot_producers();
        self.snapshots.first_known_from(base)
    }

    /// True where the snapshot at `offset` is on disk, or was taken and is to be written.
    pub fn knows_producer_snapshot(&self, offset: Offset) -> bool {
        self.snapshots.first_known_from(offset) == Some(offset)
    }

    /// The snapshot on disk that stands for what is below `base`, and that a crash does not take with the log's end.
    pub fn durable_producer_snapshot(&self, base: Offset) -> Option<Offset> {
        self.snapshots.first_in(base..=self.offsets.high_watermark)
    }

    /// The latest snapshot on disk.
    pub fn newest_producer_snapshot(&self) -> Option<Offset> {
        self.snapshots.newest()
    }

    /// True where a snapshot is of no use any more.
    pub fn has_stale_producer_snapshots(&self) -> bool {
        self.snapshots.has_stale(|id| self.segments.binary_search_by_key(&id, Segment::id).is_ok())
    }

    /// True where any producer is known.
    pub fn has_producers(&self) -> bool {
        !self.producers.is_empty()
    }

    /// Snapshots that nobody needs any more, to be removed: those of deleted segments too.
    pub fn take_stale_producer_snapshots(&mut self) -> Vec<Offset> {
        let segments = &self.segments;
        self.snapshots.take_stale(|id| segments.binary_search_by_key(&id, Segment::id).is_ok())
    }
}
