//! What is asked of a transaction coordinator.

use crate::record::offset::ProducerId;
use crate::txn::state::TransactionState;
use crate::txn::transaction::Partitions;

/// A request to the coordinator of one transactional id, or to all of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionRequest {
    /// InitProducerId.
    InitProducerId(InitProducerId),
    /// AddPartitionsToTxn, AddOffsetsToTxn, and what a partition asks before the first batch of a transaction.
    AddPartitions(AddPartitions),
    /// EndTxn.
    End(End),
    /// DescribeTransactions, for one id.
    Describe {
        /// The id.
        transactional_id: String,
    },
    /// ListTransactions.
    List(Filter),
    /// Waits for a transaction that is decided and whose markers nobody writes, or that is late.
    TakeMarkers,
    /// Aborts what is open for too long, where that takes a producer id that nobody has.
    AbortLate {
        /// The id.
        transactional_id: String,
        /// The producer id that follows.
        fresh: ProducerId,
    },
    /// The markers of a transaction are durable.
    MarkersWritten {
        /// The id.
        transactional_id: String,
        /// The producer that the markers have.
        producer_id: ProducerId,
        /// Its epoch in them.
        producer_epoch: i16,
    },
}

/// InitProducerId.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitProducerId {
    /// The id.
    pub transactional_id: String,
    /// Its transactions may be open for so long.
    pub timeout_ms: i32,
    /// What the producer had, where it goes on after an error.
    pub expected: Option<(ProducerId, i16)>,
    /// A producer id that nobody has, where one was asked for.
    pub fresh: Option<ProducerId>,
}

/// AddPartitionsToTxn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPartitions {
    /// The id.
    pub transactional_id: String,
    /// Its producer.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// Partitions by topic.
    pub partitions: Partitions,
    /// Nothing is added: are they there?
    pub verify_only: bool,
    /// The transaction version that the client speaks.
    pub client_version: i16,
}

/// EndTxn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The id.
    pub transactional_id: String,
    /// Its producer.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// Else it is aborted.
    pub is_commit: bool,
    /// The transaction version that the client speaks.
    pub client_version: i16,
    /// A producer id that nobody has, where one was asked for.
    pub fresh: Option<ProducerId>,
}

/// Which transactions are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// In one of these states; empty: in any.
    pub states: Vec<TransactionState>,
    /// Of one of these producers; empty: of any.
    pub producer_ids: Vec<ProducerId>,
    /// Open for at least so long; negative: however long.
    pub duration_ms: i64,
}
