//! The offsets of one partition: plan and commit.

use std::collections::VecDeque;

use crate::log::error::{AppendError, ReadError};
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::log_offsets::LogOffsets;
use crate::log::lookup::{Found, Lookup, SegmentView, Start, Want};
use crate::log::plan::{
    Append, AppendPlan, Committed, IndexWrite, ReadBound, ReadHint, RollPlan, SegmentId, SyncPlan, Truncate,
};
use crate::log::producer_snapshots::{ProducerSnapshots, SnapshotWrite};
use crate::log::producer_state::{ProducerStates, ProducerUndo, Sequence};
use crate::log::recovery::RecoveredLog;
use crate::log::segment::{Segment, SegmentLimits};
use crate::record::check::CheckedBatch;
use crate::record::offset::{LeaderEpoch, Offset, TimestampMs};

/// The log of one partition. Pure: it hands out plans and takes their completions, and knows no file and no clock.
///
/// Offsets, positions and sequences are reserved when a plan is made. A failed plan takes all later ones with it.
pub struct PartitionLog {
    config: LogConfig,
    leader_epoch: LeaderEpoch,
    offsets: LogOffsets,
    /// By base offset, the active one last; never empty.
    segments: Vec<Segment>,
    epochs: LeaderEpochs,
    epochs_changed: bool,
    producers: ProducerStates,
    snapshots: ProducerSnapshots,
    /// Plans that are neither committed nor failed, or wait for an earlier one; by id.
    in_flight: VecDeque<InFlight>,
    next_plan_id: u64,
    generation: u32,
    truncating: bool,
    /// Where `written` lies.
    written_at: Place,
    /// Where the high watermark lies.
    high_watermark_at: Place,
    /// Ends of written batches above what is durable.
    not_durable: VecDeque<(Offset, Place)>,
    /// Where the newest written batches begin, oldest first.
    newest: VecDeque<ReadHint>,
    /// Where sequential readers go on, newest last.
    hints: VecDeque<ReadHint>,
    /// All entries of the segments below are in their index files.
    index_written_below: SegmentId,
}

/// The configs that a log looks at, by their Kafka names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `segment.index.bytes`.
    pub segment_index_bytes: u32,
    /// `message.timestamp.type` is LogAppendTime.
    pub log_append_time: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            index_interval_bytes: 4096,
            segment_index_bytes: 10 << 20,
            log_append_time: false,
        }
    }
}

impl LogConfig {
    fn segment_limits(&self) -> SegmentLimits {
        SegmentLimits {
            segment_bytes: self.segment_bytes,
            index_interval_bytes: self.index_interval_bytes,
            segment_index_bytes: self.segment_index_bytes,
        }
    }
}

/// A place between batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    segment: SegmentId,
    position_bytes: u64,
}

/// A plan on its way, and what taking it back needs.
struct InFlight {
    id: u64,
    done: bool,
    base_offset: Offset,
    last_offset: Offset,
    begins_at: Place,
    ends_at: Place,
    producer: Option<ProducerUndo>,
    timestamps_before: (Option<TimestampMs>, Option<(TimestampMs, Offset)>),
}

impl PartitionLog {
    /// A log as it was recovered. `leader_epoch` was raised durably for this start or move already, above the latest one
    /// in `recovered.epochs` (where the folder came from elsewhere and has a later one, that is taken: epochs never go
    /// back).
    pub fn new(recovered: RecoveredLog, config: LogConfig, leader_epoch: LeaderEpoch) -> Self {
        let RecoveredLog { log_start, log_end, mut segments, epochs, epochs_unwritten, producers, .. } = recovered;
        let leader_epoch = epochs.latest().map_or(leader_epoch, |latest| latest.max(leader_epoch));
        if segments.is_empty() {
            segments.push(Segment::new(SegmentId(log_end)));
        }
        let local_log_start = segments.first().map_or(log_end, Segment::base_offset).max(log_start);
        let at = match segments.last() {
            Some(active) => Place { segment: active.id(), position_bytes: active.size_bytes() },
            None => Place { segment: SegmentId(log_end), position_bytes: 0 },
        };
        let offsets = LogOffsets {
            log_start,
            local_log_start,
            high_watermark: log_end,
            last_stable: log_end,
            durable: log_end,
            written: log_end,
            log_end,
        };
        let mut checked = offsets;
        checked.set(offsets);
        Self {
            config,
            leader_epoch,
            offsets: checked,
            segments,
            epochs,
            epochs_changed: epochs_unwritten,
            producers: producers.states,
            snapshots: ProducerSnapshots::opened(producers.snapshots, producers.replayed_bytes),
            in_flight: VecDeque::new(),
            next_plan_id: 0,
            generation: 0,
            truncating: false,
            written_at: at,
            high_watermark_at: at,
            not_durable: VecDeque::new(),
            newest: VecDeque::new(),
            hints: VecDeque::new(),
            index_written_below: at.segment,
        }
    }

    /// Where the log begins, and how far it is durable, written, planned, readable.
    pub fn offsets(&self) -> LogOffsets {
        self.offsets
    }

    /// The epoch that new batches are stamped with.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// Takes a higher leader epoch, raised durably already.
    pub fn raise_leader_epoch(&mut self, leader_epoch: LeaderEpoch) {
        assert!(leader_epoch >= self.leader_epoch, "leader epoch {} -> {leader_epoch}", self.leader_epoch);
        self.leader_epoch = leader_epoch;
    }

    /// Takes changed configs; they are in force for the next batch.
    pub fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// The configs in force.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Segments by base offset, the active one last.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The segment that is appended to.
    pub fn active_segment(&self) -> SegmentId {
        self.active().id()
    }

    /// The producers known.
    pub fn producers(&self) -> &ProducerStates {
        &self.producers
    }

    /// Forgets producers that wrote nothing for `expiration_ms`; says how many.
    pub fn expire_producers(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        self.producers.expire(now_ms, expiration_ms)
    }

    /// Reserves offsets, position and sequences for a batch, at the end of all that is planned.
    ///
    /// # Errors
    /// Where the batch may not be appended; nothing was reserved.
    pub fn plan_append(&mut self, batch: &CheckedBatch, now_ms: i64) -> Result<Append, AppendError> {
        if self.truncating {
            return Err(AppendError::Truncating);
        }
        if let Sequence::Duplicate(kept) = self.producers.check(batch)? {
            return Ok(Append::Duplicate {
                base_offset: kept.base_offset(),
                last_offset: kept.last_offset,
                timestamp: kept.timestamp,
            });
        }
        let max_bytes = self.config.segment_bytes;
        if batch.len_bytes > max_bytes {
            return Err(AppendError::LargerThanSegment { len_bytes: batch.len_bytes, max_bytes });
        }
        let base_offset = self.offsets.log_end;
        let last_offset = base_offset.plus(i64::from(batch.last_offset_delta));
        if last_offset.0 >= i64::MAX - 1 {
            return Err(AppendError::NoOffsetsLeft);
        }
        let limits = self.config.segment_limits();
        if self.active().should_roll(batch.len_bytes, last_offset, &limits) {
            let sealed = self.active().id();
            return Ok(Append::Roll(RollPlan { segment: SegmentId(base_offset), sealed, generation: self.generation }));
        }

        let log_append_time = self.config.log_append_time.then_some(now_ms);
        let max_timestamp = match log_append_time {
            Some(now_ms) => (TimestampMs(now_ms), base_offset),
            None => (batch.max_timestamp, base_offset.plus(i64::from(batch.max_timestamp_offset_delta))),
        };
        let producer = self.producers.reserve(batch, base_offset, max_timestamp.0);
        self.epochs_changed |= self.epochs.assign(self.leader_epoch, base_offset);
        let active = self.active_mut();
        let segment = active.id();
        let timestamps_before = (active.first_timestamp(), active.max_timestamp());
        let position_bytes = active.size_bytes();
        active.reserve(batch.len_bytes, base_offset, last_offset, max_timestamp, &limits);
        self.snapshots.appended(batch.len_bytes);
        let active = self.active();
        let ends_at = Place { segment, position_bytes: active.size_bytes() };

        let id = self.next_plan_id;
        self.next_plan_id += 1;
        self.in_flight.push_back(InFlight {
            id,
            done: false,
            base_offset,
            last_offset,
            begins_at: Place { segment, position_bytes },
            ends_at,
            producer,
            timestamps_before,
        });
        self.offsets.set(LogOffsets { log_end: last_offset.plus(1), ..self.offsets });
        Ok(Append::Plan(AppendPlan {
            id,
            generation: self.generation,
            segment,
            position_bytes,
            base_offset,
            last_offset,
            len_bytes: batch.len_bytes,
            log_append_time,
            max_timestamp: batch.max_timestamp,
            leader_epoch: self.leader_epoch,
        }))
    }

    /// The next segment's files are there and their folder is synced: it becomes the active one. False where the plan
    /// is stale (an append failed meanwhile, or the segment was rolled already): then the log did not change, and
    /// files that no segment of [`segments`](Self::segments) has are to be removed.
    #[must_use]
    pub fn rolled(&mut self, plan: &RollPlan) -> bool {
        let stale = plan.generation != self.generation
            || plan.sealed != self.active().id()
            || plan.segment.0 != self.offsets.log_end
            || self.active().size_bytes() == 0;
        if stale {
            return false;
        }
        assert!(plan.segment > plan.sealed, "{plan:?}");
        self.segments.push(Segment::new(plan.segment));
        self.snapshots.take(plan.segment.0, &self.producers);
        true
    }

    /// The batch is written. Commits may come in any order; `written` moves over those without holes before them.
    pub fn commit_append(&mut self, plan: &AppendPlan) -> Committed {
        let Ok(at) = self.in_flight.binary_search_by_key(&plan.id, |flight| flight.id) else {
            return Committed::Failed;
        };
        assert!(!self.in_flight[at].done, "plan {} committed twice", plan.id);
        self.in_flight[at].done = true;
        let mut written = self.offsets.written;
        while self.in_flight.front().is_some_and(|flight| flight.done) {
            let Some(flight) = self.in_flight.pop_front() else {
                break;
            };
            assert!(flight.base_offset >= written, "plan {} goes back", flight.id);
            written = flight.last_offset.plus(1);
            self.written_at = flight.ends_at;
            self.not_durable.push_back((written, flight.ends_at));
            if self.newest.len() == NEWEST_KEPT {
                self.newest.pop_front();
            }
            let Place { segment, position_bytes } = flight.begins_at;
            self.newest.push_back(ReadHint { offset: flight.base_offset, segment, position_bytes });
        }
        let advanced = written > self.offsets.written;
        self.offsets.set(LogOffsets { written, ..self.offsets });
        Committed::Written { written, advanced }
    }

    /// The batch could not be written: this plan and all later ones fail. Until [`truncated`](Self::truncated) nothing
    /// is planned. `None` where an earlier failure took the plan with it already.
    #[must_use]
    pub fn fail_append(&mut self, plan: &AppendPlan) -> Option<Truncate> {
        let at = self.in_flight.binary_search_by_key(&plan.id, |flight| flight.id).ok()?;
        assert!(!self.in_flight[at].done, "plan {} was committed", plan.id);
        let first = &self.in_flight[at];
        let (cut, end) = (first.begins_at, first.base_offset);
        let mut remove = Vec::new();
        while self.in_flight.len() > at {
            let Some(flight) = self.in_flight.pop_back() else {
                break;
            };
            if let Some(undo) = flight.producer {
                self.producers.take_back(undo);
            }
            while self.active().id() > flight.begins_at.segment {
                remove.extend(self.segments.pop().map(|segment| segment.id()));
            }
            let (first_timestamp, max_timestamp) = flight.timestamps_before;
            self.active_mut().take_back_from(flight.begins_at.position_bytes, first_timestamp, max_timestamp);
        }
        assert_eq!(self.active().id(), cut.segment, "the cut is in the active segment");
        assert!(end >= self.offsets.written, "a written batch is never cut");
        self.epochs_changed |= self.epochs.truncate_from_end(end);
        self.snapshots.cut(end);
        self.offsets.set(LogOffsets { log_end: end, ..self.offsets });
        self.generation += 1;
        self.truncating = true;
        Some(Truncate {
            segment: cut.segment,
            position_bytes: cut.position_bytes,
            end,
            remove,
            generation: self.generation,
        })
    }

    /// A batch that passed the check was not planned, for the disk has no room for a segment: what its producer sent
    /// behind it may not go before it.
    pub fn refuse_append(&mut self, batch: &CheckedBatch) {
        self.producers.note_refused(batch.producer_id, batch.producer_epoch, batch.base_sequence);
    }

    /// The files were cut as the latest [`Truncate`] says, after all writes had ended: appends go on.
    pub fn truncated(&mut self, cut: &Truncate) {
        if cut.generation == self.generation {
            self.truncating = false;
        }
    }

    /// What must be synced for all that is written to become durable; `None` where it is.
    pub fn sync_target(&self) -> Option<SyncPlan> {
        if self.offsets.durable >= self.offsets.written {
            return None;
        }
        let first = self.segments.partition_point(|segment| segment.base_offset() <= self.offsets.durable);
        let segments = self.segments[first.saturating_sub(1)..]
            .iter()
            .map(Segment::id)
            .filter(|segment| *segment <= self.written_at.segment)
            .collect();
        Some(SyncPlan { segments, end: self.offsets.written })
    }

    /// All below `end` (from a [`SyncPlan`] or a commit) is on stable storage, or durable in the sense of the mode in
    /// force. Moves the high watermark with it; true where that moved.
    pub fn durable(&mut self, end: Offset) -> bool {
        let mut reached = None;
        while self.not_durable.front().is_some_and(|(batch_end, _)| *batch_end <= end) {
            reached = self.not_durable.pop_front();
        }
        let Some((durable, at)) = reached else {
            return false;
        };
        assert!(durable > self.offsets.durable, "durable goes back");
        self.high_watermark_at = at;
        self.offsets.set(LogOffsets { durable, high_watermark: durable, last_stable: durable, ..self.offsets });
        true
    }

    /// Index entries to be written now; the newest stay in memory. Call it after commits now and then: it costs
    /// nothing where nothing is due.
    pub fn take_index_writes(&mut self) -> Vec<IndexWrite> {
        self.take_entries(false)
    }

    /// All index entries of written batches, for a clean stop.
    pub fn take_all_index_writes(&mut self) -> Vec<IndexWrite> {
        self.take_entries(true)
    }

    fn take_entries(&mut self, all: bool) -> Vec<IndexWrite> {
        let (active, written_at) = (self.active().id(), self.written_at);
        let first = self.segments.partition_point(|segment| segment.id() < self.index_written_below);
        let mut writes = Vec::new();
        for segment in &mut self.segments[first..] {
            let id = segment.id();
            let written_bytes = match id.cmp(&written_at.segment) {
                std::cmp::Ordering::Less => segment.size_bytes(),
                std::cmp::Ordering::Equal => written_at.position_bytes,
                std::cmp::Ordering::Greater => 0,
            };
            let sealed = id != active;
            if let Some((position_bytes, bytes)) = segment.index_mut().take_writes(written_bytes, all || sealed) {
                writes.push(IndexWrite { segment: id, position_bytes, bytes });
            }
            // Where all of a sealed segment is written, nothing can come back to it.
            if sealed && written_bytes == segment.size_bytes() && id <= written_at.segment {
                segment.index_mut().seal();
                self.index_written_below = SegmentId(id.0.plus(1));
            }
        }
        writes
    }

    /// True where a start after a crash would replay much for the producers' sake: take a snapshot of them.
    pub fn producer_snapshot_is_due(&self) -> bool {
        self.snapshots.is_due()
    }

    /// Takes a snapshot of the producers at the log's end, planned batches included; at each roll that is done already.
    pub fn snapshot_producers(&mut self) {
        if self.offsets.log_end > self.offsets.log_start {
            self.snapshots.take(self.offsets.log_end, &self.producers);
        }
    }

    /// True where [`next_producer_snapshot`](Self::next_producer_snapshot) has one.
    pub fn has_producer_snapshot(&self) -> bool {
        self.snapshots.has_next(self.offsets.written)
    }

    /// A snapshot that was taken, once all that it says is written.
    pub fn next_producer_snapshot(&mut self) -> Option<SnapshotWrite> {
        self.snapshots.next(self.offsets.written)
    }

    /// The snapshot at `offset` did not get to the disk: the next start replays more.
    pub fn producer_snapshot_failed(&mut self, offset: Offset) {
        self.snapshots.failed(offset);
    }

    /// Snapshots that nobody needs any more, to be removed: those of deleted segments too.
    pub fn take_stale_producer_snapshots(&mut self) -> Vec<Offset> {
        let segments = &self.segments;
        self.snapshots.take_stale(|id| segments.binary_search_by_key(&id, Segment::id).is_ok())
    }

    /// True where `leader-epoch-checkpoint` is to be written.
    pub fn epoch_checkpoint_is_due(&self) -> bool {
        self.epochs_changed
    }

    /// The text that [`take_epoch_checkpoint`](Self::take_epoch_checkpoint) gave did not get to the disk: it is due again.
    pub fn epoch_checkpoint_failed(&mut self) {
        self.epochs_changed = true;
    }

    /// The text of `leader-epoch-checkpoint`, where it changed since the last call.
    pub fn take_epoch_checkpoint(&mut self) -> Option<String> {
        std::mem::take(&mut self.epochs_changed).then(|| self.epochs.to_text())
    }

    /// The epochs with their first offsets.
    pub fn epochs(&self) -> &LeaderEpochs {
        &self.epochs
    }

    /// Largest epoch at or below `epoch`, and the offset after its last record; `None` is Kafka's -1, -1.
    pub fn offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        if epoch == self.leader_epoch {
            return Some((epoch, self.offsets.written));
        }
        self.epochs.end_offset_for(epoch, self.offsets.written)
    }

    /// First offset of the log with its epoch (ListOffsets -2).
    pub fn earliest(&self) -> (Offset, Option<LeaderEpoch>) {
        (self.offsets.log_start, self.epochs.epoch_of(self.offsets.log_start))
    }

    /// First offset on this machine's disk with its epoch (ListOffsets -4).
    pub fn earliest_local(&self) -> (Offset, Option<LeaderEpoch>) {
        (self.offsets.local_log_start, self.epochs.epoch_of(self.offsets.local_log_start))
    }

    /// Offset after the last one that a reader may see, with the epoch of new records (ListOffsets -1).
    pub fn latest(&self, bound: ReadBound) -> (Offset, LeaderEpoch) {
        (self.bound(bound).0, self.leader_epoch)
    }

    /// Largest timestamp and the first offset that has it, of the segments whose timestamps are known
    /// (ListOffsets -3). `None` in an empty log.
    pub fn max_timestamp(&self) -> Option<(TimestampMs, Offset)> {
        let known = self.segments.iter().filter_map(Segment::max_timestamp);
        known.reduce(|best, next| if next.0 > best.0 { next } else { best })
    }

    /// Plans a read from `from`: what was written since the last read goes on where that ended without a step.
    ///
    /// The range is at most `max_bytes` long; where the first batch alone is longer, it is that batch with
    /// `min_one_batch`, else nothing.
    ///
    /// # Errors
    /// Where `from` is below the log's start or above what is written.
    pub fn plan_read(
        &self,
        from: Offset,
        max_bytes: u32,
        min_one_batch: bool,
        bound: ReadBound,
    ) -> Result<Lookup, ReadError> {
        if from < self.offsets.log_start || from > self.offsets.written {
            return Err(ReadError::OutOfRange { log_start: self.offsets.log_start, end: self.offsets.written });
        }
        if from < self.offsets.local_log_start {
            return Err(ReadError::BelowLocalStart { local_log_start: self.offsets.local_log_start });
        }
        let want = Want { from, max_bytes, min_one_batch };
        let (end, end_at) = self.bound(bound);
        let after = self.segments.partition_point(|segment| segment.base_offset() <= from);
        let at = after.saturating_sub(1);
        let view = self.view(at, end, end_at);
        let next = (after < self.segments.len()).then(|| self.view(after, end, end_at));
        let start = if from >= end { Start::Empty } else { self.find(&want, at, &view) };
        Ok(Lookup::new(want, view, next, start))
    }

    /// Remembers where a reader will go on ([`ReadPlan::next_hint`](crate::log::plan::ReadPlan::next_hint)).
    pub fn read_hint(&mut self, hint: ReadHint) {
        self.hints.retain(|known| known.offset != hint.offset);
        if self.hints.len() == HINTS_KEPT {
            self.hints.pop_front();
        }
        self.hints.push_back(hint);
    }

    /// What is known of the place of `want.from` in segment number `at`, without reading.
    fn find(&self, want: &Want, at: usize, view: &SegmentView) -> Start {
        let segment = &self.segments[at];
        let id = segment.id();
        let index = segment.index();
        let relative = u32::try_from(want.from.since(id.0)).unwrap_or(u32::MAX);
        let exact = if want.from == id.0 {
            Some(0)
        } else {
            let hints = self.newest.iter().rev().chain(self.hints.iter().rev());
            hints
                .filter(|hint| hint.segment == id)
                .find(|hint| hint.offset == want.from)
                .map(|hint| hint.position_bytes)
                .or_else(|| {
                    let tail = index.tail();
                    let entry = tail.get(tail.partition_point(|entry| entry.first <= relative).checked_sub(1)?)?;
                    (relative <= entry.last).then_some(u64::from(entry.position))
                })
        };
        if let Some(position_bytes) = exact {
            let end = self.last_boundary(at, position_bytes, u64::from(want.max_bytes), view.readable_bytes);
            return Start::Found(Found { position_bytes, first_batch: None, end });
        }
        let tail = index.tail();
        if let Some(entry) =
            tail.partition_point(|entry| entry.last <= relative).checked_sub(1).and_then(|at| tail.get(at))
        {
            return Start::Scan { position_bytes: u64::from(entry.position) };
        }
        match index.last_flushed() {
            Some(last) if last.relative_offset <= relative => {
                Start::Scan { position_bytes: u64::from(last.position_bytes) }
            }
            Some(last) => Start::Index { entries: index.narrow(relative), last },
            None => Start::Scan { position_bytes: 0 },
        }
    }

    /// The last beginning of a batch that is known within `max_bytes` after `position_bytes`, in segment number `at`.
    fn last_boundary(&self, at: usize, position_bytes: u64, max_bytes: u64, readable_bytes: u64) -> Option<ReadHint> {
        let segment = &self.segments[at];
        let limit = position_bytes.saturating_add(max_bytes).min(readable_bytes);
        let newest =
            self.newest.iter().rev().find(|known| known.segment == segment.id() && known.position_bytes <= limit);
        let tail = segment.index().tail();
        let indexed = tail.partition_point(|entry| u64::from(entry.position) <= limit).checked_sub(1);
        let indexed = indexed.and_then(|at| tail.get(at)).map(|entry| ReadHint {
            offset: segment.base_offset().plus(i64::from(entry.first)),
            segment: segment.id(),
            position_bytes: u64::from(entry.position),
        });
        let best = newest.copied().into_iter().chain(indexed).max_by_key(|known| known.position_bytes)?;
        (best.position_bytes > position_bytes).then_some(best)
    }

    /// Segment number `at` as a reader below `end` sees it.
    fn view(&self, at: usize, end: Offset, end_at: Place) -> SegmentView {
        let segment = &self.segments[at];
        let id = segment.id();
        let hint = |offset, segment, position_bytes| Some(ReadHint { offset, segment, position_bytes });
        let (readable_bytes, after) = match id.cmp(&end_at.segment) {
            std::cmp::Ordering::Less => (
                segment.size_bytes(),
                self.segments.get(at + 1).and_then(|next| hint(next.base_offset(), next.id(), 0)),
            ),
            std::cmp::Ordering::Equal => (end_at.position_bytes, hint(end, id, end_at.position_bytes)),
            std::cmp::Ordering::Greater => (0, None),
        };
        SegmentView { id, readable_bytes, after }
    }

    fn bound(&self, bound: ReadBound) -> (Offset, Place) {
        match bound {
            // Without transactions the last stable offset is the high watermark.
            ReadBound::HighWatermark | ReadBound::LastStable => (self.offsets.high_watermark, self.high_watermark_at),
            ReadBound::Written => (self.offsets.written, self.written_at),
        }
    }

    fn active(&self) -> &Segment {
        self.segments.last().expect("a log has an active segment")
    }

    fn active_mut(&mut self) -> &mut Segment {
        self.segments.last_mut().expect("a log has an active segment")
    }
}

/// A reader at the tail finds its place among these, 32 bytes each.
const NEWEST_KEPT: usize = 16;
/// As many sequential readers of one partition go on without a step, 32 bytes each.
const HINTS_KEPT: usize = 8;
