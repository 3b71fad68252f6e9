//! One remote segment's file: a header of 25 bytes, then six sections.

use crate::tier::error::SegmentFileError;

/// A section of the file, in the order in which they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Kafka's `.index`.
    OffsetIndex = 0,
    /// Kafka's `.timeindex`.
    TimeIndex = 1,
    /// The text of `leader-epoch-checkpoint` up to the segment's end.
    LeaderEpochs = 2,
    /// Kafka's `.snapshot` at the offset after the segment.
    ProducerSnapshot = 3,
    /// Kafka's `.txnindex`; empty where the segment has no aborted transactions.
    TransactionIndex = 4,
    /// The records: all the rest of the file.
    Log = 5,
}

/// Where the sections of one file lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFileHeader {
    /// Where each begins; the first one behind the header.
    positions: [u32; SECTIONS],
    /// Length of the whole file.
    len_bytes: u64,
}

impl SegmentFileHeader {
    /// The header of a file with sections of these lengths.
    ///
    /// # Errors
    /// `TooLong` where a position does not fit into the format's 31 bits.
    pub fn of(section_bytes: [u64; SECTIONS]) -> Result<Self, SegmentFileError> {
        let mut positions = [0; SECTIONS];
        let mut next = HEADER_BYTES as u64;
        for (position, len_bytes) in positions.iter_mut().zip(section_bytes) {
            *position = u32::try_from(next)
                .ok()
                .filter(|position| *position <= POSITION_MAX)
                .ok_or(SegmentFileError::TooLong { len_bytes })?;
            next = next.saturating_add(len_bytes);
        }
        Ok(Self { positions, len_bytes: next })
    }

    /// A header that only says where the records are: at the end of a file of `len_bytes`, as many as they are. What lies
    /// before them is not known.
    #[must_use]
    pub fn of_log_at_end(len_bytes: u64, log_bytes: u64) -> Self {
        let begin = len_bytes.saturating_sub(log_bytes).max(HEADER_BYTES as u64);
        let begin = u32::try_from(begin).unwrap_or(u32::MAX).min(POSITION_MAX);
        Self { positions: [begin; SECTIONS], len_bytes: len_bytes.max(u64::from(begin)) }
    }

    /// Reads the header that a file of `len_bytes` begins with.
    ///
    /// # Errors
    /// Where it is none of version 0, or names places that the file has not.
    pub fn parse(bytes: &[u8], len_bytes: u64) -> Result<Self, SegmentFileError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(SegmentFileError::Short { len_bytes, needed_bytes: HEADER_BYTES as u64 });
        };
        if header[0] != VERSION {
            return Err(SegmentFileError::Version { found: header[0] });
        }
        let mut positions = [0; SECTIONS];
        for (position, bytes) in positions.iter_mut().zip(header[1..].as_chunks::<4>().0) {
            *position = u32::from_be_bytes(*bytes);
        }
        if positions[0] != HEADER_BYTES as u32 || !positions.is_sorted() || positions[SECTIONS - 1] > POSITION_MAX {
            return Err(SegmentFileError::Sections);
        }
        let needed_bytes = u64::from(positions[SECTIONS - 1]);
        if len_bytes < needed_bytes {
            return Err(SegmentFileError::Short { len_bytes, needed_bytes });
        }
        Ok(Self { positions, len_bytes })
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [VERSION; HEADER_BYTES];
        for (into, position) in bytes[1..].as_chunks_mut::<4>().0.iter_mut().zip(self.positions) {
            *into = position.to_be_bytes();
        }
        bytes
    }

    /// Where a section begins in the file.
    #[must_use]
    pub fn position_bytes(&self, section: Section) -> u64 {
        u64::from(self.positions[section as usize])
    }

    /// Length of a section.
    #[must_use]
    pub fn section_bytes(&self, section: Section) -> u64 {
        let end = self.positions.get(section as usize + 1).map_or(self.len_bytes, |next| u64::from(*next));
        end - self.position_bytes(section)
    }

    /// Length of the whole file.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }
}

/// Sections of a file.
pub const SECTIONS: usize = 6;
/// Length of the header.
pub const HEADER_BYTES: usize = 1 + 4 * SECTIONS;
const VERSION: u8 = 0;
const POSITION_MAX: u32 = i32::MAX.cast_unsigned();
const _: () = assert!(HEADER_BYTES == 25);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_byte_for_byte_the_plugins() {
        let header = SegmentFileHeader::of([800, 276, 8, 10, 0, 1_041_512]).expect("it fits");
        let expected: Vec<u8> = [25_u32, 825, 1101, 1109, 1119, 1119].iter().flat_map(|at| at.to_be_bytes()).collect();
        assert_eq!(header.encode()[0], 0);
        assert_eq!(header.encode()[1..], expected[..]);
        assert_eq!(header.len_bytes(), 1119 + 1_041_512);
        assert_eq!(SegmentFileHeader::parse(&header.encode(), header.len_bytes()), Ok(header));
        assert_eq!(header.section_bytes(Section::TransactionIndex), 0);
        assert_eq!(header.section_bytes(Section::Log), 1_041_512);
        assert_eq!(header.position_bytes(Section::TimeIndex), 825);
    }

    #[test]
    fn the_records_are_at_the_end() {
        let whole = SegmentFileHeader::of([800, 276, 8, 10, 0, 1_041_512]).expect("it fits");
        let guessed = SegmentFileHeader::of_log_at_end(whole.len_bytes(), 1_041_512);
        assert_eq!(guessed.position_bytes(Section::Log), whole.position_bytes(Section::Log));
        assert_eq!(guessed.section_bytes(Section::Log), 1_041_512);
        assert_eq!(guessed.section_bytes(Section::OffsetIndex), 0);
        // Files that are not what they should be.
        for len_bytes in [0, 24, 25, 100, 1 << 40] {
            for log_bytes in [0, 1, 101, u64::MAX] {
                let guessed = SegmentFileHeader::of_log_at_end(len_bytes, log_bytes);
                assert!(guessed.position_bytes(Section::Log) >= HEADER_BYTES as u64);
                assert!(guessed.section_bytes(Section::Log) <= len_bytes, "{log_bytes} of {len_bytes}");
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = SegmentFileHeader::of([8, 12, 4, 0, 0, 100]).expect("it fits").encode();
        let changed = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            bytes
        };
        assert_eq!(
            SegmentFileHeader::parse(&good[..24], 149),
            Err(SegmentFileError::Short { len_bytes: 149, needed_bytes: 25 })
        );
        assert_eq!(SegmentFileHeader::parse(&changed(0, 1), 149), Err(SegmentFileError::Version { found: 1 }));
        for at in [1, 4, 5, 9, 13, 17, 21] {
            assert_eq!(SegmentFileHeader::parse(&changed(at, 0xff), 149), Err(SegmentFileError::Sections), "{at}");
        }
        assert_eq!(
            SegmentFileHeader::parse(&good, 48),
            Err(SegmentFileError::Short { len_bytes: 48, needed_bytes: 49 })
        );
        assert_eq!(SegmentFileHeader::parse(&good, 49).expect("an empty log").section_bytes(Section::Log), 0);
        assert!(SegmentFileHeader::of([1 << 31, 0, 0, 0, 0, 0]).is_err());
        assert!(SegmentFileHeader::of([0, 0, 0, 0, 0, 1 << 40]).is_ok(), "only where a section begins is bounded");
    }
}
