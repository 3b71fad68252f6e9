//! The offset index of one segment: Kafka's `.index`, its tail in memory.
//!
//! An entry is 8 bytes, big-endian: the last offset of a batch less the segment's base offset, and the position of
//! that batch in the `.log`. One is made for a batch that begins more than `index.interval.bytes` after the batch of
//! the entry before it. Entries go to the file in blocks; the newest stay here, and know where their batch begins too.

use std::collections::VecDeque;

/// One entry as it is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Last offset of the batch, less the segment's base offset.
    pub relative_offset: u32,
    /// Where the batch begins in the log.
    pub position_bytes: u32,
}

impl IndexEntry {
    /// Reads the entries of a file or of a part of it; bytes after the last whole entry are left out.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.chunks_exact(INDEX_ENTRY_BYTES).map(|entry| {
            let number = entry.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
            Self {
                relative_offset: u32::try_from(number >> 32).unwrap_or(u32::MAX),
                position_bytes: u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX),
            }
        })
    }

    /// Adds the entry's bytes to `bytes`.
    pub fn encode(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.relative_offset.to_be_bytes());
        bytes.extend_from_slice(&self.position_bytes.to_be_bytes());
    }
}

/// A newest entry, still in memory: it knows the first offset of its batch as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct TailEntry {
    pub(in crate::log) first: u32,
    pub(in crate::log) last: u32,
    pub(in crate::log) position: u32,
}

impl TailEntry {
    fn in_file(self) -> IndexEntry {
        IndexEntry { relative_offset: self.last, position_bytes: self.position }
    }
}

/// What is known of a segment's index without reading it.
#[derive(Debug, Default)]
pub struct OffsetIndex {
    /// Entries in the file.
    flushed_count: u32,
    /// The last of them.
    last_flushed: Option<IndexEntry>,
    /// Relative offset of the first entry of each block of the file; empty where it is not known (opened or sealed).
    tops: Vec<u32>,
    /// Entries not in the file yet, in order.
    tail: VecDeque<TailEntry>,
}

impl OffsetIndex {
    /// An index whose file has `count` entries, the last of them `last`.
    pub(in crate::log) fn opened(count: u32, last: Option<IndexEntry>) -> Self {
        assert_eq!(count == 0, last.is_none(), "a file with {count} entries and last entry {last:?}");
        Self { flushed_count: count, last_flushed: last, tops: Vec::new(), tail: VecDeque::new() }
    }

    /// All entries, in the file and in memory.
    pub fn entry_count(&self) -> u32 {
        self.flushed_count + u32::try_from(self.tail.len()).unwrap_or(u32::MAX)
    }

    /// Entries in the file.
    pub fn flushed_count(&self) -> u32 {
        self.flushed_count
    }

    pub(in crate::log) fn last_flushed(&self) -> Option<IndexEntry> {
        self.last_flushed
    }

    pub(in crate::log) fn tail(&self) -> &VecDeque<TailEntry> {
        &self.tail
    }

    /// Where the batch of the newest entry begins.
    pub(in crate::log) fn last_position(&self) -> Option<u32> {
        self.tail.back().map(|entry| entry.position).or(self.last_flushed.map(|entry| entry.position_bytes))
    }

    /// The entries of the file among which the greatest one at or below `relative_offset` lies, by number.
    pub(in crate::log) fn narrow(&self, relative_offset: u32) -> std::ops::Range<u32> {
        let whole = 0..self.flushed_count;
        let block = self.tops.partition_point(|top| *top <= relative_offset);
        if block == 0 || self.tops.len() as u32 != self.flushed_count.div_ceil(INDEX_BLOCK_ENTRIES) {
            return whole;
        }
        let first = (block as u32 - 1) * INDEX_BLOCK_ENTRIES;
        first..whole.end.min(first + INDEX_BLOCK_ENTRIES)
    }

    pub(in crate::log) fn push(&mut self, entry: TailEntry) {
        assert!(entry.first <= entry.last, "{entry:?}");
        assert!(self.last_position().is_none_or(|position| position < entry.position), "{entry:?} goes back");
        self.tail.push_back(entry);
    }

    /// Takes back all entries of batches that begin at `position` or later. None of them is in the file.
    pub(in crate::log) fn take_back_from(&mut self, position: u64) {
        while self.tail.back().is_some_and(|entry| u64::from(entry.position) >= position) {
            self.tail.pop_back();
        }
        let flushed_below = self.last_flushed.is_none_or(|last| u64::from(last.position_bytes) < position);
        assert!(flushed_below, "entries from {position} on are in the file already");
    }

    /// Entries to be written now: of batches that begin below `written`; by blocks, the newest block stays here. All
    /// of them where `all` is set. They stay here until they are [`flushed`](Self::flushed).
    pub(in crate::log) fn due(&self, written: u64, all: bool) -> Option<(u64, Vec<u8>)> {
        let ready = self.tail.partition_point(|entry| u64::from(entry.position) < written);
        let count = match all {
            true => ready,
            false => ready.saturating_sub(KEPT_ENTRIES) / FLUSH_ENTRIES * FLUSH_ENTRIES,
        };
        if count == 0 {
            return None;
        }
        let position_bytes = u64::from(self.flushed_count) * INDEX_ENTRY_BYTES as u64;
        let mut bytes = Vec::with_capacity(count * INDEX_ENTRY_BYTES);
        self.tail.iter().take(count).for_each(|entry| entry.in_file().encode(&mut bytes));
        Some((position_bytes, bytes))
    }

    /// The file has the entries that were handed out for `position_bytes`, `len_bytes` of them.
    pub(in crate::log) fn flushed(&mut self, position_bytes: u64, len_bytes: usize) {
        assert_eq!(position_bytes, u64::from(self.flushed_count) * INDEX_ENTRY_BYTES as u64, "entries in their order");
        let tops_known = self.tops.len() as u32 == self.flushed_count.div_ceil(INDEX_BLOCK_ENTRIES);
        for entry in self.tail.drain(..len_bytes / INDEX_ENTRY_BYTES) {
            if tops_known && self.flushed_count.is_multiple_of(INDEX_BLOCK_ENTRIES) {
                self.tops.push(entry.last);
            }
            self.flushed_count += 1;
            self.last_flushed = Some(entry.in_file());
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
        self.tail = VecDeque::new();
        self.tops = Vec::new();
    }
}

/// Length of an entry.
pub const INDEX_ENTRY_BYTES: usize = 8;
/// A lookup reads the file by blocks of 4 KiB.
pub(in crate::log) const INDEX_BLOCK_ENTRIES: u32 = 512;
/// Written at once, and as many stay in memory: a reader within the last 1 MiB of the log (by the default interval)
/// needs no file. 256 entries of 12 bytes are 3 KiB, 6 KiB at most.
const FLUSH_ENTRIES: usize = 256;
const KEPT_ENTRIES: usize = 256;
const _: () = assert!((INDEX_BLOCK_ENTRIES as usize).is_multiple_of(FLUSH_ENTRIES));
