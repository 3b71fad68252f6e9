//! Kafka's DeleteRecords response, versions 0 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DeleteRecords response, versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// Each topic that we wanted to delete records from.
    pub topics: Vec<DeleteRecordsTopicResult<'a>>,
}

impl<'a> DeleteRecordsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 21;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DeleteRecordsResponse", version });
        }
        let flexible = version == 2;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            topics: reader.array("topics", flexible, 3, |reader| DeleteRecordsTopicResult::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DeleteRecordsResponse", version });
        }
        let flexible = version == 2;
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic that we wanted to delete records from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsTopicResult<'a> {
    /// The topic name.
    pub name: &'a str,
    /// Each partition that we wanted to delete records from.
    pub partitions: Vec<DeleteRecordsPartitionResult>,
}

impl<'a> DeleteRecordsTopicResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 2;
        let message = Self {
            name: reader.string("name", flexible)?,
            partitions: reader
                .array("partitions", flexible, 14, |reader| DeleteRecordsPartitionResult::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 2;
        writer::string(out, "name", self.name, flexible)?;
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each partition that we wanted to delete records from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsPartitionResult {
    /// The partition index.
    pub partition_index: i32,
    /// The partition low water mark.
    pub low_watermark: i64,
    /// The deletion error code, or 0 if the deletion succeeded.
    pub error_code: i16,
}

impl DeleteRecordsPartitionResult {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 2;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            low_watermark: reader.int64("low_watermark")?,
            error_code: reader.int16("error_code")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 2;
        writer::int32(out, self.partition_index);
        writer::int64(out, self.low_watermark);
        writer::int16(out, self.error_code);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
