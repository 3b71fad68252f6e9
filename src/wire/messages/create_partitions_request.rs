//! Kafka's CreatePartitions request, versions 0 to 3.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's CreatePartitions request, versions 0 to 3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitionsRequest<'a> {
    /// Each topic that we want to create new partitions inside.
    pub topics: Vec<CreatePartitionsTopic<'a>>,
    /// The time in ms to wait for the partitions to be created.
    pub timeout_ms: i32,
    /// If true, then validate the request, but don't actually increase the number of partitions.
    pub validate_only: bool,
}

impl<'a> CreatePartitionsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 37;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 3;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "CreatePartitionsRequest", version });
        }
        let flexible = version >= 2;
        let message = Self {
            topics: reader.array("topics", flexible, 7, |reader| CreatePartitionsTopic::decode(reader, version))?,
            timeout_ms: reader.int32("timeout_ms")?,
            validate_only: reader.bool("validate_only")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "CreatePartitionsRequest", version });
        }
        let flexible = version >= 2;
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        writer::int32(out, self.timeout_ms);
        writer::bool(out, self.validate_only);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic that we want to create new partitions inside.
#[derive(Clone, Debug, PartialEq)]
pub struct CreatePartitionsTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The new partition count.
    pub count: i32,
    /// The new partition assignments.
    pub assignments: Option<Vec<CreatePartitionsAssignment>>,
}

impl Default for CreatePartitionsTopic<'_> {
    fn default() -> Self {
        Self { name: "", count: 0, assignments: Some(Vec::new()) }
    }
}

impl<'a> CreatePartitionsTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let message = Self {
            name: reader.string("name", flexible)?,
            count: reader.int32("count")?,
            assignments: reader.nullable_array("assignments", flexible, 2, |reader| {
                CreatePartitionsAssignment::decode(reader, version)
            })?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer::string(out, "name", self.name, flexible)?;
        writer::int32(out, self.count);
        writer::nullable_array(out, "assignments", self.assignments.as_deref(), flexible, |out, value| {
            value.encode_body(out, version)
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The new partition assignments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatePartitionsAssignment {
    /// The assigned broker IDs.
    pub broker_ids: Vec<i32>,
}

impl CreatePartitionsAssignment {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 2;
        let message =
            Self { broker_ids: reader.array("broker_ids", flexible, 4, |reader| reader.int32("broker_ids"))? };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 2;
        writer::array(out, "broker_ids", &self.broker_ids, flexible, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
