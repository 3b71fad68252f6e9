//! Kafka's consumer group partition metadata value, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's consumer group partition metadata value, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupPartitionMetadataValue<'a> {
    /// The list of topic metadata.
    pub topics: Vec<TopicMetadata<'a>>,
}

impl<'a> ConsumerGroupPartitionMetadataValue<'a> {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 4;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ConsumerGroupPartitionMetadataValue", version });
        }
        let message =
            Self { topics: reader.array("topics", true, 23, |reader| TopicMetadata::decode(reader, version))? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ConsumerGroupPartitionMetadataValue", version });
        }
        writer::array(out, "topics", &self.topics, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The list of topic metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicMetadata<'a> {
    /// The topic id.
    pub topic_id: Uuid,
    /// The topic name.
    pub topic_name: &'a str,
    /// The number of partitions of the topic.
    pub num_partitions: i32,
    /// Deprecated: this field is not used after 4.0. Partitions mapped to a set of racks. If the rack information is
    /// unavailable for all the partitions, an empty list is stored.
    pub partition_metadata: Vec<PartitionMetadata<'a>>,
}

impl<'a> TopicMetadata<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            topic_id: reader.uuid("topic_id")?,
            topic_name: reader.string("topic_name", true)?,
            num_partitions: reader.int32("num_partitions")?,
            partition_metadata: reader
                .array("partition_metadata", true, 6, |reader| PartitionMetadata::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::uuid(out, self.topic_id);
        writer::string(out, "topic_name", self.topic_name, true)?;
        writer::int32(out, self.num_partitions);
        writer::array(out, "partition_metadata", &self.partition_metadata, true, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// Deprecated: this field is not used after 4.0. Partitions mapped to a set of racks. If the rack information is
/// unavailable for all the partitions, an empty list is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionMetadata<'a> {
    /// The partition number.
    pub partition: i32,
    /// The set of racks that the partition is mapped to.
    pub racks: Vec<&'a str>,
}

impl<'a> PartitionMetadata<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            partition: reader.int32("partition")?,
            racks: reader.array("racks", true, 1, |reader| reader.string("racks", true))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::int32(out, self.partition);
        writer::array(out, "racks", &self.racks, true, |out, value| writer::string(out, "racks", value, true))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
