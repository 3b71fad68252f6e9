//! The remote segments of one partition: which there are, which one has an offset or a time.
//!
//! Forty-eight bytes a segment stay in memory, so a lookup reads nothing: a million segments are 46 MiB, and their files
//! are read once, at the start. Everything else of a segment lies in the metadata's file.

use std::collections::BTreeMap;

use crate::record::offset::{Offset, TimestampMs};
use crate::tier::metadata::{RemoteSegment, RemoteSegmentId, SegmentEvent};
use crate::tier::segment_state::SegmentState;

/// The remote segments of one partition.
#[derive(Debug, Default)]
pub struct RemoteSegments {
    /// Those that are read, by start offset.
    finished: Vec<RemoteSpan>,
    /// Those that do not count: copies that were begun, deletions that were begun.
    unfinished: BTreeMap<RemoteSegmentId, SegmentState>,
    /// Length of the logs of those that are read.
    finished_bytes: u64,
    /// Where the local log begins: files below do not count.
    local_start: Offset,
}

/// One segment that is read, in few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSpan {
    id: RemoteSegmentId,
    start_offset: Offset,
    max_timestamp: TimestampMs,
    /// Offsets behind the first.
    spans: u32,
    segment_bytes: u32,
    has_transaction_index: bool,
}

/// A change that no state allows: it is left out, and what is known stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("segment {id} may not come to {to}{}", from.map(|from| format!(" from {from}")).unwrap_or_default())]
pub struct InvalidTransition {
    /// The segment.
    pub id: RemoteSegmentId,
    /// Its state.
    pub from: Option<SegmentState>,
    /// What it was to be.
    pub to: SegmentState,
}

impl RemoteSpan {
    /// What lookups need of a segment.
    #[must_use]
    pub fn of(segment: &RemoteSegment) -> Self {
        Self {
            id: segment.id,
            start_offset: segment.start_offset,
            max_timestamp: segment.max_timestamp,
            spans: u32::try_from(segment.end_offset.since(segment.start_offset)).unwrap_or(u32::MAX),
            segment_bytes: segment.segment_bytes,
            has_transaction_index: segment.has_transaction_index,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> RemoteSegmentId {
        self.id
    }

    /// Where it begins.
    #[must_use]
    pub fn start_offset(&self) -> Offset {
        self.start_offset
    }

    /// Its last offset.
    #[must_use]
    pub fn end_offset(&self) -> Offset {
        self.start_offset.plus(i64::from(self.spans))
    }

    /// Largest timestamp of its records.
    #[must_use]
    pub fn max_timestamp(&self) -> TimestampMs {
        self.max_timestamp
    }

    /// Length of its log.
    #[must_use]
    pub fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }

    /// It has aborted transactions.
    #[must_use]
    pub fn has_transaction_index(&self) -> bool {
        self.has_transaction_index
    }
}

impl RemoteSegments {
    /// Takes a change in that is durable, or is about to be: [`check`](Self::check) says beforehand whether it may come.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn apply(&mut self, event: &SegmentEvent) -> Result<(), InvalidTransition> {
        self.check(event)?;
        match event {
            SegmentEvent::Copy(segment) | SegmentEvent::Image(segment) => {
                if let Some(at) = self.place_of(segment) {
                    self.remove_at(at);
                }
                if segment.state == SegmentState::CopyFinished {
                    self.unfinished.remove(&segment.id);
                    self.insert_finished(RemoteSpan::of(segment));
                } else {
                    self.unfinished.insert(segment.id, segment.state);
                }
            }
            SegmentEvent::LocalStart(offset) => self.local_start = self.local_start.max(*offset),
            SegmentEvent::Delete { id, state: SegmentState::DeleteFinished } => {
                self.unfinished.remove(id);
            }
            SegmentEvent::Delete { id, state } => {
                // What goes is among the oldest.
                if let Some(at) = self.finished.iter().position(|span| span.id == *id) {
                    self.remove_at(at);
                }
                self.unfinished.insert(*id, *state);
            }
        }
        Ok(())
    }

    /// Whether a change may come now.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, event: &SegmentEvent) -> Result<(), InvalidTransition> {
        let (id, to) = match event {
            SegmentEvent::Image(_) | SegmentEvent::LocalStart(_) => return Ok(()),
            SegmentEvent::Copy(segment) => (segment.id, segment.state),
            SegmentEvent::Delete { id, state } => (*id, *state),
        };
        let is_finished = || match event {
            SegmentEvent::Copy(segment) => self.place_of(segment).is_some(),
            _ => self.finished.iter().any(|span| span.id == id),
        };
        let unfinished = self.unfinished.get(&id).copied();
        let from = unfinished.or_else(|| is_finished().then_some(SegmentState::CopyFinished));
        if to.may_follow(from) { Ok(()) } else { Err(InvalidTransition { id, from, to }) }
    }

    /// Its place among those that are read; without a walk, since a start takes a million of them in.
    fn place_of(&self, segment: &RemoteSegment) -> Option<usize> {
        let key = (segment.start_offset, segment.id);
        self.finished.binary_search_by_key(&key, |span| (span.start_offset, span.id)).ok()
    }

    fn insert_finished(&mut self, span: RemoteSpan) {
        if self.finished.len() == self.finished.capacity() {
            // Not twice as much: a million of them count.
            self.finished.reserve_exact(self.finished.len() / 16 + 8);
        }
        let key = (span.start_offset, span.id);
        let at = self.finished.partition_point(|other| (other.start_offset, other.id) < key);
        self.finished.insert(at, span);
        self.finished_bytes += u64::from(span.segment_bytes);
    }

    fn remove_at(&mut self, at: usize) {
        let gone = self.finished.remove(at);
        self.finished_bytes -= u64::from(gone.segment_bytes);
    }

    /// Those that are read, by start offset.
    #[must_use]
    pub fn finished(&self) -> &[RemoteSpan] {
        &self.finished
    }

    /// Length of the logs of those that are read.
    #[must_use]
    pub fn finished_bytes(&self) -> u64 {
        self.finished_bytes
    }

    /// Copies and deletions that were begun: what is left of them in the store is to go.
    #[must_use]
    pub fn unfinished(&self) -> Vec<RemoteSegmentId> {
        self.unfinished.keys().copied().collect()
    }

    /// Their number.
    #[must_use]
    pub fn unfinished_count(&self) -> usize {
        self.unfinished.len()
    }

    /// Where the local log begins.
    #[must_use]
    pub fn local_start(&self) -> Offset {
        self.local_start
    }

    /// All that is known.
    #[must_use]
    pub fn live(&self) -> Vec<RemoteSegmentId> {
        self.finished.iter().map(RemoteSpan::id).chain(self.unfinished.keys().copied()).collect()
    }

    /// True where nothing is known, and nothing is in the store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.finished.is_empty() && self.unfinished.is_empty()
    }

    /// The first offset of the tier.
    #[must_use]
    pub fn start(&self) -> Option<Offset> {
        self.finished.first().map(RemoteSpan::start_offset)
    }

    /// The last offset of the tier.
    #[must_use]
    pub fn end(&self) -> Option<Offset> {
        // Overlapping ones are rare, and near each other.
        self.finished.iter().rev().take(OVERLAPS_MAX).map(RemoteSpan::end_offset).max()
    }

    /// The segment that has `offset`; of several the one that begins last.
    #[must_use]
    pub fn find(&self, offset: Offset) -> Option<&RemoteSpan> {
        let after = self.finished.partition_point(|span| span.start_offset <= offset);
        self.finished[..after].iter().rev().take(OVERLAPS_MAX).find(|span| span.end_offset() >= offset)
    }

    /// The first segment that begins at or after `from` and has aborted transactions.
    #[must_use]
    pub fn next_with_transaction_index(&self, from: Offset) -> Option<&RemoteSpan> {
        let at = self.finished.partition_point(|span| span.start_offset < from);
        self.finished[at..].iter().find(|span| span.has_transaction_index)
    }

    /// The first segment with records at or above `from` whose largest timestamp reaches `target`.
    #[must_use]
    pub fn find_by_time(&self, target: TimestampMs, from: Offset) -> Option<&RemoteSpan> {
        self.finished.iter().find(|span| span.end_offset() >= from && span.max_timestamp >= target)
    }

    /// All from `from` up to here, and no further, is in the tier without a hole.
    #[must_use]
    pub fn covered_to(&self, from: Offset) -> Offset {
        let mut covered = from;
        while let Some(span) = self.find(covered) {
            covered = span.end_offset().plus(1);
        }
        covered
    }

    /// Memory that they take.
    #[must_use]
    pub fn resident_bytes(&self) -> usize {
        self.finished.capacity() * size_of::<RemoteSpan>()
    }
}

/// Segments of old leaders that overlap each other, at most.
const OVERLAPS_MAX: usize = 64;
const _: () = assert!(size_of::<RemoteSpan>() <= 48);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::metadata::tests::segment;
    use SegmentState::{CopyFinished, CopyStarted, DeleteFinished, DeleteStarted};

    fn copied(segments: &mut RemoteSegments, number: u8, start: i64, end: i64) {
        segments.apply(&SegmentEvent::Copy(segment(number, start, end, CopyStarted))).expect("new");
        segments.apply(&SegmentEvent::Copy(segment(number, start, end, CopyFinished))).expect("begun");
    }

    fn delete(number: u8, state: SegmentState) -> SegmentEvent {
        SegmentEvent::Delete { id: segment(number, 0, 0, CopyStarted).id, state }
    }

    #[test]
    fn only_finished_copies_count() {
        let mut segments = RemoteSegments::default();
        copied(&mut segments, 1, 0, 99);
        segments.apply(&SegmentEvent::Copy(segment(2, 100, 199, CopyStarted))).expect("new");
        assert_eq!((segments.end(), segments.finished_bytes()), (Some(Offset(99)), 100));
        assert!(segments.find(Offset(150)).is_none());
        assert_eq!(segments.unfinished().len(), 1);
        segments.apply(&delete(2, DeleteStarted)).expect("a copy that failed");
        segments.apply(&delete(2, DeleteFinished)).expect("its deletion");
        assert!(segments.unfinished().is_empty());
        segments.apply(&delete(1, DeleteStarted)).expect("expired");
        assert_eq!((segments.find(Offset(5)), segments.finished_bytes()), (None, 0));
        assert!(!segments.is_empty(), "what is being deleted is still there");
    }

    #[test]
    fn c155_what_no_state_allows_is_left_out() {
        let mut segments = RemoteSegments::default();
        let never_begun = SegmentEvent::Copy(segment(1, 0, 9, CopyFinished));
        assert!(segments.apply(&never_begun).is_err(), "finished and not begun");
        assert!(segments.apply(&delete(1, DeleteStarted)).is_err(), "not known");
        copied(&mut segments, 1, 0, 9);
        assert!(segments.apply(&never_begun).is_ok(), "said twice");
        assert_eq!(segments.finished().len(), 1);
        assert!(segments.apply(&SegmentEvent::Copy(segment(1, 0, 9, CopyStarted))).is_err(), "goes back");
        assert!(segments.apply(&delete(1, DeleteFinished)).is_err(), "not begun");
        for state in [DeleteStarted, DeleteStarted, DeleteFinished] {
            segments.apply(&delete(1, state)).expect("legal");
        }
        assert!(segments.apply(&delete(1, DeleteFinished)).is_err(), "deleted twice: it is not known any more");
        assert!(segments.is_empty());
    }

    #[test]
    fn offsets_and_times_find_their_segment() {
        let mut segments = RemoteSegments::default();
        for (number, start, end) in [(2, 100, 199), (1, 0, 99), (3, 200, 299), (4, 250, 349), (5, 400, 499)] {
            copied(&mut segments, number, start, end);
        }
        let find = |offset| segments.find(Offset(offset)).map(|span| span.start_offset().0);
        let found: Vec<_> = [0, 99, 100, 260, 320, 350, 400, 500].map(find).to_vec();
        assert_eq!(found, [Some(0), Some(0), Some(100), Some(250), Some(250), None, Some(400), None]);
        let by_time =
            |target, from| segments.find_by_time(TimestampMs(target), Offset(from)).map(|span| span.start_offset().0);
        assert_eq!(
            [by_time(0, 0), by_time(991, 0), by_time(0, 150), by_time(4991, 0)],
            [Some(0), Some(100), Some(100), None]
        );
        assert_eq!([segments.covered_to(Offset(0)), segments.covered_to(Offset(350))], [Offset(350), Offset(350)]);
        assert_eq!(segments.covered_to(Offset(420)), Offset(500));
        assert_eq!((segments.start(), segments.end()), (Some(Offset(0)), Some(Offset(499))));
    }

    #[test]
    fn a_million_segments_fit() {
        let mut segments = RemoteSegments::default();
        let mut one = segment(0, 0, 0, CopyFinished);
        let count = 100_000_u32;
        for number in 0..count {
            one.id = RemoteSegmentId::from_random(u128::from(number) << 64);
            one.start_offset = Offset(i64::from(number) * 100);
            one.end_offset = one.start_offset.plus(99);
            segments.apply(&SegmentEvent::Image(one.clone())).expect("as a compacted file has it");
        }
        assert_eq!(segments.finished().len(), count as usize);
        let bytes_of_a_million = segments.resident_bytes() * 10;
        assert!(bytes_of_a_million <= 64 << 20, "{bytes_of_a_million}");
        assert_eq!(segments.find(Offset(5_000_050)).map(RemoteSpan::start_offset), Some(Offset(5_000_000)));
    }
}
