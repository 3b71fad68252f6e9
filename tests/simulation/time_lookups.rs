//! Lookups by time: how often cold ones read, and that they are right, however the server has ended.

use std::ops::Range;

use alluvium::control::broker_config::BrokerConfig;
use alluvium::record::builder::BatchBuilder;
use alluvium::ring::io::Io;
use alluvium::ring::sim::options::{Crash, DiskOp, SimOptions};
use alluvium::ring::sim::world::Sim;
use alluvium::shard::options::ListenMode;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use alluvium::wire::messages::list_offsets_response::ListOffsetsResponse;
use alluvium::wire::reader::Reader;

use crate::client::Connection;
use crate::remote_reads::leader;
use crate::seeds::seeds;
use crate::server::{CORE_COUNT, DATA_DIR, Server};

const SECOND_NS: u64 = 1_000_000_000;
const TOPIC: &str = "t";
const FIRST_MS: i64 = 1_700_000_000_000;
/// Of 20,000 bytes each; a second apart.
const BATCHES: i64 = 300;
const LOOKUPS: i64 = 23;

fn boot(sim: &Sim, server: &mut Server, seed: u64) {
    server.boot();
    let ready = sim.run_until(|| server.is_ready() || server.failure().is_some(), 60 * SECOND_NS);
    assert!(ready.is_ok() && server.failure().is_none(), "seed {seed}: no boot: {:?}", server.failure());
}

async fn create(io: Io, configs: &[(&str, &str)]) {
    let configs: Vec<_> = [("segment.bytes", "2097152"), ("retention.ms", "-1")]
        .iter()
        .chain(configs)
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let mut first = Connection::open(&io, Server::address(0)).await.expect("it listens");
    first.create_topic(TOPIC, 1, &configs).await.expect("it is new");
}

/// One record each, with the key that `key_of` says.
async fn fill(io: Io, numbers: Range<i64>, key_of: fn(i64) -> i64) {
    let (id, mut connection) = leader(&io, TOPIC, 0).await;
    for number in numbers {
        let mut builder = BatchBuilder::new();
        builder.add(FIRST_MS + 1_000 * number, Some(&key_of(number).to_be_bytes()), Some(&[7; 20_000]));
        connection.send_produce(id, 0, -1, &builder.build().expect("no compressor")).await.expect("it listens");
        connection.receive_produced().await.expect("it answers").expect("nothing is wrong");
    }
}

/// The error code, and the offset.
async fn at_or_after(connection: &mut Connection, timestamp: i64) -> (i16, i64) {
    let asked = ListOffsetsPartition { partition_index: 0, current_leader_epoch: -1, timestamp };
    let topics = vec![ListOffsetsTopic { name: TOPIC, partitions: vec![asked] }];
    let request = ListOffsetsRequest { replica_id: -1, isolation_level: 0, topics, timeout_ms: 0 };
    let body = connection.call(ApiKey::ListOffsets, 10, |out| request.encode(out, 10)).await.expect("it answers");
    let response = ListOffsetsResponse::decode(&mut Reader::new(&body), 10).expect("it makes sense");
    let found = &response.topics[0].partitions[0];
    (found.error_code, found.offset)
}

/// Looks for some times all over the log, while the disk fails the read after `reads`. Says how many lookups came out right.
async fn look(io: Io) -> i64 {
    let (_, mut connection) = leader(&io, TOPIC, 0).await;
    let mut right = 0;
    for number in (0..BATCHES).step_by((BATCHES / LOOKUPS) as usize).take(LOOKUPS as usize) {
        let found = at_or_after(&mut connection, FIRST_MS + 1_000 * number - 5).await;
        right += i64::from(found == (0, number));
    }
    right
}

/// How the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    /// Soon after the checkpoint of the minute.
    Crash(Crash),
    /// When more was written after that.
    CrashLater(Crash),
}

/// However the server ended, each takes one read of a log, of the files that places in memory lead past; without those, one of
/// each index, one of headers, and one of the batch behind those.
#[test]
fn a_cold_lookup_by_time_reads_the_log_once() {
    let kept = [
        End::Stop,
        End::Crash(Crash::Kill),
        End::Crash(Crash::PowerCut),
        End::CrashLater(Crash::Kill),
        End::CrashLater(Crash::PowerCut),
    ];
    let cases = kept.map(|end| (end, true, 1, true)).into_iter();
    let cases = cases.chain([(End::Stop, false, 1, false), (End::Stop, false, 4, true)]);
    let cases = cases.chain([(End::Crash(Crash::Kill), false, 1, false), (End::Crash(Crash::Kill), false, 4, true)]);
    for (seed, (end, are_kept, reads, suffices)) in
        seeds(2).flat_map(|seed| cases.clone().map(move |case| (seed, case)))
    {
        let context = format!("seed {seed}, {end:?}, places kept: {are_kept}, {reads} reads");
        let sim = Sim::new(SimOptions::calm(seed));
        let mut config = BrokerConfig::default();
        config.set_pair("log.cleaner.enable=false").expect("a key of Kafka's");
        let mut server = Server::new(&sim, config, ListenMode::PerCore);
        boot(&sim, &mut server, seed);
        let io = sim.machine().core(0);
        let most = if matches!(end, End::CrashLater(_)) { BATCHES * 2 / 3 } else { BATCHES };
        let job = |numbers: Range<i64>| {
            let io = io.clone();
            async move {
                if numbers.start == 0 {
                    create(io.clone(), &[]).await;
                }
                fill(io, numbers, |number| number).await;
            }
        };
        sim.run(&io, 600 * SECOND_NS, job(0..most)).expect("it serves");
        if end != End::Stop {
            sim.run_for(61 * SECOND_NS);
        }
        sim.run(&io, 600 * SECOND_NS, job(most..BATCHES)).expect("it serves");
        match end {
            End::Stop => {
                server.request_stop();
                assert!(sim.run_until(|| server.has_stopped(), 60 * SECOND_NS).is_ok(), "{context}: no stop");
                assert!(server.finish_stop(&sim, 60 * SECOND_NS), "{context}: no end");
            }
            End::Crash(how) | End::CrashLater(how) => server.crash(how),
        }
        // The one core that has the partition leaves one.
        let files: Vec<String> = (0..CORE_COUNT).map(|core| format!("{DATA_DIR}/time-places.core-{core}")).collect();
        let left: Vec<&String> = files.iter().filter(|path| server.machine().peek(path).is_some()).collect();
        assert_eq!(left.len(), 1, "{context}");
        assert!(are_kept || server.machine().damage(left[0], Vec::clear), "{context}");
        boot(&sim, &mut server, seed);
        server.machine().fail_nth(DiskOp::Read, &format!("{DATA_DIR}/{TOPIC}-0/"), reads * LOOKUPS as u32 + 1);
        let io = sim.machine().core(0);
        let right = sim.run(&io, 600 * SECOND_NS, look(io.clone())).expect("it serves");
        assert_eq!(right == LOOKUPS, suffices, "{context}: {right} of {LOOKUPS} were right");
    }
}

/// All offsets that are there.
async fn offsets(io: &Io) -> Vec<i64> {
    let (id, mut connection) = leader(io, TOPIC, 0).await;
    let (mut next, mut offsets) = (0, Vec::new());
    loop {
        let fetched = connection.fetch(id, 0, next, 0).await.expect("it is in range");
        if fetched.next_offset == next {
            return offsets;
        }
        offsets.extend(fetched.records.iter().map(|(offset, _, _)| *offset));
        next = fetched.next_offset;
    }
}

/// Compaction puts segments of the same names in the place of others, whose places are kept, and crashes come upon it: each
/// lookup finds the first record that is left.
#[test]
fn lookups_by_time_are_right_where_compaction_and_crashes_meet() {
    for seed in seeds(12) {
        let sim = Sim::new(SimOptions::calm(seed));
        let mut config = BrokerConfig::default();
        config.set_pair("log.cleaner.backoff.ms=5000").expect("a key of Kafka's");
        let mut server = Server::new(&sim, config, ListenMode::PerCore);
        boot(&sim, &mut server, seed);
        let mut last = 0;
        for life in 0..4 {
            let context = format!("seed {seed}, life {life}");
            let io = sim.machine().core(0);
            let random = sim.random();
            let more = random.between(20, 150) as i64;
            let (numbers, of_job) = (last..last + more, io.clone());
            last += more;
            let filled = sim.run(&io, 600 * SECOND_NS, async move {
                if numbers.start == 0 {
                    let compacted = [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0")];
                    create(of_job.clone(), &compacted).await;
                }
                // Every second one has a key of its own, and stays.
                fill(of_job, numbers, |number| if number % 2 == 0 { number } else { number % 7 }).await;
            });
            filled.expect("it serves");
            if random.coin() {
                sim.run_for(60 * SECOND_NS);
            }
            sim.run_for(random.between(1, 12 * SECOND_NS));
            server.crash(if random.coin() { Crash::PowerCut } else { Crash::Kill });
            boot(&sim, &mut server, seed);
            let io = sim.machine().core(0);
            let of_job = io.clone();
            let (there, found) = sim
                .run(&io, 600 * SECOND_NS, async move {
                    let there = offsets(&of_job).await;
                    let (_, mut connection) = leader(&of_job, TOPIC, 0).await;
                    let mut found = Vec::new();
                    for number in 0..last {
                        found.push(at_or_after(&mut connection, FIRST_MS + 1_000 * number - 5).await);
                    }
                    (there, found)
                })
                .expect("it serves");
            for (number, found) in (0..last).zip(found) {
                let expected = there.iter().copied().find(|offset| *offset >= number);
                assert_eq!(found, (0, expected.unwrap_or(-1)), "{context}: at or after the time of {number}");
            }
        }
    }
}
