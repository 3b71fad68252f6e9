//! Kafka's DeleteGroups request, versions 0 to 3.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DeleteGroups request, versions 0 to 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteGroupsRequest<'a> {
    /// The group names to delete.
    pub groups_names: Vec<&'a str>,
}

impl<'a> DeleteGroupsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 42;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 3;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DeleteGroupsRequest", version });
        }
        let flexible = version >= 2;
        let message = Self {
            groups_names: reader
                .array("groups_names", flexible, 1, |reader| reader.string("groups_names", flexible))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DeleteGroupsRequest", version });
        }
        let flexible = version >= 2;
        writer::array(out, "groups_names", &self.groups_names, flexible, |out, value| {
            writer::string(out, "groups_names", value, flexible)
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
