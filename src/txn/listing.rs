//! ListTransactions and DescribeTransactions.

use crate::record::coordination::Moment;
use crate::txn::coordinator::TransactionCoordinator;
use crate::txn::reply::{Listed, TransactionReply};
use crate::txn::request::Filter;
use crate::txn::transaction::NO_TIME;
use crate::wire::error_code::ErrorCode;

impl TransactionCoordinator {
    /// What is known of an id.
    pub(in crate::txn) fn describe(&self, transactional_id: &str) -> Result<TransactionReply, ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let transaction = self.transactions.get(transactional_id).ok_or(ErrorCode::TransactionalIdNotFound)?;
        Ok(TransactionReply::Described(Box::new(transaction.clone())))
    }

    /// All that the filter lets pass.
    pub(in crate::txn) fn list(&self, filter: &Filter, now: Moment) -> TransactionReply {
        let listed = self.transactions.iter().filter(|(_, transaction)| {
            let duration_ms = match transaction.started_ms {
                NO_TIME => NO_TIME,
                started_ms => now.wall_ms.saturating_sub(started_ms),
            };
            (filter.states.is_empty() || filter.states.contains(&transaction.state))
                && (filter.producer_ids.is_empty() || filter.producer_ids.contains(&transaction.producer_id))
                && (filter.duration_ms < 0 || duration_ms >= filter.duration_ms)
        });
        let row = |(id, transaction): (&std::rc::Rc<str>, &crate::txn::transaction::Transaction)| Listed {
            transactional_id: id.to_string(),
            producer_id: transaction.producer_id,
            state: transaction.state,
        };
        TransactionReply::Listed(listed.map(row).collect())
    }
}
