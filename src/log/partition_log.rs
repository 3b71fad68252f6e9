//! The offsets of one partition: plan and commit.

use std::collections::VecDeque;

use crate::log::error::AppendError;
use crate::log::leader_epochs::LeaderEpochs;
use crate::log::log_offsets::LogOffsets;
use crate::log::partition_places::PlacesKept;
use crate::log::plan::{Append, AppendPlan, Committed, ReadHint, RollPlan, SegmentId, SyncPlan, Truncate};
use crate::log::producer_snapshots::ProducerSnapshots;
use crate::log::producer_state::{ProducerStates, ProducerUndo, Sequence};
use crate::log::recovery::RecoveredLog;
use crate::log::segment::{Incoming, Segment, SegmentLimits, SegmentTimes};
use crate::log::transactions::Transactions;
use crate::record::check::CheckedBatch;
use crate::record::offset::{LeaderEpoch, Offset, TimestampMs};

/// The log of one partition. Pure: it hands out plans and takes their completions, and knows no file and no clock.
///
/// Offsets, positions and sequences are reserved when a plan is made. A failed plan takes all later ones with it.
pub struct PartitionLog {
    config: LogConfig,
    pub(in crate::log) leader_epoch: LeaderEpoch,
    pub(in crate::log) offsets: LogOffsets,
    /// By base offset, the active one last; never empty.
    pub(in crate::log) segments: Vec<Segment>,
    pub(in crate::log) epochs: LeaderEpochs,
    pub(in crate::log) epochs_changed: bool,
    pub(in crate::log) producers: ProducerStates,
    pub(in crate::log) transactions: Transactions,
    pub(in crate::log) snapshots: ProducerSnapshots,
    /// Plans that are neither committed nor failed, or wait for an earlier one; by id.
    in_flight: VecDeque<InFlight>,
    next_plan_id: u64,
    pub(in crate::log) generation: u32,
    truncating: bool,
    /// Where `written` lies.
    pub(in crate::log) written_at: Place,
    /// Where the high watermark lies.
    pub(in crate::log) high_watermark_at: Place,
    /// Where the last stable offset lies.
    pub(in crate::log) last_stable_at: Place,
    /// Ends of written batches above what is durable.
    not_durable: VecDeque<(Offset, Place, TimestampMs)>,
    /// Where the newest written batches begin, oldest first.
    pub(in crate::log) newest: VecDeque<ReadHint>,
    /// Where sequential readers go on, newest last.
    pub(in crate::log) hints: VecDeque<ReadHint>,
    /// All entries of the segments below were handed out, to be written to their index files.
    pub(in crate::log) index_taken_below: SegmentId,
    /// They are on stable storage.
    pub(in crate::log) index_completed_below: SegmentId,
    pub(in crate::log) places_kept: PlacesKept,
    /// Largest timestamp below the high watermark of the segment that has the high watermark.
    pub(in crate::log) readable_max_timestamp: Option<(TimestampMs, Offset)>,
    /// Each segment's jitter comes from it and the segment's base offset.
    roll_seed: u64,
    /// How often segments were replaced by others.
    pub(in crate::log) replacements: u64,
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
    /// `segment.ms`.
    pub segment_ms: u64,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: u64,
    /// `message.timestamp.type` is LogAppendTime.
    pub log_append_time: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            index_interval_bytes: 4096,
            segment_index_bytes: 10 << 20,
            segment_ms: 7 * 24 * 3_600_000,
            segment_jitter_ms: 0,
            log_append_time: false,
        }
    }
}

impl LogConfig {
    /// The limits of one segment. Its jitter is taken off `segment.ms` as long as it lives: `random` is its own.
    fn segment_limits(&self, random: u64) -> SegmentLimits {
        // As in Kafka: below the smaller of the two.
        let jitter_ms = random.checked_rem(self.segment_jitter_ms.min(self.segment_ms)).unwrap_or(0);
        SegmentLimits {
            segment_bytes: self.segment_bytes,
            index_interval_bytes: self.index_interval_bytes,
            segment_index_bytes: self.segment_index_bytes,
            roll_ms: self.segment_ms - jitter_ms,
        }
    }
}

/// A place between batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct Place {
    pub(in crate::log) segment: SegmentId,
    pub(in crate::log) position_bytes: u64,
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
    times_before: SegmentTimes,
    /// As the time index has it.
    max_timestamp: TimestampMs,
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
        let readable_max_timestamp = segments.last().and_then(Segment::max_timestamp);
        let mut checked = offsets;
        checked.set(offsets);
        let mut log = Self {
            config,
            leader_epoch,
            offsets: checked,
            segments,
            epochs,
            epochs_changed: epochs_unwritten,
            producers: producers.states,
            transactions: Transactions::opened(producers.open_transactions),
            snapshots: ProducerSnapshots::opened(producers.snapshots, producers.replayed_bytes),
            in_flight: VecDeque::new(),
            next_plan_id: 0,
            generation: 0,
            truncating: false,
            written_at: at,
            high_watermark_at: at,
            last_stable_at: at,
            not_durable: VecDeque::new(),
            newest: VecDeque::new(),
            hints: VecDeque::new(),
            index_taken_below: at.segment,
            index_completed_below: at.segment,
            places_kept: PlacesKept::default(),
            readable_max_timestamp,
            roll_seed: 0,
            replacements: 0,
        };
        log.offsets.last_stable = log.offsets.log_start;
        log.move_last_stable();
        log
    }

    /// Takes the random number that the jitter of its segments comes from (`segment.jitter.ms`).
    #[must_use]
    pub fn with_roll_seed(mut self, seed: u64) -> Self {
        self.roll_seed = seed;
        self
    }

    fn limits_of_active(&self) -> SegmentLimits {
        self.config.segment_limits(mixed(self.roll_seed ^ self.active().base_offset().0.cast_unsigned()))
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
        let log_append_time = self.config.log_append_time.then_some(now_ms);
        let max_timestamp = log_append_time.map_or(batch.max_timestamp, TimestampMs);
        let limits = self.limits_of_active();
        let incoming = Incoming { len_bytes: batch.len_bytes, first_offset: base_offset, last_offset, max_timestamp };
        if self.active_mut().should_roll(&incoming, &limits, now_ms) {
            let sealed = self.active().id();
            return Ok(Append::Roll(RollPlan { segment: SegmentId(base_offset), sealed, generation: self.generation }));
        }

        let producer = self.producers.reserve(batch, base_offset, max_timestamp);
        self.epochs_changed |= self.epochs.assign(self.leader_epoch, base_offset);
        let active = self.active_mut();
        let segment = active.id();
        let times_before = active.times();
        let position_bytes = active.size_bytes();
        active.reserve(&incoming, &limits);
        self.snapshots.appended(batch.len_bytes);
        let active = self.active();
        let ends_at = Place { segment, position_bytes: active.size_bytes() };
        if let Some(undo) = &producer {
            self.note_transaction(undo, base_offset, Place { segment, position_bytes });
        }

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
            times_before,
            max_timestamp,
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
        self.active_mut().complete_time_index();
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
            self.not_durable.push_back((written, flight.ends_at, flight.max_timestamp));
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
                if let Some(change) = undo.change {
                    self.transactions.take_back(change, flight.base_offset);
                }
                self.producers.take_back(undo);
            }
            while self.active().id() > flight.begins_at.segment {
                remove.extend(self.segments.pop().map(|segment| segment.id()));
            }
            self.active_mut().take_back_from(flight.begins_at.position_bytes, flight.times_before);
            self.active_mut().transaction_index_mut().cut(flight.base_offset);
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
        while self.not_durable.front().is_some_and(|(batch_end, ..)| *batch_end <= end) {
            let Some((batch_end, at, max_timestamp)) = self.not_durable.pop_front() else { break };
            let from_segment = reached.map_or(self.high_watermark_at, |(_, at)| at).segment;
            if at.segment != from_segment {
                self.readable_max_timestamp = None;
            }
            if max_timestamp > self.readable_max_timestamp.map_or(TimestampMs::NONE, |(known, _)| known) {
                self.readable_max_timestamp = Some((max_timestamp, batch_end.plus(-1)));
            }
            reached = Some((batch_end, at));
        }
        let Some((durable, at)) = reached else {
            return false;
        };
        assert!(durable > self.offsets.durable, "durable goes back");
        self.high_watermark_at = at;
        self.offsets.set(LogOffsets { durable, high_watermark: durable, ..self.offsets });
        self.move_last_stable();
        true
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
        self.epochs.end_offset_for(epoch, self.leader_epoch, self.offsets.written)
    }

    pub(in crate::log) fn active(&self) -> &Segment {
        self.segments.last().expect("a log has an active segment")
    }

    pub(in crate::log) fn active_mut(&mut self) -> &mut Segment {
        self.segments.last_mut().expect("a log has an active segment")
    }
}

/// A reader at the tail finds its place among these, 32 bytes each.
const NEWEST_KEPT: usize = 16;

/// A number that looks random, from one that does not (SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
