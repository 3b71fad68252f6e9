//! EndTxn: a transaction is decided.

use crate::record::coordination::{Effects, Moment};
use crate::record::offset::ProducerId;
use crate::txn::coordinator::TransactionCoordinator;
use crate::txn::reply::TransactionReply;
use crate::txn::request::End;
use crate::txn::state::TransactionState;
use crate::txn::transaction::{BUMPS_EPOCHS_MIN, EPOCH_MAX, Transaction};
use crate::wire::error_code::ErrorCode;

/// What an EndTxn comes to.
enum Verdict {
    /// It is decided now.
    Prepare,
    /// It was before: the same answer again.
    Repeated,
}

impl TransactionCoordinator {
    /// Answered when the decision is safe; the markers follow. Kafka's `endTransaction`.
    pub(in crate::txn) fn end(
        &mut self,
        request: &End,
        now: Moment,
        effects: &mut Effects<TransactionReply>,
    ) -> Result<TransactionReply, ErrorCode> {
        let id = &*request.transactional_id;
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let transaction = self.transactions.get(id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        let bumps = request.client_version >= BUMPS_EPOCHS_MIN;
        let verdict = if bumps { judge_bumping(transaction, request) } else { judge(transaction, request) };
        match verdict? {
            Verdict::Repeated => {
                let (producer_id, producer_epoch) = (transaction.producer_id, transaction.producer_epoch);
                Ok(TransactionReply::Producer { producer_id, producer_epoch })
            }
            Verdict::Prepare => {
                let needs_id = bumps && transaction.is_epoch_exhausted();
                let next = match request.fresh {
                    Some(fresh) if needs_id => fresh,
                    None if needs_id => return Ok(TransactionReply::NeedsProducerId),
                    _ => ProducerId::NONE,
                };
                let version = request.client_version;
                self.change(id, effects, |transaction| {
                    transaction.prepare(request.is_commit, version, next, now.wall_ms);
                })?;
                let (producer_id, producer_epoch) = self.transactions[id].producer_after_end();
                Ok(TransactionReply::Producer { producer_id, producer_epoch })
            }
        }
    }
}

/// Of a client whose epoch stays when a transaction ends.
fn judge(transaction: &Transaction, request: &End) -> Result<Verdict, ErrorCode> {
    if transaction.producer_id != request.producer_id {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    if transaction.producer_epoch != request.producer_epoch {
        return Err(ErrorCode::ProducerFenced);
    }
    match (transaction.state, request.is_commit) {
        (TransactionState::Ongoing, _) => Ok(Verdict::Prepare),
        (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) => Ok(Verdict::Repeated),
        (TransactionState::PrepareCommit, true) | (TransactionState::PrepareAbort, false) => {
            Err(ErrorCode::ConcurrentTransactions)
        }
        _ => Err(ErrorCode::InvalidTxnState),
    }
}

/// Of a client whose epoch rises when a transaction ends (KIP-890): who comes with the epoch before asks once more. It may
/// abort what it has never begun, for it does not say when it begins.
fn judge_bumping(transaction: &Transaction, request: &End) -> Result<Verdict, ErrorCode> {
    let epoch = request.producer_epoch;
    // Fencing raises it by two, but for the last one: there the id that follows says whether its own end raised it.
    let has_raised = transaction.producer_epoch < EPOCH_MAX || transaction.next_producer_id.is_some();
    let has_bumped =
        transaction.bumps_epochs() && has_raised && epoch != EPOCH_MAX && transaction.producer_epoch == epoch + 1;
    let has_new_id = transaction.bumps_epochs()
        && transaction.previous_producer_id == request.producer_id
        && epoch == EPOCH_MAX - 1
        && transaction.producer_epoch == 0;
    if transaction.producer_id != request.producer_id && !has_new_id {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    let is_current = transaction.producer_epoch == epoch;
    // The producer has gone on already, and ends its next transaction while the markers of this one are written: it comes
    // again. (franz-go aborts at once what it produced nothing in; to be fenced is the end of a client.)
    if is_current && transaction.state.is_prepared() && transaction.bumps_epochs() {
        return Err(ErrorCode::ConcurrentTransactions);
    }
    let is_retry = has_bumped || has_new_id;
    let is_valid = match transaction.state {
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => has_bumped,
        TransactionState::CompleteCommit | TransactionState::CompleteAbort => is_retry || is_current,
        _ => is_current,
    };
    if !is_valid {
        return Err(ErrorCode::ProducerFenced);
    }
    match (transaction.state, request.is_commit) {
        (TransactionState::Ongoing, _) | (TransactionState::Empty, false) => Ok(Verdict::Prepare),
        (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) if is_retry => {
            Ok(Verdict::Repeated)
        }
        (TransactionState::CompleteCommit | TransactionState::CompleteAbort, false) if !is_retry => {
            Ok(Verdict::Prepare)
        }
        (TransactionState::PrepareCommit, true) | (TransactionState::PrepareAbort, false) => {
            Err(ErrorCode::ConcurrentTransactions)
        }
        _ => Err(ErrorCode::InvalidTxnState),
    }
}
