//! Kafka's EndTxn request, versions 0 to 5.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's EndTxn request, versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndTxnRequest<'a> {
    /// The ID of the transaction to end.
    pub transactional_id: &'a str,
    /// The producer ID.
    pub producer_id: i64,
    /// The current epoch associated with the producer.
    pub producer_epoch: i16,
    /// True if the transaction was committed, false if it was aborted.
    pub committed: bool,
}

impl<'a> EndTxnRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 26;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 5;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "EndTxnRequest", version });
        }
        let flexible = version >= 3;
        let message = Self {
            transactional_id: reader.string("transactional_id", flexible)?,
            producer_id: reader.int64("producer_id")?,
            producer_epoch: reader.int16("producer_epoch")?,
            committed: reader.bool("committed")?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "EndTxnRequest", version });
        }
        let flexible = version >= 3;
        writer::string(out, "transactional_id", self.transactional_id, flexible)?;
        writer::int64(out, self.producer_id);
        writer::int16(out, self.producer_epoch);
        writer::bool(out, self.committed);
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
