//! The time index of one segment: Kafka's `.timeindex`, its tail in memory.
//!
//! An entry is 12 bytes, big-endian: the largest timestamp so far, and the last offset of the first batch that has it,
//! less the segment's base offset. One is made where the offset index gets an entry and the largest timestamp has
//! grown since the entry before, and a last one when the segment is sealed: its last entry tells the largest timestamp.

use crate::record::offset::{Offset, TimestampMs};

/// One entry as it is in the file: every record with a later time comes after that batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeIndexEntry {
    /// Largest timestamp up to here.
    pub timestamp: TimestampMs,
    /// Last offset of the batch that has it, less the segment's base offset.
    pub relative_offset: u32,
}

impl TimeIndexEntry {
    /// Reads the entries of a file or of a part of it; bytes after the last whole entry are left out.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.as_chunks::<TIME_INDEX_ENTRY_BYTES>().0.iter().map(|entry| {
            let number = entry.iter().fold(0_u128, |number, byte| (number << 8) | u128::from(*byte));
            let timestamp = u64::try_from(number >> 32).unwrap_or(u64::MAX).cast_signed();
            let relative_offset = u32::try_from(number & u128::from(u32::MAX)).unwrap_or(u32::MAX);
            Self { timestamp: TimestampMs(timestamp), relative_offset }
        })
    }

    /// Adds the entry's bytes to `bytes`.
    pub fn encode(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.timestamp.0.to_be_bytes());
        bytes.extend_from_slice(&self.relative_offset.to_be_bytes());
    }

    /// True where `next` may follow this one in a file.
    pub(in crate::log) fn rises_to(self, next: Self) -> bool {
        self.timestamp < next.timestamp && self.relative_offset < next.relative_offset
    }

    /// The offset that it names, in a segment with base offset `base`.
    pub fn offset(self, base: Offset) -> Offset {
        base.plus(i64::from(self.relative_offset))
    }
}

/// What is known of a segment's time index without reading it.
#[derive(Debug, Default)]
pub struct TimeIndex {
    /// Entries in the file.
    flushed_count: u32,
    /// The last of them.
    last_flushed: Option<TimeIndexEntry>,
    /// Entries not in the file yet, in order, each with the position of the batch that it was made for.
    tail: Vec<(TimeIndexEntry, u32)>,
}

impl TimeIndex {
    /// An index whose file has `count` entries, the last of them `last`.
    pub(in crate::log) fn opened(count: u32, last: Option<TimeIndexEntry>) -> Self {
        assert_eq!(count == 0, last.is_none(), "a file with {count} entries and last entry {last:?}");
        Self { flushed_count: count, last_flushed: last, tail: Vec::new() }
    }

    /// All entries, in the file and in memory.
    pub fn entry_count(&self) -> u32 {
        self.flushed_count + u32::try_from(self.tail.len()).unwrap_or(u32::MAX)
    }

    /// Entries in the file.
    pub fn flushed_count(&self) -> u32 {
        self.flushed_count
    }

    /// The last entry of the file.
    pub(in crate::log) fn last_flushed(&self) -> Option<TimeIndexEntry> {
        self.last_flushed
    }

    /// The newest entry.
    pub fn last(&self) -> Option<TimeIndexEntry> {
        self.tail.last().map(|(entry, _)| *entry).or(self.last_flushed)
    }

    /// The greatest entry at or below `timestamp` among those in memory; `None` where the file has to be asked, or
    /// there is none at all.
    pub(in crate::log) fn floor_in_memory(&self, timestamp: TimestampMs) -> Option<TimeIndexEntry> {
        let at = self.tail.partition_point(|(entry, _)| entry.timestamp <= timestamp);
        let in_tail = at.checked_sub(1).and_then(|at| self.tail.get(at)).map(|(entry, _)| *entry);
        in_tail.or(self.last_flushed.filter(|last| last.timestamp <= timestamp))
    }

    /// The first entry in memory with a time at or above `timestamp`.
    pub(in crate::log) fn ceiling_in_memory(&self, timestamp: TimestampMs) -> Option<TimeIndexEntry> {
        let at = self.tail.partition_point(|(entry, _)| entry.timestamp < timestamp);
        self.tail.get(at).map(|(entry, _)| *entry)
    }

    /// Notes the largest timestamp so far, at the batch at `position`; an entry is made where it has grown (Kafka's
    /// `TimeIndex.maybeAppend`).
    pub(in crate::log) fn maybe_append(&mut self, entry: TimeIndexEntry, position: u32) {
        let last = self.last();
        if entry.timestamp <= last.map_or(TimestampMs::NONE, |last| last.timestamp) {
            return;
        }
        assert!(last.is_none_or(|last| last.relative_offset < entry.relative_offset), "{last:?}, then {entry:?}");
        self.tail.push((entry, position));
    }

    /// Takes back all entries of batches that begin at `position` or later. None of them is in the file.
    pub(in crate::log) fn take_back_from(&mut self, position: u64) {
        while self.tail.last().is_some_and(|(_, at)| u64::from(*at) >= position) {
            self.tail.pop();
        }
    }

    /// Entries to be written now: of batches that begin below `written`, where they are many or `all` is set. They stay here
    /// until they are [`flushed`](Self::flushed).
    pub(in crate::log) fn due(&self, written: u64, all: bool) -> Option<(u64, Vec<u8>)> {
        let count = self.tail.partition_point(|(_, position)| u64::from(*position) < written);
        if count == 0 || (!all && count < FLUSH_ENTRIES) {
            return None;
        }
        let position_bytes = u64::from(self.flushed_count) * TIME_INDEX_ENTRY_BYTES as u64;
        let mut bytes = Vec::with_capacity(count * TIME_INDEX_ENTRY_BYTES);
        self.tail.iter().take(count).for_each(|(entry, _)| entry.encode(&mut bytes));
        Some((position_bytes, bytes))
    }

    /// The file has the entries that were handed out for `position_bytes`, `len_bytes` of them.
    pub(in crate::log) fn flushed(&mut self, position_bytes: u64, len_bytes: usize) {
        let end_bytes = u64::from(self.flushed_count) * TIME_INDEX_ENTRY_BYTES as u64;
        assert_eq!(position_bytes, end_bytes, "entries in their order");
        for (entry, _) in self.tail.drain(..len_bytes / TIME_INDEX_ENTRY_BYTES) {
            self.flushed_count += 1;
            self.last_flushed = Some(entry);
        }
    }

    /// As [`due`](Self::due), for who throws the file away where a write fails.
    pub(in crate::log) fn take_writes(&mut self, written: u64, all: bool) -> Option<(u64, Vec<u8>)> {
        let due = self.due(written, all)?;
        self.flushed(due.0, due.1.len());
        Some(due)
    }

    /// Gives back memory that a sealed segment, all of whose entries were taken, needs no more.
    pub(in crate::log) fn seal(&mut self) {
        assert!(self.tail.is_empty(), "{} entries were not written", self.tail.len());
        self.tail = Vec::new();
    }
}

/// Length of an entry.
pub const TIME_INDEX_ENTRY_BYTES: usize = 12;
/// A lookup reads the file by blocks of just under 4 KiB.
pub(in crate::log) const TIME_INDEX_BLOCK_ENTRIES: u32 = 341;
/// Written at once; fewer stay in memory, 24 bytes each.
const FLUSH_ENTRIES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(timestamp: i64, relative_offset: u32) -> TimeIndexEntry {
        TimeIndexEntry { timestamp: TimestampMs(timestamp), relative_offset }
    }

    #[test]
    fn an_entry_is_made_where_the_largest_time_has_grown() {
        let mut index = TimeIndex::default();
        for (timestamp, relative, position) in [(-1, 3, 10), (5, 7, 20), (5, 7, 30), (4, 9, 40), (6, 11, 50)] {
            index.maybe_append(entry(timestamp, relative), position);
        }
        assert_eq!(index.entry_count(), 2);
        assert_eq!(index.floor_in_memory(TimestampMs(4)), None);
        assert_eq!(index.floor_in_memory(TimestampMs(5)), Some(entry(5, 7)));
        assert_eq!(index.floor_in_memory(TimestampMs(9)), Some(entry(6, 11)));
        assert_eq!(index.take_writes(50, false), None, "few entries stay in memory");
        let (position_bytes, bytes) = index.take_writes(50, true).expect("the first entry's batch is written");
        assert_eq!((position_bytes, bytes.len()), (0, TIME_INDEX_ENTRY_BYTES));
        assert_eq!(TimeIndexEntry::decode_all(&bytes).collect::<Vec<_>>(), [entry(5, 7)]);
        index.take_back_from(50);
        assert_eq!((index.entry_count(), index.last()), (1, Some(entry(5, 7))));
        index.maybe_append(entry(8, 12), 50);
        assert_eq!(index.take_writes(51, true).expect("one more").0, TIME_INDEX_ENTRY_BYTES as u64);
        index.seal();
    }
}
