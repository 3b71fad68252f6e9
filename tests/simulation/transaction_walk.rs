//! Random requests to the coordinators of transactions and of a group, with crashes and replays in between: each answer, and
//! all that is there after it, is what the model says.

use std::collections::{BTreeMap, BTreeSet};

use alluvium::group::reply::GroupReply;
use alluvium::group::request::GroupRequest;
use alluvium::group::stage::{Stage as GroupStage, commit, config as group_config, speaker};
use alluvium::record::coordination::TransactionalWriter;
use alluvium::record::offset::ProducerId;
use alluvium::ring::sim::random::Random;
use alluvium::txn::coordinator::TransactionConfig;
use alluvium::txn::records;
use alluvium::txn::reply::TransactionReply;
use alluvium::txn::request::TransactionRequest;
use alluvium::txn::stage::{Identity, Stage as TransactionStage};
use alluvium::txn::state::TransactionState;
use alluvium::txn::transaction::Transaction;
use alluvium::wire::error_code::ErrorCode;

use crate::seeds::seeds;
use crate::transaction_model::{EXPIRATION_MS, Known, LAST_EPOCH, Model, OFFSETS, Stage, TIMEOUT_MS_MAX};

const IDS: [&str; 2] = ["one", "two"];
const CONFIG: TransactionConfig = TransactionConfig {
    max_timeout_ms: TIMEOUT_MS_MAX,
    abort_check_interval_ms: 1,
    id_expiration_ms: EXPIRATION_MS,
    expiry_check_interval_ms: 1,
};

fn version(raises: bool) -> i16 {
    if raises { 2 } else { 1 }
}

/// One seed: what is asked, of the server and of the model.
struct Walk {
    random: Random,
    transactions: TransactionStage,
    group: GroupStage,
    model: Model,
    /// Who was told that it is a producer, newest last, with the version that it speaks.
    told: BTreeMap<&'static str, Vec<(Identity, bool)>>,
    /// How often each answer came.
    answers: BTreeMap<String, u32>,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let (random, transactions, group) =
            (Random::new(seed), TransactionStage::new(CONFIG), GroupStage::with(group_config()));
        let (model, told, answers) = (Model::default(), BTreeMap::new(), BTreeMap::new());
        let mut walk = Self { random, transactions, group, model, told, answers };
        if walk.random.coin() {
            // Its epochs are nearly used up.
            let now_ms = walk.transactions.now.wall_ms;
            let mut transaction = Transaction::new(ProducerId(50), 5_000, now_ms);
            transaction.producer_epoch = LAST_EPOCH - walk.random.below(6) as i16;
            walk.transactions.log.push(records::transaction(IDS[0], &transaction).expect("short"));
            let identity = (50, transaction.producer_epoch);
            walk.model.ids.insert(IDS[0], Known::new(identity, 5_000, now_ms));
            walk.told.insert(IDS[0], vec![(identity, true)]);
        }
        walk.transactions.restart();
        walk
    }

    /// Mostly the newest producer of an id, else an earlier one, or none that ever was.
    fn who(&self, id: &'static str) -> (Identity, bool) {
        let told = self.told.get(id).map_or(&[][..], Vec::as_slice);
        match (self.random.below(10), told) {
            (0, _) | (_, []) => ((self.random.below(3) as i64 * 49 + 1, 7), self.random.coin()),
            (1 | 2, told) => told[self.random.index(told.len())],
            (3, told) => (told[told.len() - 1].0, self.random.coin()),
            (_, told) => told[told.len() - 1],
        }
    }

    fn note(&mut self, id: &'static str, outcome: Result<Identity, ErrorCode>, raises: bool) {
        if let Ok(identity) = outcome {
            self.told.entry(id).or_default().push((identity, raises));
        }
    }

    fn step(&mut self) -> String {
        let id = IDS[self.random.index(IDS.len())];
        let (who, raises) = self.who(id);
        let topic = ["a", "b", OFFSETS][self.random.index(3)];
        let (now_ms, fresh) = (self.transactions.now.wall_ms, self.transactions.fresh);
        match self.random.below(100) {
            0..15 => {
                let expected = self.random.coin().then_some(who);
                let timeout_ms = [1_000, 5_000, 60_000, 60_001, 0, -1][self.random.index(6).min(self.random.index(6))];
                let found = self.transactions.init(id, expected, timeout_ms);
                let meant = self.model.init(id, expected, timeout_ms, fresh, now_ms);
                self.note(id, found, self.random.coin());
                self.compare(format!("init {id} {expected:?} {timeout_ms}"), &found, &meant)
            }
            15..40 => {
                let found = self.transactions.add(id, who, (topic, 0), version(raises));
                let meant = self.model.add(id, who, topic, now_ms);
                self.compare(format!("add {id} {who:?} {topic} raises {raises}"), &found, &meant)
            }
            40..45 => {
                let found = self.transactions.verify(id, who, (topic, 0));
                let meant = self.model.verify(id, who, topic);
                self.compare(format!("verify {id} {who:?} {topic}"), &found, &meant)
            }
            45..58 => {
                // As the group's core admits it: by version 2 it adds its partition, by version 1 it must have been added.
                let (partition, offset) = (self.random.index(2) as i32, self.random.below(1_000) as i64);
                let at = (OFFSETS, 0);
                let (found, meant) = match raises {
                    true => (self.transactions.add(id, who, at, 2), self.model.add(id, who, OFFSETS, now_ms)),
                    false => (self.transactions.verify(id, who, at), self.model.verify(id, who, OFFSETS)),
                };
                if found == ErrorCode::None {
                    let reply = self.commit_offset(partition, offset, Some(who));
                    assert_eq!(
                        reply,
                        GroupReply::Partitions(vec![("t".to_owned(), vec![(partition, ErrorCode::None)])])
                    );
                    self.model.commit(partition, offset, Some(who.0));
                }
                self.compare(format!("commit {offset} for {partition} in {id} {who:?} raises {raises}"), &found, &meant)
            }
            58..62 => {
                let (partition, offset) = (self.random.index(2) as i32, self.random.below(1_000) as i64);
                self.commit_offset(partition, offset, None);
                self.model.commit(partition, offset, None);
                format!("plain commit of {offset} for {partition}")
            }
            62..78 => {
                let commits = self.random.coin();
                let found = self.transactions.end(id, who, commits, version(raises));
                let meant = self.model.end(id, who, commits, raises, fresh, now_ms);
                self.note(id, found, raises);
                self.compare(format!("end {id} {who:?} commits {commits} raises {raises}"), &found, &meant)
            }
            78..88 => {
                let Some(last) = self.transactions.jobs.len().checked_sub(1) else { return "no job".to_owned() };
                let job = self.transactions.jobs.remove(self.random.index(last + 1));
                if job.partitions.contains_key(OFFSETS) {
                    self.group.transaction_ended(job.producer_id, job.is_commit);
                }
                self.transactions.finish(&job);
                self.model.completed(&job.transactional_id, now_ms);
                format!("markers of {}", job.transactional_id)
            }
            88..94 => {
                let ms = if self.random.below(10) == 0 { 1_100_000 } else { 1 + self.random.below(4_000) };
                self.transactions.pass_ms(ms);
                self.group.pass_ms(ms);
                self.model.tick(self.transactions.now.wall_ms, fresh);
                format!("{ms} ms")
            }
            94..97 => {
                self.transactions.restart();
                self.model.restart();
                "crash of the transactions' coordinator".to_owned()
            }
            _ => {
                self.group = self.group.reloaded();
                "crash of the group's coordinator".to_owned()
            }
        }
    }

    fn commit_offset(&mut self, partition: i32, offset: i64, writer: Option<Identity>) -> GroupReply {
        let mut commit = commit(speaker("", -1), "t", partition, offset);
        commit.writer = writer.map(|(producer, epoch)| TransactionalWriter {
            producer_id: ProducerId(producer),
            producer_epoch: epoch,
            marker_count: None,
        });
        self.group.answer(GroupRequest::CommitOffsets(commit))
    }

    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, asked: String, found: &T, meant: &T) -> String {
        assert!(found == meant, "{asked}: {found:?}, and the model says {meant:?}");
        let kind = asked.split(' ').next().unwrap_or_default();
        let text = format!("{found:?}");
        let answer = if text.starts_with("Ok") { "Ok".to_owned() } else { text };
        *self.answers.entry(format!("{kind} {answer}")).or_default() += 1;
        format!("{asked} -> {found:?}")
    }

    /// All that can be seen is as the model has it.
    fn check(&mut self) {
        let mut decided = BTreeSet::new();
        for id in IDS {
            let described = self.transactions.ask(TransactionRequest::Describe { transactional_id: id.to_owned() });
            let Some(known) = self.model.ids.get(id) else {
                assert_eq!(described, TransactionReply::Refused(ErrorCode::TransactionalIdNotFound), "{id}");
                continue;
            };
            let TransactionReply::Described(found) = described else { panic!("{id}: {described:?}") };
            let state = match known.stage {
                Stage::Idle(None) => TransactionState::Empty,
                Stage::Idle(Some(true)) => TransactionState::CompleteCommit,
                Stage::Idle(Some(false)) => TransactionState::CompleteAbort,
                Stage::Open => TransactionState::Ongoing,
                Stage::Ending(true) => TransactionState::PrepareCommit,
                Stage::Ending(false) => TransactionState::PrepareAbort,
            };
            let partitions: BTreeSet<String> = found.partitions.keys().cloned().collect();
            let identity = (found.producer_id.0, found.producer_epoch);
            assert_eq!((found.state, identity, &partitions), (state, known.now, &known.partitions), "{id}");
            if let Stage::Ending(commits) = known.stage {
                decided.insert((id.to_owned(), known.now, commits, partitions));
            }
        }
        let jobs = self.transactions.jobs.iter().map(|job| {
            let partitions = job.partitions.keys().cloned().collect();
            (job.transactional_id.clone(), (job.producer_id.0, job.producer_epoch), job.is_commit, partitions)
        });
        assert_eq!(self.transactions.jobs.len(), decided.len(), "one job for each that is decided");
        assert_eq!(jobs.collect::<BTreeSet<_>>(), decided, "what is to be written");
        for partition in 0..2 {
            let known = self.model.offsets.get(&partition).cloned().unwrap_or_default();
            let committed = known.committed.map_or(-1, |(_, offset)| offset);
            assert_eq!(self.group.committed("t", partition), committed, "offset of {partition}");
            let stable = match known.pending.is_empty() {
                true => (ErrorCode::None, committed),
                false => (ErrorCode::UnstableOffsetCommit, -1),
            };
            let found = self.group.fetched("t", partition, true);
            assert_eq!((found.error, found.offset), stable, "stable offset of {partition}");
        }
    }
}

#[test]
fn transactions_and_their_offsets_are_as_a_simple_model_says() {
    let mut answers: BTreeMap<String, u32> = BTreeMap::new();
    let range = seeds(150);
    let is_whole = range.end - range.start >= 150;
    for seed in range {
        let mut story = Vec::new();
        let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut walk = Walk::new(seed);
            for _ in 0..150 {
                story.push(walk.step());
                walk.check();
            }
            walk.answers
        }));
        match walked {
            Ok(given) => given.into_iter().for_each(|(answer, count)| *answers.entry(answer).or_default() += count),
            Err(_) => panic!("seed {seed}, after:\n  {}", story[story.len().saturating_sub(25)..].join("\n  ")),
        }
    }
    for wanted in EACH_COMES {
        assert!(!is_whole || answers.contains_key(wanted), "{wanted} never came: {answers:?}");
    }
}

/// A walk that never comes to one of these shows less than it says.
const EACH_COMES: [&str; 19] = [
    "init Ok",
    "init Err(ProducerFenced)",
    "init Err(ConcurrentTransactions)",
    "init Err(InvalidTransactionTimeout)",
    "add None",
    "add ProducerFenced",
    "add ConcurrentTransactions",
    "add InvalidProducerIdMapping",
    "verify None",
    "verify TransactionAbortable",
    "commit None",
    "commit ProducerFenced",
    "commit ConcurrentTransactions",
    "commit TransactionAbortable",
    "end Ok",
    "end Err(ProducerFenced)",
    "end Err(ConcurrentTransactions)",
    "end Err(InvalidTxnState)",
    "end Err(InvalidProducerIdMapping)",
];
