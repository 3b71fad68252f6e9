//! Transactions under test, without a server: requests, crashes, replays.

use crate::record::coordination::Effects;
use crate::record::offset::ProducerId;
use crate::txn::coordinator::TransactionConfig;
use crate::txn::reply::{MarkerJob, TransactionReply};
use crate::txn::request::{InitProducerId, TransactionRequest};
use crate::txn::stage::Stage;
use crate::txn::state::TransactionState;
use crate::txn::transaction::{EPOCH_MAX, Partitions};
use crate::wire::error_code::ErrorCode;

const CONFIG: TransactionConfig = TransactionConfig {
    max_timeout_ms: 900_000,
    abort_check_interval_ms: 10_000,
    id_expiration_ms: 604_800_000,
    expiry_check_interval_ms: 3_600_000,
};
const ID: &str = "an id";

fn stage() -> Stage {
    Stage::new(CONFIG)
}

/// Writes the markers of all jobs.
fn finish(hosted: &mut Stage) -> Vec<MarkerJob> {
    let jobs = std::mem::take(&mut hosted.jobs);
    jobs.iter().for_each(|job| hosted.finish(job));
    jobs
}

fn state(hosted: &Stage) -> TransactionState {
    hosted.coordinator.get(ID).expect("known").state
}

fn use_epochs_up(hosted: &mut Stage) {
    let mut effects = Effects::default();
    let used = hosted.coordinator.change(ID, &mut effects, |one| one.producer_epoch = EPOCH_MAX - 1);
    assert_eq!(used, Ok(()));
    hosted.take(effects);
}

#[test]
fn version_one_keeps_its_epoch_and_version_two_raises_it() {
    for version in [1, 2] {
        let mut hosted = stage();
        let first = hosted.init(ID, None, 60_000).expect("new");
        assert_eq!(first, (100, 0));
        assert_eq!(hosted.add(ID, first, ("t", 0), version), ErrorCode::None);
        assert_eq!(hosted.add(ID, first, ("t", 1), version), ErrorCode::None);
        let after = hosted.end(ID, first, true, version).expect("it is open");
        assert_eq!(after, (100, if version == 2 { 1 } else { 0 }));
        assert_eq!(hosted.add(ID, after, ("t", 0), version), ErrorCode::ConcurrentTransactions);
        let repeated = hosted.end(ID, first, true, version);
        assert_eq!(repeated, Err(ErrorCode::ConcurrentTransactions), "its markers are being written");
        let jobs = finish(&mut hosted);
        assert_eq!(jobs.len(), 1);
        assert_eq!((jobs[0].is_commit, jobs[0].producer_epoch), (true, after.1));
        assert_eq!(jobs[0].partitions["t"].iter().copied().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(state(&hosted), TransactionState::CompleteCommit);
        assert_eq!(hosted.end(ID, first, true, version), Ok(after), "a retry");
        assert_eq!(hosted.end(ID, first, false, version), Err(ErrorCode::InvalidTxnState));
        assert_eq!(hosted.add(ID, after, ("t", 3), version), ErrorCode::None, "the next one");
    }
}

/// C123: who initialises the same id again fences the one before, and what that had open is aborted. The fenced one hears of it
/// as from Kafka 4.4: by version 2 its abort is taken for one that is asked for once more.
#[test]
fn c123_a_second_producer_fences_the_first() {
    for version in [1, 2] {
        let mut hosted = stage();
        let old = hosted.init(ID, None, 60_000).expect("new");
        assert_eq!(hosted.add(ID, old, ("t", 0), version), ErrorCode::None);
        assert_eq!(hosted.init(ID, None, 60_000), Err(ErrorCode::ConcurrentTransactions));
        let fenced_by = (old.0, old.1 + 1);
        let while_ending = if version == 2 { ErrorCode::ConcurrentTransactions } else { ErrorCode::ProducerFenced };
        assert_eq!(hosted.end(ID, old, true, version), Err(while_ending));
        assert_eq!(hosted.add(ID, old, ("t", 1), version), ErrorCode::ConcurrentTransactions);
        let jobs = finish(&mut hosted);
        assert_eq!((jobs[0].is_commit, jobs[0].producer_epoch), (false, fenced_by.1), "raised by one");
        assert_eq!(hosted.add(ID, old, ("t", 1), version), ErrorCode::ProducerFenced);
        let (commit, abort) = (hosted.end(ID, old, true, version), hosted.end(ID, old, false, version));
        if version == 2 {
            assert_eq!((commit, abort), (Err(ErrorCode::InvalidTxnState), Ok(fenced_by)));
        } else {
            assert_eq!((commit, abort), (Err(ErrorCode::ProducerFenced), Err(ErrorCode::ProducerFenced)));
        }
        let fresh = hosted.init(ID, None, 60_000).expect("nothing is open");
        assert_eq!(fresh, (old.0, fenced_by.1 + 1));
        for who in [old, fenced_by] {
            assert_eq!(hosted.end(ID, who, false, version), Err(ErrorCode::ProducerFenced), "{who:?} by {version}");
        }
        // KIP-360: with the epoch that it has it goes on, and a retry gets the same.
        let next = hosted.init(ID, Some(fresh), 60_000).expect("its own epoch");
        assert_eq!(next, (fresh.0, fresh.1 + 1));
        assert_eq!(hosted.init(ID, Some(fresh), 60_000), Ok(next));
        assert_eq!(hosted.init(ID, Some((fresh.0, fresh.1 - 1)), 60_000), Err(ErrorCode::ProducerFenced));
        // So with what it has open: that is aborted, and the epoch of its end is its own.
        assert_eq!(hosted.add(ID, next, ("t", 0), version), ErrorCode::None);
        assert_eq!(hosted.init(ID, Some(next), 60_000), Err(ErrorCode::ConcurrentTransactions));
        finish(&mut hosted);
        assert_eq!(hosted.init(ID, Some(next), 60_000), Ok((next.0, next.1 + 1)));
    }
}

#[test]
fn c123_a_timeout_over_the_maximum_is_refused() {
    let mut hosted = stage();
    for timeout_ms in [900_001, 0, -1] {
        let late = InitProducerId { transactional_id: ID.to_owned(), timeout_ms, expected: None, fresh: None };
        let refused = hosted.ask(TransactionRequest::InitProducerId(late));
        assert_eq!(refused, TransactionReply::Refused(ErrorCode::InvalidTransactionTimeout));
    }
}

/// C124: a transaction that is open for too long is aborted, and its producer cannot commit it any more.
#[test]
fn c124_an_expired_transaction_is_aborted() {
    let mut hosted = stage();
    let producer = hosted.init(ID, None, 60_000).expect("new");
    hosted.add(ID, producer, ("t", 0), 2);
    for (passed_ms, aborts) in [(59_000, false), (2_000, true)] {
        hosted.now.now_ms += passed_ms;
        hosted.now.wall_ms += passed_ms as i64;
        assert!(hosted.coordinator.next_deadline_ms().is_some_and(|due_ms| due_ms <= hosted.now.now_ms + 10_000));
        hosted.now.now_ms += 10_000;
        hosted.pass_ms(0);
        assert_eq!(hosted.jobs.len(), usize::from(aborts));
    }
    assert_eq!(hosted.end(ID, producer, true, 2), Err(ErrorCode::ConcurrentTransactions));
    finish(&mut hosted);
    assert_eq!(state(&hosted), TransactionState::CompleteAbort);
    assert_eq!(hosted.end(ID, producer, true, 2), Err(ErrorCode::InvalidTxnState));
    assert_eq!(hosted.end(ID, producer, true, 1), Err(ErrorCode::ProducerFenced));
    assert_eq!(hosted.end(ID, producer, false, 2), Ok((producer.0, producer.1 + 1)));
    // Not used for a week, it is forgotten.
    hosted.pass_ms(700_000_000);
    assert!(hosted.coordinator.get(ID).is_none());
    hosted.restart();
    assert!(hosted.coordinator.get(ID).is_none(), "a tombstone says so");
}

/// Where the epochs are used up, whoever ends a transaction gives its producer another id: it could not begin another one.
#[test]
fn whatever_ends_a_transaction_of_used_up_epochs_brings_a_new_producer_id() {
    for times_out in [false, true] {
        let mut hosted = stage();
        let (id, _) = hosted.init(ID, None, 60_000).expect("new");
        use_epochs_up(&mut hosted);
        let last = (id, EPOCH_MAX - 1);
        assert_eq!(hosted.add(ID, last, ("t", 0), 2), ErrorCode::None);
        match times_out {
            true => hosted.pass_ms(100_000),
            false => assert_eq!(hosted.init(ID, None, 60_000), Err(ErrorCode::ConcurrentTransactions)),
        }
        let jobs = finish(&mut hosted);
        assert_eq!(jobs.len(), 1, "times out: {times_out}");
        assert_eq!((jobs[0].producer_id, jobs[0].producer_epoch), (ProducerId(id), EPOCH_MAX));
        assert_eq!(hosted.end(ID, last, true, 2), Err(ErrorCode::InvalidTxnState));
        let next = hosted.end(ID, last, false, 2).expect("as one that aborts once more");
        assert!(next.0 != id && next.1 == 0, "{next:?}");
        assert_eq!(hosted.add(ID, next, ("t", 0), 2), ErrorCode::None);
    }
}

#[test]
fn used_up_epochs_give_way_to_a_new_producer_id() {
    let mut hosted = stage();
    let (id, _) = hosted.init(ID, None, 60_000).expect("new");
    use_epochs_up(&mut hosted);
    assert_eq!(hosted.add(ID, (id, EPOCH_MAX - 1), ("t", 0), 2), ErrorCode::None);
    let next = hosted.end(ID, (id, EPOCH_MAX - 1), true, 2).expect("it is open");
    assert!(next.0 != id && next.1 == 0, "{next:?}");
    let jobs = finish(&mut hosted);
    assert_eq!((jobs[0].producer_id, jobs[0].producer_epoch), (ProducerId(id), EPOCH_MAX));
    assert_eq!(hosted.end(ID, (id, EPOCH_MAX - 1), true, 2), Ok(next), "a retry");
    assert_eq!(hosted.add(ID, next, ("t", 0), 2), ErrorCode::None);
    assert_eq!(hosted.add(ID, (id, EPOCH_MAX - 1), ("t", 0), 2), ErrorCode::InvalidProducerIdMapping);
}

#[test]
fn version_two_may_abort_what_it_never_began() {
    let mut hosted = stage();
    let producer = hosted.init(ID, None, 60_000).expect("new");
    assert_eq!(hosted.end(ID, producer, true, 2), Err(ErrorCode::InvalidTxnState));
    let next = hosted.end(ID, producer, false, 2).expect("an abort of nothing");
    // It is quick, and ends the one after it while the markers of this one are written: it is no stranger.
    assert_eq!(hosted.end(ID, next, false, 2), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(hosted.end(ID, next, true, 2), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(finish(&mut hosted)[0].partitions, Partitions::new());
    assert_eq!(hosted.end(ID, next, false, 1), Ok(next), "version 1 sees an aborted one");
}

/// At each step a crash: what was answered holds, and what was decided is handed out again.
#[test]
fn a_decision_survives_a_crash_at_any_step() {
    for crash_after in 0..5 {
        let mut hosted = stage();
        let mut steps = 0;
        let mut crash = |hosted: &mut Stage| {
            if steps == crash_after {
                hosted.jobs.clear();
                hosted.restart();
            }
            steps += 1;
        };
        let mut producer = hosted.init(ID, None, 60_000).expect("new");
        crash(&mut hosted);
        for index in 0..2 {
            assert_eq!(hosted.add(ID, producer, ("t", index), 2), ErrorCode::None);
            crash(&mut hosted);
        }
        producer = hosted.end(ID, producer, true, 2).expect("it is open");
        crash(&mut hosted);
        let jobs = finish(&mut hosted);
        assert_eq!(jobs.len(), 1, "crash after {crash_after}");
        assert_eq!((jobs[0].is_commit, jobs[0].producer_epoch), (true, producer.1), "crash after {crash_after}");
        assert_eq!(jobs[0].partitions["t"].len(), 2, "crash after {crash_after}");
        crash(&mut hosted);
        assert_eq!(state(&hosted), TransactionState::CompleteCommit, "crash after {crash_after}");
        assert!(hosted.jobs.is_empty(), "crash after {crash_after}");
        assert_eq!(hosted.add(ID, producer, ("t", 0), 2), ErrorCode::None, "crash after {crash_after}");
    }
}
