//! Kafka's consumer group regular expression value, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's consumer group regular expression value, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupRegularExpressionValue<'a> {
    /// A part of the message.
    pub topics: Vec<&'a str>,
    /// A part of the message.
    pub version: i64,
    /// A part of the message.
    pub timestamp: i64,
}

impl<'a> ConsumerGroupRegularExpressionValue<'a> {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 16;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ConsumerGroupRegularExpressionValue", version });
        }
        let message = Self {
            topics: reader.array("topics", true, 1, |reader| reader.string("topics", true))?,
            version: reader.int64("version")?,
            timestamp: reader.int64("timestamp")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ConsumerGroupRegularExpressionValue", version });
        }
        writer::array(out, "topics", &self.topics, true, |out, value| writer::string(out, "topics", value, true))?;
        writer::int64(out, self.version);
        writer::int64(out, self.timestamp);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
