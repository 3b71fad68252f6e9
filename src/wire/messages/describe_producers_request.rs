//! Kafka's DescribeProducers request, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeProducers request, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeProducersRequest<'a> {
    /// The topics to list producers for.
    pub topics: Vec<TopicRequest<'a>>,
}

impl<'a> DescribeProducersRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 61;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeProducersRequest", version });
        }
        let message = Self { topics: reader.array("topics", true, 3, |reader| TopicRequest::decode(reader, version))? };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeProducersRequest", version });
        }
        writer::array(out, "topics", &self.topics, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The topics to list producers for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicRequest<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The indexes of the partitions to list producers for.
    pub partition_indexes: Vec<i32>,
}

impl<'a> TopicRequest<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            name: reader.string("name", true)?,
            partition_indexes: reader
                .array("partition_indexes", true, 4, |reader| reader.int32("partition_indexes"))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::string(out, "name", self.name, true)?;
        writer::array(out, "partition_indexes", &self.partition_indexes, true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
