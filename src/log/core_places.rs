//! A core's journal of places for lookups by time: frames, one for each segment of its partitions.
//!
//! Its ruler is in `FORMAT.md`. A frame's places are facts of a part of the log that no crash and no start takes away, so
//! the journal needs no order with what is written beside it: see `shard/kept_places.rs`. Of several frames of one segment
//! the one with the highest leader epoch counts, of these the last one, over the files of all cores: a partition that has
//! moved to another core has had its epoch raised. Reading ends at a frame that is cut or wrong: what a crash came upon.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::log::time_places::{TimePlace, TimePlaces};
use crate::record::batch::crc32c;
use crate::record::offset::{LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId};

/// The places of one segment, and what it is known again by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentPlaces {
    /// Its base offset.
    pub base_offset: Offset,
    /// What else it must have; `None` where the places are of its beginning, whatever has become of the rest.
    pub shape: Option<SegmentShape>,
    /// Its places.
    pub places: TimePlaces,
}

/// What tells a segment from another one of its name.
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

impl SegmentPlaces {
    /// That no earlier frame of the segment counts.
    pub fn none_of(base_offset: Offset) -> Self {
        Self { base_offset, shape: None, places: TimePlaces::default() }
    }

    /// Adds its frame to `file`.
    pub fn encode(&self, id: PartitionId, leader_epoch: LeaderEpoch, file: &mut Vec<u8>) {
        let begins_at = file.len();
        file.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
        file.extend_from_slice(&id.topic_id.0);
        file.extend_from_slice(&id.partition.to_be_bytes());
        file.extend_from_slice(&leader_epoch.0.to_be_bytes());
        file.extend_from_slice(&self.base_offset.0.to_be_bytes());
        let shape = self.shape.unwrap_or(NO_SHAPE);
        file.extend_from_slice(&shape.size_bytes.to_be_bytes());
        file.extend_from_slice(&shape.max_timestamp.0.to_be_bytes());
        file.extend_from_slice(&shape.index_entries.to_be_bytes());
        file.extend_from_slice(&shape.time_index_entries.to_be_bytes());
        for place in self.places.as_slice() {
            file.extend_from_slice(&place.before.0.to_be_bytes());
            file.extend_from_slice(&place.relative_offset.to_be_bytes());
            file.extend_from_slice(&place.position_bytes.to_be_bytes());
        }
        let (head, body) = file[begins_at..].split_at_mut(FRAME_HEAD_BYTES);
        let length = u32::try_from(body.len()).expect("a segment has room for 4096 places");
        head[..4].copy_from_slice(&length.to_be_bytes());
        head[4..].copy_from_slice(&crc32c(body).to_be_bytes());
    }
}

/// What the journals of a data directory say. Frames are read when their partition is asked for: a core that reads the
/// files of all takes in its own partitions alone.
#[derive(Debug, Default)]
pub struct CorePlaces {
    files: Vec<Vec<u8>>,
    /// A file could not be read.
    lacks_any: bool,
    frames: BTreeMap<PartitionId, BTreeMap<Offset, FrameAt>>,
}

/// Where the frame that counts is.
#[derive(Clone, Debug)]
struct FrameAt {
    leader_epoch: i32,
    file: usize,
    body: Range<usize>,
}

impl CorePlaces {
    /// Takes in a file. False where it is of another kind, or ends with a frame that is cut or wrong.
    pub fn add_file(&mut self, bytes: Vec<u8>) -> bool {
        let file = self.files.len();
        let mut at = FIRST_BYTES.len();
        let mut is_whole = bytes.starts_with(FIRST_BYTES);
        while is_whole && at < bytes.len() {
            let Some(body) = frame_body(&bytes, at) else {
                is_whole = false;
                break;
            };
            at = body.end;
            let Some((id, leader_epoch, base_offset, _)) = read_key(&bytes[body.clone()]) else {
                is_whole = false;
                break;
            };
            let found = FrameAt { leader_epoch, file, body };
            let known = self.frames.entry(id).or_default().entry(base_offset).or_insert_with(|| found.clone());
            if found.leader_epoch >= known.leader_epoch {
                *known = found;
            }
        }
        self.files.push(bytes);
        is_whole
    }

    /// Notes that a file could not be read.
    pub fn note_unread(&mut self) {
        self.lacks_any = true;
    }

    /// True where a file may say more.
    pub fn lacks_any(&self) -> bool {
        self.lacks_any
    }

    /// The frames of a partition, by base offset; a later call has none.
    pub fn take(&mut self, id: PartitionId) -> Vec<SegmentPlaces> {
        let frames = self.frames.remove(&id).unwrap_or_default();
        let body = |at: FrameAt| self.files.get(at.file).and_then(|file| file.get(at.body));
        frames.into_values().filter_map(body).filter_map(read_frame).collect()
    }
}

/// The body of the frame at `at`, whose CRC is right.
fn frame_body(file: &[u8], at: usize) -> Option<Range<usize>> {
    let mut head = Rest(file.get(at..at.checked_add(FRAME_HEAD_BYTES)?)?);
    let len_bytes = u32::from_be_bytes(*head.take()?) as usize;
    let crc = u32::from_be_bytes(*head.take()?);
    let begins_at = at + FRAME_HEAD_BYTES;
    let body = begins_at..begins_at.checked_add(len_bytes)?;
    (crc32c(file.get(body.clone())?) == crc).then_some(body)
}

fn read_key(body: &[u8]) -> Option<(PartitionId, i32, Offset, Rest<'_>)> {
    let mut rest = Rest(body);
    let topic_id = TopicId(*rest.take()?);
    let id = PartitionId { topic_id, partition: i32::from_be_bytes(*rest.take()?) };
    let leader_epoch = i32::from_be_bytes(*rest.take()?);
    let base_offset = Offset(i64::from_be_bytes(*rest.take()?));
    Some((id, leader_epoch, base_offset, rest))
}

fn read_frame(body: &[u8]) -> Option<SegmentPlaces> {
    let (_, _, base_offset, mut rest) = read_key(body)?;
    let shape = SegmentShape {
        size_bytes: u64::from_be_bytes(*rest.take()?),
        max_timestamp: TimestampMs(i64::from_be_bytes(*rest.take()?)),
        index_entries: u32::from_be_bytes(*rest.take()?),
        time_index_entries: u32::from_be_bytes(*rest.take()?),
    };
    let mut places = Vec::with_capacity(rest.0.len() / PLACE_BYTES);
    while !rest.0.is_empty() {
        places.push(TimePlace {
            before: TimestampMs(i64::from_be_bytes(*rest.take()?)),
            relative_offset: u32::from_be_bytes(*rest.take()?),
            position_bytes: u32::from_be_bytes(*rest.take()?),
        });
    }
    let shape = (shape.size_bytes > 0).then_some(shape);
    let size_bytes = shape.map_or(u64::MAX, |shape| shape.size_bytes);
    Some(SegmentPlaces { base_offset, shape, places: TimePlaces::checked(places, size_bytes)? })
}

/// What is left to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(taken)
    }
}

/// What a file begins with.
pub const FIRST_BYTES: &[u8] = b"ALVPLC2\n";
/// Length and CRC.
const FRAME_HEAD_BYTES: usize = 8;
const PLACE_BYTES: usize = 16;
const NO_SHAPE: SegmentShape =
    SegmentShape { size_bytes: 0, max_timestamp: TimestampMs(0), index_entries: 0, time_index_entries: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8, partition: i32) -> PartitionId {
        PartitionId { topic_id: TopicId([byte; 16]), partition }
    }

    fn segment(base: i64, count: u32, is_whole: bool) -> SegmentPlaces {
        let place = |number: u32| TimePlace {
            before: TimestampMs(1_000 + i64::from(number)),
            relative_offset: 7 * number,
            position_bytes: 600_000 * number,
        };
        let shape = SegmentShape {
            size_bytes: 1 << 30,
            max_timestamp: TimestampMs(9_999),
            index_entries: 200_000,
            time_index_entries: 7,
        };
        let places = TimePlaces::checked((1..=count).map(place).collect(), shape.size_bytes).expect("they rise");
        SegmentPlaces { base_offset: Offset(base), shape: is_whole.then_some(shape), places }
    }

    fn file(frames: &[(PartitionId, i32, SegmentPlaces)]) -> Vec<u8> {
        let mut file = FIRST_BYTES.to_vec();
        frames.iter().for_each(|(id, epoch, segment)| segment.encode(*id, LeaderEpoch(*epoch), &mut file));
        file
    }

    #[test]
    fn there_and_back_by_partition() {
        let frames = [
            (id(7, 0), 3, segment(0, 2, true)),
            (id(9, 0), 3, segment(5, 9, true)),
            (id(7, 0), 3, segment(100, 1, false)),
            (id(7, 1), 3, segment(0, 0, false)),
        ];
        let mut core = CorePlaces::default();
        assert!(core.add_file(file(&frames)));
        assert_eq!(core.take(id(7, 0)), [segment(0, 2, true), segment(100, 1, false)]);
        assert_eq!(core.take(id(7, 0)), [], "they were taken");
        assert_eq!(core.take(id(9, 0)), [segment(5, 9, true)]);
        assert_eq!(core.take(id(7, 1)), [segment(0, 0, false)]);
        assert_eq!(core.take(id(8, 0)), []);
        assert!(core.add_file(FIRST_BYTES.to_vec()), "a journal without frames");
        assert!(!core.add_file(b"ALVPLC1\n".to_vec()), "of an earlier version");
    }

    /// The last one of a file, the highest epoch over all, in whatever order the files are read.
    #[test]
    fn the_newest_frame_of_a_segment_counts() {
        let old = file(&[(id(7, 0), 3, segment(0, 2, true)), (id(7, 0), 3, segment(50, 3, true))]);
        let new = file(&[
            (id(7, 0), 5, segment(0, 1, false)),
            (id(7, 0), 5, segment(0, 4, false)),
            (id(7, 0), 5, SegmentPlaces::none_of(Offset(50))),
        ]);
        for files in [[&old, &new], [&new, &old]] {
            let mut core = CorePlaces::default();
            assert!(files.into_iter().all(|file| core.add_file(file.clone())));
            assert_eq!(core.take(id(7, 0)), [segment(0, 4, false), SegmentPlaces::none_of(Offset(50))]);
        }
    }

    #[test]
    fn a_file_that_is_cut_or_changed_is_read_up_to_there() {
        let frames = [
            (id(7, 0), 3, segment(0, 2, true)),
            (id(7, 0), 3, segment(100, 0, false)),
            (id(7, 0), 3, segment(200, 5, true)),
        ];
        let right = file(&frames);
        let ends: Vec<usize> = (0..=frames.len()).map(|count| file(&frames[..count]).len()).collect();
        for at in 0..right.len() {
            let whole = ends.iter().filter(|end| **end <= at).count().saturating_sub(1);
            let expected: Vec<SegmentPlaces> = frames[..whole].iter().map(|(_, _, segment)| segment.clone()).collect();
            let mut core = CorePlaces::default();
            assert_eq!(core.add_file(right[..at].to_vec()), ends.contains(&at), "cut to {at}");
            assert_eq!(core.take(id(7, 0)), expected, "cut to {at}");
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            let mut core = CorePlaces::default();
            assert!(!core.add_file(wrong.clone()), "changed at {at}");
            assert_eq!(core.take(id(7, 0)), expected, "changed at {at}");
            // Whoever makes the CRC anew still makes nothing of it that takes more than the file has.
            let body = ends[whole] + FRAME_HEAD_BYTES..ends[whole + 1];
            let crc = crc32c(&wrong[body]).to_be_bytes();
            wrong[ends[whole] + 4..ends[whole] + FRAME_HEAD_BYTES].copy_from_slice(&crc);
            let mut core = CorePlaces::default();
            let _ = (core.add_file(wrong), core.take(id(7, 0)));
        }
    }
}
