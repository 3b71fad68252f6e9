//! A lazy walk over the records of an uncompressed batch.

use crate::record::batch::{BatchHeader, HEADER_BYTES, parse_header};
use crate::record::batch_error::{BatchError, Invalidity};
use crate::record::record_fields::Record;

/// Yields the records of one uncompressed batch, in order. Ends after the first error.
pub struct RecordWalk<'a> {
    records: &'a [u8],
    left: i32,
}

impl<'a> RecordWalk<'a> {
    /// A walk over the batch that `batch` begins with. The CRC is not checked.
    ///
    /// # Errors
    /// Where the batch is not whole, or its header cannot be right; `Undecodable` where it is compressed.
    pub fn new(batch: &'a [u8]) -> Result<(BatchHeader, Self), BatchError> {
        let header = parse_header(batch)?;
        if header.attributes.compression() != Some(crate::record::compression::Compression::None) {
            return Err(BatchError::Undecodable);
        }
        let records =
            batch.get(HEADER_BYTES..header.len_bytes as usize).ok_or(BatchError::Invalid(Invalidity::NoBatch))?;
        Ok((header, Self { records, left: header.record_count }))
    }
}

impl<'a> Iterator for RecordWalk<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            let left_over = !std::mem::take(&mut self.records).is_empty();
            return left_over.then_some(Err(BatchError::Invalid(Invalidity::Record)));
        }
        self.left -= 1;
        match Record::parse(self.records) {
            Ok((record, len_bytes)) => {
                self.records = &self.records[len_bytes..];
                Some(Ok(record))
            }
            Err(error) => {
                self.left = 0;
                self.records = &[];
                Some(Err(error))
            }
        }
    }
}
