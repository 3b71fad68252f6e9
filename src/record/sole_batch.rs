//! The one batch that a request may send to a partition, found in the request's bytes.

use crate::record::batch::{
    BATCH_LENGTH_AT, BatchHeader, LEN_PREFIX_BYTES, MAGIC_AT, MAGIC_V2, batch_len_bytes, i32_at, parse_header,
};
use crate::record::batch_error::{BatchError, Corruption, Invalidity};

/// Whether the first batch of a request's records says that it is part of a transaction; its checks come later.
///
/// # Errors
/// Not even a reader that goes from batch to batch could take a step: Kafka then refuses the whole request.
pub fn begins_transactional(records: &[u8]) -> Result<bool, BatchError> {
    match whole_batch_len_bytes(records) {
        Ok(Some(len_bytes)) => {
            Ok(parse_header(&records[..len_bytes]).is_ok_and(|header| header.attributes.is_transactional()))
        }
        Ok(None) | Err(BatchError::Invalid(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The header of the first batch of a request's records, whatever follows it.
///
/// # Errors
/// In Kafka's order: the bytes say no length or magic that could be, there is no whole batch, its format is an old one.
pub fn first_header(records: &[u8]) -> Result<BatchHeader, BatchError> {
    let len_bytes = whole_batch_len_bytes(records)?.ok_or(Invalidity::NoBatch)?;
    match parse_header(records.get(..len_bytes).ok_or(Invalidity::NoBatch)?) {
        // The length is long enough for a batch of an old format, not for this one.
        Err(BatchError::Invalid(Invalidity::NoBatch)) => Err(Corruption::Length.into()),
        other => other,
    }
}

/// Looks behind the first batch. What follows may be junk, but no second batch; Kafka looks at it in the same way.
///
/// # Errors
/// There is a second batch, or what cannot be one and is too long to be cut off.
pub fn refuse_second(records: &[u8], first: &BatchHeader) -> Result<(), BatchError> {
    match whole_batch_len_bytes(records.get(first.len_bytes as usize..).unwrap_or_default())? {
        Some(_) => Err(Invalidity::SecondBatch.into()),
        None => Ok(()),
    }
}

/// As Kafka's reader of a buffer: `None` where no whole batch begins here (cut, or too short to tell).
fn whole_batch_len_bytes(bytes: &[u8]) -> Result<Option<usize>, BatchError> {
    if bytes.len() < LEN_PREFIX_BYTES {
        return Ok(None);
    }
    let length = i32_at(bytes, BATCH_LENGTH_AT).unwrap_or(-1);
    // The least length of any format; this format's own is checked after the magic.
    let Some(length) = usize::try_from(length).ok().filter(|length| *length >= OLD_RECORD_OVERHEAD_BYTES) else {
        return Err(Corruption::Length.into());
    };
    let Some(magic) = bytes.get(MAGIC_AT) else {
        return Ok(None);
    };
    if *magic > MAGIC_V2 {
        return Err(Corruption::Magic.into());
    }
    let len_bytes = length.saturating_add(LEN_PREFIX_BYTES);
    if len_bytes > bytes.len() {
        return Ok(None);
    }
    if *magic < MAGIC_V2 {
        return Err(Invalidity::OldMagic.into());
    }
    batch_len_bytes(bytes).map(|len| Some(len as usize))
}

/// Kafka's `LegacyRecord.RECORD_OVERHEAD_V0`.
const OLD_RECORD_OVERHEAD_BYTES: usize = 14;
