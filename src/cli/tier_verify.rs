//! `alluvium tier verify`: every segment of the tier read back and held against what is known of it.

use std::collections::BTreeSet;

use super::output;
use super::tier::{TierCommandError, load_all, open_store};
use super::tier_args::TierVerifyArgs;
use crate::log::offset_index::IndexEntry;
use crate::ring::io::Io;
use crate::tier::batch_walk::BatchWalk;
use crate::tier::error::StoreError;
use crate::tier::metadata_file::MetadataHeader;
use crate::tier::remote_segments::RemoteSpan;
use crate::tier::segment_file::{HEADER_BYTES, Section, SegmentFileHeader};
use crate::tier::store::{Store, StoredFile, partition_folder, segment_path};

/// What was found.
#[derive(Default)]
struct Findings {
    segments: u64,
    bytes: u64,
    problems: u64,
}

impl Findings {
    fn problem(&mut self, what: &str) {
        self.problems += 1;
        output::print_lines([what]);
    }
}

/// Reads all back.
pub(in crate::cli) async fn verify(io: Io, args: TierVerifyArgs) -> Result<(), TierCommandError> {
    let store = open_store(&io, &args.tier, &args.hdfs)?;
    let mut findings = Findings::default();
    for loaded in load_all(&io, &args.which).await? {
        let header = loaded.file.header().clone();
        let mut next = None;
        for span in loaded.segments.finished() {
            if let Some(next) = next
                && span.start_offset() > next
            {
                findings.problem(&format!(
                    "{}-{}: no segment has the offsets from {next} to {}",
                    header.topic,
                    header.id.partition,
                    span.start_offset().plus(-1)
                ));
            }
            next = next.max(Some(span.end_offset().plus(1)));
            findings.segments += 1;
            match verify_segment(&io, &store, &header, span).await {
                Ok(bytes) => findings.bytes += bytes,
                Err(what) => {
                    findings.problem(&format!("{}: {what}", segment_path(&header.topic, header.id, span.id())));
                }
            }
        }
        let known: BTreeSet<String> = loaded.segments.live().iter().map(ToString::to_string).collect();
        let folder = partition_folder(&header.topic, header.id);
        match store.list(&folder).await {
            Ok(entries) => {
                for entry in entries.iter().filter(|entry| !known.contains(&entry.name)) {
                    findings.problem(&format!(
                        "{folder}/{}: nobody knows this file ({} bytes)",
                        entry.name, entry.len_bytes
                    ));
                }
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let Findings { segments, bytes, problems } = findings;
    output::print_lines([format!("{segments} segments, {bytes} bytes read back, {problems} problems").as_str()]);
    if problems > 0 { Err(TierCommandError::Problems { count: problems }) } else { Ok(()) }
}

/// One segment: its header, its length, each batch, and its offset index. What is wrong, in words.
async fn verify_segment(io: &Io, store: &Store, of: &MetadataHeader, span: &RemoteSpan) -> Result<u64, String> {
    let file = store.open(&segment_path(&of.topic, of.id, span.id())).await.map_err(|error| error.to_string())?;
    let head = read(io, &file, 0, HEADER_BYTES).await?;
    let header = SegmentFileHeader::parse(&head, file.len_bytes()).map_err(|error| error.to_string())?;
    let log_bytes = header.section_bytes(Section::Log);
    if log_bytes != u64::from(span.segment_bytes()) {
        return Err(format!("{log_bytes} bytes of records, {} were copied", span.segment_bytes()));
    }
    let index_bytes = usize::try_from(header.section_bytes(Section::OffsetIndex)).unwrap_or(usize::MAX);
    let index = read(io, &file, header.position_bytes(Section::OffsetIndex), index_bytes).await?;
    let mut entries = IndexEntry::decode_all(&index).peekable();
    let mut wrong_entry = None;
    let mut walk = BatchWalk::new(span.start_offset());
    let mut at = 0;
    while at < log_bytes {
        let piece_bytes = usize::try_from(log_bytes - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let bytes = read(io, &file, header.position_bytes(Section::Log) + at, piece_bytes).await?;
        let looked = walk.feed(&bytes, |position_bytes, batch| {
            // Each entry names a batch by where it begins, and an offset in it.
            while let Some(entry) = entries.next_if(|entry| u64::from(entry.position_bytes) <= position_bytes) {
                let offset = span.start_offset().plus(i64::from(entry.relative_offset));
                let is_right = u64::from(entry.position_bytes) == position_bytes
                    && (batch.base_offset..=batch.last_offset()).contains(&offset);
                if !is_right {
                    wrong_entry.get_or_insert(entry);
                }
            }
        });
        looked.map_err(|damage| damage.to_string())?;
        at += piece_bytes as u64;
        io.yield_now().await;
    }
    let (end, _) = walk.finish().map_err(|damage| damage.to_string())?;
    if end > span.end_offset().plus(1) {
        return Err(format!("its records end at {end}, beyond {}", span.end_offset()));
    }
    if let Some(entry) = wrong_entry.or_else(|| entries.next()) {
        return Err(format!("its offset index names byte {}, where no such batch begins", entry.position_bytes));
    }
    Ok(header.len_bytes())
}

async fn read(io: &Io, file: &StoredFile, position_bytes: u64, len_bytes: usize) -> Result<Vec<u8>, String> {
    if len_bytes == 0 {
        return Ok(Vec::new());
    }
    let bytes = file.read(io.buffer(len_bytes), position_bytes).await.map_err(|error| error.to_string())?;
    if bytes.len() < len_bytes { Err("it is cut short".to_owned()) } else { Ok(bytes.to_vec()) }
}

const PIECE_BYTES: usize = 256 * 1024;
