//! Kafka's DescribeTransactions response, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeTransactions response, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTransactionsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The current state of the transaction.
    pub transaction_states: Vec<TransactionState<'a>>,
}

impl<'a> DescribeTransactionsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 65;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeTransactionsResponse", version });
        }
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            transaction_states: reader
                .array("transaction_states", true, 28, |reader| TransactionState::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeTransactionsResponse", version });
        }
        writer::int32(out, self.throttle_time_ms);
        writer::array(out, "transaction_states", &self.transaction_states, true, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The current state of the transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransactionState<'a> {
    /// The error code.
    pub error_code: i16,
    /// The transactional id.
    pub transactional_id: &'a str,
    /// The current transaction state of the producer.
    pub transaction_state: &'a str,
    /// The timeout in milliseconds for the transaction.
    pub transaction_timeout_ms: i32,
    /// The start time of the transaction in milliseconds.
    pub transaction_start_time_ms: i64,
    /// The current producer id associated with the transaction.
    pub producer_id: i64,
    /// The current epoch associated with the producer id.
    pub producer_epoch: i16,
    /// The set of partitions included in the current transaction (if active). When a transaction is preparing to
    /// commit or abort, this will include only partitions which do not have markers.
    pub topics: Vec<TopicData<'a>>,
}

impl<'a> TransactionState<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            error_code: reader.int16("error_code")?,
            transactional_id: reader.string("transactional_id", true)?,
            transaction_state: reader.string("transaction_state", true)?,
            transaction_timeout_ms: reader.int32("transaction_timeout_ms")?,
            transaction_start_time_ms: reader.int64("transaction_start_time_ms")?,
            producer_id: reader.int64("producer_id")?,
            producer_epoch: reader.int16("producer_epoch")?,
            topics: reader.array("topics", true, 3, |reader| TopicData::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        writer::int16(out, self.error_code);
        writer::string(out, "transactional_id", self.transactional_id, true)?;
        writer::string(out, "transaction_state", self.transaction_state, true)?;
        writer::int32(out, self.transaction_timeout_ms);
        writer::int64(out, self.transaction_start_time_ms);
        writer::int64(out, self.producer_id);
        writer::int16(out, self.producer_epoch);
        writer::array(out, "topics", &self.topics, true, |out, value| value.encode_body(out, version))?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The set of partitions included in the current transaction (if active). When a transaction is preparing to
/// commit or abort, this will include only partitions which do not have markers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicData<'a> {
    /// The topic name.
    pub topic: &'a str,
    /// The partition ids included in the current transaction.
    pub partitions: Vec<i32>,
}

impl<'a> TopicData<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            topic: reader.string("topic", true)?,
            partitions: reader.array("partitions", true, 4, |reader| reader.int32("partitions"))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::string(out, "topic", self.topic, true)?;
        writer::array(out, "partitions", &self.partitions, true, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
