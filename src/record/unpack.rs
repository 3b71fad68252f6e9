//! A batch's records in plain form, unpacked in slices and in bounded memory.

use crate::record::batch_error::BatchError;
use crate::record::compression::Compression;
use crate::record::decompress::Decompressor;

/// One compressed batch on its way to plain records.
pub struct Unpacker {
    decompressor: Decompressor,
    /// Compressed bytes that were taken.
    at: usize,
    plain: Vec<u8>,
    plain_bytes_max: usize,
}

impl Unpacker {
    /// Begins a batch of this codec. `plain` is memory to use again; what it holds is dropped. More than
    /// `plain_bytes_max` are refused.
    ///
    /// # Errors
    /// `Undecodable` where a library has no memory, or the batch is not compressed.
    pub fn begin(compression: Compression, mut plain: Vec<u8>, plain_bytes_max: usize) -> Result<Self, BatchError> {
        plain.clear();
        Ok(Self { decompressor: Decompressor::new(compression)?, at: 0, plain, plain_bytes_max })
    }

    /// Goes on with at most about `budget_bytes` of plain records; false when all are there. `body` is what follows the
    /// batch's header, the same at each call.
    ///
    /// # Errors
    /// The codec fails, or there are too many bytes.
    pub fn step(&mut self, body: &[u8], budget_bytes: usize) -> Result<bool, BatchError> {
        let Self { decompressor, at, plain, plain_bytes_max } = self;
        let mut sink = |bytes: &[u8]| {
            if bytes.len() > *plain_bytes_max - plain.len() {
                let max_bytes = u32::try_from(*plain_bytes_max).unwrap_or(u32::MAX);
                return Err(BatchError::TooLarge { len_bytes: u32::MAX, max_bytes });
            }
            plain.extend_from_slice(bytes);
            Ok(())
        };
        let mut made_in_all = 0;
        loop {
            let (used_bytes, made_bytes) = decompressor.step(body.get(*at..).unwrap_or_default(), &mut sink)?;
            *at += used_bytes;
            made_in_all += made_bytes;
            if used_bytes == 0 && made_bytes == 0 {
                if *at < body.len() {
                    return Err(BatchError::Undecodable);
                }
                decompressor.finish(&mut sink)?;
                return Ok(false);
            }
            if made_in_all >= budget_bytes {
                return Ok(true);
            }
        }
    }

    /// The plain records, once [`step`](Self::step) said that all are there.
    pub fn finish(self) -> Vec<u8> {
        self.plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::HEADER_BYTES;
    use crate::record::builder::BatchBuilder;

    #[test]
    fn every_codec_unpacks_in_slices_and_no_further_than_allowed() {
        let build = |compression| {
            let mut builder = BatchBuilder::new().compression(compression);
            for number in 0..2000_u32 {
                builder.add(1, Some(&number.to_be_bytes()), Some(&[7; 100]));
            }
            builder.build().expect("the codecs work")
        };
        let plain = build(Compression::None)[HEADER_BYTES..].to_vec();
        for compression in Compression::ALL.into_iter().filter(|codec| *codec != Compression::None) {
            let batch = build(compression);
            let unpack = |bytes_max| {
                let mut unpacker = Unpacker::begin(compression, vec![1; 10], bytes_max)?;
                while unpacker.step(&batch[HEADER_BYTES..], 1000)? {}
                Ok(unpacker.finish())
            };
            assert_eq!(unpack(plain.len()).as_ref(), Ok(&plain), "{compression:?}");
            let refused: Result<Vec<u8>, BatchError> = unpack(plain.len() - 1);
            assert!(matches!(refused, Err(BatchError::TooLarge { .. })), "{compression:?}");
        }
    }
}
