//! `alluvium tier verify`: every segment of the tier read back and held against what is known of it.

use std::collections::{BTreeMap, BTreeSet};

use super::progress::Progress;
use super::tier::{TierCommandError, load_all, open_store};
use super::tier_args::TierVerifyArgs;
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::offset_index::IndexEntry;
use crate::log::producer_snapshot;
use crate::record::batch::{Crc32c, HEADER_BYTES as BATCH_HEADER_BYTES, parse_header};
use crate::record::offset::Offset;
use crate::ring::io::Io;
use crate::tier::batch_walk::BatchWalk;
use crate::tier::error::StoreError;
use crate::tier::index_check::IndexCheck;
use crate::tier::metadata::{RemoteSegment, RemoteSegmentId};
use crate::tier::metadata_file::{LoadedMetadata, MetadataHeader};
use crate::tier::metadata_image;
use crate::tier::segment_file::Section;
use crate::tier::store::{Store, partition_folder, segment_path};
use crate::tier::survey::SegmentReader;

/// What was found.
struct Findings {
    progress: Progress,
    segments: u64,
    bytes: u64,
    problems: u64,
}

impl Findings {
    fn problem(&mut self, what: &str) {
        self.problems += 1;
        self.progress.print(what);
    }
}

/// Reads all back.
pub(in crate::cli) async fn verify(io: Io, args: TierVerifyArgs) -> Result<(), TierCommandError> {
    let store = open_store(&io, &args.tier, &args.hdfs)?;
    let all = load_all(&io, &args.which).await?;
    let total_bytes = all.iter().map(|loaded| loaded.segments.finished_bytes()).sum();
    let progress = Progress::of_bytes(total_bytes);
    let mut findings = Findings { progress, segments: 0, bytes: 0, problems: 0 };
    for loaded in &all {
        verify_partition(&io, &store, loaded, &mut findings).await?;
    }
    let Findings { segments, bytes, problems, .. } = findings;
    findings.progress.print(&format!("{segments} segments, {bytes} bytes read back, {problems} problems"));
    if problems > 0 { Err(TierCommandError::Problems { count: problems }) } else { Ok(()) }
}

async fn verify_partition(
    io: &Io,
    store: &Store,
    loaded: &LoadedMetadata,
    findings: &mut Findings,
) -> Result<(), TierCommandError> {
    let header = loaded.file.header().clone();
    let folder = partition_folder(&header.topic, header.id);
    findings.progress.at(&folder);
    let noted = metadata_image::read_finished(io, loaded.file.folder()).await?;
    let noted: BTreeMap<RemoteSegmentId, RemoteSegment> =
        noted.into_iter().map(|segment| (segment.id, segment)).collect();
    let mut next: Option<Offset> = None;
    for span in loaded.segments.finished() {
        if let Some(next) = next
            && span.start_offset() > next
        {
            let (topic, partition) = (&header.topic, header.id.partition);
            let last = span.start_offset().plus(-1);
            findings.problem(&format!("{topic}-{partition}: no segment has the offsets from {next} to {last}"));
        }
        next = next.max(Some(span.end_offset().plus(1)));
        findings.segments += 1;
        let Some(segment) = noted.get(&span.id()) else { continue };
        match verify_segment(io, store, &header, segment, &findings.progress).await {
            Ok(bytes) => findings.bytes += bytes,
            Err(what) => findings.problem(&format!("{}: {what}", segment_path(&header.topic, header.id, segment.id))),
        }
    }
    let known: BTreeSet<String> = loaded.segments.live().iter().map(ToString::to_string).collect();
    match store.list(&folder).await {
        Ok(entries) => {
            for entry in entries.iter().filter(|entry| !known.contains(&entry.name)) {
                let (name, len_bytes) = (&entry.name, entry.len_bytes);
                findings.problem(&format!("{folder}/{name}: nobody knows this file ({len_bytes} bytes)"));
            }
        }
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// One segment: its header, its length, its checksum, each section, each batch, and its indexes against the batches. What
/// is wrong, in words.
async fn verify_segment(
    io: &Io,
    store: &Store,
    of: &MetadataHeader,
    segment: &RemoteSegment,
    progress: &Progress,
) -> Result<u64, String> {
    let say = |error: &dyn std::error::Error| error.to_string();
    let path = segment_path(&of.topic, of.id, segment.id);
    let reader = SegmentReader::open(io, store, &path).await.map_err(|error| say(&error))?;
    let header = *reader.header();
    let log_bytes = header.section_bytes(Section::Log);
    if log_bytes != u64::from(segment.segment_bytes) {
        return Err(format!("{log_bytes} bytes of records, {} were copied", segment.segment_bytes));
    }
    let mut crc = Crc32c::new();
    crc.update(&header.encode());
    let mut indexes = [Vec::new(), Vec::new()];
    for section in BEFORE_THE_LOG {
        let bytes = reader.section(section).await.map_err(|error| say(&error))?;
        crc.update(&bytes);
        match section {
            Section::OffsetIndex => indexes[0] = bytes,
            Section::TimeIndex => indexes[1] = bytes,
            Section::LeaderEpochs if std::str::from_utf8(&bytes).ok().and_then(LeaderEpochs::parse).is_none() => {
                return Err("its leader epochs make no sense".to_owned());
            }
            Section::ProducerSnapshot if !bytes.is_empty() => {
                producer_snapshot::parse(&bytes).map_err(|error| format!("its producer snapshot: {error}"))?;
            }
            Section::TransactionIndex if bytes.is_empty() == segment.has_transaction_index => {
                return Err("its transaction index is not what was copied".to_owned());
            }
            _ => {}
        }
    }
    let [offset_index, time_index] = indexes;
    // Offsets of an index count from where the segment begins, which the metadata says.
    let mut check = IndexCheck::new(segment.start_offset, &offset_index, &time_index, INDEX_INTERVAL_BYTES);
    let mut walk = BatchWalk::new(segment.start_offset);
    let mut at = 0;
    while at < log_bytes {
        let bytes = reader.range(Section::Log, at, PIECE_BYTES).await.map_err(|error| say(&error))?;
        crc.update(&bytes);
        let looked = walk.feed(&bytes, |position_bytes, batch| check.batch(position_bytes, batch));
        looked.map_err(|damage| say(&damage))?;
        at += bytes.len() as u64;
        progress.add(bytes.len() as u64);
        io.yield_now().await;
    }
    let (end, _) = walk.finish().map_err(|damage| say(&damage))?;
    if end > segment.end_offset.plus(1) {
        return Err(format!("its records end at {end}, beyond {}", segment.end_offset));
    }
    if check.finish().is_some() {
        let misplaced = misplaced_entry(&reader, segment, &offset_index).await;
        let which = misplaced.unwrap_or_else(|| "its time index does not fit its records".to_owned());
        return Err(which);
    }
    // What a restore found in its file has none noted.
    if segment.file_crc != 0 && segment.file_crc != crc.value() {
        return Err(format!("its CRC is {:08x}, and {:08x} was copied", crc.value(), segment.file_crc));
    }
    Ok(header.len_bytes())
}

/// The first entry of the offset index at which no batch with its offset begins.
async fn misplaced_entry(reader: &SegmentReader, segment: &RemoteSegment, offset_index: &[u8]) -> Option<String> {
    for entry in IndexEntry::decode_all(offset_index) {
        let head = reader.range(Section::Log, u64::from(entry.position_bytes), BATCH_HEADER_BYTES).await.ok()?;
        let offset = segment.start_offset.plus(i64::from(entry.relative_offset));
        let is_right =
            parse_header(&head).is_ok_and(|header| (header.base_offset..=header.last_offset()).contains(&offset));
        if !is_right {
            return Some(format!("its offset index names byte {}, where no such batch begins", entry.position_bytes));
        }
    }
    None
}

const BEFORE_THE_LOG: [Section; 5] = [
    Section::OffsetIndex,
    Section::TimeIndex,
    Section::LeaderEpochs,
    Section::ProducerSnapshot,
    Section::TransactionIndex,
];
/// Of an index that is made anew to be compared; what is there may be denser or sparser.
const INDEX_INTERVAL_BYTES: u32 = 4096;
const PIECE_BYTES: usize = 256 * 1024;
