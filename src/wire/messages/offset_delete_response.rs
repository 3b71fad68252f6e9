//! Kafka's OffsetDelete response, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's OffsetDelete response, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteResponse<'a> {
    /// The top-level error code, or 0 if there was no error.
    pub error_code: i16,
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The responses for each topic.
    pub topics: Vec<OffsetDeleteResponseTopic<'a>>,
}

impl<'a> OffsetDeleteResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 47;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "OffsetDeleteResponse", version });
        }
        let message = Self {
            error_code: reader.int16("error_code")?,
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            topics: reader.array("topics", false, 6, |reader| OffsetDeleteResponseTopic::decode(reader, version))?,
        };
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "OffsetDeleteResponse", version });
        }
        writer::int16(out, self.error_code);
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "topics", &self.topics, false, |out, value| value.encode_body(out, version))?;
        Ok(())
    }
}

/// The responses for each topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteResponseTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The responses for each partition in the topic.
    pub partitions: Vec<OffsetDeleteResponsePartition>,
}

impl<'a> OffsetDeleteResponseTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            name: reader.string("name", false)?,
            partitions: reader
                .array("partitions", false, 6, |reader| OffsetDeleteResponsePartition::decode(reader, version))?,
        };
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::string(out, "name", self.name, false)?;
        writer::array(out, "partitions", &self.partitions, false, |out, value| value.encode_body(out, version))?;
        Ok(())
    }
}

/// The responses for each partition in the topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteResponsePartition {
    /// The partition index.
    pub partition_index: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
}

impl OffsetDeleteResponsePartition {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message =
            Self { partition_index: reader.int32("partition_index")?, error_code: reader.int16("error_code")? };
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.partition_index);
        writer::int16(out, self.error_code);
        Ok(())
    }
}
