//! Kafka's Heartbeat request, versions 0 to 4.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's Heartbeat request, versions 0 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeartbeatRequest<'a> {
    /// The group id.
    pub group_id: &'a str,
    /// The generation of the group.
    pub generation_id: i32,
    /// The member ID.
    pub member_id: &'a str,
    /// The unique identifier of the consumer instance provided by end user. Since version 3.
    pub group_instance_id: Option<&'a str>,
}

impl<'a> HeartbeatRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 12;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 4;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "HeartbeatRequest", version });
        }
        let flexible = version == 4;
        let message = Self {
            group_id: reader.string("group_id", flexible)?,
            generation_id: reader.int32("generation_id")?,
            member_id: reader.string("member_id", flexible)?,
            group_instance_id: if version >= 3 { reader.nullable_string("group_instance_id", flexible)? } else { None },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "HeartbeatRequest", version });
        }
        let flexible = version == 4;
        writer::string(out, "group_id", self.group_id, flexible)?;
        writer::int32(out, self.generation_id);
        writer::string(out, "member_id", self.member_id, flexible)?;
        if version >= 3 {
            writer::nullable_string(out, "group_instance_id", self.group_instance_id, flexible)?;
        } else {
            writer::absent("group_instance_id", version, self.group_instance_id.is_none())?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
