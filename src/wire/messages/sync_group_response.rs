//! Kafka's SyncGroup response, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's SyncGroup response, versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncGroupResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 1.
    pub throttle_time_ms: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// The group protocol type. Since version 5.
    pub protocol_type: Option<&'a str>,
    /// The group protocol name. Since version 5.
    pub protocol_name: Option<&'a str>,
    /// The member assignment.
    pub assignment: &'a [u8],
}

impl<'a> SyncGroupResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 14;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "SyncGroupResponse", version });
        }
        let flexible = version >= 4;
        let message = Self {
            throttle_time_ms: if version >= 1 { reader.int32("throttle_time_ms")? } else { 0 },
            error_code: reader.int16("error_code")?,
            protocol_type: if version == 5 { reader.nullable_string("protocol_type", flexible)? } else { None },
            protocol_name: if version == 5 { reader.nullable_string("protocol_name", flexible)? } else { None },
            assignment: reader.bytes("assignment", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "SyncGroupResponse", version });
        }
        let flexible = version >= 4;
        if version >= 1 {
            writer::int32(out, self.throttle_time_ms);
        }
        writer::int16(out, self.error_code);
        if version == 5 {
            writer::nullable_string(out, "protocol_type", self.protocol_type, flexible)?;
        }
        if version == 5 {
            writer::nullable_string(out, "protocol_name", self.protocol_name, flexible)?;
        }
        writer::bytes(out, "assignment", self.assignment, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
