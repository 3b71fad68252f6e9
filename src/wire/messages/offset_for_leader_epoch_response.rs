//! Kafka's OffsetForLeaderEpoch response, versions 2 to 4.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's OffsetForLeaderEpoch response, versions 2 to 4.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetForLeaderEpochResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// Each topic we fetched offsets for.
    pub topics: Vec<OffsetForLeaderTopicResult<'a>>,
}

impl<'a> OffsetForLeaderEpochResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 23;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 2;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 4;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "OffsetForLeaderEpochResponse", version });
        }
        let flexible = version == 4;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            topics: reader
                .array("topics", flexible, 3, |reader| OffsetForLeaderTopicResult::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "OffsetForLeaderEpochResponse", version });
        }
        let flexible = version == 4;
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic we fetched offsets for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetForLeaderTopicResult<'a> {
    /// The topic name.
    pub topic: &'a str,
    /// Each partition in the topic we fetched offsets for.
    pub partitions: Vec<EpochEndOffset>,
}

impl<'a> OffsetForLeaderTopicResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 4;
        let message = Self {
            topic: reader.string("topic", flexible)?,
            partitions: reader.array("partitions", flexible, 18, |reader| EpochEndOffset::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 4;
        writer::string(out, "topic", self.topic, flexible)?;
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each partition in the topic we fetched offsets for.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochEndOffset {
    /// The error code 0, or if there was no error.
    pub error_code: i16,
    /// The partition index.
    pub partition: i32,
    /// The leader epoch of the partition.
    pub leader_epoch: i32,
    /// The end offset of the epoch.
    pub end_offset: i64,
}

impl Default for EpochEndOffset {
    fn default() -> Self {
        Self { error_code: 0, partition: 0, leader_epoch: -1, end_offset: -1 }
    }
}

impl EpochEndOffset {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 4;
        let message = Self {
            error_code: reader.int16("error_code")?,
            partition: reader.int32("partition")?,
            leader_epoch: reader.int32("leader_epoch")?,
            end_offset: reader.int64("end_offset")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 4;
        writer::int16(out, self.error_code);
        writer::int32(out, self.partition);
        writer::int32(out, self.leader_epoch);
        writer::int64(out, self.end_offset);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
