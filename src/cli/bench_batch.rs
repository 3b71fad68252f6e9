//! One record batch to send over and over.

use std::io;

use crate::record::builder::BatchBuilder;
use crate::record::compression::Compression;

/// A record batch of no producer and how many records it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrebuiltBatch {
    /// The batch as Produce carries it, base offset 0.
    pub bytes: Vec<u8>,
    /// How many records are in it.
    pub record_count: u32,
}

impl PrebuiltBatch {
    /// Fills a batch with records of `record_bytes` random letters, as many as `batch_bytes` hold before compression, at
    /// least one.
    ///
    /// # Errors
    /// Where a compressor fails.
    pub fn build(
        batch_bytes: u32,
        record_bytes: u32,
        compression: Compression,
        timestamp_ms: i64,
        seed: u64,
    ) -> io::Result<Self> {
        let mut state = seed | 1;
        let mut builder = BatchBuilder::new().compression(compression);
        let mut value = Vec::with_capacity(record_bytes as usize);
        loop {
            value.clear();
            value.extend((0..record_bytes).map(|_| letter(&mut state)));
            let full = builder.len_bytes() + value.len() + RECORD_HEAD_BYTES_MAX;
            if builder.record_count() > 0 && full > batch_bytes as usize {
                break;
            }
            builder.add(timestamp_ms, None, Some(&value));
        }
        Ok(Self { bytes: builder.build()?, record_count: builder.record_count().unsigned_abs() })
    }
}

/// Random letters do not compress to nothing, and can be read in a dump.
fn letter(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    b'A' + (*state % 26) as u8
}

/// Two lengths and an offset of 5 bytes at most, and four single bytes.
const RECORD_HEAD_BYTES_MAX: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch;

    #[test]
    fn batches_hold_what_fits() {
        for compression in Compression::ALL {
            for (batch_bytes, record_bytes) in [(1, 1), (16384, 1024), (1_000_000, 100), (1024, 900)] {
                let name = format!("{batch_bytes} of {record_bytes}, {}", compression.name());
                let built = PrebuiltBatch::build(batch_bytes, record_bytes, compression, 1_700_000_000_000, 7);
                let built = built.unwrap_or_else(|error| panic!("{name}: {error}"));
                let header = batch::parse_header(&built.bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(header.len_bytes as usize, built.bytes.len(), "{name}");
                assert_eq!(header.record_count.unsigned_abs(), built.record_count, "{name}");
                assert_eq!(crc32c::crc32c(&built.bytes[batch::CRC_COVERS_FROM..]), header.crc, "{name}");
                let fits = built.bytes.len() <= batch_bytes as usize;
                assert!(fits || built.record_count == 1, "{name}: {}", built.bytes.len());
            }
        }
    }
}
