//! One coordinator on its core: takes requests, appends its records, sends replies when these are safe.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tracing::{error, info, warn};

use crate::control::snapshot::Snapshot;
use crate::record::batch::parse_header;
use crate::record::builder::BatchBuilder;
use crate::record::check::CheckedBatch;
use crate::record::coordination::{CoordinatorRecord, Effects, Ticket, TransactionalWriter};
use crate::record::offset::ProducerId;
use crate::ring::buffer::Buffer;
use crate::ring::io::WakeAt;
use crate::ring::task::{TaskId, WaitList};
use crate::ring::timer::Nanos;
use crate::shard::append::{self, Appended};
use crate::shard::coordinator_replay::{self, ReplayFailure};
use crate::shard::core::Shard;
use crate::shard::error::AppendFailure;
use crate::shard::machine::{CoordinatorFailure, Machine, moment};
use crate::shard::partition::Partition;

/// One partition of an internal topic, and the coordinator whose state it holds.
pub struct Coordinator<M: Machine> {
    partition: Rc<Partition>,
    /// `None` while it is not loaded.
    machine: RefCell<Option<M>>,
    state: Cell<State>,
    /// Steps whose records are not given to the log yet.
    outbox: RefCell<VecDeque<Effects<M::Reply>>>,
    /// Steps of the outbox, and those whose records are not safe yet.
    unsafe_steps: Cell<usize>,
    waiting: RefCell<BTreeMap<Ticket, Waiting<M::Reply>>>,
    next_ticket: Cell<u64>,
    /// The deadline that its keeper sleeps for.
    armed_ms: Cell<u64>,
    keeper: WaitList,
}

struct Waiting<R> {
    task: TaskId,
    reply: Option<Result<R, CoordinatorFailure>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Loading,
    Active,
    /// Its partition cannot be read: it refuses, until the next start.
    Refused,
    /// Its partition is no longer here.
    Gone,
}

/// A batch that was given to the log, and the replies that wait for it.
struct Pending<R> {
    appended: Appended,
    steps: Vec<Vec<(Ticket, R)>>,
}

/// Why a coordinator's keeper stops keeping its state.
enum Broken {
    Append(AppendFailure),
    Gone,
}

impl<M: Machine> Coordinator<M> {
    /// Takes up a partition: its state is read, and then it serves. A partition that has nothing serves at once.
    pub(in crate::shard) fn start(shard: &Rc<Shard>, partition: Rc<Partition>) -> Rc<Self> {
        let coordinator = Rc::new(Self {
            partition,
            machine: RefCell::new(None),
            state: Cell::new(State::Loading),
            outbox: RefCell::default(),
            unsafe_steps: Cell::new(0),
            waiting: RefCell::default(),
            next_ticket: Cell::new(0),
            armed_ms: Cell::new(u64::MAX),
            keeper: WaitList::default(),
        });
        let offsets = coordinator.partition.log().borrow().offsets();
        if offsets.log_start == offsets.high_watermark {
            coordinator.activate(shard, M::new(&shard.options().broker_config));
        }
        shard.io().spawn(keep(shard.clone(), coordinator.clone()));
        M::taken_up(shard, coordinator.partition.id());
        coordinator
    }

    /// Its partition.
    pub(in crate::shard) fn partition(&self) -> &Rc<Partition> {
        &self.partition
    }

    /// Looks at its state; `None` while that is not loaded.
    pub(in crate::shard) fn look<R>(&self, look: impl FnOnce(&M) -> R) -> Option<R> {
        self.machine.borrow().as_ref().filter(|_| self.state.get() == State::Active).map(look)
    }

    /// Its partition has gone: who waits is told, and nothing is answered any more.
    pub(in crate::shard) fn end(&self, shard: &Shard) {
        self.state.set(State::Gone);
        self.drop_state(shard, CoordinatorFailure::NotHere);
        shard.io().wake_all(&self.keeper);
    }

    /// Takes a request in, at the first poll, and waits for its reply.
    ///
    /// # Errors
    /// It was not taken in, or nobody can say what came of it.
    pub(in crate::shard) async fn ask(
        &self,
        shard: &Rc<Shard>,
        request: M::Request,
    ) -> Result<M::Reply, CoordinatorFailure> {
        self.judge_state(shard)?;
        let request = match M::admit(shard, &self.partition, request).await {
            Ok(request) => request,
            Err(reply) => return Ok(reply),
        };
        self.judge_state(shard)?;
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        self.waiting.borrow_mut().insert(ticket, Waiting { task: shard.io().current_task(), reply: None });
        let guard = WaitingGuard { of: self, ticket };
        self.step(shard, |machine, now, effects| machine.handle(ticket, request, now, effects));
        poll_fn(|_| {
            let mut waiting = self.waiting.borrow_mut();
            let waiting = waiting.get_mut(&guard.ticket).expect("it stands there until the guard goes");
            waiting.task = shard.io().current_task();
            waiting.reply.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn judge_state(&self, shard: &Shard) -> Result<(), CoordinatorFailure> {
        match self.state.get() {
            State::Active if shard.is_stopping() => Err(CoordinatorFailure::NotAvailable),
            State::Active => Ok(()),
            State::Loading => Err(CoordinatorFailure::Loading),
            State::Refused | State::Gone => Err(CoordinatorFailure::NotHere),
        }
    }

    /// The server stops: who waits is sent away, since what it waits for may take minutes.
    pub(in crate::shard) fn send_away(&self, shard: &Shard) {
        self.answer_all(shard, CoordinatorFailure::NotAvailable);
    }

    /// A marker that ends a transaction in its partition has become durable.
    pub(in crate::shard) fn transaction_ended(&self, producer_id: ProducerId, committed: bool) {
        // While it is loaded, the replay meets the marker.
        if let Some(machine) = self.machine.borrow_mut().as_mut() {
            machine.transaction_ended(producer_id, committed);
        }
    }

    /// The catalog has changed.
    pub(in crate::shard) fn catalog_changed(&self, shard: &Rc<Shard>, gone: &[Arc<str>], after: &Snapshot) {
        if self.state.get() == State::Active {
            self.step(shard, |machine, now, effects| machine.catalog_changed(gone, after, now, effects));
        }
    }

    fn activate(&self, shard: &Rc<Shard>, machine: M) {
        *self.machine.borrow_mut() = Some(machine);
        self.state.set(State::Active);
        self.step(shard, |machine, now, effects| {
            machine.loaded(now, effects);
            machine.catalog_changed(&[], &shard.snapshot(), now, effects);
        });
    }

    /// One step of the machine, and what comes of it.
    fn step(
        &self,
        shard: &Rc<Shard>,
        step: impl FnOnce(&mut M, crate::record::coordination::Moment, &mut Effects<M::Reply>),
    ) {
        let mut effects = Effects::default();
        let next_ms = {
            let mut machine = self.machine.borrow_mut();
            let machine = machine.as_mut().expect("an active coordinator has its state");
            step(machine, moment(shard), &mut effects);
            machine.next_deadline_ms()
        };
        if effects.records.is_empty() && self.unsafe_steps.get() == 0 {
            self.release(shard, effects.replies);
        } else if !effects.is_empty() {
            self.unsafe_steps.set(self.unsafe_steps.get() + 1);
            self.outbox.borrow_mut().push_back(effects);
            shard.io().wake_all(&self.keeper);
        }
        if next_ms.is_some_and(|next_ms| next_ms < self.armed_ms.get()) {
            shard.io().wake_all(&self.keeper);
        }
    }

    fn release(&self, shard: &Shard, replies: Vec<(Ticket, M::Reply)>) {
        let mut waiting = self.waiting.borrow_mut();
        for (ticket, reply) in replies {
            // Who asked may have gone.
            if let Some(waiting) = waiting.get_mut(&ticket) {
                waiting.reply = Some(Ok(reply));
                shard.io().wake(waiting.task);
            }
        }
    }

    /// Forgets the state; whoever waits is told why.
    fn drop_state(&self, shard: &Shard, failure: CoordinatorFailure) {
        *self.machine.borrow_mut() = None;
        self.outbox.borrow_mut().clear();
        self.unsafe_steps.set(0);
        self.answer_all(shard, failure);
    }

    fn answer_all(&self, shard: &Shard, failure: CoordinatorFailure) {
        for waiting in self.waiting.borrow_mut().values_mut() {
            if waiting.reply.is_none() {
                waiting.reply = Some(Err(failure));
                shard.io().wake(waiting.task);
            }
        }
    }

    /// The steps of the outbox that make up the next batch: their records, and their replies.
    fn next_batch(&self) -> Option<Batch<M::Reply>> {
        let mut outbox = self.outbox.borrow_mut();
        let first = outbox.pop_front()?;
        let mut batch = Batch { writer: first.writer, records: first.records, steps: vec![first.replies] };
        let mut len_bytes: usize = batch.records.iter().map(record_bytes).sum();
        while let Some(next) = outbox.front() {
            // Records of a transaction are marked as such in their batch's header.
            let is_alike = batch.writer.is_none() && next.writer.is_none();
            len_bytes += next.records.iter().map(record_bytes).sum::<usize>();
            if !is_alike || len_bytes > BATCH_BYTES_MAX {
                break;
            }
            let next = outbox.pop_front().expect("it was looked at");
            batch.records.extend(next.records);
            batch.steps.push(next.replies);
        }
        Some(batch)
    }
}

/// Takes a request's place away when whoever asked has gone.
struct WaitingGuard<'a, M: Machine> {
    of: &'a Coordinator<M>,
    ticket: Ticket,
}

impl<M: Machine> Drop for WaitingGuard<'_, M> {
    fn drop(&mut self) {
        self.of.waiting.borrow_mut().remove(&self.ticket);
    }
}

struct Batch<R> {
    writer: Option<TransactionalWriter>,
    records: Vec<CoordinatorRecord>,
    steps: Vec<Vec<(Ticket, R)>>,
}

impl<R> Batch<R> {
    /// As it is appended: uncompressed, with the time of the coordinator's core.
    fn encode(&self, wall_ms: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        if let Some(writer) = self.writer {
            builder = builder
                .producer(writer.producer_id, writer.producer_epoch, NO_SEQUENCE)
                .attributes(TRANSACTIONAL_ATTRIBUTE);
        }
        for record in &self.records {
            builder.add(wall_ms, Some(&record.key), record.value.as_deref());
        }
        builder.build().expect("memory takes an uncompressed batch")
    }
}

fn record_bytes(record: &CoordinatorRecord) -> usize {
    record.key.len() + record.value.as_ref().map_or(0, Vec::len) + RECORD_OVERHEAD_BYTES
}

/// Loads a coordinator, and keeps it: appends, replies, deadlines. Ends with its partition.
async fn keep<M: Machine>(shard: Rc<Shard>, coordinator: Rc<Coordinator<M>>) {
    let (topic, index) = (coordinator.partition.topic().to_owned(), coordinator.partition.id().partition);
    loop {
        if coordinator.state.get() == State::Loading && !load(&shard, &coordinator).await {
            return;
        }
        match keep_active(&shard, &coordinator).await {
            Broken::Gone => return,
            Broken::Append(failure) => {
                if coordinator.state.get() == State::Gone {
                    return;
                }
                if matches!(failure, AppendFailure::Stopping) {
                    coordinator.state.set(State::Gone);
                    return coordinator.drop_state(&shard, CoordinatorFailure::NotAvailable);
                }
                warn!(topic, partition = index, error = %failure,
                    "a coordinator's records could not be appended: its clients are sent away, and its state is read again");
                coordinator.state.set(State::Loading);
                coordinator.drop_state(&shard, CoordinatorFailure::NotHere);
                // What refused it may pass: a full disk, or a roll that failed.
                shard.io().sleep_ms(RELOAD_DELAY_MS).await;
            }
        }
    }
}

/// Reads the state; false where the coordinator refuses from now on, or is gone.
async fn load<M: Machine>(shard: &Rc<Shard>, coordinator: &Rc<Coordinator<M>>) -> bool {
    let partition = &coordinator.partition;
    let (topic, index) = (partition.topic(), partition.id().partition);
    let began_at = shard.io().now();
    loop {
        let mut machine = M::new(&shard.options().broker_config);
        let is_gone = || coordinator.state.get() == State::Gone;
        match coordinator_replay::replay(shard, partition, &mut machine, is_gone).await {
            Ok(replayed) => {
                if is_gone() {
                    return false;
                }
                let elapsed_ms = shard.io().now().since(began_at) / 1_000_000;
                info!(topic, partition = index, records = replayed, elapsed_ms, "coordinator loaded");
                coordinator.activate(shard, machine);
                return true;
            }
            Err(ReplayFailure::Gone) => return false,
            Err(ReplayFailure::Changed) => {}
            Err(ReplayFailure::Read(error)) => {
                error!(topic, partition = index, %error,
                    "a coordinator's partition could not be read, so it refuses all requests; check the disk and restart the server");
                coordinator.state.set(State::Refused);
                return false;
            }
            Err(ReplayFailure::Corrupt { offset, reason }) => {
                error!(topic, partition = index, offset = %offset, reason,
                    "a coordinator's partition has a corrupt record, so it refuses all requests; the others serve. To go on without \
                     what is at and behind that offset: stop the server, move the segments from there on out of the partition's folder, start it");
                coordinator.state.set(State::Refused);
                return false;
            }
        }
    }
}

async fn keep_active<M: Machine>(shard: &Rc<Shard>, coordinator: &Rc<Coordinator<M>>) -> Broken {
    let io = shard.io();
    let mut pending: VecDeque<Pending<M::Reply>> = VecDeque::new();
    let mut timer: Option<(u64, WakeAt)> = None;
    loop {
        if coordinator.state.get() == State::Gone {
            return Broken::Gone;
        }
        // One batch at a time, so that their order is that of the steps.
        while let Some(batch) = coordinator.next_batch() {
            if batch.records.is_empty() {
                let Some(last) = pending.back_mut() else {
                    finish(shard, coordinator, batch.steps);
                    continue;
                };
                last.steps.extend(batch.steps);
                continue;
            }
            let bytes = batch.encode(io.wall_ms());
            let header = parse_header(&bytes).expect("a batch that was just made");
            let mut checked = CheckedBatch::from_header(&header);
            // A marker may have come since: what is late is refused by the log, and all is read again.
            checked.verification = batch.writer.and_then(|writer| writer.marker_count);
            match append::start(shard, &coordinator.partition, Buffer::from_vec(bytes), &checked).await {
                Ok(appended) => pending.push_back(Pending { appended, steps: batch.steps }),
                Err(failure) => return Broken::Append(failure),
            }
        }
        while let Some(front) = pending.front() {
            match front.appended.poll_durable(io) {
                Poll::Pending => break,
                Poll::Ready(Err(failure)) => return Broken::Append(failure),
                Poll::Ready(Ok(())) => {
                    let front = pending.pop_front().expect("it was looked at");
                    finish(shard, coordinator, front.steps);
                }
            }
        }
        expire(shard, coordinator).await;
        poll_fn(|_| {
            let is_durable = pending.front().is_some_and(|front| front.appended.poll_durable(io).is_ready());
            if coordinator.state.get() == State::Gone || is_durable || !coordinator.outbox.borrow().is_empty() {
                return Poll::Ready(());
            }
            let next_ms = coordinator.machine.borrow().as_ref().and_then(M::next_deadline_ms).unwrap_or(u64::MAX);
            if next_ms <= moment(shard).now_ms {
                return Poll::Ready(());
            }
            if timer.as_ref().is_none_or(|(armed_ms, _)| *armed_ms != next_ms) {
                let deadline = Nanos(next_ms.saturating_mul(1_000_000));
                timer = (next_ms < u64::MAX).then(|| (next_ms, io.wake_at(deadline)));
            }
            coordinator.armed_ms.set(next_ms);
            coordinator.keeper.wait(io.current_task());
            Poll::Pending
        })
        .await;
    }
}

/// The records of these steps are safe: who waited for them is answered.
fn finish<M: Machine>(shard: &Shard, coordinator: &Coordinator<M>, steps: Vec<Vec<(Ticket, M::Reply)>>) {
    for replies in steps {
        // Where the partition has just gone, all were forgotten.
        coordinator.unsafe_steps.set(coordinator.unsafe_steps.get().saturating_sub(1));
        coordinator.release(shard, replies);
    }
}

/// Does what is due, after all that came in meanwhile was heard.
async fn expire<M: Machine>(shard: &Rc<Shard>, coordinator: &Coordinator<M>) {
    let due_ms = |coordinator: &Coordinator<M>| {
        let next_ms = coordinator.machine.borrow().as_ref().and_then(M::next_deadline_ms);
        next_ms.filter(|next_ms| *next_ms <= moment(shard).now_ms)
    };
    let Some(deadline_ms) = due_ms(coordinator) else { return };
    let stall_ms = moment(shard).now_ms - deadline_ms;
    if stall_ms > STALL_MS && coordinator.state.get() == State::Active {
        coordinator.step(shard, |machine, now, _| machine.stalled(now, stall_ms));
    }
    // What lies in the sockets is read and handled in these turns.
    for _ in 0..TURNS_BEFORE_EXPIRY {
        shard.io().yield_now().await;
    }
    if due_ms(coordinator).is_some() && coordinator.state.get() == State::Active {
        coordinator.step(shard, |machine, now, effects| machine.tick(now, effects));
    }
}

/// Records of one batch, unless a single step has more.
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// What a record costs besides key and value, at most.
const RECORD_OVERHEAD_BYTES: usize = 21;
/// Bit 4 of a batch's attributes.
const TRANSACTIONAL_ATTRIBUTE: i16 = 0x10;
/// Records of coordinators have no sequence, also where they are part of a transaction.
const NO_SEQUENCE: i32 = -1;
/// A timer that is later than this was held up by the core, not by who is late.
const STALL_MS: u64 = 1_000;
/// A receive takes one turn to complete and one to be handled.
const TURNS_BEFORE_EXPIRY: usize = 3;
const RELOAD_DELAY_MS: u64 = 200;
