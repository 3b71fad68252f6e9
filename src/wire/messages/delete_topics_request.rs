//! Kafka's DeleteTopics request, versions 1 to 6.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's DeleteTopics request, versions 1 to 6.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopicsRequest<'a> {
    /// The name or topic ID of the topic. Since version 6.
    pub topics: Vec<DeleteTopicState<'a>>,
    /// The names of the topics to delete. Up to version 5.
    pub topic_names: Vec<&'a str>,
    /// The length of time in milliseconds to wait for the deletions to complete.
    pub timeout_ms: i32,
}

impl<'a> DeleteTopicsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 20;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 6;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DeleteTopicsRequest", version });
        }
        let flexible = version >= 4;
        let message = Self {
            topics: if version == 6 {
                reader.array("topics", flexible, 18, |reader| DeleteTopicState::decode(reader, version))?
            } else {
                Vec::new()
            },
            topic_names: if version <= 5 {
                reader.array("topic_names", flexible, 1, |reader| reader.string("topic_names", flexible))?
            } else {
                Vec::new()
            },
            timeout_ms: reader.int32("timeout_ms")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DeleteTopicsRequest", version });
        }
        let flexible = version >= 4;
        if version == 6 {
            writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        } else {
            writer::absent("topics", version, self.topics.is_empty())?;
        }
        if version <= 5 {
            writer::array(out, "topic_names", &self.topic_names, flexible, |out, value| {
                writer::string(out, "topic_names", value, flexible)
            })?;
        }
        writer::int32(out, self.timeout_ms);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The name or topic ID of the topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteTopicState<'a> {
    /// The topic name.
    pub name: Option<&'a str>,
    /// The unique topic ID.
    pub topic_id: Uuid,
}

impl<'a> DeleteTopicState<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self { name: reader.nullable_string("name", flexible)?, topic_id: reader.uuid("topic_id")? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::nullable_string(out, "name", self.name, flexible)?;
        writer::uuid(out, self.topic_id);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
