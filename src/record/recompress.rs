//! Recompression: the records of a checked batch in the codec that its topic asks for, in slices.
//!
//! As Kafka's broker does it, records are written anew: numbered from 0 without gaps, times counted from the first one's.

use crate::record::batch::{self, BatchHeader, HEADER_BYTES, LEN_PREFIX_BYTES, MAGIC_V2, TRANSACTIONAL_BIT};
use crate::record::batch_error::{BatchError, Invalidity};
use crate::record::builder::{put_varint, put_varlong};
use crate::record::check::CheckedBatch;
use crate::record::compression::Compression;
use crate::record::compressor::{Codec, Compressor};
use crate::record::decompress::Decompressor;
use crate::record::offset::{LeaderEpoch, Offset, TimestampMs};
use crate::record::record_fields::{VARINT_BYTES_MAX, VARLONG_BYTES_MAX, varint, varlong};

/// One batch on its way from one codec into another.
pub struct Recompressor {
    checked: CheckedBatch,
    codec: Codec,
    batch_bytes_max: u32,
    source: Source,
    /// Bytes of the source that were taken.
    at: usize,
    /// A piece of plain records, and how far it has gone into the compressor.
    piece: Vec<u8>,
    piece_at: usize,
    rewriter: RecordRewriter,
    /// Rewritten records on their way into the compressor.
    staged: Vec<u8>,
    compressor: Compressor,
}

enum Source {
    Plain,
    Compressed(Box<Decompressor>),
}

/// How far a recompression has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recompressed {
    /// Call [`Recompressor::step`] again.
    More,
    /// All records are through: [`Recompressor::finish`].
    All,
}

impl Recompressor {
    /// For a batch that passed its check. `records_bytes`: its records before compression. The outcome is refused where it
    /// is longer than `batch_bytes_max`.
    ///
    /// # Errors
    /// Where a codec's library has no memory.
    pub fn begin(
        header: &BatchHeader,
        checked: &CheckedBatch,
        codec: Codec,
        records_bytes: u64,
        batch_bytes_max: u32,
    ) -> Result<Self, BatchError> {
        let source = match checked.compression() {
            Compression::None => Source::Plain,
            other => Source::Compressed(Box::new(Decompressor::new(other)?)),
        };
        let compressor =
            Compressor::new(codec, vec![0; HEADER_BYTES], records_bytes).map_err(|_| BatchError::Undecodable)?;
        let fixed_timestamp_ms = header.attributes.is_log_append_time().then_some(header.max_timestamp.0);
        Ok(Self {
            checked: *checked,
            codec,
            batch_bytes_max,
            source,
            at: HEADER_BYTES,
            piece: Vec::new(),
            piece_at: 0,
            rewriter: RecordRewriter::new(header.base_timestamp.0, fixed_timestamp_ms),
            staged: Vec::new(),
            compressor,
        })
    }

    /// Bytes that the outcome has so far.
    pub fn output_bytes(&self) -> usize {
        self.compressor.len_bytes()
    }

    /// Goes on with at most about `budget_bytes` of plain records. `batch` is the whole batch, the same at each call.
    ///
    /// # Errors
    /// The outcome is too large, or (which the check has ruled out) the records make no sense.
    pub fn step(&mut self, batch: &[u8], budget_bytes: usize) -> Result<Recompressed, BatchError> {
        let batch = batch.get(..self.checked.len_bytes as usize).ok_or(Invalidity::NoBatch)?;
        let mut budget_bytes = budget_bytes.max(1);
        while budget_bytes > 0 {
            if self.piece_at == self.piece.len() && !self.next_piece(batch, budget_bytes)? {
                return Ok(Recompressed::All);
            }
            let end = self.piece.len().min(self.piece_at.saturating_add(budget_bytes));
            budget_bytes -= end - self.piece_at;
            self.staged.clear();
            self.rewriter.feed(&self.piece[self.piece_at..end], &mut self.staged)?;
            self.piece_at = end;
            self.compressor.write(&self.staged).map_err(|_| BatchError::Undecodable)?;
            self.check_size(self.compressor.len_bytes())?;
        }
        Ok(Recompressed::More)
    }

    /// Takes the next plain bytes out of the source; false at its end.
    fn next_piece(&mut self, batch: &[u8], budget_bytes: usize) -> Result<bool, BatchError> {
        self.piece.clear();
        self.piece_at = 0;
        let Source::Compressed(decompressor) = &mut self.source else {
            let end = batch.len().min(self.at.saturating_add(budget_bytes));
            self.piece.extend_from_slice(&batch[self.at..end]);
            self.at = end;
            return Ok(!self.piece.is_empty());
        };
        loop {
            let piece = &mut self.piece;
            let (used_bytes, made_bytes) = decompressor.step(&batch[self.at..], &mut |bytes| {
                piece.extend_from_slice(bytes);
                Ok(())
            })?;
            self.at += used_bytes;
            if made_bytes > 0 {
                return Ok(true);
            }
            if used_bytes == 0 || self.at >= batch.len() {
                decompressor.finish(&mut |bytes| {
                    piece.extend_from_slice(bytes);
                    Ok(())
                })?;
                return Ok(!self.piece.is_empty());
            }
        }
    }

    /// The batch in its new codec, and what an append needs to know of it.
    ///
    /// # Errors
    /// The outcome is too large.
    pub fn finish(self) -> Result<(Vec<u8>, CheckedBatch), BatchError> {
        let Self { mut checked, codec, compressor, rewriter, batch_bytes_max, .. } = self;
        let mut bytes = compressor.finish().map_err(|_| BatchError::Undecodable)?;
        let too_large = BatchError::TooLarge { len_bytes: u32::MAX, max_bytes: batch_bytes_max };
        let length = i32::try_from(bytes.len() - LEN_PREFIX_BYTES).map_err(|_| too_large.clone())?;
        checked.len_bytes = u32::try_from(bytes.len()).map_err(|_| too_large)?;
        if checked.len_bytes > batch_bytes_max {
            return Err(BatchError::TooLarge { len_bytes: checked.len_bytes, max_bytes: batch_bytes_max });
        }
        // As Kafka's writer: of the flags only this one is kept; the time's kind is stamped at the append.
        checked.attributes.0 = (checked.attributes.0 & TRANSACTIONAL_BIT) | codec.compression.bits();
        checked.base_timestamp = TimestampMs(rewriter.new_base_ms.unwrap_or(checked.base_timestamp.0));
        batch::stamp(&mut bytes, Offset::ZERO, LeaderEpoch::NONE);
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(batch::BATCH_LENGTH_AT, &length.to_be_bytes());
        put(batch::MAGIC_AT, &[MAGIC_V2]);
        put(batch::ATTRIBUTES_AT, &checked.attributes.0.to_be_bytes());
        put(batch::LAST_OFFSET_DELTA_AT, &checked.last_offset_delta.to_be_bytes());
        put(batch::BASE_TIMESTAMP_AT, &checked.base_timestamp.0.to_be_bytes());
        put(batch::MAX_TIMESTAMP_AT, &checked.max_timestamp.0.to_be_bytes());
        put(batch::PRODUCER_ID_AT, &checked.producer_id.0.to_be_bytes());
        put(batch::PRODUCER_EPOCH_AT, &checked.producer_epoch.to_be_bytes());
        put(batch::BASE_SEQUENCE_AT, &checked.base_sequence.to_be_bytes());
        put(batch::RECORD_COUNT_AT, &checked.record_count.to_be_bytes());
        batch::stamp_crc(&mut bytes);
        Ok((bytes, checked))
    }

    fn check_size(&self, len_bytes: usize) -> Result<(), BatchError> {
        let len_bytes = u32::try_from(len_bytes).unwrap_or(u32::MAX);
        match len_bytes > self.batch_bytes_max {
            true => Err(BatchError::TooLarge { len_bytes, max_bytes: self.batch_bytes_max }),
            false => Ok(()),
        }
    }
}

/// Writes the fields before each record's key anew; keeps nothing of keys, values and headers.
struct RecordRewriter {
    base_ms: i64,
    fixed_ms: Option<i64>,
    new_base_ms: Option<i64>,
    next_offset_delta: i32,
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: usize,
    /// The new fields, while they are gathered.
    fields: Vec<u8>,
    /// Bytes of the record at hand that go through as they are.
    rest_bytes: usize,
}

impl RecordRewriter {
    fn new(base_ms: i64, fixed_ms: Option<i64>) -> Self {
        Self {
            base_ms,
            fixed_ms,
            new_base_ms: None,
            next_offset_delta: 0,
            head: [0; HEAD_BYTES_MAX],
            head_bytes: 0,
            fields: Vec::with_capacity(HEAD_BYTES_MAX),
            rest_bytes: 0,
        }
    }

    fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), BatchError> {
        while !bytes.is_empty() {
            if self.rest_bytes > 0 {
                let (rest, more) = bytes.split_at(self.rest_bytes.min(bytes.len()));
                out.extend_from_slice(rest);
                self.rest_bytes -= rest.len();
                bytes = more;
                continue;
            }
            // The head's end is not known before it is read: bytes of what follows may be looked at, and stay.
            let before = self.head_bytes;
            let looked_at = bytes.len().min(HEAD_BYTES_MAX - before);
            self.head[before..before + looked_at].copy_from_slice(&bytes[..looked_at]);
            let Some(head) = Head::parse(&self.head[..before + looked_at]) else {
                self.head_bytes += looked_at;
                if self.head_bytes == HEAD_BYTES_MAX {
                    return Err(Invalidity::Record.into());
                }
                return Ok(());
            };
            bytes = bytes.get(head.len_bytes - before..).unwrap_or_default();
            self.head_bytes = 0;
            self.rest_bytes = head.rest_bytes.ok_or(Invalidity::Record)?;
            self.write(&head, out)?;
        }
        Ok(())
    }

    fn write(&mut self, head: &Head, out: &mut Vec<u8>) -> Result<(), BatchError> {
        let timestamp_ms = self.fixed_ms.unwrap_or(self.base_ms.wrapping_add(head.timestamp_delta_ms));
        if timestamp_ms < 0 && timestamp_ms != TimestampMs::NONE.0 {
            // Kafka's writer of batches has no such times, and fails without a code of its own.
            return Err(BatchError::Undecodable);
        }
        let base_ms = *self.new_base_ms.get_or_insert(timestamp_ms);
        self.fields.clear();
        // The attributes: Kafka has no bit of them in use, and writes 0.
        self.fields.push(0);
        put_varlong(&mut self.fields, timestamp_ms.wrapping_sub(base_ms));
        put_varint(&mut self.fields, self.next_offset_delta);
        let body_bytes = i32::try_from(self.fields.len() + self.rest_bytes).map_err(|_| Invalidity::Record)?;
        put_varint(out, body_bytes);
        out.extend_from_slice(&self.fields);
        self.next_offset_delta = self.next_offset_delta.wrapping_add(1);
        Ok(())
    }
}

/// The fields of a record before its key.
struct Head {
    timestamp_delta_ms: i64,
    /// Of the head itself.
    len_bytes: usize,
    /// Of the record behind it; `None` where the record's length cannot be right.
    rest_bytes: Option<usize>,
}

impl Head {
    /// `None` where `bytes` ends before the head does.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut at = 0;
        let body_bytes = varint(bytes, &mut at)?;
        let body_at = at;
        at += 1;
        let timestamp_delta_ms = varlong(bytes, &mut at)?;
        let _offset_delta = varint(bytes, &mut at)?;
        let rest_bytes = usize::try_from(body_bytes).ok().and_then(|body| body.checked_sub(at - body_at));
        Some(Self { timestamp_delta_ms, len_bytes: at, rest_bytes })
    }
}

/// Length, attributes, timestamp, offset.
const HEAD_BYTES_MAX: usize = VARINT_BYTES_MAX + 1 + VARLONG_BYTES_MAX + VARINT_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{CRC_COVERS_FROM, parse_header};
    use crate::record::builder::BatchBuilder;
    use crate::record::check::{DeepCheck, Progress, check_for_append};
    use crate::record::offset::ProducerId;
    use crate::record::record_tally::AppendLimits;
    use crate::record::record_walk::RecordWalk;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn limits(codec: Option<Codec>) -> AppendLimits {
        AppendLimits {
            max_message_bytes: 1 << 20,
            segment_bytes: 1 << 30,
            compact: false,
            log_append_time: false,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            now_ms: NOW_MS,
            codec,
            record_bytes_max: i32::MAX as u32,
        }
    }

    fn batch(compression: Compression, count: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new().compression(compression).producer(ProducerId(77), 3, 500);
        for number in 0..count {
            let value: Vec<u8> = (0..number * 41 % 5000).map(|at| (at * number % 253) as u8).collect();
            let timestamp_ms = NOW_MS + (number as i64 * 7919) % 100_000;
            let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", Some(b"v")), (b"", None)];
            match number % 3 {
                0 => builder.add(timestamp_ms, None, Some(&value)),
                1 => builder.add(timestamp_ms, Some(&number.to_be_bytes()), None),
                _ => builder.add_with_headers(timestamp_ms, Some(b""), Some(&value), &headers),
            }
        }
        builder.build().expect("the codecs work")
    }

    fn recompress(bytes: &[u8], codec: Codec, limits: &AppendLimits, slice: usize) -> Result<Vec<u8>, BatchError> {
        let mut check = DeepCheck::begin(bytes, limits)?;
        let checked = loop {
            if let Progress::Done(checked) = check.step(bytes, 1000)? {
                break checked;
            }
        };
        assert_eq!(check.recompression(), limits.codec.filter(|codec| codec.compression != checked.compression()));
        let (header, size) = (check.header(), check.records_bytes());
        let mut recompressor = Recompressor::begin(header, &checked, codec, size, limits.max_message_bytes)?;
        while recompressor.step(bytes, slice)? == Recompressed::More {}
        let (bytes, again) = recompressor.finish()?;
        let header = parse_header(&bytes)?;
        assert_eq!(header.crc, batch::crc32c(&bytes[CRC_COVERS_FROM..]));
        assert_eq!(
            CheckedBatch { max_timestamp_offset_delta: header.last_offset_delta, ..again },
            CheckedBatch::from_header(&header)
        );
        Ok(bytes)
    }

    /// Every codec into every other one and back to plain records is what plain records were from the beginning.
    #[test]
    fn every_pair_of_codecs_keeps_the_records() {
        for from in Compression::ALL {
            for to in Compression::ALL.into_iter().filter(|to| *to != from) {
                for (count, slice) in [(1, 1), (7, 13), (400, 4096), (400, usize::MAX)] {
                    let context = format!("{from:?} to {to:?}, {count} records, slices of {slice}");
                    let limits_to = limits(Some(Codec::new(to)));
                    let bytes = recompress(&batch(from, count), Codec::new(to), &limits_to, slice)
                        .unwrap_or_else(|error| panic!("{context}: {error}"));
                    let checked = check_for_append(&bytes, &limits(None)).expect(&context);
                    assert_eq!(
                        (checked.compression(), checked.base_sequence, checked.producer_id.0),
                        (to, 500, 77),
                        "{context}"
                    );
                    let plain = match to {
                        Compression::None => bytes,
                        _ => {
                            let plain = Codec::new(Compression::None);
                            recompress(&bytes, plain, &limits(Some(plain)), slice).expect(&context)
                        }
                    };
                    assert_eq!(plain, batch(Compression::None, count), "{context}");
                }
            }
        }
    }

    #[test]
    fn levels_are_kept_within_their_libraries() {
        let plain = batch(Compression::None, 300);
        for (compression, levels) in [
            (Compression::Gzip, vec![1, 9]),
            (Compression::Lz4, vec![1, 8, 17]),
            (Compression::Zstd, vec![-131_072, 1, 12, 19, 22]),
        ] {
            for level in levels {
                let codec = Codec { compression, level };
                let bytes = recompress(&plain, codec, &limits(Some(codec)), 16 << 10).expect("recompresses");
                let none = Codec::new(Compression::None);
                let back = recompress(&bytes, none, &limits(Some(none)), 16 << 10);
                assert_eq!(back.as_deref(), Ok(&plain[..]), "{compression:?} at level {level}");
            }
        }
    }

    /// As Kafka's broker, which builds the batch anew: gaps go, times count from the first record's.
    #[test]
    fn records_are_numbered_and_timed_anew() {
        let mut bytes = vec![0; HEADER_BYTES];
        // Two records with deltas of offset 0 and 0, and of time 5 and -3.
        for (time, key) in [(10_u8, 1), (5, 1)] {
            bytes.extend_from_slice(&[12, 9, time, 0, key, key, 0]);
        }
        let good = batch(Compression::None, 2);
        bytes[..HEADER_BYTES].copy_from_slice(&good[..HEADER_BYTES]);
        let length = (bytes.len() - LEN_PREFIX_BYTES) as i32;
        bytes[batch::BATCH_LENGTH_AT..batch::BATCH_LENGTH_AT + 4].copy_from_slice(&length.to_be_bytes());
        batch::stamp_crc(&mut bytes);
        let zstd = Codec::new(Compression::Zstd);
        let compressed = recompress(&bytes, zstd, &limits(Some(zstd)), 5).expect("gaps are no fault then");
        let none = Codec::new(Compression::None);
        let plain = recompress(&compressed, none, &limits(Some(none)), 5).expect("a good batch");
        let (header, walk) = RecordWalk::new(&plain).expect("a batch");
        let found: Vec<_> = walk.map(|record| record.map(|r| (r.offset_delta, r.timestamp_delta_ms))).collect();
        assert_eq!(found, [Ok((0, 0)), Ok((1, -8))]);
        assert_eq!((header.base_timestamp.0, header.max_timestamp.0), (NOW_MS + 5, NOW_MS + 5));
    }

    #[test]
    fn what_grows_past_the_limit_is_refused_before_it_is_whole() {
        let mut builder = BatchBuilder::new().compression(Compression::Gzip);
        builder.add(NOW_MS, None, Some(&vec![0; 50 << 20]));
        let bytes = builder.build().expect("the codecs work");
        let none = Codec::new(Compression::None);
        let limits = limits(Some(none));
        let checked = check_for_append(&bytes, &limits).expect("a good batch");
        let header = parse_header(&bytes).expect("a good batch");
        let mut recompressor =
            Recompressor::begin(&header, &checked, none, 50 << 20, limits.max_message_bytes).expect("begins");
        let error = loop {
            match recompressor.step(&bytes, 16 << 10) {
                Ok(step) => assert_eq!(step, Recompressed::More),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, BatchError::TooLarge { max_bytes: 1_048_576, .. }), "{error}");
        assert!(recompressor.output_bytes() < (1 << 20) + (64 << 10), "{} bytes", recompressor.output_bytes());
    }
}
