//! Kafka's DescribeTopicPartitions response, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeTopicPartitions response, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTopicPartitionsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// Each topic in the response.
    pub topics: Vec<DescribeTopicPartitionsResponseTopic<'a>>,
    /// The next topic and partition index to fetch details for.
    pub next_cursor: Option<Cursor<'a>>,
}

impl<'a> DescribeTopicPartitionsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 75;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeTopicPartitionsResponse", version });
        }
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            topics: reader
                .array("topics", true, 26, |reader| DescribeTopicPartitionsResponseTopic::decode(reader, version))?,
            next_cursor: if reader.int8("next_cursor")? < 0 { None } else { Some(Cursor::decode(reader, version)?) },
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeTopicPartitionsResponse", version });
        }
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "topics", &self.topics, true, |out, value| value.encode_body(out, version))?;
        match self.next_cursor.as_ref() {
            Some(value) => {
                writer::int8(out, 1);
                value.encode_body(out, version)?;
            }
            None => writer::int8(out, -1),
        }
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Each topic in the response.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsResponseTopic<'a> {
    /// The topic error, or 0 if there was no error.
    pub error_code: i16,
    /// The topic name.
    pub name: Option<&'a str>,
    /// The topic id.
    pub topic_id: Uuid,
    /// True if the topic is internal.
    pub is_internal: bool,
    /// Each partition in the topic.
    pub partitions: Vec<DescribeTopicPartitionsResponsePartition>,
    /// 32-bit bitfield to represent authorized operations for this topic.
    pub topic_authorized_operations: i32,
}

impl Default for DescribeTopicPartitionsResponseTopic<'_> {
    fn default() -> Self {
        Self {
            error_code: 0,
            name: Some(""),
            topic_id: Uuid::ZERO,
            is_internal: false,
            partitions: Vec::new(),
            topic_authorized_operations: -2147483648,
        }
    }
}

impl<'a> DescribeTopicPartitionsResponseTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            error_code: reader.int16("error_code")?,
            name: reader.nullable_string("name", true)?,
            topic_id: reader.uuid("topic_id")?,
            is_internal: reader.bool("is_internal")?,
            partitions: reader.array("partitions", true, 20, |reader| {
                DescribeTopicPartitionsResponsePartition::decode(reader, version)
            })?,
            topic_authorized_operations: reader.int32("topic_authorized_operations")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::int16(out, self.error_code);
        writer::nullable_string(out, "name", self.name, true)?;
        writer::uuid(out, self.topic_id);
        writer::bool(out, self.is_internal);
        writer::array(out, "partitions", &self.partitions, true, |out, value| value.encode_body(out, version))?;
        writer::int32(out, self.topic_authorized_operations);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Each partition in the topic.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsResponsePartition {
    /// The partition error, or 0 if there was no error.
    pub error_code: i16,
    /// The partition index.
    pub partition_index: i32,
    /// The ID of the leader broker.
    pub leader_id: i32,
    /// The leader epoch of this partition.
    pub leader_epoch: i32,
    /// The set of all nodes that host this partition.
    pub replica_nodes: Vec<i32>,
    /// The set of nodes that are in sync with the leader for this partition.
    pub isr_nodes: Vec<i32>,
    /// The new eligible leader replicas otherwise.
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// The last known ELR.
    pub last_known_elr: Option<Vec<i32>>,
    /// The set of offline replicas of this partition.
    pub offline_replicas: Vec<i32>,
}

impl Default for DescribeTopicPartitionsResponsePartition {
    fn default() -> Self {
        Self {
            error_code: 0,
            partition_index: 0,
            leader_id: 0,
            leader_epoch: -1,
            replica_nodes: Vec::new(),
            isr_nodes: Vec::new(),
            eligible_leader_replicas: None,
            last_known_elr: None,
            offline_replicas: Vec::new(),
        }
    }
}

impl DescribeTopicPartitionsResponsePartition {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            error_code: reader.int16("error_code")?,
            partition_index: reader.int32("partition_index")?,
            leader_id: reader.int32("leader_id")?,
            leader_epoch: reader.int32("leader_epoch")?,
            replica_nodes: reader.array("replica_nodes", true, 4, |reader| reader.int32("replica_nodes"))?,
            isr_nodes: reader.array("isr_nodes", true, 4, |reader| reader.int32("isr_nodes"))?,
            eligible_leader_replicas: reader.nullable_array("eligible_leader_replicas", true, 4, |reader| {
                reader.int32("eligible_leader_replicas")
            })?,
            last_known_elr: reader
                .nullable_array("last_known_elr", true, 4, |reader| reader.int32("last_known_elr"))?,
            offline_replicas: reader.array("offline_replicas", true, 4, |reader| reader.int32("offline_replicas"))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int16(out, self.error_code);
        writer::int32(out, self.partition_index);
        writer::int32(out, self.leader_id);
        writer::int32(out, self.leader_epoch);
        writer::array(out, "replica_nodes", &self.replica_nodes, true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::array(out, "isr_nodes", &self.isr_nodes, true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::nullable_array(
            out,
            "eligible_leader_replicas",
            self.eligible_leader_replicas.as_deref(),
            true,
            |out, value| {
                writer::int32(out, *value);
                Ok(())
            },
        )?;
        writer::nullable_array(out, "last_known_elr", self.last_known_elr.as_deref(), true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::array(out, "offline_replicas", &self.offline_replicas, true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The next topic and partition index to fetch details for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cursor<'a> {
    /// The name for the first topic to process.
    pub topic_name: &'a str,
    /// The partition index to start with.
    pub partition_index: i32,
}

impl<'a> Cursor<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message =
            Self { topic_name: reader.string("topic_name", true)?, partition_index: reader.int32("partition_index")? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::string(out, "topic_name", self.topic_name, true)?;
        writer::int32(out, self.partition_index);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
