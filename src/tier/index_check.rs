//! The indexes of a segment held against its batches as they go by, and made anew from them.
//!
//! A wrong index must not be copied: it would be believed for years. Indexes are derived, so where one is wrong a right one
//! takes its place in the copy.

use crate::log::offset_index::IndexEntry;
use crate::log::time_index::TimeIndexEntry;
use crate::record::batch::BatchHeader;
use crate::record::offset::{Offset, TimestampMs};

/// Both indexes of one segment, while its batches are walked.
pub struct IndexCheck {
    base_offset: Offset,
    offsets: Vec<IndexEntry>,
    next_offset_entry: usize,
    times: Vec<TimeIndexEntry>,
    next_time_entry: usize,
    is_wrong: bool,
    interval_bytes: u64,
    made: MadeIndexes,
    /// Where the batch of the latest entry that was made begins.
    made_at_bytes: u64,
    max: Option<TimeIndexEntry>,
    last_made_timestamp: TimestampMs,
}

/// The bytes of indexes that were made from batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeIndexes {
    /// `.index`
    pub offset_index: Vec<u8>,
    /// `.timeindex`
    pub time_index: Vec<u8>,
}

impl IndexCheck {
    /// Of a segment that begins at `base_offset`, with the bytes of its two indexes.
    #[must_use]
    pub fn new(base_offset: Offset, offset_index: &[u8], time_index: &[u8], interval_bytes: u32) -> Self {
        Self {
            base_offset,
            offsets: IndexEntry::decode_all(offset_index).collect(),
            next_offset_entry: 0,
            times: TimeIndexEntry::decode_all(time_index).collect(),
            next_time_entry: 0,
            is_wrong: false,
            interval_bytes: u64::from(interval_bytes),
            made: MadeIndexes::default(),
            made_at_bytes: 0,
            max: None,
            last_made_timestamp: TimestampMs::NONE,
        }
    }

    /// The next batch, and where it begins.
    pub fn batch(&mut self, position_bytes: u64, header: &BatchHeader) {
        let within = header.base_offset..=header.last_offset();
        while let Some(entry) = self.offsets.get(self.next_offset_entry)
            && u64::from(entry.position_bytes) <= position_bytes
        {
            let offset = self.base_offset.plus(i64::from(entry.relative_offset));
            self.is_wrong |= u64::from(entry.position_bytes) != position_bytes || !within.contains(&offset);
            self.next_offset_entry += 1;
        }
        while let Some(entry) = self.times.get(self.next_time_entry)
            && entry.offset(self.base_offset) <= header.last_offset()
        {
            let is_here = within.contains(&entry.offset(self.base_offset));
            self.is_wrong |= !is_here || entry.timestamp != header.max_timestamp;
            self.next_time_entry += 1;
        }
        self.make(position_bytes, header);
    }

    fn make(&mut self, position_bytes: u64, header: &BatchHeader) {
        let Ok(relative_offset) = u32::try_from(header.last_offset().since(self.base_offset)) else { return };
        if header.max_timestamp > self.max.map_or(TimestampMs::NONE, |max| max.timestamp) {
            self.max = Some(TimeIndexEntry { timestamp: header.max_timestamp, relative_offset });
        }
        if position_bytes - self.made_at_bytes > self.interval_bytes
            && let Ok(position) = u32::try_from(position_bytes)
        {
            IndexEntry { relative_offset, position_bytes: position }.encode(&mut self.made.offset_index);
            self.made_at_bytes = position_bytes;
            self.make_time_entry();
        }
    }

    fn make_time_entry(&mut self) {
        if let Some(max) = self.max.filter(|max| max.timestamp > self.last_made_timestamp) {
            max.encode(&mut self.made.time_index);
            self.last_made_timestamp = max.timestamp;
        }
    }

    /// All batches have gone by: indexes to take instead, where those there are wrong.
    #[must_use]
    pub fn finish(mut self) -> Option<MadeIndexes> {
        let is_wrong = self.is_wrong
            || self.next_offset_entry < self.offsets.len()
            || self.next_time_entry < self.times.len()
            // Its last entry tells the largest time of the segment.
            || self.times.last().map(|last| last.timestamp) != self.max.map(|max| max.timestamp);
        self.make_time_entry();
        is_wrong.then_some(self.made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::parse_header;
    use crate::record::builder::BatchBuilder;

    /// Ten batches of one record, 100 bytes apart, with rising times.
    fn walk(mut check: IndexCheck) -> Option<MadeIndexes> {
        for number in 0..10 {
            let mut builder = BatchBuilder::new();
            builder.add(1000 + number, None, Some(b"v"));
            let mut batch = builder.build().expect("in memory");
            crate::record::batch::stamp(&mut batch, Offset(50 + number), crate::record::offset::LeaderEpoch(0));
            check.batch(number.cast_unsigned() * 100, &parse_header(&batch).expect("a batch"));
        }
        check.finish()
    }

    fn check(offset_index: &[u8], time_index: &[u8]) -> Option<MadeIndexes> {
        walk(IndexCheck::new(Offset(50), offset_index, time_index, 250))
    }

    #[test]
    fn c154_a_wrong_index_is_seen_and_a_right_one_made() {
        let made = check(&[], &[]).expect("an index that is not there is wrong");
        let offsets: Vec<_> = IndexEntry::decode_all(&made.offset_index).collect();
        assert_eq!(offsets.iter().map(|entry| entry.position_bytes).collect::<Vec<_>>(), [300, 600, 900]);
        assert_eq!(made.time_index.len(), 3 * 12, "the last entry has the largest time");
        assert_eq!(check(&made.offset_index, &made.time_index), None, "what was made is right");
        for at in 0..made.offset_index.len() {
            let mut wrong = made.offset_index.clone();
            wrong[at] ^= 0x10;
            assert_eq!(check(&wrong, &made.time_index).as_ref(), Some(&made), "offset index, byte {at}");
        }
        for at in 0..made.time_index.len() {
            let mut wrong = made.time_index.clone();
            wrong[at] ^= 0x10;
            assert_eq!(check(&made.offset_index, &wrong).as_ref(), Some(&made), "time index, byte {at}");
        }
        assert!(check(&made.offset_index[..8], &made.time_index).is_none(), "a shorter one is only slower");
        assert!(check(&made.offset_index, &made.time_index[..24]).is_some(), "without the largest time it misleads");
    }
}
