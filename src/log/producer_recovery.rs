//! The producers of a partition that is opened: the latest good snapshot, and a replay of what came after.
//!
//! A snapshot at an offset says what the batches below it say, so any that passes its checksum and does not lie beyond the
//! log's end is as good as the log. One is synced before segments or earlier ones go that say the same; else, where a crash
//! took or tore one, an older one or the log itself does. Without any, the whole log is replayed: its headers only, from
//! batch to batch. The snapshots of segments that are missing are written again on the way.

use std::path::Path;

use crate::log::error::RecoveryError;
use crate::log::layout::{offset_index_path, producer_snapshot_path, segment_path};
use crate::log::offset_index::{INDEX_ENTRY_BYTES, IndexEntry};
use crate::log::partition_log::Place;
use crate::log::plan::SegmentId;
use crate::log::producer_snapshot::{EMPTY_BYTES, SNAPSHOT_BYTES_MAX, parse};
use crate::log::producer_snapshots::{SnapshotWrite, stale};
use crate::log::producer_state::{ProducerState, ProducerStates};
use crate::log::recovery::RecoveryOptions;
use crate::log::segment::Segment;
use crate::log::segment_files::{at_path, remove_producer_snapshot, sync_producer_snapshot, write_producer_snapshot};
use crate::log::transaction_index::AbortedTransaction;
use crate::log::transactions::Transactions;
use crate::record::batch::{BatchHeader, HEADER_BYTES, parse_header};
use crate::record::check::CheckedBatch;
use crate::record::control::EndMarker;
use crate::record::offset::{Offset, ProducerId};
use crate::ring::buffer::Buffer;
use crate::ring::io::{File, Io, OpenHow, read_file};

/// What was found of a partition's producers.
#[derive(Debug, Default)]
pub struct RecoveredProducers {
    /// All that the log and its snapshots know.
    pub states: ProducerStates,
    /// Snapshots on disk, rising.
    pub snapshots: Vec<Offset>,
    /// Bytes of the log behind the latest of them.
    pub replayed_bytes: u64,
    /// Snapshots that were torn or damaged, and are removed.
    pub snapshots_refused: u32,
    /// Transactions that are open, with the places where they begin.
    pub(in crate::log) open_transactions: Vec<(Offset, ProducerId, Place)>,
    /// Those whose abort markers were replayed, by marker.
    pub(in crate::log) aborted: Vec<AbortedTransaction>,
}

/// A log whose segments are right, and whose producers are still to be found.
pub(in crate::log) struct ProducerRecovery<'a> {
    pub(in crate::log) io: &'a Io,
    pub(in crate::log) folder: &'a Path,
    pub(in crate::log) options: &'a RecoveryOptions,
    pub(in crate::log) segments: &'a [Segment],
    pub(in crate::log) log_end: Offset,
    /// What markers from here on have ended is to be said too: a later snapshot does not tell.
    pub(in crate::log) markers_from: Option<Offset>,
}

impl ProducerRecovery<'_> {
    /// Finds them. `found`: the snapshots in the folder, with their lengths. Also says whether files were removed.
    pub(in crate::log) async fn run(
        &self,
        mut found: Vec<(Offset, u64)>,
    ) -> Result<(RecoveredProducers, bool), RecoveryError> {
        let found_count = found.len();
        found.sort_unstable();
        let first = self.segments.first().map_or(self.log_end, Segment::base_offset);
        let outside = |offset: Offset| offset > self.log_end || offset < first;
        for (offset, _) in found.extract_if(.., |(offset, _)| outside(*offset)) {
            // Of records that the crash took with it, or of segments that were deleted.
            remove_producer_snapshot(self.io, self.folder, offset).await?;
        }
        let mut producers = RecoveredProducers::default();
        let mut from = first;
        let mut knows_all = first == Offset::ZERO;
        let mut usable =
            found.partition_point(|(offset, _)| self.markers_from.is_none_or(|markers| *offset <= markers));
        while let Some((offset, len_bytes)) = usable.checked_sub(1).and_then(|at| found.get(at)).copied() {
            if let Some(states) = self.load(offset, len_bytes).await? {
                producers.states = states;
                from = offset;
                knows_all = true;
                break;
            }
            remove_producer_snapshot(self.io, self.folder, offset).await?;
            producers.snapshots_refused += 1;
            usable -= 1;
            found.remove(usable);
        }
        producers.snapshots = found.iter().map(|(offset, _)| *offset).collect();
        let is_segment = |id: SegmentId| self.segments.binary_search_by_key(&id, Segment::id).is_ok();
        let stale = stale(&producers.snapshots, is_segment);
        if let Some(newest) = producers.snapshots.last().filter(|_| !stale.is_empty()) {
            // Those that go may be all that a power cut would have left of deleted segments.
            sync_producer_snapshot(self.io, self.folder, *newest).await?;
        }
        for offset in stale {
            remove_producer_snapshot(self.io, self.folder, offset).await?;
            producers.snapshots.retain(|kept| *kept != offset);
        }
        let has_removed = producers.snapshots.len() < found_count;
        let mut transactions = Transactions::opened(self.open_in(&producers.states).await?);
        for (at, segment) in self.segments.iter().enumerate() {
            if knows_all && segment.base_offset() > from {
                self.write_lost(segment.base_offset(), &mut producers).await?;
            }
            let end = self.segments.get(at + 1).map_or(self.log_end, Segment::base_offset);
            if end > from && segment.size_bytes() > 0 {
                producers.replayed_bytes += self.replay(segment, from, &mut producers, &mut transactions).await?;
            }
        }
        producers.open_transactions = transactions.into_open();
        if let Some((offset, len_bytes)) = found.last().filter(|_| usable == 0).copied()
            && let Some(later) = self.load(offset, len_bytes).await?
        {
            // Those that wrote to deleted segments alone: no batch here tells of them.
            producers.states.add_unknown(later);
        }
        Ok((producers, has_removed))
    }

    /// Writes the snapshot of a segment that a crash has taken: that segment may become the first one here, and then nothing
    /// else tells which transactions were open where it begins. Durable before that.
    async fn write_lost(&self, offset: Offset, producers: &mut RecoveredProducers) -> Result<(), RecoveryError> {
        let Err(at) = producers.snapshots.binary_search(&offset) else { return Ok(()) };
        let write = SnapshotWrite { offset, bytes: producers.states.to_snapshot() };
        match write_producer_snapshot(self.io, self.folder, write).await {
            // A full disk can be read.
            Err(error) if error.is_no_space() => {}
            written => {
                written?;
                producers.snapshots.insert(at, offset);
            }
        }
        Ok(())
    }

    /// `None` where the snapshot is torn or damaged.
    async fn load(&self, offset: Offset, len_bytes: u64) -> Result<Option<ProducerStates>, RecoveryError> {
        if self.options.clean && len_bytes == EMPTY_BYTES as u64 {
            // Nothing but a header: no producers, whatever it says. Ten thousand partitions open faster.
            return Ok(Some(ProducerStates::default()));
        }
        let path = producer_snapshot_path(self.folder, offset);
        if len_bytes > SNAPSHOT_BYTES_MAX {
            return Ok(None);
        }
        let bytes = read_file(self.io, &path, SNAPSHOT_BYTES_MAX).await.map_err(at_path(&path))?;
        let (now_ms, expiration_ms) = (self.io.wall_ms(), self.options.producer_expiration_ms);
        Ok(parse(&bytes).ok().map(|entries| ProducerStates::from_snapshot(&entries, now_ms, expiration_ms)))
    }

    /// Takes in the batches of a segment from `from` on; says how many bytes were walked over.
    async fn replay(
        &self,
        segment: &Segment,
        from: Offset,
        producers: &mut RecoveredProducers,
        transactions: &mut Transactions,
    ) -> Result<u64, RecoveryError> {
        let path = segment_path(self.folder, segment.id());
        let log = self.io.open(&path, OpenHow::Read).await.map_err(at_path(&path))?;
        let start_bytes =
            if from > segment.base_offset() { self.position_below(segment, &log, &path, from).await? } else { 0 };
        let size_bytes = segment.size_bytes();
        let mut position_bytes = start_bytes;
        let mut piece_bytes = PIECE_BYTES;
        while position_bytes < size_bytes {
            let wanted = piece_bytes.min(size_bytes - position_bytes);
            let bytes = self.read(&log, &path, position_bytes, wanted).await?;
            let mut at = 0;
            while let Some(head) = bytes.get(at..).and_then(|rest| rest.get(..HEADER_BYTES)) {
                let at_bytes = position_bytes + at as u64;
                let Some(header) = self.header(head, segment, size_bytes - at_bytes) else {
                    return Err(self.damaged(&path, at_bytes));
                };
                if header.base_offset >= from {
                    let mut batch = CheckedBatch::from_header(&header);
                    if header.attributes.is_control() && u64::from(header.len_bytes) <= HEAD_BYTES {
                        let whole = self.read(&log, &path, at_bytes, u64::from(header.len_bytes)).await?;
                        batch.marker = EndMarker::parse(&header, &whole);
                    }
                    let reserved = producers.states.reserve(&batch, header.base_offset, header.max_timestamp);
                    if let Some(undo) = reserved
                        && let Some(change) = undo.change
                    {
                        let at = Place { segment: segment.id(), position_bytes: at_bytes };
                        producers.aborted.extend(transactions.apply(undo.producer_id, change, header.base_offset, at));
                        transactions.passed(self.log_end);
                    }
                }
                at += header.len_bytes as usize;
                // Of large batches the headers alone are read.
                piece_bytes = if u64::from(header.len_bytes) > PIECE_BYTES / 4 { HEAD_BYTES } else { PIECE_BYTES };
            }
            if at == 0 {
                return Err(self.damaged(&path, position_bytes));
            }
            position_bytes += at as u64;
            self.io.yield_now().await;
        }
        Ok(size_bytes - start_bytes)
    }

    /// The transactions that a snapshot says are open, with the places where their first batches begin.
    async fn open_in(&self, states: &ProducerStates) -> Result<Vec<(Offset, ProducerId, Place)>, RecoveryError> {
        let mut open = Vec::new();
        let with_one = |(id, state): (ProducerId, &ProducerState)| {
            state.has_transaction().then_some((state.transaction_first_offset, id))
        };
        for (offset, producer_id) in states.iter().filter_map(with_one).collect::<Vec<_>>() {
            open.push((offset, producer_id, self.place_of(offset).await?));
        }
        Ok(open)
    }

    /// Where the first batch at or after `offset` begins.
    async fn place_of(&self, offset: Offset) -> Result<Place, RecoveryError> {
        let at = self.segments.partition_point(|segment| segment.base_offset() <= offset).saturating_sub(1);
        let Some(segment) = self.segments.get(at) else {
            return Ok(Place { segment: SegmentId(offset), position_bytes: 0 });
        };
        let mut place = Place { segment: segment.id(), position_bytes: 0 };
        if offset <= segment.base_offset() {
            return Ok(place);
        }
        let path = segment_path(self.folder, segment.id());
        let log = self.io.open(&path, OpenHow::Read).await.map_err(at_path(&path))?;
        place.position_bytes = self.position_below(segment, &log, &path, offset).await?;
        while place.position_bytes < segment.size_bytes() {
            let head = self.read(&log, &path, place.position_bytes, HEADER_BYTES as u64).await?;
            let Some(header) = self.header(&head, segment, segment.size_bytes() - place.position_bytes) else {
                return Err(self.damaged(&path, place.position_bytes));
            };
            if header.last_offset() >= offset {
                return Ok(place);
            }
            place.position_bytes += u64::from(header.len_bytes);
        }
        Ok(match self.segments.get(at + 1) {
            Some(next) => Place { segment: next.id(), position_bytes: 0 },
            None => place,
        })
    }

    /// A header, where it can be one of this segment.
    fn header(&self, head: &[u8], segment: &Segment, left_bytes: u64) -> Option<BatchHeader> {
        let header = parse_header(head).ok()?;
        let can_be = u64::from(header.len_bytes) <= left_bytes
            && header.last_offset_delta >= 0
            && (segment.base_offset()..self.log_end).contains(&header.base_offset);
        can_be.then_some(header)
    }

    /// Where a batch below `from` begins, near it where the index knows one.
    async fn position_below(
        &self,
        segment: &Segment,
        log: &File,
        log_path: &Path,
        from: Offset,
    ) -> Result<u64, RecoveryError> {
        let path = offset_index_path(self.folder, segment.id());
        let index = match self.io.open(&path, OpenHow::Read).await {
            Ok(index) => index,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(at_path(&path)(error)),
        };
        let mut best = None;
        let (mut low, mut high) = (0, segment.index().flushed_count());
        while low < high {
            let middle = low + (high - low) / 2;
            let position_bytes = u64::from(middle) * INDEX_ENTRY_BYTES as u64;
            let bytes = self.read(&index, &path, position_bytes, INDEX_ENTRY_BYTES as u64).await?;
            // A full disk may have cut it short.
            let Some(entry) = IndexEntry::decode_all(&bytes).next() else { return Ok(0) };
            if segment.base_offset().plus(i64::from(entry.relative_offset)) < from {
                best = Some(entry);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(entry) = best else { return Ok(0) };
        let position_bytes = u64::from(entry.position_bytes);
        let head = self.read(log, log_path, position_bytes, HEADER_BYTES as u64).await?;
        let left_bytes = segment.size_bytes().saturating_sub(position_bytes);
        let header = self.header(&head, segment, left_bytes);
        let is_there = header
            .is_some_and(|header| header.last_offset() == segment.base_offset().plus(i64::from(entry.relative_offset)));
        Ok(if is_there { position_bytes } else { 0 })
    }

    /// Up to `len_bytes`; fewer at the end of the file.
    async fn read(&self, file: &File, path: &Path, at_bytes: u64, len_bytes: u64) -> Result<Buffer, RecoveryError> {
        let room = self.io.buffer(usize::try_from(len_bytes).unwrap_or(usize::MAX));
        let (read, mut buffer) = file.read_at(room, at_bytes).await;
        buffer.truncate(read.map_err(at_path(path))?);
        Ok(buffer)
    }

    fn damaged(&self, path: &Path, position_bytes: u64) -> RecoveryError {
        let recovery_point = self.options.recovery_point;
        RecoveryError::Damaged { path: path.to_owned(), position_bytes, recovery_point }
    }
}

/// Read at once where batches are small; the core does other things in between.
const PIECE_BYTES: u64 = 256 * 1024;
/// Read at once where they are large.
const HEAD_BYTES: u64 = 4096;
