//! What is gathered of a batch record by record, and the limits it is held to.

use crate::record::batch::BatchHeader;
use crate::record::batch_error::{BatchError, RefusedRecords};
use crate::record::compression::Compression;
use crate::record::compressor::Codec;
use crate::record::offset::TimestampMs;
use crate::record::record_fields::RecordSketch;

/// The limits that a topic and the clock put on an append.
#[derive(Clone, Copy, Debug)]
pub struct AppendLimits {
    /// `max.message.bytes`.
    pub max_message_bytes: u32,
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// The topic is compacted: records need keys.
    pub compact: bool,
    /// `message.timestamp.type` is LogAppendTime: the producer's timestamps are not looked at.
    pub log_append_time: bool,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// The broker's clock.
    pub now_ms: i64,
    /// `compression.type` with its level; `None` is `producer`.
    pub codec: Option<Codec>,
    /// `max.decompressed.message.bytes`: the largest record within a compressed batch.
    pub record_bytes_max: u32,
}

impl AppendLimits {
    /// The codec that the topic asks for, where a batch has another one.
    pub fn recompression(&self, header: &BatchHeader) -> Option<Codec> {
        self.codec.filter(|codec| header.attributes.compression() != Some(codec.compression))
    }
}

/// Who takes in the records of a batch, one after the other.
pub(in crate::record) trait RecordSink {
    /// Records that the header promises and that were not seen yet.
    fn left(&self) -> i32;

    /// Length of the largest record that may be; a longer one is refused before it is read.
    fn record_bytes_max(&self) -> u32;

    /// Takes in one well-formed record.
    fn add(&mut self, record: RecordSketch);
}

/// What is gathered record by record. A refusal of one record waits for the end: a malformed record counts for more.
pub(in crate::record) struct RecordTally {
    /// Records that the header promises and that were not seen yet.
    pub(in crate::record) left: i32,
    /// Compressed records must be numbered without gaps.
    consecutive: bool,
    /// Records are numbered anew, whatever they came with.
    renumbered: bool,
    pub(in crate::record) record_bytes_max: u32,
    compact: bool,
    base_timestamp_ms: i64,
    /// All records have this timestamp (the producer set log append time).
    fixed_timestamp_ms: Option<i64>,
    accepted_ms: Option<(i64, i64)>,
    seen: u32,
    pub(in crate::record) max_timestamp_ms: i64,
    pub(in crate::record) max_timestamp_offset_delta: i32,
    gap: bool,
    refused: RefusedRecords,
    /// The first record without a key where it needs one.
    keyless: Option<u32>,
    /// The first record with a bad time, and that.
    bad_time: Option<(u32, i64)>,
}

impl RecordTally {
    pub(in crate::record) fn new(header: &BatchHeader, limits: &AppendLimits) -> Self {
        let accepted = (
            limits.now_ms.saturating_sub(limits.timestamp_before_max_ms),
            limits.now_ms.saturating_add(limits.timestamp_after_max_ms),
        );
        let compressed = header.attributes.compression() != Some(Compression::None);
        let renumbered = limits.recompression(header).is_some();
        Self {
            left: header.record_count,
            consecutive: compressed && !renumbered,
            renumbered,
            record_bytes_max: limits.record_bytes_max,
            compact: limits.compact,
            base_timestamp_ms: header.base_timestamp.0,
            fixed_timestamp_ms: header.attributes.is_log_append_time().then_some(header.max_timestamp.0),
            accepted_ms: (!limits.log_append_time).then_some(accepted),
            seen: 0,
            max_timestamp_ms: TimestampMs::NONE.0,
            max_timestamp_offset_delta: 0,
            gap: false,
            refused: RefusedRecords::default(),
            keyless: None,
            bad_time: None,
        }
    }

    /// Takes in one well-formed record.
    #[inline]
    pub(in crate::record) fn add(&mut self, record: RecordSketch) {
        let timestamp_ms = match self.fixed_timestamp_ms {
            Some(fixed) => fixed,
            None => self.base_timestamp_ms.wrapping_add(record.timestamp_delta_ms),
        };
        if timestamp_ms > self.max_timestamp_ms {
            self.max_timestamp_ms = timestamp_ms;
            let numbered_anew = i32::try_from(self.seen).unwrap_or(i32::MAX);
            self.max_timestamp_offset_delta = if self.renumbered { numbered_anew } else { record.offset_delta };
        }
        let has_bad_time = match self.accepted_ms {
            Some((from_ms, to_ms)) if timestamp_ms != TimestampMs::NONE.0 => {
                timestamp_ms < from_ms || timestamp_ms > to_ms
            }
            // To set the time of the append is the broker's.
            _ => self.fixed_timestamp_ms.is_some(),
        };
        // As in Kafka, the time of a record without its key is not looked at.
        if record.keyless && self.compact {
            self.refused.push(self.seen);
            self.keyless.get_or_insert(self.seen);
        } else if has_bad_time {
            self.refused.push(self.seen);
            self.bad_time.get_or_insert((self.seen, timestamp_ms));
        }
        if self.consecutive && i64::from(record.offset_delta) != i64::from(self.seen) {
            self.gap = true;
        }
        self.seen += 1;
        self.left -= 1;
    }

    /// Why the batch is refused for the sake of single records. A bad timestamp is what Kafka reports where records were
    /// refused for several reasons.
    pub(in crate::record) fn refusal(&mut self) -> Option<BatchError> {
        let refused = std::mem::take(&mut self.refused);
        match (self.bad_time, self.keyless) {
            (Some((record_index, timestamp_ms)), _) => {
                Some(BatchError::Timestamp { record_index, timestamp_ms, refused })
            }
            (None, Some(record_index)) => Some(BatchError::Keyless { record_index, refused }),
            (None, None) => None,
        }
    }

    /// True where compressed records were not numbered 0, 1, 2, ...
    pub(in crate::record) fn has_gap(&self) -> bool {
        self.gap
    }
}

impl RecordSink for RecordTally {
    fn left(&self) -> i32 {
        self.left
    }

    fn record_bytes_max(&self) -> u32 {
        self.record_bytes_max
    }

    #[inline]
    fn add(&mut self, record: RecordSketch) {
        // The method of the type itself.
        Self::add(self, record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch_error::REFUSED_RECORDS_MAX;
    use crate::record::builder::BatchBuilder;
    use crate::record::check::check_for_append;

    const NOW_MS: i64 = 1_700_000_000_000;

    /// KIP-467: each record that is to blame, the time of one without its key not looked at; so many and no more.
    #[test]
    fn every_refused_record_is_named_up_to_a_limit() {
        let compact = AppendLimits {
            max_message_bytes: 1 << 20,
            segment_bytes: 1 << 20,
            compact: true,
            log_append_time: false,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            now_ms: NOW_MS,
            codec: None,
            record_bytes_max: 1 << 20,
        };
        let late_ms = NOW_MS + compact.timestamp_after_max_ms + 1;
        let mut builder = BatchBuilder::new();
        for (timestamp_ms, key) in [(NOW_MS, Some("k")), (late_ms, None), (late_ms, Some("k")), (NOW_MS, None)] {
            builder.add(timestamp_ms, key.map(str::as_bytes), None);
        }
        let bytes = builder.build().expect("uncompressed");
        let mut refused = RefusedRecords::default();
        (1..4).for_each(|index| refused.push(index));
        let expected = BatchError::Timestamp { record_index: 2, timestamp_ms: late_ms, refused };
        assert_eq!(check_for_append(&bytes, &compact), Err(expected));

        let mut builder = BatchBuilder::new();
        (0..REFUSED_RECORDS_MAX + 5).for_each(|_| builder.add(NOW_MS, None, None));
        let many = builder.build().expect("uncompressed");
        match check_for_append(&many, &compact) {
            Err(BatchError::Keyless { refused, .. }) => assert_eq!(refused.indexes().len(), REFUSED_RECORDS_MAX),
            other => panic!("{other:?}"),
        }
    }
}
