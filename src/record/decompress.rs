//! Decompression in bounded memory (first version: nothing is looked at).

use crate::record::batch_error::BatchError;
use crate::record::check::RecordTally;
use crate::record::compression::Compression;

/// A stream of compressed records.
pub(in crate::record) struct Decompressor {
    _codec: Compression,
}

impl Decompressor {
    pub(in crate::record) fn new(codec: Compression) -> Result<Self, BatchError> {
        Ok(Self { _codec: codec })
    }

    pub(in crate::record) fn step(&mut self, bytes: &[u8], _: &mut RecordTally) -> Result<(usize, usize), BatchError> {
        Ok((bytes.len(), 0))
    }

    pub(in crate::record) fn finish(&mut self, _: &mut RecordTally) -> Result<(), BatchError> {
        Ok(())
    }
}
