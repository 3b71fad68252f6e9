//! Kafka's Metadata response, versions 0 to 13.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's Metadata response, versions 0 to 13.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 3.
    pub throttle_time_ms: i32,
    /// A list of brokers present in the cluster.
    pub brokers: Vec<MetadataResponseBroker<'a>>,
    /// The cluster ID that responding broker belongs to. Since version 2.
    pub cluster_id: Option<&'a str>,
    /// The ID of the controller broker. Since version 1.
    pub controller_id: i32,
    /// Each topic in the response.
    pub topics: Vec<MetadataResponseTopic<'a>>,
    /// 32-bit bitfield to represent authorized operations for this cluster. Versions 8 to 10.
    pub cluster_authorized_operations: i32,
    /// The top-level error code, or 0 if there was no error. Since version 13.
    pub error_code: i16,
}

impl Default for MetadataResponse<'_> {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            brokers: Vec::new(),
            cluster_id: None,
            controller_id: -1,
            topics: Vec::new(),
            cluster_authorized_operations: -2147483648,
            error_code: 0,
        }
    }
}

impl<'a> MetadataResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 3;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 13;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "MetadataResponse", version });
        }
        let flexible = version >= 9;
        let message = Self {
            throttle_time_ms: if version >= 3 { reader.int32("throttle_time_ms")? } else { 0 },
            brokers: reader.array("brokers", flexible, 10, |reader| MetadataResponseBroker::decode(reader, version))?,
            cluster_id: if version >= 2 { reader.nullable_string("cluster_id", flexible)? } else { None },
            controller_id: if version >= 1 { reader.int32("controller_id")? } else { -1 },
            topics: reader.array("topics", flexible, 8, |reader| MetadataResponseTopic::decode(reader, version))?,
            cluster_authorized_operations: if (8..=10).contains(&version) {
                reader.int32("cluster_authorized_operations")?
            } else {
                -2147483648
            },
            error_code: if version == 13 { reader.int16("error_code")? } else { 0 },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "MetadataResponse", version });
        }
        let flexible = version >= 9;
        if version >= 3 {
            writer::int32(out, self.throttle_time_ms);
        }
        writer::array(out, "brokers", &self.brokers, flexible, |out, value| value.encode_body(out, version))?;
        if version >= 2 {
            writer::nullable_string(out, "cluster_id", self.cluster_id, flexible)?;
        }
        if version >= 1 {
            writer::int32(out, self.controller_id);
        }
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if (8..=10).contains(&version) {
            writer::int32(out, self.cluster_authorized_operations);
        } else {
            writer::absent(
                "cluster_authorized_operations",
                version,
                self.cluster_authorized_operations == -2147483648,
            )?;
        }
        if version == 13 {
            writer::int16(out, self.error_code);
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// A list of brokers present in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataResponseBroker<'a> {
    /// The broker ID.
    pub node_id: i32,
    /// The broker hostname.
    pub host: &'a str,
    /// The broker port.
    pub port: i32,
    /// The rack of the broker, or null if it has not been assigned to a rack. Since version 1.
    pub rack: Option<&'a str>,
}

impl<'a> MetadataResponseBroker<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let message = Self {
            node_id: reader.int32("node_id")?,
            host: reader.string("host", flexible)?,
            port: reader.int32("port")?,
            rack: if version >= 1 { reader.nullable_string("rack", flexible)? } else { None },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer::int32(out, self.node_id);
        writer::string(out, "host", self.host, flexible)?;
        writer::int32(out, self.port);
        if version >= 1 {
            writer::nullable_string(out, "rack", self.rack, flexible)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic in the response.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponseTopic<'a> {
    /// The topic error, or 0 if there was no error.
    pub error_code: i16,
    /// The topic name. Null for non-existing topics queried by ID. This is never null when ErrorCode is zero. One of
    /// Name and TopicId is always populated.
    pub name: Option<&'a str>,
    /// The topic id. Zero for non-existing topics queried by name. This is never zero when ErrorCode is zero. One of
    /// Name and TopicId is always populated. Since version 10.
    pub topic_id: Uuid,
    /// True if the topic is internal. Since version 1.
    pub is_internal: bool,
    /// Each partition in the topic.
    pub partitions: Vec<MetadataResponsePartition>,
    /// 32-bit bitfield to represent authorized operations for this topic. Since version 8.
    pub topic_authorized_operations: i32,
}

impl Default for MetadataResponseTopic<'_> {
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

impl<'a> MetadataResponseTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let message = Self {
            error_code: reader.int16("error_code")?,
            name: if version >= 12 {
                reader.nullable_string("name", flexible)?
            } else {
                Some(reader.string("name", flexible)?)
            },
            topic_id: if version >= 10 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            is_internal: if version >= 1 { reader.bool("is_internal")? } else { false },
            partitions: reader
                .array("partitions", flexible, 18, |reader| MetadataResponsePartition::decode(reader, version))?,
            topic_authorized_operations: if version >= 8 {
                reader.int32("topic_authorized_operations")?
            } else {
                -2147483648
            },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer::int16(out, self.error_code);
        if version >= 12 {
            writer::nullable_string(out, "name", self.name, flexible)?;
        } else {
            writer::string(out, "name", writer::required("name", self.name)?, flexible)?;
        }
        if version >= 10 {
            writer::uuid(out, self.topic_id);
        }
        if version >= 1 {
            writer::bool(out, self.is_internal);
        }
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if version >= 8 {
            writer::int32(out, self.topic_authorized_operations);
        } else {
            writer::absent("topic_authorized_operations", version, self.topic_authorized_operations == -2147483648)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each partition in the topic.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataResponsePartition {
    /// The partition error, or 0 if there was no error.
    pub error_code: i16,
    /// The partition index.
    pub partition_index: i32,
    /// The ID of the leader broker.
    pub leader_id: i32,
    /// The leader epoch of this partition. Since version 7.
    pub leader_epoch: i32,
    /// The set of all nodes that host this partition.
    pub replica_nodes: Vec<i32>,
    /// The set of nodes that are in sync with the leader for this partition.
    pub isr_nodes: Vec<i32>,
    /// The set of offline replicas of this partition. Since version 5.
    pub offline_replicas: Vec<i32>,
}

impl Default for MetadataResponsePartition {
    fn default() -> Self {
        Self {
            error_code: 0,
            partition_index: 0,
            leader_id: 0,
            leader_epoch: -1,
            replica_nodes: Vec::new(),
            isr_nodes: Vec::new(),
            offline_replicas: Vec::new(),
        }
    }
}

impl MetadataResponsePartition {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let message = Self {
            error_code: reader.int16("error_code")?,
            partition_index: reader.int32("partition_index")?,
            leader_id: reader.int32("leader_id")?,
            leader_epoch: if version >= 7 { reader.int32("leader_epoch")? } else { -1 },
            replica_nodes: reader.array("replica_nodes", flexible, 4, |reader| reader.int32("replica_nodes"))?,
            isr_nodes: reader.array("isr_nodes", flexible, 4, |reader| reader.int32("isr_nodes"))?,
            offline_replicas: if version >= 5 {
                reader.array("offline_replicas", flexible, 4, |reader| reader.int32("offline_replicas"))?
            } else {
                Vec::new()
            },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer::int16(out, self.error_code);
        writer::int32(out, self.partition_index);
        writer::int32(out, self.leader_id);
        if version >= 7 {
            writer::int32(out, self.leader_epoch);
        }
        writer::array(out, "replica_nodes", &self.replica_nodes, flexible, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::array(out, "isr_nodes", &self.isr_nodes, flexible, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        if version >= 5 {
            writer::array(out, "offline_replicas", &self.offline_replicas, flexible, |out, value| {
                writer::int32(out, *value);
                Ok(())
            })?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
