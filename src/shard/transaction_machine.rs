//! The coordinator of transactions, as a core hosts it.

use std::rc::Rc;
use std::sync::Arc;

use crate::control::broker_config::BrokerConfig;
use crate::control::internal_topics::InternalTopic;
use crate::control::snapshot::Snapshot;
use crate::record::coordination::{Effects, Moment, ReplayError, ReplayedRecord, Ticket};
use crate::record::offset::{PartitionId, ProducerId};
use crate::shard::coordinators::Coordinators;
use crate::shard::core::Shard;
use crate::shard::machine::Machine;
use crate::shard::transaction_driver;
use crate::txn::coordinator::{TransactionConfig, TransactionCoordinator};
use crate::txn::reply::TransactionReply;
use crate::txn::request::TransactionRequest;

impl Machine for TransactionCoordinator {
    type Request = TransactionRequest;
    type Reply = TransactionReply;

    const TOPIC: InternalTopic = InternalTopic::TransactionState;

    fn coordinators(shard: &Shard) -> &Coordinators<Self> {
        shard.transactions()
    }

    fn taken_up(shard: &Rc<Shard>, partition: PartitionId) {
        shard.io().spawn(transaction_driver::drive(shard.clone(), partition));
    }

    fn new(config: &BrokerConfig) -> Self {
        Self::new(TransactionConfig {
            max_timeout_ms: config.transaction_max_timeout_ms(),
            abort_check_interval_ms: config.transaction_abort_check_interval_ms(),
            id_expiration_ms: config.transactional_id_expiration_ms(),
            expiry_check_interval_ms: config.transactional_id_check_interval_ms(),
        })
    }

    fn replay(&mut self, record: &ReplayedRecord<'_>) -> Result<(), ReplayError> {
        self.replay(record)
    }

    fn transaction_ended(&mut self, _producer_id: ProducerId, _committed: bool) {}

    fn loaded(&mut self, now: Moment, effects: &mut Effects<TransactionReply>) {
        self.loaded(now, effects);
    }

    fn handle(
        &mut self,
        ticket: Ticket,
        request: TransactionRequest,
        now: Moment,
        effects: &mut Effects<TransactionReply>,
    ) {
        self.handle(ticket, request, now, effects);
    }

    fn next_deadline_ms(&self) -> Option<u64> {
        self.next_deadline_ms()
    }

    fn tick(&mut self, now: Moment, effects: &mut Effects<TransactionReply>) {
        self.tick(now, effects);
    }

    fn stalled(&mut self, _now: Moment, _stall_ms: u64) {}

    fn catalog_changed(
        &mut self,
        _gone: &[Arc<str>],
        _after: &Snapshot,
        _now: Moment,
        _effects: &mut Effects<TransactionReply>,
    ) {
        // Partitions that are gone are found out when their markers are written.
    }
}

/// The level of Kafka's feature `transaction.version` that is served.
pub const TRANSACTION_VERSION: i16 = 2;
