//! Kafka's InitProducerId request, versions 0 to 6.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's InitProducerId request, versions 0 to 6.
#[derive(Clone, Debug, PartialEq)]
pub struct InitProducerIdRequest<'a> {
    /// The transactional id, or null if the producer is not transactional.
    pub transactional_id: Option<&'a str>,
    /// The time in ms to wait before aborting idle transactions sent by this producer. This is only relevant if a
    /// TransactionalId has been defined.
    pub transaction_timeout_ms: i32,
    /// The producer id. This is used to disambiguate requests if a transactional id is reused following its
    /// expiration. Since version 3.
    pub producer_id: i64,
    /// The producer's current epoch. This will be checked against the producer epoch on the broker, and the request
    /// will return an error if they do not match. Since version 3.
    pub producer_epoch: i16,
    /// True if the client wants to enable two-phase commit (2PC) protocol for transactions. Since version 6.
    pub enable2_pc: bool,
    /// True if the client wants to keep the currently ongoing transaction instead of aborting it. Since version 6.
    pub keep_prepared_txn: bool,
}

impl Default for InitProducerIdRequest<'_> {
    fn default() -> Self {
        Self {
            transactional_id: Some(""),
            transaction_timeout_ms: 0,
            producer_id: -1,
            producer_epoch: -1,
            enable2_pc: false,
            keep_prepared_txn: false,
        }
    }
}

impl<'a> InitProducerIdRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 22;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 6;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "InitProducerIdRequest", version });
        }
        let flexible = version >= 2;
        let message = Self {
            transactional_id: reader.nullable_string("transactional_id", flexible)?,
            transaction_timeout_ms: reader.int32("transaction_timeout_ms")?,
            producer_id: if version >= 3 { reader.int64("producer_id")? } else { -1 },
            producer_epoch: if version >= 3 { reader.int16("producer_epoch")? } else { -1 },
            enable2_pc: if version == 6 { reader.bool("enable2_pc")? } else { false },
            keep_prepared_txn: if version == 6 { reader.bool("keep_prepared_txn")? } else { false },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "InitProducerIdRequest", version });
        }
        let flexible = version >= 2;
        writer::nullable_string(out, "transactional_id", self.transactional_id, flexible)?;
        writer::int32(out, self.transaction_timeout_ms);
        if version >= 3 {
            writer::int64(out, self.producer_id);
        } else {
            writer::absent("producer_id", version, self.producer_id == -1)?;
        }
        if version >= 3 {
            writer::int16(out, self.producer_epoch);
        } else {
            writer::absent("producer_epoch", version, self.producer_epoch == -1)?;
        }
        if version == 6 {
            writer::bool(out, self.enable2_pc);
        } else {
            writer::absent("enable2_pc", version, !self.enable2_pc)?;
        }
        if version == 6 {
            writer::bool(out, self.keep_prepared_txn);
        } else {
            writer::absent("keep_prepared_txn", version, !self.keep_prepared_txn)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
