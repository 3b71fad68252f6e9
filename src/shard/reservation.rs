//! Blocks that the active segment has ahead of its end, so that writes find them.
//!
//! A buffered write past what is allocated makes the file system promise blocks, page by page: a fifth of what a large
//! append costs on ext4. Ahead means an eighth of what the segment holds, so that many small segments take no room.

use std::cell::Cell;
use std::ops::Range;

use crate::log::plan::SegmentId;

/// How far the active segment of one partition is allocated.
#[derive(Default)]
pub struct Reservation {
    segment: Cell<Option<SegmentId>>,
    end_bytes: Cell<u64>,
    under_way: Cell<bool>,
}

impl Reservation {
    /// The range to allocate, now that `segment` was written up to `written_bytes` and may hold `segment_bytes_max`;
    /// [`done`](Self::done) is to follow. `None` where there is enough, or one is under way.
    pub fn begin(&self, segment: SegmentId, written_bytes: u64, segment_bytes_max: u64) -> Option<Range<u64>> {
        if written_bytes < SEGMENT_BYTES_MIN || self.under_way.get() {
            return None;
        }
        if self.segment.replace(Some(segment)) != Some(segment) {
            self.end_bytes.set(0);
        }
        let ahead = (written_bytes / 8).min(AHEAD_BYTES_MAX);
        let from = self.end_bytes.get().max(written_bytes);
        let to = (written_bytes + ahead).min(segment_bytes_max);
        if self.end_bytes.get() > written_bytes + ahead / 2 || to <= from {
            return None;
        }
        self.under_way.set(true);
        self.end_bytes.set(to);
        Some(from..to)
    }

    /// What [`begin`](Self::begin) gave was carried out. Where that failed, this segment gets no more.
    pub fn done(&self, is_allocated: bool) {
        self.under_way.set(false);
        if !is_allocated {
            self.end_bytes.set(u64::MAX);
        }
    }

    /// True where `segment`, which ends for good at `end_bytes`, has blocks to give back, and nobody allocates any.
    pub fn is_left(&self, segment: SegmentId, end_bytes: u64) -> bool {
        let end = self.end_bytes.get();
        self.segment.get() == Some(segment) && !self.under_way.get() && end > end_bytes && end != u64::MAX
    }
}

/// A smaller segment gets its blocks as it is written.
const SEGMENT_BYTES_MIN: u64 = 8 << 20;
const AHEAD_BYTES_MAX: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::offset::Offset;

    #[test]
    fn an_eighth_ahead_and_never_past_the_segment() {
        const MIB: u64 = 1 << 20;
        let (first, second) = (SegmentId(Offset(0)), SegmentId(Offset(9)));
        let reservation = Reservation::default();
        let mut end = 0;
        for written in (0..100).map(|mib| mib * MIB) {
            if let Some(range) = reservation.begin(first, written, 90 * MIB) {
                assert!(written >= SEGMENT_BYTES_MIN, "at {written}");
                assert!(reservation.begin(first, written + 40 * MIB, u64::MAX).is_none(), "one at a time");
                assert!(range.start >= end && range.start >= written, "{range:?} at {written}");
                assert!(range.end <= (written + written / 8).min(90 * MIB), "{range:?} at {written}");
                end = range.end;
                reservation.done(true);
            }
            assert!(written < SEGMENT_BYTES_MIN || end > written || written >= 90 * MIB, "{end} at {written}");
        }
        assert!(reservation.is_left(first, 80 * MIB) && !reservation.is_left(first, 90 * MIB));
        assert!(!reservation.is_left(second, 0));
        // A segment of its own; after a failure it gets no more, and the next one does.
        assert_eq!(reservation.begin(second, 8 * MIB, u64::MAX), Some(8 * MIB..9 * MIB));
        reservation.done(false);
        assert_eq!(reservation.begin(second, 64 * MIB, u64::MAX), None);
        assert!(!reservation.is_left(second, 64 * MIB));
        assert_eq!(reservation.begin(first, 8 * MIB, u64::MAX), Some(8 * MIB..9 * MIB));
    }
}
