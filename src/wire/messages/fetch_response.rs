//! Kafka's Fetch response, versions 4 to 18.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's Fetch response, versions 4 to 18.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The top level response error code. Since version 7.
    pub error_code: i16,
    /// The fetch session ID, or 0 if this is not part of a fetch session. Since version 7.
    pub session_id: i32,
    /// The response topics.
    pub responses: Vec<FetchableTopicResponse<'a>>,
    /// Endpoints for all current-leaders enumerated in PartitionData, with errors NOT_LEADER_OR_FOLLOWER &
    /// FENCED_LEADER_EPOCH. Since version 16.
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

impl<'a> FetchResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 1;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 4;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 18;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "FetchResponse", version });
        }
        let flexible = version >= 12;
        let mut message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            error_code: if version >= 7 { reader.int16("error_code")? } else { 0 },
            session_id: if version >= 7 { reader.int32("session_id")? } else { 0 },
            responses: reader
                .array("responses", flexible, 3, |reader| FetchableTopicResponse::decode(reader, version))?,
            node_endpoints: Vec::new(),
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                if tag == 0 && version >= 16 {
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
            return Err(EncodeError::UnsupportedVersion { message: "FetchResponse", version });
        }
        let flexible = version >= 12;
        writer::int32(out, self.throttle_time_ms);
        if version >= 7 {
            writer::int16(out, self.error_code);
        }
        if version >= 7 {
            writer::int32(out, self.session_id);
        } else {
            writer::absent("session_id", version, self.session_id == 0)?;
        }
        writer::array(out, "responses", &self.responses, flexible, |out, value| value.encode_body(out, version))?;
        if version < 16 {
            writer::absent("node_endpoints", version, self.node_endpoints.is_empty())?;
        }
        if flexible {
            let has_node_endpoints = version >= 16 && !self.node_endpoints.is_empty();
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

/// The response topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchableTopicResponse<'a> {
    /// The topic name. Up to version 12.
    pub topic: &'a str,
    /// The unique topic ID. Since version 13.
    pub topic_id: Uuid,
    /// The topic partitions.
    pub partitions: Vec<PartitionData<'a>>,
}

impl<'a> FetchableTopicResponse<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let message = Self {
            topic: if version <= 12 { reader.string("topic", flexible)? } else { "" },
            topic_id: if version >= 13 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partitions: reader.array("partitions", flexible, 30, |reader| PartitionData::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        if version <= 12 {
            writer::string(out, "topic", self.topic, flexible)?;
        }
        if version >= 13 {
            writer::uuid(out, self.topic_id);
        }
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The topic partitions.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionData<'a> {
    /// The partition index.
    pub partition_index: i32,
    /// The error code, or 0 if there was no fetch error.
    pub error_code: i16,
    /// The current high water mark.
    pub high_watermark: i64,
    /// The last stable offset (or LSO) of the partition. This is the last offset such that the state of all
    /// transactional records prior to this offset have been decided (ABORTED or COMMITTED).
    pub last_stable_offset: i64,
    /// The current log start offset. Since version 5.
    pub log_start_offset: i64,
    /// In case divergence is detected based on the `LastFetchedEpoch` and `FetchOffset` in the request, this field
    /// indicates the largest epoch and its end offset such that subsequent records are known to diverge. Since
    /// version 12.
    pub diverging_epoch: EpochEndOffset,
    /// The current leader of the partition. Since version 12.
    pub current_leader: LeaderIdAndEpoch,
    /// In the case of fetching an offset less than the LogStartOffset, this is the end offset and epoch that should
    /// be used in the FetchSnapshot request. Since version 12.
    pub snapshot_id: SnapshotId,
    /// The aborted transactions.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// The preferred read replica for the consumer to use on its next fetch request. Since version 11.
    pub preferred_read_replica: i32,
    /// The record data.
    pub records: Option<&'a [u8]>,
}

impl Default for PartitionData<'_> {
    fn default() -> Self {
        Self {
            partition_index: 0,
            error_code: 0,
            high_watermark: 0,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: EpochEndOffset::default(),
            current_leader: LeaderIdAndEpoch::default(),
            snapshot_id: SnapshotId::default(),
            aborted_transactions: Some(Vec::new()),
            preferred_read_replica: -1,
            records: None,
        }
    }
}

impl<'a> PartitionData<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self {
            partition_index: reader.int32("partition_index")?,
            error_code: reader.int16("error_code")?,
            high_watermark: reader.int64("high_watermark")?,
            last_stable_offset: reader.int64("last_stable_offset")?,
            log_start_offset: if version >= 5 { reader.int64("log_start_offset")? } else { -1 },
            diverging_epoch: EpochEndOffset::default(),
            current_leader: LeaderIdAndEpoch::default(),
            snapshot_id: SnapshotId::default(),
            aborted_transactions: reader.nullable_array("aborted_transactions", flexible, 16, |reader| {
                AbortedTransaction::decode(reader, version)
            })?,
            preferred_read_replica: if version >= 11 { reader.int32("preferred_read_replica")? } else { -1 },
            records: reader.nullable_bytes("records", flexible)?,
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                match tag {
                    0 => message.diverging_epoch = EpochEndOffset::decode(reader, version)?,
                    1 => message.current_leader = LeaderIdAndEpoch::decode(reader, version)?,
                    2 => message.snapshot_id = SnapshotId::decode(reader, version)?,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        writer::int32(out, self.partition_index);
        writer::int16(out, self.error_code);
        writer::int64(out, self.high_watermark);
        writer::int64(out, self.last_stable_offset);
        if version >= 5 {
            writer::int64(out, self.log_start_offset);
        }
        writer::nullable_array(
            out,
            "aborted_transactions",
            self.aborted_transactions.as_deref(),
            flexible,
            |out, value| value.encode_body(out, version),
        )?;
        if version >= 11 {
            writer::int32(out, self.preferred_read_replica);
        } else {
            writer::absent("preferred_read_replica", version, self.preferred_read_replica == -1)?;
        }
        writer::nullable_bytes(out, "records", self.records, flexible)?;
        if version < 12 {
            writer::absent("diverging_epoch", version, self.diverging_epoch == EpochEndOffset::default())?;
        }
        if version < 12 {
            writer::absent("current_leader", version, self.current_leader == LeaderIdAndEpoch::default())?;
        }
        if version < 12 {
            writer::absent("snapshot_id", version, self.snapshot_id == SnapshotId::default())?;
        }
        if flexible {
            let has_diverging_epoch = self.diverging_epoch != EpochEndOffset::default();
            let has_current_leader = self.current_leader != LeaderIdAndEpoch::default();
            let has_snapshot_id = self.snapshot_id != SnapshotId::default();
            writer::unsigned_varint(
                out,
                u32::from(has_diverging_epoch) + u32::from(has_current_leader) + u32::from(has_snapshot_id),
            );
            if has_diverging_epoch {
                writer::tagged_field(out, 0, |out| {
                    self.diverging_epoch.encode_body(out, version)?;
                    Ok(())
                })?;
            }
            if has_current_leader {
                writer::tagged_field(out, 1, |out| {
                    self.current_leader.encode_body(out, version)?;
                    Ok(())
                })?;
            }
            if has_snapshot_id {
                writer::tagged_field(out, 2, |out| {
                    self.snapshot_id.encode_body(out, version)?;
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// In case divergence is detected based on the `LastFetchedEpoch` and `FetchOffset` in the request, this field
/// indicates the largest epoch and its end offset such that subsequent records are known to diverge.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochEndOffset {
    /// The largest epoch.
    pub epoch: i32,
    /// The end offset of the epoch.
    pub end_offset: i64,
}

impl Default for EpochEndOffset {
    fn default() -> Self {
        Self { epoch: -1, end_offset: -1 }
    }
}

impl EpochEndOffset {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self { epoch: reader.int32("epoch")?, end_offset: reader.int64("end_offset")? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.epoch);
        writer::int64(out, self.end_offset);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The current leader of the partition.
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

/// In the case of fetching an offset less than the LogStartOffset, this is the end offset and epoch that should
/// be used in the FetchSnapshot request.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotId {
    /// The end offset of the epoch.
    pub end_offset: i64,
    /// The largest epoch.
    pub epoch: i32,
}

impl Default for SnapshotId {
    fn default() -> Self {
        Self { end_offset: -1, epoch: -1 }
    }
}

impl SnapshotId {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self { end_offset: reader.int64("end_offset")?, epoch: reader.int32("epoch")? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int64(out, self.end_offset);
        writer::int32(out, self.epoch);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The aborted transactions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AbortedTransaction {
    /// The producer id associated with the aborted transaction.
    pub producer_id: i64,
    /// The first offset in the aborted transaction.
    pub first_offset: i64,
}

impl AbortedTransaction {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let message = Self { producer_id: reader.int64("producer_id")?, first_offset: reader.int64("first_offset")? };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        writer::int64(out, self.producer_id);
        writer::int64(out, self.first_offset);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Endpoints for all current-leaders enumerated in PartitionData, with errors NOT_LEADER_OR_FOLLOWER &
/// FENCED_LEADER_EPOCH.
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
