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
        let aborted = self.segment.transaction_index_mut();
        aborted.synced(u64::from(aborted.entry_count()) * TRANSACTION_ENTRY_BYTES as u64);
        self.segment.seal();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::offset_index::IndexEntry;
    use crate::record::batch::parse_header;
    use crate::record::builder::BatchBuilder;
    use crate::record::offset::TimestampMs;

    /// C099: what does not fit goes to a further segment, whose indexes have the entries of what it got; no gap lies between.
    #[test]
    fn c099_what_does_not_fit_goes_on_in_a_segment_of_its_own() {
        let config =
            LogConfig { segment_bytes: 1000, index_interval_bytes: 0, segment_index_bytes: 80, ..LogConfig::default() };
        let mut builder = BatchBuilder::new();
        builder.add(5, Some(b"k"), Some(&[7; 200]));
        let header = parse_header(&builder.build().expect("uncompressed")).expect("built");
        let mut done: Vec<(CleanedSegment, Vec<(i64, u64)>)> = Vec::new();
        let mut current = (CleanedSegment::new(SegmentId(Offset(100)), &config), Vec::new());
        for number in 0..12 {
            // Every second offset was compacted away.
            let base_offset = Offset(103 + 2 * number);
            let batch = BatchHeader { base_offset, max_timestamp: TimestampMs(1000 + number), ..header };
            if current.0.is_full_for(&batch) {
                let next = CleanedSegment::new(SegmentId(current.0.next_offset()), &config);
                done.push(std::mem::replace(&mut current, (next, Vec::new())));
            }
            let position = current.0.place(&batch);
            current.1.push((base_offset.0, position));
        }
        done.push(current);
        assert!(done.len() >= 3, "{} segments", done.len());
        for (segment, placed) in &mut done {
            let entries = segment.complete();
            let offsets = entries.offsets.expect("more than one batch").1;
            let found: Vec<(i64, u64)> = IndexEntry::decode_all(&offsets)
                .map(|entry| (segment.id().0.0 + i64::from(entry.relative_offset), u64::from(entry.position_bytes)))
                .collect();
            // The first batch gets no entry.
            assert_eq!(found, placed[1..], "segment {}", segment.id());
            assert!(entries.times.is_some() && entries.aborted.is_none());
        }
        for pair in done.windows(2) {
            assert_eq!(pair[1].0.id().0, pair[0].0.next_offset(), "no gap between two segments");
        }
        let sizes: Vec<u64> = done.into_iter().map(|(segment, _)| segment.into_segment().size_bytes()).collect();
        assert!(sizes.iter().all(|bytes| *bytes <= 1000), "{sizes:?}");
    }
}
