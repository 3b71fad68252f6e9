//! Kafka's InitProducerId response, versions 0 to 6.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's InitProducerId response, versions 0 to 6.
#[derive(Clone, Debug, PartialEq)]
pub struct InitProducerIdResponse {
    /// The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the
    /// request did not violate any quota.
    pub throttle_time_ms: i32,
    /// The error code, or 0 if there was no error.
    pub error_code: i16,
    /// The current producer id.
    pub producer_id: i64,
    /// The current epoch associated with the producer id.
    pub producer_epoch: i16,
    /// The producer id for ongoing transaction when KeepPreparedTxn is used, -1 if there is no transaction ongoing.
    /// Since version 6.
    pub ongoing_txn_producer_id: i64,
    /// The epoch associated with the producer id for ongoing transaction when KeepPreparedTxn is used, -1 if there is
    /// no transaction ongoing. Since version 6.
    pub ongoing_txn_producer_epoch: i16,
}

impl Default for InitProducerIdResponse {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: 0,
            producer_id: -1,
            producer_epoch: 0,
            ongoing_txn_producer_id: -1,
            ongoing_txn_producer_epoch: -1,
        }
    }
}

impl InitProducerIdResponse {
    /// The key of its API.
    pub const API_KEY: i16 = 22;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 6;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "InitProducerIdResponse", version });
        }
        let flexible = version >= 2;
        let message = Self {
            throttle_time_ms: reader.int32("throttle_time_ms")?,
            error_code: reader.int16("error_code")?,
            producer_id: reader.int64("producer_id")?,
            producer_epoch: reader.int16("producer_epoch")?,
            ongoing_txn_producer_id: if version == 6 { reader.int64("ongoing_txn_producer_id")? } else { -1 },
            ongoing_txn_producer_epoch: if version == 6 { reader.int16("ongoing_txn_producer_epoch")? } else { -1 },
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "InitProducerIdResponse", version });
        }
        let flexible = version >= 2;
        writer::int32(out, self.throttle_time_ms);
        writer::int16(out, self.error_code);
        writer::int64(out, self.producer_id);
        writer::int16(out, self.producer_epoch);
        if version == 6 {
            writer::int64(out, self.ongoing_txn_producer_id);
        } else {
            writer::absent("ongoing_txn_producer_id", version, self.ongoing_txn_producer_id == -1)?;
        }
        if version == 6 {
            writer::int16(out, self.ongoing_txn_producer_epoch);
        } else {
            writer::absent("ongoing_txn_producer_epoch", version, self.ongoing_txn_producer_epoch == -1)?;
        }
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
