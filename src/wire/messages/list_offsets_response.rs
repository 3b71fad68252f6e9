//! Kafka's ListOffsets response, versions 1 to 11.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's ListOffsets response, versions 1 to 11.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 2.
    pub throttle_time_ms: i32,
    /// Each topic in the response.
    pub topics: Vec<ListOffsetsTopicResponse<'a>>,
}

impl<'a> ListOffsetsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 2;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 11;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ListOffsetsResponse", version });
        }
        let flexible = version >= 6;
        let message = Self {
            throttle_time_ms: if version >= 2 { reader.int32("throttle_time_ms")? } else { 0 },
            topics: reader.array("topics", flexible, 3, |reader| ListOffsetsTopicResponse::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ListOffsetsResponse", version });
        }
        let flexible = version >= 6;
        if version >= 2 {
            writer::int32(out, self.throttle_time_ms);
        }
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic in the response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsTopicResponse<'a> {
    /// The topic name.
    pub name: &'a str,
    /// Each partition in the response.
    pub partitions: Vec<ListOffsetsPartitionResponse>,
}

impl<'a> ListOffsetsTopicResponse<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let message = Self {
            name: reader.string("name", flexible)?,
            partitions: reader
                .array("partitions", flexible, 22, |reader| ListOffsetsPartitionResponse::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer::string(out, "name", self.name, flexible)?;
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each partition in the response.
#[derive(Clone, Debug, PartialEq)]
pub struct ListOffsetsPartitionResponse {
    /// The partition index.
    pub partition_index: i32,
    /// The partition error code, or 0 if there was no error.
    pub error_code: i16,
    /// The timestamp associated with the returned offset.
    pub timestamp: i64,
    /// The returned offset.
    pub offset: i64,
    /// The leader epoch associated with the returned offset. Since version 4.
    pub leader_epoch: i32,
}

impl Default for ListOffsetsPartitionResponse {
    fn default() -> Self {
        Self { partition_index: 0, error_code: 0, timestamp: -1, offset: -1, leader_epoch: -1 }
    }
}

impl ListOffsetsPartitionResponse {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            error_code: reader.int16("error_code")?,
            timestamp: reader.int64("timestamp")?,
            offset: reader.int64("offset")?,
            leader_epoch: if version >= 4 { reader.int32("leader_epoch")? } else { -1 },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer::int32(out, self.partition_index);
        writer::int16(out, self.error_code);
        writer::int64(out, self.timestamp);
        writer::int64(out, self.offset);
        if version >= 4 {
            writer::int32(out, self.leader_epoch);
        } else {
            writer::absent("leader_epoch", version, self.leader_epoch == -1)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
