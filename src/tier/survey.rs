//! A segment's file looked at without knowing anything of it: what it holds, out of its own bytes.
//!
//! The header names the sections; the epochs are a section; where the records begin is in the first batch, and where they
//! end in the last, which the offset index leads to. So a survey reads a few kilobytes of a file of any length.

use crate::log::leader_epochs::{EpochEntry, LeaderEpochs};
use crate::log::offset_index::{INDEX_ENTRY_BYTES, IndexEntry};
use crate::log::time_index::TimeIndexEntry;
use crate::record::batch::{BatchHeader, HEADER_BYTES as BATCH_HEADER_BYTES, parse_header};
use crate::record::offset::{Offset, TimestampMs};
use crate::ring::io::Io;
use crate::tier::error::{BatchDamage, SegmentFileError, StoreError};
use crate::tier::metadata::{RemoteSegment, RemoteSegmentId};
use crate::tier::segment_file::{HEADER_BYTES, Section, SegmentFileHeader};
use crate::tier::segment_state::SegmentState;
use crate::tier::store::{Store, StoredFile};

/// What one file of the tier holds.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// As metadata would have it; who copied it, and its checksum, are not known.
    pub segment: RemoteSegment,
    /// The leader epochs from the log's start to the segment's end.
    pub epochs: LeaderEpochs,
}

/// Why a file is no segment that can be read.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// The store does not answer, or the file is not there.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is no segment file.
    #[error(transparent)]
    File(#[from] SegmentFileError),
    /// Its records are damaged.
    #[error(transparent)]
    Batch(#[from] BatchDamage),
    /// It has no records.
    #[error("it has no records")]
    Empty,
    /// A section is shorter than the header says, or longer than any.
    #[error("its {section:?} section cannot be read")]
    Section {
        /// Which one.
        section: Section,
    },
}

/// An open file of the tier.
pub struct SegmentReader {
    io: Io,
    file: StoredFile,
    path: String,
    header: SegmentFileHeader,
}

/// A store that gave less than there is: asked again it may give all.
fn short_read(path: &str) -> StoreError {
    StoreError::of(path, std::io::Error::from(std::io::ErrorKind::UnexpectedEof))
}

impl SegmentReader {
    /// Opens a file of the store.
    ///
    /// # Errors
    /// It is not there, or is no segment file.
    pub async fn open(io: &Io, store: &Store, path: &str) -> Result<Self, SurveyError> {
        let file = store.open(path).await?;
        let head = file.read(io.buffer(HEADER_BYTES), 0).await?;
        if head.len() < HEADER_BYTES && head.len() as u64 != file.len_bytes() {
            return Err(short_read(path).into());
        }
        let header = SegmentFileHeader::parse(&head, file.len_bytes())?;
        Ok(Self { io: io.clone(), file, path: path.to_owned(), header })
    }

    /// Where its sections are.
    #[must_use]
    pub fn header(&self) -> &SegmentFileHeader {
        &self.header
    }

    /// A whole section; not of the records.
    ///
    /// # Errors
    /// The store does not answer, or the section is not whole.
    pub async fn section(&self, section: Section) -> Result<Vec<u8>, SurveyError> {
        let len_bytes = usize::try_from(self.header.section_bytes(section)).ok();
        let len_bytes = len_bytes.filter(|len| *len <= SECTION_BYTES_MAX).ok_or(SurveyError::Section { section })?;
        self.range(section, 0, len_bytes).await
    }

    /// A range of a section, cut at the section's end.
    ///
    /// # Errors
    /// The store does not answer, or has less than the header says.
    pub async fn range(&self, section: Section, position_bytes: u64, len_bytes: usize) -> Result<Vec<u8>, SurveyError> {
        let left_bytes = self.header.section_bytes(section).saturating_sub(position_bytes);
        let len_bytes = len_bytes.min(usize::try_from(left_bytes).unwrap_or(usize::MAX));
        if len_bytes == 0 {
            return Ok(Vec::new());
        }
        let position_bytes = self.header.position_bytes(section) + position_bytes;
        let bytes = self.file.read(self.io.buffer(len_bytes), position_bytes).await?;
        // The file is long enough, as its opening has said.
        if bytes.len() < len_bytes {
            return Err(short_read(&self.path).into());
        }
        Ok(bytes.to_vec())
    }

    /// The leader epochs from the log's start to the segment's end; none where the section makes no sense.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn epochs(&self) -> Result<LeaderEpochs, SurveyError> {
        let text = self.section(Section::LeaderEpochs).await?;
        Ok(std::str::from_utf8(&text).ok().and_then(LeaderEpochs::parse).unwrap_or_default())
    }

    /// Looks at the file: what it holds, as `id`. Whole batches are not read: `tier verify` does that.
    ///
    /// # Errors
    /// It has no records, or not those that its indexes name.
    pub async fn survey(&self, id: RemoteSegmentId, now_ms: i64) -> Result<Surveyed, SurveyError> {
        let log_bytes = self.header.section_bytes(Section::Log);
        if log_bytes == 0 {
            return Err(SurveyError::Empty);
        }
        let mut piece = Piece::default();
        let first = self.batch_at(&mut piece, 0).await?;
        let mut last = (first.last_offset(), first.max_timestamp);
        let mut position_bytes = self.last_indexed_position().await?;
        let mut visited = 0_u32;
        while position_bytes < log_bytes {
            let header = match self.batch_at(&mut piece, position_bytes).await {
                // An index that leads nowhere: from the first batch on, then.
                Err(SurveyError::Batch(_)) if visited == 0 && position_bytes > 0 => {
                    position_bytes = 0;
                    continue;
                }
                header => header?,
            };
            last = (last.0.max(header.last_offset()), last.1.max(header.max_timestamp));
            position_bytes += u64::from(header.len_bytes);
            visited += 1;
        }
        let start_offset = first.base_offset;
        let epochs = self.epochs().await?;
        let segment = RemoteSegment {
            id,
            start_offset,
            end_offset: last.0,
            max_timestamp: last.1.max(self.largest_indexed_time().await?),
            event_time_ms: now_ms,
            broker_id: UNKNOWN_BROKER,
            segment_bytes: u32::try_from(log_bytes).unwrap_or(u32::MAX),
            file_bytes: self.header.len_bytes(),
            file_crc: 0,
            state: SegmentState::CopyFinished,
            has_transaction_index: self.header.section_bytes(Section::TransactionIndex) > 0,
            epochs: epochs_within(&epochs, &first, last.0),
        };
        Ok(Surveyed { segment, epochs })
    }

    /// Where the last batch begins that the offset index names.
    async fn last_indexed_position(&self) -> Result<u64, SurveyError> {
        let Some(at) = self.header.section_bytes(Section::OffsetIndex).checked_sub(INDEX_ENTRY_BYTES as u64) else {
            return Ok(0);
        };
        let entry = self.range(Section::OffsetIndex, at - at % INDEX_ENTRY_BYTES as u64, INDEX_ENTRY_BYTES).await?;
        Ok(IndexEntry::decode_all(&entry).next().map_or(0, |entry| u64::from(entry.position_bytes)))
    }

    /// The largest time of the segment, which the time index ends with.
    async fn largest_indexed_time(&self) -> Result<TimestampMs, SurveyError> {
        let Some(at) = self.header.section_bytes(Section::TimeIndex).checked_sub(TIME_ENTRY_BYTES) else {
            return Ok(TimestampMs::NONE);
        };
        let entry = self.range(Section::TimeIndex, at - at % TIME_ENTRY_BYTES, TIME_ENTRY_BYTES as usize).await?;
        Ok(TimeIndexEntry::decode_all(&entry).next().map_or(TimestampMs::NONE, |entry| entry.timestamp))
    }

    async fn batch_at(&self, piece: &mut Piece, position_bytes: u64) -> Result<BatchHeader, SurveyError> {
        let damage = |what| SurveyError::Batch(BatchDamage { position_bytes, what });
        if piece.get(position_bytes).is_none() {
            piece.bytes = self.range(Section::Log, position_bytes, PIECE_BYTES).await?;
            piece.position_bytes = position_bytes;
        }
        let head = piece.get(position_bytes).ok_or_else(|| damage("it is cut short"))?;
        let header = parse_header(head).map_err(|_| damage("it has no header"))?;
        let end_bytes = position_bytes + u64::from(header.len_bytes);
        if header.base_offset < Offset(0) || header.last_offset_delta < 0 {
            return Err(damage("its offsets do not follow"));
        }
        if end_bytes > self.header.section_bytes(Section::Log) {
            return Err(damage("it is cut short"));
        }
        Ok(header)
    }
}

/// What was read last.
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    position_bytes: u64,
}

impl Piece {
    fn get(&self, position_bytes: u64) -> Option<&[u8]> {
        let at = usize::try_from(position_bytes.checked_sub(self.position_bytes)?).ok()?;
        self.bytes.get(at..at.checked_add(BATCH_HEADER_BYTES)?)
    }
}

/// The epochs of the segment's own records.
fn epochs_within(epochs: &LeaderEpochs, first: &BatchHeader, end: Offset) -> Vec<EpochEntry> {
    let start = first.base_offset;
    let below: Vec<EpochEntry> = epochs.entries().iter().filter(|entry| entry.start_offset <= end).copied().collect();
    let from = below.partition_point(|entry| entry.start_offset <= start).saturating_sub(1);
    let within: Vec<EpochEntry> = below
        .into_iter()
        .skip(from)
        .map(|entry| EpochEntry { start_offset: entry.start_offset.max(start), ..entry })
        .collect();
    if within.is_empty() { vec![EpochEntry { epoch: first.leader_epoch, start_offset: start }] } else { within }
}

/// Of a segment that nobody knows the copier of.
const UNKNOWN_BROKER: i32 = -1;
const TIME_ENTRY_BYTES: u64 = 12;
/// Sections besides the records: an index of Kafka's has 10 MiB at most by default.
const SECTION_BYTES_MAX: usize = 256 << 20;
const PIECE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::log::producer_snapshot;
    use crate::record::offset::LeaderEpoch;
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::world::Sim;
    use crate::wire::uuid::Uuid;

    /// Laid out byte by byte as the plugin of Kafka's 2.8 branch does it, of files that Kafka wrote.
    const PLUGINS: &[u8] =
        include_bytes!("../../tests/golden/tier/orders-3--_v7-_v7-_v7-_v7-_v7-w/AAECAwQFBgcICQoLDA0ODw");
    const ID: RemoteSegmentId = RemoteSegmentId(Uuid([7; 16]));

    /// Looks at a file of these bytes.
    fn survey(bytes: Vec<u8>) -> Result<(Surveyed, Vec<u8>), SurveyError> {
        let sim = Sim::new(SimOptions::default());
        let io = sim.machine().core(0);
        let run = io.clone();
        let done = std::rc::Rc::new(std::cell::RefCell::new(None));
        let told = done.clone();
        sim.run(&io, 1 << 40, async move {
            let store = Store::directory(&run, Path::new("/tier"));
            store.make_folder("p").await.expect("space");
            store.put("p/s", "p/t", bytes).await.expect("space");
            let surveyed = async {
                let reader = SegmentReader::open(&run, &store, "p/s").await?;
                Ok((reader.survey(ID, 5).await?, reader.section(Section::ProducerSnapshot).await?))
            };
            *told.borrow_mut() = Some(surveyed.await);
        })
        .expect("ends");
        done.take().expect("it ran to its end")
    }

    #[test]
    fn a_file_of_the_plugins_says_what_it_holds() {
        let (surveyed, producers) = survey(PLUGINS.to_vec()).expect("whole");
        let segment = surveyed.segment;
        assert_eq!((segment.start_offset, segment.end_offset), (Offset(9), Offset(86)));
        assert_eq!((segment.segment_bytes, segment.file_bytes), (5000, PLUGINS.len() as u64));
        assert!(segment.has_transaction_index);
        assert_eq!(segment.epochs, [EpochEntry { epoch: LeaderEpoch(4), start_offset: Offset(9) }]);
        assert_eq!(surveyed.epochs.entries().len(), 1);
        assert_eq!(producer_snapshot::parse(&producers).expect("Kafka's").len(), 3);
        // Without indexes all headers are walked, and say the same.
        let header = SegmentFileHeader::parse(PLUGINS, PLUGINS.len() as u64).expect("right");
        let part = |section| {
            let from = header.position_bytes(section) as usize;
            PLUGINS[from..from + header.section_bytes(section) as usize].to_vec()
        };
        let without = SegmentFileHeader::of([0, 0, 0, 0, 0, 5000]).expect("it fits");
        let bytes = [&without.encode()[..], &part(Section::Log)].concat();
        let (walked, _) = survey(bytes).expect("whole");
        assert_eq!(walked.segment.end_offset, segment.end_offset);
        assert_eq!(walked.segment.max_timestamp, segment.max_timestamp);
        // An index that leads nowhere is passed over.
        let index = [0, 0, 0, 1, 0, 0, 0, 7];
        let misled = SegmentFileHeader::of([8, 0, 0, 0, 0, 5000]).expect("it fits");
        let bytes = [&misled.encode()[..], &index, &part(Section::Log)].concat();
        assert_eq!(survey(bytes).expect("whole").0.segment.end_offset, segment.end_offset);
    }

    #[test]
    fn what_is_no_segment_is_said_in_words() {
        let changed = |at: usize, bytes: &[u8]| {
            let mut file = PLUGINS.to_vec();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            file
        };
        let log_at = PLUGINS.len() - 5000;
        let cases = [
            (changed(0, &[1]), "version byte 1"),
            (changed(9, &[0, 0, 0, 30]), "places the sections wrongly"),
            (changed(21, &[0x7f, 0, 0, 0]), "its header needs"),
            (PLUGINS[..24].to_vec(), "its header needs 25"),
            (PLUGINS[..log_at].to_vec(), "it has no records"),
            (PLUGINS[..PLUGINS.len() - 1].to_vec(), "cut short"),
            (PLUGINS[..log_at + 30].to_vec(), "cut short"),
            (changed(log_at + 16, &[9]), "has no header"),
        ];
        for (bytes, words) in cases {
            let said = survey(bytes).expect_err(words).to_string();
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn damage_anywhere_is_no_panic() {
        for at in (0..PLUGINS.len()).step_by(3) {
            let mut bytes = PLUGINS.to_vec();
            bytes[at] ^= 0x81;
            let _ = survey(bytes);
        }
    }
}
