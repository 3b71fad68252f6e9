//! The transactional ids of one partition of `__transaction_state`.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::record::coordination::{Effects, Moment, ReplayError, ReplayedRecord, Ticket};
use crate::record::offset::ProducerId;
use crate::txn::records;
use crate::txn::reply::{MarkerJob, TransactionReply};
use crate::txn::request::{AddPartitions, TransactionRequest};
use crate::txn::state::TransactionState;
use crate::txn::transaction::Transaction;
use crate::wire::error_code::ErrorCode;

/// A coordinator of transactions. State changes at once; the host holds replies back until the records are safe, and replays
/// all where an append fails.
#[derive(Debug)]
pub struct TransactionCoordinator {
    pub(in crate::txn) config: TransactionConfig,
    pub(in crate::txn) transactions: BTreeMap<Rc<str>, Transaction>,
    /// Decided, and their markers are nobody's yet.
    undelivered: VecDeque<Rc<str>>,
    /// Open for too long, with epochs used up: aborted when there is a producer id to follow.
    late: VecDeque<Rc<str>>,
    /// Who waits for such.
    takers: VecDeque<Ticket>,
    /// By the monotonic clock; none before it is loaded.
    next_abort_check_ms: Option<u64>,
    next_expiry_check_ms: Option<u64>,
}

/// The server's settings of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionConfig {
    /// `transaction.max.timeout.ms`.
    pub max_timeout_ms: i32,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
    pub abort_check_interval_ms: u64,
    /// `transactional.id.expiration.ms`.
    pub id_expiration_ms: i64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`.
    pub expiry_check_interval_ms: u64,
}

impl TransactionCoordinator {
    /// One that knows nothing yet.
    pub fn new(config: TransactionConfig) -> Self {
        Self {
            config,
            transactions: BTreeMap::new(),
            undelivered: VecDeque::new(),
            late: VecDeque::new(),
            takers: VecDeque::new(),
            next_abort_check_ms: None,
            next_expiry_check_ms: None,
        }
    }

    /// What is known of an id.
    pub fn get(&self, transactional_id: &str) -> Option<&Transaction> {
        self.transactions.get(transactional_id)
    }

    /// Takes one record in.
    ///
    /// # Errors
    /// What it does not understand.
    pub fn replay(&mut self, record: &ReplayedRecord<'_>) -> Result<(), ReplayError> {
        let (transactional_id, transaction) = records::decode(record.key, record.value)?;
        match transaction {
            Some(transaction) => self.transactions.insert(Rc::from(transactional_id), transaction),
            None => self.transactions.remove(&*transactional_id),
        };
        Ok(())
    }

    /// All was replayed: what is decided is driven on, and deadlines begin.
    pub fn loaded(&mut self, now: Moment, effects: &mut Effects<TransactionReply>) {
        let decided = self.transactions.iter().filter(|(_, transaction)| transaction.state.is_prepared());
        self.undelivered = decided.map(|(id, _)| id.clone()).collect();
        self.next_abort_check_ms = Some(now.now_ms.saturating_add(self.config.abort_check_interval_ms));
        self.next_expiry_check_ms = Some(now.now_ms.saturating_add(self.config.expiry_check_interval_ms));
        self.deliver(effects);
    }

    /// Takes one request in.
    pub fn handle(
        &mut self,
        ticket: Ticket,
        request: TransactionRequest,
        now: Moment,
        effects: &mut Effects<TransactionReply>,
    ) {
        let answered = match request {
            TransactionRequest::InitProducerId(request) => self.init_producer_id(&request, now, effects),
            TransactionRequest::AddPartitions(request) => self.add_partitions(request, now, effects),
            TransactionRequest::End(request) => self.end(&request, now, effects),
            TransactionRequest::Describe { transactional_id } => self.describe(&transactional_id),
            TransactionRequest::List(filter) => Ok(self.list(&filter, now)),
            TransactionRequest::TakeMarkers => {
                self.takers.push_back(ticket);
                return self.deliver(effects);
            }
            TransactionRequest::AbortLate { transactional_id, fresh } => {
                let is_late = self.transactions.get(&*transactional_id).is_some_and(|known| known.is_late(now.wall_ms));
                let aborted = if is_late { self.fence(&transactional_id, Some(fresh), now, effects) } else { Ok(true) };
                aborted.map(|_| TransactionReply::Done)
            }
            TransactionRequest::MarkersWritten { transactional_id, producer_id, producer_epoch } => {
                self.markers_written(&transactional_id, producer_id, producer_epoch, now, effects)
            }
        };
        effects.reply(ticket, answered.unwrap_or_else(TransactionReply::Refused));
        self.deliver(effects);
    }

    /// When [`tick`](Self::tick) is due.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        if self.transactions.is_empty() {
            return None;
        }
        self.next_abort_check_ms.into_iter().chain(self.next_expiry_check_ms).min()
    }

    /// Aborts transactions that are open for too long, and forgets ids that were not used for long.
    pub fn tick(&mut self, now: Moment, effects: &mut Effects<TransactionReply>) {
        if self.next_abort_check_ms.is_some_and(|due_ms| due_ms <= now.now_ms) {
            self.next_abort_check_ms = Some(now.now_ms.saturating_add(self.config.abort_check_interval_ms));
            self.abort_timed_out(now, effects);
        }
        if self.next_expiry_check_ms.is_some_and(|due_ms| due_ms <= now.now_ms) {
            self.next_expiry_check_ms = Some(now.now_ms.saturating_add(self.config.expiry_check_interval_ms));
            self.forget_expired(now, effects);
        }
        self.deliver(effects);
    }

    fn abort_timed_out(&mut self, now: Moment, effects: &mut Effects<TransactionReply>) {
        let late = self.transactions.iter().filter(|(_, transaction)| transaction.is_late(now.wall_ms));
        let late: Vec<Rc<str>> = late.map(|(id, _)| id.clone()).collect();
        self.late.clear();
        for transactional_id in late {
            // Where a record cannot be made, or no producer id be had, the next check tries again.
            if let Ok(false) = self.fence(&transactional_id, None, now, effects) {
                self.late.push_back(transactional_id);
            }
        }
    }

    fn forget_expired(&mut self, now: Moment, effects: &mut Effects<TransactionReply>) {
        let expiration_ms = self.config.id_expiration_ms;
        let is_expired = |transaction: &Transaction| {
            let is_idle = matches!(
                transaction.state,
                TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort
            );
            is_idle && transaction.updated_ms.saturating_add(expiration_ms) <= now.wall_ms
        };
        self.transactions.retain(|id, transaction| {
            let tombstone = is_expired(transaction).then(|| records::tombstone(id).ok()).flatten();
            let stays = tombstone.is_none();
            effects.records.extend(tombstone);
            stays
        });
    }

    fn add_partitions(
        &mut self,
        request: AddPartitions,
        now: Moment,
        effects: &mut Effects<TransactionReply>,
    ) -> Result<TransactionReply, ErrorCode> {
        let id = &request.transactional_id;
        if !request.verify_only && self.transactions.get(&**id).is_some_and(|known| known.state.is_prepared()) {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let transaction = self.of_producer(id, request.producer_id)?;
        if transaction.producer_epoch != request.producer_epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if transaction.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let has = |transaction: &Transaction, topic: &str, index: i32| {
            transaction.partitions.get(topic).is_some_and(|indexes| indexes.contains(&index))
        };
        let named: Vec<(String, i32)> = request
            .partitions
            .iter()
            .flat_map(|(topic, all)| all.iter().map(|index| (topic.clone(), *index)))
            .collect();
        if request.verify_only {
            let code = |topic: &str, index| match has(transaction, topic, index) {
                true => ErrorCode::None,
                false => ErrorCode::TransactionAbortable,
            };
            let codes = named.into_iter().map(|(topic, index)| {
                let code = code(&topic, index);
                (topic, index, code)
            });
            return Ok(TransactionReply::Partitions(codes.collect()));
        }
        let is_known = transaction.state == TransactionState::Ongoing
            && named.iter().all(|(topic, index)| has(transaction, topic, *index));
        if !is_known {
            let (partitions, version) = (request.partitions, request.client_version);
            self.change(id, effects, |transaction| transaction.add(partitions, version, now.wall_ms))?;
        }
        let codes = named.into_iter().map(|(topic, index)| (topic, index, ErrorCode::None));
        Ok(TransactionReply::Partitions(codes.collect()))
    }

    fn markers_written(
        &mut self,
        transactional_id: &str,
        producer_id: ProducerId,
        producer_epoch: i16,
        now: Moment,
        effects: &mut Effects<TransactionReply>,
    ) -> Result<TransactionReply, ErrorCode> {
        let transaction = self.of_producer(transactional_id, producer_id)?;
        // Where not, a second job of the same transaction was quicker.
        if transaction.state.is_prepared() && transaction.producer_epoch == producer_epoch {
            self.change(transactional_id, effects, |transaction| transaction.complete(now.wall_ms))?;
        }
        Ok(TransactionReply::Done)
    }

    /// The transaction of an id, where its producer is this one.
    pub(in crate::txn) fn of_producer(&self, id: &str, producer_id: ProducerId) -> Result<&Transaction, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let transaction = self.transactions.get(id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        if transaction.producer_id == producer_id { Ok(transaction) } else { Err(ErrorCode::InvalidProducerIdMapping) }
    }

    /// Changes what is known of an id, and writes that down. One that is decided now is delivered.
    pub(in crate::txn) fn change(
        &mut self,
        transactional_id: &str,
        effects: &mut Effects<TransactionReply>,
        change: impl FnOnce(&mut Transaction),
    ) -> Result<(), ErrorCode> {
        let (id, transaction) =
            self.transactions.get_key_value(transactional_id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        let (id, mut changed) = (id.clone(), transaction.clone());
        let was_prepared = changed.state.is_prepared();
        change(&mut changed);
        effects.records.push(record(&id, &changed)?);
        if changed.state.is_prepared() && !was_prepared {
            self.undelivered.push_back(id.clone());
        }
        self.transactions.insert(id, changed);
        Ok(())
    }

    /// Knows an id from now on.
    pub(in crate::txn) fn insert(
        &mut self,
        transactional_id: &str,
        transaction: Transaction,
        effects: &mut Effects<TransactionReply>,
    ) -> Result<(), ErrorCode> {
        effects.records.push(record(transactional_id, &transaction)?);
        self.transactions.insert(Rc::from(transactional_id), transaction);
        Ok(())
    }

    /// Fences the producer of an id, and aborts what it has open. False where that takes a producer id that nobody has.
    pub(in crate::txn) fn fence(
        &mut self,
        transactional_id: &str,
        fresh: Option<ProducerId>,
        now: Moment,
        effects: &mut Effects<TransactionReply>,
    ) -> Result<bool, ErrorCode> {
        let known = self.transactions.get(transactional_id);
        let Some(next) = known.map_or(Some(ProducerId::NONE), |known| known.next_id(fresh)) else { return Ok(false) };
        self.change(transactional_id, effects, |transaction| transaction.fence(next, now.wall_ms))?;
        Ok(true)
    }

    /// Gives what is decided to who waits for it; held back by the host until the decision is safe.
    fn deliver(&mut self, effects: &mut Effects<TransactionReply>) {
        while let Some(ticket) = self.takers.front().copied() {
            let Some(job) = self.next_job() else { return };
            self.takers.pop_front();
            effects.reply(ticket, job);
        }
    }

    fn next_job(&mut self) -> Option<TransactionReply> {
        while let Some(id) = self.undelivered.pop_front() {
            let known = self.transactions.get(&id).filter(|transaction| transaction.state.is_prepared());
            if let Some(transaction) = known {
                return Some(TransactionReply::Markers(MarkerJob::of(&id, transaction)));
            }
        }
        self.late.pop_front().map(|id| TransactionReply::Late { transactional_id: id.to_string() })
    }
}

fn record(
    transactional_id: &str,
    transaction: &Transaction,
) -> Result<crate::record::coordination::CoordinatorRecord, ErrorCode> {
    records::transaction(transactional_id, transaction).map_err(|_| ErrorCode::InvalidRequest)
}
