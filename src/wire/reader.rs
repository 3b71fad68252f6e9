//! Read Kafka's primitive types out of a frame, within its bounds.

use thiserror::Error;

use super::uuid::Uuid;

/// Stands in for a string whose bytes are not UTF-8.
///
/// Kafka decodes such strings with replacement characters and goes on: the client id is only a label, and a topic of that name
/// does not exist. A borrowed string cannot hold replacements, so the whole value becomes this one character, which no
/// topic, config or resource can be called.
pub const ILL_FORMED: &str = "\u{fffd}";

/// Why bytes are not the message that their header announces. `position_bytes` counts from the start of the slice read.
///
/// Kafka closes the connection on each of these; the variants are for the log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end inside the field.
    #[error("{field} at byte {position_bytes} is cut off: needs {needed_bytes} bytes, {remaining_bytes} are left")]
    Truncated {
        /// The field's name in the message.
        field: &'static str,
        /// Where the field's bytes begin.
        position_bytes: usize,
        /// What the field needs.
        needed_bytes: usize,
        /// What is left.
        remaining_bytes: usize,
    },
    /// An array announces more elements than the bytes left could hold.
    #[error(
        "{field} at byte {position_bytes} announces {count} elements, too many for the {remaining_bytes} bytes left"
    )]
    ArrayTooLong {
        /// The field's name in the message.
        field: &'static str,
        /// Where the first element would begin.
        position_bytes: usize,
        /// The announced number of elements.
        count: u32,
        /// What is left.
        remaining_bytes: usize,
    },
    /// Null (a negative length) where the version has no null.
    #[error("{field} before byte {position_bytes} is null, which this version does not allow")]
    Null {
        /// The field's name in the message.
        field: &'static str,
        /// Where the value would begin.
        position_bytes: usize,
    },
    /// A variable-length integer that does not end, or has bits beyond its type.
    #[error("{field} at byte {position_bytes} is no valid varint")]
    Varint {
        /// The field's name in the message.
        field: &'static str,
        /// Where the integer begins.
        position_bytes: usize,
    },
    /// The message does not exist in this version.
    #[error("{message} has no version {version}")]
    UnsupportedVersion {
        /// The message's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
    },
}

/// A cursor over one frame (or a tagged field in it). Values borrow from the frame; nothing is read past its end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    /// The frame up to where this reader may read.
    bytes: &'a [u8],
    position_bytes: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position_bytes: 0 }
    }

    /// Where the next value begins, from the start of the slice.
    pub const fn position_bytes(&self) -> usize {
        self.position_bytes
    }

    /// How much is left to read.
    pub const fn remaining_bytes(&self) -> usize {
        self.bytes.len() - self.position_bytes
    }

    /// Takes the next `count` bytes.
    #[inline]
    pub fn take(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], DecodeError> {
        match self.bytes.get(self.position_bytes..).and_then(|rest| rest.get(..count)) {
            Some(taken) => {
                self.position_bytes += count;
                Ok(taken)
            }
            None => Err(self.truncated(field, count)),
        }
    }

    /// An 8-bit integer.
    #[inline]
    pub fn int8(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        self.fixed(field).map(i8::from_be_bytes)
    }

    /// A byte that is true unless zero.
    #[inline]
    pub fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        self.fixed(field).map(|[byte]| byte != 0)
    }

    /// A 16-bit integer.
    #[inline]
    pub fn int16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        self.fixed(field).map(i16::from_be_bytes)
    }

    /// An unsigned 16-bit integer.
    #[inline]
    pub fn uint16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.fixed(field).map(u16::from_be_bytes)
    }

    /// A 32-bit integer.
    #[inline]
    pub fn int32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.fixed(field).map(i32::from_be_bytes)
    }

    /// An unsigned 32-bit integer.
    #[inline]
    pub fn uint32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.fixed(field).map(u32::from_be_bytes)
    }

    /// A 64-bit integer.
    #[inline]
    pub fn int64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.fixed(field).map(i64::from_be_bytes)
    }

    /// A double-precision float.
    #[inline]
    pub fn float64(&mut self, field: &'static str) -> Result<f64, DecodeError> {
        self.fixed(field).map(f64::from_be_bytes)
    }

    /// A 128-bit id.
    #[inline]
    pub fn uuid(&mut self, field: &'static str) -> Result<Uuid, DecodeError> {
        self.fixed(field).map(Uuid)
    }

    /// An unsigned varint of at most 5 bytes.
    #[inline]
    pub fn unsigned_varint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        match self.bytes.get(self.position_bytes) {
            Some(&byte) if byte < 0x80 => {
                self.position_bytes += 1;
                Ok(u32::from(byte))
            }
            _ => self.long_varint(field, u32::BITS).map(|value| value as u32),
        }
    }

    /// An unsigned varint of at most 10 bytes.
    pub fn unsigned_varlong(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.long_varint(field, u64::BITS)
    }

    /// A zigzag varint of at most 5 bytes.
    pub fn varint(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.unsigned_varint(field).map(|value| (value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// A zigzag varint of at most 10 bytes.
    pub fn varlong(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.unsigned_varlong(field).map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A string; `flexible` says whether its length is a varint or 16 bits. See [`ILL_FORMED`] for bytes that are no UTF-8.
    #[inline]
    pub fn string(&mut self, field: &'static str, flexible: bool) -> Result<&'a str, DecodeError> {
        self.nullable_string(field, flexible)?.ok_or_else(|| self.null(field))
    }

    /// A string or null.
    #[inline]
    pub fn nullable_string(&mut self, field: &'static str, flexible: bool) -> Result<Option<&'a str>, DecodeError> {
        let bytes = self.nullable_string_bytes(field, flexible)?;
        Ok(bytes.map(|bytes| std::str::from_utf8(bytes).unwrap_or(ILL_FORMED)))
    }

    /// The bytes of a string or null, whether they are UTF-8 or not.
    #[inline]
    pub fn nullable_string_bytes(
        &mut self,
        field: &'static str,
        flexible: bool,
    ) -> Result<Option<&'a [u8]>, DecodeError> {
        let length = if flexible { self.compact_length(field)? } else { u32::try_from(self.int16(field)?).ok() };
        match length {
            Some(length) => self.take(field, length as usize).map(Some),
            None => Ok(None),
        }
    }

    /// Bytes (or records); `flexible` says whether their length is a varint or 32 bits.
    #[inline]
    pub fn bytes(&mut self, field: &'static str, flexible: bool) -> Result<&'a [u8], DecodeError> {
        self.nullable_bytes(field, flexible)?.ok_or_else(|| self.null(field))
    }

    /// Bytes (or records) or null.
    #[inline]
    pub fn nullable_bytes(&mut self, field: &'static str, flexible: bool) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.length(field, flexible)? {
            Some(length) => self.take(field, length as usize).map(Some),
            None => Ok(None),
        }
    }

    /// The number of elements of an array that is not null, none of which is shorter than `element_bytes_min`.
    ///
    /// What this returns is safe to reserve memory for: the bytes left could hold so many.
    #[inline]
    pub fn array_length(
        &mut self,
        field: &'static str,
        flexible: bool,
        element_bytes_min: usize,
    ) -> Result<usize, DecodeError> {
        self.nullable_array_length(field, flexible, element_bytes_min)?.ok_or_else(|| self.null(field))
    }

    /// The number of elements of an array or null; see [`Reader::array_length`].
    #[inline]
    pub fn nullable_array_length(
        &mut self,
        field: &'static str,
        flexible: bool,
        element_bytes_min: usize,
    ) -> Result<Option<usize>, DecodeError> {
        let Some(count) = self.length(field, flexible)? else {
            return Ok(None);
        };
        if count as usize > self.remaining_bytes() / element_bytes_min.max(1) {
            return Err(DecodeError::ArrayTooLong {
                field,
                position_bytes: self.position_bytes,
                count,
                remaining_bytes: self.remaining_bytes(),
            });
        }
        Ok(Some(count as usize))
    }

    /// An array that is not null; `element` reads one element.
    #[inline]
    pub fn array<T>(
        &mut self,
        field: &'static str,
        flexible: bool,
        element_bytes_min: usize,
        element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.array_length(field, flexible, element_bytes_min)?;
        self.elements(count, element)
    }

    /// An array or null; `element` reads one element.
    #[inline]
    pub fn nullable_array<T>(
        &mut self,
        field: &'static str,
        flexible: bool,
        element_bytes_min: usize,
        element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        match self.nullable_array_length(field, flexible, element_bytes_min)? {
            Some(count) => self.elements(count, element).map(Some),
            None => Ok(None),
        }
    }

    /// The tagged fields at the end of a flexible struct: `field` is called with each tag and a reader that ends with
    /// that field. What it leaves unread is skipped, so ignoring a tag means doing nothing.
    #[inline]
    pub fn tagged_fields(
        &mut self,
        mut field: impl FnMut(u32, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let count = self.unsigned_varint(TAGGED_FIELDS)?;
        for _ in 0..count {
            let tag = self.unsigned_varint(TAGGED_FIELDS)?;
            let size_bytes = self.unsigned_varint(TAGGED_FIELDS)? as usize;
            let start = self.position_bytes;
            self.take(TAGGED_FIELDS, size_bytes)?;
            let bytes = self.bytes.get(..self.position_bytes).unwrap_or_default();
            field(tag, &mut Self { bytes, position_bytes: start })?;
        }
        Ok(())
    }

    /// Skips the tagged fields at the end of a flexible struct that has none we know.
    #[inline]
    pub fn skip_tagged_fields(&mut self) -> Result<(), DecodeError> {
        self.tagged_fields(|_, _| Ok(()))
    }

    fn elements<T>(
        &mut self,
        count: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(elements)
    }

    /// The length of bytes or of an array; any negative one is null, as in Kafka.
    #[inline]
    fn length(&mut self, field: &'static str, flexible: bool) -> Result<Option<u32>, DecodeError> {
        if flexible { self.compact_length(field) } else { Ok(u32::try_from(self.int32(field)?).ok()) }
    }

    /// A length plus one as varint; zero is null.
    #[inline]
    fn compact_length(&mut self, field: &'static str) -> Result<Option<u32>, DecodeError> {
        Ok(self.unsigned_varint(field)?.checked_sub(1))
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        match self.bytes.get(self.position_bytes..).and_then(|rest| rest.first_chunk()) {
            Some(chunk) => {
                self.position_bytes += N;
                Ok(*chunk)
            }
            None => Err(self.truncated(field, N)),
        }
    }

    fn long_varint(&mut self, field: &'static str, bits: u32) -> Result<u64, DecodeError> {
        let start = self.position_bytes;
        let mut value = 0_u64;
        let mut shift = 0;
        loop {
            let [byte] = self.fixed(field)?;
            let part = u64::from(byte & 0x7f);
            let room = bits - shift;
            if room < 7 && part >> room != 0 {
                return Err(DecodeError::Varint { field, position_bytes: start });
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
            if shift >= bits {
                return Err(DecodeError::Varint { field, position_bytes: start });
            }
        }
    }

    #[cold]
    fn truncated(&self, field: &'static str, needed_bytes: usize) -> DecodeError {
        let remaining_bytes = self.remaining_bytes();
        DecodeError::Truncated { field, position_bytes: self.position_bytes, needed_bytes, remaining_bytes }
    }

    #[cold]
    const fn null(&self, field: &'static str) -> DecodeError {
        DecodeError::Null { field, position_bytes: self.position_bytes }
    }
}

const TAGGED_FIELDS: &str = "tagged_fields";
