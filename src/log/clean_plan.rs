//! Which part of a log is to be compacted, and which of its segments become one.
//!
//! Kafka's rules (`LogCleanerManager`, `Cleaner.groupSegmentsBySize`): the log is clean below an offset that the last
//! compaction left; from there to the first segment that may not be compacted it is dirty. The active segment is never
//! compacted, nothing at or above the last stable offset, and nothing younger than `min.compaction.lag.ms`.

use std::collections::BTreeMap;

use crate::log::offset_index::INDEX_ENTRY_BYTES;
use crate::log::partition_log::PartitionLog;
use crate::log::plan::SegmentId;
use crate::log::segment::Segment;
use crate::log::time_index::TIME_INDEX_ENTRY_BYTES;
use crate::record::offset::{Offset, TimestampMs};

/// What a topic's configs say of compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleaningLimits {
    /// `cleanup.policy` has `compact`.
    pub compact: bool,
    /// `min.cleanable.dirty.ratio`.
    pub dirty_ratio_min: f64,
    /// `min.compaction.lag.ms`.
    pub lag_min_ms: u64,
    /// `max.compaction.lag.ms`; `None`: no limit.
    pub lag_max_ms: Option<u64>,
    /// `delete.retention.ms`.
    pub delete_retention_ms: u64,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum CleaningStep {
    /// Nothing.
    Nothing,
    /// The records do not tell how old this segment is: ask again with the time at which its file was last written.
    FileTime(SegmentId),
    /// The timestamp of this segment's first batch is not known: tell it to
    /// [`first_batch_was_read`](PartitionLog::first_batch_was_read), then ask again.
    FirstTimestamp(SegmentId),
    /// This part can be compacted.
    Clean(CleaningPlan),
}

/// The part of a log that can be compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningPlan {
    /// Below it each key has one record only.
    pub first_dirty: Offset,
    /// Base offset of the first segment that is not touched.
    pub first_uncleanable: Offset,
    /// Bytes of segments that begin below `first_dirty`.
    pub clean_bytes: u64,
    /// Bytes of the others.
    pub dirty_bytes: u64,
    /// It is due: dirty enough, or dirty for too long.
    pub is_due: bool,
}

impl CleaningPlan {
    /// The dirty share.
    pub fn dirty_ratio(&self) -> f64 {
        match self.clean_bytes + self.dirty_bytes {
            0 => 0.0,
            total_bytes => self.dirty_bytes as f64 / total_bytes as f64,
        }
    }
}

/// Segments that become one, or more where they do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleaningGroup {
    /// In order.
    pub segments: Vec<SegmentId>,
    /// The offset after their last one: the next segment's base.
    pub end: Offset,
}

impl PartitionLog {
    /// Says what of the log can be compacted at `now_ms`. `cleaned_to`: where the last compaction ended, as its checkpoint
    /// has it. Nothing at or above `durable` is touched: what is there may still be lost. `file_times_ms` as for retention.
    pub fn plan_cleaning(
        &self,
        limits: &CleaningLimits,
        cleaned_to: Option<Offset>,
        durable: Offset,
        now_ms: i64,
        file_times_ms: &BTreeMap<SegmentId, i64>,
    ) -> CleaningStep {
        let (log_start, log_end) = (self.offsets.log_start, self.offsets.log_end);
        // A checkpoint that the log does not reach (its end was lost), or that lies below its start, says nothing.
        let known = cleaned_to.filter(|offset| (log_start..=log_end).contains(offset));
        let first_dirty = known.unwrap_or(log_start);
        let segments = &self.segments;
        let sealed = &segments[..segments.len() - 1];
        let first = sealed.partition_point(|segment| segment.base_offset() <= first_dirty).saturating_sub(1);
        let bound = self.offsets.last_stable.min(self.active().base_offset()).min(durable);
        let end_of = |at: usize| segments.get(at + 1).map_or(log_end, Segment::base_offset);
        let mut end = first;
        while end < sealed.len() && end_of(end) <= bound {
            let segment = &sealed[end];
            if limits.lag_min_ms > 0 && end_of(end) > first_dirty {
                let newest_ms = segment.max_timestamp().map(|(timestamp, _)| timestamp.0).filter(|ms| *ms >= 0);
                let Some(newest_ms) = newest_ms.or_else(|| file_times_ms.get(&segment.id()).copied()) else {
                    return CleaningStep::FileTime(segment.id());
                };
                if newest_ms > now_ms.saturating_sub(saturated(limits.lag_min_ms)) {
                    break;
                }
            }
            end += 1;
        }
        let first_uncleanable = segments[end].base_offset();
        if end == first || first_uncleanable <= first_dirty {
            return CleaningStep::Nothing;
        }
        let sum = |segments: &[Segment]| segments.iter().map(Segment::size_bytes).sum();
        let clean_end = sealed.partition_point(|segment| segment.base_offset() < first_dirty);
        let (clean_bytes, dirty_bytes) = (sum(&sealed[..clean_end]), sum(&sealed[first..end]));
        let plan = CleaningPlan { first_dirty, first_uncleanable, clean_bytes, dirty_bytes, is_due: false };
        if dirty_bytes == 0 {
            return CleaningStep::Nothing;
        }
        let mut is_due = plan.dirty_ratio() > limits.dirty_ratio_min;
        if let Some(lag_max_ms) = limits.lag_max_ms.filter(|_| !is_due) {
            let until_ms = now_ms.saturating_sub(saturated(lag_max_ms));
            for segment in sealed[first..].iter().filter(|segment| segment.size_bytes() > 0) {
                match segment.first_timestamp() {
                    None => return CleaningStep::FirstTimestamp(segment.id()),
                    Some(timestamp) => is_due |= timestamp.0 > 0 && timestamp.0 < until_ms,
                }
            }
        }
        CleaningStep::Clean(CleaningPlan { is_due, ..plan })
    }

    /// The largest timestamp of a segment's first batch, as its header says.
    pub fn first_batch_was_read(&mut self, segment: SegmentId, timestamp: TimestampMs) {
        if let Ok(at) = self.segments.binary_search_by_key(&segment, Segment::id) {
            self.segments[at].set_first_timestamp(timestamp);
        }
    }

    /// The sealed segments up to `end`, in groups that each fit into one by the configs in force. Those that are empty all
    /// together are left out.
    pub fn cleaning_groups(&self, end: Offset) -> Vec<CleaningGroup> {
        let config = self.config();
        let index_bytes_max = u64::from(config.segment_index_bytes);
        let sealed = &self.segments[..self.segments.len() - 1];
        let ends = self.segments.iter().skip(1).map(Segment::base_offset);
        let mut groups: Vec<(CleaningGroup, GroupSize)> = Vec::new();
        for (segment, segment_end) in sealed.iter().zip(ends).take_while(|(segment, _)| segment.base_offset() < end) {
            let size = GroupSize::of(segment);
            if let Some((group, group_size)) = groups.last_mut() {
                let base = group.segments.first().map_or(segment.base_offset(), |first| first.0);
                let spans = segment.size_bytes() == 0 || segment_end.plus(-1).since(base) <= i64::from(i32::MAX);
                let together = group_size.plus(&size);
                if together.log_bytes <= u64::from(config.segment_bytes)
                    && together.index_bytes <= index_bytes_max
                    && together.time_index_bytes <= index_bytes_max
                    && spans
                {
                    group.segments.push(segment.id());
                    group.end = segment_end;
                    *group_size = together;
                    continue;
                }
            }
            groups.push((CleaningGroup { segments: vec![segment.id()], end: segment_end }, size));
        }
        groups.into_iter().filter(|(_, size)| size.log_bytes > 0).map(|(group, _)| group).collect()
    }
}

struct GroupSize {
    log_bytes: u64,
    index_bytes: u64,
    time_index_bytes: u64,
}

impl GroupSize {
    fn of(segment: &Segment) -> Self {
        Self {
            log_bytes: segment.size_bytes(),
            index_bytes: u64::from(segment.index().entry_count()) * INDEX_ENTRY_BYTES as u64,
            time_index_bytes: u64::from(segment.time_index().entry_count()) * TIME_INDEX_ENTRY_BYTES as u64,
        }
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            log_bytes: self.log_bytes + other.log_bytes,
            index_bytes: self.index_bytes + other.index_bytes,
            time_index_bytes: self.time_index_bytes + other.time_index_bytes,
        }
    }
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::leader_epochs::LeaderEpochs;
    use crate::log::offset_index::{IndexEntry, OffsetIndex};
    use crate::log::partition_log::LogConfig;
    use crate::log::producer_recovery::RecoveredProducers;
    use crate::log::recovery::{RecoveredLog, RecoveryReport};
    use crate::log::time_index::{TimeIndex, TimeIndexEntry};
    use crate::record::offset::{LeaderEpoch, TopicId};

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
            epochs: LeaderEpochs::default(),
            epochs_unwritten: false,
            producers: RecoveredProducers::default(),
            topic_id: TopicId::default(),
            report: RecoveryReport::default(),
            leftovers: Vec::new(),
        };
        let config = LogConfig { segment_bytes: 100, segment_index_bytes: 80, ..LogConfig::default() };
        PartitionLog::new(recovered, config, LeaderEpoch(1))
    }

    const LIMITS: CleaningLimits =
        CleaningLimits { compact: true, dirty_ratio_min: 0.5, lag_min_ms: 0, lag_max_ms: None, delete_retention_ms: 0 };

    fn plan(
        log: &PartitionLog,
        limits: &CleaningLimits,
        cleaned_to: Option<i64>,
    ) -> Option<(i64, i64, u64, u64, bool)> {
        let step = log.plan_cleaning(limits, cleaned_to.map(Offset), Offset(i64::MAX), 1000, &BTreeMap::new());
        match step {
            CleaningStep::Nothing => None,
            CleaningStep::Clean(CleaningPlan { first_dirty, first_uncleanable, clean_bytes, dirty_bytes, is_due }) => {
                Some((first_dirty.0, first_uncleanable.0, clean_bytes, dirty_bytes, is_due))
            }
            step => panic!("the times are known: {step:?}"),
        }
    }

    const THREE: [(i64, u64, Option<i64>); 4] =
        [(0, 10, Some(100)), (10, 20, Some(500)), (20, 30, Some(900)), (30, 40, Some(990))];

    /// C090, C097: never the active segment, nothing at or above the last stable offset or the high watermark.
    #[test]
    fn c097_what_is_undecided_is_not_compacted() {
        let mut log = log(&THREE, 0, 35);
        assert_eq!(plan(&log, &LIMITS, None), Some((0, 30, 0, 60, true)));
        for (last_stable, wanted) in [
            (30, Some((0, 30, 0, 60, true))),
            (29, Some((0, 20, 0, 30, true))),
            (20, Some((0, 20, 0, 30, true))),
            (10, Some((0, 10, 0, 10, true))),
            (9, None),
        ] {
            log.offsets.last_stable = Offset(last_stable);
            assert_eq!(plan(&log, &LIMITS, None), wanted, "last stable offset {last_stable}");
        }
        log.offsets.last_stable = Offset(35);
        let step = log.plan_cleaning(&LIMITS, None, Offset(15), 1000, &BTreeMap::new());
        assert!(matches!(step, CleaningStep::Clean(plan) if plan.first_uncleanable == Offset(10)), "{step:?}");
    }

    #[test]
    fn a_log_is_due_where_its_dirty_share_is_above_the_ratio() {
        let log = log(&THREE, 0, 35);
        for (cleaned_to, wanted) in [
            (0, Some((0, 30, 0, 60, true))),
            (10, Some((10, 30, 10, 50, true))),
            (20, Some((20, 30, 30, 30, false))),
            (30, None),
            (35, None),
            // Within a segment: it counts on both sides, as in Kafka.
            (15, Some((15, 30, 30, 50, true))),
            // The log does not reach it: all is dirty.
            (36, Some((0, 30, 0, 60, true))),
        ] {
            assert_eq!(plan(&log, &LIMITS, Some(cleaned_to)), wanted, "cleaned to {cleaned_to}");
        }
    }

    #[test]
    fn lags_hold_back_and_push() {
        let mut log = log(&THREE, 0, 35);
        for (lag_min_ms, wanted) in [(100, Some(30)), (101, Some(20)), (500, Some(20)), (501, Some(10)), (901, None)] {
            let limits = CleaningLimits { lag_min_ms, ..LIMITS };
            let end = plan(&log, &limits, None).map(|plan| plan.1);
            assert_eq!(end, wanted, "min.compaction.lag.ms={lag_min_ms}");
        }
        let unknown = self::log(&[(0, 10, None), (10, 0, None)], 0, 10);
        let limits = CleaningLimits { lag_min_ms: 1, ..LIMITS };
        let id = SegmentId(Offset(0));
        let step = |times| unknown.plan_cleaning(&limits, None, Offset(10), 1000, &times);
        assert_eq!(step(BTreeMap::new()), CleaningStep::FileTime(id));
        assert!(matches!(step([(id, 999)].into()), CleaningStep::Clean(_)));
        assert_eq!(step([(id, 1000)].into()), CleaningStep::Nothing);
        let limits = CleaningLimits { lag_max_ms: Some(400), ..LIMITS };
        for (segment, timestamp) in [(20, 601), (20, 600), (20, 599)] {
            let id = SegmentId(Offset(segment));
            let step = log.plan_cleaning(&limits, Some(Offset(20)), Offset(30), 1000, &BTreeMap::new());
            if timestamp == 601 {
                assert_eq!(step, CleaningStep::FirstTimestamp(id));
            }
            log.first_batch_was_read(id, TimestampMs(timestamp));
            let due = plan(&log, &limits, Some(20)).map(|plan| plan.4);
            assert_eq!(due, Some(timestamp < 600), "first batch at {timestamp}");
        }
    }

    /// C098: a log start beyond the active segment's base is nothing to stumble over.
    #[test]
    fn c098_a_log_start_beyond_all_sealed_segments_leaves_nothing_to_do() {
        for (log_start, wanted) in [(0, true), (10, true), (29, true), (30, false), (33, false), (35, false)] {
            let log = log(&THREE, log_start, 35);
            for cleaned_to in [None, Some(0), Some(35), Some(99)] {
                let found = plan(&log, &LIMITS, cleaned_to);
                let is_clean = cleaned_to == Some(35);
                assert_eq!(found.is_some(), wanted && !is_clean, "log start {log_start}, cleaned to {cleaned_to:?}");
                let _ = log.cleaning_groups(Offset(35));
            }
        }
    }

    #[test]
    fn small_segments_become_one_within_every_limit() {
        let bases = |groups: Vec<CleaningGroup>| -> Vec<Vec<i64>> {
            groups.iter().map(|group| group.segments.iter().map(|segment| segment.0.0).collect()).collect()
        };
        let log_of = |segments: &[(i64, u64)], log_end| {
            let segments: Vec<_> = segments.iter().map(|(base, bytes)| (*base, *bytes, None)).collect();
            log(&segments, 0, log_end)
        };
        let far = i64::from(i32::MAX);
        for (segments, end, wanted) in [
            (vec![(0, 50), (10, 50), (20, 50), (30, 1)], 30, vec![vec![0, 10], vec![20]]),
            (vec![(0, 50), (10, 51), (20, 49), (30, 1)], 30, vec![vec![0], vec![10, 20]]),
            (vec![(0, 500), (10, 10), (20, 10), (30, 1)], 30, vec![vec![0], vec![10, 20]]),
            (vec![(0, 10), (10, 10), (20, 10), (30, 1)], 11, vec![vec![0, 10]]),
            (vec![(0, 10), (10, 10), (20, 10), (30, 1)], 10, vec![vec![0]]),
            (vec![(0, 0), (10, 0), (20, 0)], 20, vec![]),
            (vec![(0, 0), (10, 5), (20, 0)], 20, vec![vec![0, 10]]),
            // 2^31 offsets at most, whatever lies between.
            (vec![(0, 10), (10, 10), (far + 1, 10), (far + 9, 1)], far + 9, vec![vec![0, 10], vec![far + 1]]),
            (vec![(0, 10), (10, 10), (far + 2, 1)], far + 2, vec![vec![0], vec![10]]),
        ] {
            let log = log_of(&segments, segments.last().map_or(0, |last| last.0 + 1));
            assert_eq!(bases(log.cleaning_groups(Offset(end))), wanted, "{segments:?} up to {end}");
        }
        let mut log = log_of(&[(0, 10), (10, 10), (20, 10), (30, 1)], 31);
        for at in 0..3 {
            let entry = IndexEntry { relative_offset: 5, position_bytes: 5 };
            *log.segments[at].index_mut() = OffsetIndex::opened(4, Some(entry));
        }
        assert_eq!(
            bases(log.cleaning_groups(Offset(30))),
            [vec![0, 10], vec![20]],
            "80 bytes of index hold 10 entries"
        );
    }
}
