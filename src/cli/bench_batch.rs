//! One record batch to send over and over.

use crate::wire::writer;

/// A record batch (format v2, no compression, no producer id) and how many records it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrebuiltBatch {
    /// The batch as Produce carries it, base offset 0.
    pub bytes: Vec<u8>,
    /// How many records are in it.
    pub record_count: u32,
}

impl PrebuiltBatch {
    /// Fills a batch with records of `record_bytes` random letters, as many as `batch_bytes` hold, at least one.
    pub fn build(batch_bytes: u32, record_bytes: u32, timestamp_ms: i64, seed: u64) -> Self {
        let mut state = seed | 1;
        let mut records = Vec::with_capacity(batch_bytes as usize);
        let mut record = Vec::with_capacity(record_bytes as usize + RECORD_HEAD_BYTES_MAX);
        let mut record_count = 0_u32;
        loop {
            record.clear();
            writer::int8(&mut record, 0);
            writer::varint(&mut record, 0); // timestamp delta
            writer::varint(&mut record, record_count as i32);
            writer::varint(&mut record, -1); // no key
            writer::varint(&mut record, record_bytes as i32);
            record.extend((0..record_bytes).map(|_| letter(&mut state)));
            writer::varint(&mut record, 0); // no headers
            let full = BATCH_HEADER_BYTES + records.len() + record.len() + VARINT_BYTES_MAX;
            if record_count > 0 && full > batch_bytes as usize {
                break;
            }
            writer::varint(&mut records, record.len() as i32);
            records.extend_from_slice(&record);
            record_count += 1;
        }
        let mut checked = Vec::with_capacity(records.len() + BATCH_HEADER_BYTES);
        writer::int16(&mut checked, 0); // attributes
        writer::int32(&mut checked, record_count as i32 - 1);
        writer::int64(&mut checked, timestamp_ms);
        writer::int64(&mut checked, timestamp_ms);
        writer::int64(&mut checked, -1); // producer id
        writer::int16(&mut checked, -1);
        writer::int32(&mut checked, -1); // base sequence
        writer::int32(&mut checked, record_count as i32);
        checked.extend_from_slice(&records);
        let mut bytes = Vec::with_capacity(checked.len() + CRC_END_BYTES);
        writer::int64(&mut bytes, 0);
        writer::int32(&mut bytes, (checked.len() + CRC_END_BYTES - LENGTH_END_BYTES) as i32);
        writer::int32(&mut bytes, -1); // leader epoch
        writer::int8(&mut bytes, 2); // magic
        writer::uint32(&mut bytes, crc32c(&checked));
        bytes.extend_from_slice(&checked);
        Self {
            bytes,
            record_count,
        }
    }
}

/// CRC-32C, the checksum of a record batch from its attributes on.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Random letters do not compress to nothing, and can be read in a dump.
fn letter(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    b'A' + (*state % 26) as u8
}

/// Bytes of a batch before its records.
pub const BATCH_HEADER_BYTES: usize = 61;
/// Base offset and length: what the batch's length does not count.
pub const LENGTH_END_BYTES: usize = 12;
/// Where the CRC stands; it covers what follows it.
pub const CRC_AT: usize = 17;
/// Where the CRC's range begins.
pub const CRC_END_BYTES: usize = 21;
/// Where the last offset stands, counted from the base offset.
pub const LAST_OFFSET_DELTA_AT: usize = 23;

const VARINT_BYTES_MAX: usize = 5;
const RECORD_HEAD_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_what_fits() {
        for (batch_bytes, record_bytes) in [(1, 1), (16384, 1024), (1_000_000, 100), (1024, 900)] {
            let batch = PrebuiltBatch::build(batch_bytes, record_bytes, 1_700_000_000_000, 7);
            let name = format!("{batch_bytes} of {record_bytes}");
            let bytes = &batch.bytes;
            let fits = bytes.len() <= batch_bytes as usize;
            assert!(fits || batch.record_count == 1, "{name}: {}", bytes.len());
            let int32 = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().expect("4"));
            assert_eq!(int32(8) as usize + LENGTH_END_BYTES, bytes.len(), "{name}");
            assert_eq!(bytes[16], 2, "{name}");
            assert_eq!(int32(LAST_OFFSET_DELTA_AT) + 1, batch.record_count as i32, "{name}");
            assert_eq!(int32(57), batch.record_count as i32, "{name}");
            let second = crc32c::crc32c(&bytes[CRC_END_BYTES..]);
            assert_eq!(int32(CRC_AT) as u32, second, "{name}");
        }
    }
}
