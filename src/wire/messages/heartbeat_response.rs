//! Kafka's Heartbeat response, versions 0 to 4.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's Heartbeat response, versions 0 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeartbeatResponse {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 1.
    pub throttle_time_ms: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
}

impl HeartbeatResponse {
    /// The key of its API.
    pub const API_KEY: i16 = 12;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 4;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "HeartbeatResponse", version });
        }
        let flexible = version == 4;
        let message = Self {
            throttle_time_ms: if version >= 1 { reader.int32("throttle_time_ms")? } else { 0 },
            error_code: reader.int16("error_code")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "HeartbeatResponse", version });
        }
        let flexible = version == 4;
        if version >= 1 {
            writer::int32(out, self.throttle_time_ms);
        }
        writer::int16(out, self.error_code);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
