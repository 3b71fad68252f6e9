//! From an offset to a range of a segment's file, in steps that the ring carries out.

use crate::log::error::ReadError;
use crate::log::offset_index::{INDEX_BLOCK_ENTRIES, INDEX_ENTRY_BYTES, IndexEntry};
use crate::log::plan::{ReadHint, ReadPlan, SegmentId};
use crate::record::batch::{HEADER_BYTES, parse_header};
use crate::record::offset::Offset;

/// A search that stops where it needs bytes of a file. Owns all that it needs: no partition is borrowed while it waits.
#[derive(Clone, Debug)]
pub struct Lookup {
    want: Want,
    /// The segment being searched.
    segment: SegmentView,
    /// The one after it, where the bound lies beyond this one.
    next: Option<SegmentView>,
    /// The place of the scan comes from headers, not from the index.
    walked: bool,
    state: State,
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Want {
    pub(in crate::log) from: Offset,
    pub(in crate::log) max_bytes: u32,
    pub(in crate::log) min_one_batch: bool,
}

/// One segment as it was when the read was planned.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct SegmentView {
    pub(in crate::log) id: SegmentId,
    /// The reader sees the log up to here; whole batches.
    pub(in crate::log) readable_bytes: u64,
    /// The offset at which a reader goes on after `readable_bytes`, and where it lies.
    pub(in crate::log) after: Option<ReadHint>,
}

/// What a lookup wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupStep {
    /// Read this range of the segment's `.index`, then [`feed`](Lookup::feed) it.
    NeedIndex {
        /// The segment.
        segment: SegmentId,
        /// Where in its index.
        position_bytes: u64,
        /// How much; the file has it.
        len_bytes: u32,
    },
    /// Read this range of the segment's `.log`, then [`feed`](Lookup::feed) it.
    NeedLog {
        /// The segment.
        segment: SegmentId,
        /// Where in its log.
        position_bytes: u64,
        /// How much; the file has it.
        len_bytes: u32,
    },
    /// Send this range.
    Done(ReadPlan),
    /// Nothing to read now: the end of what the reader may see, or the first batch does not fit.
    Empty,
}

#[derive(Clone, Debug)]
enum State {
    /// The greatest entry at or below the offset is among these.
    Index {
        low: Bound,
        high: Bound,
        asked: (u32, u32),
        tries: u32,
    },
    /// Headers are walked from here; the batch that has the offset begins here or later.
    Scan {
        position_bytes: u64,
    },
    /// The batch begins here.
    Found(Found),
    Done(ReadPlan),
    Empty,
}

/// An entry by number, with its offset and position (number -1 is the segment's beginning).
#[derive(Clone, Copy, Debug)]
struct Bound {
    number: u32,
    relative_offset: u32,
    position_bytes: u32,
}

/// Where the first batch of a read begins, and what else is known there.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Found {
    pub(in crate::log) position_bytes: u64,
    /// Length of the first batch, and the offset after it.
    pub(in crate::log) first_batch: Option<(u64, Offset)>,
    /// The last known beginning of a batch within the limit, after this one.
    pub(in crate::log) end: Option<ReadHint>,
}

/// What the log knows before anything is read.
pub(in crate::log) enum Start {
    Empty,
    Found(Found),
    Scan {
        position_bytes: u64,
    },
    /// Entries of the file that may be the greatest at or below the offset: by number from `from`, below `to`, of
    /// which the last has `last`; the search may begin at `floor` where they are all above.
    Index {
        entries: std::ops::Range<u32>,
        last: IndexEntry,
    },
}

/// A copy of a segment: all of it may be seen, and nothing of it is in memory.
#[derive(Clone, Copy, Debug)]
pub struct SegmentCopy {
    /// The segment.
    pub segment: SegmentId,
    /// Its last offset.
    pub end_offset: Offset,
    /// Length of its log.
    pub log_bytes: u64,
    /// Entries of its offset index.
    pub index_entries: u32,
}

impl Lookup {
    /// A search for `from` in a copy of a segment. `known`: where the batch that has it begins, if that is known.
    #[must_use]
    pub fn in_copy(from: Offset, max_bytes: u32, min_one_batch: bool, copy: &SegmentCopy, known: Option<u64>) -> Self {
        let id = copy.segment;
        let next = copy.end_offset.plus(1);
        let after = Some(ReadHint { offset: next, segment: SegmentId(next), position_bytes: 0 });
        let view = SegmentView { id, readable_bytes: copy.log_bytes, after };
        let known =
            if from <= id.0 { Some(0) } else { known.filter(|position_bytes| *position_bytes < copy.log_bytes) };
        let start = match known {
            Some(position_bytes) => Start::Found(Found { position_bytes, first_batch: None, end: None }),
            None if copy.index_entries == 0 => Start::Scan { position_bytes: 0 },
            None => {
                // Only where to guess first comes from it.
                let last = IndexEntry {
                    relative_offset: u32::try_from(copy.end_offset.since(id.0)).unwrap_or(u32::MAX),
                    position_bytes: u32::try_from(copy.log_bytes).unwrap_or(u32::MAX),
                };
                Start::Index { entries: 0..copy.index_entries, last }
            }
        };
        Self::new(Want { from, max_bytes, min_one_batch }, view, None, start)
    }

    pub(in crate::log) fn new(want: Want, segment: SegmentView, next: Option<SegmentView>, start: Start) -> Self {
        let state = match start {
            Start::Empty => State::Empty,
            Start::Found(found) => State::Found(found),
            Start::Scan { position_bytes } => State::Scan { position_bytes },
            Start::Index { entries, last } => {
                let low = Bound { number: entries.start, relative_offset: 0, position_bytes: 0 };
                let high = Bound {
                    number: entries.end,
                    relative_offset: last.relative_offset,
                    position_bytes: last.position_bytes,
                };
                State::Index { low, high, asked: (0, 0), tries: 0 }
            }
        };
        Self { want, segment, next, walked: false, state }
    }

    /// The segment that is searched now.
    pub(in crate::log) fn segment(&self) -> SegmentId {
        self.segment.id
    }

    /// A place in the log at or before the offset, once no index is needed for it.
    #[must_use]
    pub fn scan_position(&self) -> Option<u64> {
        match &self.state {
            State::Scan { position_bytes } => Some(*position_bytes),
            State::Found(found) => Some(found.position_bytes),
            State::Index { .. } | State::Done(_) | State::Empty => None,
        }
    }

    /// What is needed next, or the result. Asked twice without a feed, it answers the same.
    pub fn step(&mut self) -> LookupStep {
        loop {
            match &mut self.state {
                State::Empty => return LookupStep::Empty,
                State::Done(plan) => return LookupStep::Done(plan.clone()),
                State::Index { low, high, asked, tries } => {
                    let relative = self.want.from.since(self.segment.id.0);
                    *asked = guess(relative, *low, *high, *tries);
                    return LookupStep::NeedIndex {
                        segment: self.segment.id,
                        position_bytes: u64::from(asked.0) * INDEX_ENTRY_BYTES as u64,
                        len_bytes: (asked.1 - asked.0) * INDEX_ENTRY_BYTES as u32,
                    };
                }
                State::Scan { position_bytes } => {
                    let left_bytes = self.segment.readable_bytes.saturating_sub(*position_bytes);
                    if left_bytes == 0 {
                        self.go_to_next_segment();
                        continue;
                    }
                    return LookupStep::NeedLog {
                        segment: self.segment.id,
                        position_bytes: *position_bytes,
                        len_bytes: u32::try_from(left_bytes).unwrap_or(u32::MAX).min(SCAN_BYTES),
                    };
                }
                State::Found(found) => {
                    let found = *found;
                    if let Some(step) = self.measure(found) {
                        return step;
                    }
                }
            }
        }
    }

    /// Takes the bytes that the last step asked for; more bytes than asked do no harm.
    ///
    /// # Errors
    /// `Damaged` where they are no log.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        match self.state {
            State::Index { low, high, asked, tries } => {
                self.state = self.search(bytes, low, high, asked, tries);
                Ok(())
            }
            State::Scan { position_bytes } => self.scan(bytes, position_bytes),
            State::Found(found) => {
                let damaged = self.damaged(found.position_bytes);
                let header = parse_header(bytes).map_err(|_| damaged)?;
                let first_batch = Some((u64::from(header.len_bytes), header.last_offset().plus(1)));
                self.state = State::Found(Found { first_batch, ..found });
                Ok(())
            }
            State::Done(_) | State::Empty => Ok(()),
        }
    }

    /// From the first batch to a range; a step where its length must be read first.
    fn measure(&mut self, found: Found) -> Option<LookupStep> {
        let left_bytes = self.segment.readable_bytes.saturating_sub(found.position_bytes);
        if left_bytes == 0 {
            self.go_to_next_segment();
            return None;
        }
        let max_bytes = u64::from(self.want.max_bytes);
        let (len_bytes, next_hint) = if left_bytes <= max_bytes {
            (left_bytes, self.segment.after)
        } else if let Some(end) = found.end.filter(|end| end.position_bytes - found.position_bytes <= max_bytes) {
            // Cut between batches, so that a sequential reader goes on at a known place.
            (end.position_bytes - found.position_bytes, Some(end))
        } else if let Some((first_bytes, after_first)) = found.first_batch {
            let after_first = ReadHint {
                offset: after_first,
                segment: self.segment.id,
                position_bytes: found.position_bytes + first_bytes,
            };
            match first_bytes <= max_bytes {
                true if first_bytes == max_bytes => (first_bytes, Some(after_first)),
                true => (max_bytes, None),
                false if self.want.min_one_batch => (first_bytes.min(left_bytes), Some(after_first)),
                false => {
                    self.state = State::Empty;
                    return None;
                }
            }
        } else {
            return Some(LookupStep::NeedLog {
                segment: self.segment.id,
                position_bytes: found.position_bytes,
                len_bytes: HEADER_BYTES as u32,
            });
        };
        let Ok(len_bytes) = u32::try_from(len_bytes) else {
            self.state = State::Empty;
            return None;
        };
        self.state = State::Done(ReadPlan {
            segment: self.segment.id,
            position_bytes: found.position_bytes,
            len_bytes,
            start_offset: self.want.from,
            next_hint,
        });
        None
    }

    /// The segment has no batch at or after the offset (a gap): the next one begins with the first that has.
    fn go_to_next_segment(&mut self) {
        self.state = match self.next.take() {
            Some(next) if next.readable_bytes > 0 => {
                self.segment = next;
                State::Found(Found { position_bytes: 0, first_batch: None, end: None })
            }
            _ => State::Empty,
        };
    }

    /// Narrows the entries by those of `bytes`.
    fn search(&self, bytes: &[u8], low: Bound, high: Bound, asked: (u32, u32), tries: u32) -> State {
        let relative = self.want.from.since(self.segment.id.0);
        let entries: Vec<IndexEntry> = IndexEntry::decode_all(bytes).take((asked.1 - asked.0) as usize).collect();
        let at_or_below = entries.partition_point(|entry| i64::from(entry.relative_offset) <= relative) as u32;
        let bound = |number: u32, entry: &IndexEntry| Bound {
            number,
            relative_offset: entry.relative_offset,
            position_bytes: entry.position_bytes,
        };
        let (mut low, mut high) = (low, high);
        if let Some(entry) = at_or_below.checked_sub(1).and_then(|at| entries.get(at as usize)) {
            low = bound(asked.0 + at_or_below, entry);
        }
        if let Some(entry) = entries.get(at_or_below as usize) {
            high = bound(asked.0 + at_or_below, entry);
        }
        // Done where nothing lies between; a file that is shorter than it should be ends the search as well: the log
        // is then walked from the best place known, for the index is only a help.
        if low.number >= high.number || entries.is_empty() || tries >= INDEX_TRIES_MAX {
            let position_bytes = u64::from(low.position_bytes);
            // An entry beyond the log is wrong: back to the beginning, never past records.
            return State::Scan {
                position_bytes: if position_bytes < self.segment.readable_bytes { position_bytes } else { 0 },
            };
        }
        State::Index { low, high, asked: (0, 0), tries: tries + 1 }
    }

    /// Walks headers until the batch that has the offset, or the end of `bytes`.
    fn scan(&mut self, bytes: &[u8], from_position_bytes: u64) -> Result<(), ReadError> {
        let mut position_bytes = from_position_bytes;
        while position_bytes < self.segment.readable_bytes {
            let rest = usize::try_from(position_bytes - from_position_bytes).ok().and_then(|at| bytes.get(at..));
            let is_first = position_bytes == from_position_bytes;
            let header = match rest.map(parse_header) {
                Some(Ok(header)) => header,
                _ if !is_first => break,
                _ if position_bytes > 0 && !self.walked => return self.distrust_index(),
                _ => return Err(self.damaged(position_bytes)),
            };
            // An entry names a batch at or below the offset. Where the batch there is above it, the entry is wrong.
            if is_first && position_bytes > 0 && !self.walked && header.base_offset > self.want.from {
                return self.distrust_index();
            }
            let len_bytes = u64::from(header.len_bytes);
            if header.last_offset() >= self.want.from {
                let first_batch = Some((len_bytes, header.last_offset().plus(1)));
                self.state = State::Found(Found { position_bytes, first_batch, end: None });
                return Ok(());
            }
            position_bytes += len_bytes;
        }
        self.walked = true;
        self.state = State::Scan { position_bytes };
        Ok(())
    }

    /// The index is only a help: without it the segment is walked from its beginning.
    fn distrust_index(&mut self) -> Result<(), ReadError> {
        self.walked = true;
        self.state = State::Scan { position_bytes: 0 };
        Ok(())
    }

    fn damaged(&self, position_bytes: u64) -> ReadError {
        ReadError::Damaged { segment: self.segment.id.0, position_bytes }
    }
}

/// The entries to read next, by number: a block where the offset should lie if batches were all alike; a wider piece
/// when that was wrong once, and the middle when it was wrong twice.
fn guess(relative: i64, low: Bound, high: Bound, tries: u32) -> (u32, u32) {
    let count = u64::from(high.number - low.number);
    let span = u64::from(high.relative_offset.saturating_sub(low.relative_offset)).max(1);
    let into = u64::try_from(relative - i64::from(low.relative_offset)).unwrap_or(0).min(span);
    let blocks = if tries == 0 { 1 } else { WIDE_BLOCKS };
    let at = low.number + if tries < 2 { (into * count / span) as u32 } else { (count / 2) as u32 };
    let width = blocks * INDEX_BLOCK_ENTRIES;
    let first = match tries {
        0 => at / INDEX_BLOCK_ENTRIES * INDEX_BLOCK_ENTRIES,
        _ => at.saturating_sub(width / 2),
    };
    let first = first.clamp(low.number, high.number - 1);
    (first, high.number.min(first + width))
}

/// A step of a walk over headers. More than the default `index.interval.bytes`, so that one step is enough where
/// batches are small, and a second one where a large one lies before the offset.
const SCAN_BYTES: u32 = 8 * 1024;
/// 32 KiB.
const WIDE_BLOCKS: u32 = 8;
/// Bisection of the largest index takes fewer.
const INDEX_TRIES_MAX: u32 = 32;
