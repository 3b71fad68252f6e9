//! Kafka's response header, versions 0 to 1.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's response header, versions 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseHeader {
    /// The correlation ID of this response.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 1;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ResponseHeader", version });
        }
        let flexible = version == 1;
        let message = Self { correlation_id: reader.int32("correlation_id")? };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ResponseHeader", version });
        }
        let flexible = version == 1;
        writer::int32(out, self.correlation_id);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
