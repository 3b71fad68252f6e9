//! Lookups by time in the tier.

use std::rc::Rc;

use crate::log::error::ReadError;
use crate::log::lookup::{Lookup, LookupStep};
use crate::log::time_index::{TIME_INDEX_ENTRY_BYTES, TimeIndexEntry};
use crate::record::batch::{BatchHeader, HEADER_BYTES, parse_header};
use crate::record::offset::{Offset, TimestampMs};
use crate::record::record_search::RecordSearch;
use crate::shard::core::Shard;
use crate::shard::error::ReadFailure;
use crate::shard::partition::Partition;
use crate::shard::remote_read::{copy_of, open, read_section};
use crate::shard::tier::RemoteFile;
use crate::shard::time_lookup::TimedRecord;
use crate::tier::remote_segments::RemoteSpan;
use crate::tier::segment_file::Section;

/// The first record below the local log start with a timestamp at or above `target`; `None` where there is none.
///
/// # Errors
/// The tier does not answer.
pub(in crate::shard) async fn first_at_or_after(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    target: TimestampMs,
) -> Result<Option<TimedRecord>, ReadFailure> {
    let mut from = partition.log().borrow().offsets().log_start;
    loop {
        let local_log_start = partition.log().borrow().offsets().local_log_start;
        let span = partition.remote().and_then(|remote| remote.segments().find_by_time(target, from).copied());
        let Some(span) = span.filter(|span| span.start_offset() < local_log_start) else { return Ok(None) };
        let file = open(shard, partition, &span).await?;
        if let Some(record) = search_segment(shard, &span, &file, target, from).await? {
            // A copied segment that is here too is searched here.
            return Ok((record.offset < local_log_start).then_some(record));
        }
        from = span.end_offset().plus(1);
    }
}

async fn search_segment(
    shard: &Rc<Shard>,
    span: &RemoteSpan,
    file: &RemoteFile,
    target: TimestampMs,
    from: Offset,
) -> Result<Option<TimedRecord>, ReadFailure> {
    let named =
        floor_entry(shard, file, target).await?.map_or(span.start_offset(), |entry| entry.offset(span.start_offset()));
    let start = named.max(from);
    let mut position_bytes = position_of(shard, span, file, start).await?;
    let log_bytes = file.header.section_bytes(Section::Log);
    while position_bytes < log_bytes {
        let read = read_section(shard, file, Section::Log, position_bytes, SCAN_BYTES).await?;
        let bytes = read.joined();
        let began_at = position_bytes;
        loop {
            let rest =
                usize::try_from(position_bytes - began_at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
            let header = match parse_header(rest) {
                Ok(header) => header,
                // The next piece has it whole.
                Err(_) if position_bytes != began_at => break,
                Err(_) => return Err(ReadError::Damaged { segment: span.start_offset(), position_bytes }.into()),
            };
            if header.max_timestamp >= target && header.last_offset() >= from {
                let found = search_batch(shard, span, file, (position_bytes, &header), target, from).await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            position_bytes += u64::from(header.len_bytes);
        }
        shard.io().yield_now().await;
    }
    Ok(None)
}

/// The last entry of the time index that is below the target: all before its batch is too.
async fn floor_entry(
    shard: &Rc<Shard>,
    file: &RemoteFile,
    target: TimestampMs,
) -> Result<Option<TimeIndexEntry>, ReadFailure> {
    let count = file.header.section_bytes(Section::TimeIndex) / TIME_INDEX_ENTRY_BYTES as u64;
    let (mut low, mut high, mut best) = (0, count, None);
    while low < high {
        let first = if high - low <= ENTRIES_AT_ONCE { low } else { low + (high - low) / 2 };
        let entries_count = (high - first).min(ENTRIES_AT_ONCE);
        let at = first * TIME_INDEX_ENTRY_BYTES as u64;
        let bytes =
            read_section(shard, file, Section::TimeIndex, at, entries_count as usize * TIME_INDEX_ENTRY_BYTES).await?;
        let entries: Vec<TimeIndexEntry> = TimeIndexEntry::decode_all(&bytes.joined()).collect();
        if entries.is_empty() {
            break;
        }
        let below = entries.partition_point(|entry| entry.timestamp < target);
        if let Some(entry) = below.checked_sub(1).and_then(|at| entries.get(at)) {
            best = Some(*entry);
            low = first + below as u64;
        } else {
            high = first;
        }
        if below > 0 && below < entries.len() {
            break;
        }
    }
    Ok(best)
}

/// Where the batch begins that has `offset`, or one before it.
async fn position_of(
    shard: &Rc<Shard>,
    span: &RemoteSpan,
    file: &RemoteFile,
    offset: Offset,
) -> Result<u64, ReadFailure> {
    let mut lookup = Lookup::in_copy(offset, u32::MAX, true, &copy_of(span, file), None);
    loop {
        if let Some(position_bytes) = lookup.scan_position() {
            return Ok(position_bytes);
        }
        let LookupStep::NeedIndex { position_bytes, len_bytes, .. } = lookup.step() else { return Ok(0) };
        let bytes = read_section(shard, file, Section::OffsetIndex, position_bytes, len_bytes as usize).await?;
        lookup.feed(&bytes.joined())?;
    }
}

/// Looks through the records of a batch, in slices.
async fn search_batch(
    shard: &Rc<Shard>,
    span: &RemoteSpan,
    file: &RemoteFile,
    (batch_at, header): (u64, &BatchHeader),
    target: TimestampMs,
    from: Offset,
) -> Result<Option<TimedRecord>, ReadFailure> {
    let damaged = ReadError::Damaged { segment: span.start_offset(), position_bytes: batch_at };
    let mut search = RecordSearch::new(header, target, from).map_err(|_| damaged)?;
    let end = batch_at + u64::from(header.len_bytes);
    let mut position_bytes = batch_at + HEADER_BYTES as u64;
    while search.found().is_none() && position_bytes < end {
        let left_bytes = usize::try_from(end - position_bytes).unwrap_or(usize::MAX);
        let piece_bytes = if search.takes_pieces() { left_bytes.min(PIECE_BYTES) } else { left_bytes };
        let read = read_section(shard, file, Section::Log, position_bytes, piece_bytes).await?;
        let bytes = read.joined();
        if bytes.len() < piece_bytes {
            return Err(damaged.into());
        }
        let mut rest = &bytes[..];
        let mut seen_bytes = 0;
        while search.found().is_none() {
            let (used_bytes, made_bytes) = search.step(rest).map_err(|_| damaged)?;
            rest = rest.get(used_bytes..).unwrap_or_default();
            if used_bytes == 0 && made_bytes == 0 {
                if rest.is_empty() {
                    break;
                }
                return Err(damaged.into());
            }
            seen_bytes += used_bytes.max(made_bytes);
            if seen_bytes >= SLICE_BYTES {
                seen_bytes = 0;
                shard.io().yield_now().await;
            }
        }
        position_bytes += bytes.len() as u64;
    }
    let leader_epoch = header.leader_epoch;
    Ok(search.found().map(|(offset, timestamp)| TimedRecord { offset, timestamp, leader_epoch }))
}

/// A step of a walk over headers.
const SCAN_BYTES: usize = 32 * 1024;
/// 4 KiB of the time index.
const ENTRIES_AT_ONCE: u64 = 341;
const PIECE_BYTES: usize = 64 * 1024;
const SLICE_BYTES: usize = 256 * 1024;
