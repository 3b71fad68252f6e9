//! Kafka's AlterConfigs response, versions 0 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's AlterConfigs response, versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlterConfigsResponse<'a> {
    /// Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    /// did not violate any quota.
    pub throttle_time_ms: i32,
    /// The responses for each resource.
    pub responses: Vec<AlterConfigsResourceResponse<'a>>,
}

impl<'a> AlterConfigsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 33;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "AlterConfigsResponse", version });
        }
        let flexible = version == 2;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            responses: reader
                .array("responses", flexible, 6, |reader| AlterConfigsResourceResponse::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "AlterConfigsResponse", version });
        }
        let flexible = version == 2;
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "responses", &self.responses, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The responses for each resource.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterConfigsResourceResponse<'a> {
    /// The resource error code.
    pub error_code: i16,
    /// The resource error message, or null if there was no error.
    pub error_message: Option<&'a str>,
    /// The resource type.
    pub resource_type: i8,
    /// The resource name.
    pub resource_name: &'a str,
}

impl Default for AlterConfigsResourceResponse<'_> {
    fn default() -> Self {
        Self { error_code: 0, error_message: Some(""), resource_type: 0, resource_name: "" }
    }
}

impl<'a> AlterConfigsResourceResponse<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 2;
        let message = Self {
            error_code: reader.int16("error_code")?,
            error_message: reader.nullable_string("error_message", flexible)?,
            resource_type: reader.int8("resource_type")?,
            resource_name: reader.string("resource_name", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 2;
        writer::int16(out, self.error_code);
        writer::nullable_string(out, "error_message", self.error_message, flexible)?;
        writer::int8(out, self.resource_type);
        writer::string(out, "resource_name", self.resource_name, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
