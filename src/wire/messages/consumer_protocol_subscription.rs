//! Kafka's consumer protocol subscription, versions 0 to 3.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's consumer protocol subscription, versions 0 to 3.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerProtocolSubscription<'a> {
    /// The topics that the member wants to consume.
    pub topics: Vec<&'a str>,
    /// User data that will be passed back to the consumer.
    pub user_data: Option<&'a [u8]>,
    /// The partitions that the member owns. Since version 1.
    pub owned_partitions: Vec<TopicPartition<'a>>,
    /// The generation id of the member. Since version 2.
    pub generation_id: i32,
    /// The rack id of the member. Since version 3.
    pub rack_id: Option<&'a str>,
}

impl Default for ConsumerProtocolSubscription<'_> {
    fn default() -> Self {
        Self { topics: Vec::new(), user_data: None, owned_partitions: Vec::new(), generation_id: -1, rack_id: None }
    }
}

impl<'a> ConsumerProtocolSubscription<'a> {
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 3;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ConsumerProtocolSubscription", version });
        }
        let message = Self {
            topics: reader.array("topics", false, 2, |reader| reader.string("topics", false))?,
            user_data: reader.nullable_bytes("user_data", false)?,
            owned_partitions: if version >= 1 {
                reader.array("owned_partitions", false, 6, |reader| TopicPartition::decode(reader, version))?
            } else {
                Vec::new()
            },
            generation_id: if version >= 2 { reader.int32("generation_id")? } else { -1 },
            rack_id: if version == 3 { reader.nullable_string("rack_id", false)? } else { None },
        };
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ConsumerProtocolSubscription", version });
        }
        writer::array(out, "topics", &self.topics, false, |out, value| writer::string(out, "topics", value, false))?;
        writer::nullable_bytes(out, "user_data", self.user_data, false)?;
        if version >= 1 {
            writer::array(out, "owned_partitions", &self.owned_partitions, false, |out, value| {
                value.encode_body(out, version)
            })?;
        }
        if version >= 2 {
            writer::int32(out, self.generation_id);
        }
        if version == 3 {
            writer::nullable_string(out, "rack_id", self.rack_id, false)?;
        }
        Ok(())
    }
}

/// The partitions that the member owns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicPartition<'a> {
    /// The topic name.
    pub topic: &'a str,
    /// The partition ids.
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
