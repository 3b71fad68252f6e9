//! Kafka's ConsumerGroupDescribe request, versions 0 to 1.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's ConsumerGroupDescribe request, versions 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupDescribeRequest<'a> {
    /// The ids of the groups to describe.
    pub group_ids: Vec<&'a str>,
    /// Whether to include authorized operations.
    pub include_authorized_operations: bool,
}

impl<'a> ConsumerGroupDescribeRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 69;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 1;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ConsumerGroupDescribeRequest", version });
        }
        let message = Self {
            group_ids: reader.array("group_ids", true, 1, |reader| reader.string("group_ids", true))?,
            include_authorized_operations: reader.bool("include_authorized_operations")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ConsumerGroupDescribeRequest", version });
        }
        writer::array(out, "group_ids", &self.group_ids, true, |out, value| {
            writer::string(out, "group_ids", value, true)
        })?;
        writer::bool(out, self.include_authorized_operations);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
