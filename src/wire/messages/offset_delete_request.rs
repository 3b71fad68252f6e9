//! Kafka's OffsetDelete request, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's OffsetDelete request, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteRequest<'a> {
    /// The unique group identifier.
    pub group_id: &'a str,
    /// The topics to delete offsets for.
    pub topics: Vec<OffsetDeleteRequestTopic<'a>>,
}

impl<'a> OffsetDeleteRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 47;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "OffsetDeleteRequest", version });
        }
        let message = Self {
            group_id: reader.string("group_id", false)?,
            topics: reader.array("topics", false, 6, |reader| OffsetDeleteRequestTopic::decode(reader, version))?,
        };
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "OffsetDeleteRequest", version });
        }
        writer::string(out, "group_id", self.group_id, false)?;
        writer::array(out, "topics", &self.topics, false, |out, value| value.encode_body(out, version))?;
        Ok(())
    }
}

/// The topics to delete offsets for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteRequestTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// Each partition to delete offsets for.
    pub partitions: Vec<OffsetDeleteRequestPartition>,
}

impl<'a> OffsetDeleteRequestTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            name: reader.string("name", false)?,
            partitions: reader
                .array("partitions", false, 4, |reader| OffsetDeleteRequestPartition::decode(reader, version))?,
        };
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::string(out, "name", self.name, false)?;
        writer::array(out, "partitions", &self.partitions, false, |out, value| value.encode_body(out, version))?;
        Ok(())
    }
}

/// Each partition to delete offsets for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OffsetDeleteRequestPartition {
    /// The partition index.
    pub partition_index: i32,
}

impl OffsetDeleteRequestPartition {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self { partition_index: reader.int32("partition_index")? };
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.partition_index);
        Ok(())
    }
}
