//! Which snapshots of its producers a partition has on disk, and which are to be written.

use std::collections::VecDeque;
use std::ops::RangeBounds;

use crate::log::plan::SegmentId;
use crate::log::producer_state::ProducerStates;
use crate::record::offset::Offset;

/// A snapshot to be written, beside the append path: it saves time at the next start, and nobody waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotWrite {
    /// It says what was known below this offset.
    pub offset: Offset,
    /// The file.
    pub bytes: Vec<u8>,
}

/// The snapshots of one partition. One is due at the base offset of each segment, at the log end of a clean stop, and after
/// [`REPLAY_BYTES_MAX`] of batches, so that a start after a crash has little to replay.
#[derive(Debug, Default)]
pub(in crate::log) struct ProducerSnapshots {
    /// On disk, rising.
    on_disk: Vec<Offset>,
    /// Taken of planned state, and to be written once all below is written: until then a failed append may undo it.
    pending: VecDeque<SnapshotWrite>,
    /// Bytes of batches since the latest one.
    bytes_since: u64,
}

impl ProducerSnapshots {
    /// As they were found; `bytes_since` were replayed behind the last one.
    pub(in crate::log) fn opened(on_disk: Vec<Offset>, bytes_since: u64) -> Self {
        assert!(on_disk.is_sorted(), "{on_disk:?}");
        Self { on_disk, pending: VecDeque::new(), bytes_since }
    }

    /// Notes a planned batch.
    pub(in crate::log) fn appended(&mut self, len_bytes: u32) {
        self.bytes_since += u64::from(len_bytes);
    }

    /// True where a start after a crash would have much to replay.
    pub(in crate::log) fn is_due(&self) -> bool {
        self.bytes_since >= REPLAY_BYTES_MAX
    }

    /// Takes one of all that is planned, which ends at `log_end`.
    pub(in crate::log) fn take(&mut self, log_end: Offset, producers: &ProducerStates) {
        let latest = self.pending.back().map(|write| write.offset).or(self.on_disk.last().copied());
        if latest.is_none_or(|latest| latest < log_end) {
            self.pending.push_back(SnapshotWrite { offset: log_end, bytes: producers.to_snapshot() });
        }
        self.bytes_since = 0;
    }

    /// The earliest on disk in `range`.
    pub(in crate::log) fn first_in(&self, range: impl RangeBounds<Offset>) -> Option<Offset> {
        self.on_disk.iter().copied().find(|offset| range.contains(offset))
    }

    /// The latest on disk.
    pub(in crate::log) fn newest(&self) -> Option<Offset> {
        self.on_disk.last().copied()
    }

    /// The earliest at or above `base`, on disk or to be written.
    pub(in crate::log) fn first_known_from(&self, base: Offset) -> Option<Offset> {
        let pending = self.pending.iter().map(|write| write.offset);
        self.on_disk.iter().copied().chain(pending).find(|offset| *offset >= base)
    }

    /// True where [`take_stale`](Self::take_stale) has some.
    pub(in crate::log) fn has_stale(&self, is_segment: impl Fn(SegmentId) -> bool) -> bool {
        !stale(&self.on_disk, is_segment).is_empty()
    }

    /// A failed append cut the log at `end`.
    pub(in crate::log) fn cut(&mut self, end: Offset) {
        assert!(self.on_disk.last().is_none_or(|last| *last <= end), "a snapshot was written of what was not");
        self.pending.retain(|write| write.offset <= end);
    }

    /// True where [`next`](Self::next) has one.
    pub(in crate::log) fn has_next(&self, written: Offset) -> bool {
        self.pending.front().is_some_and(|write| write.offset <= written)
    }

    /// The next one that can be written; it counts as on disk from here on.
    pub(in crate::log) fn next(&mut self, written: Offset) -> Option<SnapshotWrite> {
        let write = self.pending.pop_front_if(|write| write.offset <= written)?;
        self.on_disk.push(write.offset);
        Some(write)
    }

    /// It could not be written.
    pub(in crate::log) fn failed(&mut self, offset: Offset) {
        self.on_disk.retain(|known| *known != offset);
    }

    /// Snapshots that nobody needs any more: those of deleted segments, and those between segments but for the latest.
    /// They count as removed from here on.
    pub(in crate::log) fn take_stale(&mut self, is_segment: impl Fn(SegmentId) -> bool) -> Vec<Offset> {
        let stale = stale(&self.on_disk, is_segment);
        self.on_disk.retain(|offset| !stale.contains(offset));
        stale
    }
}

/// Kafka's `removeStraySnapshots`: of `on_disk` (rising), all that do not belong to a segment, but for the last one.
pub(in crate::log) fn stale(on_disk: &[Offset], is_segment: impl Fn(SegmentId) -> bool) -> Vec<Offset> {
    let Some((_, earlier)) = on_disk.split_last() else { return Vec::new() };
    earlier.iter().copied().filter(|offset| !is_segment(SegmentId(*offset))).collect()
}

/// A start after a crash replays about as much of each partition: 1,000 headers of 16 KiB batches.
pub(in crate::log) const REPLAY_BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_wait_for_what_they_say_and_go_with_it() {
        let producers = ProducerStates::default();
        let mut snapshots = ProducerSnapshots::opened(vec![Offset(5)], 0);
        snapshots.take(Offset(5), &producers);
        assert!(!snapshots.has_next(Offset(100)), "that one is there");
        for end in [10, 20, 30] {
            snapshots.take(Offset(end), &producers);
        }
        assert_eq!(snapshots.next(Offset(9)), None, "not all below is written");
        assert_eq!(snapshots.next(Offset(25)).map(|write| write.offset), Some(Offset(10)));
        snapshots.cut(Offset(20));
        assert_eq!(snapshots.next(Offset(40)).map(|write| write.offset), Some(Offset(20)));
        assert_eq!(snapshots.next(Offset(40)), None, "the failed append took it away");
        snapshots.take(Offset(30), &producers);
        assert!(snapshots.has_next(Offset(30)));
        assert_eq!(snapshots.next(Offset(30)).map(|write| write.offset), Some(Offset(30)));
        // Segments 10 and 30 are left; 5 was deleted, 20 stands between.
        let is_segment = |id: SegmentId| [10, 30].contains(&id.0.0);
        assert_eq!(snapshots.take_stale(is_segment), [Offset(5), Offset(20)]);
        assert!(snapshots.take_stale(is_segment).is_empty());
        snapshots.failed(Offset(30));
        assert_eq!(snapshots.on_disk, [Offset(10)]);
    }

    #[test]
    fn one_is_due_after_so_many_bytes() {
        let mut snapshots = ProducerSnapshots::opened(Vec::new(), REPLAY_BYTES_MAX - 10);
        assert!(!snapshots.is_due());
        snapshots.appended(10);
        assert!(snapshots.is_due());
        snapshots.take(Offset(7), &ProducerStates::default());
        assert!(!snapshots.is_due());
    }
}
