//! The aborted transactions of one segment: Kafka's `.txnindex`, those of the active segment in memory.
//!
//! An entry is 34 bytes, big-endian: version (int16, 0), producer id, first offset, last offset (the abort marker's), and
//! the last stable offset when the marker came (int64 each). It stands in the segment that has the marker. Entries rise by
//! their last offset. A segment without aborted transactions has no file.

use crate::record::offset::{Offset, ProducerId};

/// A transaction whose records are to be passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Who wrote it.
    pub producer_id: ProducerId,
    /// Offset of its first record in the partition.
    pub first_offset: Offset,
    /// Offset of the marker that ended it.
    pub last_offset: Offset,
    /// The last stable offset that the marker made: none that comes later begins below it.
    pub last_stable_offset: Offset,
}

impl AbortedTransaction {
    /// Reads the entries of a file; ends before one that is cut off, or of a version that is not known.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.chunks_exact(TRANSACTION_ENTRY_BYTES).map_while(|entry| {
            let version = entry.first_chunk::<2>()?;
            let field = |number: usize| {
                let at = 2 + number * 8;
                entry.get(at..)?.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes))
            };
            (*version == VERSION.to_be_bytes()).then_some(())?;
            Some(Self {
                producer_id: ProducerId(field(0)?),
                first_offset: Offset(field(1)?),
                last_offset: Offset(field(2)?),
                last_stable_offset: Offset(field(3)?),
            })
        })
    }

    /// Adds the entry's bytes to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        for field in [self.producer_id.0, self.first_offset.0, self.last_offset.0, self.last_stable_offset.0] {
            bytes.extend_from_slice(&field.to_be_bytes());
        }
    }
}

/// Adds those of `entries` (of one segment) to `found` that a reader of `from..upper` needs. False: no later segment has
/// another one. Kafka's `TransactionIndex.collectAbortedTxns`.
pub fn collect(
    entries: impl IntoIterator<Item = AbortedTransaction>,
    from: Offset,
    upper: Offset,
    found: &mut Vec<AbortedTransaction>,
) -> bool {
    for entry in entries {
        if entry.last_offset >= from && entry.first_offset < upper {
            found.push(entry);
        }
        if entry.last_stable_offset >= upper {
            return false;
        }
    }
    true
}

/// What is known of a segment's transaction index without reading it.
#[derive(Debug, Default)]
pub struct TransactionIndex {
    /// Entries in the file.
    flushed_count: u32,
    /// Entries that are on stable storage.
    synced_count: u32,
    /// Entries in memory: all, or none that is in the file (of a segment that was sealed or opened).
    entries: Vec<AbortedTransaction>,
    /// The file has entries that are not in memory.
    is_on_disk: bool,
}

impl TransactionIndex {
    /// An index whose file has `count` entries that nobody has read.
    pub(in crate::log) fn opened(count: u32) -> Self {
        Self { flushed_count: count, synced_count: count, entries: Vec::new(), is_on_disk: count > 0 }
    }

    /// An index whose file has just these entries.
    pub(in crate::log) fn loaded(entries: Vec<AbortedTransaction>) -> Self {
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        Self { flushed_count: count, synced_count: count, entries, is_on_disk: false }
    }

    /// How many there are, in the file and in memory.
    pub fn entry_count(&self) -> u32 {
        if self.is_on_disk { self.flushed_count } else { u32::try_from(self.entries.len()).unwrap_or(u32::MAX) }
    }

    /// All entries; `None` where they are to be read from the file.
    pub fn in_memory(&self) -> Option<&[AbortedTransaction]> {
        (!self.is_on_disk).then_some(&self.entries)
    }

    /// Adds the transaction whose marker was planned.
    pub(in crate::log) fn push(&mut self, entry: AbortedTransaction) {
        assert!(!self.is_on_disk, "markers are appended to the active segment, whose index is in memory");
        assert!(self.entries.last().is_none_or(|last| last.last_offset < entry.last_offset), "{entry:?} goes back");
        self.entries.push(entry);
    }

    /// Takes back the entries whose markers lie at `end` or later; none of them is in the file.
    pub(in crate::log) fn cut(&mut self, end: Offset) {
        if self.is_on_disk {
            return;
        }
        self.entries.truncate(self.entries.partition_point(|entry| entry.last_offset < end));
        assert!(self.entries.len() >= self.flushed_count as usize, "entries from {end} on are in the file already");
    }

    /// Entries to be written now, and where: those whose markers lie below `written`.
    pub(in crate::log) fn take_writes(&mut self, written: Offset) -> Option<(u64, Vec<u8>)> {
        if self.is_on_disk {
            return None;
        }
        let ready = self.entries.partition_point(|entry| entry.last_offset < written);
        let new = self.entries.get(self.flushed_count as usize..ready).filter(|new| !new.is_empty())?;
        let mut bytes = Vec::with_capacity(new.len() * TRANSACTION_ENTRY_BYTES);
        for entry in new {
            entry.encode(&mut bytes);
        }
        let position_bytes = u64::from(self.flushed_count) * TRANSACTION_ENTRY_BYTES as u64;
        self.flushed_count = u32::try_from(ready).unwrap_or(u32::MAX);
        Some((position_bytes, bytes))
    }

    /// What was handed out for `position_bytes` is not in the file: it is handed out again, with all after it.
    pub(in crate::log) fn not_written(&mut self, position_bytes: u64) {
        let count = u32::try_from(position_bytes / TRANSACTION_ENTRY_BYTES as u64).unwrap_or(u32::MAX);
        if !self.is_on_disk {
            self.flushed_count = self.flushed_count.min(count);
        }
        assert!(self.synced_count <= self.flushed_count, "entries on stable storage are to be written again");
    }

    /// The file is on stable storage up to `end_bytes`.
    pub(in crate::log) fn synced(&mut self, end_bytes: u64) {
        let count = u32::try_from(end_bytes / TRANSACTION_ENTRY_BYTES as u64).unwrap_or(u32::MAX);
        self.synced_count = self.synced_count.max(count.min(self.flushed_count));
    }

    /// The marker of the first entry that is not on stable storage.
    pub(in crate::log) fn unsynced_from(&self) -> Option<Offset> {
        if self.is_on_disk {
            return None;
        }
        self.entries.get(self.synced_count as usize).map(|entry| entry.last_offset)
    }

    /// Lets go of the entries of a sealed segment, where the file has them all durably.
    pub(in crate::log) fn seal(&mut self) {
        if self.synced_count as usize == self.entries.len() && !self.is_on_disk {
            self.is_on_disk = !self.entries.is_empty();
            self.entries = Vec::new();
        }
    }
}

const VERSION: i16 = 0;
/// Version, producer id, first, last and last stable offset.
pub const TRANSACTION_ENTRY_BYTES: usize = 34;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(producer_id: i64, first: i64, last: i64, stable: i64) -> AbortedTransaction {
        AbortedTransaction {
            producer_id: ProducerId(producer_id),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(stable),
        }
    }

    #[test]
    fn entries_come_back_up_to_what_is_no_entry() {
        let entries = [entry(1, 0, 10, 11), entry(2, 5, 12, 13)];
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        assert_eq!(bytes.len(), 2 * TRANSACTION_ENTRY_BYTES);
        for cut in 0..=bytes.len() {
            let whole = cut / TRANSACTION_ENTRY_BYTES;
            assert!(AbortedTransaction::decode_all(&bytes[..cut]).eq(entries[..whole].iter().copied()), "cut at {cut}");
        }
        bytes[TRANSACTION_ENTRY_BYTES + 1] = 1;
        assert_eq!(AbortedTransaction::decode_all(&bytes).count(), 1, "a version that is not known");
    }

    #[test]
    fn a_reader_gets_those_that_touch_its_range() {
        let entries = [entry(1, 0, 4, 2), entry(2, 2, 8, 9), entry(3, 20, 25, 26), entry(4, 30, 31, 32)];
        let cases = [
            (0, 1, vec![1], false),
            (5, 9, vec![2], false),
            (5, 10, vec![2], false),
            (9, 20, vec![], false),
            (9, 21, vec![3], false),
            (0, 100, vec![1, 2, 3, 4], true),
            (4, 2, vec![1], false),
        ];
        for (from, upper, expected, goes_on) in cases {
            let mut found = Vec::new();
            let more = collect(entries, Offset(from), Offset(upper), &mut found);
            let ids: Vec<i64> = found.iter().map(|entry| entry.producer_id.0).collect();
            assert_eq!((ids, more), (expected, goes_on), "{from}..{upper}");
        }
    }

    #[test]
    fn entries_go_to_the_file_once_and_are_let_go_once_durable() {
        let mut index = TransactionIndex::loaded(vec![entry(1, 0, 4, 5)]);
        index.push(entry(2, 5, 8, 9));
        index.push(entry(3, 9, 12, 13));
        assert_eq!(index.take_writes(Offset(8)), None, "the marker itself is not written");
        let (at, bytes) = index.take_writes(Offset(9)).expect("one is due");
        assert_eq!((at, bytes.len()), (34, 34));
        assert_eq!(index.unsynced_from(), Some(Offset(8)));
        index.cut(Offset(12));
        assert_eq!(index.entry_count(), 2, "the append of the third failed");
        index.seal();
        assert!(index.in_memory().is_some(), "not all are durable");
        index.not_written(at);
        assert_eq!(index.unsynced_from(), Some(Offset(8)), "it is to be written again");
        assert_eq!(index.take_writes(Offset(9)), Some((at, bytes)));
        index.synced(68);
        assert_eq!(index.unsynced_from(), None);
        index.seal();
        assert_eq!((index.in_memory(), index.entry_count()), (None, 2));
        assert_eq!(index.take_writes(Offset(100)), None);
    }
}
