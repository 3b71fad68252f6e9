//! Write Kafka's primitive types straight into a reply.

use thiserror::Error;

use super::uuid::Uuid;

/// Why a message cannot be said in a version. What was written before the error is still in the output; the caller cuts it off.
///
/// These are mistakes of the side that made the message, never of the one that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The message does not exist in this version.
    #[error("{message} has no version {version}")]
    UnsupportedVersion {
        /// The message's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A field that may not be left out silently is set, and the version lacks it.
    #[error("{field} is set, which version {version} cannot say")]
    FieldNotInVersion {
        /// The field's name.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// Null where the version has no null.
    #[error("{field} is null, which this version does not allow")]
    Null {
        /// The field's name.
        field: &'static str,
    },
    /// A string, array or byte sequence longer than its length prefix can say.
    #[error("{field} is too long: {length}")]
    TooLong {
        /// The field's name.
        field: &'static str,
        /// Its length in bytes or elements.
        length: usize,
    },
}

/// Appends an 8-bit integer.
#[inline]
pub fn int8(out: &mut Vec<u8>, value: i8) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends one byte, 1 for true.
#[inline]
pub fn bool(out: &mut Vec<u8>, value: bool) {
    out.push(u8::from(value));
}

/// Appends a 16-bit integer.
#[inline]
pub fn int16(out: &mut Vec<u8>, value: i16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends an unsigned 16-bit integer.
#[inline]
pub fn uint16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a 32-bit integer.
#[inline]
pub fn int32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends an unsigned 32-bit integer.
#[inline]
pub fn uint32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a 64-bit integer.
#[inline]
pub fn int64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a double-precision float.
#[inline]
pub fn float64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a 128-bit id.
#[inline]
pub fn uuid(out: &mut Vec<u8>, value: Uuid) {
    out.extend_from_slice(&value.0);
}

/// Appends an unsigned varint of 1 to 5 bytes.
#[inline]
pub fn unsigned_varint(out: &mut Vec<u8>, value: u32) {
    unsigned_varlong(out, u64::from(value));
}

/// Appends an unsigned varint of 1 to 10 bytes.
#[inline]
pub fn unsigned_varlong(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a zigzag varint of 1 to 5 bytes.
#[inline]
pub fn varint(out: &mut Vec<u8>, value: i32) {
    unsigned_varint(out, ((value << 1) ^ (value >> 31)) as u32);
}

/// Appends a zigzag varint of 1 to 10 bytes.
#[inline]
pub fn varlong(out: &mut Vec<u8>, value: i64) {
    unsigned_varlong(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a string; `flexible` says whether its length is a varint or 16 bits.
#[inline]
pub fn string(
    out: &mut Vec<u8>,
    field: &'static str,
    value: &str,
    flexible: bool,
) -> Result<(), EncodeError> {
    if flexible {
        compact_length(out, field, value.len())?;
    } else {
        let length = i16::try_from(value.len()).map_err(|_| EncodeError::TooLong {
            field,
            length: value.len(),
        })?;
        int16(out, length);
    }
    out.extend_from_slice(value.as_bytes());
    Ok(())
}

/// Appends a string or null.
#[inline]
pub fn nullable_string(
    out: &mut Vec<u8>,
    field: &'static str,
    value: Option<&str>,
    flexible: bool,
) -> Result<(), EncodeError> {
    match value {
        Some(value) => string(out, field, value, flexible)?,
        None if flexible => out.push(0),
        None => int16(out, -1),
    }
    Ok(())
}

/// Appends bytes (or records) with their length before them.
#[inline]
pub fn bytes(
    out: &mut Vec<u8>,
    field: &'static str,
    value: &[u8],
    flexible: bool,
) -> Result<(), EncodeError> {
    length(out, field, value.len(), flexible)?;
    out.extend_from_slice(value);
    Ok(())
}

/// Appends bytes (or records) or null.
#[inline]
pub fn nullable_bytes(
    out: &mut Vec<u8>,
    field: &'static str,
    value: Option<&[u8]>,
    flexible: bool,
) -> Result<(), EncodeError> {
    match value {
        Some(value) => bytes(out, field, value, flexible)?,
        None => null_length(out, flexible),
    }
    Ok(())
}

/// Appends the length of bytes or of an array: a varint of it plus one where `flexible`, else 32 bits.
#[inline]
pub fn length(
    out: &mut Vec<u8>,
    field: &'static str,
    length: usize,
    flexible: bool,
) -> Result<(), EncodeError> {
    if flexible {
        return compact_length(out, field, length);
    }
    let length = i32::try_from(length).map_err(|_| EncodeError::TooLong { field, length })?;
    int32(out, length);
    Ok(())
}

/// Appends the length that stands for null bytes or a null array.
#[inline]
pub fn null_length(out: &mut Vec<u8>, flexible: bool) {
    if flexible {
        out.push(0)
    } else {
        int32(out, -1)
    }
}

/// Appends an array; `element` writes one element.
#[inline]
pub fn array<T>(
    out: &mut Vec<u8>,
    field: &'static str,
    values: &[T],
    flexible: bool,
    mut element: impl FnMut(&mut Vec<u8>, &T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    length(out, field, values.len(), flexible)?;
    values.iter().try_for_each(|value| element(out, value))
}

/// Appends an array or null; `element` writes one element.
#[inline]
pub fn nullable_array<T>(
    out: &mut Vec<u8>,
    field: &'static str,
    values: Option<&[T]>,
    flexible: bool,
    element: impl FnMut(&mut Vec<u8>, &T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    match values {
        Some(values) => array(out, field, values, flexible, element)?,
        None => null_length(out, flexible),
    }
    Ok(())
}

/// Appends one tagged field: tag, size, value. The caller has written the number of tagged fields and keeps tags ascending.
///
/// The value is written first and then moved up to make room for its size: tagged fields are rare and short, and so
/// no message needs to know its size before it is written.
#[inline]
pub fn tagged_field(
    out: &mut Vec<u8>,
    tag: u32,
    value: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    unsigned_varint(out, tag);
    let start = out.len();
    value(out)?;
    let end = out.len();
    let size_bytes = u32::try_from(end - start).map_err(|_| EncodeError::TooLong {
        field: "tagged_fields",
        length: end - start,
    })?;
    unsigned_varint(out, size_bytes);
    out.get_mut(start..)
        .unwrap_or_default()
        .rotate_left(end - start);
    Ok(())
}

/// Refuses a field that is set but missing in `version` and that Kafka does not let us leave out.
#[inline]
pub fn absent(field: &'static str, version: i16, is_default: bool) -> Result<(), EncodeError> {
    if is_default {
        Ok(())
    } else {
        Err(EncodeError::FieldNotInVersion { field, version })
    }
}

/// The value of a field that may not be null in this version.
#[inline]
pub fn required<T>(field: &'static str, value: Option<T>) -> Result<T, EncodeError> {
    value.ok_or(EncodeError::Null { field })
}

fn compact_length(
    out: &mut Vec<u8>,
    field: &'static str,
    length: usize,
) -> Result<(), EncodeError> {
    match u32::try_from(length)
        .ok()
        .filter(|&length| length < i32::MAX as u32)
    {
        Some(length) => unsigned_varint(out, length + 1),
        None => return Err(EncodeError::TooLong { field, length }),
    }
    Ok(())
}
