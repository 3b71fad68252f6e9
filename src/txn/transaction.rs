//! What is known of one transactional id. Kafka's `TransactionMetadata`.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::offset::ProducerId;
use crate::txn::state::TransactionState;

/// Partitions by the names of their topics.
pub type Partitions = BTreeMap<String, BTreeSet<i32>>;

/// One transactional id: its producer, and its latest transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its producer's id.
    pub producer_id: ProducerId,
    /// The one before the last change of anything here, for retries across a change.
    pub previous_producer_id: ProducerId,
    /// The one that follows when the transaction ends, where the epochs of this one are used up.
    pub next_producer_id: ProducerId,
    /// Its producer's epoch; while it is ended by version 2, the epoch that the markers have.
    pub producer_epoch: i16,
    /// The one before; -1 where a retry with it would not be one.
    pub last_producer_epoch: i16,
    /// A transaction that is open for longer is aborted.
    pub timeout_ms: i32,
    /// How far it is.
    pub state: TransactionState,
    /// Partitions with records of the transaction, until it has ended.
    pub partitions: Partitions,
    /// When the transaction began; -1 where there is none.
    pub started_ms: i64,
    /// When anything here last changed.
    pub updated_ms: i64,
    /// The transaction version that the client spoke last: from 2 on each transaction has an epoch of its own.
    pub client_version: i16,
}

impl Transaction {
    /// A new id, before its producer has an epoch.
    pub fn new(producer_id: ProducerId, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            producer_id,
            previous_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            producer_epoch: NO_EPOCH,
            last_producer_epoch: NO_EPOCH,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: Partitions::new(),
            started_ms: NO_TIME,
            updated_ms: now_ms,
            client_version: 0,
        }
    }

    /// No further transaction can be ended under this producer id.
    pub fn is_epoch_exhausted(&self) -> bool {
        self.producer_epoch >= EPOCH_MAX - 1
    }

    /// The producer id that follows an end that raises the epoch, or none; `None`: it takes one that nobody has.
    pub(in crate::txn) fn next_id(&self, fresh: Option<ProducerId>) -> Option<ProducerId> {
        if self.is_epoch_exhausted() { fresh } else { Some(ProducerId::NONE) }
    }

    /// Its markers carry epochs of their own.
    pub fn bumps_epochs(&self) -> bool {
        self.client_version >= BUMPS_EPOCHS_MIN
    }

    /// It is open for too long.
    pub(in crate::txn) fn is_late(&self, now_ms: i64) -> bool {
        let end_ms = self.started_ms.saturating_add(i64::from(self.timeout_ms));
        self.state == TransactionState::Ongoing && end_ms < now_ms
    }

    /// A producer begins, or begins anew: it has no transaction.
    pub(in crate::txn) fn begin(&mut self, producer: (ProducerId, i16), last_epoch: i16, timeout_ms: i32, now_ms: i64) {
        self.previous_producer_id = self.producer_id;
        (self.producer_id, self.producer_epoch) = producer;
        self.last_producer_epoch = last_epoch;
        self.timeout_ms = timeout_ms;
        self.state = TransactionState::Empty;
        self.partitions.clear();
        self.started_ms = NO_TIME;
        self.updated_ms = now_ms;
    }

    /// It has records in these partitions too.
    pub(in crate::txn) fn add(&mut self, partitions: Partitions, client_version: i16, now_ms: i64) {
        if self.state != TransactionState::Ongoing {
            self.started_ms = now_ms;
        }
        for (topic, indexes) in partitions {
            self.partitions.entry(topic).or_default().extend(indexes);
        }
        self.previous_producer_id = self.producer_id;
        self.state = TransactionState::Ongoing;
        self.client_version = client_version;
        self.updated_ms = now_ms;
    }

    /// It is decided.
    pub(in crate::txn) fn prepare(&mut self, is_commit: bool, client_version: i16, next: ProducerId, now_ms: i64) {
        if self.started_ms == NO_TIME || self.partitions.is_empty() {
            self.started_ms = now_ms;
        }
        self.previous_producer_id = self.producer_id;
        self.client_version = client_version;
        if self.bumps_epochs() {
            self.last_producer_epoch = self.producer_epoch;
            self.producer_epoch = self.producer_epoch.saturating_add(1);
            self.next_producer_id = next;
        }
        self.state = if is_commit { TransactionState::PrepareCommit } else { TransactionState::PrepareAbort };
        self.updated_ms = now_ms;
    }

    /// Its producer may not go on with its epoch: what is open is aborted, as an end by version 2 does it. A fenced producer
    /// that aborts by version 2 is taken for one that asks once more, then, and told of the next epoch; its commit is refused.
    pub(in crate::txn) fn fence(&mut self, next: ProducerId, now_ms: i64) {
        self.prepare(false, BUMPS_EPOCHS_MIN, next, now_ms);
    }

    /// All markers are durable.
    pub(in crate::txn) fn complete(&mut self, now_ms: i64) {
        self.state = match self.state {
            TransactionState::PrepareCommit => TransactionState::CompleteCommit,
            _ => TransactionState::CompleteAbort,
        };
        self.partitions.clear();
        self.previous_producer_id = self.producer_id;
        if self.bumps_epochs() && self.next_producer_id.is_some() {
            // The last epoch stays the one that its producer had: nobody was told of the one in the markers.
            (self.producer_id, self.producer_epoch) = (self.next_producer_id, 0);
            self.next_producer_id = ProducerId::NONE;
        }
        self.updated_ms = now_ms;
    }

    /// The id and epoch that its producer goes on with once it has ended.
    pub(in crate::txn) fn producer_after_end(&self) -> (ProducerId, i16) {
        if self.next_producer_id.is_some() {
            (self.next_producer_id, 0)
        } else {
            (self.producer_id, self.producer_epoch)
        }
    }
}

/// No epoch comes after it.
pub const EPOCH_MAX: i16 = i16::MAX;
pub(in crate::txn) const NO_EPOCH: i16 = -1;
pub(in crate::txn) const NO_TIME: i64 = -1;
/// KIP-890: the end of a transaction raises the epoch.
pub(in crate::txn) const BUMPS_EPOCHS_MIN: i16 = 2;
