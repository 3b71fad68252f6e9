//! The checks that Kafka makes on a produced batch, in slices.

use crate::record::batch::{Attributes, BatchHeader, CRC_COVERS_FROM, Crc32c, HEADER_BYTES, crc32c};
use crate::record::batch_error::{BatchError, Corruption, Invalidity};
use crate::record::compression::Compression;
use crate::record::compressor::Codec;
use crate::record::control::EndMarker;
use crate::record::decompress::Decompressor;
use crate::record::offset::{LeaderEpoch, ProducerId, TimestampMs};
use crate::record::record_fields::sketch_record;
use crate::record::record_stream::RecordStream;
use crate::record::record_tally::{AppendLimits, RecordTally};
use crate::record::sole_batch::{first_header, refuse_second};

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
    /// What a control batch says; no client's batch is one.
    pub marker: Option<EndMarker>,
    /// Set where the first batch of a transaction must have been verified: how many markers of its producer the partition
    /// had when the coordinator was asked.
    pub verification: Option<u32>,
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
            marker: None,
            verification: None,
        }
    }

    /// Of a control batch that the broker wrote.
    pub fn of_marker(header: &BatchHeader, marker: EndMarker) -> Self {
        Self { marker: Some(marker), ..Self::from_header(header) }
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
    /// Records, before compression, that were seen.
    records_bytes: u64,
}

// One lives at a time, in the check; a box would cost an allocation a batch.
#[allow(clippy::large_enum_variant)]
enum Stage {
    Crc { digest: Crc32c, at: usize },
    Records { at: usize },
    Compressed { decompressor: Box<Decompressor>, records: RecordStream, at: usize },
}

impl DeepCheck {
    /// The codec that the batch's header names; `None` where there is no such codec.
    pub fn compression(&self) -> Option<Compression> {
        self.header.attributes.compression()
    }

    /// The codec that the topic asks for, where the batch has another one.
    pub fn recompression(&self) -> Option<Codec> {
        self.limits.recompression(&self.header)
    }

    /// The header as it came.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Length of the records before compression, once the check is done.
    pub fn records_bytes(&self) -> u64 {
        match self.compression() {
            Some(Compression::None) => (self.header.len_bytes as usize - HEADER_BYTES) as u64,
            _ => self.records_bytes,
        }
    }

    /// Makes the checks that need the header alone. `records` is the whole `records` field of the request for one partition.
    ///
    /// # Errors
    /// As [`first_header`], [`refuse_second`] and [`DeepCheck::of_header`], in this order.
    pub fn begin(records: &[u8], limits: &AppendLimits) -> Result<Self, BatchError> {
        let header = first_header(records)?;
        refuse_second(records, &header)?;
        Self::of_header(header, limits)
    }

    /// Goes on with the header of a request's only batch.
    ///
    /// # Errors
    /// In the order of Kafka's log: base offset, size.
    pub fn of_header(header: BatchHeader, limits: &AppendLimits) -> Result<Self, BatchError> {
        if header.base_offset.0 != 0 {
            return Err(Invalidity::BaseOffset.into());
        }
        if header.len_bytes > limits.max_message_bytes {
            return Err(BatchError::TooLarge { len_bytes: header.len_bytes, max_bytes: limits.max_message_bytes });
        }
        let stage = Stage::Crc { digest: Crc32c::new(), at: CRC_COVERS_FROM };
        Ok(Self { limits: *limits, header, tally: RecordTally::new(&header, limits), stage, records_bytes: 0 })
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
                    // All at once needs no state between pieces.
                    let crc = if *at == CRC_COVERS_FROM && end == batch.len() {
                        crc32c(&batch[CRC_COVERS_FROM..])
                    } else {
                        digest.update(&batch[*at..end]);
                        digest.value()
                    };
                    *at = end;
                    if end < batch.len() {
                        return Ok(Progress::More);
                    }
                    if crc != self.header.crc {
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
                Stage::Compressed { decompressor, records, at } => {
                    let tally = &mut self.tally;
                    let mut sink = |bytes: &[u8]| records.feed(bytes, tally);
                    let (used_bytes, made_bytes) = decompressor.step(&batch[*at..], &mut sink)?;
                    *at += used_bytes;
                    self.records_bytes += made_bytes as u64;
                    if made_bytes == 0 && used_bytes == 0 && *at < batch.len() {
                        return Err(BatchError::Undecodable);
                    }
                    if made_bytes == 0 && *at >= batch.len() {
                        decompressor.finish(&mut sink)?;
                        records.finish(&self.tally)?;
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
            codec => Stage::Compressed {
                decompressor: Box::new(Decompressor::new(codec)?),
                records: RecordStream::default(),
                at: HEADER_BYTES,
            },
        })
    }

    fn finish(&mut self) -> Result<Progress, BatchError> {
        if let Some(error) = self.tally.refusal() {
            return Err(error);
        }
        // What is compressed anew has its length judged when it has one.
        if self.recompression().is_none() && self.header.len_bytes > self.limits.segment_bytes {
            let (len_bytes, max_bytes) = (self.header.len_bytes, self.limits.segment_bytes);
            return Err(BatchError::LargerThanSegment { len_bytes, max_bytes });
        }
        let mut checked = CheckedBatch::from_header(&self.header);
        checked.max_timestamp = TimestampMs(self.tally.max_timestamp_ms);
        checked.max_timestamp_offset_delta = self.tally.max_timestamp_offset_delta;
        Ok(Progress::Done(checked))
    }
}

/// The CRC goes about this much faster than the walk.
const CRC_BYTES_A_BUDGET_BYTE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{
        ATTRIBUTES_AT, BASE_OFFSET_AT, BATCH_LENGTH_AT, CRC_AT, LAST_OFFSET_DELTA_AT, LEN_PREFIX_BYTES, MAGIC_AT,
        MAX_TIMESTAMP_AT, PRODUCER_ID_AT, RECORD_COUNT_AT, stamp_crc,
    };
    use crate::record::builder::BatchBuilder;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn limits() -> AppendLimits {
        AppendLimits {
            max_message_bytes: 1_048_588,
            segment_bytes: 1 << 30,
            compact: false,
            log_append_time: false,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            now_ms: NOW_MS,
            codec: None,
            record_bytes_max: i32::MAX as u32,
        }
    }

    /// Records of all shapes: null and empty fields, headers, values of many sizes.
    fn builder(codec: Compression, count: usize) -> BatchBuilder {
        let mut builder = BatchBuilder::new().compression(codec);
        for number in 0..count {
            let value = vec![(number % 251) as u8; number * 37 % 3000];
            let key = [number as u8; 3];
            let timestamp_ms = NOW_MS - 100 + (number as i64 * 7) % 90;
            match number % 4 {
                0 => builder.add(timestamp_ms, None, Some(&value)),
                1 => builder.add(timestamp_ms, Some(&key), None),
                2 => builder.add(timestamp_ms, Some(b""), Some(b"")),
                _ => {
                    let headers: [(&[u8], Option<&[u8]>); 3] =
                        [(b"h1", Some(b"a")), (b"h1", None), (b"", Some(&value))];
                    builder.add_with_headers(timestamp_ms, Some(&key), Some(&value), &headers);
                }
            }
        }
        builder
    }

    fn batch(codec: Compression, count: usize) -> Vec<u8> {
        builder(codec, count).build().expect("the codecs work")
    }

    fn in_slices(records: &[u8], limits: &AppendLimits, budget_bytes: usize) -> Result<CheckedBatch, BatchError> {
        let mut check = DeepCheck::begin(records, limits)?;
        loop {
            if let Progress::Done(checked) = check.step(records, budget_bytes)? {
                return Ok(checked);
            }
        }
    }

    #[test]
    fn good_batches_pass_in_any_slices() {
        for codec in Compression::ALL {
            for count in [1, 2, 3, 200] {
                let bytes = batch(codec, count);
                let checked =
                    check_for_append(&bytes, &limits()).unwrap_or_else(|error| panic!("{codec:?} {count}: {error}"));
                assert_eq!(checked.record_count, count as i32);
                assert_eq!(checked.len_bytes as usize, bytes.len());
                assert_eq!(checked.compression(), codec);
                let times = (0..count as i64).map(|number| (number * 7) % 90);
                let max = times.clone().max().unwrap_or_default();
                assert_eq!(checked.max_timestamp, TimestampMs(NOW_MS - 100 + max), "{codec:?} {count}");
                let first = times.clone().position(|time| time == max).unwrap_or_default();
                assert_eq!(checked.max_timestamp_offset_delta, first as i32, "{codec:?} {count}");
                for budget_bytes in [1, 100, 5000] {
                    assert_eq!(
                        in_slices(&bytes, &limits(), budget_bytes),
                        Ok(checked),
                        "{codec:?} {count} {budget_bytes}"
                    );
                }
            }
        }
    }

    /// The faults of `facts`: each with Kafka 4.4's class of answer, in plain and compressed batches.
    #[test]
    fn faults_get_kafkas_answers() {
        type Fault = (&'static str, fn(&mut Vec<u8>), BatchError);
        let faults: Vec<Fault> = vec![
            ("nothing", |b| b.clear(), Invalidity::NoBatch.into()),
            ("cut records", |b| b.truncate(b.len() - 1), Invalidity::NoBatch.into()),
            ("cut header", |b| b.truncate(40), Invalidity::NoBatch.into()),
            ("flipped bit", |b| *b.last_mut().unwrap() ^= 1, Corruption::Crc.into()),
            ("wrong crc", |b| b[CRC_AT] ^= 1, Corruption::Crc.into()),
            (
                "length 13",
                |b| b[BATCH_LENGTH_AT..BATCH_LENGTH_AT + 4].copy_from_slice(&13_i32.to_be_bytes()),
                Corruption::Length.into(),
            ),
            (
                "length 40",
                |b| b[BATCH_LENGTH_AT..BATCH_LENGTH_AT + 4].copy_from_slice(&40_i32.to_be_bytes()),
                Corruption::Length.into(),
            ),
            (
                "length -5",
                |b| b[BATCH_LENGTH_AT..BATCH_LENGTH_AT + 4].copy_from_slice(&(-5_i32).to_be_bytes()),
                Corruption::Length.into(),
            ),
            ("magic 3", |b| b[MAGIC_AT] = 3, Corruption::Magic.into()),
            ("magic -1", |b| b[MAGIC_AT] = 255, Corruption::Magic.into()),
            ("magic 0", |b| b[MAGIC_AT] = 0, Invalidity::OldMagic.into()),
            ("magic 1", |b| b[MAGIC_AT] = 1, Invalidity::OldMagic.into()),
            ("two batches", |b| b.extend_from_within(..), Invalidity::SecondBatch.into()),
            ("base offset 5", |b| b[BASE_OFFSET_AT + 7] = 5, Invalidity::BaseOffset.into()),
            ("count 0", |b| set(b, RECORD_COUNT_AT, &0_i32.to_be_bytes()), Invalidity::Count.into()),
            ("count -1", |b| set(b, RECORD_COUNT_AT, &(-1_i32).to_be_bytes()), Invalidity::Count.into()),
            ("last delta", |b| set(b, LAST_OFFSET_DELTA_AT, &7_i32.to_be_bytes()), Invalidity::Count.into()),
            ("last delta -1", |b| set(b, LAST_OFFSET_DELTA_AT, &(-1_i32).to_be_bytes()), Invalidity::Count.into()),
            ("one more", |b| set_count(b, 11), Invalidity::Record.into()),
            ("one less", |b| set_count(b, 9), Invalidity::Record.into()),
            ("2^31-1 records", |b| set_count(b, i32::MAX), Invalidity::Count.into()),
            ("control", |bytes| set_control(bytes), Invalidity::Control.into()),
            ("no sequence", |b| set(b, PRODUCER_ID_AT, &9_i64.to_be_bytes()), Invalidity::Sequence.into()),
            ("codec 5", |b| set(b, ATTRIBUTES_AT + 1, &[5]), BatchError::Undecodable),
            ("codec 7", |b| set(b, ATTRIBUTES_AT + 1, &[7]), BatchError::Undecodable),
        ];
        for codec in Compression::ALL {
            let good = batch(codec, 10);
            for (name, fault, error) in &faults {
                let mut bytes = good.clone();
                fault(&mut bytes);
                let error =
                    if *name == "2^31-1 records" { BatchError::Invalid(Invalidity::Record) } else { error.clone() };
                assert_eq!(check_for_append(&bytes, &limits()), Err(error), "{codec:?}: {name}");
            }
        }
    }

    fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
        stamp_crc(bytes);
    }

    fn set_control(bytes: &mut [u8]) {
        bytes[ATTRIBUTES_AT + 1] |= 0x20;
        stamp_crc(bytes);
    }

    fn set_count(bytes: &mut [u8], count: i32) {
        bytes[LAST_OFFSET_DELTA_AT..LAST_OFFSET_DELTA_AT + 4].copy_from_slice(&(count - 1).to_be_bytes());
        set(bytes, RECORD_COUNT_AT, &count.to_be_bytes());
    }

    #[test]
    fn what_kafka_accepts_passes() {
        let good = batch(Compression::None, 10);
        // Bytes after the batch that are no whole batch header.
        for junk in [&b"x"[..], &[0; 11], &good[..16], &good[..60]] {
            let bytes = [good.as_slice(), junk].concat();
            let checked = check_for_append(&bytes, &limits()).unwrap_or_else(|error| panic!("{junk:?}: {error}"));
            assert_eq!(checked.len_bytes as usize, good.len());
        }
        // A wrong max timestamp is corrected, not refused; so is one before 1970.
        let mut bytes = good.clone();
        set(&mut bytes, MAX_TIMESTAMP_AT, &7_i64.to_be_bytes());
        assert_eq!(check_for_append(&bytes, &limits()).map(|c| c.max_timestamp), Ok(TimestampMs(NOW_MS - 37)));
        let mut builder = BatchBuilder::new();
        builder.add(-500, None, None);
        let bytes = builder.build().expect("uncompressed");
        assert_eq!(check_for_append(&bytes, &limits()).map(|c| c.max_timestamp), Ok(TimestampMs::NONE));
    }

    #[test]
    fn limits_are_kafkas() {
        let bytes = batch(Compression::None, 10);
        let len_bytes = bytes.len() as u32;
        let max_bytes = len_bytes - 1;
        let small = AppendLimits { max_message_bytes: max_bytes, ..limits() };
        assert_eq!(check_for_append(&bytes, &small), Err(BatchError::TooLarge { len_bytes, max_bytes }));
        let small = AppendLimits { segment_bytes: max_bytes, ..limits() };
        assert_eq!(check_for_append(&bytes, &small), Err(BatchError::LargerThanSegment { len_bytes, max_bytes }));
        let exact = AppendLimits { segment_bytes: len_bytes, max_message_bytes: len_bytes, ..limits() };
        assert!(check_for_append(&bytes, &exact).is_ok());
        let compact = AppendLimits { compact: true, ..limits() };
        assert!(matches!(check_for_append(&bytes, &compact), Err(BatchError::Keyless { record_index: 0, .. })));

        let limits = || AppendLimits { timestamp_before_max_ms: 7_200_000, ..limits() };
        let (before_ms, after_ms) = (limits().timestamp_before_max_ms, limits().timestamp_after_max_ms);
        for (timestamp_ms, refused) in [
            (NOW_MS + after_ms, false),
            (NOW_MS + after_ms + 1, true),
            (NOW_MS - before_ms, false),
            (NOW_MS - before_ms - 1, true),
            // No time at all is no early one.
            (-1, false),
            (-2, true),
        ] {
            let mut builder = BatchBuilder::new();
            builder.add(NOW_MS, None, None);
            builder.add(timestamp_ms, None, None);
            let bytes = builder.build().expect("uncompressed");
            match check_for_append(&bytes, &limits()) {
                Err(BatchError::Timestamp { record_index: 1, timestamp_ms: found_ms, .. }) if refused => {
                    assert_eq!(found_ms, timestamp_ms);
                }
                other => assert_eq!((other.is_ok(), refused), (true, false), "{timestamp_ms}: {other:?}"),
            }
            let by_broker = AppendLimits { log_append_time: true, ..limits() };
            assert!(check_for_append(&bytes, &by_broker).is_ok());
        }
    }

    /// No bytes whatever panic, and a flipped bit under the CRC is seen by it; with the CRC made right again the walk
    /// must cope alone.
    #[test]
    fn random_damage_never_panics() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below as u64) as usize
        };
        for codec in Compression::ALL {
            let good = batch(codec, 40);
            for _ in 0..400 {
                let mut bytes = good.clone();
                for _ in 0..=next(3) {
                    let at = HEADER_BYTES + next(bytes.len() - HEADER_BYTES);
                    bytes[at] = next(256) as u8;
                }
                if next(4) == 0 {
                    bytes.truncate(HEADER_BYTES + next(bytes.len() - HEADER_BYTES));
                    let length = (bytes.len() - LEN_PREFIX_BYTES) as i32;
                    bytes[BATCH_LENGTH_AT..BATCH_LENGTH_AT + 4].copy_from_slice(&length.to_be_bytes());
                }
                stamp_crc(&mut bytes);
                let whole = check_for_append(&bytes, &limits());
                assert_eq!(in_slices(&bytes, &limits(), 64), whole, "{codec:?}: slices change the answer");
            }
        }
    }

    #[test]
    fn a_bomb_costs_no_memory() {
        for codec in [Compression::Gzip, Compression::Lz4, Compression::Zstd, Compression::Snappy] {
            let mut builder = BatchBuilder::new().compression(codec);
            builder.add(NOW_MS, None, Some(&vec![0; 30 << 20]));
            let bytes = builder.build().expect("the codecs work");
            let limits = AppendLimits { max_message_bytes: u32::MAX, ..limits() };
            let mut check = DeepCheck::begin(&bytes, &limits).expect("a good header");
            let mut steps = 0;
            while check.step(&bytes, 64 << 10).expect("good records") == Progress::More {
                steps += 1;
            }
            assert!(steps > 20, "{codec:?} took {steps} steps for 30 MiB");
        }
    }
}
