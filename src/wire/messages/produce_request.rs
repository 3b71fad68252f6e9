//! Kafka's Produce request, versions 3 to 13.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::uuid::Uuid;
use crate::wire::writer::{self, EncodeError};

/// Kafka's Produce request, versions 3 to 13.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceRequest<'a> {
    /// The transactional ID, or null if the producer is not transactional.
    pub transactional_id: Option<&'a str>,
    /// The number of acknowledgments the producer requires the leader to have received before considering a request
    /// complete. Allowed values: 0 for no acknowledgments, 1 for only the leader and -1 for the full ISR.
    pub acks: i16,
    /// The timeout to await a response in milliseconds.
    pub timeout_ms: i32,
    /// Each topic to produce to.
    pub topic_data: Vec<TopicProduceData<'a>>,
}

impl<'a> ProduceRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 0;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 3;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 13;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ProduceRequest", version });
        }
        let flexible = version >= 9;
        let message = Self {
            transactional_id: reader.nullable_string("transactional_id", flexible)?,
            acks: reader.int16("acks")?,
            timeout_ms: reader.int32("timeout_ms")?,
            topic_data: reader.array("topic_data", flexible, 3, |reader| TopicProduceData::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ProduceRequest", version });
        }
        let flexible = version >= 9;
        writer::nullable_string(out, "transactional_id", self.transactional_id, flexible)?;
        writer::int16(out, self.acks);
        writer::int32(out, self.timeout_ms);
        writer::array(out, "topic_data", &self.topic_data, flexible, |out, value| value.encode_body(out, version))?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each topic to produce to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicProduceData<'a> {
    /// The topic name. Up to version 12.
    pub name: &'a str,
    /// The unique topic ID Since version 13.
    pub topic_id: Uuid,
    /// Each partition to produce to.
    pub partition_data: Vec<PartitionProduceData<'a>>,
}

impl<'a> TopicProduceData<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let message = Self {
            name: if version <= 12 { reader.string("name", flexible)? } else { "" },
            topic_id: if version == 13 { reader.uuid("topic_id")? } else { Uuid::ZERO },
            partition_data: reader
                .array("partition_data", flexible, 6, |reader| PartitionProduceData::decode(reader, version))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        if version <= 12 {
            writer::string(out, "name", self.name, flexible)?;
        }
        if version == 13 {
            writer::uuid(out, self.topic_id);
        }
        writer::array(out, "partition_data", &self.partition_data, flexible, |out, value| {
            value.encode_body(out, version)
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Each partition to produce to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionProduceData<'a> {
    /// The partition index.
    pub index: i32,
    /// The record data to be produced.
    pub records: Option<&'a [u8]>,
}

impl<'a> PartitionProduceData<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 9;
        let message = Self { index: reader.int32("index")?, records: reader.nullable_bytes("records", flexible)? };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 9;
        writer::int32(out, self.index);
        writer::nullable_bytes(out, "records", self.records, flexible)?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
