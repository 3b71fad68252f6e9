//! Kafka's DescribeGroups request, versions 0 to 6.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeGroups request, versions 0 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeGroupsRequest<'a> {
    /// The names of the groups to describe.
    pub groups: Vec<&'a str>,
    /// Whether to include authorized operations. Since version 3.
    pub include_authorized_operations: bool,
}

impl<'a> DescribeGroupsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 15;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 6;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeGroupsRequest", version });
        }
        let flexible = version >= 5;
        let message = Self {
            groups: reader.array("groups", flexible, 1, |reader| reader.string("groups", flexible))?,
            include_authorized_operations: if version >= 3 {
                reader.bool("include_authorized_operations")?
            } else {
                false
            },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeGroupsRequest", version });
        }
        let flexible = version >= 5;
        writer::array(out, "groups", &self.groups, flexible, |out, value| {
            writer::string(out, "groups", value, flexible)
        })?;
        if version >= 3 {
            writer::bool(out, self.include_authorized_operations);
        } else {
            writer::absent("include_authorized_operations", version, !self.include_authorized_operations)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
