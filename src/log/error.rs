//! What a partition log refuses, by what the caller does about it.

use std::path::PathBuf;

use thiserror::Error;

use crate::record::offset::{Offset, ProducerId};

/// Why a batch gets no plan. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    /// A sequence that does not follow the last one: OUT_OF_ORDER_SEQUENCE_NUMBER (45).
    #[error("producer {producer_id}: sequence {sequence}, expected {expected}")]
    OutOfOrderSequence {
        /// Who wrote it.
        producer_id: ProducerId,
        /// First sequence of the batch.
        sequence: i32,
        /// What would have followed.
        expected: i32,
    },
    /// An older epoch than the one known: INVALID_PRODUCER_EPOCH (47).
    #[error("producer {producer_id}: epoch {epoch}, the partition knows {current}")]
    InvalidProducerEpoch {
        /// Who wrote it.
        producer_id: ProducerId,
        /// Epoch of the batch.
        epoch: i16,
        /// Latest epoch known.
        current: i16,
    },
    /// A batch outside transactions while its producer has one open here: INVALID_TXN_STATE (48).
    #[error("producer {producer_id}: expected a transactional batch, for a transaction is open")]
    InTransaction {
        /// Who wrote it.
        producer_id: ProducerId,
    },
    /// The transaction has ended since the coordinator was asked for it: INVALID_TXN_STATE (48).
    #[error("producer {producer_id}: the batch is not part of an ongoing transaction")]
    NotInTransaction {
        /// Who wrote it.
        producer_id: ProducerId,
    },
    /// A marker of a coordinator that another one has followed: TRANSACTION_COORDINATOR_FENCED (52).
    #[error("producer {producer_id}: coordinator epoch {epoch}, the partition knows {current}")]
    CoordinatorFenced {
        /// Whose transaction it would end.
        producer_id: ProducerId,
        /// Epoch of the coordinator.
        epoch: i32,
        /// Latest epoch known.
        current: i32,
    },
    /// A failed append is being cut off; try again after [`truncated`](super::partition_log::PartitionLog::truncated).
    #[error("the log is being truncated")]
    Truncating,
    /// Larger than `segment.bytes`, which may have changed since the check: RECORD_LIST_TOO_LARGE (18).
    #[error("batch of {len_bytes} bytes, segment.bytes is {max_bytes}")]
    LargerThanSegment {
        /// Length of the batch.
        len_bytes: u32,
        /// The limit in force.
        max_bytes: u32,
    },
    /// The partition has no offsets left.
    #[error("no offsets are left")]
    NoOffsetsLeft,
}

/// Why a read gets no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The offset is below the first or above the last readable one: OFFSET_OUT_OF_RANGE (1).
    #[error("offset out of range, the log has {log_start} to {end}")]
    OutOfRange {
        /// First offset.
        log_start: Offset,
        /// One after the last readable offset.
        end: Offset,
    },
    /// The offset lies in the tier: below the local log start offset.
    #[error("below the local log start offset {local_log_start}")]
    BelowLocalStart {
        /// First offset that is here.
        local_log_start: Offset,
    },
    /// What was fed is no index or no log: the segment is damaged, the partition goes offline. KAFKA_STORAGE_ERROR (56).
    #[error("segment {segment} is damaged at {position_bytes}")]
    Damaged {
        /// Base offset of the segment.
        segment: Offset,
        /// Where in its log.
        position_bytes: u64,
    },
}

/// Where the log start offset may not be moved to: OFFSET_OUT_OF_RANGE (1). Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the log start offset cannot be moved to {asked}, above the high watermark {high_watermark}")]
pub struct LogStartError {
    /// Where to.
    pub asked: Offset,
    /// The log may begin here at the latest.
    pub high_watermark: Offset,
}

/// Why a partition cannot be opened: it goes offline, the others go on.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The disk refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was touched.
        path: PathBuf,
        /// Its answer.
        source: std::io::Error,
    },
    /// Bytes that were durable are not there or not whole. Nothing was cut.
    #[error("{}: damaged at {position_bytes}, below the recovery point {recovery_point}", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// Where it stops being right.
        position_bytes: u64,
        /// All below was durable once.
        recovery_point: Offset,
    },
    /// A file beside the log cannot be understood and cannot be made anew from it.
    #[error("{}: {reason}", path.display())]
    BadMetadata {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// The folder belongs to another topic.
    #[error("{}: has topic id {found}, expected {expected}", path.display())]
    WrongTopic {
        /// The metadata file.
        path: PathBuf,
        /// The id in it.
        found: crate::record::offset::TopicId,
        /// The id that the catalog has.
        expected: crate::record::offset::TopicId,
    },
}

impl RecoveryError {
    /// The disk's answer, where it was the disk that refused.
    pub fn into_io(self) -> std::io::Error {
        match self {
            Self::Io { source, .. } => source,
            other => std::io::Error::other(other),
        }
    }

    /// True where only space is missing: what is on the disk can be read.
    pub(in crate::log) fn is_no_space(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }
}
