//! Why a produced batch is refused, by Kafka's classes of answers.

use thiserror::Error;

/// Why a batch cannot be appended. Each variant is one error code of Kafka's (in the last words of its doc).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    /// The bytes are damaged or no batch at all: CORRUPT_MESSAGE (2).
    #[error("corrupt batch: {0}")]
    Corrupt(Corruption),
    /// Well delivered, but not a batch that a client may write: INVALID_RECORD (87).
    #[error("invalid batch: {0}")]
    Invalid(Invalidity),
    /// The codec is unknown or its bytes are garbage: UNKNOWN_SERVER_ERROR (-1), as Kafka has no better word.
    #[error("the records cannot be decompressed")]
    Undecodable,
    /// A record's time is too far from the broker's: INVALID_TIMESTAMP (32).
    #[error("record {record_index} has timestamp {timestamp_ms}, out of the accepted range")]
    Timestamp {
        /// The first such record, from 0 within the batch.
        record_index: u32,
        /// Its timestamp.
        timestamp_ms: i64,
        /// All records that are refused, whatever for.
        refused: RefusedRecords,
    },
    /// A record without a key for a compacted topic: INVALID_RECORD (87).
    #[error("record {record_index} has no key, and the topic is compacted")]
    Keyless {
        /// The first such record, from 0 within the batch.
        record_index: u32,
        /// All records that are refused.
        refused: RefusedRecords,
    },
    /// Larger than `max.message.bytes`: MESSAGE_TOO_LARGE (10).
    #[error("batch of {len_bytes} bytes, max.message.bytes is {max_bytes}")]
    TooLarge {
        /// Length of the batch.
        len_bytes: u32,
        /// The limit in force.
        max_bytes: u32,
    },
    /// Larger than `segment.bytes`: RECORD_LIST_TOO_LARGE (18).
    #[error("batch of {len_bytes} bytes, segment.bytes is {max_bytes}")]
    LargerThanSegment {
        /// Length of the batch.
        len_bytes: u32,
        /// The limit in force.
        max_bytes: u32,
    },
}

/// The records of a batch that are refused, from 0 within the batch, in their order (KIP-467). Those that nobody has to
/// name are left out: an answer does not grow with its batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedRecords(Vec<u32>);

impl RefusedRecords {
    /// Adds the next one.
    pub(in crate::record) fn push(&mut self, record_index: u32) {
        if self.0.len() < REFUSED_RECORDS_MAX {
            self.0.push(record_index);
        }
    }

    /// The first ones, `REFUSED_RECORDS_MAX` at most.
    pub fn indexes(&self) -> &[u32] {
        &self.0
    }
}

/// As many refused records of a batch are named.
pub const REFUSED_RECORDS_MAX: usize = 1000;

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Corruption {
    /// The CRC-32C does not match.
    #[error("wrong CRC")]
    Crc,
    /// The length field is too small for a batch.
    #[error("bad length")]
    Length,
    /// A magic that no Kafka has.
    #[error("unknown magic")]
    Magic,
}

/// What a client may not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Invalidity {
    /// There is no whole batch.
    #[error("no whole batch")]
    NoBatch,
    /// There is more than one.
    #[error("more than one batch")]
    SecondBatch,
    /// Magic 0 or 1.
    #[error("message format before v2")]
    OldMagic,
    /// A producer's batch starts at offset 0.
    #[error("base offset is not 0")]
    BaseOffset,
    /// The count is not positive, or the last offset delta does not fit it.
    #[error("record count and offsets disagree")]
    Count,
    /// Control batches come from coordinators only.
    #[error("control batch")]
    Control,
    /// A producer id without a sequence.
    #[error("producer id without a sequence")]
    Sequence,
    /// A record's lengths disagree, or records are missing or left over.
    #[error("bad record")]
    Record,
    /// Records in a compressed batch are not numbered 0, 1, 2, ...
    #[error("offsets in a compressed batch have gaps")]
    InnerOffsets,
}

impl From<Corruption> for BatchError {
    fn from(cause: Corruption) -> Self {
        Self::Corrupt(cause)
    }
}

impl From<Invalidity> for BatchError {
    fn from(cause: Invalidity) -> Self {
        Self::Invalid(cause)
    }
}
