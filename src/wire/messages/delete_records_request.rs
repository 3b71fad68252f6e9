//! Kafka's DeleteRecords request, versions 0 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DeleteRecords request, versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsRequest<'a> {
    /// Each topic that we want to delete records from.
    pub topics: Vec<DeleteRecordsTopic<'a>>,
    /// How long to wait for the deletion to complete, in milliseconds.
    pub timeout_ms: i32,
}

impl<'a> DeleteRecordsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 21;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DeleteRecordsRequest", version });
        }
        let flexible = version == 2;
        let message = Self {
            topics: reader.array("topics", flexible, 3, |reader| DeleteRecordsTopic::decode(reader, version))?,
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
            return Err(EncodeError::UnsupportedVersion { message: "DeleteRecordsRequest", version });
        }
        let flexible = version == 2;
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        writer::int32(out, self.timeout_ms);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic that we want to delete records from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// Each partition that we want to delete records from.
    pub partitions: Vec<DeleteRecordsPartition>,
}

impl<'a> DeleteRecordsTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 2;
        let message = Self {
            name: reader.string("name", flexible)?,
            partitions: reader
                .array("partitions", flexible, 12, |reader| DeleteRecordsPartition::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 2;
        writer::string(out, "name", self.name, flexible)?;
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each partition that we want to delete records from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteRecordsPartition {
    /// The partition index.
    pub partition_index: i32,
    /// The deletion offset. -1 means that records should be truncated to the high watermark.
    pub offset: i64,
}

impl DeleteRecordsPartition {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 2;
        let message = Self { partition_index: reader.int32("partition_index")?, offset: reader.int64("offset")? };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 2;
        writer::int32(out, self.partition_index);
        writer::int64(out, self.offset);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
