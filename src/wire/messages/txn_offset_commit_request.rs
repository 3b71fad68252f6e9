//! Kafka's TxnOffsetCommit request, versions 0 to 6.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's TxnOffsetCommit request, versions 0 to 6.
#[derive(Clone, Debug, PartialEq)]
pub struct TxnOffsetCommitRequest<'a> {
    /// The ID of the transaction.
    pub transactional_id: &'a str,
    /// The ID of the group.
    pub group_id: &'a str,
    /// The current producer ID in use by the transactional ID.
    pub producer_id: i64,
    /// The current epoch associated with the producer ID.
    pub producer_epoch: i16,
    /// The generation of the group if using the classic group protocol or the member epoch if using the consumer
    /// protocol. Since version 3.
    pub generation_id_or_member_epoch: i32,
    /// The member ID assigned by the group coordinator. Since version 3.
    pub member_id: &'a str,
    /// The unique identifier of the consumer instance provided by end user. Since version 3.
    pub group_instance_id: Option<&'a str>,
    /// Each topic that we want to commit offsets for.
    pub topics: Vec<TxnOffsetCommitRequestTopic<'a>>,
}

impl Default for TxnOffsetCommitRequest<'_> {
    fn default() -> Self {
        Self {
            transactional_id: "",
            group_id: "",
            producer_id: 0,
            producer_epoch: 0,
            generation_id_or_member_epoch: -1,
            member_id: "",
            group_instance_id: None,
            topics: Vec::new(),
        }
    }
}

impl<'a> TxnOffsetCommitRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 28;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 6;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "TxnOffsetCommitRequest", version });
        }
        let flexible = version >= 3;
        let message = Self {
            transactional_id: reader.string("transactional_id", flexible)?,
            group_id: reader.string("group_id", flexible)?,
            producer_id: reader.int64("producer_id")?,
            producer_epoch: reader.int16("producer_epoch")?,
            generation_id_or_member_epoch: if version >= 3 {
                reader.int32("generation_id_or_member_epoch")?
            } else {
                -1
            },
            member_id: if version >= 3 { reader.string("member_id", flexible)? } else { "" },
            group_instance_id: if version >= 3 { reader.nullable_string("group_instance_id", flexible)? } else { None },
            topics: reader
                .array("topics", flexible, 3, |reader| TxnOffsetCommitRequestTopic::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "TxnOffsetCommitRequest", version });
        }
        let flexible = version >= 3;
        writer::string(out, "transactional_id", self.transactional_id, flexible)?;
        writer::string(out, "group_id", self.group_id, flexible)?;
        writer::int64(out, self.producer_id);
        writer::int16(out, self.producer_epoch);
        if version >= 3 {
            writer::int32(out, self.generation_id_or_member_epoch);
        } else {
            writer::absent("generation_id_or_member_epoch", version, self.generation_id_or_member_epoch == -1)?;
        }
        if version >= 3 {
            writer::string(out, "member_id", self.member_id, flexible)?;
        } else {
            writer::absent("member_id", version, self.member_id.is_empty())?;
        }
        if version >= 3 {
            writer::nullable_string(out, "group_instance_id", self.group_instance_id, flexible)?;
        } else {
            writer::absent("group_instance_id", version, self.group_instance_id.is_none())?;
        }
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic that we want to commit offsets for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnOffsetCommitRequestTopic<'a> {
    /// The topic name. Up to version 5.
    pub name: &'a str,
    /// The topic ID. Since version 6.
    pub topic_id: Uuid,
    /// The partitions inside the topic that we want to commit offsets for.
    pub partitions: Vec<TxnOffsetCommitRequestPartition<'a>>,
}

impl<'a> TxnOffsetCommitRequestTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let message = Self {
            name: if version <= 5 { reader.string("name", flexible)? } else { "" },
            topic_id: if version == 6 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partitions: reader
                .array("partitions", flexible, 14, |reader| TxnOffsetCommitRequestPartition::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        if version <= 5 {
            writer::string(out, "name", self.name, flexible)?;
        }
        if version == 6 {
            writer::uuid(out, self.topic_id);
        }
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The partitions inside the topic that we want to commit offsets for.
#[derive(Clone, Debug, PartialEq)]
pub struct TxnOffsetCommitRequestPartition<'a> {
    /// The index of the partition within the topic.
    pub partition_index: i32,
    /// The message offset to be committed.
    pub committed_offset: i64,
    /// The leader epoch of the last consumed record. Since version 2.
    pub committed_leader_epoch: i32,
    /// Any associated metadata the client wants to keep.
    pub committed_metadata: Option<&'a str>,
}

impl Default for TxnOffsetCommitRequestPartition<'_> {
    fn default() -> Self {
        Self { partition_index: 0, committed_offset: 0, committed_leader_epoch: -1, committed_metadata: Some("") }
    }
}

impl<'a> TxnOffsetCommitRequestPartition<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            committed_offset: reader.int64("committed_offset")?,
            committed_leader_epoch: if version >= 2 { reader.int32("committed_leader_epoch")? } else { -1 },
            committed_metadata: reader.nullable_string("committed_metadata", flexible)?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer::int32(out, self.partition_index);
        writer::int64(out, self.committed_offset);
        if version >= 2 {
            writer::int32(out, self.committed_leader_epoch);
        }
        writer::nullable_string(out, "committed_metadata", self.committed_metadata, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
