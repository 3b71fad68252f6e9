//! Kafka's OffsetFetch response, versions 1 to 10.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's OffsetFetch response, versions 1 to 10.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota. Since version 3.
    pub throttle_time_ms: i32,
    /// The responses per topic. Up to version 7.
    pub topics: Vec<OffsetFetchResponseTopic<'a>>,
    /// The top-level error code, or 0 if there was no error. Versions 2 to 7.
    pub error_code: i16,
    /// The responses per group id. Since version 8.
    pub groups: Vec<OffsetFetchResponseGroup<'a>>,
}

impl<'a> OffsetFetchResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 9;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 10;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "OffsetFetchResponse", version });
        }
        let flexible = version >= 6;
        let message = Self {
            throttle_time_ms: if version >= 3 { reader.int32("throttle_time_ms")? } else { 0 },
            topics: if version <= 7 {
                reader.array("topics", flexible, 3, |reader| OffsetFetchResponseTopic::decode(reader, version))?
            } else {
                Vec::new()
            },
            error_code: if (2..=7).contains(&version) { reader.int16("error_code")? } else { 0 },
            groups: if version >= 8 {
                reader.array("groups", flexible, 5, |reader| OffsetFetchResponseGroup::decode(reader, version))?
            } else {
                Vec::new()
            },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "OffsetFetchResponse", version });
        }
        let flexible = version >= 6;
        if version >= 3 {
            writer::int32(out, self.throttle_time_ms);
        }
        if version <= 7 {
            writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        } else {
            writer::absent("topics", version, self.topics.is_empty())?;
        }
        if (2..=7).contains(&version) {
            writer::int16(out, self.error_code);
        }
        if version >= 8 {
            writer::array(out, "groups", &self.groups, flexible, |out, value| value.encode_body(out, version))?;
        } else {
            writer::absent("groups", version, self.groups.is_empty())?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The responses per topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponseTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The responses per partition.
    pub partitions: Vec<OffsetFetchResponsePartition<'a>>,
}

impl<'a> OffsetFetchResponseTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let message = Self {
            name: reader.string("name", flexible)?,
            partitions: reader
                .array("partitions", flexible, 16, |reader| OffsetFetchResponsePartition::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer::string(out, "name", self.name, flexible)?;
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The responses per partition.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchResponsePartition<'a> {
    /// The partition index.
    pub partition_index: i32,
    /// The committed message offset.
    pub committed_offset: i64,
    /// The leader epoch. Since version 5.
    pub committed_leader_epoch: i32,
    /// The partition metadata.
    pub metadata: Option<&'a str>,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
}

impl Default for OffsetFetchResponsePartition<'_> {
    fn default() -> Self {
        Self { partition_index: 0, committed_offset: 0, committed_leader_epoch: -1, metadata: Some(""), error_code: 0 }
    }
}

impl<'a> OffsetFetchResponsePartition<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            committed_offset: reader.int64("committed_offset")?,
            committed_leader_epoch: if version >= 5 { reader.int32("committed_leader_epoch")? } else { -1 },
            metadata: reader.nullable_string("metadata", flexible)?,
            error_code: reader.int16("error_code")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer::int32(out, self.partition_index);
        writer::int64(out, self.committed_offset);
        if version >= 5 {
            writer::int32(out, self.committed_leader_epoch);
        }
        writer::nullable_string(out, "metadata", self.metadata, flexible)?;
        writer::int16(out, self.error_code);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The responses per group id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponseGroup<'a> {
    /// The group ID.
    pub group_id: &'a str,
    /// The responses per topic.
    pub topics: Vec<OffsetFetchResponseTopics<'a>>,
    /// The group-level error code, or 0 if there was no error.
    pub error_code: i16,
}

impl<'a> OffsetFetchResponseGroup<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            group_id: reader.string("group_id", flexible)?,
            topics: reader.array("topics", flexible, 3, |reader| OffsetFetchResponseTopics::decode(reader, version))?,
            error_code: reader.int16("error_code")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::string(out, "group_id", self.group_id, flexible)?;
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        writer::int16(out, self.error_code);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The responses per topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchResponseTopics<'a> {
    /// The topic name. Up to version 9.
    pub name: &'a str,
    /// The topic ID. Since version 10.
    pub topic_id: Uuid,
    /// The responses per partition.
    pub partitions: Vec<OffsetFetchResponsePartitions<'a>>,
}

impl<'a> OffsetFetchResponseTopics<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            name: if version <= 9 { reader.string("name", flexible)? } else { "" },
            topic_id: if version == 10 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partitions: reader
                .array("partitions", flexible, 20, |reader| OffsetFetchResponsePartitions::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        if version <= 9 {
            writer::string(out, "name", self.name, flexible)?;
        }
        if version == 10 {
            writer::uuid(out, self.topic_id);
        }
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The responses per partition.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchResponsePartitions<'a> {
    /// The partition index.
    pub partition_index: i32,
    /// The committed message offset.
    pub committed_offset: i64,
    /// The leader epoch.
    pub committed_leader_epoch: i32,
    /// The partition metadata.
    pub metadata: Option<&'a str>,
    /// The partition-level error code, or 0 if there was no error.
    pub error_code: i16,
}

impl Default for OffsetFetchResponsePartitions<'_> {
    fn default() -> Self {
        Self { partition_index: 0, committed_offset: 0, committed_leader_epoch: -1, metadata: Some(""), error_code: 0 }
    }
}

impl<'a> OffsetFetchResponsePartitions<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            committed_offset: reader.int64("committed_offset")?,
            committed_leader_epoch: reader.int32("committed_leader_epoch")?,
            metadata: reader.nullable_string("metadata", flexible)?,
            error_code: reader.int16("error_code")?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::int32(out, self.partition_index);
        writer::int64(out, self.committed_offset);
        writer::int32(out, self.committed_leader_epoch);
        writer::nullable_string(out, "metadata", self.metadata, flexible)?;
        writer::int16(out, self.error_code);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
