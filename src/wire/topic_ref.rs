//! A topic as a request names it: by name or by id.

use std::ops::Range;

use super::reader::{DecodeError, ILL_FORMED, Reader};
use super::uuid::Uuid;
use super::writer::{self, EncodeError};

/// Where a string lies in a request's body, so that the body can be written to while the place is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextRange {
    start: u32,
    end: u32,
}

/// A topic in a request, kept without borrowing from the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicRef {
    /// By name, which lies at this place of the body.
    Name(TextRange),
    /// By id.
    Id(Uuid),
}

/// A topic as a response names it: as the request did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic<'a> {
    /// By name.
    Name(&'a str),
    /// By id.
    Id(Uuid),
}

impl TextRange {
    /// The string, given the body that it was read from; bytes that are no UTF-8 become [`ILL_FORMED`].
    ///
    /// Another, shorter body gives [`ILL_FORMED`] too, never a panic.
    pub fn text(self, body: &[u8]) -> &str {
        let bytes = body.get(self.start as usize..self.end as usize);
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or(ILL_FORMED)
    }

    /// The place, in bytes from the start of the body.
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Reads past a string and keeps its place.
    pub(super) fn read(reader: &mut Reader<'_>, field: &'static str, flexible: bool) -> Result<Self, DecodeError> {
        let null = DecodeError::Null { field, position_bytes: reader.position_bytes() };
        Self::read_nullable(reader, field, flexible)?.ok_or(null)
    }

    /// Reads past a string or null and keeps its place.
    pub(super) fn read_nullable(
        reader: &mut Reader<'_>,
        field: &'static str,
        flexible: bool,
    ) -> Result<Option<Self>, DecodeError> {
        let Some(bytes) = reader.nullable_string_bytes(field, flexible)? else {
            return Ok(None);
        };
        // A frame's length is 32 bits, so its places are too.
        let end = reader.position_bytes() as u32;
        Ok(Some(Self { start: end - bytes.len() as u32, end }))
    }
}

impl TopicRef {
    /// The topic, given the body that it was read from.
    pub fn resolve(self, body: &[u8]) -> Topic<'_> {
        match self {
            Self::Name(range) => Topic::Name(range.text(body)),
            Self::Id(id) => Topic::Id(id),
        }
    }

    /// Reads a name or, `by_id`, an id.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        name_field: &'static str,
        by_id: bool,
        flexible: bool,
    ) -> Result<Self, DecodeError> {
        if by_id {
            reader.uuid("topic_id").map(Self::Id)
        } else {
            TextRange::read(reader, name_field, flexible).map(Self::Name)
        }
    }
}

impl Topic<'_> {
    /// Appends the name or, `by_id`, the id; an error if the topic is known the other way.
    pub(super) fn encode(
        self,
        out: &mut Vec<u8>,
        name_field: &'static str,
        version: i16,
        by_id: bool,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        match self {
            Self::Name(name) if !by_id => writer::string(out, name_field, name, flexible)?,
            Self::Id(id) if by_id => writer::uuid(out, id),
            Self::Name(_) => {
                return Err(EncodeError::FieldNotInVersion { field: name_field, version });
            }
            Self::Id(_) => {
                return Err(EncodeError::FieldNotInVersion { field: "topic_id", version });
            }
        }
        Ok(())
    }
}
