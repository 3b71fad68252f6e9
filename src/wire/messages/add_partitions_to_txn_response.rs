//! Kafka's AddPartitionsToTxn response, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's AddPartitionsToTxn response, versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnResponse<'a> {
    /// Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    /// did not violate any quota.
    pub throttle_time_ms: i32,
    /// The response top level error code. Since version 4.
    pub error_code: i16,
    /// Results categorized by transactional ID. Since version 4.
    pub results_by_transaction: Vec<AddPartitionsToTxnResult<'a>>,
    /// The results for each topic. Up to version 3.
    pub results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult<'a>>,
}

impl<'a> AddPartitionsToTxnResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 24;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "AddPartitionsToTxnResponse", version });
        }
        let flexible = version >= 3;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            error_code: if version >= 4 { reader.int16("error_code")? } else { 0 },
            results_by_transaction: if version >= 4 {
                reader.array("results_by_transaction", flexible, 3, |reader| {
                    AddPartitionsToTxnResult::decode(reader, version)
                })?
            } else {
                Vec::new()
            },
            results_by_topic_v3_and_below: if version <= 3 {
                reader.array("results_by_topic_v3_and_below", flexible, 3, |reader| {
                    AddPartitionsToTxnTopicResult::decode(reader, version)
                })?
            } else {
                Vec::new()
            },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "AddPartitionsToTxnResponse", version });
        }
        let flexible = version >= 3;
        writer::int32(out, self.throttle_time_ms);
        if version >= 4 {
            writer::int16(out, self.error_code);
        }
        if version >= 4 {
            writer::array(out, "results_by_transaction", &self.results_by_transaction, flexible, |out, value| {
                value.encode_body(out, version)
            })?;
        } else {
            writer::absent("results_by_transaction", version, self.results_by_transaction.is_empty())?;
        }
        if version <= 3 {
            writer::array(
                out,
                "results_by_topic_v3_and_below",
                &self.results_by_topic_v3_and_below,
                flexible,
                |out, value| value.encode_body(out, version),
            )?;
        } else {
            writer::absent("results_by_topic_v3_and_below", version, self.results_by_topic_v3_and_below.is_empty())?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// A part of the message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnTopicResult<'a> {
    /// The topic name.
    pub name: &'a str,
    /// The results for each partition.
    pub results_by_partition: Vec<AddPartitionsToTxnPartitionResult>,
}

impl<'a> AddPartitionsToTxnTopicResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let message = Self {
            name: reader.string("name", flexible)?,
            results_by_partition: reader.array("results_by_partition", flexible, 6, |reader| {
                AddPartitionsToTxnPartitionResult::decode(reader, version)
            })?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer::string(out, "name", self.name, flexible)?;
        writer::array(out, "results_by_partition", &self.results_by_partition, flexible, |out, value| {
            value.encode_body(out, version)
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// A part of the message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnPartitionResult {
    /// The partition indexes.
    pub partition_index: i32,
    /// The response error code.
    pub partition_error_code: i16,
}

impl AddPartitionsToTxnPartitionResult {
    fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let message = Self {
            partition_index: reader.int32("partition_index")?,
            partition_error_code: reader.int16("partition_error_code")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer::int32(out, self.partition_index);
        writer::int16(out, self.partition_error_code);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// Results categorized by transactional ID.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnResult<'a> {
    /// The transactional id corresponding to the transaction.
    pub transactional_id: &'a str,
    /// The results for each topic.
    pub topic_results: Vec<AddPartitionsToTxnTopicResult<'a>>,
}

impl<'a> AddPartitionsToTxnResult<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            transactional_id: reader.string("transactional_id", flexible)?,
            topic_results: reader
                .array("topic_results", flexible, 3, |reader| AddPartitionsToTxnTopicResult::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::string(out, "transactional_id", self.transactional_id, flexible)?;
        writer::array(out, "topic_results", &self.topic_results, flexible, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
