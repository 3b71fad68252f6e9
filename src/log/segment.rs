//! One segment of a partition: its size, its index, when it is full.

use crate::log::offset_index::{OffsetIndex, TailEntry};
use crate::log::plan::SegmentId;
use crate::record::offset::{Offset, TimestampMs};

/// One `.log` file with its index, as planned: bytes on their way to the file count.
#[derive(Debug)]
pub struct Segment {
    id: SegmentId,
    size_bytes: u64,
    index: OffsetIndex,
    /// Timestamp of its first batch, for rolls by time; `None` while it is empty or where it was not read.
    first_timestamp: Option<TimestampMs>,
    /// Largest timestamp and the offset that has it; `None` while it is empty or where it was not read.
    max_timestamp: Option<(TimestampMs, Offset)>,
}

/// The limits that decide when a segment is full.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct SegmentLimits {
    pub(in crate::log) segment_bytes: u32,
    pub(in crate::log) index_interval_bytes: u32,
    pub(in crate::log) segment_index_bytes: u32,
}

impl Segment {
    /// A new, empty segment.
    pub(in crate::log) fn new(id: SegmentId) -> Self {
        Self { id, size_bytes: 0, index: OffsetIndex::default(), first_timestamp: None, max_timestamp: None }
    }

    /// A segment that is on disk.
    pub(in crate::log) fn opened(
        id: SegmentId,
        size_bytes: u64,
        index: OffsetIndex,
        first_timestamp: Option<TimestampMs>,
        max_timestamp: Option<(TimestampMs, Offset)>,
    ) -> Self {
        Self { id, size_bytes, index, first_timestamp, max_timestamp }
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

    /// Timestamp of its first batch.
    pub fn first_timestamp(&self) -> Option<TimestampMs> {
        self.first_timestamp
    }

    /// Largest timestamp, and the first offset that has it.
    pub fn max_timestamp(&self) -> Option<(TimestampMs, Offset)> {
        self.max_timestamp
    }

    pub(in crate::log) fn index_mut(&mut self) -> &mut OffsetIndex {
        &mut self.index
    }

    /// `offset` less the base offset, where the index can hold it.
    pub(in crate::log) fn relative(&self, offset: Offset) -> Option<u32> {
        u32::try_from(offset.since(self.base_offset())).ok().filter(|relative| *relative <= RELATIVE_OFFSET_MAX)
    }

    /// True where a batch of `len_bytes` that ends at `last_offset` must go to the next segment. Never for an empty
    /// segment: the next one would be no better. Kafka's `LogSegment.shouldRoll`, without time.
    pub(in crate::log) fn should_roll(&self, len_bytes: u32, last_offset: Offset, limits: &SegmentLimits) -> bool {
        if self.size_bytes == 0 {
            return false;
        }
        let room_bytes = u64::from(limits.segment_bytes.saturating_sub(len_bytes));
        let entries_max = limits.segment_index_bytes / crate::log::offset_index::INDEX_ENTRY_BYTES as u32;
        self.size_bytes > room_bytes
            || self.index.entry_count() >= entries_max
            || self.relative(last_offset).is_none()
            || self.size_bytes + u64::from(len_bytes) > SEGMENT_BYTES_MAX
    }

    /// Reserves the place of a batch at the end.
    pub(in crate::log) fn reserve(
        &mut self,
        len_bytes: u32,
        first_offset: Offset,
        last_offset: Offset,
        max_timestamp: (TimestampMs, Offset),
        limits: &SegmentLimits,
    ) {
        // Bytes since the last entry's batch, that batch included. (Kafka counts anew after a restart.)
        let since = self.size_bytes - self.index.last_position().map_or(0, u64::from);
        if since > u64::from(limits.index_interval_bytes)
            && let (Some(first), Some(last)) = (self.relative(first_offset), self.relative(last_offset))
            && let Ok(position) = u32::try_from(self.size_bytes)
        {
            self.index.push(TailEntry { first, last, position });
        }
        self.size_bytes += u64::from(len_bytes);
        self.first_timestamp.get_or_insert(max_timestamp.0);
        if self.max_timestamp.is_none_or(|(known, _)| max_timestamp.0 > known) {
            self.max_timestamp = Some(max_timestamp);
        }
    }

    /// Takes back all that was reserved from `position_bytes` on.
    pub(in crate::log) fn take_back_from(
        &mut self,
        position_bytes: u64,
        first_timestamp: Option<TimestampMs>,
        max_timestamp: Option<(TimestampMs, Offset)>,
    ) {
        assert!(position_bytes <= self.size_bytes, "cut at {position_bytes} of {}", self.size_bytes);
        self.size_bytes = position_bytes;
        self.index.take_back_from(position_bytes);
        self.first_timestamp = first_timestamp;
        self.max_timestamp = max_timestamp;
    }
}

/// An index entry's offset is a positive 32-bit number in Kafka.
const RELATIVE_OFFSET_MAX: u32 = i32::MAX.cast_unsigned();
/// So is its position.
const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;
