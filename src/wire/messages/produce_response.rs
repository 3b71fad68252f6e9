//! Kafka's Produce response, versions 3 to 13.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's Produce response, versions 3 to 13.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceResponse<'a> {
    /// Each produce response.
    pub responses: Vec<TopicProduceResponse<'a>>,
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// Endpoints for all current-leaders enumerated in PartitionProduceResponses, with errors NOT_LEADER_OR_FOLLOWER.
    /// Since version 10.
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

impl<'a> ProduceResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 0;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 3;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 13;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ProduceResponse", version });
        }
        let flexible = version >= 9;
        let mut message = Self {
            responses: reader
                .array("responses", flexible, 3, |reader| TopicProduceResponse::decode(reader, version))?,
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            node_endpoints: Vec::new(),
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                if tag == 0 && version >= 10 {
                    message.node_endpoints =
                        reader.array("node_endpoints", flexible, 11, |reader| NodeEndpoint::decode(reader, version))?;
                }
                Ok(())
            })?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ProduceResponse", version });
        }
        let flexible = version >= 9;
        writer::array(out, "responses", &self.responses, flexible, |out, value| value.encode_body(out, version))?;
        writer::int32(out, self.throttle_time_ms);
        if version < 10 {
            writer::absent("node_endpoints", version, self.node_endpoints.is_empty())?;
        }
        if flexible {
            let has_node_endpoints = version >= 10 && !self.node_endpoints.is_empty();
            writer::unsigned_varint(out, u32::from(has_node_endpoints));
            if has_node_endpoints {
                writer::tagged_field(out, 0, |out| {
                    writer::array(out, "node_endpoints", &self.node_endpoints, flexible, |out, value| {
                        value.encode_body(out, version)
                    })?;
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// Each produce response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicProduceResponse<'a> {
    /// The topic name. Up to version 12.
    pub name: &'a str,
    /// The unique topic ID Since version 13.
    pub topic_id: Uuid,
    /// Each partition that we produced to within the topic.
    pub partition_responses: Vec<PartitionProduceResponse<'a>>,
}

impl<'a> TopicProduceResponse<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let message = Self {
            name: if version <= 12 { reader.string("name", flexible)? } else { "" },
            topic_id: if version == 13 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partition_responses: reader.array("partition_responses", flexible, 22, |reader| {
                PartitionProduceResponse::decode(reader, version)
            })?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        if version <= 12 {
            writer::string(out, "name", self.name, flexible)?;
        }
        if version == 13 {
            writer::uuid(out, self.topic_id);
        }
        writer::array(out, "partition_responses", &self.partition_responses, flexible, |out, value| {
            value.encode_body(out, version)
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each partition that we produced to within the topic.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionProduceResponse<'a> {
    /// The partition index.
    pub index: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// The base offset.
    pub base_offset: i64,
    /// The timestamp returned by broker after appending the messages. If CreateTime is used for the topic, the
    /// timestamp will be -1. If LogAppendTime is used for the topic, the timestamp will be the broker local time when
    /// the messages are appended.
    pub log_append_time_ms: i64,
    /// The log start offset. Since version 5.
    pub log_start_offset: i64,
    /// The batch indices of records that caused the batch to be dropped. Since version 8.
    pub record_errors: Vec<BatchIndexAndErrorMessage<'a>>,
    /// The global error message summarizing the common root cause of the records that caused the batch to be dropped.
    /// Since version 8.
    pub error_message: Option<&'a str>,
    /// The leader broker that the producer should use for future requests. Since version 10.
    pub current_leader: LeaderIdAndEpoch,
}

impl Default for PartitionProduceResponse<'_> {
    fn default() -> Self {
        Self {
            index: 0,
            error_code: 0,
            base_offset: 0,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: LeaderIdAndEpoch::default(),
        }
    }
}

impl<'a> PartitionProduceResponse<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let mut message = Self {
            index: reader.int32("index")?,
            error_code: reader.int16("error_code")?,
            base_offset: reader.int64("base_offset")?,
            log_append_time_ms: reader.int64("log_append_time_ms")?,
            log_start_offset: if version >= 5 { reader.int64("log_start_offset")? } else { -1 },
            record_errors: if version >= 8 {
                reader
                    .array("record_errors", flexible, 6, |reader| BatchIndexAndErrorMessage::decode(reader, version))?
            } else {
                Vec::new()
            },
            error_message: if version >= 8 { reader.nullable_string("error_message", flexible)? } else { None },
            current_leader: LeaderIdAndEpoch::default(),
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                if tag == 0 && version >= 10 {
                    message.current_leader = LeaderIdAndEpoch::decode(reader, version)?;
                }
                Ok(())
            })?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer::int32(out, self.index);
        writer::int16(out, self.error_code);
        writer::int64(out, self.base_offset);
        writer::int64(out, self.log_append_time_ms);
        if version >= 5 {
            writer::int64(out, self.log_start_offset);
        }
        if version >= 8 {
            writer::array(out, "record_errors", &self.record_errors, flexible, |out, value| {
                value.encode_body(out, version)
            })?;
        }
        if version >= 8 {
            writer::nullable_string(out, "error_message", self.error_message, flexible)?;
        }
        if version < 10 {
            writer::absent("current_leader", version, self.current_leader == LeaderIdAndEpoch::default())?;
        }
        if flexible {
            let has_current_leader = version >= 10 && self.current_leader != LeaderIdAndEpoch::default();
            writer::unsigned_varint(out, u32::from(has_current_leader));
            if has_current_leader {
                writer::tagged_field(out, 0, |out| {
                    self.current_leader.encode_body(out, version)?;
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// The batch indices of records that caused the batch to be dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchIndexAndErrorMessage<'a> {
    /// The batch index of the record that caused the batch to be dropped.
    pub batch_index: i32,
    /// The error message of the record that caused the batch to be dropped.
    pub batch_index_error_message: Option<&'a str>,
}

impl<'a> BatchIndexAndErrorMessage<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let message = Self {
            batch_index: reader.int32("batch_index")?,
            batch_index_error_message: reader.nullable_string("batch_index_error_message", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer::int32(out, self.batch_index);
        writer::nullable_string(out, "batch_index_error_message", self.batch_index_error_message, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The leader broker that the producer should use for future requests.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaderIdAndEpoch {
    /// The ID of the current leader or -1 if the leader is unknown.
    pub leader_id: i32,
    /// The latest known leader epoch.
    pub leader_epoch: i32,
}

impl Default for LeaderIdAndEpoch {
    fn default() -> Self {
        Self { leader_id: -1, leader_epoch: -1 }
    }
}

impl LeaderIdAndEpoch {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self { leader_id: reader.int32("leader_id")?, leader_epoch: reader.int32("leader_epoch")? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.leader_id);
        writer::int32(out, self.leader_epoch);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Endpoints for all current-leaders enumerated in PartitionProduceResponses, with errors NOT_LEADER_OR_FOLLOWER.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeEndpoint<'a> {
    /// The ID of the associated node.
    pub node_id: i32,
    /// The node's hostname.
    pub host: &'a str,
    /// The node's port.
    pub port: i32,
    /// The rack of the node, or null if it has not been assigned to a rack.
    pub rack: Option<&'a str>,
}

impl<'a> NodeEndpoint<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            node_id: reader.int32("node_id")?,
            host: reader.string("host", flexible)?,
            port: reader.int32("port")?,
            rack: reader.nullable_string("rack", flexible)?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::int32(out, self.node_id);
        writer::string(out, "host", self.host, flexible)?;
        writer::int32(out, self.port);
        writer::nullable_string(out, "rack", self.rack, flexible)?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
