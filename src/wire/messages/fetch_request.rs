//! Kafka's Fetch request, versions 4 to 18.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's Fetch request, versions 4 to 18.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchRequest<'a> {
    /// The clusterId if known. This is used to validate metadata fetches prior to broker registration. Since version
    /// 12.
    pub cluster_id: Option<&'a str>,
    /// The broker ID of the follower, of -1 if this request is from a consumer. Up to version 14.
    pub replica_id: i32,
    /// The state of the replica in the follower. Since version 15.
    pub replica_state: ReplicaState,
    /// The maximum time in milliseconds to wait for the response.
    pub max_wait_ms: i32,
    /// The minimum bytes to accumulate in the response.
    pub min_bytes: i32,
    /// The maximum bytes to fetch. See KIP-74 for cases where this limit may not be honored.
    pub max_bytes: i32,
    /// This setting controls the visibility of transactional records. Using READ_UNCOMMITTED (isolation_level = 0)
    /// makes all records visible. With READ_COMMITTED (isolation_level = 1), non-transactional and COMMITTED
    /// transactional records are visible. To be more concrete, READ_COMMITTED returns all data from offsets smaller
    /// than the current LSO (last stable offset), and enables the inclusion of the list of aborted transactions in
    /// the result, which allows consumers to discard ABORTED transactional records.
    pub isolation_level: i8,
    /// The fetch session ID. Since version 7.
    pub session_id: i32,
    /// The fetch session epoch, which is used for ordering requests in a session. Since version 7.
    pub session_epoch: i32,
    /// The topics to fetch.
    pub topics: Vec<FetchTopic<'a>>,
    /// In an incremental fetch request, the partitions to remove. Since version 7.
    pub forgotten_topics_data: Vec<ForgottenTopic<'a>>,
    /// Rack ID of the consumer making this request. Since version 11.
    pub rack_id: &'a str,
}

impl Default for FetchRequest<'_> {
    fn default() -> Self {
        Self {
            cluster_id: None,
            replica_id: -1,
            replica_state: ReplicaState::default(),
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topics: Vec::new(),
            forgotten_topics_data: Vec::new(),
            rack_id: "",
        }
    }
}

impl<'a> FetchRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 1;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 4;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 18;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "FetchRequest", version });
        }
        let flexible = version >= 12;
        let mut message = Self {
            cluster_id: None,
            replica_id: if version <= 14 { reader.int32("replica_id")? } else { -1 },
            replica_state: ReplicaState::default(),
            max_wait_ms: reader.int32("max_wait_ms")?,
            min_bytes: reader.int32("min_bytes")?,
            max_bytes: reader.int32("max_bytes")?,
            isolation_level: reader.int8("isolation_level")?,
            session_id: if version >= 7 { reader.int32("session_id")? } else { 0 },
            session_epoch: if version >= 7 { reader.int32("session_epoch")? } else { -1 },
            topics: reader.array("topics", flexible, 3, |reader| FetchTopic::decode(reader, version))?,
            forgotten_topics_data: if version >= 7 {
                reader.array("forgotten_topics_data", flexible, 3, |reader| ForgottenTopic::decode(reader, version))?
            } else {
                Vec::new()
            },
            rack_id: if version >= 11 { reader.string("rack_id", flexible)? } else { "" },
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                match tag {
                    0 => message.cluster_id = reader.nullable_string("cluster_id", flexible)?,
                    1 if version >= 15 => message.replica_state = ReplicaState::decode(reader, version)?,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "FetchRequest", version });
        }
        let flexible = version >= 12;
        if version <= 14 {
            writer::int32(out, self.replica_id);
        } else {
            writer::absent("replica_id", version, self.replica_id == -1)?;
        }
        writer::int32(out, self.max_wait_ms);
        writer::int32(out, self.min_bytes);
        writer::int32(out, self.max_bytes);
        writer::int8(out, self.isolation_level);
        if version >= 7 {
            writer::int32(out, self.session_id);
        }
        if version >= 7 {
            writer::int32(out, self.session_epoch);
        }
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if version >= 7 {
            writer::array(out, "forgotten_topics_data", &self.forgotten_topics_data, flexible, |out, value| {
                value.encode_body(out, version)
            })?;
        } else {
            writer::absent("forgotten_topics_data", version, self.forgotten_topics_data.is_empty())?;
        }
        if version >= 11 {
            writer::string(out, "rack_id", self.rack_id, flexible)?;
        }
        if version < 15 {
            writer::absent("replica_state", version, self.replica_state == ReplicaState::default())?;
        }
        if flexible {
            let has_cluster_id = self.cluster_id.is_some();
            let has_replica_state = version >= 15 && self.replica_state != ReplicaState::default();
            writer::unsigned_varint(out, u32::from(has_cluster_id) + u32::from(has_replica_state));
            if has_cluster_id {
                writer::tagged_field(out, 0, |out| {
                    writer::nullable_string(out, "cluster_id", self.cluster_id, flexible)?;
                    Ok(())
                })?;
            }
            if has_replica_state {
                writer::tagged_field(out, 1, |out| {
                    self.replica_state.encode_body(out, version)?;
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// The state of the replica in the follower.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaState {
    /// The replica ID of the follower, or -1 if this request is from a consumer.
    pub replica_id: i32,
    /// The epoch of this follower, or -1 if not available.
    pub replica_epoch: i64,
}

impl Default for ReplicaState {
    fn default() -> Self {
        Self { replica_id: -1, replica_epoch: -1 }
    }
}

impl ReplicaState {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self { replica_id: reader.int32("replica_id")?, replica_epoch: reader.int64("replica_epoch")? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.replica_id);
        writer::int64(out, self.replica_epoch);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The topics to fetch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchTopic<'a> {
    /// The name of the topic to fetch. Up to version 12.
    pub topic: &'a str,
    /// The unique topic ID. Since version 13.
    pub topic_id: Uuid,
    /// The partitions to fetch.
    pub partitions: Vec<FetchPartition>,
}

impl<'a> FetchTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let message = Self {
            topic: if version <= 12 { reader.string("topic", flexible)? } else { "" },
            topic_id: if version >= 13 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partitions: reader.array("partitions", flexible, 16, |reader| FetchPartition::decode(reader, version))?,
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

/// The partitions to fetch.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchPartition {
    /// The partition index.
    pub partition: i32,
    /// The current leader epoch of the partition. Since version 9.
    pub current_leader_epoch: i32,
    /// The message offset.
    pub fetch_offset: i64,
    /// The epoch of the last fetched record or -1 if there is none. Since version 12.
    pub last_fetched_epoch: i32,
    /// The earliest available offset of the follower replica. The field is only used when the request is sent by the
    /// follower. Since version 5.
    pub log_start_offset: i64,
    /// The maximum bytes to fetch from this partition. See KIP-74 for cases where this limit may not be honored.
    pub partition_max_bytes: i32,
    /// The directory id of the follower fetching. Since version 17.
    pub replica_directory_id: Uuid,
    /// The high-watermark known by the replica. -1 if the high-watermark is not known and 9223372036854775807 if the
    /// feature is not supported. Since version 18.
    pub high_watermark: i64,
}

impl Default for FetchPartition {
    fn default() -> Self {
        Self {
            partition: 0,
            current_leader_epoch: -1,
            fetch_offset: 0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 0,
            replica_directory_id: Uuid::ZERO,
            high_watermark: i64::MAX,
        }
    }
}

impl FetchPartition {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut message = Self {
            partition: reader.int32("partition")?,
            current_leader_epoch: if version >= 9 { reader.int32("current_leader_epoch")? } else { -1 },
            fetch_offset: reader.int64("fetch_offset")?,
            last_fetched_epoch: if version >= 12 { reader.int32("last_fetched_epoch")? } else { -1 },
            log_start_offset: if version >= 5 { reader.int64("log_start_offset")? } else { -1 },
            partition_max_bytes: reader.int32("partition_max_bytes")?,
            replica_directory_id: Uuid::ZERO,
            high_watermark: i64::MAX,
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                match tag {
                    0 if version >= 17 => message.replica_directory_id = reader.uuid("replica_directory_id")?,
                    1 if version == 18 => message.high_watermark = reader.int64("high_watermark")?,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 12;
        writer::int32(out, self.partition);
        if version >= 9 {
            writer::int32(out, self.current_leader_epoch);
        }
        writer::int64(out, self.fetch_offset);
        if version >= 12 {
            writer::int32(out, self.last_fetched_epoch);
        } else {
            writer::absent("last_fetched_epoch", version, self.last_fetched_epoch == -1)?;
        }
        if version >= 5 {
            writer::int64(out, self.log_start_offset);
        }
        writer::int32(out, self.partition_max_bytes);
        if flexible {
            let has_replica_directory_id = version >= 17 && !self.replica_directory_id.is_zero();
            let has_high_watermark = version == 18 && self.high_watermark != i64::MAX;
            writer::unsigned_varint(out, u32::from(has_replica_directory_id) + u32::from(has_high_watermark));
            if has_replica_directory_id {
                writer::tagged_field(out, 0, |out| {
                    writer::uuid(out, self.replica_directory_id);
                    Ok(())
                })?;
            }
            if has_high_watermark {
                writer::tagged_field(out, 1, |out| {
                    writer::int64(out, self.high_watermark);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// In an incremental fetch request, the partitions to remove.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForgottenTopic<'a> {
    /// The topic name. Up to version 12.
    pub topic: &'a str,
    /// The unique topic ID. Since version 13.
    pub topic_id: Uuid,
    /// The partitions indexes to forget.
    pub partitions: Vec<i32>,
}

impl<'a> ForgottenTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let message = Self {
            topic: if version <= 12 { reader.string("topic", flexible)? } else { "" },
            topic_id: if version >= 13 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partitions: reader.array("partitions", flexible, 4, |reader| reader.int32("partitions"))?,
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
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
