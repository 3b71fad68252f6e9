//! `alluvium dump` of a segment: its batches, and in depth their records.
#![allow(clippy::disallowed_types)] // a command's own files

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::dump_args::DumpArgs;
use super::dump_error::DumpError;
use super::dump_sink::{FileDump, Row};
use super::record_json;
use crate::record::batch::{BatchHeader, CRC_COVERS_FROM, Crc32c, HEADER_BYTES, parse_header};
use crate::record::compression::Compression;
use crate::record::offset::Offset;
use crate::record::record_fields::Record;
use crate::record::record_reader::read_records;

/// Where the batches of a segment lie: all of a file, or a part of one.
#[derive(Clone, Debug)]
pub struct SegmentPlace {
    path: PathBuf,
    from_bytes: u64,
    len_bytes: Option<u64>,
}

impl SegmentPlace {
    /// A whole file.
    pub fn file(path: &Path) -> Self {
        Self { path: path.to_path_buf(), from_bytes: 0, len_bytes: None }
    }

    /// A part of a file.
    pub fn part(path: &Path, from_bytes: u64, len_bytes: u64) -> Self {
        Self { path: path.to_path_buf(), from_bytes, len_bytes: Some(len_bytes) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The batches of a segment one after another, by their headers.
pub struct BatchCursor {
    reader: BufReader<File>,
    /// Where the segment begins in its file.
    from_bytes: u64,
    /// Where the next batch begins.
    pub position: u64,
    /// Length of the segment.
    pub file_bytes: u64,
}

/// What stands where a batch should begin.
pub enum Found {
    /// A batch that lies wholly in the file; the reader stands behind its header.
    Batch(BatchHeader),
    /// The end of the file.
    End,
    /// No batch, for this reason.
    Problem(String),
}

impl BatchCursor {
    /// At the beginning of a segment.
    pub fn open(place: &SegmentPlace) -> io::Result<Self> {
        let mut file = File::open(&place.path)?;
        let left_bytes = file.metadata()?.len().saturating_sub(place.from_bytes);
        let file_bytes = place.len_bytes.map_or(left_bytes, |len_bytes| len_bytes.min(left_bytes));
        file.seek(SeekFrom::Start(place.from_bytes))?;
        let reader = BufReader::with_capacity(PIECE_BYTES, file);
        Ok(Self { reader, from_bytes: place.from_bytes, position: 0, file_bytes })
    }

    /// Reads the header at `position`.
    pub fn read_header(&mut self) -> io::Result<Found> {
        let left_bytes = self.file_bytes.saturating_sub(self.position);
        if left_bytes == 0 {
            return Ok(Found::End);
        }
        if left_bytes < HEADER_BYTES as u64 {
            return Ok(Found::Problem(format!("{left_bytes} bytes are left, fewer than a batch's header has")));
        }
        let mut head = [0; HEADER_BYTES];
        self.reader.read_exact(&mut head)?;
        if head.iter().all(|byte| *byte == 0) {
            return Ok(Found::Problem(format!("zeros where a batch should begin, {left_bytes} bytes before the end")));
        }
        Ok(match parse_header(&head) {
            Err(error) => Found::Problem(format!("no batch begins here: {error}")),
            Ok(header) if u64::from(header.len_bytes) > left_bytes => Found::Problem(format!(
                "the batch with base offset {} has {} bytes, and {left_bytes} are left: it is cut short",
                header.base_offset, header.len_bytes
            )),
            Ok(header) => Found::Batch(header),
        })
    }

    /// Steps over the rest of the batch whose header was read.
    pub fn skip_body(&mut self, header: &BatchHeader) -> io::Result<()> {
        self.reader.seek_relative(i64::from(header.len_bytes) - HEADER_BYTES as i64)?;
        self.position += u64::from(header.len_bytes);
        Ok(())
    }

    /// Goes to a byte where a batch should begin.
    pub fn seek(&mut self, position: u64) -> io::Result<()> {
        self.reader.seek(SeekFrom::Start(self.from_bytes.saturating_add(position)))?;
        self.position = position;
        Ok(())
    }

    /// Reads the batch whose header was read and returns its CRC, as it should be; fills `batch` with all of it where it is
    /// to be kept.
    fn read_body(&mut self, header: &BatchHeader, mut batch: Option<&mut Vec<u8>>) -> io::Result<u32> {
        // The header is read once more, for the CRC covers a part of it.
        self.reader.seek_relative(-(HEADER_BYTES as i64))?;
        let mut crc = Crc32c::new();
        let mut skip = CRC_COVERS_FROM;
        let mut left = header.len_bytes as usize;
        let mut piece = vec![0; left.min(PIECE_BYTES)];
        while left > 0 {
            let piece = piece.get_mut(..left.min(PIECE_BYTES)).unwrap_or_default();
            self.reader.read_exact(piece)?;
            crc.update(piece.get(skip..).unwrap_or_default());
            skip = 0;
            left -= piece.len();
            if let Some(batch) = &mut batch {
                batch.extend_from_slice(piece);
            }
        }
        self.position += u64::from(header.len_bytes);
        Ok(crc.value())
    }
}

/// Prints the batches of a segment with this base offset.
pub fn dump(
    place: &SegmentPlace,
    base: Offset,
    args: &DumpArgs,
    mut out: FileDump<'_>,
) -> Result<Option<String>, DumpError> {
    let read = DumpError::of_file(place.path());
    let mut cursor = BatchCursor::open(place).map_err(&read)?;
    let mut next_offset = base;
    let (mut records, mut unchecked) = (0_u64, 0_u64);
    let mut batch = Vec::new();
    let mut stopped = false;
    loop {
        let position = cursor.position;
        let header = match cursor.read_header().map_err(&read)? {
            Found::End => break,
            Found::Problem(what) => {
                out.problem(position, what).map_err(DumpError::Output)?;
                break;
            }
            Found::Batch(header) => header,
        };
        if let Some(problem) = offsets_problem(&header, base, next_offset) {
            out.problem(position, problem).map_err(DumpError::Output)?;
        }
        next_offset = header.last_offset().plus(1);
        records += u64::try_from(header.record_count).unwrap_or(0);
        if args.offset.is_some_and(|offset| header.last_offset().0 < offset) {
            unchecked += 1;
            cursor.skip_body(&header).map_err(&read)?;
            continue;
        }
        if out.is_full() {
            stopped = true;
            break;
        }
        let in_depth = (args.deep || args.print_records) && header.len_bytes <= DEEP_BATCH_BYTES_MAX;
        batch.clear();
        let crc = cursor.read_body(&header, in_depth.then_some(&mut batch)).map_err(&read)?;
        let crc_ok = crc == header.crc;
        out.entry(&row(position, &header, crc_ok)).map_err(DumpError::Output)?;
        if !crc_ok {
            let what =
                format!("the CRC is {:08x} and should be {crc:08x}: its bytes are not those written", header.crc);
            out.problem(position, what).map_err(DumpError::Output)?;
        }
        if in_depth {
            dump_records(position, &batch, &header, args.print_records, &mut out).map_err(DumpError::Output)?;
        } else if args.deep || args.print_records {
            out.row(&Row::new("note").with("what", "larger than 256 MiB: its records were not looked at"))
                .map_err(DumpError::Output)?;
        }
    }
    let valid_bytes = cursor.position;
    out.end(|row| {
        let row = row.with("records", records).with("next_offset", next_offset.0).with("bytes", valid_bytes);
        let row = row.maybe("unchecked_before", (unchecked > 0).then_some(unchecked));
        row.maybe("stopped_by_limit", stopped.then_some(true))
    })
    .map_err(DumpError::Output)
}

fn offsets_problem(header: &BatchHeader, base: Offset, next_offset: Offset) -> Option<String> {
    let (first, last) = (header.base_offset, header.last_offset());
    if header.last_offset_delta < 0 {
        Some(format!("the last offset delta is {}", header.last_offset_delta))
    } else if first < base {
        Some(format!("base offset {first} lies before the segment's own, {base}"))
    } else if first < next_offset {
        Some(format!("base offset {first} goes back: the batch before ends at {}", next_offset.plus(-1)))
    } else if last.since(base) > i64::from(i32::MAX) {
        Some(format!("offset {last} is more than 2^31-1 above the segment's base"))
    } else if header.record_count < 0 || i64::from(header.record_count) > i64::from(header.last_offset_delta) + 1 {
        Some(format!("{} records do not fit {} offsets", header.record_count, i64::from(header.last_offset_delta) + 1))
    } else {
        None
    }
}

fn row(position: u64, header: &BatchHeader, crc_ok: bool) -> Row {
    let attributes = header.attributes;
    let codec = attributes.compression().map_or("unknown", Compression::name);
    Row::new("batch")
        .with("base_offset", header.base_offset.0)
        .with("last_offset", header.last_offset().0)
        .with("count", header.record_count)
        .with("position", position)
        .with("size", header.len_bytes)
        .with("codec", codec)
        .with("crc", format!("{:08x}", header.crc))
        .with("crc_ok", crc_ok)
        .with("timestamp_type", if attributes.is_log_append_time() { "LogAppendTime" } else { "CreateTime" })
        .with("base_timestamp", header.base_timestamp.0)
        .with("max_timestamp", header.max_timestamp.0)
        .with("producer_id", header.producer_id.0)
        .with("producer_epoch", header.producer_epoch)
        .with("base_sequence", header.base_sequence)
        .with("last_sequence", if header.producer_id.is_some() { header.last_sequence() } else { -1 })
        .with("leader_epoch", header.leader_epoch.0)
        .with("transactional", attributes.is_transactional())
        .with("control", attributes.is_control())
        .maybe("delete_horizon", attributes.has_delete_horizon().then_some(true))
}

/// Checks every record of a batch; prints them where asked.
fn dump_records(
    position: u64,
    batch: &[u8],
    header: &BatchHeader,
    print: bool,
    out: &mut FileDump<'_>,
) -> io::Result<()> {
    let mut printed = Ok(());
    let mut last_delta = -1;
    let mut max_timestamp = i64::MIN;
    let mut disorder = None;
    let end = read_records(batch, RECORD_BYTES_MAX, |record| {
        if (record.offset_delta <= last_delta || record.offset_delta > header.last_offset_delta) && disorder.is_none() {
            disorder = Some(format!("a record has offset delta {} after {last_delta}", record.offset_delta));
        }
        last_delta = last_delta.max(record.offset_delta);
        max_timestamp = max_timestamp.max(header.base_timestamp.0.wrapping_add(record.timestamp_delta_ms));
        if print && printed.is_ok() {
            printed = out.row(&record_row(header, record));
        }
    });
    printed?;
    let create_time = !header.attributes.is_log_append_time() && !header.attributes.has_delete_horizon();
    match end {
        Err(error) => out.problem(position, format!("the records: {error}")),
        Ok(_) if disorder.is_some() => out.problem(position, disorder.unwrap_or_default()),
        Ok(_) if create_time && header.record_count > 0 && max_timestamp != header.max_timestamp.0 => {
            let what = format!("its max timestamp is {}, and its records' {max_timestamp}", header.max_timestamp);
            out.problem(position, what)
        }
        Ok(_) => Ok(()),
    }
}

fn record_row(header: &BatchHeader, record: &Record<'_>) -> Row {
    let timestamp = if header.attributes.is_log_append_time() {
        header.max_timestamp.0
    } else {
        header.base_timestamp.0.wrapping_add(record.timestamp_delta_ms)
    };
    let row = Row::new("record")
        .with("offset", header.base_offset.plus(i64::from(record.offset_delta)).0)
        .with("timestamp", timestamp);
    if header.attributes.is_control() {
        return row.with("control", control_name(record.key));
    }
    let headers: Vec<Value> = record
        .headers()
        .map(|(key, value)| json!({"key": record_json::of_bytes(Some(key)), "value": record_json::of_bytes(value)}))
        .collect();
    row.with("key", record_json::of_bytes(record.key))
        .with("value", record_json::of_bytes(record.value))
        .with("headers", headers)
}

/// Kafka's control records: a key of version and type.
fn control_name(key: Option<&[u8]>) -> String {
    match key.and_then(|key| key.get(2..)).and_then(|key| key.first_chunk::<2>()).map(|kind| i16::from_be_bytes(*kind))
    {
        Some(0) => "ABORT".to_owned(),
        Some(1) => "COMMIT".to_owned(),
        Some(kind) => format!("type {kind}"),
        None => "unreadable".to_owned(),
    }
}

/// Read at once.
const PIECE_BYTES: usize = 256 << 10;
/// A batch is looked into in memory; the server takes 1 MiB of compressed records by default.
const DEEP_BATCH_BYTES_MAX: u32 = 256 << 20;
/// Longest record that a compressed batch may unfold.
const RECORD_BYTES_MAX: usize = 256 << 20;
