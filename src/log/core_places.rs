//! A core's file of places for lookups by time, from one clean stop to the next start.
//!
//! Big-endian; derived, and believed only after a clean stop, for a segment that is as long as then and whose indexes
//! have as many entries.
//!
//! ```text
//! "ALVPLC1\n"  CRC-32C of all that follows, 4 bytes
//! partition count, 4 bytes; for each: topic id (16), partition (4), segment count (4); for each segment:
//!   base offset (8)  bytes of its log (8)  largest timestamp (8)  entries of .index (4)  of .timeindex (4)  place count (4)
//!   for each place: largest timestamp before it (8)  relative offset (4)  position (4)
//! ```

use std::collections::BTreeMap;

use crate::log::time_places::{TimePlace, TimePlaces};
use crate::record::batch::crc32c;
use crate::record::offset::{Offset, PartitionId, TimestampMs, TopicId};

/// The places of one segment, and what it is known again by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentPlaces {
    /// Its base offset.
    pub base_offset: Offset,
    /// What else it must have.
    pub shape: SegmentShape,
    /// Its places.
    pub places: TimePlaces,
}

/// What tells a segment from an earlier one of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentShape {
    /// Length of its log.
    pub size_bytes: u64,
    /// Its largest timestamp, -1 for none.
    pub max_timestamp: TimestampMs,
    /// Entries of its offset index.
    pub index_entries: u32,
    /// Entries of its time index.
    pub time_index_entries: u32,
}

/// By partition.
pub type CorePlaces = BTreeMap<PartitionId, Vec<SegmentPlaces>>;

/// The bytes of the file.
pub fn to_bytes(core: &CorePlaces) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_count(&mut bytes, core.len());
    for (id, segments) in core {
        bytes.extend_from_slice(&id.topic_id.0);
        bytes.extend_from_slice(&id.partition.to_be_bytes());
        put_count(&mut bytes, segments.len());
        for SegmentPlaces { base_offset, shape, places } in segments {
            bytes.extend_from_slice(&base_offset.0.to_be_bytes());
            bytes.extend_from_slice(&shape.size_bytes.to_be_bytes());
            bytes.extend_from_slice(&shape.max_timestamp.0.to_be_bytes());
            bytes.extend_from_slice(&shape.index_entries.to_be_bytes());
            bytes.extend_from_slice(&shape.time_index_entries.to_be_bytes());
            put_count(&mut bytes, places.as_slice().len());
            for place in places.as_slice() {
                bytes.extend_from_slice(&place.before.0.to_be_bytes());
                bytes.extend_from_slice(&place.relative_offset.to_be_bytes());
                bytes.extend_from_slice(&place.position_bytes.to_be_bytes());
            }
        }
    }
    let mut file = FIRST_BYTES.to_vec();
    file.extend_from_slice(&crc32c(&bytes).to_be_bytes());
    file.append(&mut bytes);
    file
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("memory has no room for so many");
    bytes.extend_from_slice(&count.to_be_bytes());
}

/// Reads those bytes; `None` where they are not right.
pub fn parse(file: &[u8]) -> Option<CorePlaces> {
    let (crc, bytes) = file.strip_prefix(FIRST_BYTES)?.split_first_chunk::<4>()?;
    if crc32c(bytes) != u32::from_be_bytes(*crc) {
        return None;
    }
    let mut rest = Rest(bytes);
    let mut core = CorePlaces::new();
    for _ in 0..rest.count(PARTITION_BYTES)? {
        let topic_id = TopicId(*rest.take()?);
        let id = PartitionId { topic_id, partition: i32::from_be_bytes(*rest.take()?) };
        let mut segments = Vec::new();
        for _ in 0..rest.count(SEGMENT_BYTES)? {
            let base_offset = Offset(i64::from_be_bytes(*rest.take()?));
            let shape = SegmentShape {
                size_bytes: u64::from_be_bytes(*rest.take()?),
                max_timestamp: TimestampMs(i64::from_be_bytes(*rest.take()?)),
                index_entries: u32::from_be_bytes(*rest.take()?),
                time_index_entries: u32::from_be_bytes(*rest.take()?),
            };
            let mut places = Vec::new();
            for _ in 0..rest.count(PLACE_BYTES)? {
                places.push(TimePlace {
                    before: TimestampMs(i64::from_be_bytes(*rest.take()?)),
                    relative_offset: u32::from_be_bytes(*rest.take()?),
                    position_bytes: u32::from_be_bytes(*rest.take()?),
                });
            }
            segments.push(SegmentPlaces { base_offset, shape, places: TimePlaces::checked(places, shape.size_bytes)? });
        }
        core.insert(id, segments);
    }
    rest.0.is_empty().then_some(core)
}

/// What is left to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(taken)
    }

    /// A count of things of which each takes `bytes_each` at least: never more than are there.
    fn count(&mut self, bytes_each: usize) -> Option<usize> {
        let count = u32::from_be_bytes(*self.take()?) as usize;
        (count <= self.0.len() / bytes_each).then_some(count)
    }
}

const FIRST_BYTES: &[u8] = b"ALVPLC1\n";
const PARTITION_BYTES: usize = 24;
const SEGMENT_BYTES: usize = 36;
const PLACE_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn core() -> CorePlaces {
        let place = |number: u32| TimePlace {
            before: TimestampMs(1_000 + i64::from(number)),
            relative_offset: 7 * number,
            position_bytes: 600_000 * number,
        };
        let segment = |base, count: u32| {
            let shape = SegmentShape {
                size_bytes: 1 << 30,
                max_timestamp: TimestampMs(9_999),
                index_entries: 200_000,
                time_index_entries: 7,
            };
            let places = TimePlaces::checked((1..=count).map(place).collect(), shape.size_bytes).expect("they rise");
            SegmentPlaces { base_offset: Offset(base), shape, places }
        };
        let id = |byte, partition| PartitionId { topic_id: TopicId([byte; 16]), partition };
        [(id(7, 0), vec![segment(0, 2), segment(100, 0)]), (id(7, 1), vec![]), (id(9, 0), vec![segment(5, 9)])].into()
    }

    #[test]
    fn there_and_back() {
        for core in [core(), CorePlaces::new()] {
            assert_eq!(parse(&to_bytes(&core)), Some(core));
        }
    }

    #[test]
    fn a_file_that_is_cut_changed_or_longer_is_none() {
        let right = to_bytes(&core());
        for len in 0..right.len() {
            assert_eq!(parse(&right[..len]), None, "cut to {len}");
            let mut wrong = right.clone();
            wrong[len] ^= 1;
            assert_eq!(parse(&wrong), None, "changed at {len}");
            // Whoever makes the CRC anew still makes nothing of it that takes more than the file has.
            let (_, rest) = wrong.split_at(FIRST_BYTES.len() + 4);
            let crc = crc32c(rest).to_be_bytes();
            let _ = parse(&[FIRST_BYTES, &crc[..], rest].concat());
        }
        assert_eq!(parse(&[&right[..], &[0]].concat()), None);
    }
}
