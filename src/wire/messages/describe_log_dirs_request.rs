//! Kafka's DescribeLogDirs request, versions 1 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeLogDirs request, versions 1 to 5.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeLogDirsRequest<'a> {
    /// Each topic that we want to describe log directories for, or null for all topics.
    pub topics: Option<Vec<DescribableLogDirTopic<'a>>>,
}

impl Default for DescribeLogDirsRequest<'_> {
    fn default() -> Self {
        Self { topics: Some(Vec::new()) }
    }
}

impl<'a> DescribeLogDirsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 35;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeLogDirsRequest", version });
        }
        let flexible = version >= 2;
        let message = Self {
            topics: reader
                .nullable_array("topics", flexible, 3, |reader| DescribableLogDirTopic::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeLogDirsRequest", version });
        }
        let flexible = version >= 2;
        writer::nullable_array(out, "topics", self.topics.as_deref(), flexible, |out, value| {
            value.encode_body(out, version)
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic that we want to describe log directories for, or null for all topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribableLogDirTopic<'a> {
    /// The topic name.
    pub topic: &'a str,
    /// The partition indexes.
    pub partitions: Vec<i32>,
}

impl<'a> DescribableLogDirTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let message = Self {
            topic: reader.string("topic", flexible)?,
            partitions: reader.array("partitions", flexible, 4, |reader| reader.int32("partitions"))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer::string(out, "topic", self.topic, flexible)?;
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
