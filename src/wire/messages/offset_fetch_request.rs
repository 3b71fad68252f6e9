//! Kafka's OffsetFetch request, versions 1 to 10.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's OffsetFetch request, versions 1 to 10.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchRequest<'a> {
    /// The group to fetch offsets for. Up to version 7.
    pub group_id: &'a str,
    /// Each topic we would like to fetch offsets for, or null to fetch offsets for all topics. Up to version 7.
    pub topics: Option<Vec<OffsetFetchRequestTopic<'a>>>,
    /// Each group we would like to fetch offsets for. Since version 8.
    pub groups: Vec<OffsetFetchRequestGroup<'a>>,
    /// Whether broker should hold on returning unstable offsets but set a retriable error code for the partitions.
    /// Since version 7.
    pub require_stable: bool,
}

impl Default for OffsetFetchRequest<'_> {
    fn default() -> Self {
        Self { group_id: "", topics: Some(Vec::new()), groups: Vec::new(), require_stable: false }
    }
}

impl<'a> OffsetFetchRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 9;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 10;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "OffsetFetchRequest", version });
        }
        let flexible = version >= 6;
        let message = Self {
            group_id: if version <= 7 { reader.string("group_id", flexible)? } else { "" },
            topics: if version <= 7 {
                if version >= 2 {
                    reader.nullable_array("topics", flexible, 3, |reader| {
                        OffsetFetchRequestTopic::decode(reader, version)
                    })?
                } else {
                    Some(
                        reader
                            .array("topics", flexible, 3, |reader| OffsetFetchRequestTopic::decode(reader, version))?,
                    )
                }
            } else {
                Some(Vec::new())
            },
            groups: if version >= 8 {
                reader.array("groups", flexible, 3, |reader| OffsetFetchRequestGroup::decode(reader, version))?
            } else {
                Vec::new()
            },
            require_stable: if version >= 7 { reader.bool("require_stable")? } else { false },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "OffsetFetchRequest", version });
        }
        let flexible = version >= 6;
        if version <= 7 {
            writer::string(out, "group_id", self.group_id, flexible)?;
        } else {
            writer::absent("group_id", version, self.group_id.is_empty())?;
        }
        if version <= 7 {
            if version >= 2 {
                writer::nullable_array(out, "topics", self.topics.as_deref(), flexible, |out, value| {
                    value.encode_body(out, version)
                })?;
            } else {
                writer::array(
                    out,
                    "topics",
                    writer::required("topics", self.topics.as_deref())?,
                    flexible,
                    |out, value| value.encode_body(out, version),
                )?;
            }
        } else {
            writer::absent("topics", version, self.topics.as_ref().is_some_and(|values| values.is_empty()))?;
        }
        if version >= 8 {
            writer::array(out, "groups", &self.groups, flexible, |out, value| value.encode_body(out, version))?;
        } else {
            writer::absent("groups", version, self.groups.is_empty())?;
        }
        if version >= 7 {
            writer::bool(out, self.require_stable);
        } else {
            writer::absent("require_stable", version, !self.require_stable)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic we would like to fetch offsets for, or null to fetch offsets for all topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchRequestTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The partition indexes we would like to fetch offsets for.
    pub partition_indexes: Vec<i32>,
}

impl<'a> OffsetFetchRequestTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let message = Self {
            name: reader.string("name", flexible)?,
            partition_indexes: reader
                .array("partition_indexes", flexible, 4, |reader| reader.int32("partition_indexes"))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer::string(out, "name", self.name, flexible)?;
        writer::array(out, "partition_indexes", &self.partition_indexes, flexible, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each group we would like to fetch offsets for.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetFetchRequestGroup<'a> {
    /// The group ID.
    pub group_id: &'a str,
    /// The member id. Since version 9.
    pub member_id: Option<&'a str>,
    /// The member epoch if using the new consumer protocol (KIP-848). Since version 9.
    pub member_epoch: i32,
    /// Each topic we would like to fetch offsets for, or null to fetch offsets for all topics.
    pub topics: Option<Vec<OffsetFetchRequestTopics<'a>>>,
}

impl Default for OffsetFetchRequestGroup<'_> {
    fn default() -> Self {
        Self { group_id: "", member_id: None, member_epoch: -1, topics: Some(Vec::new()) }
    }
}

impl<'a> OffsetFetchRequestGroup<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            group_id: reader.string("group_id", flexible)?,
            member_id: if version >= 9 { reader.nullable_string("member_id", flexible)? } else { None },
            member_epoch: if version >= 9 { reader.int32("member_epoch")? } else { -1 },
            topics: reader
                .nullable_array("topics", flexible, 3, |reader| OffsetFetchRequestTopics::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::string(out, "group_id", self.group_id, flexible)?;
        if version >= 9 {
            writer::nullable_string(out, "member_id", self.member_id, flexible)?;
        }
        if version >= 9 {
            writer::int32(out, self.member_epoch);
        }
        writer::nullable_array(out, "topics", self.topics.as_deref(), flexible, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Each topic we would like to fetch offsets for, or null to fetch offsets for all topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetFetchRequestTopics<'a> {
    /// The topic name. Up to version 9.
    pub name: &'a str,
    /// The topic ID. Since version 10.
    pub topic_id: Uuid,
    /// The partition indexes we would like to fetch offsets for.
    pub partition_indexes: Vec<i32>,
}

impl<'a> OffsetFetchRequestTopics<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            name: if version <= 9 { reader.string("name", flexible)? } else { "" },
            topic_id: if version == 10 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partition_indexes: reader
                .array("partition_indexes", flexible, 4, |reader| reader.int32("partition_indexes"))?,
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
        writer::array(out, "partition_indexes", &self.partition_indexes, flexible, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
