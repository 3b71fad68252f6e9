//! Kafka's OffsetCommit request, versions 2 to 10.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's OffsetCommit request, versions 2 to 10.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitRequest<'a> {
    /// The unique group identifier.
    pub group_id: &'a str,
    /// The generation of the group if using the classic group protocol or the member epoch if using the consumer
    /// protocol.
    pub generation_id_or_member_epoch: i32,
    /// The member ID assigned by the group coordinator.
    pub member_id: &'a str,
    /// The unique identifier of the consumer instance provided by end user. Since version 7.
    pub group_instance_id: Option<&'a str>,
    /// The time period in ms to retain the offset. Up to version 4.
    pub retention_time_ms: i64,
    /// The topics to commit offsets for.
    pub topics: Vec<OffsetCommitRequestTopic<'a>>,
}

impl Default for OffsetCommitRequest<'_> {
    fn default() -> Self {
        Self {
            group_id: "",
            generation_id_or_member_epoch: -1,
            member_id: "",
            group_instance_id: None,
            retention_time_ms: -1,
            topics: Vec::new(),
        }
    }
}

impl<'a> OffsetCommitRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 8;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 2;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 10;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "OffsetCommitRequest", version });
        }
        let flexible = version >= 8;
        let message = Self {
            group_id: reader.string("group_id", flexible)?,
            generation_id_or_member_epoch: reader.int32("generation_id_or_member_epoch")?,
            member_id: reader.string("member_id", flexible)?,
            group_instance_id: if version >= 7 { reader.nullable_string("group_instance_id", flexible)? } else { None },
            retention_time_ms: if version <= 4 { reader.int64("retention_time_ms")? } else { -1 },
            topics: reader.array("topics", flexible, 3, |reader| OffsetCommitRequestTopic::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "OffsetCommitRequest", version });
        }
        let flexible = version >= 8;
        writer::string(out, "group_id", self.group_id, flexible)?;
        writer::int32(out, self.generation_id_or_member_epoch);
        writer::string(out, "member_id", self.member_id, flexible)?;
        if version >= 7 {
            writer::nullable_string(out, "group_instance_id", self.group_instance_id, flexible)?;
        } else {
            writer::absent("group_instance_id", version, self.group_instance_id.is_none())?;
        }
        if version <= 4 {
            writer::int64(out, self.retention_time_ms);
        }
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The topics to commit offsets for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetCommitRequestTopic<'a> {
    /// The topic name. Up to version 9.
    pub name: &'a str,
    /// The topic ID. Since version 10.
    pub topic_id: Uuid,
    /// Each partition to commit offsets for.
    pub partitions: Vec<OffsetCommitRequestPartition<'a>>,
}

impl<'a> OffsetCommitRequestTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 8;
        let message = Self {
            name: if version <= 9 { reader.string("name", flexible)? } else { "" },
            topic_id: if version == 10 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partitions: reader
                .array("partitions", flexible, 14, |reader| OffsetCommitRequestPartition::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 8;
        if version <= 9 {
            writer::string(out, "name", self.name, flexible)?;
        }
        if version == 10 {
            writer::uuid(out, self.topic_id);
        }
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each partition to commit offsets for.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitRequestPartition<'a> {
    /// The partition index.
    pub partition_index: i32,
    /// The message offset to be committed.
    pub committed_offset: i64,
    /// The leader epoch of this partition. Since version 6.
    pub committed_leader_epoch: i32,
    /// Any associated metadata the client wants to keep.
    pub committed_metadata: Option<&'a str>,
}

impl Default for OffsetCommitRequestPartition<'_> {
    fn default() -> Self {
        Self { partition_index: 0, committed_offset: 0, committed_leader_epoch: -1, committed_metadata: Some("") }
    }
}

impl<'a> OffsetCommitRequestPartition<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 8;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            committed_offset: reader.int64("committed_offset")?,
            committed_leader_epoch: if version >= 6 { reader.int32("committed_leader_epoch")? } else { -1 },
            committed_metadata: reader.nullable_string("committed_metadata", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 8;
        writer::int32(out, self.partition_index);
        writer::int64(out, self.committed_offset);
        if version >= 6 {
            writer::int32(out, self.committed_leader_epoch);
        }
        writer::nullable_string(out, "committed_metadata", self.committed_metadata, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
