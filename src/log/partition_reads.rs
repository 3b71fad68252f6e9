//! The read side of one partition's log: what its ends are, and where an offset lies.

use crate::log::error::ReadError;
use crate::log::lookup::{Found, Lookup, SegmentView, Start, Want};
use crate::log::partition_log::{PartitionLog, Place};
use crate::log::plan::{ReadBound, ReadHint, ReadPlan};
use crate::record::offset::{LeaderEpoch, Offset, TimestampMs};

impl PartitionLog {
    /// First offset of the log with its epoch (ListOffsets -2).
    pub fn earliest(&self) -> (Offset, Option<LeaderEpoch>) {
        (self.offsets.log_start, self.epoch_at(self.offsets.log_start))
    }

    /// First offset on this machine's disk with its epoch (ListOffsets -4).
    pub fn earliest_local(&self) -> (Offset, Option<LeaderEpoch>) {
        (self.offsets.local_log_start, self.epoch_at(self.offsets.local_log_start))
    }

    /// The epoch of the record at `offset`, also of one that is still to come.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        if offset >= self.offsets.log_end { Some(self.leader_epoch) } else { self.epochs.epoch_of(offset) }
    }

    /// Offset after the last one that a reader may see, with the epoch of new records (ListOffsets -1).
    pub fn latest(&self, bound: ReadBound) -> (Offset, LeaderEpoch) {
        (self.bound(bound).0, self.leader_epoch)
    }

    /// Largest timestamp that a reader may see, and the last offset of the first batch that has it (ListOffsets -3).
    /// `None` where no record has a timestamp.
    pub fn max_timestamp(&self, bound: ReadBound) -> Option<(TimestampMs, Offset)> {
        // As Kafka: of all that is below the high watermark. One that is not stable is not found afterwards.
        let (end, _) = self.bound(if bound == ReadBound::LastStable { ReadBound::HighWatermark } else { bound });
        let visible = self.segments.iter().take_while(|segment| segment.base_offset() < end);
        let known = visible.filter_map(|segment| match bound {
            ReadBound::Written => segment.max_timestamp(),
            _ if segment.id() == self.high_watermark_at.segment => self.readable_max_timestamp,
            _ => segment.max_timestamp(),
        });
        known.reduce(|best, next| if next.0 > best.0 { next } else { best })
    }

    /// Plans a read from `from`: what was written since the last read goes on where that ended without a step.
    ///
    /// The range is at most `max_bytes` long; where the first batch alone is longer, it is that batch with
    /// `min_one_batch`, else nothing.
    ///
    /// # Errors
    /// Where `from` is below the log's start or above what is written.
    pub fn plan_read(
        &self,
        from: Offset,
        max_bytes: u32,
        min_one_batch: bool,
        bound: ReadBound,
    ) -> Result<Lookup, ReadError> {
        if from < self.offsets.log_start || from > self.offsets.written {
            return Err(ReadError::OutOfRange { log_start: self.offsets.log_start, end: self.offsets.written });
        }
        if from < self.offsets.local_log_start {
            return Err(ReadError::BelowLocalStart { local_log_start: self.offsets.local_log_start });
        }
        let want = Want { from, max_bytes, min_one_batch };
        let (end, end_at) = self.bound(bound);
        let after = self.segments.partition_point(|segment| segment.base_offset() <= from);
        let at = after.saturating_sub(1);
        let view = self.view(at, end, end_at);
        let next = (after < self.segments.len()).then(|| self.view(after, end, end_at));
        let start = if from >= end { Start::Empty } else { self.find(&want, at, &view) };
        Ok(Lookup::new(want, view, next, start))
    }

    /// True where `from` lies in an older segment than the end that a reader sees, or in none that is here: what is read
    /// there ends with its segment, however long the reader waits (Kafka's `onOlderSegment`).
    pub fn is_on_older_segment(&self, from: Offset, bound: ReadBound) -> bool {
        let (end, end_at) = self.bound(bound);
        let after = self.segments.partition_point(|segment| segment.base_offset() <= from);
        let segment = after.checked_sub(1).and_then(|at| self.segments.get(at));
        from < end && segment.is_none_or(|segment| segment.id() < end_at.segment)
    }

    /// Bytes from where a range begins to the end that a reader sees, which lies in the same segment.
    pub fn bytes_to_end(&self, range: &ReadPlan, bound: ReadBound) -> u64 {
        let (_, end_at) = self.bound(bound);
        if range.segment == end_at.segment { end_at.position_bytes.saturating_sub(range.position_bytes) } else { 0 }
    }

    /// Remembers where a reader will go on ([`ReadPlan::next_hint`](crate::log::plan::ReadPlan::next_hint)).
    pub fn read_hint(&mut self, hint: ReadHint) {
        self.hints.retain(|known| known.offset != hint.offset);
        if self.hints.len() == HINTS_KEPT {
            self.hints.pop_front();
        }
        self.hints.push_back(hint);
    }

    /// What is known of the place of `want.from` in segment number `at`, without reading.
    fn find(&self, want: &Want, at: usize, view: &SegmentView) -> Start {
        let segment = &self.segments[at];
        let id = segment.id();
        let index = segment.index();
        let relative = u32::try_from(want.from.since(id.0)).unwrap_or(u32::MAX);
        let exact = if want.from == id.0 {
            Some(0)
        } else {
            let hints = self.newest.iter().rev().chain(self.hints.iter().rev());
            hints
                .filter(|hint| hint.segment == id)
                .find(|hint| hint.offset == want.from)
                .map(|hint| hint.position_bytes)
                .or_else(|| {
                    let tail = index.tail();
                    let entry = tail.get(tail.partition_point(|entry| entry.first <= relative).checked_sub(1)?)?;
                    (relative <= entry.last).then_some(u64::from(entry.position))
                })
        };
        if let Some(position_bytes) = exact {
            let end = self.last_boundary(at, position_bytes, u64::from(want.max_bytes), view.readable_bytes);
            return Start::Found(Found { position_bytes, first_batch: None, end });
        }
        let tail = index.tail();
        if let Some(entry) =
            tail.partition_point(|entry| entry.last <= relative).checked_sub(1).and_then(|at| tail.get(at))
        {
            return Start::Scan { position_bytes: u64::from(entry.position) };
        }
        match index.last_flushed() {
            Some(last) if last.relative_offset <= relative => {
                Start::Scan { position_bytes: u64::from(last.position_bytes) }
            }
            Some(last) => Start::Index { entries: index.narrow(relative), last },
            None => Start::Scan { position_bytes: 0 },
        }
    }

    /// The last beginning of a batch that is known within `max_bytes` after `position_bytes`, in segment number `at`.
    fn last_boundary(&self, at: usize, position_bytes: u64, max_bytes: u64, readable_bytes: u64) -> Option<ReadHint> {
        let segment = &self.segments[at];
        let limit = position_bytes.saturating_add(max_bytes).min(readable_bytes);
        let newest =
            self.newest.iter().rev().find(|known| known.segment == segment.id() && known.position_bytes <= limit);
        let tail = segment.index().tail();
        let indexed = tail.partition_point(|entry| u64::from(entry.position) <= limit).checked_sub(1);
        let indexed = indexed.and_then(|at| tail.get(at)).map(|entry| ReadHint {
            offset: segment.base_offset().plus(i64::from(entry.first)),
            segment: segment.id(),
            position_bytes: u64::from(entry.position),
        });
        let best = newest.copied().into_iter().chain(indexed).max_by_key(|known| known.position_bytes)?;
        (best.position_bytes > position_bytes).then_some(best)
    }

    /// Segment number `at` as a reader below `end` sees it.
    pub(in crate::log) fn view(&self, at: usize, end: Offset, end_at: Place) -> SegmentView {
        let segment = &self.segments[at];
        let id = segment.id();
        let hint = |offset, segment, position_bytes| Some(ReadHint { offset, segment, position_bytes });
        let (readable_bytes, after) = match id.cmp(&end_at.segment) {
            std::cmp::Ordering::Less => (
                segment.size_bytes(),
                self.segments.get(at + 1).and_then(|next| hint(next.base_offset(), next.id(), 0)),
            ),
            std::cmp::Ordering::Equal => (end_at.position_bytes, hint(end, id, end_at.position_bytes)),
            std::cmp::Ordering::Greater => (0, None),
        };
        SegmentView { id, readable_bytes, after }
    }

    pub(in crate::log) fn bound(&self, bound: ReadBound) -> (Offset, Place) {
        match bound {
            ReadBound::HighWatermark => (self.offsets.high_watermark, self.high_watermark_at),
            ReadBound::LastStable => (self.offsets.last_stable, self.last_stable_at),
            ReadBound::Written => (self.offsets.written, self.written_at),
        }
    }
}

/// As many sequential readers of one partition go on without a step, 32 bytes each.
const HINTS_KEPT: usize = 8;
