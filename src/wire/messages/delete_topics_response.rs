//! Kafka's DeleteTopics response, versions 1 to 6.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's DeleteTopics response, versions 1 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopicsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The results for each topic we tried to delete.
    pub responses: Vec<DeletableTopicResult<'a>>,
}

impl<'a> DeleteTopicsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 20;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 6;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DeleteTopicsResponse", version });
        }
        let flexible = version >= 4;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            responses: reader
                .array("responses", flexible, 4, |reader| DeletableTopicResult::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DeleteTopicsResponse", version });
        }
        let flexible = version >= 4;
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "responses", &self.responses, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The results for each topic we tried to delete.
#[derive(Clone, Debug, PartialEq)]
pub struct DeletableTopicResult<'a> {
    /// The topic name.
    pub name: Option<&'a str>,
    /// The unique topic ID. Since version 6.
    pub topic_id: Uuid,
    /// The deletion error, or 0 if the deletion succeeded.
    pub error_code: i16,
    /// The error message, or null if there was no error. Since version 5.
    pub error_message: Option<&'a str>,
}

impl Default for DeletableTopicResult<'_> {
    fn default() -> Self {
        Self { name: Some(""), topic_id: Uuid::ZERO, error_code: 0, error_message: None }
    }
}

impl<'a> DeletableTopicResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 4;
        let message = Self {
            name: if version == 6 {
                reader.nullable_string("name", flexible)?
            } else {
                Some(reader.string("name", flexible)?)
            },
            topic_id: if version == 6 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            error_code: reader.int16("error_code")?,
            error_message: if version >= 5 { reader.nullable_string("error_message", flexible)? } else { None },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 4;
        if version == 6 {
            writer::nullable_string(out, "name", self.name, flexible)?;
        } else {
            writer::string(out, "name", writer::required("name", self.name)?, flexible)?;
        }
        if version == 6 {
            writer::uuid(out, self.topic_id);
        }
        writer::int16(out, self.error_code);
        if version >= 5 {
            writer::nullable_string(out, "error_message", self.error_message, flexible)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
