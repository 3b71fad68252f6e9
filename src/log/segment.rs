//! One segment of a partition: its size, its indexes, when it is full.

use crate::log::core_places::{SegmentPlaces, SegmentShape};
use crate::log::offset_index::{INDEX_ENTRY_BYTES, OffsetIndex, TailEntry};
use crate::log::plan::SegmentId;
use crate::log::time_index::{TIME_INDEX_ENTRY_BYTES, TimeIndex, TimeIndexEntry};
use crate::log::time_places::{PlacedRange, TimePlace, TimePlaces};
use crate::log::transaction_index::TransactionIndex;
use crate::record::offset::{Offset, TimestampMs};

/// One `.log` file with its indexes, as planned: bytes on their way to the file count.
#[derive(Debug)]
pub struct Segment {
    id: SegmentId,
    size_bytes: u64,
    index: OffsetIndex,
    time_index: TimeIndex,
    transaction_index: TransactionIndex,
    times: SegmentTimes,
    places: TimePlaces,
    /// This run has seen the batches from here on, and has noted their places.
    noted_from_bytes: u64,
    /// A journal may have places of a segment of this name.
    is_in_journal: bool,
    /// When this run first planned an append to it, for rolls by time where its first batch has no timestamp.
    used_since_ms: Option<i64>,
}

/// What a segment's timestamps come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::log) struct SegmentTimes {
    /// Largest timestamp of its first batch, for rolls by time; `None` while it is empty or where it was not read.
    pub(in crate::log) first: Option<TimestampMs>,
    /// Largest timestamp, and the last offset of the first batch that has it; `None` where no record has a timestamp.
    pub(in crate::log) max: Option<(TimestampMs, Offset)>,
}

/// The limits that decide when a segment is full.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct SegmentLimits {
    pub(in crate::log) segment_bytes: u32,
    pub(in crate::log) index_interval_bytes: u32,
    pub(in crate::log) segment_index_bytes: u32,
    /// The age at which it is rolled, its own jitter taken off.
    pub(in crate::log) roll_ms: u64,
}

/// A batch that asks for its place.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Incoming {
    pub(in crate::log) len_bytes: u32,
    pub(in crate::log) first_offset: Offset,
    pub(in crate::log) last_offset: Offset,
    pub(in crate::log) max_timestamp: TimestampMs,
}

impl Segment {
    /// A new, empty segment.
    pub(in crate::log) fn new(id: SegmentId) -> Self {
        Self::opened(id, 0, OffsetIndex::default(), TimeIndex::default())
    }

    /// A segment that is on disk. Its largest timestamp is what the last entry of its time index says.
    pub(in crate::log) fn opened(id: SegmentId, size_bytes: u64, index: OffsetIndex, time_index: TimeIndex) -> Self {
        let max = time_index.last().map(|last| (last.timestamp, last.offset(id.0)));
        let times = SegmentTimes { first: None, max };
        let transaction_index = TransactionIndex::default();
        let places = TimePlaces::default();
        let noted_from_bytes = size_bytes;
        Self {
            id,
            size_bytes,
            index,
            time_index,
            transaction_index,
            times,
            places,
            noted_from_bytes,
            is_in_journal: false,
            used_since_ms: None,
        }
    }

    /// Its name.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Offset of the first record that it can hold.
    pub fn base_offset(&self) -> Offset {
        self.id.0
    }

    /// Length of its log, with what is planned.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Its offset index.
    pub fn index(&self) -> &OffsetIndex {
        &self.index
    }

    /// Its time index.
    pub fn time_index(&self) -> &TimeIndex {
        &self.time_index
    }

    /// Its transaction index.
    pub fn transaction_index(&self) -> &TransactionIndex {
        &self.transaction_index
    }

    pub(in crate::log) fn transaction_index_mut(&mut self) -> &mut TransactionIndex {
        &mut self.transaction_index
    }

    /// Largest timestamp of its first batch; not known of all that were opened.
    pub fn first_timestamp(&self) -> Option<TimestampMs> {
        self.times.first
    }

    /// Largest timestamp, and the last offset of the first batch that has it (as Kafka's time index has it). `None`
    /// where no record has a timestamp.
    pub fn max_timestamp(&self) -> Option<(TimestampMs, Offset)> {
        self.times.max
    }

    /// Where lookups by time begin.
    pub fn places(&self) -> &TimePlaces {
        &self.places
    }

    /// The piece of the log that has the first batch with a timestamp at or above `target`, where the segment has one: by its
    /// places, and closer where the newest entries of its indexes are in memory.
    pub(in crate::log) fn placed_range(&self, target: TimestampMs) -> PlacedRange {
        let mut range = self.places.range(target);
        let tail = self.index.tail();
        // All batches before the one that the entry names are below the target, or (above) that one reaches it.
        if let Some(floor) = self.time_index.floor_in_memory(target)
            && let Some(at) = tail.partition_point(|entry| entry.last <= floor.relative_offset).checked_sub(1)
            && u64::from(tail[at].position) > range.position_bytes
        {
            range.position_bytes = u64::from(tail[at].position);
            range.relative_offset = Some(tail[at].first);
        }
        if let Some(ceiling) = self.time_index.ceiling_in_memory(target)
            && let Some(behind) = tail.get(tail.partition_point(|entry| entry.first <= ceiling.relative_offset))
        {
            let end_bytes = u64::from(behind.position);
            range.end_bytes = Some(range.end_bytes.map_or(end_bytes, |known| known.min(end_bytes)));
        }
        range
    }

    /// Takes over what an earlier run has kept of its places: see
    /// [`PartitionLog::restore_places`](super::partition_log::PartitionLog::restore_places).
    pub(in crate::log) fn restore_places(&mut self, kept: SegmentPlaces, clean: bool) {
        self.is_in_journal = true;
        let is_unseen = self.noted_from_bytes == self.size_bytes;
        match kept.shape {
            Some(shape) if clean || is_unseen => {
                if shape == self.shape() {
                    self.places = kept.places;
                }
            }
            None if clean => {}
            // The first batch that this run has seen is where it had to begin: what lies before is as it was.
            _ => self.places.put_before(&kept.places, self.noted_from_bytes.min(self.size_bytes.saturating_sub(1))),
        }
    }

    /// Notes that a journal may have places of it, which are not known.
    pub(in crate::log) fn note_in_journal(&mut self) {
        self.is_in_journal = true;
    }

    /// Forgets them; true where a journal may have any.
    pub(in crate::log) fn forget_places(&mut self) -> bool {
        let had_any = !std::mem::take(&mut self.places).as_slice().is_empty();
        std::mem::take(&mut self.is_in_journal) || had_any
    }

    /// What it is known again by.
    pub(in crate::log) fn shape(&self) -> SegmentShape {
        SegmentShape {
            size_bytes: self.size_bytes,
            max_timestamp: self.times.max.map_or(TimestampMs::NONE, |(max, _)| max),
            index_entries: self.index.entry_count(),
            time_index_entries: self.time_index.entry_count(),
        }
    }

    pub(in crate::log) fn times(&self) -> SegmentTimes {
        self.times
    }

    /// Notes the largest timestamp of the first batch, as it was read.
    pub(in crate::log) fn set_first_timestamp(&mut self, timestamp: TimestampMs) {
        self.times.first = Some(timestamp);
    }

    pub(in crate::log) fn index_mut(&mut self) -> &mut OffsetIndex {
        &mut self.index
    }

    /// Gives back memory that it needs no more, where all entries of its indexes were taken: nothing is appended to it.
    pub(in crate::log) fn seal(&mut self) {
        self.index.seal();
        self.time_index.seal();
        self.transaction_index.seal();
        self.places.seal();
    }

    pub(in crate::log) fn time_index_mut(&mut self) -> &mut TimeIndex {
        &mut self.time_index
    }

    /// `offset` less the base offset, where the index can hold it.
    pub(in crate::log) fn relative(&self, offset: Offset) -> Option<u32> {
        u32::try_from(offset.since(self.base_offset())).ok().filter(|relative| *relative <= RELATIVE_OFFSET_MAX)
    }

    /// True where `batch` must go to the next segment. Never for an empty segment: the next one would be no better.
    /// Kafka's `LogSegment.shouldRoll`.
    pub(in crate::log) fn should_roll(&mut self, batch: &Incoming, limits: &SegmentLimits, now_ms: i64) -> bool {
        let used_since_ms = *self.used_since_ms.get_or_insert(now_ms);
        if self.size_bytes == 0 {
            return false;
        }
        let waited_ms = match self.times.first {
            Some(first) if first.0 >= 0 => batch.max_timestamp.0.saturating_sub(first.0),
            _ => now_ms.saturating_sub(used_since_ms),
        };
        let room_bytes = u64::from(limits.segment_bytes.saturating_sub(batch.len_bytes));
        let entries_max = limits.segment_index_bytes / INDEX_ENTRY_BYTES as u32;
        // One is left for the entry that sealing makes.
        let time_entries_max = (limits.segment_index_bytes / TIME_INDEX_ENTRY_BYTES as u32).saturating_sub(1);
        self.size_bytes > room_bytes
            || u64::try_from(waited_ms).is_ok_and(|waited_ms| waited_ms > limits.roll_ms)
            || self.index.entry_count() >= entries_max
            || self.time_index.entry_count() >= time_entries_max
            || self.relative(batch.last_offset).is_none()
            || self.size_bytes + u64::from(batch.len_bytes) > SEGMENT_BYTES_MAX
    }

    /// Reserves the place of a batch at the end.
    pub(in crate::log) fn reserve(&mut self, batch: &Incoming, limits: &SegmentLimits) {
        // Where this run begins to look, an index has told the largest time, and that of the batch there may be in it.
        if (self.size_bytes > self.noted_from_bytes || self.noted_from_bytes == 0)
            && let (Some(relative_offset), Ok(position_bytes)) =
                (self.relative(batch.first_offset), u32::try_from(self.size_bytes))
        {
            let before = self.times.max.map_or(TimestampMs::NONE, |(max, _)| max);
            self.places.note(TimePlace { before, relative_offset, position_bytes });
        }
        self.times.first.get_or_insert(batch.max_timestamp);
        if batch.max_timestamp > self.times.max.map_or(TimestampMs::NONE, |(known, _)| known) {
            self.times.max = Some((batch.max_timestamp, batch.last_offset));
        }
        // Bytes since the last entry's batch, that batch included. (Kafka counts anew after a restart.)
        let since = self.size_bytes - self.index.last_position().map_or(0, u64::from);
        if since > u64::from(limits.index_interval_bytes)
            && let (Some(first), Some(last)) = (self.relative(batch.first_offset), self.relative(batch.last_offset))
            && let Ok(position) = u32::try_from(self.size_bytes)
        {
            self.index.push(TailEntry { first, last, position });
            self.note_max_timestamp(position);
        }
        self.size_bytes += u64::from(batch.len_bytes);
    }

    /// Makes the last entry of the time index, where the largest timestamp has grown since the one before. Done where
    /// the segment is sealed and at a clean stop; harmless in between.
    pub(in crate::log) fn complete_time_index(&mut self) {
        // It counts as the last byte's: written with it, and taken back with any batch.
        if let Some(position) = self.size_bytes.checked_sub(1).and_then(|at| u32::try_from(at).ok()) {
            self.note_max_timestamp(position);
        }
    }

    fn note_max_timestamp(&mut self, position: u32) {
        if let Some((timestamp, offset)) = self.times.max
            && let Some(relative_offset) = self.relative(offset)
        {
            self.time_index.maybe_append(TimeIndexEntry { timestamp, relative_offset }, position);
        }
    }

    /// Takes back all that was reserved from `position_bytes` on; `times` are those of before.
    pub(in crate::log) fn take_back_from(&mut self, position_bytes: u64, times: SegmentTimes) {
        assert!(position_bytes <= self.size_bytes, "cut at {position_bytes} of {}", self.size_bytes);
        self.size_bytes = position_bytes;
        self.index.take_back_from(position_bytes);
        self.time_index.take_back_from(position_bytes);
        self.places.take_back_from(position_bytes);
        self.times = times;
    }
}

/// An index entry's offset is a positive 32-bit number in Kafka.
const RELATIVE_OFFSET_MAX: u32 = i32::MAX.cast_unsigned();
/// So is its position.
const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SegmentLimits = SegmentLimits {
        segment_bytes: 10_000,
        index_interval_bytes: 100,
        segment_index_bytes: 1 << 20,
        roll_ms: u64::MAX,
    };

    fn incoming(len_bytes: u32, offset: i64, timestamp: i64) -> Incoming {
        let (first_offset, last_offset) = (Offset(offset), Offset(offset));
        Incoming { len_bytes, first_offset, last_offset, max_timestamp: TimestampMs(timestamp) }
    }

    /// C060: positions and offsets are positive 32-bit numbers in the index, whatever the configs say.
    #[test]
    fn c060_a_segment_rolls_before_positions_or_offsets_overflow() {
        let limits = SegmentLimits { segment_bytes: u32::MAX, ..LIMITS };
        let base = Offset(7);
        let full = i64::from(i32::MAX);
        let cases = [
            (full as u64 - 100, 100, 8, false),
            (full as u64 - 100, 101, 8, true),
            (1, 100, 7 + full, false),
            (1, 100, 8 + full, true),
        ];
        for (size_bytes, len_bytes, offset, rolls) in cases {
            let mut segment =
                Segment::opened(SegmentId(base), size_bytes, OffsetIndex::default(), TimeIndex::default());
            let batch = incoming(len_bytes, offset, 0);
            assert_eq!(segment.should_roll(&batch, &limits, 0), rolls, "{size_bytes} bytes, {batch:?}");
        }
    }

    #[test]
    fn a_segment_rolls_by_the_time_of_its_first_batch_or_of_its_use() {
        // First timestamp, then the time of the next batch, and the clock at both.
        let cases = [
            (1_000, 1_100, 0, 0, false),
            (1_000, 1_101, 0, 0, true),
            (1_000, 500, 0, 1_000_000, false),
            (-1, 1_000_000, 50, 150, false),
            (-1, -1, 50, 151, true),
        ];
        for (first, next, first_ms, now_ms, rolls) in cases {
            let limits = SegmentLimits { roll_ms: 100, ..LIMITS };
            let mut segment = Segment::new(SegmentId(Offset(0)));
            assert!(!segment.should_roll(&incoming(10, 0, first), &limits, first_ms), "an empty segment never rolls");
            segment.reserve(&incoming(10, 0, first), &limits);
            assert_eq!(
                segment.should_roll(&incoming(10, 1, next), &limits, now_ms),
                rolls,
                "first at {first}, then {next}; clock {first_ms}, then {now_ms}"
            );
        }
    }

    #[test]
    fn a_full_index_rolls_and_the_time_index_keeps_a_place_for_the_last_entry() {
        let limits = SegmentLimits { index_interval_bytes: 0, segment_index_bytes: 48, ..LIMITS };
        for (step_ms, entries) in [(1, 3), (0, 6)] {
            let mut segment = Segment::new(SegmentId(Offset(0)));
            let mut offset = 0;
            while !segment.should_roll(&incoming(10, offset, 1_000 + offset * step_ms), &limits, 0) {
                segment.reserve(&incoming(10, offset, 1_000 + offset * step_ms), &limits);
                offset += 1;
            }
            // The first batch gets no entry.
            assert_eq!(offset, entries + 1, "times rise by {step_ms}");
            segment.complete_time_index();
            assert!(segment.time_index().entry_count() <= 4);
            assert_eq!(
                segment.time_index().last().map(|last| last.timestamp),
                segment.max_timestamp().map(|max| max.0)
            );
        }
    }
}
