//! InitProducerId: a producer takes a transactional id over, with an epoch that fences the one before.

use crate::record::coordination::{Effects, Moment};
use crate::txn::coordinator::TransactionCoordinator;
use crate::txn::reply::TransactionReply;
use crate::txn::request::InitProducerId;
use crate::txn::state::TransactionState;
use crate::txn::transaction::{EPOCH_MAX, NO_EPOCH, Transaction};
use crate::wire::error_code::ErrorCode;

impl TransactionCoordinator {
    /// Kafka's `handleInitProducerId`, with KIP-360: who names the epoch that it has goes on with the next one.
    pub(in crate::txn) fn init_producer_id(
        &mut self,
        request: &InitProducerId,
        now: Moment,
        effects: &mut Effects<TransactionReply>,
    ) -> Result<TransactionReply, ErrorCode> {
        let id = &*request.transactional_id;
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        if request.timeout_ms <= 0 || request.timeout_ms > self.config.max_timeout_ms {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        let Some(transaction) = self.transactions.get(id) else {
            let Some(fresh) = request.fresh else { return Ok(TransactionReply::NeedsProducerId) };
            let mut transaction = Transaction::new(fresh, request.timeout_ms, now.wall_ms);
            transaction.begin((fresh, 0), NO_EPOCH, request.timeout_ms, now.wall_ms);
            self.insert(id, transaction, effects)?;
            return Ok(TransactionReply::Producer { producer_id: fresh, producer_epoch: 0 });
        };
        if transaction.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if request.expected.is_some_and(|expected| !is_known_producer(transaction, expected)) {
            return Err(ErrorCode::ProducerFenced);
        }
        match transaction.state {
            TransactionState::Ongoing => {
                if !self.fence(id, request.fresh, now, effects)? {
                    return Ok(TransactionReply::NeedsProducerId);
                }
                // The client comes again when that is aborted, and gets an epoch of its own.
                Err(ErrorCode::ConcurrentTransactions)
            }
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                let next = next_producer(transaction, request)?;
                let Some((producer, last_epoch)) = next else { return Ok(TransactionReply::NeedsProducerId) };
                self.change(id, effects, |transaction| {
                    transaction.begin(producer, last_epoch, request.timeout_ms, now.wall_ms);
                })?;
                let (producer_id, producer_epoch) = producer;
                Ok(TransactionReply::Producer { producer_id, producer_epoch })
            }
            _ => Err(ErrorCode::UnknownServerError),
        }
    }
}

type Producer = (crate::record::offset::ProducerId, i16);

/// Whether a producer that says what it had can be the one that is known, or was it before its epochs were used up.
fn is_known_producer(transaction: &Transaction, (producer_id, epoch): Producer) -> bool {
    transaction.producer_epoch == NO_EPOCH
        || producer_id == transaction.producer_id
        || (producer_id == transaction.previous_producer_id && epoch >= EPOCH_MAX - 1)
}

/// What a producer gets, and the epoch before it. `None`: it needs a producer id that nobody has.
fn next_producer(transaction: &Transaction, request: &InitProducerId) -> Result<Option<(Producer, i16)>, ErrorCode> {
    let (id, epoch) = (transaction.producer_id, transaction.producer_epoch);
    let expected = request.expected.map(|(_, epoch)| epoch);
    if transaction.is_epoch_exhausted() && expected.is_none_or(|expected| expected == epoch) {
        let last_epoch = if expected.is_some() { epoch } else { NO_EPOCH };
        return Ok(request.fresh.map(|fresh| ((fresh, 0), last_epoch)));
    }
    let bumped = (id, epoch.saturating_add(1));
    match expected {
        None => Ok(Some((bumped, NO_EPOCH))),
        Some(expected) if epoch == NO_EPOCH || expected == epoch => Ok(Some((bumped, epoch))),
        // A retry of what was answered already.
        Some(expected) if expected == transaction.last_producer_epoch => Ok(Some(((id, epoch), expected))),
        Some(_) => Err(ErrorCode::ProducerFenced),
    }
}
