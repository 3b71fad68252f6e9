//! The first record of a batch with a timestamp at or above a target, in slices.

use crate::record::batch::BatchHeader;
use crate::record::batch_error::BatchError;
use crate::record::compression::Compression;
use crate::record::decompress::Decompressor;
use crate::record::offset::{Offset, TimestampMs};
use crate::record::record_fields::RecordSketch;
use crate::record::record_stream::RecordStream;
use crate::record::record_tally::RecordSink;

/// A search through the records of one batch, which come in pieces. Keeps nothing of keys and values.
pub struct RecordSearch {
    codec: Codec,
    wanted: Wanted,
}

// One lives at a time, in the search.
#[allow(clippy::large_enum_variant)]
enum Codec {
    Plain(RecordStream),
    Compressed(Decompressor),
}

struct Wanted {
    header: BatchHeader,
    target: TimestampMs,
    from: Offset,
    left: i32,
    found: Option<(Offset, TimestampMs)>,
}

impl RecordSearch {
    /// For the first record at or above both `target` and the offset `from`, in the batch with this header.
    ///
    /// # Errors
    /// `Undecodable` where the header names no codec.
    pub fn new(header: &BatchHeader, target: TimestampMs, from: Offset) -> Result<Self, BatchError> {
        let codec = match header.attributes.compression().ok_or(BatchError::Undecodable)? {
            Compression::None => Codec::Plain(RecordStream::default()),
            codec => Codec::Compressed(Decompressor::new(codec)?),
        };
        let wanted = Wanted { header: *header, target, from, left: header.record_count, found: None };
        Ok(Self { codec, wanted })
    }

    /// True where the records may be fed piece by piece; else [`step`](Self::step) needs all that is left of them.
    pub fn takes_pieces(&self) -> bool {
        matches!(self.codec, Codec::Plain(_))
    }

    /// Takes in one piece from the front of `records`: says how many bytes of them it used, and how many it looked at.
    ///
    /// # Errors
    /// Where they are no records.
    pub fn step(&mut self, records: &[u8]) -> Result<(usize, usize), BatchError> {
        match &mut self.codec {
            Codec::Plain(stream) => {
                stream.feed(records, &mut self.wanted)?;
                Ok((records.len(), records.len()))
            }
            Codec::Compressed(decompressor) => decompressor.step(records, &mut self.wanted),
        }
    }

    /// The offset and timestamp of the record, once it was met.
    pub fn found(&self) -> Option<(Offset, TimestampMs)> {
        self.wanted.found
    }
}

impl RecordSink for Wanted {
    fn left(&self) -> i32 {
        self.left
    }

    fn add(&mut self, record: RecordSketch) {
        self.left -= 1;
        if self.found.is_some() {
            return;
        }
        let timestamp = match self.header.attributes.is_log_append_time() {
            true => self.header.max_timestamp,
            false => TimestampMs(self.header.base_timestamp.0.wrapping_add(record.timestamp_delta_ms)),
        };
        let offset = self.header.base_offset.plus(i64::from(record.offset_delta));
        if timestamp >= self.target && offset >= self.from {
            self.found = Some((offset, timestamp));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{HEADER_BYTES, parse_header, stamp, stamp_timestamp};
    use crate::record::builder::BatchBuilder;
    use crate::record::offset::LeaderEpoch;

    fn search(batch: &[u8], target: i64, from: i64, piece: usize) -> Option<(i64, i64)> {
        let header = parse_header(batch).expect("built");
        let mut search = RecordSearch::new(&header, TimestampMs(target), Offset(from)).expect("a codec");
        let mut at = HEADER_BYTES;
        while search.found().is_none() {
            let end = if search.takes_pieces() { batch.len().min(at + piece) } else { batch.len() };
            let (used_bytes, seen_bytes) = search.step(&batch[at..end]).expect("good records");
            at += used_bytes;
            if used_bytes == 0 && seen_bytes == 0 {
                break;
            }
        }
        search.found().map(|(offset, timestamp)| (offset.0, timestamp.0))
    }

    /// C003: the record inside the batch, also when it is compressed; C005: the earliest of those with the largest time.
    #[test]
    fn c003_c005_the_record_is_found_inside_the_batch() {
        for codec in Compression::ALL {
            for piece in [1, 7, 100_000] {
                let mut builder = BatchBuilder::new().compression(codec);
                for timestamp in [100, 101, 50, 104, 103, 104] {
                    builder.add(timestamp, Some(b"key"), Some(&[7; 300]));
                }
                let mut batch = builder.build().expect("the codecs work");
                stamp(&mut batch, Offset(10), LeaderEpoch(0));
                let cases = [
                    ((0, 0), Some((10, 100))),
                    ((101, 0), Some((11, 101))),
                    ((102, 0), Some((13, 104))),
                    ((104, 14), Some((15, 104))),
                    ((50, 12), Some((12, 50))),
                    ((105, 0), None),
                    ((0, 16), None),
                ];
                for ((target, from), expected) in cases {
                    let what = format!("{codec:?} in pieces of {piece}: {target} from {from}");
                    assert_eq!(search(&batch, target, from, piece), expected, "{what}");
                }
                stamp_timestamp(&mut batch, true, TimestampMs(900));
                assert_eq!(search(&batch, 900, 12, piece), Some((12, 900)), "{codec:?}: log append time");
            }
        }
    }
}
