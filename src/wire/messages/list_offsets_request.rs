//! Kafka's ListOffsets request, versions 1 to 11.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's ListOffsets request, versions 1 to 11.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsRequest<'a> {
    /// The broker ID of the requester, or -1 if this request is being made by a normal consumer.
    pub replica_id: i32,
    /// This setting controls the visibility of transactional records. Using READ_UNCOMMITTED (isolation_level = 0)
    /// makes all records visible. With READ_COMMITTED (isolation_level = 1), non-transactional and COMMITTED
    /// transactional records are visible. To be more concrete, READ_COMMITTED returns all data from offsets smaller
    /// than the current LSO (last stable offset), and enables the inclusion of the list of aborted transactions in
    /// the result, which allows consumers to discard ABORTED transactional records. Since version 2.
    pub isolation_level: i8,
    /// Each topic in the request.
    pub topics: Vec<ListOffsetsTopic<'a>>,
    /// The timeout to await a response in milliseconds for requests that require reading from remote storage for
    /// topics enabled with tiered storage. Since version 10.
    pub timeout_ms: i32,
}

impl<'a> ListOffsetsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 2;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 1;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 11;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ListOffsetsRequest", version });
        }
        let flexible = version >= 6;
        let message = Self {
            replica_id: reader.int32("replica_id")?,
            isolation_level: if version >= 2 { reader.int8("isolation_level")? } else { 0 },
            topics: reader.array("topics", flexible, 3, |reader| ListOffsetsTopic::decode(reader, version))?,
            timeout_ms: if version >= 10 { reader.int32("timeout_ms")? } else { 0 },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ListOffsetsRequest", version });
        }
        let flexible = version >= 6;
        writer::int32(out, self.replica_id);
        if version >= 2 {
            writer::int8(out, self.isolation_level);
        } else {
            writer::absent("isolation_level", version, self.isolation_level == 0)?;
        }
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        if version >= 10 {
            writer::int32(out, self.timeout_ms);
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic in the request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOffsetsTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// Each partition in the request.
    pub partitions: Vec<ListOffsetsPartition>,
}

impl<'a> ListOffsetsTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let message = Self {
            name: reader.string("name", flexible)?,
            partitions: reader
                .array("partitions", flexible, 12, |reader| ListOffsetsPartition::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer::string(out, "name", self.name, flexible)?;
        writer::array(out, "partitions", &self.partitions, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each partition in the request.
#[derive(Clone, Debug, PartialEq)]
pub struct ListOffsetsPartition {
    /// The partition index.
    pub partition_index: i32,
    /// The current leader epoch. Since version 4.
    pub current_leader_epoch: i32,
    /// The current timestamp.
    pub timestamp: i64,
}

impl Default for ListOffsetsPartition {
    fn default() -> Self {
        Self { partition_index: 0, current_leader_epoch: -1, timestamp: 0 }
    }
}

impl ListOffsetsPartition {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 6;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            current_leader_epoch: if version >= 4 { reader.int32("current_leader_epoch")? } else { -1 },
            timestamp: reader.int64("timestamp")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 6;
        writer::int32(out, self.partition_index);
        if version >= 4 {
            writer::int32(out, self.current_leader_epoch);
        }
        writer::int64(out, self.timestamp);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
