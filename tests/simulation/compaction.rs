//! A compacted topic through crashes between any two steps: the newest of each key is there, offsets keep their numbers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use alluvium::control::broker_config::BrokerConfig;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::offset::ProducerId;
use alluvium::ring::io::Io;
use alluvium::ring::sim::options::{Crash, SimOptions};
use alluvium::ring::sim::random::Random;
use alluvium::ring::sim::world::Sim;
use alluvium::shard::options::ListenMode;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::uuid::Uuid;

use crate::client::{CallError, Connection};
use crate::seeds::seeds;
use crate::server::{Server, core_of};

const SECOND_NS: u64 = 1_000_000_000;
const KEYS: u64 = 7;
const BATCHES: u32 = 60;

/// A key and its value; none is a tombstone.
type KeyedValue = (u8, Option<Vec<u8>>);

/// What the log promised: each acknowledged record by its offset. A tombstone has no value.
#[derive(Default)]
struct Promises {
    records: RefCell<BTreeMap<i64, KeyedValue>>,
    violation: RefCell<Option<String>>,
    is_produced: Cell<bool>,
    is_over: Cell<bool>,
}

impl Promises {
    fn violate(&self, what: String) {
        self.violation.borrow_mut().get_or_insert(what);
    }

    /// A record that was read; its value tells its key.
    fn saw(&self, offset: i64, value: &[u8]) {
        let records = self.records.borrow();
        let Some((key, promised)) = records.get(&offset) else { return };
        if promised.as_deref().unwrap_or_default() != value {
            self.violate(format!(
                "offset {offset} was a record of key {key}, and is {:?}",
                String::from_utf8_lossy(value)
            ));
        }
    }

    /// All that is there at the end; says how many records compaction has taken.
    fn check(&self, found: &[(i64, Vec<u8>)], high_watermark: i64) -> usize {
        let records = self.records.borrow();
        let mut newest: BTreeMap<u8, i64> = BTreeMap::new();
        for (offset, (key, _)) in records.iter() {
            newest.insert(*key, *offset);
        }
        let by_offset: BTreeMap<i64, &[u8]> = found.iter().map(|(offset, value)| (*offset, &value[..])).collect();
        if high_watermark != records.last_key_value().map_or(0, |(last, _)| last + 1) {
            self.violate(format!("the log ends at {high_watermark}"));
        }
        for (offset, value) in &by_offset {
            match records.get(offset) {
                Some((_, promised)) if promised.as_deref().unwrap_or_default() == *value => {}
                other => self.violate(format!("at {offset} is {value:?}, not {other:?}")),
            }
        }
        for (key, offset) in newest {
            let is_there = by_offset.contains_key(&offset);
            let is_tombstone = records[&offset].1.is_none();
            let older = records.iter().filter(|(_, (of, _))| *of == key).any(|(at, _)| by_offset.contains_key(at));
            if !is_there && (!is_tombstone || older) {
                self.violate(format!("the newest record of key {key}, at {offset}, is missing; older ones: {older}"));
            }
        }
        records.len() - by_offset.len()
    }
}

/// An idempotent producer that does not give up; one batch at a time, so each has one place.
async fn produce(io: Io, topic: Uuid, random: Random, promises: Rc<Promises>) {
    let mut identity = None;
    let mut sequence = 0;
    for number in 0..BATCHES {
        let mut records: Vec<(u8, Option<Vec<u8>>)> = Vec::new();
        for record in 0..random.between(1, 4) {
            let key = random.below(KEYS) as u8;
            let padding = "x".repeat(random.index(200));
            let value = format!("key {key}, {number}/{record}{padding}").into_bytes();
            records.push((key, (random.below(5) > 0).then_some(value)));
        }
        while !promises.is_over.get() {
            let attempt = async {
                if identity.is_none() {
                    identity = Some(Connection::open(&io, Server::address(0)).await?.producer_id().await?);
                }
                let (id, epoch) = identity.expect("just given");
                let mut builder = BatchBuilder::new().producer(ProducerId(id), epoch, sequence);
                for (key, value) in &records {
                    builder.add(io.wall_ms(), Some(&[*key]), value.as_deref());
                }
                let mut connection = leader(&io, topic).await?;
                connection.send_produce(topic, 0, -1, &builder.build().expect("no compressor")).await?;
                connection.receive_produced().await
            };
            match attempt.await {
                Ok(Ok(base)) => {
                    for (record, at) in records.iter().zip(base..) {
                        promises.records.borrow_mut().insert(at, record.clone());
                    }
                    break;
                }
                Ok(Err(code)) if code == ErrorCode::OutOfOrderSequenceNumber.code() => {
                    return promises.violate(format!("batch {number}, sequence {sequence}: out of order"));
                }
                Ok(Err(_)) | Err(CallError::Lost | CallError::Refused(_)) => {}
                Err(CallError::Nonsense(what)) => return promises.violate(what),
            }
            pause(&io, &random, 1_000, 20_000).await;
        }
        sequence += records.len() as i32;
        pause(&io, &random, 100, 6_000).await;
    }
    promises.is_produced.set(true);
}

/// Reads all of the log again and again, while segments are swapped under it.
async fn follow(io: Io, topic: Uuid, random: Random, promises: Rc<Promises>) {
    let mut from = 0;
    while !promises.is_over.get() {
        if let Ok(mut connection) = leader(&io, topic).await {
            for _ in 0..random.between(1, 20) {
                match connection.fetch(topic, 0, from, 0).await {
                    Ok(fetched) if fetched.next_offset > from => {
                        let mut last = from - 1;
                        for (offset, _, value) in &fetched.records {
                            if *offset <= last {
                                promises.violate(format!("{offset} follows {last}"));
                            }
                            last = *offset;
                            promises.saw(*offset, value);
                        }
                        from = fetched.next_offset;
                    }
                    Ok(_) => from = 0,
                    Err(CallError::Refused(code)) if code == ErrorCode::OffsetOutOfRange.code() => {
                        promises.violate(format!("offset {from} is out of range"));
                    }
                    Err(CallError::Nonsense(what)) => return promises.violate(what),
                    Err(_) => break,
                }
                pause(&io, &random, 0, 2_000).await;
            }
        }
        pause(&io, &random, 500, 10_000).await;
    }
}

async fn leader(io: &Io, topic: Uuid) -> Result<Connection, CallError> {
    let topics = Connection::open(io, Server::address(0)).await?.metadata().await?;
    let view = topics.values().find(|view| view.id == topic).ok_or(CallError::Lost)?;
    let core = view.leaders.get(&0).and_then(|(leader, _)| core_of(*leader)).ok_or(CallError::Lost)?;
    Connection::open(io, Server::address(core)).await
}

async fn pause(io: &Io, random: &Random, low_us: u64, high_us: u64) {
    let until_ns = io.now().0 + random.between(low_us, high_us) * 1_000;
    io.sleep_until(alluvium::ring::timer::Nanos(until_ns)).await;
}

fn boot(sim: &Sim, server: &mut Server, context: &str) {
    server.boot();
    let ready = sim.run_until(|| server.is_ready() || server.failure().is_some(), 60 * SECOND_NS);
    assert!(ready.is_ok() && server.failure().is_none(), "{context}: no boot: {:?}", server.failure());
}

/// One seed: how many records compaction took.
fn run(seed: u64) -> usize {
    let context = format!(
        "seed {seed}; run it again: SIMULATION_SEED={seed} cargo test --features sim --test simulation compact"
    );
    let sim = Sim::new(SimOptions::calm(seed));
    let random = sim.random();
    let mut config = BrokerConfig::default();
    let dedupe = ["log.cleaner.dedupe.buffer.size=134217728", "log.cleaner.dedupe.buffer.size=500"][random.index(2)];
    for pair in
        ["log.cleaner.backoff.ms=10", dedupe, "log.initial.task.delay.ms=5", "log.retention.check.interval.ms=20"]
    {
        config.set_pair(pair).expect("a config that works");
    }
    let mut server = Server::new(&sim, config, ListenMode::PerCore);
    boot(&sim, &mut server, &context);
    let pick = |values: &[&str]| values[random.index(values.len())].to_owned();
    // A segment is full by its age, or by its index; those of one age become one when they are compacted.
    let configs = [
        ("cleanup.policy".to_owned(), "compact".to_owned()),
        ("segment.ms".to_owned(), pick(&["3", "15"])),
        ("segment.index.bytes".to_owned(), pick(&["24", "96", "10485760"])),
        ("index.interval.bytes".to_owned(), pick(&["0", "100", "4096"])),
        ("min.cleanable.dirty.ratio".to_owned(), pick(&["0", "0.5"])),
        ("delete.retention.ms".to_owned(), pick(&["0", "30", "86400000"])),
        ("file.delete.delay.ms".to_owned(), pick(&["0", "50", "60000"])),
    ];
    let io = sim.machine().core(0);
    let task = io.clone();
    let made = sim.run(&io, 600 * SECOND_NS, async move {
        let mut connection = Connection::open(&task, Server::address(0)).await.expect("it listens");
        connection.create_topic("t", 1, &configs).await.expect("it is new")
    });
    let topic = made.unwrap_or_else(|error| panic!("{context}: {error:?}"));
    let promises: Rc<Promises> = Rc::default();
    io.spawn(produce(io.clone(), topic, random.fork(), promises.clone()));
    io.spawn(follow(io.clone(), topic, random.fork(), promises.clone()));
    let is_wrong = || promises.violation.borrow().is_some();
    for _ in 0..random.between(2, 6) {
        let _ = sim.run_until(is_wrong, random.between(1_000_000, 120_000_000));
        let how = [Crash::PowerCut, Crash::PowerCut, Crash::Kill][random.index(3)];
        server.crash(how);
        if random.below(3) == 0 {
            // A crash while it starts.
            server.boot();
            let _ = sim.run_until(is_wrong, random.between(1, 20_000_000));
            server.crash(how);
        }
        boot(&sim, &mut server, &context);
    }
    let ended = sim.run_until(|| promises.is_produced.get() || is_wrong(), 600 * SECOND_NS);
    assert!(ended.is_ok() || is_wrong(), "{context}: the producer does not come to an end");
    // Time to compact what is left.
    let _ = sim.run_until(is_wrong, 200_000_000);
    if random.coin() {
        server.crash(Crash::PowerCut);
        boot(&sim, &mut server, &context);
    }
    promises.is_over.set(true);
    let task = io.clone();
    let read = sim.run(&io, 600 * SECOND_NS, async move {
        let mut connection = leader(&task, topic).await.expect("it listens");
        let (mut found, mut from) = (Vec::new(), 0);
        loop {
            let fetched = connection.fetch(topic, 0, from, 0).await.expect("it answers");
            found.extend(fetched.records.iter().map(|(offset, _, value)| (*offset, value.clone())));
            if fetched.next_offset <= from {
                return (found, fetched.high_watermark);
            }
            from = fetched.next_offset;
        }
    });
    let (found, high_watermark) = read.unwrap_or_else(|error| panic!("{context}: {error:?}"));
    let taken = promises.check(&found, high_watermark);
    if let Some(violation) = &*promises.violation.borrow() {
        panic!("{violation}\n{}\n{context}", sim.trace_tail());
    }
    server.crash(Crash::Kill);
    taken
}

#[test]
fn a_compacted_topic_keeps_the_newest_of_each_key_through_crashes() {
    let range = seeds(40);
    let is_whole = range.end - range.start >= 40;
    let taken: usize = range.map(run).sum();
    assert!(!is_whole || taken > 1_000, "compaction took {taken} records only");
}

/// The check can fail: each promise, broken.
#[test]
fn a_compaction_that_loses_or_renumbers_is_found_out() {
    let record = |key: u8, value: &str| (key, (!value.is_empty()).then(|| value.as_bytes().to_vec()));
    let records =
        [(0, record(1, "a")), (1, record(2, "b")), (2, record(1, "c")), (3, record(2, "")), (4, record(3, "d"))];
    for (found, high_watermark, is_right) in [
        (vec![(0, "a"), (1, "b"), (2, "c"), (3, ""), (4, "d")], 5, true),
        (vec![(2, "c"), (3, ""), (4, "d")], 5, true),
        (vec![(2, "c"), (4, "d")], 5, true),
        (vec![(1, "b"), (2, "c"), (4, "d")], 5, false),
        (vec![(0, "a"), (3, ""), (4, "d")], 5, false),
        (vec![(0, "c"), (3, ""), (4, "d")], 5, false),
        (vec![(2, "c"), (3, ""), (4, "d")], 4, false),
        (vec![(2, "c"), (3, "")], 5, false),
    ] {
        let promises = Promises::default();
        promises.records.borrow_mut().extend(records.clone());
        let owned: Vec<(i64, Vec<u8>)> = found.iter().map(|(at, value)| (*at, value.as_bytes().to_vec())).collect();
        promises.check(&owned, high_watermark);
        assert_eq!(promises.violation.borrow().is_none(), is_right, "{found:?} up to {high_watermark}");
    }
}
