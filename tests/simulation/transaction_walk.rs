//! Random requests to the coordinators of transactions and of a group, with crashes and replays in between: each answer, and
//! all that is there after it, is what the model says.

use std::collections::{BTreeMap, BTreeSet};

use alluvium::group::config::{GroupConfig, MigrationPolicy};
use alluvium::group::coordinator::GroupCoordinator;
use alluvium::group::reply::GroupReply;
use alluvium::group::request::{CommitOffsets, CommitPartition, CommitTopic, GroupRequest, Speaker};
use alluvium::record::coordination::{CoordinatorRecord, Effects, Moment, ReplayedRecord, Ticket, TransactionalWriter};
use alluvium::record::offset::{Offset, ProducerId};
use alluvium::ring::sim::random::Random;
use alluvium::txn::coordinator::{TransactionConfig, TransactionCoordinator};
use alluvium::txn::records;
use alluvium::txn::reply::{MarkerJob, TransactionReply};
use alluvium::txn::request::{AddPartitions, End, InitProducerId, TransactionRequest};
use alluvium::txn::state::TransactionState;
use alluvium::txn::transaction::{Partitions, Transaction};
use alluvium::wire::error_code::ErrorCode;

use crate::seeds::seeds;
use crate::transaction_model::{EXPIRATION_MS, Identity, LAST_EPOCH, Model, OFFSETS, Stage, TIMEOUT_MS_MAX};

const IDS: [&str; 2] = ["one", "two"];
const CONFIG: TransactionConfig = TransactionConfig {
    max_timeout_ms: TIMEOUT_MS_MAX,
    abort_check_interval_ms: 1,
    id_expiration_ms: EXPIRATION_MS,
    expiry_check_interval_ms: 1,
    server_version: 2,
};

/// What the partition of the group's coordinator has.
enum Logged {
    Record(Option<TransactionalWriter>, CoordinatorRecord),
    Marker(ProducerId, bool),
}

/// Both coordinators with their logs.
struct Hosted {
    transactions: TransactionCoordinator,
    transaction_log: Vec<CoordinatorRecord>,
    group: GroupCoordinator,
    group_log: Vec<Logged>,
    now: Moment,
    tickets: u64,
    jobs: Vec<MarkerJob>,
    /// The next producer id that nobody has.
    fresh: i64,
}

impl Hosted {
    fn new() -> Self {
        let now = Moment { now_ms: 1_000, wall_ms: 1_700_000_000_000 };
        let (transactions, group) = (TransactionCoordinator::new(CONFIG), GroupCoordinator::new(group_config()));
        let (transaction_log, group_log, jobs) = (Vec::new(), Vec::new(), Vec::new());
        Self { transactions, transaction_log, group, group_log, now, tickets: 0, jobs, fresh: 100 }
    }

    /// A crash at this very step: all that was answered is in the log.
    fn restart_transactions(&mut self) {
        self.transactions = TransactionCoordinator::new(CONFIG);
        self.jobs.clear();
        for record in &self.transaction_log {
            let (key, value) = (&record.key[..], record.value.as_deref());
            let replayed = ReplayedRecord { offset: Offset(0), writer: None, key, value };
            self.transactions.replay(&replayed).expect("its own");
        }
        let mut effects = Effects::default();
        self.transactions.loaded(self.now, &mut effects);
        self.take(effects);
        self.take_markers();
    }

    fn restart_group(&mut self) {
        self.group = GroupCoordinator::new(group_config());
        for (at, logged) in self.group_log.iter().enumerate() {
            match logged {
                Logged::Record(writer, record) => {
                    let (key, value) = (&record.key[..], record.value.as_deref());
                    let replayed = ReplayedRecord { offset: Offset(at as i64), writer: *writer, key, value };
                    self.group.replay(&replayed).expect("its own");
                }
                Logged::Marker(producer_id, commits) => self.group.transaction_ended(*producer_id, *commits),
            }
        }
        self.group.loaded(self.now, &mut Effects::default());
    }

    fn take(&mut self, effects: Effects<TransactionReply>) -> Option<TransactionReply> {
        self.transaction_log.extend(effects.records);
        let mut answer = None;
        for (_, reply) in effects.replies {
            match reply {
                TransactionReply::Markers(job) => {
                    self.jobs.push(job);
                    self.take_markers();
                }
                reply => answer = Some(reply),
            }
        }
        answer
    }

    fn take_markers(&mut self) {
        let mut effects = Effects::default();
        self.tickets += 1;
        self.transactions.handle(Ticket(self.tickets), TransactionRequest::TakeMarkers, self.now, &mut effects);
        self.take(effects);
    }

    fn ask(&mut self, request: TransactionRequest) -> TransactionReply {
        let mut effects = Effects::default();
        self.tickets += 1;
        self.transactions.handle(Ticket(self.tickets), request, self.now, &mut effects);
        self.take(effects).expect("an answer")
    }

    /// Asks what may need a producer id that nobody has.
    fn ask_for_identity(
        &mut self,
        request: impl Fn(Option<ProducerId>) -> TransactionRequest,
    ) -> Result<Identity, ErrorCode> {
        let mut fresh = None;
        loop {
            match self.ask(request(fresh)) {
                TransactionReply::NeedsProducerId => {
                    assert_eq!(fresh, None, "it had one");
                    fresh = Some(ProducerId(self.fresh));
                }
                TransactionReply::Producer { producer_id, producer_epoch } => {
                    self.fresh += i64::from(fresh.is_some());
                    return Ok((producer_id.0, producer_epoch));
                }
                TransactionReply::Refused(error) => return Err(error),
                other => panic!("{other:?}"),
            }
        }
    }

    fn init(&mut self, id: &str, expected: Option<Identity>, timeout_ms: i32) -> Result<Identity, ErrorCode> {
        let expected = expected.map(|(producer, epoch)| (ProducerId(producer), epoch));
        self.ask_for_identity(|fresh| {
            let transactional_id = id.to_owned();
            TransactionRequest::InitProducerId(InitProducerId { transactional_id, timeout_ms, expected, fresh })
        })
    }

    fn add(&mut self, id: &str, who: Identity, topic: &str, raises: bool, verify_only: bool) -> ErrorCode {
        let request = AddPartitions {
            transactional_id: id.to_owned(),
            producer_id: ProducerId(who.0),
            producer_epoch: who.1,
            partitions: Partitions::from([(topic.to_owned(), [0].into())]),
            verify_only,
            client_version: version(raises),
        };
        match self.ask(TransactionRequest::AddPartitions(request)) {
            TransactionReply::Partitions(codes) => codes[0].2,
            TransactionReply::Refused(error) => error,
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, id: &str, who: Identity, is_commit: bool, raises: bool) -> Result<Identity, ErrorCode> {
        self.ask_for_identity(|fresh| {
            TransactionRequest::End(End {
                transactional_id: id.to_owned(),
                producer_id: ProducerId(who.0),
                producer_epoch: who.1,
                is_commit,
                client_version: version(raises),
                fresh,
            })
        })
    }

    fn ask_group(&mut self, request: GroupRequest) -> GroupReply {
        let mut effects = Effects::default();
        self.tickets += 1;
        self.group.handle(Ticket(self.tickets), request, self.now, &mut effects);
        self.group_log.extend(effects.records.into_iter().map(|record| Logged::Record(effects.writer, record)));
        effects.replies.pop().expect("an answer").1
    }

    fn commit_offset(&mut self, index: i32, offset: i64, writer: Option<Identity>) -> GroupReply {
        let partition = CommitPartition { index, offset, leader_epoch: -1, metadata: String::new() };
        let writer = writer.map(|(producer, epoch)| TransactionalWriter {
            producer_id: ProducerId(producer),
            producer_epoch: epoch,
            marker_count: None,
        });
        self.ask_group(GroupRequest::CommitOffsets(CommitOffsets {
            group_id: "g".to_owned(),
            speaker: Speaker { generation: -1, ..Speaker::default() },
            writer,
            transactional: None,
            retention_ms: None,
            tells_unknown_group: true,
            topics: vec![CommitTopic { name: "t".to_owned(), topic_id: [1; 16], partitions: vec![partition] }],
        }))
    }

    fn fetch_offset(&mut self, index: i32, require_stable: bool) -> Result<i64, ErrorCode> {
        let topics = Some(vec![("t".to_owned(), vec![index])]);
        let request = GroupRequest::FetchOffsets { group_id: "g".to_owned(), topics, speaker: None, require_stable };
        match self.ask_group(request) {
            GroupReply::Offsets(found) if found[0].1[0].error == ErrorCode::None => Ok(found[0].1[0].offset),
            GroupReply::Offsets(found) => Err(found[0].1[0].error),
            other => panic!("{other:?}"),
        }
    }

    /// Writes the markers of one job.
    fn finish(&mut self, job: &MarkerJob) {
        if job.partitions.contains_key(OFFSETS) {
            self.group_log.push(Logged::Marker(job.producer_id, job.is_commit));
            self.group.transaction_ended(job.producer_id, job.is_commit);
        }
        let done = self.ask(TransactionRequest::MarkersWritten {
            transactional_id: job.transactional_id.clone(),
            producer_id: job.producer_id,
            producer_epoch: job.producer_epoch,
        });
        assert_eq!(done, TransactionReply::Done);
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now.now_ms += ms;
        self.now.wall_ms += ms as i64;
        let mut effects = Effects::default();
        self.transactions.tick(self.now, &mut effects);
        self.take(effects);
    }
}

fn version(raises: bool) -> i16 {
    if raises { 2 } else { 1 }
}

fn group_config() -> GroupConfig {
    GroupConfig {
        group_min_session_timeout_ms: 6_000,
        group_max_session_timeout_ms: 1_800_000,
        group_initial_rebalance_delay_ms: 0,
        group_max_size: 5,
        group_consumer_session_timeout_ms: 45_000,
        group_consumer_heartbeat_interval_ms: 5_000,
        group_consumer_max_size: 5,
        group_consumer_assignment_interval_ms: 0,
        group_consumer_migration_policy: MigrationPolicy::Bidirectional,
        offset_metadata_max_bytes: 4_096,
        offsets_retention_ms: 1 << 50,
        offsets_retention_check_interval_ms: 1 << 50,
    }
}

/// One seed: what is asked, of the server and of the model.
struct Walk {
    random: Random,
    hosted: Hosted,
    model: Model,
    /// Who was told that it is a producer, newest last, with the version that it speaks.
    told: BTreeMap<&'static str, Vec<(Identity, bool)>>,
    /// How often each answer came.
    answers: BTreeMap<String, u32>,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let (random, hosted) = (Random::new(seed), Hosted::new());
        let (model, told, answers) = (Model::default(), BTreeMap::new(), BTreeMap::new());
        let mut walk = Self { random, hosted, model, told, answers };
        if walk.random.coin() {
            // Its epochs are nearly used up.
            let mut transaction = Transaction::new(ProducerId(50), 5_000, walk.hosted.now.wall_ms);
            transaction.producer_epoch = LAST_EPOCH - walk.random.below(6) as i16;
            walk.hosted.transaction_log.push(records::transaction(IDS[0], &transaction).expect("short"));
            let identity = (50, transaction.producer_epoch);
            walk.model
                .ids
                .insert(IDS[0], crate::transaction_model::Known::new(identity, 5_000, walk.hosted.now.wall_ms));
            walk.told.insert(IDS[0], vec![(identity, true)]);
        }
        walk.hosted.restart_transactions();
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
        let (now_ms, fresh) = (self.hosted.now.wall_ms, self.hosted.fresh);
        match self.random.below(100) {
            0..15 => {
                let expected = self.random.coin().then_some(who);
                let timeout_ms = [1_000, 5_000, 60_000, 60_001, 0, -1][self.random.index(6).min(self.random.index(6))];
                let found = self.hosted.init(id, expected, timeout_ms);
                let meant = self.model.init(id, expected, timeout_ms, fresh, now_ms);
                self.note(id, found, self.random.coin());
                self.compare(format!("init {id} {expected:?} {timeout_ms}"), &found, &meant)
            }
            15..40 => {
                let found = self.hosted.add(id, who, topic, raises, false);
                let meant = self.model.add(id, who, topic, raises, now_ms);
                self.compare(format!("add {id} {who:?} {topic} raises {raises}"), &found, &meant)
            }
            40..45 => {
                let found = self.hosted.add(id, who, topic, raises, true);
                let meant = self.model.verify(id, who, topic);
                self.compare(format!("verify {id} {who:?} {topic}"), &found, &meant)
            }
            45..58 => {
                // As the group's core admits it: by version 2 it adds its partition, by version 1 it must have been added.
                let (partition, offset) = (self.random.index(2) as i32, self.random.below(1_000) as i64);
                let found = self.hosted.add(id, who, OFFSETS, raises, !raises);
                let meant = match raises {
                    true => self.model.add(id, who, OFFSETS, raises, now_ms),
                    false => self.model.verify(id, who, OFFSETS),
                };
                if found == ErrorCode::None {
                    let reply = self.hosted.commit_offset(partition, offset, Some(who));
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
                self.hosted.commit_offset(partition, offset, None);
                self.model.commit(partition, offset, None);
                format!("plain commit of {offset} for {partition}")
            }
            62..78 => {
                let commits = self.random.coin();
                let found = self.hosted.end(id, who, commits, raises);
                let meant = self.model.end(id, who, commits, raises, fresh, now_ms);
                self.note(id, found, raises);
                self.compare(format!("end {id} {who:?} commits {commits} raises {raises}"), &found, &meant)
            }
            78..88 => {
                let Some(last) = self.hosted.jobs.len().checked_sub(1) else { return "no job".to_owned() };
                let job = self.hosted.jobs.remove(self.random.index(last + 1));
                self.hosted.finish(&job);
                self.model.completed(&job.transactional_id, now_ms);
                format!("markers of {}", job.transactional_id)
            }
            88..94 => {
                let ms = if self.random.below(10) == 0 { 1_100_000 } else { 1 + self.random.below(4_000) };
                self.hosted.pass_ms(ms);
                self.model.tick(self.hosted.now.wall_ms);
                format!("{ms} ms")
            }
            94..97 => {
                self.hosted.restart_transactions();
                self.model.restart();
                "crash of the transactions' coordinator".to_owned()
            }
            _ => {
                self.hosted.restart_group();
                "crash of the group's coordinator".to_owned()
            }
        }
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
            let described = self.hosted.ask(TransactionRequest::Describe { transactional_id: id.to_owned() });
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
        let jobs = self.hosted.jobs.iter().map(|job| {
            let partitions = job.partitions.keys().cloned().collect();
            (job.transactional_id.clone(), (job.producer_id.0, job.producer_epoch), job.is_commit, partitions)
        });
        assert_eq!(self.hosted.jobs.len(), decided.len(), "one job for each that is decided");
        assert_eq!(jobs.collect::<BTreeSet<_>>(), decided, "what is to be written");
        for partition in 0..2 {
            let known = self.model.offsets.get(&partition).cloned().unwrap_or_default();
            let committed = known.committed.map_or(-1, |(_, offset)| offset);
            assert_eq!(self.hosted.fetch_offset(partition, false), Ok(committed), "offset of {partition}");
            let stable = if known.pending.is_empty() { Ok(committed) } else { Err(ErrorCode::UnstableOffsetCommit) };
            assert_eq!(self.hosted.fetch_offset(partition, true), stable, "stable offset of {partition}");
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
