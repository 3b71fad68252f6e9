//! Kafka's AddPartitionsToTxn request, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's AddPartitionsToTxn request, versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnRequest<'a> {
    /// List of transactions to add partitions to. Since version 4.
    pub transactions: Vec<AddPartitionsToTxnTransaction<'a>>,
    /// The transactional id corresponding to the transaction. Up to version 3.
    pub v3_and_below_transactional_id: &'a str,
    /// Current producer id in use by the transactional id. Up to version 3.
    pub v3_and_below_producer_id: i64,
    /// Current epoch associated with the producer id. Up to version 3.
    pub v3_and_below_producer_epoch: i16,
    /// The partitions to add to the transaction. Up to version 3.
    pub v3_and_below_topics: Vec<AddPartitionsToTxnTopic<'a>>,
}

impl<'a> AddPartitionsToTxnRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 24;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "AddPartitionsToTxnRequest", version });
        }
        let flexible = version >= 3;
        let message = Self {
            transactions: if version >= 4 {
                reader.array("transactions", flexible, 14, |reader| {
                    AddPartitionsToTxnTransaction::decode(reader, version)
                })?
            } else {
                Vec::new()
            },
            v3_and_below_transactional_id: if version <= 3 {
                reader.string("v3_and_below_transactional_id", flexible)?
            } else {
                ""
            },
            v3_and_below_producer_id: if version <= 3 { reader.int64("v3_and_below_producer_id")? } else { 0 },
            v3_and_below_producer_epoch: if version <= 3 { reader.int16("v3_and_below_producer_epoch")? } else { 0 },
            v3_and_below_topics: if version <= 3 {
                reader.array("v3_and_below_topics", flexible, 3, |reader| {
                    AddPartitionsToTxnTopic::decode(reader, version)
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
            return Err(EncodeError::UnsupportedVersion { message: "AddPartitionsToTxnRequest", version });
        }
        let flexible = version >= 3;
        if version >= 4 {
            writer::array(out, "transactions", &self.transactions, flexible, |out, value| {
                value.encode_body(out, version)
            })?;
        } else {
            writer::absent("transactions", version, self.transactions.is_empty())?;
        }
        if version <= 3 {
            writer::string(out, "v3_and_below_transactional_id", self.v3_and_below_transactional_id, flexible)?;
        } else {
            writer::absent("v3_and_below_transactional_id", version, self.v3_and_below_transactional_id.is_empty())?;
        }
        if version <= 3 {
            writer::int64(out, self.v3_and_below_producer_id);
        } else {
            writer::absent("v3_and_below_producer_id", version, self.v3_and_below_producer_id == 0)?;
        }
        if version <= 3 {
            writer::int16(out, self.v3_and_below_producer_epoch);
        } else {
            writer::absent("v3_and_below_producer_epoch", version, self.v3_and_below_producer_epoch == 0)?;
        }
        if version <= 3 {
            writer::array(out, "v3_and_below_topics", &self.v3_and_below_topics, flexible, |out, value| {
                value.encode_body(out, version)
            })?;
        } else {
            writer::absent("v3_and_below_topics", version, self.v3_and_below_topics.is_empty())?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// A part of the message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnTopic<'a> {
    /// The name of the topic.
    pub name: &'a str,
    /// The partition indexes to add to the transaction.
    pub partitions: Vec<i32>,
}

impl<'a> AddPartitionsToTxnTopic<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 3;
        let message = Self {
            name: reader.string("name", flexible)?,
            partitions: reader.array("partitions", flexible, 4, |reader| reader.int32("partitions"))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version >= 3;
        writer::string(out, "name", self.name, flexible)?;
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

/// List of transactions to add partitions to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddPartitionsToTxnTransaction<'a> {
    /// The transactional id corresponding to the transaction.
    pub transactional_id: &'a str,
    /// Current producer id in use by the transactional id.
    pub producer_id: i64,
    /// Current epoch associated with the producer id.
    pub producer_epoch: i16,
    /// Boolean to signify if we want to check if the partition is in the transaction rather than add it.
    pub verify_only: bool,
    /// The partitions to add to the transaction.
    pub topics: Vec<AddPartitionsToTxnTopic<'a>>,
}

impl<'a> AddPartitionsToTxnTransaction<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = true;
        let message = Self {
            transactional_id: reader.string("transactional_id", flexible)?,
            producer_id: reader.int64("producer_id")?,
            producer_epoch: reader.int16("producer_epoch")?,
            verify_only: reader.bool("verify_only")?,
            topics: reader.array("topics", flexible, 3, |reader| AddPartitionsToTxnTopic::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = true;
        writer::string(out, "transactional_id", self.transactional_id, flexible)?;
        writer::int64(out, self.producer_id);
        writer::int16(out, self.producer_epoch);
        writer::bool(out, self.verify_only);
        writer::array(out, "topics", &self.topics, flexible, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
