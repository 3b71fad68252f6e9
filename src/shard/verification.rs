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
    let producer = (batch.producer_id, batch.producer_epoch);
    batch.verification = Some(verified(shard, partition, producer, transactional).await?);
    Ok(())
}

/// The same for offsets that a group commits as part of a transaction: says what [`CheckedBatch::verification`] is to be. On
/// return the offsets may be stored, unless a marker comes before that.
///
/// # Errors
/// They may not.
pub async fn verify_offsets(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    producer: (ProducerId, i16),
    transactional: &Transactional,
) -> Result<u32, VerificationFailure> {
    let marker_count = verified(shard, partition, producer, transactional).await?;
    let now = standing(partition, producer);
    if now.is_fenced {
        return Err(VerificationFailure::Refused(ErrorCode::InvalidProducerEpoch));
    }
    if !now.is_open && now.marker_count != marker_count {
        // The transaction has ended while its coordinator was asked.
        return Err(VerificationFailure::Refused(ErrorCode::InvalidTxnState));
    }
    Ok(marker_count)
}

/// How many markers of its producer the partition had when the coordinator was asked, or now, where nobody has to be asked:
/// its transaction is open there, or the log itself refuses it.
async fn verified(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    producer: (ProducerId, i16),
    transactional: &Transactional,
) -> Result<u32, VerificationFailure> {
    let place = (partition.topic(), partition.id().partition);
    let mut asked_at = 0;
    for attempt in 0.. {
        let before = standing(partition, producer);
        asked_at = before.marker_count;
        if before.is_open || before.is_fenced {
            return Ok(asked_at);
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
        return Ok(standing(partition, producer).marker_count);
    }
    Ok(asked_at)
}

/// What a partition knows of a producer.
struct Standing {
    marker_count: u32,
    /// Its transaction is open there.
    is_open: bool,
    /// There is a later one of its id.
    is_fenced: bool,
}

fn standing(partition: &Partition, (producer_id, producer_epoch): (ProducerId, i16)) -> Standing {
    let log = partition.log().borrow();
    let known = log.producers().get(producer_id);
    Standing {
        marker_count: known.map_or(0, |known| known.marker_count),
        is_open: known.is_some_and(|known| known.has_transaction() && known.epoch == producer_epoch),
        is_fenced: known.is_some_and(|known| known.epoch > producer_epoch),
    }
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
