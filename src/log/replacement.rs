//! Segments of a log that others take the place of.

use crate::log::clean_plan::CleaningGroup;
use crate::log::cleaned_segment::CleanedSegment;
use crate::log::partition_log::{PartitionLog, Place};
use crate::log::plan::SegmentId;
use crate::log::segment::Segment;

impl PartitionLog {
    /// How often segments were replaced. Where it has changed, a position in a segment says nothing any more.
    pub fn replacements(&self) -> u64 {
        self.replacements
    }

    /// True where the group's segments are there as they were when it was made: retention has taken none.
    pub fn has_group(&self, group: &CleaningGroup) -> bool {
        let Some(first) = group.segments.first() else { return false };
        let Ok(at) = self.segments.binary_search_by_key(first, Segment::id) else { return false };
        let ids = self.segments[at..].iter().map(Segment::id);
        let count = group.segments.len();
        self.segments.get(at + count).is_some_and(|next| next.base_offset() == group.end)
            && ids.take(count).eq(group.segments.iter().copied())
    }

    /// Puts `cleaned` in the place of the group's segments; their files are the caller's. Readers with plans made before
    /// must plan again: the first segment has the same name as before, and other positions.
    ///
    /// # Panics
    /// Where the group is not there, or the cleaned segments do not cover its offsets.
    pub fn replace(&mut self, group: &CleaningGroup, cleaned: Vec<CleanedSegment>) {
        assert!(self.has_group(group), "the segments of {group:?} are not those of the log");
        assert_eq!(cleaned.first().map(CleanedSegment::id), group.segments.first().copied(), "{group:?}");
        assert!(cleaned.is_sorted_by_key(CleanedSegment::id), "{cleaned:?}");
        assert!(self.offsets.last_stable >= group.end, "only what is decided is replaced: {group:?}");
        assert!(self.recovery_point_max().is_none_or(|max| max >= group.end), "indexes are still on their way");
        let first = group.segments.first().copied().unwrap_or(SegmentId(group.end));
        let at = self.segments.partition_point(|segment| segment.id() < first);
        let cleaned = cleaned.into_iter().map(CleanedSegment::into_segment);
        self.segments.splice(at..at + group.segments.len(), cleaned);
        let is_replaced = |segment: SegmentId| segment >= first && segment.0 < group.end;
        self.newest.retain(|hint| !is_replaced(hint.segment));
        self.hints.retain(|hint| !is_replaced(hint.segment));
        if is_replaced(self.high_watermark_at.segment) {
            self.readable_max_timestamp = None;
        }
        // The end of what went is the beginning of what follows.
        for place in [&mut self.written_at, &mut self.high_watermark_at, &mut self.last_stable_at] {
            if is_replaced(place.segment) {
                *place = Place { segment: SegmentId(group.end), position_bytes: 0 };
            }
        }
        self.replacements += 1;
    }
}
