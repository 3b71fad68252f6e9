//! The indexes of one partition's log: what of them is to be written, and how far they may be believed.

use crate::log::partition_log::PartitionLog;
use crate::log::plan::{IndexKind, IndexWrite, SegmentId};
use crate::log::segment::Segment;
use crate::record::offset::Offset;

impl PartitionLog {
    /// Index entries to be written now; the newest stay in memory. Call it after commits now and then: it costs
    /// nothing where nothing is due. Of each it is to be said that it is [`written`](Self::index_written), in their order,
    /// or that it is [not](Self::indexes_not_written), before the next are taken.
    pub fn take_index_writes(&mut self) -> Vec<IndexWrite> {
        self.take_entries(false)
    }

    /// All index entries of written batches, for a clean stop.
    pub fn take_all_index_writes(&mut self) -> Vec<IndexWrite> {
        self.take_entries(true)
    }

    fn take_entries(&mut self, all: bool) -> Vec<IndexWrite> {
        let (active, written_at) = (self.active().id(), self.written_at);
        let first = self.segments.partition_point(|segment| segment.id() < self.index_taken_below);
        let mut writes = Vec::new();
        for segment in &mut self.segments[first..] {
            let id = segment.id();
            let written_bytes = match id.cmp(&written_at.segment) {
                std::cmp::Ordering::Less => segment.size_bytes(),
                std::cmp::Ordering::Equal => written_at.position_bytes,
                std::cmp::Ordering::Greater => 0,
            };
            let sealed = id != active;
            let all_written = written_bytes == segment.size_bytes() && id <= written_at.segment;
            if all && all_written {
                segment.complete_time_index();
            }
            let offset_entries = segment.index().due(written_bytes, all || sealed);
            // The time index goes first and up to the same batch at least, so that one that ends early is seen to.
            let all_times = all || sealed || offset_entries.is_some();
            let time_entries = segment.time_index().due(written_bytes, all_times);
            // Where all of a sealed segment is written, nothing can come back to it.
            let completes = sealed && all_written;
            if let Some((position_bytes, bytes)) = segment.transaction_index_mut().take_writes(self.offsets.written) {
                let kind = IndexKind::Transaction;
                writes.push(IndexWrite { segment: id, kind, position_bytes, bytes, completes: false });
            }
            for (kind, entries) in [(IndexKind::Time, time_entries), (IndexKind::Offset, offset_entries)] {
                if entries.is_some() || completes {
                    let (position_bytes, bytes) = entries.unwrap_or_default();
                    writes.push(IndexWrite { segment: id, kind, position_bytes, bytes, completes });
                }
            }
            if completes {
                self.index_taken_below = SegmentId(id.0.plus(1));
            }
        }
        writes
    }

    /// The file has these entries; those of a transaction index are on stable storage, and so is all of an index where they
    /// [complete](IndexWrite::completes) it.
    pub fn index_written(&mut self, write: &IndexWrite) {
        let Ok(at) = self.segments.binary_search_by_key(&write.segment, Segment::id) else { return };
        let is_sealed = at + 1 < self.segments.len();
        let segment = &mut self.segments[at];
        match write.kind {
            IndexKind::Transaction => {
                segment.transaction_index_mut().synced(write.position_bytes + write.bytes.len() as u64);
                if is_sealed {
                    segment.transaction_index_mut().seal();
                }
            }
            _ if write.bytes.is_empty() => {}
            IndexKind::Time => segment.time_index_mut().flushed(write.position_bytes, write.bytes.len()),
            IndexKind::Offset => segment.index_mut().flushed(write.position_bytes, write.bytes.len()),
        }
        // The offset index comes last: all are complete then.
        if write.completes && write.kind == IndexKind::Offset {
            segment.seal();
            self.index_completed_below = self.index_completed_below.max(SegmentId(write.segment.0.plus(1)));
        }
    }

    /// These, the last of what was taken, did not get to their files: they are taken again, before what comes after them. So
    /// nothing counts as complete, or as on stable storage, behind a hole.
    pub fn indexes_not_written(&mut self, writes: &[IndexWrite]) {
        for write in writes {
            self.index_taken_below = self.index_taken_below.min(write.segment);
            if write.kind == IndexKind::Transaction
                && let Ok(at) = self.segments.binary_search_by_key(&write.segment, Segment::id)
            {
                self.segments[at].transaction_index_mut().not_written(write.position_bytes);
            }
        }
    }

    /// A recovery point above this would make the next start believe indexes that a crash may have taken the end of;
    /// `None` where there is no such bound.
    pub fn recovery_point_max(&self) -> Option<Offset> {
        let first = self.segments.partition_point(|segment| segment.id() < self.index_completed_below);
        let incomplete = self.segments.get(first)?;
        let incomplete = (incomplete.id() != self.active().id()).then(|| incomplete.base_offset());
        incomplete.into_iter().chain(self.transaction_index_unsynced()).min()
    }
}
