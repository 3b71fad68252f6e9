//! Kafka's ListTransactions request, versions 0 to 2.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's ListTransactions request, versions 0 to 2.
#[derive(Clone, Debug, PartialEq)]
pub struct ListTransactionsRequest<'a> {
    /// The transaction states to filter by: if empty, all transactions are returned; if non-empty, then only
    /// transactions matching one of the filtered states will be returned.
    pub state_filters: Vec<&'a str>,
    /// The producerIds to filter by: if empty, all transactions will be returned; if non-empty, only transactions
    /// which match one of the filtered producerIds will be returned.
    pub producer_id_filters: Vec<i64>,
    /// Duration (in millis) to filter by: if \< 0, all transactions will be returned; otherwise, only transactions
    /// running longer than this duration will be returned. Since version 1.
    pub duration_filter: i64,
    /// The transactional ID regular expression pattern to filter by: if it is empty or null, all transactions are
    /// returned; Otherwise then only the transactions matching the given regular expression will be returned. Since
    /// version 2.
    pub transactional_id_pattern: Option<&'a str>,
}

impl Default for ListTransactionsRequest<'_> {
    fn default() -> Self {
        Self {
            state_filters: Vec::new(),
            producer_id_filters: Vec::new(),
            duration_filter: -1,
            transactional_id_pattern: None,
        }
    }
}

impl<'a> ListTransactionsRequest<'a> {
    /// The key of its API.
    pub const API_KEY: i16 = 66;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 2;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "ListTransactionsRequest", version });
        }
        let message = Self {
            state_filters: reader.array("state_filters", true, 1, |reader| reader.string("state_filters", true))?,
            producer_id_filters: reader
                .array("producer_id_filters", true, 8, |reader| reader.int64("producer_id_filters"))?,
            duration_filter: if version >= 1 { reader.int64("duration_filter")? } else { -1 },
            transactional_id_pattern: if version == 2 {
                reader.nullable_string("transactional_id_pattern", true)?
            } else {
                None
            },
        };
        reader.skip_tagged_fields()?;
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "ListTransactionsRequest", version });
        }
        writer::array(out, "state_filters", &self.state_filters, true, |out, value| {
            writer::string(out, "state_filters", value, true)
        })?;
        writer::array(out, "producer_id_filters", &self.producer_id_filters, true, |out, value| {
            writer::int64(out, *value);
            Ok(())
        })?;
        if version >= 1 {
            writer::int64(out, self.duration_filter);
        } else {
            writer::absent("duration_filter", version, self.duration_filter == -1)?;
        }
        if version == 2 {
            writer::nullable_string(out, "transactional_id_pattern", self.transactional_id_pattern, true)?;
        } else {
            writer::absent("transactional_id_pattern", version, self.transactional_id_pattern.is_none())?;
        }
        writer::unsigned_varint(out, 0);
        Ok(())
    }
}
