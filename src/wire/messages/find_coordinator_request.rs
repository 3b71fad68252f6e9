//! Kafka's FindCoordinator request, versions 0 to 6.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's FindCoordinator request, versions 0 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindCoordinatorRequest<'a> {
    /// The coordinator key. Up to version 3.
    pub key: &'a str,
    /// The coordinator key type. (group, transaction, share). Since version 1.
    pub key_type: i8,
    /// The coordinator keys. Since version 4.
    pub coordinator_keys: Vec<&'a str>,
}

impl<'a> FindCoordinatorRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 10;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 6;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "FindCoordinatorRequest", version });
        }
        let flexible = version >= 3;
        let message = Self {
            key: if version <= 3 { reader.string("key", flexible)? } else { "" },
            key_type: if version >= 1 { reader.int8("key_type")? } else { 0 },
            coordinator_keys: if version >= 4 {
                reader.array("coordinator_keys", flexible, 1, |reader| reader.string("coordinator_keys", flexible))?
            } else {
                Vec::new()
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
            return Err(EncodeError::UnsupportedVersion { message: "FindCoordinatorRequest", version });
        }
        let flexible = version >= 3;
        if version <= 3 {
            writer::string(out, "key", self.key, flexible)?;
        } else {
            writer::absent("key", version, self.key.is_empty())?;
        }
        if version >= 1 {
            writer::int8(out, self.key_type);
        } else {
            writer::absent("key_type", version, self.key_type == 0)?;
        }
        if version >= 4 {
            writer::array(out, "coordinator_keys", &self.coordinator_keys, flexible, |out, value| {
                writer::string(out, "coordinator_keys", value, flexible)
            })?;
        } else {
            writer::absent("coordinator_keys", version, self.coordinator_keys.is_empty())?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
