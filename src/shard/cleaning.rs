//! One compaction of one partition: what the newest record of each key is, then segments without the others.

use std::rc::Rc;

use crate::log::batch_retention::{ActiveProducers, BatchFate, CleaningRules};
use crate::log::clean_plan::{CleaningGroup, CleaningPlan};
use crate::log::cleaned_transactions::CleanedTransactions;
use crate::log::offset_map::OffsetMap;
use crate::log::plan::SegmentId;
use crate::log::segment::Segment;
use crate::log::transaction_index::{AbortedTransaction, TRANSACTION_ENTRY_BYTES};
use crate::record::batch::{BatchHeader, parse_header};
use crate::record::batch_error::BatchError;
use crate::record::keyed_record::RecordCursor;
use crate::record::offset::{Offset, TimestampMs};
use crate::record::rebuild::{BatchRebuild, empty_batch};
use crate::shard::clean_sink::CleanSink;
use crate::shard::clean_source::{SegmentBatches, plain_records};
use crate::shard::clean_swap;
use crate::shard::clean_turns::{CleaningTurns, SLICE_BYTES};
use crate::shard::core::Shard;
use crate::shard::error::CleanFailure;
use crate::shard::files::FileKind;
use crate::shard::partition::Partition;

/// What a compaction came to.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Cleaned {
    /// The log is clean below it.
    pub(in crate::shard) end: Offset,
    /// Bytes of logs before and after.
    pub(in crate::shard) bytes_before: u64,
    pub(in crate::shard) bytes_after: u64,
    /// Keys of the dirty part.
    pub(in crate::shard) key_count: usize,
    /// There was no room for more keys: another compaction goes on from the end.
    pub(in crate::shard) is_partial: bool,
}

/// Compacts a partition as planned. What was swapped in before an error stays: every step leaves a right log.
pub(in crate::shard) async fn clean(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    plan: &CleaningPlan,
) -> Result<Cleaned, CleanFailure> {
    let mut turns = CleaningTurns::begin(shard, partition);
    let aborted = aborted_transactions(&turns, plan.first_uncleanable).await?;
    let map = build_map(&mut turns, plan, &aborted).await?;
    let end = map.latest().plus(1);
    let mut cleaned = Cleaned {
        end,
        bytes_before: 0,
        bytes_after: 0,
        key_count: map.key_count(),
        is_partial: end < plan.first_uncleanable,
    };
    let groups = partition.log().borrow().cleaning_groups(end);
    let mut cleaning = Cleaning {
        rules: CleaningRules {
            map,
            producers: ActiveProducers::default(),
            now_ms: shard.io().wall_ms(),
            delete_retention_ms: partition.limits().cleaning.delete_retention_ms,
        },
        transactions: CleanedTransactions::new(&aborted, Offset::ZERO),
        scratch: Vec::new(),
    };
    for group in groups {
        cleaning.rules.producers = ActiveProducers::of(partition.log().borrow().producers());
        let (before, after) = cleaning.clean_group(&mut turns, &group).await?;
        cleaned.bytes_before += before;
        cleaned.bytes_after += after;
    }
    Ok(cleaned)
}

/// All transactions that begin below `end` and were aborted. Their markers may be in any later segment.
async fn aborted_transactions(turns: &CleaningTurns, end: Offset) -> Result<Vec<AbortedTransaction>, CleanFailure> {
    let (shard, partition) = (turns.shard(), turns.partition());
    let mut found = Vec::new();
    let mut files = Vec::new();
    for segment in partition.log().borrow().segments() {
        let index = segment.transaction_index();
        match index.in_memory() {
            Some(entries) => found.extend_from_slice(entries),
            None => files.push((segment.id(), index.entry_count())),
        }
    }
    for (segment, entry_count) in files {
        turns.check()?;
        let kind = FileKind::TransactionIndex;
        let opened = shard.files().open(shard.io(), partition.folder(), partition.id(), segment, kind).await;
        if !partition.has_segment(segment) {
            shard.files().forget_segment(partition.id(), segment);
            return Err(CleanFailure::Stopped);
        }
        let unreadable = |source| CleanFailure::Unreadable { segment, position_bytes: 0, source };
        let len_bytes = entry_count as usize * TRANSACTION_ENTRY_BYTES;
        let (read, bytes) = opened.map_err(unreadable)?.read_at(turns.io().buffer(len_bytes), 0).await;
        if read.map_err(unreadable)? < len_bytes {
            return Err(unreadable(std::io::ErrorKind::UnexpectedEof.into()));
        }
        found.extend(AbortedTransaction::decode_all(&bytes));
    }
    found.retain(|aborted| aborted.first_offset < end);
    Ok(found)
}

/// Notes the newest record of each key of the dirty part, as far as there is memory. What was aborted does not count.
async fn build_map(
    turns: &mut CleaningTurns,
    plan: &CleaningPlan,
    aborted: &[AbortedTransaction],
) -> Result<OffsetMap, CleanFailure> {
    let (shard, partition) = (turns.shard().clone(), turns.partition().clone());
    let config = &shard.options().broker_config;
    let bytes_max = config.log_cleaner_dedupe_buffer_size() / u64::from(shard.options().core_count.max(1));
    let offsets = u64::try_from(plan.first_uncleanable.since(plan.first_dirty)).unwrap_or(0);
    let hash_key = (shard.io().random_u64(), shard.io().random_u64());
    let mut map = OffsetMap::new(hash_key, bytes_max, config.log_cleaner_io_buffer_load_factor(), offsets);
    let dirty: Vec<(SegmentId, Offset)> = {
        let log = partition.log().borrow();
        let segments = log.segments();
        let first = segments.partition_point(|segment| segment.base_offset() <= plan.first_dirty).saturating_sub(1);
        let ends = segments.iter().skip(first + 1).map(Segment::base_offset);
        let dirty = segments.iter().skip(first).zip(ends).map(|(segment, end)| (segment.id(), end));
        dirty.filter(|(_, end)| *end <= plan.first_uncleanable).collect()
    };
    let mut scratch = Vec::new();
    let mut transactions = CleanedTransactions::new(aborted, plan.first_dirty);
    for (segment, end) in dirty {
        let mut source = SegmentBatches::open(turns, segment, true).await?;
        while let Some(header) = source.next(turns).await? {
            if header.last_offset() < plan.first_dirty {
                continue;
            }
            let is_counted = if header.attributes.is_control() {
                transactions.pass_marker(&header, source.batch());
                false
            } else {
                !transactions.pass_batch(&header)
            };
            if is_counted {
                let is_whole = note_batch(turns, plan, &mut map, &header, source.batch(), &mut scratch)
                    .await
                    .map_err(|what| source.damaged(what))?;
                if !is_whole {
                    return Ok(map);
                }
            }
            map.note_latest(header.last_offset());
        }
        // Where offsets are missing at its end, there is nothing to be looked at.
        map.note_latest(end.plus(-1));
    }
    Ok(map)
}

/// False where the map is full.
async fn note_batch(
    turns: &mut CleaningTurns,
    plan: &CleaningPlan,
    map: &mut OffsetMap,
    header: &BatchHeader,
    batch: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<bool, BatchError> {
    let records = plain_records(turns, header, batch, scratch).await?;
    let mut cursor = RecordCursor::new(header);
    loop {
        let from = cursor.position();
        while cursor.position() - from < SLICE_BYTES {
            let Some(record) = cursor.next(records)? else {
                turns.work(cursor.position() - from).await;
                return Ok(true);
            };
            let offset = header.base_offset.plus(i64::from(record.offset_delta));
            if let Some(key) = record.key.filter(|_| offset >= plan.first_dirty)
                && !map.put(key, offset)
            {
                return Ok(false);
            }
        }
        turns.work(SLICE_BYTES).await;
    }
}

/// What one compaction needs from batch to batch.
struct Cleaning {
    rules: CleaningRules,
    transactions: CleanedTransactions,
    /// Plain records of a compressed batch.
    scratch: Vec<u8>,
}

/// The records of a batch that stay.
#[derive(Default)]
struct Kept {
    /// Where they lie; neighbours are one.
    runs: Vec<std::ops::Range<usize>>,
    count: i32,
    has_tombstones: bool,
    max_timestamp: Option<i64>,
}

impl Cleaning {
    /// Writes a group of segments anew and swaps the outcome in; says how many bytes there were and are.
    async fn clean_group(
        &mut self,
        turns: &mut CleaningTurns,
        group: &CleaningGroup,
    ) -> Result<(u64, u64), CleanFailure> {
        let Some(first) = group.segments.first() else { return Ok((0, 0)) };
        let config = *turns.partition().log().borrow().config();
        let mut sink = CleanSink::new(config, *first);
        let mut bytes_before = 0;
        let mut has_changed = group.segments.len() > 1;
        let written = match self.filter(turns, group, &mut sink, &mut bytes_before, &mut has_changed).await {
            // All of the only segment stays: it may as well stay where it is.
            Ok(()) if !has_changed => {
                sink.abandon(turns).await;
                return Ok((bytes_before, bytes_before));
            }
            Ok(()) => sink.finish(turns).await,
            Err(failure) => Err(failure),
        };
        let bytes_after = sink.bytes;
        match written {
            Ok(written) => {
                if clean_swap::swap(turns, group, written).await? {
                    return Ok((bytes_before, bytes_after));
                }
                sink.abandon(turns).await;
                Err(CleanFailure::Stopped)
            }
            Err(failure) => {
                sink.abandon(turns).await;
                Err(failure)
            }
        }
    }

    /// Hands the batches that stay to `sink`.
    async fn filter(
        &mut self,
        turns: &mut CleaningTurns,
        group: &CleaningGroup,
        sink: &mut CleanSink,
        bytes_before: &mut u64,
        has_changed: &mut bool,
    ) -> Result<(), CleanFailure> {
        let last = {
            let log = turns.partition().log().borrow();
            let mut with_bytes = log.segments().iter().filter(|segment| segment.size_bytes() > 0).map(Segment::id);
            with_bytes.rfind(|id| group.segments.contains(id))
        };
        for segment in &group.segments {
            let mut source = SegmentBatches::open(turns, *segment, true).await?;
            while let Some(header) = source.next(turns).await? {
                *bytes_before += u64::from(header.len_bytes);
                let is_last = last == Some(*segment) && source.is_at_end();
                let (can_discard, aborted) = if header.attributes.is_control() {
                    let fate = self.transactions.pass_marker(&header, source.batch());
                    (fate.is_spent, fate.aborted)
                } else {
                    (self.transactions.pass_batch(&header), None)
                };
                let fate = self.rules.judge(&header, can_discard, is_last);
                match self.filter_batch(turns, &header, source.batch(), fate).await {
                    Ok(Filtered::All) => sink.add(turns, &header, source.batch()).await?,
                    Ok(Filtered::Nothing) => *has_changed = true,
                    Ok(Filtered::Some(bytes)) => {
                        *has_changed = true;
                        let header = parse_header(&bytes).map_err(|what| source.damaged(what))?;
                        sink.add(turns, &header, &bytes).await?;
                    }
                    Err(what) => return Err(source.damaged(what)),
                }
                if let Some(aborted) = aborted {
                    sink.note_aborted(aborted);
                }
            }
        }
        Ok(())
    }

    async fn filter_batch(
        &mut self,
        turns: &mut CleaningTurns,
        header: &BatchHeader,
        batch: &[u8],
        fate: BatchFate,
    ) -> Result<Filtered, BatchError> {
        let mut kept = Kept::default();
        let records = plain_records(turns, header, batch, &mut self.scratch).await?;
        if !fate.discards_all {
            kept.judge(turns, &self.rules, header, records).await?;
        }
        if kept.count == 0 {
            return Ok(match (fate.stays_empty, header.record_count) {
                (true, 0) => Filtered::All,
                (true, _) => Filtered::Some(empty_batch(header)?),
                (false, _) => Filtered::Nothing,
            });
        }
        let horizon_ms = self.rules.new_horizon_ms(header, &fate, kept.has_tombstones);
        if kept.count == header.record_count && horizon_ms.is_none() {
            return Ok(Filtered::All);
        }
        kept.rebuild(turns, header, records, horizon_ms).await.map(Filtered::Some)
    }
}

/// What stays of a batch.
enum Filtered {
    /// The batch as it is.
    All,
    /// This in its place.
    Some(Vec<u8>),
    /// Nothing.
    Nothing,
}

impl Kept {
    async fn judge(
        &mut self,
        turns: &mut CleaningTurns,
        rules: &CleaningRules,
        header: &BatchHeader,
        records: &[u8],
    ) -> Result<(), BatchError> {
        let mut cursor = RecordCursor::new(header);
        loop {
            let from = cursor.position();
            while cursor.position() - from < SLICE_BYTES {
                let Some(record) = cursor.next(records)? else {
                    turns.work(cursor.position() - from).await;
                    return Ok(());
                };
                if !rules.keeps(header, &record) {
                    continue;
                }
                self.count += 1;
                self.has_tombstones |= !record.has_value;
                let timestamp = header.base_timestamp.0.wrapping_add(record.timestamp_delta_ms);
                self.max_timestamp = Some(self.max_timestamp.map_or(timestamp, |max| max.max(timestamp)));
                match self.runs.last_mut() {
                    Some(run) if run.end == record.range.start => run.end = record.range.end,
                    _ => self.runs.push(record.range),
                }
            }
            turns.work(SLICE_BYTES).await;
        }
    }

    async fn rebuild(
        &self,
        turns: &mut CleaningTurns,
        header: &BatchHeader,
        records: &[u8],
        horizon_ms: Option<i64>,
    ) -> Result<Vec<u8>, BatchError> {
        let kept_bytes: usize = self.runs.iter().map(ExactSizeIterator::len).sum();
        let mut rebuild = BatchRebuild::begin(header, horizon_ms, kept_bytes as u64)?;
        if rebuild.takes_runs() {
            for run in &self.runs {
                for piece in records.get(run.clone()).unwrap_or_default().chunks(SLICE_BYTES) {
                    rebuild.add_run(piece)?;
                    turns.work(piece.len()).await;
                }
            }
        } else {
            let (mut cursor, mut runs) = (RecordCursor::new(header), self.runs.iter().peekable());
            while let Some(record) = cursor.next(records)? {
                while runs.peek().is_some_and(|run| run.end <= record.range.start) {
                    runs.next();
                }
                if runs.peek().is_some_and(|run| run.start <= record.range.start) {
                    rebuild.add(records, &record)?;
                }
                turns.work(record.range.len()).await;
            }
        }
        rebuild.finish(self.count, TimestampMs(self.max_timestamp.unwrap_or(TimestampMs::NONE.0)))
    }
}
