//! kill -9 at random moments under load: what was acknowledged is there.
//!
//! `KILLS` says how often (50 by default), `SEED` repeats a run. Plain and idempotent producers write to partitions of
//! both cores, a reader follows them, and topics are made and deleted meanwhile; the durability changes from start to
//! start. Some kills hit the start itself. A kill leaves the page cache, so both durabilities must keep everything.
//! The idempotent producers outlive the kills: they send again what was not answered, and then nothing of theirs is there
//! twice and nothing is missing.
#![allow(clippy::disallowed_methods, reason = "threads of clients, and random moments")]

mod support;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alluvium::control::internal_topics::partition_of;
use alluvium::record::batch::crc32c;
use alluvium::record::offset::ProducerId;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::messages::find_coordinator_request::FindCoordinatorRequest;
use alluvium::wire::messages::find_coordinator_response::FindCoordinatorResponse;
use alluvium::wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use alluvium::wire::messages::offset_commit_response::OffsetCommitResponse;
use alluvium::wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use alluvium::wire::messages::offset_fetch_response::OffsetFetchResponse;
use alluvium::wire::uuid::Uuid;
use support::client::{Client, ReadRecord, batch, idempotent_batch};
use support::process::{Server, ServerPlan};
use support::random::{self, Random};

/// What a run of the server promised, by partition.
#[derive(Default)]
struct Promises {
    /// What has to stand at each offset: acknowledged, or read by a client.
    records: BTreeMap<i32, BTreeMap<i64, u32>>,
    made: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

impl Promises {
    fn merge(&mut self, other: Self, context: &str) {
        for (partition, records) in other.records {
            let known = self.records.entry(partition).or_default();
            for (offset, value) in records {
                let before = known.insert(offset, value);
                assert!(
                    before.is_none_or(|before| before == value),
                    "{context}: two records at offset {offset} of partition {partition}"
                );
            }
        }
        self.made.extend(other.made);
        for name in other.deleted {
            self.made.remove(&name);
            self.deleted.insert(name);
        }
    }
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let seed = random::seed();
    let kills = random::number_from_env("KILLS", 50);
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().expect("a scratch folder");
    let plan = ServerPlan::new(folder.path()).flags("--log warn");
    let began = Instant::now();
    let mut promises = Promises::default();
    let mut epochs: Vec<i32> = vec![-1; PARTITIONS as usize];
    let mut verified: BTreeMap<i32, i64> = BTreeMap::new();
    let mut killed_in_start = 0;
    let mut survivors: Vec<Option<Survivor>> = (0..2).map(|_| None).collect();
    for kill in 0..kills {
        let context = format!("SEED={seed}, kill {kill}");
        if kill > 0 && random.below(4) == 0 {
            plan.start_and_kill(Duration::from_micros(random.between(500, 60_000)));
            killed_in_start += 1;
        }
        let durability = if random.below(2) == 0 { "segment" } else { "os" };
        let server = plan.clone().flags(&format!("--durability {durability}")).start();
        if kill == 0 {
            let code = server.client(0).create_topic(TOPIC, PARTITIONS, &[("segment.bytes", "1048576")]);
            assert_eq!(code.expect("the server answers"), 0, "{context}");
        }
        check_topics(&server, &promises, &context);
        check_epochs(&server, &mut epochs, &context);
        check_records(&server, &promises, &mut verified, &context);
        promises.merge(load_and_kill(server, &mut random, kill, &mut survivors, &context), &context);
    }
    let server = plan.start();
    let context = format!("SEED={seed}, at the end");
    check_topics(&server, &promises, &context);
    check_epochs(&server, &mut epochs, &context);
    // From the beginning, once more.
    check_records(&server, &promises, &mut BTreeMap::new(), &context);
    let records: usize = promises.records.values().map(BTreeMap::len).sum();
    assert!(records > 100, "{context}: only {records} records were acknowledged; the load does not work");
    println!(
        "{kills} kills under load and {killed_in_start} in the start, {records} acknowledged records, {} topics made, \
         {} deleted, {:.1} s (SEED={seed})",
        promises.made.len(),
        promises.deleted.len(),
        began.elapsed().as_secs_f64()
    );
    server.stop().assert_clean();
}

/// Loads the server, kills it at a random moment; what it had promised by then.
fn load_and_kill(
    server: Server,
    random: &mut Random,
    kill: u64,
    survivors: &mut [Option<Survivor>],
    context: &str,
) -> Promises {
    let killed = AtomicBool::new(false);
    let led = server.client(0).partitions(TOPIC).expect("the server answers").expect("the topic is there");
    let mut promises = Promises::default();
    let lifetime = Duration::from_micros(random.between(5_000, 500_000));
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (core, survivor) in (0..).zip(survivors) {
            let led_here = (0..).zip(&led).filter(|(_, led)| led.core == core).map(|(partition, _)| partition);
            let partitions: Vec<i32> = led_here.collect();
            assert!(!partitions.is_empty(), "{context}: core {core} leads none of {led:?}");
            let plain = ProduceLoad {
                address: server.address(core),
                partitions: partitions.clone(),
                name: format!("{kill} {core} plain"),
                random: Random::new(random.next()),
                survivor: None,
            };
            let killed_of_plain = &killed;
            threads.push(scope.spawn(move || plain.run(killed_of_plain)));
            let idempotent = ProduceLoad {
                address: server.address(core),
                partitions: partitions.clone(),
                name: format!("{SURVIVOR}{core}"),
                random: Random::new(random.next()),
                survivor: Some(survivor),
            };
            threads.push(scope.spawn(move || idempotent.run(killed_of_plain)));
            let (address, partitions, killed) = (server.address(core), partitions.clone(), &killed);
            threads.push(scope.spawn(move || follow(address, &partitions, killed)));
        }
        let (address, killed_of_admin) = (server.address((random.below(2)) as u16), &killed);
        threads.push(scope.spawn(move || make_and_delete(address, kill, killed_of_admin)));
        // A random moment: nothing waits for this to be over.
        thread::sleep(lifetime);
        killed.store(true, Ordering::Release);
        server.kill();
        for thread in threads {
            let promised = thread.join().unwrap_or_else(|_| panic!("{context}: a client failed, see above"));
            promises.merge(promised, context);
        }
    });
    promises
}

struct ProduceLoad<'a> {
    address: SocketAddr,
    partitions: Vec<i32>,
    name: String,
    random: Random,
    /// Of an idempotent producer, which is the same through all kills.
    survivor: Option<&'a mut Option<Survivor>>,
}

/// What an idempotent producer knows, and what it sends again after a kill.
struct Survivor {
    producer: (ProducerId, i16),
    sequences: BTreeMap<i32, i32>,
    unanswered: VecDeque<Sent>,
}

#[derive(Clone)]
struct Sent {
    partition: i32,
    correlation_id: i32,
    values: Vec<u32>,
    records: Vec<u8>,
    repeated: bool,
}

impl ProduceLoad<'_> {
    /// Writes until the connection breaks, which it may do only when the server was killed.
    fn run(mut self, killed: &AtomicBool) -> Promises {
        let mut promises = Promises::default();
        let name = self.name.clone();
        let written = match self.survivor.take() {
            None => self.write_plain(&mut promises),
            Some(survivor) => self.write_idempotent(survivor, &mut promises),
        };
        let error = match written {
            Ok(()) => unreachable!("it writes until the connection breaks"),
            Err(error) => error,
        };
        assert!(killed.load(Ordering::Acquire), "{name}: the server broke the connection by itself: {error}");
        promises
    }

    fn write_plain(&mut self, promises: &mut Promises) -> std::io::Result<()> {
        let mut client = Client::connect(self.address)?;
        let mut in_flight: VecDeque<Sent> = VecDeque::new();
        let mut number = 0;
        loop {
            while in_flight.len() < IN_FLIGHT_MAX {
                let partition = self.any_partition();
                let values: Vec<Vec<u8>> = (0..self.random.between(1, 6)).map(|_| self.value(&mut number)).collect();
                let hashes = values.iter().map(|value| crc32c(value)).collect();
                let correlation_id = client.send_produce(TOPIC, partition, 1, &batch(&values))?;
                let sent = Sent { partition, correlation_id, values: hashes, records: Vec::new(), repeated: false };
                in_flight.push_back(sent);
            }
            let sent = in_flight.pop_front().expect("something is in flight");
            self.take_answer(&mut client, &sent, promises)?;
        }
    }

    fn write_idempotent(&mut self, known: &mut Option<Survivor>, promises: &mut Promises) -> std::io::Result<()> {
        let mut client = Client::connect(self.address)?;
        if known.is_none() {
            let producer = client.init_producer_id()?;
            *known = Some(Survivor { producer, sequences: BTreeMap::new(), unanswered: VecDeque::new() });
        }
        let survivor = known.as_mut().expect("it was made");
        // First what the kill left without an answer, in its order; a copy of a batch that has its answer is another matter.
        survivor.unanswered.retain(|sent| !sent.repeated);
        for sent in &mut survivor.unanswered {
            sent.correlation_id = client.send_produce(TOPIC, sent.partition, -1, &sent.records)?;
        }
        loop {
            while survivor.unanswered.len() < IN_FLIGHT_MAX {
                let partition = self.any_partition();
                let sequence = survivor.sequences.entry(partition).or_insert(0);
                let mut number = u64::try_from(*sequence).expect("few records");
                let first = *sequence;
                let values: Vec<Vec<u8>> = (0..self.random.between(1, 6)).map(|_| self.value(&mut number)).collect();
                let hashes: Vec<u32> = values.iter().map(|value| crc32c(value)).collect();
                let records = idempotent_batch(survivor.producer, first, &values);
                *sequence += i32::try_from(values.len()).expect("a few");
                // A producer that repeats itself is answered with the first copy's offset.
                let copies = if self.random.below(8) == 0 { 2 } else { 1 };
                for copy in 0..copies {
                    // Noted before it is sent: a kill may come in between, and then it is sent again.
                    let (values, records) = (hashes.clone(), records.clone());
                    survivor.unanswered.push_back(Sent {
                        partition,
                        correlation_id: 0,
                        values,
                        records,
                        repeated: copy > 0,
                    });
                    let sent = survivor.unanswered.back_mut().expect("it was put there");
                    sent.correlation_id = client.send_produce(TOPIC, partition, -1, &sent.records)?;
                }
            }
            let sent = survivor.unanswered.front().expect("something is in flight").clone();
            self.take_answer(&mut client, &sent, promises)?;
            survivor.unanswered.pop_front();
        }
    }

    fn take_answer(&self, client: &mut Client, sent: &Sent, promises: &mut Promises) -> std::io::Result<()> {
        let (correlation_id, produced) = client.receive_produced()?;
        assert_eq!(correlation_id, sent.correlation_id, "{}: answers come in order", self.name);
        assert_eq!(produced.error_code, 0, "{}: a write was refused", self.name);
        let records = promises.records.entry(sent.partition).or_default();
        for (offset, value) in (produced.base_offset..).zip(&sent.values) {
            let before = records.insert(offset, *value);
            assert_eq!(before, sent.repeated.then_some(*value), "{}: offset {offset} is given once", self.name);
        }
        Ok(())
    }

    fn any_partition(&mut self) -> i32 {
        self.partitions[self.random.below(self.partitions.len() as u64) as usize]
    }

    /// Unlike any other of its partition; mostly short, sometimes longer than what is written inline.
    fn value(&mut self, number: &mut u64) -> Vec<u8> {
        let mut value = format!("{} {number} ", self.name).into_bytes();
        *number += 1;
        let padding = match self.random.below(50) {
            0 => self.random.between(60_000, 200_000),
            _ => self.random.below(1000),
        };
        value.resize(value.len() + padding as usize, b'.');
        value
    }
}

/// All that a producer which outlives the kills has sent is there once, in its order, without a gap; but for what was not
/// answered at the end.
fn check_survivors(read: &[ReadRecord], context: &str) {
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    for record in read {
        let text = String::from_utf8_lossy(&record.value);
        let mut words = text.split(' ');
        let (Some(name), Some(number)) = (words.next(), words.next()) else { continue };
        if name.starts_with(SURVIVOR) {
            let expected = next.entry(name.to_owned()).or_insert(0);
            assert_eq!(number, expected.to_string(), "{context}: {name} at offset {}", record.offset);
            *expected += 1;
        }
    }
}

/// Reads what is written, as it comes: what a client has read once must not vanish either.
fn follow(address: SocketAddr, partitions: &[i32], killed: &AtomicBool) -> Promises {
    let mut promises = Promises::default();
    let error = loop {
        if let Err(error) = follow_round(address, partitions, &mut promises) {
            break error;
        }
    };
    assert!(killed.load(Ordering::Acquire), "the reader: {error}");
    promises
}

fn follow_round(address: SocketAddr, partitions: &[i32], promises: &mut Promises) -> std::io::Result<()> {
    let mut client = Client::connect(address)?;
    loop {
        for partition in partitions {
            let seen = promises.records.entry(*partition).or_default();
            // The first look finds out where the end is; the rest was verified after the last start.
            let next = match seen.last_key_value() {
                Some((offset, _)) => offset + 1,
                None => client.fetch(TOPIC, *partition, 0, 1)?.high_watermark,
            };
            let fetched = client.fetch(TOPIC, *partition, next, 1 << 20)?;
            assert_eq!(fetched.error_code, 0, "partition {partition} at {next}");
            for record in support::client::records_of(&fetched.records) {
                seen.insert(record.offset, crc32c(&record.value));
            }
        }
    }
}

/// Makes topics, and deletes every second one.
fn make_and_delete(address: SocketAddr, kill: u64, killed: &AtomicBool) -> Promises {
    let mut promises = Promises::default();
    let mut work = || -> std::io::Result<()> {
        let mut client = Client::connect(address)?;
        for number in 0..TOPICS_A_RUN {
            let name = format!("made-{kill}-{number}");
            assert_eq!(client.create_topic(&name, 2, &[])?, 0, "{name}");
            promises.made.insert(name.clone());
            if number % 2 == 0 {
                // Not known to be there any more from here on, nor to be gone before the answer.
                promises.made.remove(&name);
                assert_eq!(client.delete_topic(&name)?, 0, "{name}");
                promises.deleted.insert(name);
            }
        }
        Ok(())
    };
    if let Err(error) = work() {
        assert!(killed.load(Ordering::Acquire), "the administrator: {error}");
    }
    promises
}

fn check_topics(server: &Server, promises: &Promises, context: &str) {
    let mut client = server.client(1);
    for name in &promises.made {
        let partitions = client.partitions(name).expect("the server answers");
        let partitions = partitions.unwrap_or_else(|code| panic!("{context}: topic {name} was made, now error {code}"));
        assert!(partitions.len() == 2, "{context}: {name} {partitions:?}");
        assert!(partitions.iter().all(|led| led.error_code == 0), "{context}: {name} {partitions:?}");
    }
    for name in &promises.deleted {
        let code = client.partitions(name).expect("the server answers").expect_err(name);
        assert_eq!(code, ErrorCode::UnknownTopicOrPartition.code(), "{context}: topic {name} was deleted");
    }
}

fn check_epochs(server: &Server, epochs: &mut [i32], context: &str) {
    let led = server.client(0).partitions(TOPIC).expect("the server answers").expect("the topic is there");
    assert_eq!(led.len(), epochs.len(), "{context}");
    for (partition, (led, before)) in led.iter().zip(epochs).enumerate() {
        assert!(led.leader_epoch > *before, "{context}: epoch of partition {partition}: {before}, then {led:?}");
        *before = led.leader_epoch;
    }
}

/// Reads from what was verified on, and compares with what was promised.
fn check_records(server: &Server, promises: &Promises, verified: &mut BTreeMap<i32, i64>, context: &str) {
    let led = server.client(0).partitions(TOPIC).expect("the server answers").expect("the topic is there");
    for (partition, led) in (0..).zip(led) {
        let from = verified.get(&partition).copied().unwrap_or(0);
        let mut client = server.client(led.core);
        let read = client.read_from(TOPIC, partition, from);
        let read = read.unwrap_or_else(|error| panic!("{context}: partition {partition} from {from}: {error}"));
        check_order(&read, from, led.leader_epoch, &format!("{context}: partition {partition}"));
        if from == 0 {
            check_survivors(&read, &format!("{context}: partition {partition}"));
        }
        let none = BTreeMap::new();
        let promised = promises.records.get(&partition).unwrap_or(&none);
        for (offset, value) in promised.range(from..) {
            let at = usize::try_from(offset - from).expect("a range from there on");
            let found = read.get(at).map(|record| crc32c(&record.value));
            assert_eq!(found, Some(*value), "{context}: offset {offset} of partition {partition} was promised");
        }
        verified.insert(partition, from + read.len() as i64);
    }
}

/// Offsets without gaps, epochs that never go back, no record twice.
fn check_order(read: &[ReadRecord], from: i64, leader_epoch: i32, context: &str) {
    let mut seen = HashSet::new();
    let mut epoch = 0;
    for (offset, record) in (from..).zip(read) {
        assert_eq!(record.offset, offset, "{context}: offsets follow each other");
        assert!(record.leader_epoch >= epoch, "{context}: the epoch goes back at {offset}");
        assert!(record.leader_epoch < leader_epoch, "{context}: an epoch of the future at {offset}");
        epoch = record.leader_epoch;
        assert!(seen.insert(&record.value), "{context}: the record at {offset} is there twice");
    }
}

const TOPIC: &str = "kept";
const PARTITIONS: i32 = 6;
const IN_FLIGHT_MAX: usize = 5;
/// First word of what an idempotent producer writes, with its core.
const SURVIVOR: &str = "survivor-";
const TOPICS_A_RUN: u64 = 5;

/// Which core has a group's coordinator.
fn coordinator_core(server: &Server, group: &str) -> u16 {
    let request = FindCoordinatorRequest { coordinator_keys: vec![group], ..FindCoordinatorRequest::default() };
    let node = server.client(0).call(
        ApiKey::FindCoordinator,
        4,
        |out| request.encode(out, 4),
        |reader| {
            let response = FindCoordinatorResponse::decode(reader, 4)?;
            Ok((response.coordinators[0].error_code, response.coordinators[0].node_id))
        },
    );
    let (error_code, node) = node.expect("the server answers");
    assert_eq!(error_code, 0, "the coordinator of {group}");
    u16::try_from(node % 1000).expect("a core")
}

fn commit(server: &Server, group: &str, topic: &str, offset: i64) -> i16 {
    let partition = OffsetCommitRequestPartition { committed_offset: offset, ..Default::default() };
    let topics = vec![OffsetCommitRequestTopic { name: topic, topic_id: Uuid::ZERO, partitions: vec![partition] }];
    let request = OffsetCommitRequest { group_id: group, topics, ..OffsetCommitRequest::default() };
    let code = server.client(coordinator_core(server, group)).call(
        ApiKey::OffsetCommit,
        8,
        |out| request.encode(out, 8),
        |reader| Ok(OffsetCommitResponse::decode(reader, 8)?.topics[0].partitions[0].error_code),
    );
    code.expect("the server answers")
}

/// The error code and the offset, when the coordinator has been read.
fn committed(server: &Server, group: &str, topic: &str) -> (i16, i64) {
    let topics = vec![OffsetFetchRequestTopics { name: topic, partition_indexes: vec![0], ..Default::default() }];
    let groups = vec![OffsetFetchRequestGroup { group_id: group, topics: Some(topics), ..Default::default() }];
    let request = OffsetFetchRequest { groups, ..OffsetFetchRequest::default() };
    let mut client = server.client(coordinator_core(server, group));
    loop {
        let answered = client.call(
            ApiKey::OffsetFetch,
            8,
            |out| request.encode(out, 8),
            |reader| {
                let response = OffsetFetchResponse::decode(reader, 8)?;
                let group = &response.groups[0];
                let offset = group.topics.first().map_or(-1, |topic| topic.partitions[0].committed_offset);
                Ok((group.error_code, offset))
            },
        );
        match answered.expect("the server answers") {
            (LOAD_IN_PROGRESS, _) => {}
            answer => return answer,
        }
    }
}

#[test]
fn committed_offsets_survive_kills_and_a_corrupt_record_stops_its_coordinator_alone() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let plan = ServerPlan::new(folder.path());
    let groups: Vec<String> = (0..8).map(|number| format!("group-{number}")).collect();
    let server = plan.start();
    assert_eq!(server.client(0).create_topic("read", 1, &[]).expect("the server answers"), 0);
    for group in &groups {
        assert_eq!(committed(&server, group, "read"), (0, -1));
        assert_eq!(commit(&server, group, "read", 5), 0);
    }
    server.kill();
    let server = plan.start();
    for group in &groups {
        assert_eq!(committed(&server, group, "read"), (0, 5), "{group} after a kill");
        assert_eq!(commit(&server, group, "read", 6), 0);
    }
    server.stop().assert_clean();
    // Coordinators move with their partitions, where there are more or fewer cores.
    for cores in ["1", "2"] {
        let server = ServerPlan { cores: cores.to_owned(), ..ServerPlan::new(folder.path()) }.start();
        for group in &groups {
            assert_eq!(committed(&server, group, "read"), (0, 6), "{group} on {cores} cores");
        }
        server.stop().assert_clean();
    }

    let bad = partition_of(&groups[0], 50);
    let log = folder.path().join(format!("__consumer_offsets-{bad}")).join("00000000000000000000.log");
    let mut bytes = fs::read(&log).expect("a segment of the server");
    *bytes.last_mut().expect("it has records") ^= 1;
    fs::write(&log, bytes).expect("our own scratch folder");
    let server = plan.start();
    for group in &groups {
        let wanted = if partition_of(group, 50) == bad { (NOT_COORDINATOR, -1) } else { (0, 6) };
        assert_eq!(committed(&server, group, "read"), wanted, "{group} beside a corrupt record");
    }
    server.wait_for_log("has a corrupt record", 1);
    server.stop().assert_clean();
}

const LOAD_IN_PROGRESS: i16 = 14;
const NOT_COORDINATOR: i16 = 16;
