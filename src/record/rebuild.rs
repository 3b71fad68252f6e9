//! A batch with fewer records: what compaction writes in the place of one.
//!
//! As Kafka does it: base offset, last offset, producer and sequences stay, so that offsets keep their numbers and
//! sequences survive; the codec stays too. A batch that gets a delete horizon has that as its base timestamp (KIP-534).

use crate::record::batch::{
    self, BatchHeader, COMPRESSION_BITS, CONTROL_BIT, DELETE_HORIZON_BIT, HEADER_BYTES, LEN_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT, MAGIC_V2, TRANSACTIONAL_BIT,
};
use crate::record::batch_error::{BatchError, Invalidity};
use crate::record::builder::{put_varint, put_varlong};
use crate::record::compressor::{Codec, Compressor};
use crate::record::keyed_record::KeyedRecord;
use crate::record::offset::TimestampMs;

/// One batch that is written anew with the records that stay.
pub struct BatchRebuild {
    header: BatchHeader,
    compressor: Compressor,
    /// The base timestamp that is to be, where it is another one.
    new_base_ms: Option<i64>,
    head: Vec<u8>,
    scratch: Vec<u8>,
}

impl BatchRebuild {
    /// Begins with none of the records of a batch with this header. `delete_horizon_ms` is given where the batch is to
    /// have one and has none yet. `records_bytes`: about how many there will be, plain.
    ///
    /// # Errors
    /// `Undecodable` where the codec is unknown or has no memory.
    pub fn begin(header: &BatchHeader, delete_horizon_ms: Option<i64>, records_bytes: u64) -> Result<Self, BatchError> {
        let compression = header.attributes.compression().ok_or(BatchError::Undecodable)?;
        let compressor = Compressor::new(Codec::new(compression), vec![0; HEADER_BYTES], records_bytes)
            .map_err(|_| BatchError::Undecodable)?;
        let header = *header;
        Ok(Self { header, compressor, new_base_ms: delete_horizon_ms, head: Vec::new(), scratch: Vec::new() })
    }

    /// True where records can be added as they are, many at once.
    pub fn takes_runs(&self) -> bool {
        self.new_base_ms.is_none()
    }

    /// Adds records that lie one behind the other, as they are.
    ///
    /// # Errors
    /// `Undecodable` where the codec fails.
    pub fn add_run(&mut self, records: &[u8]) -> Result<(), BatchError> {
        assert!(self.takes_runs(), "the records' times count from another one now");
        self.compressor.write(records).map_err(|_| BatchError::Undecodable)
    }

    /// Adds one record of `records`, its time counted from the new base.
    ///
    /// # Errors
    /// `Undecodable` where the codec fails, `Invalid(Record)` where the record cannot be written.
    pub fn add(&mut self, records: &[u8], record: &KeyedRecord<'_>) -> Result<(), BatchError> {
        let Some(new_base_ms) = self.new_base_ms else {
            let run = records.get(record.range.clone()).ok_or(Invalidity::Record)?;
            return self.add_run(run);
        };
        let timestamp_ms = self.header.base_timestamp.0.wrapping_add(record.timestamp_delta_ms);
        let rest = records.get(record.key_at..record.range.end).ok_or(Invalidity::Record)?;
        self.head.clear();
        self.head.push(0);
        put_varlong(&mut self.head, timestamp_ms.wrapping_sub(new_base_ms));
        put_varint(&mut self.head, record.offset_delta);
        let body_bytes = i32::try_from(self.head.len() + rest.len()).map_err(|_| Invalidity::Record)?;
        self.scratch.clear();
        put_varint(&mut self.scratch, body_bytes);
        self.scratch.extend_from_slice(&self.head);
        self.scratch.extend_from_slice(rest);
        self.compressor.write(&self.scratch).map_err(|_| BatchError::Undecodable)
    }

    /// The batch of the `record_count` records that were added, whose largest timestamp is `max_timestamp`.
    ///
    /// # Errors
    /// `Undecodable` where the codec fails, `TooLarge` where its length does not fit the header.
    pub fn finish(self, record_count: i32, max_timestamp: TimestampMs) -> Result<Vec<u8>, BatchError> {
        let Self { header, compressor, new_base_ms, .. } = self;
        let mut bytes = compressor.finish().map_err(|_| BatchError::Undecodable)?;
        let attributes = header.attributes.0
            & (COMPRESSION_BITS | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT);
        let fields = Fields {
            attributes: if new_base_ms.is_some() { attributes | DELETE_HORIZON_BIT } else { attributes },
            base_timestamp: new_base_ms.map_or(header.base_timestamp, TimestampMs),
            max_timestamp: if header.attributes.is_log_append_time() { header.max_timestamp } else { max_timestamp },
            record_count,
        };
        write_header(&mut bytes, &header, &fields)?;
        Ok(bytes)
    }
}

/// The batch without any of its records: it says which offsets and sequences there were.
///
/// # Errors
/// None, for a header that was read from a log.
pub fn empty_batch(header: &BatchHeader) -> Result<Vec<u8>, BatchError> {
    let mut bytes = vec![0; HEADER_BYTES];
    let fields = Fields {
        attributes: header.attributes.0 & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT),
        base_timestamp: TimestampMs::NONE,
        max_timestamp: header.max_timestamp,
        record_count: 0,
    };
    write_header(&mut bytes, header, &fields)?;
    Ok(bytes)
}

/// What of a header changes.
struct Fields {
    attributes: i16,
    base_timestamp: TimestampMs,
    max_timestamp: TimestampMs,
    record_count: i32,
}

fn write_header(bytes: &mut [u8], header: &BatchHeader, fields: &Fields) -> Result<(), BatchError> {
    let too_large = BatchError::TooLarge { len_bytes: u32::MAX, max_bytes: i32::MAX.cast_unsigned() };
    let length = i32::try_from(bytes.len() - LEN_PREFIX_BYTES).map_err(|_| too_large)?;
    batch::stamp(bytes, header.base_offset, header.leader_epoch);
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(batch::BATCH_LENGTH_AT, &length.to_be_bytes());
    put(batch::MAGIC_AT, &[MAGIC_V2]);
    put(batch::ATTRIBUTES_AT, &fields.attributes.to_be_bytes());
    put(batch::LAST_OFFSET_DELTA_AT, &header.last_offset_delta.to_be_bytes());
    put(batch::BASE_TIMESTAMP_AT, &fields.base_timestamp.0.to_be_bytes());
    put(batch::MAX_TIMESTAMP_AT, &fields.max_timestamp.0.to_be_bytes());
    put(batch::PRODUCER_ID_AT, &header.producer_id.0.to_be_bytes());
    put(batch::PRODUCER_EPOCH_AT, &header.producer_epoch.to_be_bytes());
    put(batch::BASE_SEQUENCE_AT, &header.base_sequence.to_be_bytes());
    put(batch::RECORD_COUNT_AT, &fields.record_count.to_be_bytes());
    batch::stamp_crc(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::parse_header;
    use crate::record::builder::BatchBuilder;
    use crate::record::compression::Compression;
    use crate::record::keyed_record::RecordCursor;
    use crate::record::offset::{LeaderEpoch, Offset, ProducerId};
    use crate::record::record_reader::{check_crc, read_records};

    const COUNT: i32 = 50;

    /// Offset, time, key, value and number of headers.
    type Plain = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, usize);

    fn plain(batch: &[u8]) -> Vec<Plain> {
        let header = parse_header(batch).expect("a header");
        let mut records = Vec::new();
        read_records(batch, 1 << 20, |record| {
            let owned = |field: Option<&[u8]>| field.map(<[u8]>::to_vec);
            let (offset, time) = (header.base_offset.0 + i64::from(record.offset_delta), record.timestamp_delta_ms);
            let headers = record.headers().count();
            records.push((offset, header.base_timestamp.0 + time, owned(record.key), owned(record.value), headers));
        })
        .expect("well-formed");
        records
    }

    /// Offsets, times, keys, values and headers of what stays are what they were, in every codec.
    #[test]
    fn what_stays_is_what_it_was() {
        for compression in Compression::ALL {
            for horizon in [None, Some(5_000_000_000_000)] {
                let mut builder = BatchBuilder::new().compression(compression).producer(ProducerId(9), 2, 70);
                for number in 0..i64::from(COUNT) {
                    let key = number.to_be_bytes();
                    let value = (number % 5 != 0).then_some(&key[..]);
                    builder.add_with_headers(1_000 + number * 7 % 100, Some(&key), value, &[(b"h", Some(&key))]);
                }
                let mut bytes = builder.build().expect("the codecs work");
                batch::stamp(&mut bytes, Offset(1000), LeaderEpoch(4));
                let header = parse_header(&bytes).expect("built");
                let all = plain(&bytes);
                // The plain records of the batch.
                let mut uncompressed = BatchBuilder::new();
                for number in 0..i64::from(COUNT) {
                    let key = number.to_be_bytes();
                    let value = (number % 5 != 0).then_some(&key[..]);
                    uncompressed.add_with_headers(1_000 + number * 7 % 100, Some(&key), value, &[(b"h", Some(&key))]);
                }
                let records = uncompressed.build().expect("uncompressed")[HEADER_BYTES..].to_vec();
                let mut rebuild = BatchRebuild::begin(&header, horizon, records.len() as u64).expect("begins");
                let (mut cursor, mut kept) = (RecordCursor::new(&header), 0);
                while let Some(record) = cursor.next(&records).expect("well-formed") {
                    if record.offset_delta % 3 == 1 {
                        rebuild.add(&records, &record).expect("adds");
                        kept += 1;
                    }
                }
                let stays: Vec<_> = all.iter().filter(|record| (record.0 - 1000) % 3 == 1).cloned().collect();
                let max = stays.iter().map(|record| record.1).max().expect("some stay");
                let rebuilt = rebuild.finish(kept, TimestampMs(max)).expect("finishes");
                let context = format!("{compression:?}, horizon {horizon:?}");
                let after = check_crc(&rebuilt).expect(&context);
                assert_eq!(plain(&rebuilt), stays, "{context}");
                assert_eq!(after.base_timestamp.0, horizon.unwrap_or(header.base_timestamp.0), "{context}");
                assert_eq!(after.attributes.has_delete_horizon(), horizon.is_some(), "{context}");
                assert_eq!(after.attributes.compression(), Some(compression), "{context}");
                let same = |header: &BatchHeader| {
                    let BatchHeader { base_offset, leader_epoch, last_offset_delta, .. } = *header;
                    let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = *header;
                    (base_offset, leader_epoch, last_offset_delta, producer_id, producer_epoch, base_sequence)
                };
                assert_eq!(same(&after), same(&header), "{context}");
                let empty = empty_batch(&header).expect("a good header");
                let empty = check_crc(&empty).expect(&context);
                assert_eq!(same(&empty), same(&header), "{context}");
                assert_eq!((empty.record_count, empty.len_bytes as usize), (0, HEADER_BYTES), "{context}");
            }
        }
    }
}
