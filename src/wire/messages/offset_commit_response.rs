//! Kafka's OffsetCommit response, versions 2 to 10.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's OffsetCommit response, versions 2 to 10.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 3.
    pub throttle_time_ms: i32,
    /// The responses for each topic.
    pub topics: Vec<OffsetCommitResponseTopic<'a>>,
}

impl<'a> OffsetCommitResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 8;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 2;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 10;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "OffsetCommitResponse", version });
        }
        let flexible = version >= 8;
        let message = Self {
            throttle_time_ms: if version >= 3 { reader.int32("throttle_time_ms")? } else { 0 },
            topics: reader.array("topics", flexible, 3, |reader| OffsetCommitResponseTopic::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "OffsetCommitResponse", version });
        }
        let flexible = version >= 8;
        if version >= 3 {
            writer::int32(out, self.throttle_time_ms);
        }
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The responses for each topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitResponseTopic<'a> {
    /// The topic name. Up to version 9.
    pub name: &'a str,
    /// The topic ID. Since version 10.
    pub topic_id: Uuid,
    /// The responses for each partition in the topic.
    pub partitions: Vec<OffsetCommitResponsePartition>,
}

impl<'a> OffsetCommitResponseTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 8;
        let message = Self {
            name: if version <= 9 { reader.string("name", flexible)? } else { "" },
            topic_id: if version == 10 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partitions: reader
                .array("partitions", flexible, 6, |reader| OffsetCommitResponsePartition::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 8;
        if version <= 9 {
            writer::string(out, "name", self.name, flexible)?;
        }
        if version == 10 {
            writer::uuid(out, self.topic_id);
        }
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The responses for each partition in the topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitResponsePartition {
    /// The partition index.
    pub partition_index: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
}

impl OffsetCommitResponsePartition {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 8;
        let message =
            Self { partition_index: reader.int32("partition_index")?, error_code: reader.int16("error_code")? };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 8;
        writer::int32(out, self.partition_index);
        writer::int16(out, self.error_code);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
