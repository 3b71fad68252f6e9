//! What goes of a log: below its start, above its size, past its time.
//!
//! One pass applies the three in Kafka's order, each going on where the one before has stopped: oldest segments first,
//! never past the high watermark, and the active segment only after a roll. What was not written by Kafka's rules (a
//! record with a time in the future) stays as long as it does there: until that time and `retention.ms` have passed.

use std::collections::BTreeMap;
use std::fmt;

use crate::log::error::LogStartError;
use crate::log::log_offsets::LogOffsets;
use crate::log::partition_log::{PartitionLog, Place};
use crate::log::plan::{RollPlan, SegmentId};
use crate::log::segment::Segment;
use crate::record::offset::Offset;

/// What a topic's configs keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionLimits {
    /// `cleanup.policy` has `delete`: else only what lies below the log start goes.
    pub delete: bool,
    /// `retention.ms`; `None`: for ever.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`; `None`: any size.
    pub retention_bytes: Option<u64>,
    /// The topic is tiered: the limits above are those of the local disk, and only what lies below this offset, which the
    /// tier has, or below the log start goes. `None`: what goes is gone.
    pub copied_below: Option<Offset>,
}

/// Why a segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// All of it is below the log start offset.
    LogStart,
    /// The log is larger than `retention.bytes` without it.
    Size,
    /// Its newest record is older than `retention.ms`.
    Time,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LogStart => "below the log start offset",
            Self::Size => "the log is larger than retention.bytes",
            Self::Time => "older than retention.ms",
        })
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetentionStep {
    /// Nothing goes.
    Nothing,
    /// The records do not tell how old this segment is: ask again with the time at which its file was last written.
    FileTime(SegmentId),
    /// The active segment goes too: roll, then ask again.
    Roll(RollPlan),
    /// These go: [`remove`](PartitionLog::remove) them from the log, then their files.
    Remove(Removal),
}

/// Segments that go, oldest first, and where the log begins without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Each with its reason.
    pub segments: Vec<(SegmentId, Breach)>,
    /// Base offset of the first segment that stays.
    pub next_base: Offset,
    /// The tier has them: the log begins where it did, only its local part begins later.
    pub local_only: bool,
}

impl PartitionLog {
    /// Says what goes at `now_ms`. `file_times_ms`: when the files of segments were last written, as far as that was
    /// asked for.
    pub fn plan_retention(
        &self,
        limits: &RetentionLimits,
        now_ms: i64,
        file_times_ms: &BTreeMap<SegmentId, i64>,
    ) -> RetentionStep {
        let segments = &self.segments;
        let end_of = |at: usize| segments.get(at + 1).map_or(self.offsets.log_end, Segment::base_offset);
        // A last segment that is empty stays: it would only be made again.
        let may_go = |at: usize| {
            segments.get(at).is_some_and(|segment| {
                self.offsets.high_watermark >= end_of(at) && (at + 1 < segments.len() || segment.size_bytes() > 0)
            })
        };
        // Where the tier has to have it first.
        let is_copied = |at: usize| limits.copied_below.is_none_or(|copied| end_of(at) <= copied);
        let mut outlived_active = false;
        let mut going = Vec::new();
        let log_start = self.offsets.log_start;
        while segments.get(going.len() + 1).is_some_and(|next| next.base_offset() <= log_start) && may_go(going.len()) {
            going.push((segments[going.len()].id(), Breach::LogStart));
        }
        if let Some(retention_bytes) = limits.retention_bytes.filter(|_| limits.delete) {
            let size_bytes: u64 = segments[going.len()..].iter().map(Segment::size_bytes).sum();
            let mut surplus_bytes = size_bytes.checked_sub(retention_bytes);
            while may_go(going.len())
                && let Some(left_bytes) =
                    surplus_bytes.and_then(|surplus| surplus.checked_sub(segments[going.len()].size_bytes()))
            {
                if !is_copied(going.len()) {
                    outlived_active = going.len() + 1 == segments.len();
                    break;
                }
                surplus_bytes = Some(left_bytes);
                going.push((segments[going.len()].id(), Breach::Size));
            }
        }
        if let Some(retention_ms) = limits.retention_ms.filter(|_| limits.delete) {
            let retention_ms = i64::try_from(retention_ms).unwrap_or(i64::MAX);
            while may_go(going.len()) {
                let segment = &segments[going.len()];
                let newest_ms = segment.max_timestamp().map(|(timestamp, _)| timestamp.0).filter(|ms| *ms >= 0);
                let Some(newest_ms) = newest_ms.or_else(|| file_times_ms.get(&segment.id()).copied()) else {
                    return RetentionStep::FileTime(segment.id());
                };
                if now_ms.saturating_sub(newest_ms) <= retention_ms {
                    break;
                }
                if !is_copied(going.len()) {
                    outlived_active |= going.len() + 1 == segments.len();
                    break;
                }
                going.push((segment.id(), Breach::Time));
            }
        }
        // An active segment that outlives local retention is sealed, so that the tier can have it.
        match going.len() {
            0 if !outlived_active => RetentionStep::Nothing,
            count if count == segments.len() || outlived_active => RetentionStep::Roll(RollPlan {
                segment: SegmentId(self.offsets.log_end),
                sealed: self.active().id(),
                generation: self.generation,
            }),
            count => RetentionStep::Remove(Removal {
                next_base: segments[count].base_offset(),
                segments: going,
                local_only: limits.copied_below.is_some(),
            }),
        }
    }

    /// Base offset of the first segment that a start would keep: the last one that begins at or below the log start.
    pub fn first_kept_base(&self) -> Offset {
        let count = self.segments.partition_point(|segment| segment.base_offset() <= self.offsets.log_start);
        self.segments.get(count.saturating_sub(1)).map_or(self.offsets.log_end, Segment::base_offset)
    }

    /// Moves the log start offset to `to`: below it nothing can be read any more. False where it is there already.
    ///
    /// # Errors
    /// `to` is above the high watermark.
    pub fn advance_log_start(&mut self, to: Offset) -> Result<bool, LogStartError> {
        let high_watermark = self.offsets.high_watermark;
        if to > high_watermark {
            return Err(LogStartError { asked: to, high_watermark });
        }
        if to <= self.offsets.log_start {
            return Ok(false);
        }
        let mut offsets = self.offsets;
        offsets.log_start = to;
        offsets.local_log_start = offsets.local_log_start.max(to);
        // What is left of a transaction that began below it holds readers back no longer than to here, as in Kafka.
        offsets.last_stable = offsets.last_stable.max(to);
        self.offsets.set(offsets);
        self.epochs_changed |= self.epochs.truncate_from_start(to);
        Ok(true)
    }

    /// Takes segments out of the log and moves its start behind them; their files are the caller's from here on. Plans
    /// that name them were made before, and go on reading by the handles they have.
    ///
    /// # Panics
    /// Where `removal` was not planned on this very state.
    pub fn remove(&mut self, removal: &Removal) {
        let count = removal.segments.len();
        assert!(count < self.segments.len(), "an active segment stays");
        assert_eq!(self.segments[count].base_offset(), removal.next_base, "the plan is of another state");
        if removal.local_only {
            let local_log_start = removal.next_base.max(self.offsets.local_log_start);
            self.offsets.set(LogOffsets { local_log_start, ..self.offsets });
        } else {
            let moved = self.advance_log_start(removal.next_base);
            assert!(moved.is_ok(), "segments above the high watermark stay: {moved:?}");
        }
        self.segments.drain(..count);
        let first = SegmentId(removal.next_base);
        self.newest.retain(|hint| hint.segment >= first);
        self.hints.retain(|hint| hint.segment >= first);
        if self.high_watermark_at.segment < first {
            self.readable_max_timestamp = None;
        }
        // The end of what went is the beginning of what stays.
        for place in [&mut self.written_at, &mut self.high_watermark_at, &mut self.last_stable_at] {
            if place.segment < first {
                *place = Place { segment: first, position_bytes: 0 };
            }
        }
        self.transactions.removed_below(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::leader_epochs::LeaderEpochs;
    use crate::log::offset_index::OffsetIndex;
    use crate::log::partition_log::LogConfig;
    use crate::log::plan::ReadBound;
    use crate::log::producer_recovery::RecoveredProducers;
    use crate::log::recovery::{RecoveredLog, RecoveryReport};
    use crate::log::time_index::{TimeIndex, TimeIndexEntry};
    use crate::record::offset::{LeaderEpoch, TimestampMs, TopicId};

    /// Segments of (base offset, bytes, newest timestamp), the last one active, up to `log_end`.
    fn log(segments: &[(i64, u64, Option<i64>)], log_start: i64, log_end: i64) -> PartitionLog {
        let segments = segments.iter().map(|(base, size_bytes, newest)| {
            let newest = newest.map(|ms| TimeIndexEntry { timestamp: TimestampMs(ms), relative_offset: 0 });
            let time_index = TimeIndex::opened(u32::from(newest.is_some()), newest);
            Segment::opened(SegmentId(Offset(*base)), *size_bytes, OffsetIndex::default(), time_index)
        });
        let recovered = RecoveredLog {
            log_start: Offset(log_start),
            log_end: Offset(log_end),
            segments: segments.collect(),
            epochs: LeaderEpochs::parse("0\n3\n2 0\n7 10\n9 100\n").expect("three epochs"),
            epochs_unwritten: false,
            producers: RecoveredProducers::default(),
            topic_id: TopicId::default(),
            report: RecoveryReport::default(),
            leftovers: Vec::new(),
        };
        PartitionLog::new(recovered, LogConfig::default(), LeaderEpoch(9))
    }

    const DELETE: RetentionLimits =
        RetentionLimits { delete: true, retention_ms: None, retention_bytes: None, copied_below: None };

    /// The segments that go at time 1000, with their reasons; `None` where the active one is rolled first.
    fn goes(log: &PartitionLog, limits: RetentionLimits) -> Option<Vec<(i64, Breach)>> {
        match log.plan_retention(&limits, 1000, &BTreeMap::new()) {
            RetentionStep::Nothing => Some(Vec::new()),
            RetentionStep::Roll(_) => None,
            RetentionStep::Remove(removal) => {
                Some(removal.segments.iter().map(|(segment, breach)| (segment.0.0, *breach)).collect())
            }
            RetentionStep::FileTime(segment) => panic!("the times are known, {segment} is asked for"),
        }
    }

    #[test]
    fn c137_only_what_the_tier_has_goes_and_an_outlived_active_segment_is_sealed() {
        let old = [(0, 10, Some(0)), (10, 10, Some(0)), (20, 10, Some(0))];
        let limits = |copied| RetentionLimits { retention_ms: Some(0), copied_below: Some(Offset(copied)), ..DELETE };
        let by_size =
            |copied| RetentionLimits { retention_bytes: Some(0), copied_below: Some(Offset(copied)), ..DELETE };
        let times = vec![(0, Breach::Time), (10, Breach::Time)];
        for (copied, log_start, wanted) in [
            (0, 0, Some(vec![])),
            (9, 0, Some(vec![])),
            (10, 0, Some(vec![times[0]])),
            (19, 0, Some(vec![times[0]])),
            // All before the active one may go, and it is outlived too.
            (20, 0, None),
            (0, 10, Some(vec![(0, Breach::LogStart)])),
        ] {
            let what = format!("copied below {copied}, log start {log_start}");
            assert_eq!(goes(&log(&old, log_start, 30), limits(copied)), wanted, "{what}");
            let sizes = wanted.map(|all| {
                all.into_iter().map(|(at, why)| (at, if why == Breach::Time { Breach::Size } else { why })).collect()
            });
            assert_eq!(goes(&log(&old, log_start, 30), by_size(copied)), sizes, "{what}, by size");
        }
        let young_active = [(0, 10, Some(0)), (10, 10, Some(0)), (20, 10, Some(1000))];
        let mut log = log(&young_active, 0, 30);
        assert_eq!(goes(&log, limits(20)), Some(times));
        let RetentionStep::Remove(removal) = log.plan_retention(&limits(20), 1000, &BTreeMap::new()) else {
            panic!("two go");
        };
        log.remove(&removal);
        let offsets = log.offsets();
        assert_eq!(
            (offsets.log_start, offsets.local_log_start),
            (Offset(0), Offset(20)),
            "the log begins where it did"
        );
        assert_eq!(log.epochs().entries().len(), 3, "the epochs of what only the tier has stay");
    }

    #[test]
    fn c082_a_segment_goes_when_it_is_older_than_retention_ms_and_not_before() {
        let log = log(&[(0, 10, Some(499)), (10, 10, Some(500)), (20, 10, Some(501))], 0, 30);
        for (retention_ms, wanted) in [
            (502, Some(vec![])),
            (501, Some(vec![])),
            (500, Some(vec![(0, Breach::Time)])),
            (499, Some(vec![(0, Breach::Time), (10, Breach::Time)])),
            (498, None),
            (0, None),
        ] {
            let limits = RetentionLimits { retention_ms: Some(retention_ms), ..DELETE };
            assert_eq!(goes(&log, limits), wanted, "retention.ms={retention_ms}");
            assert_eq!(goes(&log, RetentionLimits { delete: false, ..limits }), Some(vec![]), "compact");
        }
        assert_eq!(goes(&log, DELETE), Some(vec![]), "retention.ms=-1");
    }

    /// As in Kafka: a time in the future keeps its segment, and all behind it, until it has passed.
    #[test]
    fn c084_a_time_in_the_future_keeps_its_segment() {
        let log = log(&[(0, 10, Some(1)), (10, 10, Some(i64::MAX)), (20, 10, Some(1)), (30, 0, None)], 0, 30);
        let limits = RetentionLimits { retention_ms: Some(100), ..DELETE };
        assert_eq!(goes(&log, limits), Some(vec![(0, Breach::Time)]));
    }

    #[test]
    fn c086_one_pass_applies_start_offset_size_and_time() {
        let mut log = log(&[(0, 10, Some(1)), (10, 10, Some(990)), (20, 10, Some(1)), (30, 10, Some(990))], 0, 40);
        let limits = RetentionLimits { retention_ms: Some(100), retention_bytes: Some(25), ..DELETE };
        assert_eq!(log.advance_log_start(Offset(12)), Ok(true));
        let wanted = vec![(0, Breach::LogStart), (10, Breach::Size), (20, Breach::Time)];
        assert_eq!(goes(&log, limits), Some(vec![(0, Breach::LogStart)]), "20 bytes below 25 keep the young one");
        let limits = RetentionLimits { retention_bytes: Some(20), ..limits };
        assert_eq!(goes(&log, limits), Some(wanted));
        let RetentionStep::Remove(removal) = log.plan_retention(&limits, 1000, &BTreeMap::new()) else {
            panic!("three go");
        };
        log.remove(&removal);
        assert_eq!((log.offsets().log_start, log.offsets().local_log_start), (Offset(30), Offset(30)));
        assert_eq!(log.segments().len(), 1);
        assert_eq!(goes(&log, limits), Some(vec![]), "one pass did it all");
        assert!(log.plan_read(Offset(29), 100, true, ReadBound::HighWatermark).is_err());
        assert!(log.plan_read(Offset(30), 100, true, ReadBound::HighWatermark).is_ok());
    }

    #[test]
    fn c087_below_the_log_start_segments_go_whatever_the_policy() {
        let segments = [(0, 10, Some(999)), (10, 10, Some(999)), (20, 0, None), (20, 0, None)];
        for (log_start, wanted) in [
            (0, vec![]),
            (9, vec![]),
            (10, vec![(0, Breach::LogStart)]),
            (19, vec![(0, Breach::LogStart)]),
            (20, vec![(0, Breach::LogStart), (10, Breach::LogStart)]),
        ] {
            let log = log(&segments[..3], log_start, 20);
            assert_eq!(goes(&log, RetentionLimits::default()), Some(wanted), "log start {log_start}");
        }
    }

    #[test]
    fn sizes_are_kafkas() {
        let segments = [(0, 100, Some(999)), (10, 100, Some(999)), (20, 100, Some(999))];
        let log = log(&segments, 0, 30);
        let went = |count: i64| Some((0..count).map(|at| (at * 10, Breach::Size)).collect());
        for (retention_bytes, wanted) in
            [(301, went(0)), (300, went(0)), (201, went(0)), (200, went(1)), (101, went(1)), (100, went(2)), (0, None)]
        {
            let limits = RetentionLimits { retention_bytes: Some(retention_bytes), ..DELETE };
            assert_eq!(goes(&log, limits), wanted, "retention.bytes={retention_bytes}");
        }
    }

    #[test]
    fn an_unknown_age_is_that_of_the_file() {
        let log = log(&[(0, 10, None), (10, 10, Some(-1)), (20, 0, None)], 0, 20);
        let limits = RetentionLimits { retention_ms: Some(100), ..DELETE };
        let id = |base| SegmentId(Offset(base));
        let mut times = BTreeMap::new();
        assert_eq!(log.plan_retention(&limits, 1000, &times), RetentionStep::FileTime(id(0)));
        times.insert(id(0), 950);
        assert_eq!(log.plan_retention(&limits, 1000, &times), RetentionStep::Nothing);
        times.insert(id(0), 899);
        assert_eq!(log.plan_retention(&limits, 1000, &times), RetentionStep::FileTime(id(10)));
        times.insert(id(10), 0);
        let wanted = Removal {
            segments: vec![(id(0), Breach::Time), (id(10), Breach::Time)],
            next_base: Offset(20),
            local_only: false,
        };
        assert_eq!(log.plan_retention(&limits, 1000, &times), RetentionStep::Remove(wanted));
    }

    #[test]
    fn what_is_not_below_the_high_watermark_stays() {
        let mut log = log(&[(0, 10, Some(1)), (10, 10, Some(1)), (20, 0, None)], 0, 20);
        // A plan that is under way: the log ends above the high watermark.
        log.offsets.log_end = Offset(21);
        let limits = RetentionLimits { retention_ms: Some(100), retention_bytes: Some(0), ..DELETE };
        assert_eq!(goes(&log, limits), Some(vec![(0, Breach::Size), (10, Breach::Size)]));
        let asked = LogStartError { asked: Offset(21), high_watermark: Offset(20) };
        assert_eq!(log.advance_log_start(Offset(21)), Err(asked));
        assert_eq!(log.advance_log_start(Offset(20)), Ok(true));
        assert_eq!(log.advance_log_start(Offset(3)), Ok(false), "it does not go back");
        assert_eq!(log.offsets().log_start, Offset(20));
    }

    #[test]
    fn c073_the_epochs_begin_with_the_log() {
        let mut log = log(&[(0, 10, Some(999))], 0, 150);
        let _ = log.take_epoch_checkpoint();
        assert_eq!(log.advance_log_start(Offset(20)), Ok(true));
        assert_eq!(log.take_epoch_checkpoint().as_deref(), Some("0\n2\n7 20\n9 100\n"));
        assert_eq!(log.earliest(), (Offset(20), Some(LeaderEpoch(7))));
    }
}
