//! A coordinator with its log and no server: requests, crashes, replays.

use crate::record::coordination::{CoordinatorRecord, Effects, Moment, ReplayedRecord, Ticket};
use crate::record::offset::{Offset, ProducerId};
use crate::txn::coordinator::{TransactionConfig, TransactionCoordinator};
use crate::txn::reply::{MarkerJob, TransactionReply};
use crate::txn::request::{AddPartitions, End, InitProducerId, TransactionRequest};
use crate::txn::state::TransactionState;
use crate::txn::transaction::{EPOCH_MAX, Partitions};
use crate::wire::error_code::ErrorCode;

const CONFIG: TransactionConfig = TransactionConfig {
    max_timeout_ms: 900_000,
    abort_check_interval_ms: 10_000,
    id_expiration_ms: 604_800_000,
    expiry_check_interval_ms: 3_600_000,
    server_version: 2,
};
const ID: &str = "an id";

/// A coordinator with its log: what a restart would replay.
struct Hosted {
    coordinator: TransactionCoordinator,
    log: Vec<CoordinatorRecord>,
    now: Moment,
    tickets: u64,
    jobs: Vec<MarkerJob>,
    next_id: i64,
}

impl Hosted {
    fn new() -> Self {
        let now = Moment { now_ms: 1000, wall_ms: 1_000_000 };
        let (coordinator, log, jobs) = (TransactionCoordinator::new(CONFIG), Vec::new(), Vec::new());
        let mut hosted = Self { coordinator, log, now, tickets: 0, jobs, next_id: 100 };
        hosted.restart();
        hosted
    }

    /// A crash at this very step: all that was answered is in the log.
    fn restart(&mut self) {
        let mut coordinator = TransactionCoordinator::new(CONFIG);
        for record in &self.log {
            let replayed =
                ReplayedRecord { offset: Offset(0), writer: None, key: &record.key, value: record.value.as_deref() };
            coordinator.replay(&replayed).expect("our own");
        }
        self.coordinator = coordinator;
        let mut effects = Effects::default();
        self.coordinator.loaded(self.now, &mut effects);
        self.take(effects);
        self.take_markers();
    }

    fn take(&mut self, effects: Effects<TransactionReply>) -> Vec<TransactionReply> {
        self.log.extend(effects.records);
        let mut replies = Vec::new();
        for (_, reply) in effects.replies {
            match reply {
                TransactionReply::Markers(job) => {
                    self.jobs.push(job);
                    self.take_markers();
                }
                reply => replies.push(reply),
            }
        }
        replies
    }

    fn take_markers(&mut self) {
        let mut effects = Effects::default();
        self.tickets += 1;
        self.coordinator.handle(Ticket(self.tickets), TransactionRequest::TakeMarkers, self.now, &mut effects);
        self.take(effects);
    }

    fn ask(&mut self, request: TransactionRequest) -> TransactionReply {
        let mut effects = Effects::default();
        self.tickets += 1;
        self.coordinator.handle(Ticket(self.tickets), request, self.now, &mut effects);
        self.take(effects).pop().expect("an answer")
    }

    fn init(&mut self, expected: Option<(i64, i16)>) -> Result<(i64, i16), ErrorCode> {
        let expected = expected.map(|(id, epoch)| (ProducerId(id), epoch));
        let mut fresh = None;
        loop {
            let request = InitProducerId { transactional_id: ID.to_owned(), timeout_ms: 60_000, expected, fresh };
            match self.ask(TransactionRequest::InitProducerId(request)) {
                TransactionReply::NeedsProducerId => {
                    self.next_id += 1;
                    fresh = Some(ProducerId(self.next_id));
                }
                TransactionReply::Producer { producer_id, producer_epoch } => {
                    return Ok((producer_id.0, producer_epoch));
                }
                TransactionReply::Refused(error) => return Err(error),
                other => panic!("{other:?}"),
            }
        }
    }

    fn add(&mut self, (id, epoch): (i64, i16), index: i32, client_version: i16) -> ErrorCode {
        let request = AddPartitions {
            transactional_id: ID.to_owned(),
            producer_id: ProducerId(id),
            producer_epoch: epoch,
            partitions: Partitions::from([("t".to_owned(), [index].into())]),
            verify_only: false,
            client_version,
        };
        match self.ask(TransactionRequest::AddPartitions(request)) {
            TransactionReply::Partitions(codes) => codes[0].2,
            TransactionReply::Refused(error) => error,
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, (id, epoch): (i64, i16), is_commit: bool, version: i16) -> Result<(i64, i16), ErrorCode> {
        let mut fresh = None;
        loop {
            let request = End {
                transactional_id: ID.to_owned(),
                producer_id: ProducerId(id),
                producer_epoch: epoch,
                is_commit,
                client_version: version,
                fresh,
            };
            match self.ask(TransactionRequest::End(request)) {
                TransactionReply::NeedsProducerId => {
                    self.next_id += 1;
                    fresh = Some(ProducerId(self.next_id));
                }
                TransactionReply::Producer { producer_id, producer_epoch } => {
                    return Ok((producer_id.0, producer_epoch));
                }
                TransactionReply::Refused(error) => return Err(error),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Writes the markers of all jobs; each must be of this producer and end.
    fn finish(&mut self) -> Vec<MarkerJob> {
        let jobs = std::mem::take(&mut self.jobs);
        for job in &jobs {
            let done = self.ask(TransactionRequest::MarkersWritten {
                transactional_id: job.transactional_id.clone(),
                producer_id: job.producer_id,
                producer_epoch: job.producer_epoch,
            });
            assert_eq!(done, TransactionReply::Done);
        }
        jobs
    }

    fn state(&self) -> TransactionState {
        self.coordinator.get(ID).expect("known").state
    }
}

#[test]
fn version_one_keeps_its_epoch_and_version_two_raises_it() {
    for version in [1, 2] {
        let mut hosted = Hosted::new();
        let first = hosted.init(None).expect("new");
        assert_eq!(first, (101, 0));
        assert_eq!(hosted.add(first, 0, version), ErrorCode::None);
        assert_eq!(hosted.add(first, 1, version), ErrorCode::None);
        let after = hosted.end(first, true, version).expect("it is open");
        assert_eq!(after, (101, if version == 2 { 1 } else { 0 }));
        assert_eq!(hosted.add(after, 0, version), ErrorCode::ConcurrentTransactions);
        let repeated = hosted.end(first, true, version);
        assert_eq!(repeated, Err(ErrorCode::ConcurrentTransactions), "its markers are being written");
        let jobs = hosted.finish();
        assert_eq!(jobs.len(), 1);
        assert_eq!((jobs[0].is_commit, jobs[0].producer_epoch), (true, after.1));
        assert_eq!(jobs[0].partitions["t"].iter().copied().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(hosted.state(), TransactionState::CompleteCommit);
        assert_eq!(hosted.end(first, true, version), Ok(after), "a retry");
        assert_eq!(hosted.end(first, false, version), Err(ErrorCode::InvalidTxnState));
        assert_eq!(hosted.add(after, 3, version), ErrorCode::None, "the next one");
    }
}

/// C123: who initialises the same id again fences the one before, and what that had open is aborted.
#[test]
fn c123_a_second_producer_fences_the_first() {
    let mut hosted = Hosted::new();
    let old = hosted.init(None).expect("new");
    assert_eq!(hosted.add(old, 0, 1), ErrorCode::None);
    assert_eq!(hosted.init(None), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(hosted.end(old, true, 1), Err(ErrorCode::ProducerFenced));
    assert_eq!(hosted.end(old, false, 2), Err(ErrorCode::ProducerFenced));
    assert_eq!(hosted.add(old, 1, 1), ErrorCode::ProducerFenced);
    let jobs = hosted.finish();
    assert!(!jobs[0].is_commit && jobs[0].producer_epoch > old.1, "{jobs:?}");
    let fresh = hosted.init(None).expect("nothing is open");
    assert!(fresh.0 == old.0 && fresh.1 > jobs[0].producer_epoch);
    // KIP-360: with the epoch that it has it goes on, and a retry gets the same.
    let next = hosted.init(Some(fresh)).expect("its own epoch");
    assert_eq!(next, (fresh.0, fresh.1 + 1));
    assert_eq!(hosted.init(Some(fresh)), Ok(next));
    assert_eq!(hosted.init(Some((fresh.0, fresh.1 - 1))), Err(ErrorCode::ProducerFenced));
    let mut late = InitProducerId { transactional_id: ID.to_owned(), timeout_ms: 900_001, expected: None, fresh: None };
    for timeout_ms in [900_001, 0, -1] {
        late.timeout_ms = timeout_ms;
        let refused = hosted.ask(TransactionRequest::InitProducerId(late.clone()));
        assert_eq!(refused, TransactionReply::Refused(ErrorCode::InvalidTransactionTimeout));
    }
}

/// C124: a transaction that is open for too long is aborted, and its producer is fenced.
#[test]
fn c124_an_expired_transaction_is_aborted() {
    let mut hosted = Hosted::new();
    let producer = hosted.init(None).expect("new");
    hosted.add(producer, 0, 2);
    for (passed_ms, aborts) in [(59_000, false), (2_000, true)] {
        hosted.now.now_ms += passed_ms;
        hosted.now.wall_ms += passed_ms as i64;
        assert!(hosted.coordinator.next_deadline_ms().is_some_and(|due_ms| due_ms <= hosted.now.now_ms + 10_000));
        hosted.now.now_ms += 10_000;
        let mut effects = Effects::default();
        hosted.coordinator.tick(hosted.now, &mut effects);
        hosted.take(effects);
        assert_eq!(hosted.jobs.len(), usize::from(aborts));
    }
    assert_eq!(hosted.end(producer, true, 2), Err(ErrorCode::ProducerFenced));
    hosted.finish();
    assert_eq!(hosted.state(), TransactionState::CompleteAbort);
    // Not used for a week, it is forgotten.
    hosted.now.now_ms += 700_000_000;
    hosted.now.wall_ms += 700_000_000;
    let mut effects = Effects::default();
    hosted.coordinator.tick(hosted.now, &mut effects);
    hosted.take(effects);
    assert!(hosted.coordinator.get(ID).is_none());
    hosted.restart();
    assert!(hosted.coordinator.get(ID).is_none(), "a tombstone says so");
}

#[test]
fn used_up_epochs_give_way_to_a_new_producer_id() {
    let mut hosted = Hosted::new();
    let (id, _) = hosted.init(None).expect("new");
    let mut effects = Effects::default();
    let used = hosted.coordinator.change(ID, &mut effects, |one| one.producer_epoch = EPOCH_MAX - 1);
    assert_eq!(used, Ok(()));
    hosted.take(effects);
    assert_eq!(hosted.add((id, EPOCH_MAX - 1), 0, 2), ErrorCode::None);
    let next = hosted.end((id, EPOCH_MAX - 1), true, 2).expect("it is open");
    assert!(next.0 != id && next.1 == 0, "{next:?}");
    let jobs = hosted.finish();
    assert_eq!((jobs[0].producer_id, jobs[0].producer_epoch), (ProducerId(id), EPOCH_MAX));
    assert_eq!(hosted.end((id, EPOCH_MAX - 1), true, 2), Ok(next), "a retry");
    assert_eq!(hosted.add(next, 0, 2), ErrorCode::None);
    assert_eq!(hosted.add((id, EPOCH_MAX - 1), 0, 2), ErrorCode::InvalidProducerIdMapping);
}

#[test]
fn version_two_may_abort_what_it_never_began() {
    let mut hosted = Hosted::new();
    let producer = hosted.init(None).expect("new");
    assert_eq!(hosted.end(producer, true, 2), Err(ErrorCode::InvalidTxnState));
    let next = hosted.end(producer, false, 2).expect("an abort of nothing");
    // It is quick, and ends the one after it while the markers of this one are written: it is no stranger.
    assert_eq!(hosted.end(next, false, 2), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(hosted.end(next, true, 2), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(hosted.finish()[0].partitions, Partitions::new());
    assert_eq!(hosted.end(next, false, 1), Ok(next), "version 1 sees an aborted one");
}

/// At each step a crash: what was answered holds, and what was decided is handed out again.
#[test]
fn a_decision_survives_a_crash_at_any_step() {
    for crash_after in 0..5 {
        let mut hosted = Hosted::new();
        let mut steps = 0;
        let mut crash = |hosted: &mut Hosted| {
            if steps == crash_after {
                hosted.jobs.clear();
                hosted.restart();
            }
            steps += 1;
        };
        let mut producer = hosted.init(None).expect("new");
        crash(&mut hosted);
        for index in 0..2 {
            assert_eq!(hosted.add(producer, index, 2), ErrorCode::None);
            crash(&mut hosted);
        }
        producer = hosted.end(producer, true, 2).expect("it is open");
        crash(&mut hosted);
        let jobs = hosted.finish();
        assert_eq!(jobs.len(), 1, "crash after {crash_after}");
        assert_eq!((jobs[0].is_commit, jobs[0].producer_epoch), (true, producer.1), "crash after {crash_after}");
        assert_eq!(jobs[0].partitions["t"].len(), 2, "crash after {crash_after}");
        crash(&mut hosted);
        assert_eq!(hosted.state(), TransactionState::CompleteCommit, "crash after {crash_after}");
        assert!(hosted.jobs.is_empty(), "crash after {crash_after}");
        assert_eq!(hosted.add(producer, 0, 2), ErrorCode::None, "crash after {crash_after}");
    }
}
