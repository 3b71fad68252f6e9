//! Kafka's OffsetForLeaderEpoch request, versions 2 to 4.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's OffsetForLeaderEpoch request, versions 2 to 4.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetForLeaderEpochRequest<'a> {
    /// The broker ID of the follower, of -1 if this request is from a consumer. Since version 3.
    pub replica_id: i32,
    /// Each topic to get offsets for.
    pub topics: Vec<OffsetForLeaderTopic<'a>>,
}

impl Default for OffsetForLeaderEpochRequest<'_> {
    fn default() -> Self {
        Self { replica_id: -2, topics: Vec::new() }
    }
}

impl<'a> OffsetForLeaderEpochRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 23;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 2;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 4;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "OffsetForLeaderEpochRequest", version });
        }
        let flexible = version == 4;
        let message = Self {
            replica_id: if version >= 3 { reader.int32("replica_id")? } else { -2 },
            topics: reader.array("topics", flexible, 3, |reader| OffsetForLeaderTopic::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "OffsetForLeaderEpochRequest", version });
        }
        let flexible = version == 4;
        if version >= 3 {
            writer::int32(out, self.replica_id);
        }
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic to get offsets for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetForLeaderTopic<'a> {
    /// The topic name.
    pub topic: &'a str,
    /// Each partition to get offsets for.
    pub partitions: Vec<OffsetForLeaderPartition>,
}

impl<'a> OffsetForLeaderTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 4;
        let message = Self {
            topic: reader.string("topic", flexible)?,
            partitions: reader
                .array("partitions", flexible, 12, |reader| OffsetForLeaderPartition::decode(reader, version))?,
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

/// Each partition to get offsets for.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetForLeaderPartition {
    /// The partition index.
    pub partition: i32,
    /// An epoch used to fence consumers/replicas with old metadata. If the epoch provided by the client is larger
    /// than the current epoch known to the broker, then the UNKNOWN_LEADER_EPOCH error code will be returned. If the
    /// provided epoch is smaller, then the FENCED_LEADER_EPOCH error code will be returned.
    pub current_leader_epoch: i32,
    /// The epoch to look up an offset for.
    pub leader_epoch: i32,
}

impl Default for OffsetForLeaderPartition {
    fn default() -> Self {
        Self { partition: 0, current_leader_epoch: -1, leader_epoch: 0 }
    }
}

impl OffsetForLeaderPartition {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 4;
        let message = Self {
            partition: reader.int32("partition")?,
            current_leader_epoch: reader.int32("current_leader_epoch")?,
            leader_epoch: reader.int32("leader_epoch")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 4;
        writer::int32(out, self.partition);
        writer::int32(out, self.current_leader_epoch);
        writer::int32(out, self.leader_epoch);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
