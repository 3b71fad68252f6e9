//! Kafka's DescribeProducers response, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeProducers response, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeProducersResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// Each topic in the response.
    pub topics: Vec<TopicResponse<'a>>,
}

impl<'a> DescribeProducersResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 61;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeProducersResponse", version });
        }
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            topics: reader.array("topics", true, 3, |reader| TopicResponse::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeProducersResponse", version });
        }
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "topics", &self.topics, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Each topic in the response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicResponse<'a> {
    /// The topic name.
    pub name: &'a str,
    /// Each partition in the response.
    pub partitions: Vec<PartitionResponse<'a>>,
}

impl<'a> TopicResponse<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            name: reader.string("name", true)?,
            partitions: reader.array("partitions", true, 9, |reader| PartitionResponse::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::string(out, "name", self.name, true)?;
        writer::array(out, "partitions", &self.partitions, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Each partition in the response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionResponse<'a> {
    /// The partition index.
    pub partition_index: i32,
    /// The partition error code, or 0 if there was no error.
    pub error_code: i16,
    /// The partition error message, which may be null if no additional details are available.
    pub error_message: Option<&'a str>,
    /// The active producers for the partition.
    pub active_producers: Vec<ProducerState>,
}

impl<'a> PartitionResponse<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            error_code: reader.int16("error_code")?,
            error_message: reader.nullable_string("error_message", true)?,
            active_producers: reader
                .array("active_producers", true, 37, |reader| ProducerState::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.partition_index);
        writer::int16(out, self.error_code);
        writer::nullable_string(out, "error_message", self.error_message, true)?;
        writer::array(out, "active_producers", &self.active_producers, true, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The active producers for the partition.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerState {
    /// The producer id.
    pub producer_id: i64,
    /// The producer epoch.
    pub producer_epoch: i32,
    /// The last sequence number sent by the producer.
    pub last_sequence: i32,
    /// The last timestamp sent by the producer.
    pub last_timestamp: i64,
    /// The current epoch of the producer group.
    pub coordinator_epoch: i32,
    /// The current transaction start offset of the producer.
    pub current_txn_start_offset: i64,
}

impl Default for ProducerState {
    fn default() -> Self {
        Self {
            producer_id: 0,
            producer_epoch: 0,
            last_sequence: -1,
            last_timestamp: -1,
            coordinator_epoch: 0,
            current_txn_start_offset: -1,
        }
    }
}

impl ProducerState {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            producer_id: reader.int64("producer_id")?,
            producer_epoch: reader.int32("producer_epoch")?,
            last_sequence: reader.int32("last_sequence")?,
            last_timestamp: reader.int64("last_timestamp")?,
            coordinator_epoch: reader.int32("coordinator_epoch")?,
            current_txn_start_offset: reader.int64("current_txn_start_offset")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int64(out, self.producer_id);
        writer::int32(out, self.producer_epoch);
        writer::int32(out, self.last_sequence);
        writer::int64(out, self.last_timestamp);
        writer::int32(out, self.coordinator_epoch);
        writer::int64(out, self.current_txn_start_offset);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
