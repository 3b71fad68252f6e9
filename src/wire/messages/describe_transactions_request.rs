//! Kafka's DescribeTransactions request, versions 0.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's DescribeTransactions request, versions 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescribeTransactionsRequest<'a> {
    /// Array of transactionalIds to include in describe results. If empty, then no results will be returned.
    pub transactional_ids: Vec<&'a str>,
}

impl<'a> DescribeTransactionsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 65;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 0;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "DescribeTransactionsRequest", version });
        }
        let message = Self {
            transactional_ids: reader
                .array("transactional_ids", true, 1, |reader| reader.string("transactional_ids", true))?,
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "DescribeTransactionsRequest", version });
        }
        writer::array(out, "transactional_ids", &self.transactional_ids, true, |out, value| {
            writer::string(out, "transactional_ids", value, true)
        })?;
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
