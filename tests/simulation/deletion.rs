//! What deleted segments leave behind: the log start, and what they alone said of producers.

use std::collections::BTreeMap;

use alluvium::control::broker_config::BrokerConfig;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::offset::ProducerId;
use alluvium::ring::io::Io;
use alluvium::ring::sim::options::{Crash, Delays, DiskOp, SimOptions};
use alluvium::ring::sim::world::Sim;
use alluvium::shard::options::ListenMode;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::uuid::Uuid;

use crate::client::Connection;
use crate::seeds::seeds;
use crate::server::{Server, core_of};

const SECOND_NS: u64 = 1_000_000_000;
const TOPIC: &str = "t";
/// The first is the one that is looked at.
const PARTITIONS: i32 = 4;
const PRODUCER: (i64, i16) = (4711, 0);

/// A server whose retention looks at every segment once a second, and looks soon.
fn boot(sim: &Sim, server: &mut Server, context: &str) {
    server.boot();
    let ready = sim.run_until(|| server.is_ready() || server.failure().is_some(), 60 * SECOND_NS);
    assert!(ready.is_ok() && server.failure().is_none(), "{context}: no boot: {:?}", server.failure());
}

fn config() -> BrokerConfig {
    let mut config = BrokerConfig::default();
    for pair in ["log.initial.task.delay.ms=1000", "log.retention.check.interval.ms=1000"] {
        config.set_pair(pair).expect("a key of Kafka's");
    }
    config
}

/// Runs a client on a machine of its own.
fn run<T: 'static>(sim: &Sim, context: &str, job: impl AsyncFnOnce(Io) -> T + 'static) -> T {
    let io = sim.machine().core(0);
    let task = io.clone();
    let ran = sim.run(&io, 600 * SECOND_NS, async move { job(task).await });
    ran.unwrap_or_else(|error| panic!("{context}: {error:?}"))
}

/// To the core that leads the partition.
async fn leader(io: &Io, partition: i32) -> (Uuid, Connection) {
    let mut first = Connection::open(io, Server::address(0)).await.expect("it listens");
    let topics = first.metadata().await.expect("it answers");
    let view = &topics[TOPIC];
    let core = core_of(view.leaders[&partition].0).expect("one of the cores");
    (view.id, Connection::open(io, Server::address(core)).await.expect("it listens"))
}

/// With segments of three batches: their indexes are full then.
async fn create(io: Io, configs: &[(&str, &str)]) {
    let mut connection = Connection::open(&io, Server::address(0)).await.expect("it listens");
    let small = [("segment.index.bytes", "16"), ("index.interval.bytes", "200")];
    let configs: BTreeMap<String, String> =
        small.iter().chain(configs).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let configs: Vec<_> = configs.into_iter().collect();
    connection.create_topic(TOPIC, PARTITIONS, &configs).await.expect("it is new");
}

/// One record of 200 bytes.
fn batch(io: &Io, sequence: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::new().producer(ProducerId(PRODUCER.0), PRODUCER.1, sequence);
    builder.add(io.wall_ms(), None, Some(&[7; 200]));
    builder.build().expect("no compressor")
}

/// Its offset in the first partition, or the error code.
async fn produce(io: &Io, sequence: i32) -> Result<i64, i16> {
    let (id, mut connection) = leader(io, 0).await;
    connection.send_produce(id, 0, -1, &batch(io, sequence)).await.expect("it takes requests");
    connection.receive_produced().await.expect("it answers")
}

/// Polls the log start until it is `wanted`.
async fn wait_log_start(io: &Io, wanted: i64) {
    for _ in 0..600 {
        let (_, mut connection) = leader(io, 0).await;
        if connection.log_start(TOPIC, 0).await.expect("it answers") >= wanted {
            return;
        }
        io.sleep_ms(100).await;
    }
    panic!("the log start did not come to {wanted}");
}

/// DeleteRecords (or retention) takes the segments that a producer wrote to; the power fails. What is known of it stands in
/// a snapshot alone then: its retries are still found to be duplicates, a gap in its sequence is still refused.
#[test]
fn a_power_cut_after_a_deletion_forgets_no_producer() {
    for seed in seeds(40) {
        let by_client = seed % 2 == 0;
        let context = format!("seed {seed}, by {}", if by_client { "DeleteRecords" } else { "retention.bytes" });
        let sim = Sim::new(SimOptions::calm(seed));
        let mut server = Server::new(&sim, config(), ListenMode::PerCore);
        boot(&sim, &mut server, &context);
        run(&sim, &context, async move |io: Io| {
            let retention = if by_client { "-1" } else { "300" };
            create(io.clone(), &[("retention.bytes", retention)]).await;
            for sequence in 0..20 {
                assert_eq!(produce(&io, sequence).await, Ok(i64::from(sequence)));
            }
            if by_client {
                let (_, mut connection) = leader(&io, 0).await;
                connection.delete_records(TOPIC, 0, 20).await.expect("it is below the high watermark");
                if seed % 4 == 0 {
                    // Before retention has looked: the next start drops the segments.
                    return;
                }
            }
            wait_log_start(&io, 17).await;
        });
        server.crash(Crash::PowerCut);
        boot(&sim, &mut server, &context);
        let outcomes = run(&sim, &context, async |io: Io| {
            let mut outcomes = Vec::new();
            for sequence in [16, 19, 25, 20] {
                outcomes.push(produce(&io, sequence).await);
            }
            outcomes
        });
        let gap = Err(ErrorCode::OutOfOrderSequenceNumber.code());
        assert_eq!(outcomes, [Ok(16), Ok(19), gap, Ok(20)], "{context}");
        server.crash(Crash::Kill);
    }
}

/// The only snapshot of the producers is of an end of the log that is on its way to the disk: DeleteRecords waits for that
/// end, and then lasts with what it takes away.
#[test]
fn a_deletion_waits_until_its_snapshot_cannot_be_lost() {
    for seed in seeds(20) {
        let context = format!("seed {seed}");
        let delays = Delays { sync_ns: (2_000_000, 40_000_000), ..Delays::default() };
        let sim = Sim::new(SimOptions { delays, ..SimOptions::calm(seed) });
        let mut server = Server::new(&sim, config(), ListenMode::PerCore);
        boot(&sim, &mut server, &context);
        run(&sim, &context, async |io: Io| {
            // The active segment has room, so that no roll takes a snapshot of where it begins.
            let configs =
                [("retention.bytes", "-1"), ("alluvium.durability", "segment"), ("segment.index.bytes", "80")];
            create(io.clone(), &configs).await;
        });
        // The disk had no room for those of the rolls.
        server.machine().deny_space(Some(".snapshot"));
        run(&sim, &context, async |io: Io| {
            for sequence in 0..20 {
                assert_eq!(produce(&io, sequence).await, Ok(i64::from(sequence)));
            }
        });
        server.machine().deny_space(None);
        run(&sim, &context, async move |io: Io| {
            let (id, mut connection) = leader(&io, 0).await;
            let (_, mut other) = leader(&io, 0).await;
            // The newest five of a producer are known again, the one before these among them.
            for sequence in 20..21 + (seed % 4) as i32 {
                connection.send_produce(id, 0, -1, &batch(&io, sequence)).await.expect("it takes requests");
            }
            io.sleep_ms(1 + seed % 3).await;
            let deleted = other.delete_records(TOPIC, 0, 20).await;
            assert_eq!(deleted, Ok(20), "seed {seed}: it is below the high watermark");
        });
        server.crash(Crash::PowerCut);
        boot(&sim, &mut server, &context);
        let outcomes = run(&sim, &context, async |io: Io| [produce(&io, 19).await, produce(&io, 40).await]);
        let gap = Err(ErrorCode::OutOfOrderSequenceNumber.code());
        assert_eq!(outcomes, [Ok(19), gap], "{context}");
        server.crash(Crash::Kill);
    }
}

/// A disk that refuses to rename or to remove a deleted segment once, and works again: that file stands before a hole at the
/// next start, and says nothing of what follows.
#[test]
fn a_file_that_could_not_go_costs_no_record_at_the_next_start() {
    for seed in seeds(40) {
        let context = format!("seed {seed}");
        let sim = Sim::new(SimOptions::calm(seed));
        let mut server = Server::new(&sim, config(), ListenMode::PerCore);
        boot(&sim, &mut server, &context);
        run(&sim, &context, async |io: Io| {
            create(io.clone(), &[("retention.bytes", "700")]).await;
            for sequence in 0..8 {
                assert_eq!(produce(&io, sequence).await, Ok(i64::from(sequence)));
            }
        });
        // A rename of its first segment, whichever file of it.
        server.machine().fail_nth(DiskOp::Metadata, "/data/t-0/00000000000000000000.", 1 + (seed % 3) as u32);
        run(&sim, &context, async |io: Io| {
            wait_log_start(&io, 3).await;
            for sequence in 8..20 {
                assert_eq!(produce(&io, sequence).await, Ok(i64::from(sequence)));
                io.sleep_ms(500).await;
            }
            wait_log_start(&io, 15).await;
            // The log start of a neighbour is written, with those of all others that need it.
            for partition in 1..PARTITIONS {
                let (id, mut connection) = leader(&io, partition).await;
                connection.send_produce(id, partition, -1, &batch(&io, 0)).await.expect("it takes requests");
                assert_eq!(connection.receive_produced().await.expect("it answers"), Ok(0));
                connection.delete_records(TOPIC, partition, 1).await.expect("it is the high watermark");
            }
        });
        server.crash(if seed % 2 == 0 { Crash::PowerCut } else { Crash::Kill });
        boot(&sim, &mut server, &context);
        let (start, offsets) = run(&sim, &context, async |io: Io| {
            let (id, mut connection) = leader(&io, 0).await;
            let start = connection.log_start(TOPIC, 0).await.expect("it answers");
            let mut offsets = Vec::new();
            // An answer ends with its segment.
            while offsets.last() != Some(&19) {
                let from = offsets.last().map_or(start, |last| last + 1);
                let fetched = connection.fetch(id, 0, from, 0).await.expect("it is in range");
                assert!(!fetched.records.is_empty(), "{offsets:?} from {start} on, and no more");
                offsets.extend(fetched.records.iter().map(|(offset, _, _)| *offset));
            }
            (start, offsets)
        });
        assert!(start >= 15, "{context}: {start} is below what was deleted");
        assert_eq!(offsets, (start..20).collect::<Vec<_>>(), "{context}");
        server.crash(Crash::Kill);
    }
}
