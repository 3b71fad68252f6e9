//! Kafka's consumer protocol assignment, versions 0 to 3.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's consumer protocol assignment, versions 0 to 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsumerProtocolAssignment<'a> {
    /// The list of topics and partitions assigned to this consumer.
    pub assigned_partitions: Vec<TopicPartition<'a>>,
    /// User data.
    pub user_data: Option<&'a [u8]>,
}

impl<'a> ConsumerProtocolAssignment<'a> {
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 3;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ConsumerProtocolAssignment", version });
        }
        let message = Self {
            assigned_partitions: reader
                .array("assigned_partitions", false, 6, |reader| TopicPartition::decode(reader, version))?,
            user_data: reader.nullable_bytes("user_data", false)?,
        };
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ConsumerProtocolAssignment", version });
        }
        writer::array(out, "assigned_partitions", &self.assigned_partitions, false, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::nullable_bytes(out, "user_data", self.user_data, false)?;
        Ok(())
    }
}

/// The list of topics and partitions assigned to this consumer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartition<'a> {
    /// The topic name.
    pub topic: &'a str,
    /// The list of partitions assigned to this consumer.
    pub partitions: Vec<i32>,
}

impl<'a> TopicPartition<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            topic: reader.string("topic", false)?,
            partitions: reader.array("partitions", false, 4, |reader| reader.int32("partitions"))?,
        };
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::string(out, "topic", self.topic, false)?;
        writer::array(out, "partitions", &self.partitions, false, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        Ok(())
    }
}
