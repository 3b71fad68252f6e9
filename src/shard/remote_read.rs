//! Reads of what only the tier has: from an offset to a range of a remote segment's file.

use std::ops::Range;
use std::rc::Rc;

use crate::log::error::ReadError;
use crate::log::lookup::{Lookup, LookupStep, SegmentCopy};
use crate::log::offset_index::INDEX_ENTRY_BYTES;
use crate::log::plan::{ReadBound, ReadHint, ReadPlan, SegmentId};
use crate::record::batch::{HEADER_BYTES, parse_header};
use crate::record::offset::Offset;
use crate::shard::core::Shard;
use crate::shard::error::{ReadFailure, RemoteReadError};
use crate::shard::partition::Partition;
use crate::shard::piece_source::{PieceSource, Region, log_pieces_begin};
use crate::shard::read::{RangeSource, RecordsRange};
use crate::shard::remote_bytes::RemoteBytes;
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
    let bytes_max = if is_elsewhere(shard) { bytes_max.min(REMOTE_BYTES_MAX) } else { bytes_max };
    loop {
        let Some(span) = find(partition, from) else { return Err(out_of_range(partition)) };
        let wanted = Wanted { from, bytes_max, whole_first_batch };
        match locate_in(shard, partition, &span, &wanted).await {
            Ok(Found::Range(range)) => return Ok(Some(range)),
            Ok(Found::DoesNotFit) => return Ok(None),
            // Its last offsets have no records: the next segment has those that follow.
            Ok(Found::Behind) => from = span.end_offset().plus(1),
            // It has expired meanwhile, and it is not for the store to say so.
            Err(_) if find(partition, from) != Some(span) => {}
            Err(error) => return Err(error),
        }
        let local_log_start = partition.log().borrow().offsets().local_log_start;
        if from >= local_log_start {
            // Boxed: the two call each other.
            let local = crate::shard::read::locate(shard, partition, from, bytes_max, whole_first_batch, bound);
            return Box::pin(local).await;
        }
    }
}

/// True where the tier's files are not files of this machine.
pub fn is_elsewhere(shard: &Shard) -> bool {
    shard.tier().is_some_and(|tier| !tier.store().is_local())
}

struct Wanted {
    from: Offset,
    bytes_max: u32,
    whole_first_batch: bool,
}

enum Found {
    Range(RecordsRange),
    DoesNotFit,
    Behind,
}

async fn locate_in(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    span: &RemoteSpan,
    wanted: &Wanted,
) -> Result<Found, ReadFailure> {
    let tier = shard.tier().ok_or(RemoteReadError::NoTier)?;
    let hint = partition.remote().and_then(|remote| remote.hint(span.id(), wanted.from));
    // A segment begins with its first batch.
    let known = hint.or_else(|| (wanted.from <= span.start_offset()).then_some(0));
    if known.is_some() && is_elsewhere(shard) {
        // Its records are all that is asked for: one read of the store, which is begun by whoever opens it, and goes on where
        // nobody waits any more.
        let wanted_range =
            known.filter(|_| !tier.is_open(span.id())).map(|at| at..at + u64::from(wanted.bytes_max.max(1)));
        let file = tier.open_log(shard.io(), partition.topic(), partition.id(), span, wanted_range).await?;
        if file.header.section_bytes(Section::Log) == u64::from(span.segment_bytes()) {
            match locate_at(shard, partition, span, &file, wanted, known, hint.is_some()).await {
                Err(ReadFailure::Refused(ReadError::Damaged { .. })) => {}
                Ok(Found::Range(range)) if hint.is_none() && !begins_with(&range, span.start_offset()) => {}
                located => return located,
            }
        }
        // Its records are not where the metadata has them: its header tells.
        tier.forget(span.id());
        let file = open(shard, partition, span).await?;
        return locate_at(shard, partition, span, &file, wanted, None, false).await;
    }
    // Where the place is known, nothing is waited for that a guess could be read beside.
    let guess = known.is_none().then(|| guess(span, wanted));
    let file = open_for(shard, partition, span, guess).await?;
    locate_at(shard, partition, span, &file, wanted, known, hint.is_some()).await
}

/// True where the first batch of a range is the one that a segment is named after.
fn begins_with(range: &RecordsRange, base_offset: Offset) -> bool {
    let RangeSource::Tier(bytes, _) = &range.source else { return true };
    let mut head = [0; HEADER_BYTES];
    let head_bytes = bytes.copy_from(0, &mut head);
    parse_header(&head[..head_bytes]).is_ok_and(|header| header.base_offset == base_offset)
}

async fn locate_at(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    span: &RemoteSpan,
    file: &RemoteFile,
    wanted: &Wanted,
    known: Option<u64>,
    is_sequential: bool,
) -> Result<Found, ReadFailure> {
    let mut plan = match look_up(shard, span, file, wanted, known).await? {
        LookedUp::Range(plan) => plan,
        LookedUp::DoesNotFit => return Ok(Found::DoesNotFit),
        LookedUp::Behind => return Ok(Found::Behind),
    };
    let source = match file.file.local() {
        Some(local) => {
            plan.position_bytes += file.header.position_bytes(Section::Log);
            RangeSource::File(local.clone())
        }
        None => {
            let bytes = read_batches(shard, span, file, wanted, &mut plan).await?;
            if is_sequential {
                read_ahead(shard, partition, span, file, plan.position_bytes + u64::from(plan.len_bytes));
            }
            RangeSource::Tier(bytes, *span)
        }
    };
    if let Some(hint) = plan.next_hint {
        note_hint(partition, span, hint);
    }
    Ok(Found::Range(RecordsRange { source, plan }))
}

/// Reads the range of a plan, cut where its last whole batch ends, and where more would cost one more read of the store.
async fn read_batches(
    shard: &Rc<Shard>,
    span: &RemoteSpan,
    file: &RemoteFile,
    wanted: &Wanted,
    plan: &mut ReadPlan,
) -> Result<RemoteBytes, ReadFailure> {
    let len_bytes = plan.len_bytes as usize;
    // A batch that is longer than what is wanted comes whole.
    let reached_bytes = match shard.tier() {
        Some(tier) if plan.len_bytes <= wanted.bytes_max => {
            let at = file.header.position_bytes(Section::Log) + plan.position_bytes;
            tier.cache().reach(&log_source(file), at, len_bytes)
        }
        _ => len_bytes,
    };
    let mut bytes = read_section(shard, file, Section::Log, plan.position_bytes, reached_bytes).await?;
    if reached_bytes < len_bytes && cut_where(plan, &mut bytes, |_, _| true).is_some() {
        return Ok(bytes);
    }
    if reached_bytes < len_bytes {
        // Not one batch of it is whole.
        drop(bytes);
        bytes = read_section(shard, file, Section::Log, plan.position_bytes, len_bytes).await?;
    }
    cut_between_batches(plan, &mut bytes, span)?;
    Ok(bytes)
}

/// The bytes of a range of `span` again, which were let go while something else was read. `None`: the segment has expired.
///
/// # Errors
/// The tier does not answer.
pub(in crate::shard) async fn read_again(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    span: &RemoteSpan,
    plan: &ReadPlan,
) -> Result<Option<RemoteBytes>, ReadFailure> {
    if find(partition, plan.start_offset) != Some(*span) {
        return Ok(None);
    }
    let tier = shard.tier().ok_or(RemoteReadError::NoTier)?;
    // As it was found: its records lie at the same place, whether its header was read or not.
    let file = tier.open_log(shard.io(), partition.topic(), partition.id(), span, None).await?;
    let len_bytes = plan.len_bytes as usize;
    Ok(Some(read_section(shard, &file, Section::Log, plan.position_bytes, len_bytes).await?))
}

/// Cuts a range that was read from a tier elsewhere between batches, so that it has at most `bytes_max`; the first batch
/// stays whole where `whole_first_batch` says so, however long it is. False: it does not fit.
pub(in crate::shard) fn cut_to(
    partition: &Partition,
    range: &mut RecordsRange,
    bytes_max: u32,
    whole_first_batch: bool,
) -> bool {
    let RangeSource::Tier(bytes, span) = &mut range.source else { return true };
    if range.plan.len_bytes <= bytes_max {
        return true;
    }
    let is_wanted = |end_bytes: usize, is_first| end_bytes <= bytes_max as usize || (is_first && whole_first_batch);
    let Some(moved) = cut_where(&mut range.plan, bytes, is_wanted) else { return false };
    if let Some(hint) = moved {
        note_hint(partition, span, hint);
    }
    true
}

/// Cuts a range where its last whole batch ends, so that a sequential reader goes on at a known place.
fn cut_between_batches(plan: &mut ReadPlan, bytes: &mut RemoteBytes, span: &RemoteSpan) -> Result<(), ReadFailure> {
    let position_bytes = plan.position_bytes;
    let damaged = || ReadError::Damaged { segment: span.start_offset(), position_bytes };
    cut_where(plan, bytes, |_, _| true).map(|_| ()).ok_or_else(|| damaged().into())
}

/// Keeps the whole batches at a range's beginning for as long as `is_wanted` says so of where one ends, and whether it is the
/// first. Gives the place where its reader goes on, if that was moved. `None`: none is left.
fn cut_where(
    plan: &mut ReadPlan,
    bytes: &mut RemoteBytes,
    is_wanted: impl Fn(usize, bool) -> bool,
) -> Option<Option<ReadHint>> {
    let mut end_bytes = 0;
    let mut next = plan.start_offset;
    while end_bytes < bytes.len() {
        let mut head = [0; HEADER_BYTES];
        let head_bytes = bytes.copy_from(end_bytes, &mut head);
        let Ok(header) = parse_header(&head[..head_bytes]) else { break };
        let len_bytes = usize::try_from(header.len_bytes).unwrap_or(usize::MAX);
        if len_bytes > bytes.len() - end_bytes || !is_wanted(end_bytes + len_bytes, end_bytes == 0) {
            break;
        }
        end_bytes += len_bytes;
        next = header.last_offset().plus(1);
    }
    if end_bytes == 0 {
        return None;
    }
    let mut moved = None;
    if end_bytes < plan.len_bytes as usize {
        bytes.truncate(end_bytes);
        let position_bytes = plan.position_bytes + end_bytes as u64;
        moved = Some(ReadHint { offset: next, segment: plan.segment, position_bytes });
        plan.next_hint = moved;
    }
    plan.len_bytes = u32::try_from(end_bytes).unwrap_or(u32::MAX);
    Some(moved)
}

/// Remembers where the reader of a range goes on: in this segment, or in the one after it.
fn note_hint(partition: &Partition, span: &RemoteSpan, hint: ReadHint) {
    let Some(remote) = partition.remote() else { return };
    if hint.segment.base_offset() == span.start_offset() {
        remote.note_hint(span.id(), hint);
    } else if let Some(next) = find(partition, hint.offset).filter(|next| next.start_offset() == hint.offset) {
        remote.note_hint(next.id(), hint);
    }
}

/// Has the store's next pieces read for a reader that comes in order; also of the next segment, where this one ends soon.
fn read_ahead(shard: &Rc<Shard>, partition: &Rc<Partition>, span: &RemoteSpan, file: &RemoteFile, position_bytes: u64) {
    let Some(tier) = shard.tier() else { return };
    let begin_bytes = file.header.position_bytes(Section::Log);
    let is_near_end = tier.cache().read_ahead(shard.io(), &log_source(file), begin_bytes + position_bytes);
    let next_offset = span.end_offset().plus(1);
    let Some(next) = find(partition, next_offset).filter(|_| is_near_end) else { return };
    if next.start_offset() != next_offset || next_offset >= partition.log().borrow().offsets().local_log_start {
        return;
    }
    let (shard, partition, tier) = (shard.clone(), partition.clone(), tier.clone());
    shard.clone().io().spawn(async move {
        // Who comes there is told what is wrong.
        if let Ok(file) = tier.open_log(shard.io(), partition.topic(), partition.id(), &next, None).await {
            let source = log_source(&file);
            tier.cache().read_ahead(shard.io(), &source, source.begin_bytes);
        }
    });
}

fn log_source(file: &RemoteFile) -> PieceSource {
    PieceSource {
        segment: file.segment,
        file: file.file.clone(),
        begin_bytes: log_pieces_begin(file.header.position_bytes(Section::Log)),
        end_bytes: file.header.len_bytes(),
        region: Region::Log,
    }
}

/// The segment of the tier that has an offset.
pub fn find(partition: &Partition, offset: Offset) -> Option<RemoteSpan> {
    partition.remote()?.segments().find(offset).copied()
}

/// The file of a remote segment, open.
pub(in crate::shard) async fn open(
    shard: &Rc<Shard>,
    partition: &Partition,
    span: &RemoteSpan,
) -> Result<RemoteFile, RemoteReadError> {
    open_for(shard, partition, span, None).await
}

/// The same for records that probably lie in the range `guess` of its log.
async fn open_for(
    shard: &Rc<Shard>,
    partition: &Partition,
    span: &RemoteSpan,
    guess: Option<Range<u64>>,
) -> Result<RemoteFile, RemoteReadError> {
    let tier = shard.tier().ok_or(RemoteReadError::NoTier)?;
    tier.open(shard.io(), partition.topic(), partition.id(), span, guess).await
}

/// Where what is wanted lies in a segment whose records are of one length: read while its index is, it saves a wait.
fn guess(span: &RemoteSpan, wanted: &Wanted) -> Range<u64> {
    let offsets = span.end_offset().plus(1).since(span.start_offset()).max(1);
    let before = wanted.from.since(span.start_offset()).clamp(0, offsets);
    let position_bytes = i128::from(span.segment_bytes()) * i128::from(before) / i128::from(offsets);
    let position_bytes = u64::try_from(position_bytes).unwrap_or(0);
    position_bytes..position_bytes + u64::from(wanted.bytes_max.max(1))
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
) -> Result<RemoteBytes, RemoteReadError> {
    let tier = shard.tier().ok_or(RemoteReadError::NoTier)?;
    let left_bytes = file.header.section_bytes(section).saturating_sub(position_bytes);
    let len_bytes = usize::try_from(left_bytes).unwrap_or(usize::MAX).min(len_bytes);
    let at = file.header.position_bytes(section) + position_bytes;
    if file.file.local().is_some() {
        return Ok(RemoteBytes::of(file.file.read(shard.io().buffer(len_bytes), at).await?));
    }
    let source = match section {
        Section::Log => log_source(file),
        // From the file's beginning: as the header was read.
        _ => PieceSource { begin_bytes: 0, region: Region::Indexes, ..log_source(file) },
    };
    let read = tier.cache().read(shard.io(), &source, at, len_bytes).await;
    read.map_err(|error| {
        // It may have to be opened anew.
        tier.forget(file.segment);
        RemoteReadError::Store(error)
    })
}

enum LookedUp {
    Range(ReadPlan),
    DoesNotFit,
    Behind,
}

async fn look_up(
    shard: &Rc<Shard>,
    span: &RemoteSpan,
    file: &RemoteFile,
    wanted: &Wanted,
    known: Option<u64>,
) -> Result<LookedUp, ReadFailure> {
    let copy = copy_of(span, file);
    let mut lookup = Lookup::in_copy(wanted.from, wanted.bytes_max, wanted.whole_first_batch, &copy, known);
    let mut walked_to_end = false;
    let mut is_begun = false;
    loop {
        let (section, position_bytes, len_bytes) = match lookup.step() {
            LookupStep::Empty if walked_to_end => return Ok(LookedUp::Behind),
            LookupStep::Empty => return Ok(LookedUp::DoesNotFit),
            LookupStep::Done(plan) => return Ok(LookedUp::Range(plan)),
            LookupStep::NeedIndex { position_bytes, len_bytes, .. } => {
                (Section::OffsetIndex, position_bytes, len_bytes)
            }
            LookupStep::NeedLog { position_bytes, len_bytes, .. } => {
                if let Some(tier) = shard.tier().filter(|_| !is_begun && file.file.local().is_none()) {
                    // Not in two reads: first what says how long it is, then the rest.
                    let at = file.header.position_bytes(Section::Log) + position_bytes;
                    tier.cache().begin(shard.io(), &log_source(file), at, wanted.bytes_max as usize);
                }
                is_begun = true;
                (Section::Log, position_bytes, len_bytes)
            }
        };
        let bytes = read_section(shard, file, section, position_bytes, len_bytes as usize).await?;
        lookup.feed(&bytes.joined())?;
        walked_to_end = lookup.scan_position() == Some(copy.log_bytes);
    }
}

/// Held for each partition of a fetch at most, but for a first batch that is longer.
pub const REMOTE_BYTES_MAX: u32 = 1024 * 1024;
