//! From a timestamp to the batch that has it, in steps that the ring carries out.

use crate::log::error::ReadError;
use crate::log::lookup::{Lookup, LookupStep};
use crate::log::partition_log::PartitionLog;
use crate::log::plan::{ReadBound, SegmentId};
use crate::log::segment::Segment;
use crate::log::time_index::{TIME_INDEX_BLOCK_ENTRIES, TIME_INDEX_ENTRY_BYTES, TimeIndexEntry};
use crate::record::batch::{BatchHeader, parse_header};
use crate::record::offset::{Offset, TimestampMs};

/// A search for the first record with a timestamp at or above a target. It stops where it needs bytes of a file, and
/// borrows its partition for a step only: segments may come and go in between.
#[derive(Clone, Debug)]
pub struct TimeLookup {
    target: TimestampMs,
    /// Records below it do not count: the log's start, or what was looked at already.
    from: Offset,
    /// Records below the log's start count.
    below_start: bool,
    bound: ReadBound,
    /// How often segments had been replaced when the state was right.
    replacements: u64,
    /// Places kept in memory have led astray: the indexes are asked.
    distrusts_places: bool,
    state: State,
}

/// What a lookup wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeStep {
    /// Read this range of the segment's `.timeindex`, then [`feed`](TimeLookup::feed) it.
    NeedTimeIndex {
        /// The segment.
        segment: SegmentId,
        /// Where in its time index.
        position_bytes: u64,
        /// How much; the file has it.
        len_bytes: u32,
    },
    /// Read this range of the segment's `.index`, then feed it.
    NeedIndex {
        /// The segment.
        segment: SegmentId,
        /// Where in its index.
        position_bytes: u64,
        /// How much; the file has it.
        len_bytes: u32,
    },
    /// Read this range of the segment's `.log`, then feed it.
    NeedLog {
        /// The segment.
        segment: SegmentId,
        /// Where in its log.
        position_bytes: u64,
        /// How much; the file has it.
        len_bytes: u32,
    },
    /// The first batch whose largest timestamp reaches the target. Look for the record in it; where it has none (it
    /// lies below the log's start), [`go_on`](TimeLookup::go_on).
    Batch(TimedBatch),
    /// No record that a reader may see reaches the target.
    Nothing,
}

/// A batch to be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedBatch {
    /// The segment.
    pub segment: SegmentId,
    /// Where the batch begins in its log.
    pub position_bytes: u64,
    /// Its header.
    pub header: BatchHeader,
    /// Records below it do not count.
    pub from: Offset,
}

#[derive(Clone, Debug)]
enum State {
    /// A segment is to be chosen.
    Choose,
    /// The greatest entry at or below the target is among these of the time index.
    Times {
        segment: SegmentId,
        low: Bound,
        high: Bound,
        asked: (u32, u32),
        tries: u32,
    },
    /// The place in the log of an entry is to be found; `None`: none is at or below the target.
    Place {
        segment: SegmentId,
        entry: Option<TimeIndexEntry>,
    },
    /// The offset index is searched for it.
    Index {
        segment: SegmentId,
        entry: Option<TimeIndexEntry>,
        lookup: Box<Lookup>,
    },
    /// Headers are walked.
    Scan(Scan),
    Found(TimedBatch),
    Nothing,
}

/// A walk over the headers of a segment.
#[derive(Clone, Copy, Debug)]
struct Scan {
    segment: SegmentId,
    position_bytes: u64,
    readable_bytes: u64,
    /// The time index says that this batch has this largest timestamp: not seen yet.
    claimed: Option<TimeIndexEntry>,
    /// What is read next, if the segment has it.
    piece_bytes: u32,
    begins: Begins,
}

/// Where a walk has its beginning from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// The segment begins there, or headers led there.
    Surely,
    /// The indexes say so.
    ByIndex,
    /// A place kept in memory says so: there begins the batch that has this as its first offset.
    ByPlace(Offset),
}

/// What a piece of a walk has come to.
enum Walked {
    /// On to here.
    To(Scan),
    Found(TimedBatch),
    /// No batch begins where the place says.
    Astray,
}

/// An entry by number; as a low bound, the number after it.
#[derive(Clone, Copy, Debug)]
struct Bound {
    number: u32,
    /// `None` before the first.
    entry: Option<TimeIndexEntry>,
    /// Its time, or a good guess.
    timestamp: TimestampMs,
}

impl PartitionLog {
    /// Plans a search for the first record with a timestamp at or above `target` that a reader may see. -1 is below all:
    /// it finds the first record, with or without a timestamp.
    pub fn plan_time_lookup(&self, target: TimestampMs, bound: ReadBound) -> TimeLookup {
        self.time_lookup(target, self.offsets.local_log_start, false, bound)
    }

    /// As [`plan_time_lookup`](Self::plan_time_lookup), also among records below the log's start whose segments are there:
    /// Kafka's answer for the largest timestamp does not look at the start.
    pub fn plan_max_time_lookup(&self, target: TimestampMs, bound: ReadBound) -> TimeLookup {
        self.time_lookup(target, Offset::ZERO, true, bound)
    }

    fn time_lookup(&self, target: TimestampMs, from: Offset, below_start: bool, bound: ReadBound) -> TimeLookup {
        let replacements = self.replacements;
        TimeLookup { target, from, below_start, bound, replacements, distrusts_places: false, state: State::Choose }
    }

    /// What `lookup` needs next. Asked twice without a feed, it answers the same.
    ///
    /// # Errors
    /// `Damaged` where what was fed is no log.
    pub fn step_time_lookup(&self, lookup: &mut TimeLookup) -> Result<TimeStep, ReadError> {
        if lookup.replacements != self.replacements {
            // Compaction has moved what was found: offsets are the same, places are not.
            lookup.replacements = self.replacements;
            lookup.state = State::Choose;
        }
        loop {
            let next = match &mut lookup.state {
                State::Nothing => return Ok(TimeStep::Nothing),
                State::Found(batch) => return Ok(TimeStep::Batch(*batch)),
                State::Choose => self.choose(lookup),
                State::Times { segment, low, high, asked, tries } => {
                    *asked = guess(lookup.target, *low, *high, *tries);
                    return Ok(TimeStep::NeedTimeIndex {
                        segment: *segment,
                        position_bytes: u64::from(asked.0) * TIME_INDEX_ENTRY_BYTES as u64,
                        len_bytes: (asked.1 - asked.0) * TIME_INDEX_ENTRY_BYTES as u32,
                    });
                }
                State::Place { segment, entry } => {
                    let (segment, entry) = (*segment, *entry);
                    self.place(lookup, segment, entry)
                }
                State::Index { segment, entry, lookup: index } => match index.scan_position() {
                    Some(position_bytes) => {
                        let (segment, entry) = (*segment, *entry);
                        self.walk_from(lookup, segment, position_bytes, entry)
                    }
                    None => match index.step() {
                        LookupStep::NeedIndex { segment, position_bytes, len_bytes } => {
                            return Ok(TimeStep::NeedIndex { segment, position_bytes, len_bytes });
                        }
                        // The batch cannot be found by the index: it is only a help.
                        _ => {
                            let segment = *segment;
                            self.walk_from(lookup, segment, 0, None)
                        }
                    },
                },
                State::Scan(scan) => {
                    let left_bytes = scan.readable_bytes.saturating_sub(scan.position_bytes);
                    if left_bytes > 0 {
                        return Ok(TimeStep::NeedLog {
                            segment: scan.segment,
                            position_bytes: scan.position_bytes,
                            len_bytes: u32::try_from(left_bytes).unwrap_or(u32::MAX).min(scan.piece_bytes),
                        });
                    }
                    // The batch that reaches the target is not to be seen yet, or lies below the log's start.
                    let segment = scan.segment;
                    self.choose_after(lookup, segment)
                }
            };
            lookup.state = next;
        }
    }

    /// The first segment that has records from `lookup.from` on and whose largest timestamp reaches the target.
    fn choose(&self, lookup: &mut TimeLookup) -> State {
        if !lookup.below_start {
            lookup.from = lookup.from.max(self.offsets.local_log_start);
        }
        let (end, _) = self.bound(lookup.bound);
        let first = self.segments.partition_point(|segment| segment.base_offset() <= lookup.from).saturating_sub(1);
        let reaches = |segment: &Segment| {
            let max = segment.max_timestamp().map_or(TimestampMs::NONE, |(max, _)| max);
            segment.size_bytes() > 0 && max >= lookup.target
        };
        let candidates = self.segments.iter().enumerate().skip(first);
        let mut candidates = candidates.take_while(|(_, segment)| segment.base_offset() < end);
        let Some((at, segment)) = candidates.find(|(_, segment)| reaches(segment)) else {
            return State::Nothing;
        };
        let (id, times) = (segment.id(), segment.time_index());
        if let Some(scan) = self.placed(lookup, segment) {
            return State::Scan(scan);
        }
        match (times.floor_in_memory(lookup.target), times.last_flushed()) {
            (None, Some(last)) => {
                // Times mostly rise from segment to segment.
                let before = at.checked_sub(1).and_then(|at| self.segments.get(at)).and_then(Segment::max_timestamp);
                let timestamp = segment.first_timestamp().or(before.map(|(max, _)| max)).unwrap_or_default();
                let low = Bound { number: 0, entry: None, timestamp };
                let high = Bound { number: times.flushed_count(), entry: Some(last), timestamp: last.timestamp };
                State::Times { segment: id, low, high, asked: (0, 0), tries: 0 }
            }
            (entry, _) => State::Place { segment: id, entry },
        }
    }

    /// The walk through the one piece of the segment that has the batch, where memory knows it.
    fn placed(&self, lookup: &TimeLookup, segment: &Segment) -> Option<Scan> {
        // Where the log begins inside the segment, the batch that reaches the target first may lie below.
        if lookup.distrusts_places || lookup.from > segment.base_offset() {
            return None;
        }
        let range = segment.placed_range(lookup.target);
        let len_bytes = range.end_bytes.unwrap_or(segment.size_bytes()).checked_sub(range.position_bytes)?;
        let begins = match range.relative_offset {
            None => Begins::Surely,
            Some(relative) => Begins::ByPlace(segment.base_offset().plus(i64::from(relative))),
        };
        let piece_bytes = u32::try_from(len_bytes).ok().filter(|len_bytes| *len_bytes <= PLACED_BYTES_MAX)?;
        match self.scan(segment.id(), range.position_bytes, None, lookup.bound)? {
            scan if piece_bytes > 0 => Some(Scan { piece_bytes, begins, ..scan }),
            _ => None,
        }
    }

    fn choose_after(&self, lookup: &mut TimeLookup, segment: SegmentId) -> State {
        let after = self.segments.partition_point(|other| other.id() <= segment);
        let Some(next) = self.segments.get(after) else { return State::Nothing };
        lookup.from = lookup.from.max(next.base_offset());
        State::Choose
    }

    /// From an entry of the time index to a place in the log: the batch that it names, or one before it.
    fn place(&self, lookup: &mut TimeLookup, segment: SegmentId, entry: Option<TimeIndexEntry>) -> State {
        let named = entry.map_or(segment.0, |entry| entry.offset(segment.0));
        let (offset, entry) = if named >= lookup.from { (named, entry) } else { (lookup.from, None) };
        if offset <= segment.0 {
            return self.walk_from(lookup, segment, 0, None);
        }
        if offset >= self.bound(lookup.bound).0 {
            // All before that batch is below the target, and it is not to be seen yet.
            return State::Nothing;
        }
        match self.plan_read(offset, u32::MAX, true, lookup.bound) {
            Ok(index) if index.segment() == segment => State::Index { segment, entry, lookup: Box::new(index) },
            // The segment has left the log, or the entry names what is not there.
            _ => self.walk_from(lookup, segment, 0, None),
        }
    }

    fn walk_from(
        &self,
        lookup: &mut TimeLookup,
        segment: SegmentId,
        position_bytes: u64,
        claimed: Option<TimeIndexEntry>,
    ) -> State {
        match self.scan(segment, position_bytes, claimed, lookup.bound) {
            Some(scan) => State::Scan(scan),
            None => self.choose_after(lookup, segment),
        }
    }

    /// A walk over headers of a segment; `None` where it has left the log.
    fn scan(
        &self,
        segment: SegmentId,
        position_bytes: u64,
        claimed: Option<TimeIndexEntry>,
        bound: ReadBound,
    ) -> Option<Scan> {
        let at = self.segments.binary_search_by_key(&segment, Segment::id).ok()?;
        let (end, end_at) = self.bound(bound);
        let readable_bytes = self.view(at, end, end_at).readable_bytes;
        let begins = if position_bytes > 0 { Begins::ByIndex } else { Begins::Surely };
        Some(Scan { segment, position_bytes, readable_bytes, claimed, piece_bytes: SCAN_BYTES, begins })
    }
}

impl TimeLookup {
    /// Takes the bytes that the last step asked for; more bytes than asked do no harm.
    ///
    /// # Errors
    /// `Damaged` where they are no log.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        let next = match &mut self.state {
            State::Times { segment, low, high, asked, tries } => {
                search(self.target, *segment, bytes, (*low, *high), *asked, *tries)
            }
            State::Index { lookup, .. } => return lookup.feed(bytes),
            State::Scan(scan) => match scan.walk(bytes, self.target, self.from)? {
                Walked::Astray => {
                    self.distrusts_places = true;
                    State::Choose
                }
                Walked::To(scan) => State::Scan(scan),
                Walked::Found(batch) => State::Found(batch),
            },
            State::Choose | State::Place { .. } | State::Found(_) | State::Nothing => return Ok(()),
        };
        self.state = next;
        Ok(())
    }

    /// As if no places were kept in memory: by the indexes.
    #[must_use]
    pub fn by_indexes(self) -> Self {
        Self { distrusts_places: true, ..self }
    }

    /// The batch that was found has no such record at or above the log's start: the search goes on behind it.
    pub fn go_on(&mut self) {
        if let State::Found(batch) = self.state {
            self.from = batch.header.last_offset().plus(1);
            self.state = State::Choose;
        }
    }
}

impl Scan {
    /// Walks headers until the first batch that reaches the target, or the end of `bytes`.
    fn walk(mut self, bytes: &[u8], target: TimestampMs, from: Offset) -> Result<Walked, ReadError> {
        let began_at = self.position_bytes;
        self.piece_bytes = SCAN_BYTES;
        while self.position_bytes < self.readable_bytes {
            let rest = usize::try_from(self.position_bytes - began_at).ok().and_then(|at| bytes.get(at..));
            let header = match rest.map(parse_header) {
                Some(Ok(header)) => header,
                _ if self.position_bytes != began_at => break,
                _ if matches!(self.begins, Begins::ByPlace(_)) => return Ok(Walked::Astray),
                _ if self.begins == Begins::ByIndex => return Ok(self.scan_from_the_beginning()),
                _ => {
                    let (segment, position_bytes) = (self.segment.0, self.position_bytes);
                    return Err(ReadError::Damaged { segment, position_bytes });
                }
            };
            match self.begins {
                Begins::ByPlace(first_offset) if header.base_offset != first_offset => return Ok(Walked::Astray),
                Begins::ByPlace(_) => self.begins = Begins::Surely,
                Begins::ByIndex => {
                    if self.is_refuted_by(&header) {
                        return Ok(self.scan_from_the_beginning());
                    }
                }
                Begins::Surely => {}
            }
            if header.max_timestamp >= target && header.last_offset() >= from {
                let (segment, position_bytes) = (self.segment, self.position_bytes);
                return Ok(Walked::Found(TimedBatch { segment, position_bytes, header, from }));
            }
            self.position_bytes += u64::from(header.len_bytes);
        }
        Ok(Walked::To(self))
    }

    /// True where a batch shows that the time index is wrong: the batch that its entry names has another largest time.
    fn is_refuted_by(&mut self, header: &BatchHeader) -> bool {
        let Some(claimed) = self.claimed else { return false };
        let offset = claimed.offset(self.segment.0);
        if header.last_offset() < offset {
            return false;
        }
        self.claimed = None;
        header.base_offset > offset || header.max_timestamp != claimed.timestamp
    }

    /// The indexes are only a help: without them the segment is walked from its beginning.
    fn scan_from_the_beginning(self) -> Walked {
        Walked::To(Self { position_bytes: 0, claimed: None, begins: Begins::Surely, ..self })
    }
}

/// Narrows the entries of the time index by those of `bytes`.
fn search(
    target: TimestampMs,
    segment: SegmentId,
    bytes: &[u8],
    (mut low, mut high): (Bound, Bound),
    asked: (u32, u32),
    tries: u32,
) -> State {
    let count = (asked.1 - asked.0) as usize;
    let entries: Vec<TimeIndexEntry> = TimeIndexEntry::decode_all(bytes).take(count).collect();
    let at_or_below = entries.partition_point(|entry| entry.timestamp <= target);
    let bound = |at: usize, entry: &TimeIndexEntry| Bound {
        number: asked.0 + at as u32,
        entry: Some(*entry),
        timestamp: entry.timestamp,
    };
    if let Some(entry) = at_or_below.checked_sub(1).and_then(|at| entries.get(at)) {
        low = bound(at_or_below, entry);
    }
    if let Some(entry) = entries.get(at_or_below) {
        high = bound(at_or_below, entry);
    }
    // Done where nothing lies between; a file that is shorter than it should be ends the search as well: the log is then
    // walked from the best place known, for the index is only a help.
    if low.number >= high.number || entries.is_empty() || tries >= INDEX_TRIES_MAX {
        return State::Place { segment, entry: low.entry };
    }
    State::Times { segment, low, high, asked: (0, 0), tries: tries + 1 }
}

/// The entries to read next, by number: a block where the target should lie if times rose evenly; a wider piece when that
/// was wrong once, and the middle when it was wrong twice.
fn guess(target: TimestampMs, low: Bound, high: Bound, tries: u32) -> (u32, u32) {
    let count = high.number.saturating_sub(low.number).max(1);
    let blocks = if tries == 0 { 1 } else { WIDE_BLOCKS };
    let width = blocks * TIME_INDEX_BLOCK_ENTRIES;
    let span = (i128::from(high.timestamp.0) - i128::from(low.timestamp.0)).max(1);
    let beyond = (i128::from(target.0) - i128::from(low.timestamp.0)).clamp(0, span);
    let evenly = u32::try_from(beyond * i128::from(count) / span).unwrap_or(count);
    let into = if tries < 2 { evenly } else { count / 2 };
    let at = low.number + into.min(count);
    let first = at.saturating_sub(width / 2).min(high.number.saturating_sub(width)).max(low.number);
    (first, high.number.min(first + width))
}

/// A step of a walk over headers: the batch that the indexes name and the one behind it, where they are of a producer's
/// usual 16 KiB at most.
const SCAN_BYTES: u32 = 32 * 1024;
/// More between two places (batches are large, or places were not noted for a while), and the indexes are asked.
const PLACED_BYTES_MAX: u32 = 1 << 20;
/// 32 KiB.
const WIDE_BLOCKS: u32 = 8;
/// Bisection of the largest index takes fewer.
const INDEX_TRIES_MAX: u32 = 32;
