//! `alluvium dump` of offset and time indexes, held against the segment beside them.

use std::io;

use super::dump_args::DumpArgs;
use super::dump_error::DumpError;
use super::dump_segment::{BatchCursor, Found, SegmentPlace};
use super::dump_sink::{FileDump, Row};
use crate::record::batch::BatchHeader;
use crate::record::offset::Offset;

/// Prints an offset index: offset and position of each entry.
pub fn dump_offsets(
    segment: &SegmentPlace,
    bytes: &[u8],
    base: Offset,
    args: &DumpArgs,
    mut out: FileDump<'_>,
) -> Result<Option<String>, DumpError> {
    let path = segment.path();
    let mut log = open_log(segment, &mut out)?;
    let (used, mut padding) = used_bytes(bytes, OFFSET_ENTRY_BYTES);
    let mut last: Option<(u32, u32)> = None;
    for (number, entry) in used.chunks_exact(OFFSET_ENTRY_BYTES).enumerate() {
        let at = (number * OFFSET_ENTRY_BYTES) as u64;
        let (relative, position) = (u32_at(entry, 0), u32_at(entry, 4));
        let offset = base.plus(i64::from(relative));
        if args.offset.is_some_and(|from| offset.0 < from) {
            last = Some((relative, position));
            continue;
        }
        if out.is_full() {
            padding = 0;
            break;
        }
        let row = Row::new("entry").with("offset", offset.0).with("position", position);
        out.entry(&row).map_err(DumpError::Output)?;
        let mut problem = last
            .filter(|(before, place)| *before >= relative || *place >= position)
            .map(|_| "it does not rise over the entry before".to_owned());
        if let Some(log) = log.as_mut().filter(|_| problem.is_none()) {
            problem = offset_entry_problem(log, offset, position).map_err(DumpError::of_file(path))?;
        }
        if let Some(problem) = problem {
            out.problem(at, format!("entry of offset {offset}: {problem}")).map_err(DumpError::Output)?;
        }
        last = Some((relative, position));
    }
    end(bytes, used, padding, OFFSET_ENTRY_BYTES, out)
}

/// Prints a time index: timestamp and offset of each entry.
pub fn dump_times(
    segment: &SegmentPlace,
    bytes: &[u8],
    base: Offset,
    args: &DumpArgs,
    mut out: FileDump<'_>,
) -> Result<Option<String>, DumpError> {
    let path = segment.path();
    let mut log = open_log(segment, &mut out)?;
    let (used, mut padding) = used_bytes(bytes, TIME_ENTRY_BYTES);
    let mut last: Option<(i64, u32)> = None;
    let mut batch = None;
    for (number, entry) in used.chunks_exact(TIME_ENTRY_BYTES).enumerate() {
        let at = (number * TIME_ENTRY_BYTES) as u64;
        let timestamp = (i64::from(u32_at(entry, 0).cast_signed()) << 32) | i64::from(u32_at(entry, 4));
        let relative = u32_at(entry, 8);
        let offset = base.plus(i64::from(relative));
        if args.offset.is_some_and(|from| offset.0 < from) {
            last = Some((timestamp, relative));
            continue;
        }
        if out.is_full() {
            padding = 0;
            break;
        }
        let row = Row::new("entry").with("timestamp", timestamp).with("offset", offset.0);
        out.entry(&row).map_err(DumpError::Output)?;
        let mut problem = last
            .filter(|(before, place)| *before >= timestamp || *place >= relative)
            .map(|_| "time and offset do not both rise over the entry before".to_owned());
        if let Some(log) = log.as_mut().filter(|_| problem.is_none()) {
            problem = time_entry_problem(log, &mut batch, offset, timestamp).map_err(DumpError::of_file(path))?;
        }
        if let Some(problem) = problem {
            out.problem(at, format!("entry of time {timestamp}: {problem}")).map_err(DumpError::Output)?;
        }
        last = Some((timestamp, relative));
    }
    end(bytes, used, padding, TIME_ENTRY_BYTES, out)
}

fn end(
    bytes: &[u8],
    used: &[u8],
    padding: usize,
    entry_bytes: usize,
    mut out: FileDump<'_>,
) -> Result<Option<String>, DumpError> {
    if !bytes.len().is_multiple_of(entry_bytes) {
        let at = (bytes.len() / entry_bytes * entry_bytes) as u64;
        out.problem(at, format!("{} bytes are no whole entry", bytes.len() as u64 - at)).map_err(DumpError::Output)?;
    }
    let used_bytes = used.len();
    out.end(|row| row.with("bytes", used_bytes).maybe("padding_bytes", (padding > 0).then_some(padding)))
        .map_err(DumpError::Output)
}

/// Cuts off the zeros behind the last entry, with which Kafka makes room in an index that it writes to. An entry of zeros
/// that stands first is one only where others follow.
fn used_bytes(bytes: &[u8], entry_bytes: usize) -> (&[u8], usize) {
    let entries = bytes.chunks_exact(entry_bytes);
    let zeros = entries.rev().take_while(|entry| entry.iter().all(|byte| *byte == 0)).count();
    let used = bytes.len() / entry_bytes * entry_bytes - zeros * entry_bytes;
    (bytes.get(..used).unwrap_or_default(), zeros * entry_bytes)
}

/// The segment beside an index; says so where there is none.
fn open_log(segment: &SegmentPlace, out: &mut FileDump<'_>) -> Result<Option<BatchCursor>, DumpError> {
    match BatchCursor::open(segment) {
        Ok(cursor) => Ok(Some(cursor)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            out.row(&Row::new("note").with("what", "no segment beside it: entries are not held against one"))
                .map_err(DumpError::Output)?;
            Ok(None)
        }
        Err(error) => Err(DumpError::of_file(segment.path())(error)),
    }
}

fn offset_entry_problem(log: &mut BatchCursor, offset: Offset, position: u32) -> io::Result<Option<String>> {
    if u64::from(position) >= log.file_bytes {
        return Ok(Some(format!("position {position} lies behind the segment's end, {}", log.file_bytes)));
    }
    log.seek(u64::from(position))?;
    Ok(match log.read_header()? {
        Found::Batch(header) if holds(&header, offset) => None,
        Found::Batch(header) => Some(format!(
            "the batch at position {position} has offsets {} to {}",
            header.base_offset,
            header.last_offset()
        )),
        Found::End | Found::Problem(_) => Some(format!("no batch begins at position {position}")),
    })
}

/// Walks the segment's headers up to the batch with this offset; entries rise, so one walk serves them all.
fn time_entry_problem(
    log: &mut BatchCursor,
    batch: &mut Option<BatchHeader>,
    offset: Offset,
    timestamp: i64,
) -> io::Result<Option<String>> {
    while batch.is_none_or(|header| header.last_offset() < offset) {
        match log.read_header()? {
            Found::Batch(header) => {
                log.skip_body(&header)?;
                *batch = Some(header);
            }
            Found::End | Found::Problem(_) => return Ok(Some(format!("the segment does not reach offset {offset}"))),
        }
    }
    Ok(match batch {
        Some(header) if !holds(header, offset) => Some(format!("no batch has offset {offset}")),
        Some(header) if header.max_timestamp.0 != timestamp => {
            Some(format!("the batch with offset {offset} has max timestamp {}", header.max_timestamp))
        }
        _ => None,
    })
}

fn holds(header: &BatchHeader, offset: Offset) -> bool {
    header.base_offset <= offset && offset <= header.last_offset()
}

fn u32_at(entry: &[u8], at: usize) -> u32 {
    entry.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

const OFFSET_ENTRY_BYTES: usize = 8;
const TIME_ENTRY_BYTES: usize = 12;
