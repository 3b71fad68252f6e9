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
pub fn string(out: &mut Vec<u8>, field: &'static str, value: &str, flexible: bool) -> Result<(), EncodeError> {
    if flexible {
        compact_length(out, field, value.len())?;
    } else {
        let length = i16::try_from(value.len()).map_err(|_| EncodeError::TooLong { field, length: value.len() })?;
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
pub fn bytes(out: &mut Vec<u8>, field: &'static str, value: &[u8], flexible: bool) -> Result<(), EncodeError> {
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
pub fn length(out: &mut Vec<u8>, field: &'static str, length: usize, flexible: bool) -> Result<(), EncodeError> {
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
    if flexible { out.push(0) } else { int32(out, -1) }
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
    let size_bytes =
        u32::try_from(end - start).map_err(|_| EncodeError::TooLong { field: "tagged_fields", length: end - start })?;
    unsigned_varint(out, size_bytes);
    out.get_mut(start..).unwrap_or_default().rotate_left(end - start);
    Ok(())
}

/// Refuses a field that is set but missing in `version` and that Kafka does not let us leave out.
#[inline]
pub fn absent(field: &'static str, version: i16, is_default: bool) -> Result<(), EncodeError> {
    if is_default { Ok(()) } else { Err(EncodeError::FieldNotInVersion { field, version }) }
}

/// The value of a field that may not be null in this version.
#[inline]
pub fn required<T>(field: &'static str, value: Option<T>) -> Result<T, EncodeError> {
    value.ok_or(EncodeError::Null { field })
}

fn compact_length(out: &mut Vec<u8>, field: &'static str, length: usize) -> Result<(), EncodeError> {
    match u32::try_from(length).ok().filter(|&length| length < i32::MAX as u32) {
        Some(length) => unsigned_varint(out, length + 1),
        None => return Err(EncodeError::TooLong { field, length }),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::reader::{DecodeError, Reader};

    /// Writes a value, reads it back, and checks that nothing is left and that no shorter slice will do.
    fn round_trip<T: PartialEq + std::fmt::Debug>(
        value: T,
        write: impl Fn(&mut Vec<u8>, &T),
        read: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<(), TestCaseError> {
        let mut out = Vec::new();
        write(&mut out, &value);
        for cut in 0..out.len() {
            prop_assert!(read(&mut Reader::new(&out[..cut])).is_err(), "cut at {}", cut);
        }
        let mut reader = Reader::new(&out);
        let again = read(&mut reader);
        prop_assert_eq!(reader.remaining_bytes(), 0);
        prop_assert_eq!(again, Ok(value));
        Ok(())
    }

    proptest! {
        #[test]
        fn integers_come_back(long: i64, short: i16, float: f64, id: [u8; 16], flag: bool) {
            round_trip(long, |out, &value| int64(out, value), |reader| reader.int64("x"))?;
            round_trip(long as i32, |out, &value| int32(out, value), |reader| reader.int32("x"))?;
            round_trip(long as u32, |out, &value| uint32(out, value), |reader| reader.uint32("x"))?;
            round_trip(short, |out, &value| int16(out, value), |reader| reader.int16("x"))?;
            round_trip(short as u16, |out, &value| uint16(out, value), |reader| reader.uint16("x"))?;
            round_trip(short as i8, |out, &value| int8(out, value), |reader| reader.int8("x"))?;
            round_trip(float, |out, &value| float64(out, value), |reader| reader.float64("x"))?;
            round_trip(Uuid(id), |out, &value| uuid(out, value), |reader| reader.uuid("x"))?;
            round_trip(flag, |out, &value| bool(out, value), |reader| reader.bool("x"))?;
        }

        #[test]
        fn varints_come_back(value: u64, bits in 0_u32..64) {
            let value = value >> bits;
            round_trip(value, |out, &value| unsigned_varlong(out, value), |reader| reader.unsigned_varlong("x"))?;
            round_trip(value as i64, |out, &value| varlong(out, value), |reader| reader.varlong("x"))?;
            round_trip(value as u32, |out, &value| unsigned_varint(out, value), |reader| reader.unsigned_varint("x"))?;
            round_trip(value as i32, |out, &value| varint(out, value), |reader| reader.varint("x"))?;
        }

        #[test]
        fn strings_and_arrays_come_back(
            text in proptest::option::of(".{0,200}"),
            data in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
            values in proptest::option::of(proptest::collection::vec(any::<i32>(), 0..300)),
            flexible: bool,
        ) {
            let write = |out: &mut Vec<u8>, value: &Option<String>| {
                nullable_string(out, "x", value.as_deref(), flexible).expect("short");
            };
            round_trip(text, write, |reader| Ok(reader.nullable_string("x", flexible)?.map(str::to_owned)))?;
            let write = |out: &mut Vec<u8>, value: &Option<Vec<u8>>| {
                nullable_bytes(out, "x", value.as_deref(), flexible).expect("short");
            };
            round_trip(data, write, |reader| Ok(reader.nullable_bytes("x", flexible)?.map(<[u8]>::to_vec)))?;
            let write = |out: &mut Vec<u8>, value: &Option<Vec<i32>>| {
                let element = |out: &mut Vec<u8>, &value: &i32| { int32(out, value); Ok(()) };
                nullable_array(out, "x", value.as_deref(), flexible, element).expect("short");
            };
            round_trip(values, write, |reader| {
                reader.nullable_array("x", flexible, 4, |reader| reader.int32("x"))
            })?;
        }

        /// Any tags with any values are stepped over, and what follows is found.
        #[test]
        fn tagged_fields_are_skipped(
            fields in proptest::collection::btree_map(any::<u32>(), proptest::collection::vec(any::<u8>(), 0..200), 0..8),
        ) {
            let mut out = Vec::new();
            unsigned_varint(&mut out, fields.len() as u32);
            for (&tag, value) in &fields {
                tagged_field(&mut out, tag, |out| { out.extend_from_slice(value); Ok(()) }).expect("short");
            }
            out.push(0x5a);
            let mut reader = Reader::new(&out);
            let mut found = Vec::new();
            reader.tagged_fields(|tag, reader| {
                // Half of them are read, the others left to be skipped.
                let value = if tag % 2 == 0 { reader.take("x", reader.remaining_bytes())?.to_vec() } else { Vec::new() };
                assert!(reader.clone().take("x", 1 + reader.remaining_bytes()).is_err(), "reads past its end");
                found.push((tag, value));
                Ok(())
            }).expect("whole");
            prop_assert_eq!(reader.int8("x"), Ok(0x5a));
            let expected: Vec<_> = fields.into_iter().map(|(tag, value)| (tag, if tag % 2 == 0 { value } else { Vec::new() })).collect();
            prop_assert_eq!(found, expected);
        }

        /// Whatever bytes come, reading ends with a value or an error, and an array's length fits the bytes left.
        #[test]
        fn any_bytes_are_read_or_refused(data in proptest::collection::vec(any::<u8>(), 0..40), flexible: bool) {
            let mut reader = Reader::new(&data);
            let _ = reader.clone().unsigned_varint("x");
            let _ = reader.clone().unsigned_varlong("x");
            let _ = reader.clone().nullable_string("x", flexible);
            let _ = reader.clone().nullable_bytes("x", flexible);
            let _ = reader.clone().skip_tagged_fields();
            if let Ok(Some(count)) = reader.nullable_array_length("x", flexible, 3) {
                prop_assert!(count * 3 <= reader.remaining_bytes());
            }
        }
    }

    /// Encodings from the protocol guide's rules, and what has too many bits.
    #[test]
    fn varints_at_their_ends() {
        let cases: [(&[u8], Option<u32>); 8] = [
            (&[0], Some(0)),
            (&[0x7f], Some(127)),
            (&[0x80, 1], Some(128)),
            // Longer than need be, as Kafka allows.
            (&[0x80, 0x80, 0], Some(0)),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], Some(u32::MAX)),
            (&[0xff, 0xff, 0xff, 0xff, 0x1f], None),
            (&[0x80, 0x80, 0x80, 0x80, 0x80, 0], None),
            (&[0x80, 0x80], None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Reader::new(bytes).unsigned_varint("x").ok(), expected, "{bytes:?}");
        }
        let mut longest = [0xff; 10];
        longest[9] = 1;
        assert_eq!(Reader::new(&longest).unsigned_varlong("x"), Ok(u64::MAX));
        longest[9] = 2;
        assert!(matches!(Reader::new(&longest).unsigned_varlong("x"), Err(DecodeError::Varint { .. })));
        assert!(matches!(Reader::new(&[0xff; 11]).unsigned_varlong("x"), Err(DecodeError::Varint { .. })));
    }

    #[test]
    fn what_a_prefix_cannot_say_is_an_error() {
        let long = "x".repeat(i16::MAX as usize + 1);
        let mut out = Vec::new();
        assert_eq!(string(&mut out, "x", &long, false), Err(EncodeError::TooLong { field: "x", length: long.len() }));
        assert_eq!(string(&mut out, "x", &long, true), Ok(()));
        assert!(length(&mut out, "x", i32::MAX as usize + 1, false).is_err());
        assert!(length(&mut out, "x", i32::MAX as usize, true).is_err());
        assert_eq!(absent("x", 3, false), Err(EncodeError::FieldNotInVersion { field: "x", version: 3 }));
    }
}
