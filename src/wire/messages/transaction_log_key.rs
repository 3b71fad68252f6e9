//! Kafka's transaction log key, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's transaction log key, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransactionLogKey<'a> {
    /// The transactional id of the transaction.
    pub transactional_id: &'a str,
}

impl<'a> TransactionLogKey<'a> {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 0;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "TransactionLogKey", version });
        }
        let message = Self { transactional_id: reader.string("transactional_id", false)? };
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "TransactionLogKey", version });
        }
        writer::string(out, "transactional_id", self.transactional_id, false)?;
        Ok(())
    }
}
