//! Reads of what only the tier has: from an offset to a range of a remote segment's file.

use std::rc::Rc;

use crate::log::error::ReadError;
use crate::log::lookup::{Lookup, LookupStep, SegmentCopy};
use crate::log::offset_index::INDEX_ENTRY_BYTES;
use crate::log::plan::{ReadBound, ReadPlan, SegmentId};
use crate::record::offset::Offset;
use crate::shard::core::Shard;
use crate::shard::error::{ReadFailure, RemoteReadError};
use crate::shard::partition::Partition;
use crate::shard::read::{RangeSource, RecordsRange};
use crate::shard::tier::RemoteFile;
use crate::tier::remote_segments::RemoteSpan;
use crate::tier::segment_file::Section;

/// Finds the records from `from` on in the tier. As [`locate`](crate::shard::read::locate), for offsets below the local
/// log start.
///
/// # Errors
/// The tier has no such offset, or does not answer.
pub async fn locate(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    from: Offset,
    bytes_max: u32,
    whole_first_batch: bool,
    bound: ReadBound,
) -> Result<Option<RecordsRange>, ReadFailure> {
    let mut from = from;
    // What is not of this machine is held in memory until it is sent.
    let bytes_max = if shard.tier().is_some_and(|tier| tier.store().is_local()) {
        bytes_max
    } else {
        bytes_max.min(REMOTE_BYTES_MAX)
    };
    loop {
        let Some(span) = find(partition, from) else { return Err(out_of_range(partition)) };
        let file = open(shard, partition, &span).await?;
        match look_up(shard, partition, &span, &file, from, bytes_max, whole_first_batch).await? {
            Found::Range(plan) => {
                shard.counters().remote_reads.add(1);
                let source = match file.file.local() {
                    Some(local) => RangeSource::File(local.clone()),
                    None => {
                        let len_bytes = plan.len_bytes as usize;
                        let bytes = read_section(shard, &file, Section::Log, plan.position_bytes, len_bytes).await?;
                        RangeSource::Memory(bytes.to_vec())
                    }
                };
                let position_bytes = plan.position_bytes + file.header.position_bytes(Section::Log);
                return Ok(Some(RecordsRange { source, plan: ReadPlan { position_bytes, ..plan } }));
            }
            Found::DoesNotFit => return Ok(None),
            // Its last offsets have no records: the next segment has those that follow.
            Found::Behind => from = span.end_offset().plus(1),
        }
        let local_log_start = partition.log().borrow().offsets().local_log_start;
        if from >= local_log_start {
            // Boxed: the two call each other.
            let local = crate::shard::read::locate(shard, partition, from, bytes_max, whole_first_batch, bound);
            return Box::pin(local).await;
        }
    }
}

enum Found {
    Range(ReadPlan),
    DoesNotFit,
    Behind,
}

pub(in crate::shard) fn find(partition: &Partition, offset: Offset) -> Option<RemoteSpan> {
    partition.remote()?.segments().find(offset).copied()
}

/// The file of a remote segment, open.
pub(in crate::shard) async fn open(
    shard: &Rc<Shard>,
    partition: &Partition,
    span: &RemoteSpan,
) -> Result<RemoteFile, RemoteReadError> {
    let tier = shard.tier().ok_or(RemoteReadError::NoTier)?;
    tier.open(shard.io(), partition.topic(), partition.id(), span).await
}

fn out_of_range(partition: &Partition) -> ReadFailure {
    let offsets = partition.log().borrow().offsets();
    ReadError::OutOfRange { log_start: offsets.log_start, end: offsets.written }.into()
}

/// The segment as a lookup sees it.
pub(in crate::shard) fn copy_of(span: &RemoteSpan, file: &RemoteFile) -> SegmentCopy {
    let index_bytes = file.header.section_bytes(Section::OffsetIndex);
    SegmentCopy {
        segment: SegmentId(span.start_offset()),
        end_offset: span.end_offset(),
        log_bytes: file.header.section_bytes(Section::Log),
        index_entries: u32::try_from(index_bytes / INDEX_ENTRY_BYTES as u64).unwrap_or(u32::MAX),
    }
}

/// Reads a part of a section; less where it ends before.
pub(in crate::shard) async fn read_section(
    shard: &Rc<Shard>,
    file: &RemoteFile,
    section: Section,
    position_bytes: u64,
    len_bytes: usize,
) -> Result<crate::ring::buffer::Buffer, RemoteReadError> {
    let left_bytes = file.header.section_bytes(section).saturating_sub(position_bytes);
    let len_bytes = usize::try_from(left_bytes).unwrap_or(usize::MAX).min(len_bytes);
    let at = file.header.position_bytes(section) + position_bytes;
    Ok(file.file.read(shard.io().buffer(len_bytes), at).await?)
}

async fn look_up(
    shard: &Rc<Shard>,
    partition: &Partition,
    span: &RemoteSpan,
    file: &RemoteFile,
    from: Offset,
    bytes_max: u32,
    whole_first_batch: bool,
) -> Result<Found, ReadFailure> {
    let remote = partition.remote();
    let known = remote.as_ref().and_then(|remote| remote.hint(span.id(), from));
    let copy = copy_of(span, file);
    let mut lookup = Lookup::in_copy(from, bytes_max, whole_first_batch, &copy, known);
    let mut walked_to_end = false;
    loop {
        let (section, position_bytes, len_bytes) = match lookup.step() {
            LookupStep::Empty if walked_to_end => return Ok(Found::Behind),
            LookupStep::Empty => return Ok(Found::DoesNotFit),
            LookupStep::Done(plan) => {
                if let (Some(remote), Some(hint)) = (remote, plan.next_hint)
                    && hint.segment == copy.segment
                {
                    remote.note_hint(span.id(), hint);
                }
                return Ok(Found::Range(plan));
            }
            LookupStep::NeedIndex { position_bytes, len_bytes, .. } => {
                (Section::OffsetIndex, position_bytes, len_bytes)
            }
            LookupStep::NeedLog { position_bytes, len_bytes, .. } => (Section::Log, position_bytes, len_bytes),
        };
        let bytes = read_section(shard, file, section, position_bytes, len_bytes as usize).await?;
        lookup.feed(&bytes)?;
        walked_to_end = lookup.scan_position() == Some(copy.log_bytes);
    }
}

/// Held for each partition of a fetch at most, but for a first batch that is longer.
const REMOTE_BYTES_MAX: u32 = 1024 * 1024;
