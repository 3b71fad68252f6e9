//! Makes record batches: for the command line, the load generator and tests.

use crate::record::batch::{
    self, BATCH_LENGTH_AT, COMPRESSION_BITS, HEADER_BYTES, LEN_PREFIX_BYTES, MAGIC_V2, stamp_crc,
};
use crate::record::compression::Compression;
use crate::record::compressor::{Codec, Compressor};
use crate::record::offset::{LeaderEpoch, Offset, ProducerId};

/// Gathers records and makes one batch of them, with base offset 0 and no leader epoch, as a producer sends it.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    compression: Compression,
    producer: (ProducerId, i16, i32),
    attributes: i16,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
    record_count: i32,
    records: Vec<u8>,
    scratch: Vec<u8>,
}

impl BatchBuilder {
    /// An uncompressed batch of no producer.
    pub fn new() -> Self {
        Self {
            compression: Compression::None,
            producer: (ProducerId::NONE, -1, -1),
            attributes: 0,
            base_timestamp_ms: -1,
            max_timestamp_ms: -1,
            record_count: 0,
            records: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Compresses the records.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Makes it an idempotent producer's.
    #[must_use]
    pub fn producer(mut self, id: ProducerId, epoch: i16, base_sequence: i32) -> Self {
        self.producer = (id, epoch, base_sequence);
        self
    }

    /// Sets attribute bits besides the codec.
    #[must_use]
    pub fn attributes(mut self, bits: i16) -> Self {
        self.attributes = bits & !COMPRESSION_BITS;
        self
    }

    /// Adds a record without headers.
    pub fn add(&mut self, timestamp_ms: i64, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.add_with_headers(timestamp_ms, key, value, &[]);
    }

    /// Adds a record.
    pub fn add_with_headers(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        if self.record_count == 0 {
            self.base_timestamp_ms = timestamp_ms;
            self.max_timestamp_ms = timestamp_ms;
        }
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        let body = &mut self.scratch;
        body.clear();
        body.push(0);
        put_varlong(body, timestamp_ms.wrapping_sub(self.base_timestamp_ms));
        put_varint(body, self.record_count);
        put_nullable(body, key);
        put_nullable(body, value);
        put_len(body, headers.len());
        for (header_key, header_value) in headers {
            put_nullable(body, Some(header_key));
            put_nullable(body, *header_value);
        }
        put_len(&mut self.records, body.len());
        self.records.extend_from_slice(body);
        self.record_count += 1;
    }

    /// Records so far.
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Length of the batch as it is, before compression.
    pub fn len_bytes(&self) -> usize {
        HEADER_BYTES + self.records.len()
    }

    /// The batch, with its CRC.
    ///
    /// # Errors
    /// Where a compressor fails.
    pub fn build(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; HEADER_BYTES];
        compress(self.compression, &self.records, &mut bytes)?;
        let length = i32::try_from(bytes.len() - LEN_PREFIX_BYTES).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
        batch::stamp(&mut bytes, Offset::ZERO, LeaderEpoch::NONE);
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(BATCH_LENGTH_AT, &length.to_be_bytes());
        put(batch::MAGIC_AT, &[MAGIC_V2]);
        put(batch::ATTRIBUTES_AT, &(self.attributes | self.compression.bits()).to_be_bytes());
        put(batch::LAST_OFFSET_DELTA_AT, &(self.record_count - 1).to_be_bytes());
        put(batch::BASE_TIMESTAMP_AT, &self.base_timestamp_ms.to_be_bytes());
        put(batch::MAX_TIMESTAMP_AT, &self.max_timestamp_ms.to_be_bytes());
        put(batch::PRODUCER_ID_AT, &self.producer.0.0.to_be_bytes());
        put(batch::PRODUCER_EPOCH_AT, &self.producer.1.to_be_bytes());
        put(batch::BASE_SEQUENCE_AT, &self.producer.2.to_be_bytes());
        put(batch::RECORD_COUNT_AT, &self.record_count.to_be_bytes());
        stamp_crc(&mut bytes);
        Ok(bytes)
    }
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// Adds `records` to `bytes` in the codec's form, as the Java client writes it.
///
/// # Errors
/// Where the compressor fails.
pub fn compress(compression: Compression, records: &[u8], bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let mut compressor = Compressor::new(Codec::new(compression), std::mem::take(bytes), records.len() as u64)?;
    compressor.write(records)?;
    *bytes = compressor.finish()?;
    Ok(())
}

fn put_nullable(bytes: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        Some(field) => {
            put_len(bytes, field.len());
            bytes.extend_from_slice(field);
        }
        None => put_varint(bytes, -1),
    }
}

fn put_len(bytes: &mut Vec<u8>, len: usize) {
    put_varint(bytes, i32::try_from(len).unwrap_or(i32::MAX));
}

pub(in crate::record) fn put_varint(bytes: &mut Vec<u8>, value: i32) {
    put_unsigned(bytes, u64::from(((value << 1) ^ (value >> 31)).cast_unsigned()));
}

pub(in crate::record) fn put_varlong(bytes: &mut Vec<u8>, value: i64) {
    put_unsigned(bytes, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

fn put_unsigned(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
