//! One manifest: what a restore needs to know of a tier, as bytes.
//!
//! A full one says all that its core knows, a delta what has changed since the manifest before. `FORMAT.md` draws them.

use crate::record::batch::crc32c;
use crate::record::offset::{Offset, PartitionId, TopicId};
use crate::tier::error::ManifestError;
use crate::tier::metadata::{SegmentEvent, take};
use crate::tier::metadata_file::{frame_of, next_frame};

/// A manifest that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// What it says of itself.
    pub header: ManifestHeader,
    /// What it says, in order.
    pub entries: Vec<ManifestEntry>,
}

/// What a manifest says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestHeader {
    /// It says all; else what has changed.
    pub is_full: bool,
    /// The broker whose core wrote it: each has a row of manifests of its own.
    pub broker_id: i32,
    /// Its place in that row.
    pub number: u64,
    /// When it was written, in milliseconds since 1970.
    pub written_ms: i64,
    /// The cluster's id.
    pub cluster_id: String,
}

/// One thing that a manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestEntry {
    /// An image of the catalog: topics, ids, settings.
    Catalog(Vec<u8>),
    /// A partition; the segments that follow are its.
    Partition(ManifestPartition),
    /// A segment that is read, or that is no more.
    Segment(SegmentEvent),
    /// All committed offsets of one partition of `__consumer_offsets`.
    GroupOffsets {
        /// That partition.
        partition: i32,
        /// Its leader's epoch: of two that speak of it, the higher one knows better.
        leader_epoch: i32,
        /// Its records, as batches of Kafka's.
        batches: Vec<u8>,
    },
}

/// What a manifest says of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestPartition {
    /// Which one.
    pub id: PartitionId,
    /// Its topic's name.
    pub topic: String,
    /// Its leader's epoch.
    pub leader_epoch: i32,
    /// Where its log begins.
    pub log_start: Offset,
    /// Where its log ended, with what only the local disk has.
    pub log_end: Offset,
}

/// Makes the bytes of one manifest, in pieces.
pub struct ManifestEncoder {
    out: Vec<u8>,
    frame_count: u32,
}

impl ManifestEncoder {
    /// A manifest with this header.
    #[must_use]
    pub fn new(header: &ManifestHeader) -> Self {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.push(u8::from(!header.is_full));
        out.extend_from_slice(&header.broker_id.to_be_bytes());
        out.extend_from_slice(&header.number.to_be_bytes());
        out.extend_from_slice(&header.written_ms.to_be_bytes());
        put_text(&mut out, &header.cluster_id);
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        Self { out, frame_count: 0 }
    }

    /// Adds an entry.
    pub fn add(&mut self, entry: &ManifestEntry) {
        let mut payload = Vec::with_capacity(128);
        match entry {
            ManifestEntry::Catalog(image) => {
                payload.push(KIND_CATALOG);
                payload.extend_from_slice(image);
            }
            ManifestEntry::Partition(partition) => {
                payload.push(KIND_PARTITION);
                payload.extend_from_slice(&partition.id.topic_id.0);
                payload.extend_from_slice(&partition.id.partition.to_be_bytes());
                payload.extend_from_slice(&partition.leader_epoch.to_be_bytes());
                payload.extend_from_slice(&partition.log_start.0.to_be_bytes());
                payload.extend_from_slice(&partition.log_end.0.to_be_bytes());
                put_text(&mut payload, &partition.topic);
            }
            ManifestEntry::Segment(event) => {
                payload.push(KIND_SEGMENT);
                payload.extend_from_slice(&event.encode());
            }
            ManifestEntry::GroupOffsets { partition, leader_epoch, batches } => {
                payload.push(KIND_GROUP_OFFSETS);
                payload.extend_from_slice(&partition.to_be_bytes());
                payload.extend_from_slice(&leader_epoch.to_be_bytes());
                payload.extend_from_slice(batches);
            }
        }
        self.out.extend_from_slice(&frame_of(&payload));
        self.frame_count += 1;
    }

    /// All was added: without this the manifest is not whole.
    pub fn end(&mut self) {
        let mut payload = vec![KIND_END];
        payload.extend_from_slice(&self.frame_count.to_be_bytes());
        self.out.extend_from_slice(&frame_of(&payload));
    }

    /// Bytes that wait to be taken.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.out.len()
    }

    /// True where nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frame_count == 0
    }

    /// The bytes made so far, or since they were last taken.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

impl Manifest {
    /// Reads one. `path` is for the words of an error.
    ///
    /// # Errors
    /// A newer server wrote it, or it is damaged or cut short.
    pub fn decode(path: &str, bytes: &[u8]) -> Result<Self, ManifestError> {
        let damaged = |what| ManifestError::Damaged { path: path.to_owned(), what };
        let mut rest = bytes;
        let header = decode_header(path, &mut rest)?;
        let mut entries = Vec::new();
        loop {
            let payload = next_frame(&mut rest).ok_or_else(|| damaged("it is damaged, or ends too soon"))?;
            let (kind, mut fields) = payload.split_first().ok_or_else(|| damaged("it has an empty frame"))?;
            if *kind == KIND_END {
                let count = take(&mut fields).map(u32::from_be_bytes);
                let is_whole = count == u32::try_from(entries.len()).ok() && fields.is_empty() && rest.is_empty();
                return if is_whole { Ok(Self { header, entries }) } else { Err(damaged("its end does not fit it")) };
            }
            entries.push(decode_entry(*kind, fields).ok_or_else(|| damaged("it has a frame that makes no sense"))?);
        }
    }
}

/// Reads what a manifest says of itself, and stands behind that.
///
/// # Errors
/// As [`Manifest::decode`].
pub fn decode_header(path: &str, rest: &mut &[u8]) -> Result<ManifestHeader, ManifestError> {
    let damaged = |what| ManifestError::Damaged { path: path.to_owned(), what };
    let none = || damaged("it is no manifest");
    let whole = *rest;
    if take(rest).as_ref() != Some(MAGIC) {
        return Err(none());
    }
    // Before all else: a later header may be laid out in another way.
    let version = u16::from_be_bytes(take(rest).ok_or_else(none)?);
    if version != VERSION {
        return Err(ManifestError::Newer { path: path.to_owned(), found: version, known: VERSION });
    }
    let [is_delta] = take(rest).ok_or_else(none)?;
    let broker_id = i32::from_be_bytes(take(rest).ok_or_else(none)?);
    let number = u64::from_be_bytes(take(rest).ok_or_else(none)?);
    let written_ms = i64::from_be_bytes(take(rest).ok_or_else(none)?);
    let cluster_id = take_text(rest).ok_or_else(none)?;
    let covered = whole.len() - rest.len();
    let crc = u32::from_be_bytes(take(rest).ok_or_else(none)?);
    if whole.get(..covered).map(crc32c) != Some(crc) {
        return Err(damaged("its header is damaged"));
    }
    Ok(ManifestHeader { is_full: is_delta == 0, broker_id, number, written_ms, cluster_id })
}

fn decode_entry(kind: u8, mut fields: &[u8]) -> Option<ManifestEntry> {
    let rest = &mut fields;
    Some(match kind {
        KIND_CATALOG => ManifestEntry::Catalog(rest.to_vec()),
        KIND_PARTITION => {
            let id = PartitionId { topic_id: TopicId(take(rest)?), partition: i32::from_be_bytes(take(rest)?) };
            let leader_epoch = i32::from_be_bytes(take(rest)?);
            let log_start = Offset(i64::from_be_bytes(take(rest)?));
            let log_end = Offset(i64::from_be_bytes(take(rest)?));
            let topic = take_text(rest)?;
            let can_be = id.partition >= 0 && log_start >= Offset(0) && rest.is_empty();
            can_be.then_some(ManifestEntry::Partition(ManifestPartition {
                id,
                topic,
                leader_epoch,
                log_start,
                log_end,
            }))?
        }
        KIND_SEGMENT => match SegmentEvent::decode(rest)? {
            event @ (SegmentEvent::Image(_) | SegmentEvent::Delete { .. }) => ManifestEntry::Segment(event),
            SegmentEvent::Copy(_) | SegmentEvent::LocalStart(_) => return None,
        },
        KIND_GROUP_OFFSETS => {
            let partition = i32::from_be_bytes(take(rest)?);
            let leader_epoch = i32::from_be_bytes(take(rest)?);
            (partition >= 0).then(|| ManifestEntry::GroupOffsets { partition, leader_epoch, batches: rest.to_vec() })?
        }
        _ => return None,
    })
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text);
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let len = usize::from(u16::from_be_bytes(take(rest)?));
    let (bytes, later) = rest.split_at_checked(len)?;
    *rest = later;
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

const MAGIC: &[u8; 8] = b"alv-mani";
const VERSION: u16 = 1;
const KIND_CATALOG: u8 = 1;
const KIND_PARTITION: u8 = 2;
const KIND_SEGMENT: u8 = 3;
const KIND_GROUP_OFFSETS: u8 = 4;
const KIND_END: u8 = 255;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tier::metadata::tests::segment;
    use crate::tier::segment_state::SegmentState;

    pub(crate) fn header(number: u64, is_full: bool) -> ManifestHeader {
        ManifestHeader { is_full, broker_id: 1001, number, written_ms: 5, cluster_id: "cluster".to_owned() }
    }

    pub(crate) fn partition(leader_epoch: i32, log_end: i64) -> ManifestPartition {
        ManifestPartition {
            id: PartitionId { topic_id: TopicId([3; 16]), partition: 2 },
            topic: "orders".to_owned(),
            leader_epoch,
            log_start: Offset(0),
            log_end: Offset(log_end),
        }
    }

    fn whole() -> (Vec<ManifestEntry>, Vec<u8>) {
        let entries = vec![
            ManifestEntry::Catalog(vec![1, 2, 3]),
            ManifestEntry::Partition(partition(4, 500)),
            ManifestEntry::Segment(SegmentEvent::Image(segment(1, 0, 99, SegmentState::CopyFinished))),
            ManifestEntry::Segment(SegmentEvent::Delete {
                id: segment(1, 0, 0, SegmentState::CopyStarted).id,
                state: SegmentState::DeleteStarted,
            }),
            ManifestEntry::GroupOffsets { partition: 7, leader_epoch: 2, batches: vec![9; 40] },
        ];
        let mut encoder = ManifestEncoder::new(&header(7, false));
        entries.iter().for_each(|entry| encoder.add(entry));
        encoder.end();
        (entries, encoder.take())
    }

    #[test]
    fn a_manifest_comes_back() {
        let (entries, bytes) = whole();
        let read = Manifest::decode("m", &bytes).expect("whole");
        assert_eq!(read, Manifest { header: header(7, false), entries });
    }

    #[test]
    fn every_cut_and_every_flip_is_seen() {
        let (_, bytes) = whole();
        for cut in 0..bytes.len() {
            assert!(Manifest::decode("m", &bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x20;
            assert!(Manifest::decode("m", &flipped).is_err(), "byte {at}");
        }
        assert!(Manifest::decode("m", &[&bytes[..], &[0]].concat()).is_err(), "longer");
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let (_, mut bytes) = whole();
        bytes[9] = 2;
        let refused = Manifest::decode(".manifests/1001/7.full", &bytes).expect_err("newer").to_string();
        assert!(refused.contains(".manifests/1001/7.full") && refused.contains("version 2"), "{refused}");
    }
}
