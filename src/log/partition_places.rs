//! The places of one partition's segments for lookups by time: what of them a journal is to keep, and what it kept.

use crate::log::core_places::SegmentPlaces;
use crate::log::partition_log::PartitionLog;
use crate::log::plan::SegmentId;
use crate::log::segment::Segment;
use crate::log::time_places::SPACING_BYTES;
use crate::record::offset::Offset;

/// How far the places of a log are in the journal of this run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacesKept {
    /// All of the segments below.
    below: SegmentId,
    /// So many of this one, which is not sealed or not all durable.
    part: Option<(SegmentId, usize)>,
    /// How often segments had been replaced when that was so.
    replacements: u64,
}

impl PartitionLog {
    /// What the journal has of it, where all that [`places_to_keep`](Self::places_to_keep) gave is on stable storage.
    pub fn places_kept(&self) -> PlacesKept {
        self.places_kept
    }

    /// The next places that a journal which has `kept` lacks of what lies below `recovery_point`: that of a checkpoint that
    /// is on stable storage. And what it has when it has them as well; a bounded number at once, so ask until that is the
    /// same.
    ///
    /// Below that point nothing is ever cut off, so that a place there is right for as long as the segment is; a place is
    /// where the log went on after it, so the one that lies there is right as well.
    pub fn places_to_keep(&self, recovery_point: Offset, kept: PlacesKept) -> (Vec<SegmentPlaces>, PlacesKept) {
        let first = self.segments.partition_point(|segment| segment.id() < kept.below);
        let (mut due, mut places_count) = (Vec::new(), 0);
        let mut kept = PlacesKept { replacements: self.replacements, ..kept };
        for (at, segment) in self.segments.iter().enumerate().skip(first) {
            if segment.base_offset() >= recovery_point || places_count >= PLACES_AT_ONCE {
                break;
            }
            let next_base = self.segments.get(at + 1).map(Segment::base_offset);
            let is_whole = next_base.unwrap_or(self.offsets.log_end) <= recovery_point;
            let places = match is_whole {
                true => segment.places().clone(),
                false => segment.places().up_to_offset(segment.relative(recovery_point)),
            };
            let count = places.as_slice().len();
            places_count += count;
            let is_last_word = is_whole && next_base.is_some();
            // One that is as long without any says that those of an earlier segment do not count.
            let is_worth = count > 0 || (is_whole && segment.size_bytes() >= u64::from(SPACING_BYTES));
            if is_worth && (is_last_word || kept.part != Some((segment.id(), count))) {
                let shape = is_whole.then(|| segment.shape());
                due.push(SegmentPlaces { base_offset: segment.base_offset(), shape, places });
            }
            match next_base {
                Some(next_base) if is_whole => {
                    kept.below = SegmentId(next_base);
                    kept.part = None;
                }
                _ => {
                    kept.part = Some((segment.id(), count));
                    break;
                }
            }
        }
        (due, kept)
    }

    /// The journal has all up to there on stable storage. Not where segments were replaced meanwhile: theirs are to come.
    pub fn set_places_kept(&mut self, kept: PlacesKept) {
        if kept.replacements == self.replacements {
            self.places_kept = kept;
        }
    }

    /// Forgets the places of segments that others are to take the place of, and says whether a journal may have any: they may
    /// not count any more when that happens.
    pub fn forget_places(&mut self, segments: &[SegmentId]) -> bool {
        let mut had_any = false;
        for segment in self.segments.iter_mut().filter(|segment| segments.contains(&segment.id())) {
            had_any |= segment.forget_places();
        }
        self.places_kept.below = segments.iter().copied().chain([self.places_kept.below]).min().unwrap_or_default();
        had_any
    }

    /// Takes over what an earlier run has kept. After a `clean` stop it is as it was, where the segment is: another server
    /// may have written to it. Else the segment may have got longer, and what lies where this start has looked was noted by
    /// that.
    pub fn restore_places(&mut self, kept: Vec<SegmentPlaces>, clean: bool) {
        for kept in kept {
            if let Ok(at) = self.segments.binary_search_by_key(&kept.base_offset, Segment::base_offset) {
                self.segments[at].restore_places(kept, clean);
            }
        }
    }

    /// Notes that a journal may have places of the segments that there are now, which are not known.
    pub fn note_in_journal(&mut self) {
        self.segments.iter_mut().for_each(Segment::note_in_journal);
    }

    /// All places, and what their segments are known again by.
    pub fn segment_places(&self) -> Vec<SegmentPlaces> {
        let (mut all, mut kept) = (Vec::new(), PlacesKept::default());
        loop {
            let (next, now_kept) = self.places_to_keep(self.offsets.log_end, kept);
            if next.is_empty() && now_kept == kept {
                break;
            }
            kept = now_kept;
            all.extend(next);
        }
        all.retain(|segment: &SegmentPlaces| !segment.places.as_slice().is_empty());
        all
    }
}

/// Of 8 GiB of log, 256 KiB: no long turn, and few writes.
const PLACES_AT_ONCE: usize = 16_384;
