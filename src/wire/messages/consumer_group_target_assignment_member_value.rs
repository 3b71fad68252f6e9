//! Kafka's consumer group target assignment member value, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's consumer group target assignment member value, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerGroupTargetAssignmentMemberValue {
    /// The assigned partitions.
    pub topic_partitions: Vec<TopicPartition>,
}

impl ConsumerGroupTargetAssignmentMemberValue {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 7;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion {
                message: "ConsumerGroupTargetAssignmentMemberValue",
                version,
            });
        }
        let message = Self {
            topic_partitions: reader
                .array("topic_partitions", true, 18, |reader| TopicPartition::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion {
                message: "ConsumerGroupTargetAssignmentMemberValue",
                version,
            });
        }
        writer::array(out, "topic_partitions", &self.topic_partitions, true, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The assigned partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartition {
    /// The topic id.
    pub topic_id: Uuid,
    /// The partition indexes.
    pub partitions: Vec<i32>,
}

impl TopicPartition {
    fn decode(reader: &mut Reader<'_>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            topic_id: reader.uuid("topic_id")?,
            partitions: reader.array("partitions", true, 4, |reader| reader.int32("partitions"))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::uuid(out, self.topic_id);
        writer::array(out, "partitions", &self.partitions, true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
