//! Kafka's request header, versions 1 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's request header, versions 1 to 2.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestHeader<'a> {
    /// The API key of this request.
    pub request_api_key: i16,
    /// The API version of this request.
    pub request_api_version: i16,
    /// The correlation ID of this request.
    pub correlation_id: i32,
    /// The client ID string.
    pub client_id: Option<&'a str>,
}

impl Default for RequestHeader<'_> {
    fn default() -> Self {
        Self { request_api_key: 0, request_api_version: 0, correlation_id: 0, client_id: Some("") }
    }
}

impl<'a> RequestHeader<'a> {
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "RequestHeader", version });
        }
        let flexible = version == 2;
        let message = Self {
            request_api_key: reader.int16("request_api_key")?,
            request_api_version: reader.int16("request_api_version")?,
            correlation_id: reader.int32("correlation_id")?,
            client_id: reader.nullable_string("client_id", false)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "RequestHeader", version });
        }
        let flexible = version == 2;
        writer::int16(out, self.request_api_key);
        writer::int16(out, self.request_api_version);
        writer::int32(out, self.correlation_id);
        writer::nullable_string(out, "client_id", self.client_id, false)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
