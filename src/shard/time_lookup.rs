//! Lookups by time: from a timestamp to the record that has it.

use std::rc::Rc;

use crate::log::error::ReadError;
use crate::log::plan::{ReadBound, SegmentId};
use crate::log::time_lookup::{TimeLookup, TimeStep, TimedBatch};
use crate::record::batch::HEADER_BYTES;
use crate::record::offset::{LeaderEpoch, Offset, TimestampMs};
use crate::record::record_search::RecordSearch;
use crate::ring::buffer::Buffer;
use crate::shard::core::Shard;
use crate::shard::error::ReadFailure;
use crate::shard::files::FileKind;
use crate::shard::partition::Partition;
use crate::shard::remote_time;

/// A record that was looked for by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRecord {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: TimestampMs,
    /// The epoch of the leader that appended it.
    pub leader_epoch: LeaderEpoch,
}

/// The first record with a timestamp at or above `target`, below `bound`; `None` where there is none.
///
/// # Errors
/// The partition is offline, or the lookup could not read.
pub async fn first_at_or_after(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    target: TimestampMs,
    bound: ReadBound,
) -> Result<Option<TimedRecord>, ReadFailure> {
    if let Some(record) = remote_time::first_at_or_after(shard, partition, target).await? {
        return Ok(Some(record));
    }
    let lookup = partition.log().borrow().plan_time_lookup(target, bound);
    run(shard, partition, lookup, target).await
}

/// The earliest of the records that have the largest timestamp below `bound`; where none has a timestamp, the first one,
/// as in Kafka. `None` where there are no records.
///
/// # Errors
/// The partition is offline, or the lookup could not read.
pub async fn earliest_of_max_timestamp(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    bound: ReadBound,
) -> Result<Option<TimedRecord>, ReadFailure> {
    let (lookup, target) = {
        let log = partition.log().borrow();
        let target = log.max_timestamp(bound).map_or(TimestampMs::NONE, |(target, _)| target);
        (log.plan_max_time_lookup(target, bound), target)
    };
    run(shard, partition, lookup, target).await
}

async fn run(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    mut lookup: TimeLookup,
    target: TimestampMs,
) -> Result<Option<TimedRecord>, ReadFailure> {
    let mut read_bytes = 0;
    let (mut held, mut held_since) = (Held::default(), partition.log().borrow().replacements());
    loop {
        if !partition.is_online() {
            return Err(ReadFailure::Offline);
        }
        let step = partition.log().borrow().step_time_lookup(&mut lookup)?;
        // Where compaction replaces segments meanwhile, what was read is of other places: the next step begins anew.
        let replacements = partition.log().borrow().replacements();
        if held_since != replacements {
            (held, held_since) = (Held::default(), replacements);
        }
        let is_stale = || partition.log().borrow().replacements() != replacements;
        let (segment, kind, position_bytes, len_bytes) = match step {
            TimeStep::Nothing => return Ok(None),
            TimeStep::NeedTimeIndex { segment, position_bytes, len_bytes } => {
                (segment, FileKind::TimeIndex, position_bytes, len_bytes)
            }
            TimeStep::NeedIndex { segment, position_bytes, len_bytes } => {
                (segment, FileKind::OffsetIndex, position_bytes, len_bytes)
            }
            TimeStep::NeedLog { segment, position_bytes, len_bytes } => {
                (segment, FileKind::Log, position_bytes, len_bytes)
            }
            TimeStep::Batch(batch) => {
                let found = search_batch(shard, partition, &batch, target, &held).await;
                if is_stale() {
                    continue;
                }
                if let Some(record) = found? {
                    return Ok(Some(record));
                }
                lookup.go_on();
                continue;
            }
        };
        let is_log = kind == FileKind::Log;
        if !is_log || held.piece(segment, position_bytes, HEADER_BYTES).is_none() {
            let bytes = read(shard, partition, segment, kind, position_bytes, len_bytes as usize).await;
            if is_stale() {
                continue;
            }
            held = Held { segment, position_bytes, bytes: Some(bytes?) };
        }
        let bytes = held.from(segment, position_bytes);
        // A walk over a long piece leaves the core to others now and then.
        let bytes = bytes.get(..SLICE_BYTES).unwrap_or(bytes);
        read_bytes += bytes.len();
        lookup.feed(bytes)?;
        if !is_log {
            held = Held::default();
        }
        if read_bytes >= SLICE_BYTES {
            read_bytes = 0;
            shard.io().yield_now().await;
        }
    }
}

/// The piece of a log that was read last: the batch that answers is mostly in it, and is not read again.
struct Held {
    segment: SegmentId,
    position_bytes: u64,
    bytes: Option<Buffer>,
}

impl Default for Held {
    fn default() -> Self {
        Self { segment: SegmentId(Offset::ZERO), position_bytes: 0, bytes: None }
    }
}

impl Held {
    /// What it has from here on; nothing where it is another piece.
    fn from(&self, segment: SegmentId, position_bytes: u64) -> &[u8] {
        let Some(bytes) = self.bytes.as_ref().filter(|_| self.segment == segment) else { return &[] };
        let at = position_bytes.checked_sub(self.position_bytes).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| bytes.get(at..)).unwrap_or_default()
    }

    /// `len_bytes` from here on, where it has them all.
    fn piece(&self, segment: SegmentId, position_bytes: u64, len_bytes: usize) -> Option<&[u8]> {
        self.from(segment, position_bytes).get(..len_bytes)
    }
}

/// Looks through the records of a batch, in slices.
async fn search_batch(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    batch: &TimedBatch,
    target: TimestampMs,
    held: &Held,
) -> Result<Option<TimedRecord>, ReadFailure> {
    let damaged = ReadError::Damaged { segment: batch.segment.base_offset(), position_bytes: batch.position_bytes };
    let mut search = RecordSearch::new(&batch.header, target, batch.from).map_err(|_| damaged)?;
    let end = batch.position_bytes + u64::from(batch.header.len_bytes);
    let mut position_bytes = batch.position_bytes + HEADER_BYTES as u64;
    let mut seen_bytes = 0;
    while search.found().is_none() && position_bytes < end {
        let left_bytes = usize::try_from(end - position_bytes).unwrap_or(usize::MAX);
        let piece_bytes = if search.takes_pieces() { left_bytes.min(PIECE_BYTES) } else { left_bytes };
        let read_anew;
        let bytes = match held.piece(batch.segment, position_bytes, piece_bytes) {
            Some(bytes) => bytes,
            None => {
                read_anew = read(shard, partition, batch.segment, FileKind::Log, position_bytes, piece_bytes).await?;
                &read_anew[..]
            }
        };
        if bytes.len() < piece_bytes {
            return Err(damaged.into());
        }
        let mut rest = bytes;
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
    let leader_epoch = batch.header.leader_epoch;
    Ok(search.found().map(|(offset, timestamp)| TimedRecord { offset, timestamp, leader_epoch }))
}

/// Up to `len_bytes` of a segment's file.
async fn read(
    shard: &Rc<Shard>,
    partition: &Partition,
    segment: SegmentId,
    kind: FileKind,
    position_bytes: u64,
    len_bytes: usize,
) -> Result<Buffer, ReadFailure> {
    let file = shard.files().open(shard.io(), partition.folder(), partition.id(), segment, kind).await?;
    let (read, mut buffer) = file.read_at(shard.io().buffer(len_bytes), position_bytes).await;
    buffer.truncate(read?);
    Ok(buffer)
}

/// Looked at within one turn.
const SLICE_BYTES: usize = 256 * 1024;
/// Read at once of records that are not compressed.
const PIECE_BYTES: usize = 64 * 1024;
