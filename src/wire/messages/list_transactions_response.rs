//! Kafka's ListTransactions response, versions 0 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's ListTransactions response, versions 0 to 2.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListTransactionsResponse<'a> {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// Set of state filters provided in the request which were unknown to the transaction coordinator.
    pub unknown_state_filters: Vec<&'a str>,
    /// The current state of the transaction for the transactional id.
    pub transaction_states: Vec<TransactionState<'a>>,
}

impl<'a> ListTransactionsResponse<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 66;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ListTransactionsResponse", version });
        }
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            error_code: reader.int16("error_code")?,
            unknown_state_filters: reader
                .array("unknown_state_filters", true, 1, |reader| reader.string("unknown_state_filters", true))?,
            transaction_states: reader
                .array("transaction_states", true, 11, |reader| TransactionState::decode(reader, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ListTransactionsResponse", version });
        }
        writer::int32(out, self.throttle_time_ms);
        writer::int16(out, self.error_code);
        writer::array(out, "unknown_state_filters", &self.unknown_state_filters, true, |out, value| {
            writer::string(out, "unknown_state_filters", value, true)
        })?;
        writer::array(out, "transaction_states", &self.transaction_states, true, |out, value| {
            value.encode_body(out, version)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}

/// The current state of the transaction for the transactional id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransactionState<'a> {
    /// The transactional id.
    pub transactional_id: &'a str,
    /// The producer id.
    pub producer_id: i64,
    /// The current transaction state of the producer.
    pub transaction_state: &'a str,
}

impl<'a> TransactionState<'a> {
    fn decode(reader: &mut Reader<'a>, _version: i16) -> Result<Self, DecodeError> {
        let message = Self {
            transactional_id: reader.string("transactional_id", true)?,
            producer_id: reader.int64("producer_id")?,
            transaction_state: reader.string("transaction_state", true)?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, _version: i16) -> Result<(), EncodeError> {
        writer::string(out, "transactional_id", self.transactional_id, true)?;
        writer::int64(out, self.producer_id);
        writer::string(out, "transaction_state", self.transaction_state, true)?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
