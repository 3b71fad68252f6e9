//! Places of one segment that a lookup by time begins at, in memory.
//!
//! A place is where a batch begins, and the largest timestamp before it. Between the last place that has less than the
//! target before it and the next one lies the first batch that reaches the target: one read of the log has that batch,
//! and neither index is asked. A place is noted for each 512 KiB of what is appended, scanned or compacted (32 KiB of
//! memory for each GiB). Derived: without places, the indexes are asked.
//!
//! Nothing in the log itself could stand for them. To guess the place and to prove it by the batch that is found there
//! is not safe: a value can hold whole batches with the right offsets, times and CRCs, one chained to the next and the
//! last one to the batch behind the value, and nothing in a piece of the log tells such a chain from the log's own but
//! to walk to it from a place that is known.

use crate::record::offset::TimestampMs;

/// Where a batch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimePlace {
    /// The largest timestamp of all batches of the segment before this one; never less than the place before has.
    pub before: TimestampMs,
    /// Its first offset, less the segment's base offset.
    pub relative_offset: u32,
    /// Where it begins in the log.
    pub position_bytes: u32,
}

/// The places of one segment, by position. The segment's beginning is one without being noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimePlaces {
    places: Vec<TimePlace>,
}

/// A piece of a segment's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct PlacedRange {
    pub(in crate::log) position_bytes: u64,
    /// `None`: to the end.
    pub(in crate::log) end_bytes: Option<u64>,
    /// First offset of the batch where it begins; `None` at the segment's beginning.
    pub(in crate::log) relative_offset: Option<u32>,
}

impl TimePlaces {
    /// Those that a file has; `None` where they do not rise or do not lie below `size_bytes`.
    pub(in crate::log) fn checked(places: Vec<TimePlace>, size_bytes: u64) -> Option<Self> {
        let rises = |pair: &[TimePlace]| {
            pair[0].before <= pair[1].before
                && pair[0].relative_offset < pair[1].relative_offset
                && pair[0].position_bytes < pair[1].position_bytes
        };
        let begins = places.first().is_none_or(|first| first.position_bytes > 0);
        let ends = places.last().is_none_or(|last| u64::from(last.position_bytes) < size_bytes);
        (begins && ends && places.windows(2).all(rises)).then_some(Self { places })
    }

    /// All that were noted.
    pub fn as_slice(&self) -> &[TimePlace] {
        &self.places
    }

    /// Notes where the next batch begins, where one is due.
    pub(in crate::log) fn note(&mut self, place: TimePlace) {
        let last_bytes = self.places.last().map_or(0, |last| last.position_bytes);
        if place.position_bytes.saturating_sub(last_bytes) >= SPACING_BYTES {
            self.places.push(place);
        }
    }

    /// Takes back all at `position_bytes` or later.
    pub(in crate::log) fn take_back_from(&mut self, position_bytes: u64) {
        while self.places.last().is_some_and(|last| u64::from(last.position_bytes) >= position_bytes) {
            self.places.pop();
        }
    }

    /// Those of batches that begin at this relative offset at most; all where it is beyond the segment.
    pub(in crate::log) fn up_to_offset(&self, relative_offset: Option<u32>) -> Self {
        let lies_below = |place: &TimePlace| relative_offset.is_none_or(|relative| place.relative_offset <= relative);
        Self { places: self.places[..self.places.partition_point(lies_below)].to_vec() }
    }

    /// Puts those of `earlier` up to `end_bytes` before its own, where they go before them.
    pub(in crate::log) fn put_before(&mut self, earlier: &Self, end_bytes: u64) {
        let first = self.places.first().copied();
        let goes_before = |place: &&TimePlace| {
            let rises = |first: TimePlace| {
                place.position_bytes < first.position_bytes
                    && place.relative_offset < first.relative_offset
                    && place.before <= first.before
            };
            u64::from(place.position_bytes) <= end_bytes && first.is_none_or(rises)
        };
        let before: Vec<TimePlace> = earlier.places.iter().take_while(goes_before).copied().collect();
        self.places.splice(..0, before);
    }

    /// Gives back memory that is not needed.
    pub(in crate::log) fn seal(&mut self) {
        self.places.shrink_to_fit();
    }

    /// The piece that has the first batch with a timestamp at or above `target`, where the segment has one.
    pub(in crate::log) fn range(&self, target: TimestampMs) -> PlacedRange {
        let after = self.places.partition_point(|place| place.before < target);
        let first = after.checked_sub(1).and_then(|at| self.places.get(at));
        PlacedRange {
            position_bytes: first.map_or(0, |place| u64::from(place.position_bytes)),
            end_bytes: self.places.get(after).map(|place| u64::from(place.position_bytes)),
            relative_offset: first.map(|place| place.relative_offset),
        }
    }
}

/// Read at once by a lookup, or a batch more: about as long as the two reads of indexes that it saves.
pub(in crate::log) const SPACING_BYTES: u32 = 512 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(before: i64, number: u32) -> TimePlace {
        TimePlace { before: TimestampMs(before), relative_offset: 10 * number, position_bytes: number * SPACING_BYTES }
    }

    #[test]
    fn the_piece_begins_at_the_last_place_with_less_before_it() {
        let mut places = TimePlaces::default();
        for next in
            [place(5, 1), TimePlace { position_bytes: SPACING_BYTES + 9, ..place(5, 1) }, place(5, 2), place(9, 3)]
        {
            places.note(next);
        }
        assert_eq!(places.as_slice(), [place(5, 1), place(5, 2), place(9, 3)], "one for each 512 KiB");
        for (target, begins, ends) in
            [(-1, 0, Some(1)), (5, 0, Some(1)), (6, 2, Some(3)), (9, 2, Some(3)), (10, 3, None)]
        {
            let range = places.range(TimestampMs(target));
            let at = |number: u32| u64::from(number * SPACING_BYTES);
            assert_eq!((range.position_bytes, range.end_bytes), (at(begins), ends.map(at)), "{target}");
            assert_eq!(range.relative_offset, (begins > 0).then_some(10 * begins), "{target}");
        }
        assert_eq!(places.up_to_offset(Some(29)).as_slice(), [place(5, 1), place(5, 2)]);
        assert_eq!(places.up_to_offset(None), places);
        places.take_back_from(u64::from(2 * SPACING_BYTES));
        assert_eq!(places.as_slice(), [place(5, 1)]);
    }

    #[test]
    fn what_was_kept_goes_before_what_a_start_has_noted() {
        let kept = TimePlaces { places: vec![place(5, 1), place(5, 2), place(9, 3)] };
        let cases = [
            // Noted by the start, up to where it had not looked, and what comes of it.
            (vec![], 3, vec![place(5, 1), place(5, 2), place(9, 3)]),
            (vec![], 2, vec![place(5, 1), place(5, 2)]),
            (vec![place(9, 3), place(9, 4)], 3, vec![place(5, 1), place(5, 2), place(9, 3), place(9, 4)]),
            (vec![place(4, 3)], 3, vec![place(4, 3)]),
        ];
        for (noted, end, expected) in cases {
            let mut places = TimePlaces { places: noted.clone() };
            places.put_before(&kept, u64::from(end * SPACING_BYTES));
            assert_eq!(places.as_slice(), expected, "{noted:?}, up to {end}");
        }
    }

    #[test]
    fn places_that_do_not_rise_or_lie_beyond_the_log_are_none() {
        let size_bytes = u64::from(3 * SPACING_BYTES);
        let cases = [
            (vec![], true),
            (vec![place(5, 1), place(5, 2)], true),
            (vec![place(5, 0)], false),
            (vec![place(5, 3)], false),
            (vec![place(5, 1), place(4, 2)], false),
            (vec![place(5, 2), place(6, 1)], false),
            (vec![place(5, 1), TimePlace { relative_offset: 10, ..place(5, 2) }], false),
        ];
        for (places, right) in cases {
            assert_eq!(TimePlaces::checked(places.clone(), size_bytes).is_some(), right, "{places:?}");
        }
    }
}
