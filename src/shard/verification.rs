//! Before the first batch of a transaction is appended, its coordinator says that the transaction has the partition (KIP-890).
//!
//! Else a batch that comes late, when its transaction has ended, would open one that nobody ends. What the coordinator said
//! counts until the next marker of the producer: see [`CheckedBatch::verification`].

use std::rc::Rc;

use crate::record::check::CheckedBatch;
use crate::record::offset::ProducerId;
use crate::shard::core::Shard;
use crate::shard::machine::CoordinatorFailure;
use crate::shard::partition::Partition;
use crate::shard::transaction_machine::TRANSACTION_VERSION;
use crate::txn::coordinator::TransactionCoordinator;
use crate::txn::reply::TransactionReply;
use crate::txn::request::{AddPartitions, TransactionRequest};
use crate::txn::transaction::Partitions;
use crate::wire::error_code::ErrorCode;

/// How a client takes part in transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transactional {
    /// Its id.
    pub transactional_id: String,
    /// It relies on its partitions being added as it writes to them (transaction version 2); else they were added before.
    pub adds: bool,
}

/// Why a batch is no part of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerificationFailure {
    /// The coordinator says so.
    Refused(ErrorCode),
    /// It did not answer.
    NoAnswer(CoordinatorFailure),
}

/// Asks the coordinator where the partition does not know the transaction yet, and notes in `batch` that it was asked.
///
/// # Errors
/// The batch may not be appended.
pub async fn verify(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    batch: &mut CheckedBatch,
    transactional: &Transactional,
) -> Result<(), VerificationFailure> {
    let place = (partition.topic(), partition.id().partition);
    let producer = (batch.producer_id, batch.producer_epoch);
    for attempt in 0.. {
        if note_markers(partition, batch) {
            return Ok(());
        }
        match ask_once(shard, transactional, producer, place).await? {
            ErrorCode::None => break,
            // Markers of the transaction before are being written, and may be to come in this partition: they are counted
            // again.
            ErrorCode::ConcurrentTransactions if attempt < ATTEMPTS_MAX => shard.io().sleep_ms(RETRY_MS).await,
            code => return Err(VerificationFailure::Refused(code)),
        }
    }
    if transactional.adds {
        // The answer was to this very epoch: what ended the transaction before it may have been written while the coordinator
        // was asked, and what ends this one has the next epoch, which fences the batch.
        note_markers(partition, batch);
    }
    Ok(())
}

/// Notes in `batch` which markers of its producer the partition has; true where nobody has to be asked, as its transaction
/// is open there, or the log itself refuses it.
fn note_markers(partition: &Partition, batch: &mut CheckedBatch) -> bool {
    let log = partition.log().borrow();
    let known = log.producers().get(batch.producer_id);
    batch.verification = Some(known.map_or(0, |known| known.marker_count));
    let is_open = known.is_some_and(|known| known.has_transaction() && known.epoch == batch.producer_epoch);
    let is_fenced = known.is_some_and(|known| known.epoch > batch.producer_epoch);
    is_open || is_fenced
}

/// Has the coordinator add a partition to a transaction, or say that it is there.
///
/// # Errors
/// It is not.
pub async fn is_in_transaction(
    shard: &Rc<Shard>,
    transactional: &Transactional,
    producer: (ProducerId, i16),
    place: (&str, i32),
) -> Result<(), VerificationFailure> {
    for attempt in 0.. {
        match ask_once(shard, transactional, producer, place).await? {
            ErrorCode::None => return Ok(()),
            // The markers of the transaction before are being written.
            ErrorCode::ConcurrentTransactions if attempt < ATTEMPTS_MAX => shard.io().sleep_ms(RETRY_MS).await,
            code => return Err(VerificationFailure::Refused(code)),
        }
    }
    unreachable!("the last attempt is answered")
}

async fn ask_once(
    shard: &Rc<Shard>,
    transactional: &Transactional,
    (producer_id, producer_epoch): (ProducerId, i16),
    (topic, partition): (&str, i32),
) -> Result<ErrorCode, VerificationFailure> {
    let request = AddPartitions {
        transactional_id: transactional.transactional_id.clone(),
        producer_id,
        producer_epoch,
        partitions: Partitions::from([(topic.to_owned(), [partition].into())]),
        verify_only: !transactional.adds,
        client_version: if transactional.adds { TRANSACTION_VERSION } else { 0 },
    };
    let request = TransactionRequest::AddPartitions(request);
    let asked = shard.ask_on_any_core::<TransactionCoordinator>(&transactional.transactional_id, request).await;
    Ok(match asked.map_err(VerificationFailure::NoAnswer)? {
        TransactionReply::Partitions(codes) => codes.first().map_or(ErrorCode::None, |(_, _, code)| *code),
        TransactionReply::Refused(code) => code,
        _ => ErrorCode::UnknownServerError,
    })
}

/// As Kafka's add.partitions.to.txn.retry.backoff.ms, up to its maximum of 100 ms in all.
const RETRY_MS: u64 = 20;
const ATTEMPTS_MAX: u32 = 5;
