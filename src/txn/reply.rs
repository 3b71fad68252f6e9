//! What a transaction coordinator answers.

use crate::record::offset::ProducerId;
use crate::txn::state::TransactionState;
use crate::txn::transaction::{Partitions, Transaction};
use crate::wire::error_code::ErrorCode;

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionReply {
    /// It was refused.
    Refused(ErrorCode),
    /// The request needs a producer id that nobody has: come again with one.
    NeedsProducerId,
    /// The producer goes on with this id and epoch: of InitProducerId and EndTxn.
    Producer {
        /// Its id.
        producer_id: ProducerId,
        /// Its epoch.
        producer_epoch: i16,
    },
    /// One code for each partition that was named.
    Partitions(Vec<(String, i32, ErrorCode)>),
    /// What is known of an id.
    Described(Box<Transaction>),
    /// Transactions of a partition.
    Listed(Vec<Listed>),
    /// Markers to be written.
    Markers(MarkerJob),
    /// A transaction is open for too long, and its end needs a producer id that nobody has: see
    /// [`TransactionRequest::AbortLate`](crate::txn::request::TransactionRequest::AbortLate).
    Late {
        /// The id.
        transactional_id: String,
    },
    /// Done.
    Done,
}

/// A row of ListTransactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The id.
    pub transactional_id: String,
    /// Its producer.
    pub producer_id: ProducerId,
    /// How far it is.
    pub state: TransactionState,
}

/// A transaction that is decided, durably: its markers are to be written to its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerJob {
    /// The id.
    pub transactional_id: String,
    /// The producer that the markers have.
    pub producer_id: ProducerId,
    /// Its epoch in them.
    pub producer_epoch: i16,
    /// Else they abort.
    pub is_commit: bool,
    /// The transaction version that decides how a partition judges the epoch.
    pub client_version: i16,
    /// Where they go.
    pub partitions: Partitions,
}

impl MarkerJob {
    /// The job of a transaction that is decided.
    pub(in crate::txn) fn of(transactional_id: &str, transaction: &Transaction) -> Self {
        Self {
            transactional_id: transactional_id.to_owned(),
            producer_id: transaction.producer_id,
            producer_epoch: transaction.producer_epoch,
            is_commit: transaction.state == TransactionState::PrepareCommit,
            client_version: transaction.client_version,
            partitions: transaction.partitions.clone(),
        }
    }
}
