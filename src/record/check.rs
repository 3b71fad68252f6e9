//! The checks that Kafka makes on a produced batch, in slices.

use crate::record::batch::{
    Attributes, BatchHeader, CRC_COVERS_FROM, Crc32c, HEADER_BYTES, LEN_PREFIX_BYTES, batch_len_bytes, parse_header,
};
use crate::record::batch_error::{BatchError, Corruption, Invalidity};
use crate::record::compression::Compression;
use crate::record::decompress::Decompressor;
use crate::record::offset::{LeaderEpoch, ProducerId, TimestampMs};
use crate::record::record::{RecordSketch, sketch_record};

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
}

/// What an append needs to know of a batch that passed all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedBatch {
    /// Length of the batch; bytes of the input beyond it are to be cut off.
    pub len_bytes: u32,
    /// Codec and flags as the producer set them.
    pub attributes: Attributes,
    /// Base of the records' timestamps.
    pub base_timestamp: TimestampMs,
    /// Largest timestamp of the records themselves, -1 where none is larger (the header's may differ).
    pub max_timestamp: TimestampMs,
    /// Offset delta of the first record that has it.
    pub max_timestamp_offset_delta: i32,
    /// Records within.
    pub record_count: i32,
    /// Offset of the last record less that of the first.
    pub last_offset_delta: i32,
    /// Who wrote it.
    pub producer_id: ProducerId,
    /// How often that producer was initialised.
    pub producer_epoch: i16,
    /// Sequence number of the first record.
    pub base_sequence: i32,
    /// The epoch that the batch carries already: a follower keeps it, a leader stamps its own.
    pub leader_epoch: LeaderEpoch,
}

impl CheckedBatch {
    /// Of a header that the broker wrote or trusts (recovery, followers): the records are not looked at.
    pub fn from_header(header: &BatchHeader) -> Self {
        Self {
            len_bytes: header.len_bytes,
            attributes: header.attributes,
            base_timestamp: header.base_timestamp,
            max_timestamp: header.max_timestamp,
            max_timestamp_offset_delta: header.last_offset_delta,
            record_count: header.record_count,
            last_offset_delta: header.last_offset_delta,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            leader_epoch: header.leader_epoch,
        }
    }

    /// Part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes.is_transactional()
    }

    /// The codec; a checked batch has a known one.
    pub fn compression(&self) -> Compression {
        self.attributes.compression().unwrap_or(Compression::None)
    }
}

/// Makes all checks at once. For small batches; the core cuts large and compressed ones into slices by [`DeepCheck`].
///
/// # Errors
/// As [`DeepCheck::step`].
pub fn check_for_append(records: &[u8], limits: &AppendLimits) -> Result<CheckedBatch, BatchError> {
    let mut check = DeepCheck::begin(records, limits)?;
    loop {
        if let Progress::Done(checked) = check.step(records, usize::MAX)? {
            return Ok(checked);
        }
    }
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Call [`DeepCheck::step`] again.
    More,
    /// The batch may be appended.
    Done(CheckedBatch),
}

/// A check of one produced batch that can stop between slices.
pub struct DeepCheck {
    limits: AppendLimits,
    header: BatchHeader,
    tally: RecordTally,
    stage: Stage,
}

enum Stage {
    Crc { digest: Crc32c, at: usize },
    Records { at: usize },
    Compressed { decompressor: Box<Decompressor>, at: usize },
}

impl DeepCheck {
    /// Makes the checks that need the header alone. `records` is the whole `records` field of the request for one partition.
    ///
    /// # Errors
    /// In Kafka's order: no batch, magic, a second batch, base offset, size.
    pub fn begin(records: &[u8], limits: &AppendLimits) -> Result<Self, BatchError> {
        let len_bytes = whole_batch_len_bytes(records)?.ok_or(Invalidity::NoBatch)?;
        let batch = records.get(..len_bytes).ok_or(Invalidity::NoBatch)?;
        let header = match parse_header(batch) {
            // The length is long enough for a batch of an old format, not for this one.
            Err(BatchError::Invalid(Invalidity::NoBatch)) => return Err(Corruption::Length.into()),
            other => other?,
        };
        // What follows may be junk, but no second batch; Kafka looks at it in the same way.
        if whole_batch_len_bytes(&records[len_bytes..])?.is_some() {
            return Err(Invalidity::SecondBatch.into());
        }
        if header.base_offset.0 != 0 {
            return Err(Invalidity::BaseOffset.into());
        }
        if header.len_bytes > limits.max_message_bytes {
            return Err(BatchError::TooLarge { len_bytes: header.len_bytes, max_bytes: limits.max_message_bytes });
        }
        let stage = Stage::Crc { digest: Crc32c::new(), at: CRC_COVERS_FROM };
        Ok(Self { limits: *limits, header, tally: RecordTally::new(&header, limits), stage })
    }

    /// Goes on with at most about `budget_bytes` of (decompressed) bytes. `records` is the same as at the beginning.
    ///
    /// # Errors
    /// In Kafka's order: CRC, codec, counts and flags, the records within, timestamps and keys, segment size.
    pub fn step(&mut self, records: &[u8], budget_bytes: usize) -> Result<Progress, BatchError> {
        let batch = records.get(..self.header.len_bytes as usize).ok_or(Invalidity::NoBatch)?;
        let mut budget_bytes = budget_bytes.max(1);
        loop {
            match &mut self.stage {
                Stage::Crc { digest, at } => {
                    let end = batch.len().min(at.saturating_add(budget_bytes.saturating_mul(CRC_BYTES_A_BUDGET_BYTE)));
                    digest.update(&batch[*at..end]);
                    *at = end;
                    if end < batch.len() {
                        return Ok(Progress::More);
                    }
                    if digest.value() != self.header.crc {
                        return Err(Corruption::Crc.into());
                    }
                    self.stage = self.check_header()?;
                }
                Stage::Records { at } => {
                    let stop_at = at.saturating_add(budget_bytes);
                    while self.tally.left > 0 {
                        if *at >= stop_at {
                            return Ok(Progress::More);
                        }
                        let sketch = sketch_record(batch, at).ok_or(Invalidity::Record)?;
                        self.tally.add(sketch);
                    }
                    if *at != batch.len() {
                        return Err(Invalidity::Record.into());
                    }
                    return self.finish();
                }
                Stage::Compressed { decompressor, at } => {
                    let (used_bytes, made_bytes) = decompressor.step(&batch[*at..], &mut self.tally)?;
                    *at += used_bytes;
                    if made_bytes == 0 && used_bytes == 0 && *at < batch.len() {
                        return Err(BatchError::Undecodable);
                    }
                    if made_bytes == 0 && *at >= batch.len() {
                        decompressor.finish(&mut self.tally)?;
                        return self.finish();
                    }
                    budget_bytes = budget_bytes.saturating_sub(made_bytes.max(used_bytes));
                    if budget_bytes == 0 {
                        return Ok(Progress::More);
                    }
                }
            }
        }
    }

    fn check_header(&self) -> Result<Stage, BatchError> {
        let header = &self.header;
        let Some(compression) = header.attributes.compression() else {
            return Err(BatchError::Undecodable);
        };
        // Kafka computes the range in 64 bits and the count apart from it.
        let offset_count = i64::from(header.last_offset_delta) + 1;
        if offset_count <= 0 || header.record_count <= 0 || offset_count != i64::from(header.record_count) {
            return Err(Invalidity::Count.into());
        }
        if header.attributes.is_control() {
            return Err(Invalidity::Control.into());
        }
        if header.producer_id.is_some() && header.base_sequence < 0 {
            return Err(Invalidity::Sequence.into());
        }
        Ok(match compression {
            Compression::None => Stage::Records { at: HEADER_BYTES },
            codec => Stage::Compressed { decompressor: Box::new(Decompressor::new(codec)?), at: HEADER_BYTES },
        })
    }

    fn finish(&self) -> Result<Progress, BatchError> {
        if let Some(error) = self.tally.refused {
            return Err(error);
        }
        if self.header.len_bytes > self.limits.segment_bytes {
            let (len_bytes, max_bytes) = (self.header.len_bytes, self.limits.segment_bytes);
            return Err(BatchError::LargerThanSegment { len_bytes, max_bytes });
        }
        let mut checked = CheckedBatch::from_header(&self.header);
        checked.max_timestamp = TimestampMs(self.tally.max_timestamp_ms);
        checked.max_timestamp_offset_delta = self.tally.max_timestamp_offset_delta;
        Ok(Progress::Done(checked))
    }
}

/// What is gathered record by record. A refusal of one record waits for the end: a malformed record counts for more.
pub(in crate::record) struct RecordTally {
    /// Records that the header promises and that were not seen yet.
    pub(in crate::record) left: i32,
    /// Compressed records must be numbered without gaps.
    consecutive: bool,
    compact: bool,
    base_timestamp_ms: i64,
    /// All records have this timestamp (the producer set log append time).
    fixed_timestamp_ms: Option<i64>,
    accepted_ms: Option<(i64, i64)>,
    seen: u32,
    max_timestamp_ms: i64,
    max_timestamp_offset_delta: i32,
    gap: bool,
    refused: Option<BatchError>,
}

impl RecordTally {
    fn new(header: &BatchHeader, limits: &AppendLimits) -> Self {
        let accepted = (
            limits.now_ms.saturating_sub(limits.timestamp_before_max_ms),
            limits.now_ms.saturating_add(limits.timestamp_after_max_ms),
        );
        let compressed = header.attributes.compression() != Some(Compression::None);
        Self {
            left: header.record_count,
            consecutive: compressed,
            compact: limits.compact,
            base_timestamp_ms: header.base_timestamp.0,
            fixed_timestamp_ms: header.attributes.is_log_append_time().then_some(header.max_timestamp.0),
            accepted_ms: (!limits.log_append_time).then_some(accepted),
            seen: 0,
            max_timestamp_ms: TimestampMs::NONE.0,
            max_timestamp_offset_delta: 0,
            gap: false,
            refused: None,
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
            self.max_timestamp_offset_delta = record.offset_delta;
        }
        if record.keyless && self.compact && self.refused.is_none() {
            self.refused = Some(BatchError::Keyless { record_index: self.seen });
        }
        if let Some((from_ms, to_ms)) = self.accepted_ms
            && timestamp_ms != TimestampMs::NONE.0
            && (timestamp_ms < from_ms || timestamp_ms > to_ms)
            // A bad timestamp is what Kafka reports where records were refused for several reasons.
            && !matches!(self.refused, Some(BatchError::Timestamp { .. }))
        {
            self.refused = Some(BatchError::Timestamp { record_index: self.seen, timestamp_ms });
        }
        if self.consecutive && i64::from(record.offset_delta) != i64::from(self.seen) {
            self.gap = true;
        }
        self.seen += 1;
        self.left -= 1;
    }

    /// True where compressed records were not numbered 0, 1, 2, ...
    pub(in crate::record) fn has_gap(&self) -> bool {
        self.gap
    }
}

/// As Kafka's reader of a buffer: `None` where no whole batch begins here (cut, or too short to tell).
fn whole_batch_len_bytes(bytes: &[u8]) -> Result<Option<usize>, BatchError> {
    if bytes.len() < LEN_PREFIX_BYTES {
        return Ok(None);
    }
    let length = crate::record::batch::i32_at(bytes, crate::record::batch::BATCH_LENGTH_AT).unwrap_or(-1);
    // The least length of any format; this format's own is checked after the magic.
    let Some(length) = usize::try_from(length).ok().filter(|length| *length >= OLD_RECORD_OVERHEAD_BYTES) else {
        return Err(Corruption::Length.into());
    };
    let Some(magic) = bytes.get(crate::record::batch::MAGIC_AT) else {
        return Ok(None);
    };
    if *magic > crate::record::batch::MAGIC_V2 {
        return Err(Corruption::Magic.into());
    }
    let len_bytes = length.saturating_add(LEN_PREFIX_BYTES);
    if len_bytes > bytes.len() {
        return Ok(None);
    }
    if *magic < crate::record::batch::MAGIC_V2 {
        return Err(Invalidity::OldMagic.into());
    }
    batch_len_bytes(bytes).map(|len| Some(len as usize))
}

/// Kafka's `LegacyRecord.RECORD_OVERHEAD_V0`.
const OLD_RECORD_OVERHEAD_BYTES: usize = 14;
/// The CRC goes about this much faster than the walk.
const CRC_BYTES_A_BUDGET_BYTE: usize = 4;
