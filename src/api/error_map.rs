//! The one table from our errors to Kafka's codes.

use crate::log::error::{AppendError, ReadError};
use crate::record::batch_error::{BatchError, Invalidity};
use crate::record::offset::{LeaderEpoch, Offset};
use crate::shard::error::{AppendFailure, DeleteFailure, ReadFailure, RemoteReadError};
use crate::shard::machine::CoordinatorFailure;
use crate::shard::markers::MarkerFailure;
use crate::shard::verification::VerificationFailure;
use crate::wire::error_code::ErrorCode;

/// Why a partition of a request is refused, as the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Kafka's code.
    pub error: ErrorCode,
    /// A text for people, where there is more to say than the code.
    pub message: Option<String>,
    /// The records in the batch that are to blame.
    pub record_indexes: Vec<i32>,
    /// The core that leads, where another does.
    pub leader: Option<(u32, LeaderEpoch)>,
    /// Where the partition's log begins, which Kafka says with some refusals; else -1.
    pub log_start_offset: i64,
}

impl Refusal {
    /// A refusal that the code explains.
    pub fn new(error: ErrorCode) -> Self {
        Self { error, message: None, record_indexes: Vec::new(), leader: None, log_start_offset: -1 }
    }

    /// A refusal with a text.
    pub fn with_message(error: ErrorCode, message: String) -> Self {
        Self { message: Some(message), ..Self::new(error) }
    }

    /// Another core leads: the client is told which, and refreshes.
    pub fn led_by(core: u32, leader_epoch: LeaderEpoch) -> Self {
        Self { leader: Some((core, leader_epoch)), ..Self::new(ErrorCode::NotLeaderOrFollower) }
    }

    /// The same with the partition's log start offset, where Kafka says it.
    pub fn at(self, log_start: Offset) -> Self {
        let told = !matches!(
            self.error,
            ErrorCode::MessageTooLarge
                | ErrorCode::RecordListTooLarge
                | ErrorCode::CorruptMessage
                | ErrorCode::KafkaStorageError
                | ErrorCode::NotLeaderOrFollower
        );
        Self { log_start_offset: if told { log_start.get() } else { -1 }, ..self }
    }

    /// For a log line.
    pub fn text(&self) -> &str {
        self.message.as_deref().unwrap_or(self.error.default_message())
    }
}

/// A batch that may not be appended.
pub fn batch_error(error: &BatchError) -> Refusal {
    let code = match error {
        BatchError::Corrupt(_) => ErrorCode::CorruptMessage,
        // What Kafka answers to gaps inside a compressed batch (an uncompressed one may have them).
        BatchError::Invalid(Invalidity::InnerOffsets) | BatchError::Undecodable => ErrorCode::UnknownServerError,
        BatchError::Invalid(_) | BatchError::Keyless { .. } => ErrorCode::InvalidRecord,
        BatchError::Timestamp { .. } => ErrorCode::InvalidTimestamp,
        BatchError::TooLarge { .. } => ErrorCode::MessageTooLarge,
        BatchError::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
    };
    let record_indexes = match error {
        BatchError::Timestamp { refused, .. } | BatchError::Keyless { refused, .. } => {
            refused.indexes().iter().filter_map(|index| i32::try_from(*index).ok()).collect()
        }
        _ => Vec::new(),
    };
    Refusal { record_indexes, ..Refusal::with_message(code, error.to_string()) }
}

/// An append that did not happen.
pub fn append_failure(failure: &AppendFailure) -> Refusal {
    let code = match failure {
        AppendFailure::Refused(error) => append_error(error),
        AppendFailure::NoSpace | AppendFailure::Offline => ErrorCode::KafkaStorageError,
        AppendFailure::Stopping => ErrorCode::NotLeaderOrFollower,
    };
    Refusal::with_message(code, failure.to_string())
}

fn append_error(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        AppendError::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
        AppendError::InTransaction { .. } | AppendError::NotInTransaction { .. } => ErrorCode::InvalidTxnState,
        AppendError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        AppendError::Truncating | AppendError::NoOffsetsLeft => ErrorCode::KafkaStorageError,
    }
}

/// A marker that was not written.
pub fn marker_failure(failure: &MarkerFailure) -> ErrorCode {
    match failure {
        MarkerFailure::Append(failure) => append_failure(failure).error,
        MarkerFailure::NotLeader => ErrorCode::NotLeaderOrFollower,
        MarkerFailure::Offline => ErrorCode::KafkaStorageError,
        MarkerFailure::Unknown => ErrorCode::UnknownTopicOrPartition,
    }
}

/// A coordinator that did not answer.
pub fn coordinator_failure(failure: CoordinatorFailure) -> ErrorCode {
    match failure {
        CoordinatorFailure::Loading => ErrorCode::CoordinatorLoadInProgress,
        CoordinatorFailure::NotHere => ErrorCode::NotCoordinator,
        CoordinatorFailure::NotAvailable => ErrorCode::CoordinatorNotAvailable,
    }
}

/// A batch that is no part of a transaction, as a client of this version of Produce is told.
pub fn verification_failure(failure: VerificationFailure, version: i16) -> Refusal {
    let code = match failure {
        VerificationFailure::Refused(ErrorCode::ProducerFenced) => ErrorCode::InvalidProducerEpoch,
        VerificationFailure::Refused(ErrorCode::TransactionAbortable) if version < ABORTABLE_MIN => {
            ErrorCode::InvalidTxnState
        }
        VerificationFailure::Refused(ErrorCode::ConcurrentTransactions) if version >= ADDS_PARTITIONS_MIN => {
            ErrorCode::ConcurrentTransactions
        }
        // As Kafka: clients try again after it, and do not look for another leader first.
        VerificationFailure::Refused(ErrorCode::ConcurrentTransactions) | VerificationFailure::NoAnswer(_) => {
            ErrorCode::NotEnoughReplicas
        }
        VerificationFailure::Refused(code) => code,
    };
    let message = match failure {
        VerificationFailure::Refused(said) => {
            format!("the coordinator does not take the partition into the producer's transaction: {said:?}")
        }
        VerificationFailure::NoAnswer(failure) => {
            format!("the transaction's coordinator could not be asked, try again: {:?}", coordinator_failure(failure))
        }
    };
    Refusal::with_message(code, message)
}

/// Records that were not deleted.
pub fn delete_failure(failure: &DeleteFailure) -> ErrorCode {
    match failure {
        DeleteFailure::OutOfRange => ErrorCode::OffsetOutOfRange,
        DeleteFailure::Policy => ErrorCode::PolicyViolation,
        DeleteFailure::Offline => ErrorCode::KafkaStorageError,
    }
}

/// A read that found nothing out.
pub fn read_failure(failure: &ReadFailure) -> ErrorCode {
    match failure {
        ReadFailure::Refused(ReadError::OutOfRange { .. } | ReadError::BelowLocalStart { .. }) => {
            ErrorCode::OffsetOutOfRange
        }
        // What Kafka makes of whatever its plugin of the tier throws.
        ReadFailure::Remote(RemoteReadError::Store(_) | RemoteReadError::Segment { .. }) => {
            ErrorCode::UnknownServerError
        }
        // Clients try again at all of these.
        ReadFailure::Refused(ReadError::Damaged { .. })
        | ReadFailure::Offline
        | ReadFailure::Disk(_)
        | ReadFailure::Remote(RemoteReadError::NoTier) => ErrorCode::KafkaStorageError,
    }
}

/// Judges the leader epoch that a client takes to be current; -1 is no opinion.
pub fn leader_epoch_error(known: i32, current: LeaderEpoch) -> Option<ErrorCode> {
    match known {
        -1 => None,
        known if known < current.get() => Some(ErrorCode::FencedLeaderEpoch),
        known if known > current.get() => Some(ErrorCode::UnknownLeaderEpoch),
        _ => None,
    }
}

/// The first version of Produce whose clients know TRANSACTION_ABORTABLE.
const ABORTABLE_MIN: i16 = 11;
/// The first one whose clients do not add partitions to transactions themselves (KIP-890).
pub const ADDS_PARTITIONS_MIN: i16 = 12;
