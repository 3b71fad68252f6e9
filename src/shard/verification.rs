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
    {
        let log = partition.log().borrow();
        let known = log.producers().get(batch.producer_id);
        batch.verification = Some(known.map_or(0, |known| known.marker_count));
        let is_open = known.is_some_and(|known| known.has_transaction() && known.epoch == batch.producer_epoch);
        let is_fenced = known.is_some_and(|known| known.epoch > batch.producer_epoch);
        if is_open || is_fenced {
            // The log itself refuses a producer that was fenced.
            return Ok(());
        }
    }
    let place = (partition.topic(), partition.id().partition);
    let producer = (batch.producer_id, batch.producer_epoch);
    is_in_transaction(shard, transactional, producer, place).await
}

/// Has the coordinator add a partition to a transaction, or say that it is there.
///
/// # Errors
/// It is not.
pub async fn is_in_transaction(
    shard: &Rc<Shard>,
    transactional: &Transactional,
    (producer_id, producer_epoch): (ProducerId, i16),
    (topic, partition): (&str, i32),
) -> Result<(), VerificationFailure> {
    for attempt in 0.. {
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
        let code = match asked.map_err(VerificationFailure::NoAnswer)? {
            TransactionReply::Partitions(codes) => codes.first().map_or(ErrorCode::None, |(_, _, code)| *code),
            TransactionReply::Refused(code) => code,
            _ => ErrorCode::UnknownServerError,
        };
        match code {
            ErrorCode::None => return Ok(()),
            // The markers of the transaction before are being written.
            ErrorCode::ConcurrentTransactions if attempt < ATTEMPTS_MAX => shard.io().sleep_ms(RETRY_MS).await,
            code => return Err(VerificationFailure::Refused(code)),
        }
    }
    unreachable!("the last attempt is answered")
}

/// As Kafka's add.partitions.to.txn.retry.backoff.ms, up to its maximum of 100 ms in all.
const RETRY_MS: u64 = 20;
const ATTEMPTS_MAX: u32 = 5;
