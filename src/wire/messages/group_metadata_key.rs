//! Kafka's group metadata key, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's group metadata key, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupMetadataKey<'a> {
    /// The group id.
    pub group: &'a str,
}

impl<'a> GroupMetadataKey<'a> {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 2;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "GroupMetadataKey", version });
        }
        let message = Self { group: reader.string("group", false)? };
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "GroupMetadataKey", version });
        }
        writer::string(out, "group", self.group, false)?;
        Ok(())
    }
}
