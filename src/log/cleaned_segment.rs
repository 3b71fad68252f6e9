//! A segment that a compaction writes: where its batches go, and its indexes.

use crate::log::layout::{self, CLEANED_SUFFIX, SWAP_SUFFIX};
use crate::log::partition_log::LogConfig;
use crate::log::plan::SegmentId;
use crate::log::segment::{Incoming, Segment, SegmentLimits};
use crate::log::transaction_index::{AbortedTransaction, TRANSACTION_ENTRY_BYTES};
use crate::record::batch::BatchHeader;
use crate::record::offset::Offset;

/// A segment while it is written, by the rules of one that is appended to. Its files have other names until it is swapped
/// in.
#[derive(Debug)]
pub struct CleanedSegment {
    segment: Segment,
    limits: SegmentLimits,
    next_offset: Offset,
}

/// Entries for both indexes: position and bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CleanedEntries {
    /// For the offset index.
    pub offsets: Option<(u64, Vec<u8>)>,
    /// For the time index.
    pub times: Option<(u64, Vec<u8>)>,
    /// For the transaction index, all at once.
    pub aborted: Option<Vec<u8>>,
}

impl CleanedSegment {
    /// An empty one.
    pub fn new(id: SegmentId, config: &LogConfig) -> Self {
        let limits = SegmentLimits {
            segment_bytes: config.segment_bytes,
            index_interval_bytes: config.index_interval_bytes,
            segment_index_bytes: config.segment_index_bytes,
            roll_ms: u64::MAX,
        };
        Self { segment: Segment::new(id), limits, next_offset: id.0 }
    }

    /// Its name.
    pub fn id(&self) -> SegmentId {
        self.segment.id()
    }

    /// The offset after its last batch: a segment that goes on from here leaves no gap.
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// True where the batch must go to another segment.
    pub fn is_full_for(&mut self, header: &BatchHeader) -> bool {
        self.segment.should_roll(&incoming(header), &self.limits, 0)
    }

    /// The place of a batch: at the end.
    pub fn place(&mut self, header: &BatchHeader) -> u64 {
        assert!(header.base_offset >= self.next_offset, "{} follows {}", header.base_offset, self.next_offset);
        let position_bytes = self.segment.size_bytes();
        self.segment.reserve(&incoming(header), &self.limits);
        self.next_offset = header.last_offset().plus(1);
        position_bytes
    }

    /// Notes the transaction that the last batch, a marker, has aborted.
    pub fn note_aborted(&mut self, aborted: AbortedTransaction) {
        assert!(aborted.last_offset < self.next_offset, "{aborted:?} ends behind the segment");
        self.segment.transaction_index_mut().push(aborted);
    }

    /// Entries to be written now.
    pub fn take_entries(&mut self) -> CleanedEntries {
        self.take(false)
    }

    /// The last entries. It takes no batch after this.
    pub fn complete(&mut self) -> CleanedEntries {
        self.segment.complete_time_index();
        let aborted = self.segment.transaction_index_mut().take_writes(self.next_offset).map(|(_, bytes)| bytes);
        CleanedEntries { aborted, ..self.take(true) }
    }

    /// Names of its files, the log last: (cleaned, swap, final).
    pub fn swap_names(&self) -> Vec<[String; 3]> {
        let has_aborted = self.segment.transaction_index().entry_count() > 0;
        let names = layout::replaced_file_names(self.id(), has_aborted).into_iter();
        names.map(|name| [format!("{name}{CLEANED_SUFFIX}"), format!("{name}{SWAP_SUFFIX}"), name]).collect()
    }

    fn take(&mut self, all: bool) -> CleanedEntries {
        let size_bytes = self.segment.size_bytes();
        let times = self.segment.time_index_mut().take_writes(size_bytes, all);
        let offsets = self.segment.index_mut().take_writes(size_bytes, all);
        CleanedEntries { offsets, times, aborted: None }
    }

    /// The segment, for the log, when its files are complete and on stable storage.
    pub fn into_segment(mut self) -> Segment {
        self.segment.index_mut().seal();
        self.segment.time_index_mut().seal();
        let aborted = self.segment.transaction_index_mut();
        aborted.synced(u64::from(aborted.entry_count()) * TRANSACTION_ENTRY_BYTES as u64);
        aborted.seal();
        self.segment
    }
}

fn incoming(header: &BatchHeader) -> Incoming {
    Incoming {
        len_bytes: header.len_bytes,
        first_offset: header.base_offset,
        last_offset: header.last_offset(),
        max_timestamp: header.max_timestamp,
    }
}
