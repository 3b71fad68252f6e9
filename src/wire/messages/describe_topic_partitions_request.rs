//! Kafka's DescribeTopicPartitions request, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeTopicPartitions request, versions 0.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeTopicPartitionsRequest<'a> {
    /// The topics to fetch details for.
    pub topics: Vec<TopicRequest<'a>>,
    /// The maximum number of partitions included in the response.
    pub response_partition_limit: i32,
    /// The first topic and partition index to fetch details for.
    pub cursor: Option<Cursor<'a>>,
}

impl Default for DescribeTopicPartitionsRequest<'_> {
    fn default() -> Self {
        Self { topics: Vec::new(), response_partition_limit: 2000, cursor: None }
    }
}

impl<'a> DescribeTopicPartitionsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 75;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeTopicPartitionsRequest", version });
        }
        let message = Self {
            topics: reader.array("topics", true, 2, |reader| TopicRequest::decode(reader, version))?,
            response_partition_limit: reader.int32("response_partition_limit")?,
            cursor: if reader.int8("cursor")? < 0 { None } else { Some(Cursor::decode(reader, version)?) },
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeTopicPartitionsRequest", version });
        }
        writer::array(out, "topics", &self.topics, true, |out, value| value.encode_body(out, version))?;
        writer::int32(out, self.response_partition_limit);
        match self.cursor.as_ref() {
            Some(value) => {
                writer::int8(out, 1);
                value.encode_body(out, version)?;
            }
            None => writer::int8(out, -1),
        }
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The topics to fetch details for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicRequest<'a> {
    /// The topic name.
    pub name: &'a str,
}

impl<'a> TopicRequest<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self { name: reader.string("name", true)? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::string(out, "name", self.name, true)?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The first topic and partition index to fetch details for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cursor<'a> {
    /// The name for the first topic to process.
    pub topic_name: &'a str,
    /// The partition index to start with.
    pub partition_index: i32,
}

impl<'a> Cursor<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message =
            Self { topic_name: reader.string("topic_name", true)?, partition_index: reader.int32("partition_index")? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::string(out, "topic_name", self.topic_name, true)?;
        writer::int32(out, self.partition_index);
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
