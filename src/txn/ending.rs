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
                let next = if bumps { transaction.next_id(request.fresh) } else { Some(ProducerId::NONE) };
                let Some(next) = next else { return Ok(TransactionReply::NeedsProducerId) };
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
        (TransactionState::PrepareCommit | TransactionState::PrepareAbort, _) => Err(ErrorCode::ConcurrentTransactions),
        _ => Err(ErrorCode::InvalidTxnState),
    }
}

/// Of a client whose epoch rises when a transaction ends (KIP-890): who comes with the epoch before asks once more, whoever
/// raised it. It may abort what it has never begun, for it does not say when it begins. While markers are written, whoever comes
/// comes again, as in Kafka: also a producer that has gone on already, and ends its next transaction. (franz-go aborts at once
/// what it produced nothing in; to be fenced is the end of a client.)
fn judge_bumping(transaction: &Transaction, request: &End) -> Result<Verdict, ErrorCode> {
    if transaction.state.is_prepared() {
        return Err(ErrorCode::ConcurrentTransactions);
    }
    let epoch = request.producer_epoch;
    let has_bumped = epoch.checked_add(1) == Some(transaction.producer_epoch);
    let has_new_id = transaction.previous_producer_id == request.producer_id
        && epoch == EPOCH_MAX - 1
        && transaction.producer_epoch == 0;
    if transaction.producer_id != request.producer_id && !has_new_id {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    let has_ended = matches!(transaction.state, TransactionState::CompleteCommit | TransactionState::CompleteAbort);
    let is_retry = has_ended && (has_bumped || has_new_id);
    if !is_retry && transaction.producer_epoch != epoch {
        return Err(ErrorCode::ProducerFenced);
    }
    match (transaction.state, request.is_commit) {
        (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) if is_retry => {
            Ok(Verdict::Repeated)
        }
        (TransactionState::Ongoing, _) => Ok(Verdict::Prepare),
        (TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort, false)
            if !is_retry =>
        {
            Ok(Verdict::Prepare)
        }
        _ => Err(ErrorCode::InvalidTxnState),
    }
}
