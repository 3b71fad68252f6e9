//! Kafka's CreateTopics request, versions 2 to 7.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's CreateTopics request, versions 2 to 7.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTopicsRequest<'a> {
    /// The topics to create.
    pub topics: Vec<CreatableTopic<'a>>,
    /// How long to wait in milliseconds before timing out the request.
    pub timeout_ms: i32,
    /// If true, check that the topics can be created as specified, but don't create anything.
    pub validate_only: bool,
}

impl Default for CreateTopicsRequest<'_> {
    fn default() -> Self {
        Self { topics: Vec::new(), timeout_ms: 60000, validate_only: false }
    }
}

impl<'a> CreateTopicsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 19;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 2;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 7;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "CreateTopicsRequest", version });
        }
        let flexible = version >= 5;
        let message = Self {
            topics: reader.array("topics", flexible, 10, |reader| CreatableTopic::decode(reader, version))?,
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
            return Err(EncodeError::UnsupportedVersion { message: "CreateTopicsRequest", version });
        }
        let flexible = version >= 5;
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        writer::int32(out, self.timeout_ms);
        writer::bool(out, self.validate_only);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The topics to create.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatableTopic<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The number of partitions to create in the topic, or -1 if we are either specifying a manual partition
    /// assignment or using the default partitions.
    pub num_partitions: i32,
    /// The number of replicas to create for each partition in the topic, or -1 if we are either specifying a manual
    /// partition assignment or using the default replication factor.
    pub replication_factor: i16,
    /// The manual partition assignment, or the empty array if we are using automatic assignment.
    pub assignments: Vec<CreatableReplicaAssignment>,
    /// The custom topic configurations to set.
    pub configs: Vec<CreatableTopicConfig<'a>>,
}

impl<'a> CreatableTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let message = Self {
            name: reader.string("name", flexible)?,
            num_partitions: reader.int32("num_partitions")?,
            replication_factor: reader.int16("replication_factor")?,
            assignments: reader
                .array("assignments", flexible, 6, |reader| CreatableReplicaAssignment::decode(reader, version))?,
            configs: reader.array("configs", flexible, 3, |reader| CreatableTopicConfig::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        writer::string(out, "name", self.name, flexible)?;
        writer::int32(out, self.num_partitions);
        writer::int16(out, self.replication_factor);
        writer::array(out, "assignments", &self.assignments, flexible, |out, value| value.encode_body(out, version))?;
        writer::array(out, "configs", &self.configs, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// The manual partition assignment, or the empty array if we are using automatic assignment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatableReplicaAssignment {
    /// The partition index.
    pub partition_index: i32,
    /// The brokers to place the partition on.
    pub broker_ids: Vec<i32>,
}

impl CreatableReplicaAssignment {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            broker_ids: reader.array("broker_ids", flexible, 4, |reader| reader.int32("broker_ids"))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        writer::int32(out, self.partition_index);
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

/// The custom topic configurations to set.
#[derive(Clone, Debug, PartialEq)]
pub struct CreatableTopicConfig<'a> {
    /// The configuration name.
    pub name: &'a str,
    /// The configuration value.
    pub value: Option<&'a str>,
}

impl Default for CreatableTopicConfig<'_> {
    fn default() -> Self {
        Self { name: "", value: Some("") }
    }
}

impl<'a> CreatableTopicConfig<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 5;
        let message =
            Self { name: reader.string("name", flexible)?, value: reader.nullable_string("value", flexible)? };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 5;
        writer::string(out, "name", self.name, flexible)?;
        writer::nullable_string(out, "value", self.value, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
