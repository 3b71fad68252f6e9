//! One record inside a batch: its fields by varints, read in place.

use crate::record::batch_error::{BatchError, Invalidity};

/// One record, borrowed from its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Timestamp, less the batch's base timestamp.
    pub timestamp_delta_ms: i64,
    /// Offset, less the batch's base offset.
    pub offset_delta: i32,
    /// Key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// Value; `None` is null.
    pub value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

impl<'a> Record<'a> {
    /// Its headers, in order; a key may repeat.
    pub fn headers(&self) -> Headers<'a> {
        self.headers
    }

    /// Reads the record that `bytes` begins with, and says how many bytes it has.
    ///
    /// # Errors
    /// `Invalid(Record)` where a length disagrees with another or reaches beyond `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), BatchError> {
        Self::parse_inner(bytes).ok_or(BatchError::Invalid(Invalidity::Record))
    }

    fn parse_inner(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut at = 0;
        let body_bytes = usize::try_from(varint(bytes, &mut at)?).ok()?;
        let end = at.checked_add(body_bytes)?;
        let body = bytes.get(at..end)?;
        let mut at = 1; // attributes: no bit of them is in use
        let timestamp_delta_ms = varlong(body, &mut at)?;
        let offset_delta = varint(body, &mut at)?;
        let key = nullable_bytes(body, &mut at)?;
        let value = nullable_bytes(body, &mut at)?;
        let count = u32::try_from(varint(body, &mut at)?).ok()?;
        let headers = Headers { bytes: body.get(at..)?, left: count };
        let mut rest = headers;
        for _ in 0..count {
            rest.next()?;
        }
        if !rest.bytes.is_empty() {
            return None;
        }
        Some((Self { timestamp_delta_ms, offset_delta, key, value, headers }, end))
    }
}

/// The headers of a record: key and nullable value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut at = 0;
        let key = nullable_bytes(self.bytes, &mut at)??;
        let value = nullable_bytes(self.bytes, &mut at)?;
        self.bytes = self.bytes.get(at..)?;
        Some((key, value))
    }
}

/// What a check of a record keeps of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::record) struct RecordSketch {
    pub(in crate::record) timestamp_delta_ms: i64,
    pub(in crate::record) offset_delta: i32,
    pub(in crate::record) keyless: bool,
}

/// Checks the record that starts at `at`, and moves `at` behind it. `None` where it is not well-formed.
///
/// The hot loop of every produce: no slices are made of keys and values, each length is only compared.
#[inline]
pub(in crate::record) fn sketch_record(bytes: &[u8], at: &mut usize) -> Option<RecordSketch> {
    let mut cursor = *at;
    let body_bytes = usize::try_from(varint(bytes, &mut cursor)?).ok()?;
    let end = cursor.checked_add(body_bytes)?;
    // All that follows is bounded by the record's own end.
    let record = bytes.get(..end)?;
    cursor += 1;
    let timestamp_delta_ms = varlong(record, &mut cursor)?;
    let offset_delta = varint(record, &mut cursor)?;
    let key_bytes = varint(record, &mut cursor)?;
    cursor = skip(cursor, key_bytes, end)?;
    let value_bytes = varint(record, &mut cursor)?;
    cursor = skip(cursor, value_bytes, end)?;
    let header_count = varint(record, &mut cursor)?;
    if header_count != 0 {
        cursor = skip_headers(record, cursor, header_count)?;
    }
    if cursor != end {
        return None;
    }
    *at = end;
    Some(RecordSketch { timestamp_delta_ms, offset_delta, keyless: key_bytes < 0 })
}

fn skip_headers(record: &[u8], mut cursor: usize, header_count: i32) -> Option<usize> {
    // Each header has two bytes at least, so a count above the bytes left is refused before the loop.
    let count = usize::try_from(header_count).ok()?;
    if count > record.len() - cursor {
        return None;
    }
    for _ in 0..count {
        let key_bytes = varint(record, &mut cursor)?;
        if key_bytes < 0 {
            return None;
        }
        cursor = skip(cursor, key_bytes, record.len())?;
        let value_bytes = varint(record, &mut cursor)?;
        cursor = skip(cursor, value_bytes, record.len())?;
    }
    Some(cursor)
}

/// Steps over a field of `len_bytes` (negative: null); `None` where it reaches beyond `end`.
#[inline(always)]
fn skip(cursor: usize, len_bytes: i32, end: usize) -> Option<usize> {
    let after = cursor + usize::try_from(len_bytes).unwrap_or(0);
    (after <= end).then_some(after)
}

fn nullable_bytes<'a>(bytes: &'a [u8], at: &mut usize) -> Option<Option<&'a [u8]>> {
    let Ok(len_bytes) = usize::try_from(varint(bytes, at)?) else {
        return Some(None);
    };
    let end = at.checked_add(len_bytes)?;
    let field = bytes.get(*at..end)?;
    *at = end;
    Some(Some(field))
}

/// A zigzag varint of at most 5 bytes.
#[inline(always)]
pub(in crate::record) fn varint(bytes: &[u8], at: &mut usize) -> Option<i32> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(zigzag32(u32::from(first)));
    }
    varint_long(bytes, at)
}

#[inline(always)]
fn varint_long(bytes: &[u8], at: &mut usize) -> Option<i32> {
    let mut value = u32::from(*bytes.get(*at)? & 0x7f);
    for count in 1..VARINT_BYTES_MAX {
        let byte = *bytes.get(*at + count)?;
        // Bits beyond the 32nd fall off, as in Kafka's reader.
        value |= u32::from(byte & 0x7f) << (7 * count);
        if byte < 0x80 {
            *at += count + 1;
            return Some(zigzag32(value));
        }
    }
    None
}

/// A zigzag varint of at most 10 bytes.
#[inline(always)]
pub(in crate::record) fn varlong(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(zigzag64(u64::from(first)));
    }
    varlong_long(bytes, at)
}

fn varlong_long(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut value = u64::from(*bytes.get(*at)? & 0x7f);
    for count in 1..VARLONG_BYTES_MAX {
        let byte = *bytes.get(*at + count)?;
        value |= u64::from(byte & 0x7f) << (7 * count);
        if byte < 0x80 {
            *at += count + 1;
            return Some(zigzag64(value));
        }
    }
    None
}

pub(in crate::record) fn zigzag32(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

pub(in crate::record) fn zigzag64(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

pub(in crate::record) const VARINT_BYTES_MAX: usize = 5;
pub(in crate::record) const VARLONG_BYTES_MAX: usize = 10;
