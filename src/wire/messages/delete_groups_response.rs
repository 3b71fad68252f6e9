//! Kafka's DeleteGroups response, versions 0 to 3.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DeleteGroups response, versions 0 to 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteGroupsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The deletion results.
    pub results: Vec<DeletableGroupResult<'a>>,
}

impl<'a> DeleteGroupsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 42;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 3;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DeleteGroupsResponse", version });
        }
        let flexible = version >= 2;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            results: reader.array("results", flexible, 4, |reader| DeletableGroupResult::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DeleteGroupsResponse", version });
        }
        let flexible = version >= 2;
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "results", &self.results, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The deletion results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeletableGroupResult<'a> {
    /// The group id.
    pub group_id: &'a str,
    /// The deletion error, or 0 if the deletion succeeded.
    pub error_code: i16,
    /// The error message, or null if there was no error. Since version 3.
    pub error_message: Option<&'a str>,
}

impl<'a> DeletableGroupResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let message = Self {
            group_id: reader.string("group_id", flexible)?,
            error_code: reader.int16("error_code")?,
            error_message: if version == 3 { reader.nullable_string("error_message", flexible)? } else { None },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer::string(out, "group_id", self.group_id, flexible)?;
        writer::int16(out, self.error_code);
        if version == 3 {
            writer::nullable_string(out, "error_message", self.error_message, flexible)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
