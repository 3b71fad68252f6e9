//! Several data directories: one fails, the others go on, and each is left as it should be.

use std::collections::BTreeSet;

use alluvium::control::broker_config::BrokerConfig;
use alluvium::record::builder::BatchBuilder;
use alluvium::ring::io::Io;
use alluvium::ring::sim::options::{Crash, DiskOp, SimOptions};
use alluvium::ring::sim::world::Sim;
use alluvium::shard::options::ListenMode;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::uuid::Uuid;

use crate::client::{CallError, Connection};
use crate::seeds::seeds;
use crate::server::{Server, core_of};

const SECOND_NS: u64 = 1_000_000_000;
const PARTITIONS: i32 = 8;

fn batch(number: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.add(1_700_000_000_000, None, Some(&number.to_be_bytes()));
    builder.build().expect("no compressor")
}

fn boot(sim: &Sim, server: &mut Server, context: &str) {
    server.boot();
    let ready = sim.run_until(|| server.is_ready() || server.failure().is_some(), 60 * SECOND_NS);
    assert!(ready.is_ok() && server.failure().is_none(), "{context}: no boot: {:?}", server.failure());
}

fn stop(sim: &Sim, server: &mut Server, context: &str) {
    server.request_stop();
    assert!(sim.run_until(|| server.has_stopped(), 60 * SECOND_NS).is_ok(), "{context}: no stop");
    assert!(server.finish_stop(sim, 60 * SECOND_NS), "{context}: no end");
}

/// To the core that leads each partition.
async fn leader(io: &Io, topic: &str, partition: i32) -> (Uuid, Connection) {
    let mut first = Connection::open(io, Server::address(0)).await.expect("it listens");
    let topics = first.metadata().await.expect("it answers");
    let view = &topics[topic];
    let core = core_of(view.leaders[&partition].0).expect("one of the cores");
    (view.id, Connection::open(io, Server::address(core)).await.expect("it listens"))
}

/// Writes a record to each partition; which were refused, and with what.
async fn produce_to_all(io: Io, topic: &'static str, number: i32) -> Vec<Result<i64, i16>> {
    let mut outcomes = Vec::new();
    for partition in 0..PARTITIONS {
        let (id, mut connection) = leader(&io, topic, partition).await;
        connection.send_produce(id, partition, -1, &batch(number)).await.expect("it takes requests");
        outcomes.push(connection.receive_produced().await.expect("it answers"));
    }
    outcomes
}

/// The values of each partition; the error code where it is refused.
async fn read_all(io: Io, topic: &'static str) -> Vec<Result<Vec<i32>, i16>> {
    let mut found = Vec::new();
    for partition in 0..PARTITIONS {
        let (id, mut connection) = leader(&io, topic, partition).await;
        found.push(match connection.fetch(id, partition, 0, 0).await {
            Ok(fetched) => Ok(fetched
                .records
                .iter()
                .map(|(_, _, value)| i32::from_be_bytes(value[..].try_into().expect("4 bytes")))
                .collect()),
            Err(CallError::Refused(code)) => Err(code),
            Err(error) => panic!("fetch of {topic}-{partition}: {error:?}"),
        });
    }
    found
}

/// The partitions of a topic that have a folder in a directory.
fn partitions_in(server: &Server, dir: &str, topic: &str) -> BTreeSet<i32> {
    let has =
        |partition: &i32| server.machine().peek(format!("{dir}/{topic}-{partition}/partition.metadata")).is_some();
    (0..PARTITIONS).filter(has).collect()
}

/// Runs a client on a machine of its own.
fn run<T: 'static>(sim: &Sim, context: &str, job: impl AsyncFnOnce(Io) -> T + 'static) -> T {
    let io = sim.machine().core(0);
    let task = io.clone();
    let ran = sim.run(&io, 600 * SECOND_NS, async move { job(task).await });
    ran.unwrap_or_else(|error| panic!("{context}: {error:?}"))
}

/// A server with these data directories, and topic `t` in all of them.
fn boot_with_topic(sim: &Sim, dirs: &[&'static str], context: &str) -> Server {
    let mut server = Server::new(sim, BrokerConfig::default(), ListenMode::PerCore);
    server.data_dirs = dirs.to_vec();
    boot(sim, &mut server, context);
    run(sim, context, async |io: Io| {
        let mut connection = Connection::open(&io, Server::address(0)).await.expect("it listens");
        connection.create_topic("t", PARTITIONS, &[]).await.expect("it is new");
    });
    server
}

/// A directory whose disk gives an error at a write or a sync goes offline whole, on both cores; the other goes on, gets all
/// that is new, and is left cleanly. Afterwards all that was acknowledged is there, whatever the order of the directories.
#[test]
fn one_failed_directory_takes_only_its_own_offline() {
    for seed in seeds(30) {
        let op = if seed % 2 == 0 { DiskOp::Write } else { DiskOp::Sync };
        let context = format!("seed {seed}, {op:?}");
        let sim = Sim::new(SimOptions::calm(seed));
        let mut server = boot_with_topic(&sim, &["/data", "/more"], &context);
        let (first, second) = (partitions_in(&server, "/data", "t"), partitions_in(&server, "/more", "t"));
        assert_eq!((first.len(), second.len()), (4, 4), "{context}: placed evenly");
        let wrote = run(&sim, &context, async |io: Io| produce_to_all(io, "t", 1).await);
        assert!(wrote.iter().all(Result::is_ok), "{context}: {wrote:?}");

        server.machine().fail_nth(op, "/more/t-", 1);
        let storage_error = ErrorCode::KafkaStorageError.code();
        let _ = run(&sim, &context, async |io: Io| produce_to_all(io, "t", 2).await);
        let wrote = run(&sim, &context, async |io: Io| produce_to_all(io, "t", 3).await);
        for (partition, outcome) in (0..).zip(&wrote) {
            let expected = if second.contains(&partition) { Err(storage_error) } else { Ok(2) };
            assert_eq!(*outcome, expected, "{context}: partition {partition}");
        }
        let read = run(&sim, &context, async |io: Io| read_all(io, "t").await);
        for (partition, outcome) in (0..).zip(&read) {
            let expected = if second.contains(&partition) { Err(storage_error) } else { Ok(vec![1, 2, 3]) };
            assert_eq!(*outcome, expected, "{context}: partition {partition}");
        }
        run(&sim, &context, async |io: Io| {
            let mut connection = Connection::open(&io, Server::address(0)).await.expect("it listens");
            connection.create_topic("new", PARTITIONS, &[]).await.expect("it is new");
        });
        assert_eq!(
            partitions_in(&server, "/data", "new").len(),
            PARTITIONS as usize,
            "{context}: nothing new in the failed one"
        );

        stop(&sim, &mut server, &context);
        let marker = |dir: &str| server.machine().peek(format!("{dir}/.kafka_cleanshutdown")).is_some();
        assert_eq!((marker("/data"), marker("/more")), (true, false), "{context}: clean markers");

        // The disk works again, and the directories are named in another order.
        server.data_dirs = vec!["/more", "/data"];
        boot(&sim, &mut server, &context);
        let read = run(&sim, &context, async |io: Io| read_all(io, "t").await);
        for (partition, outcome) in (0..).zip(&read) {
            let values =
                outcome.as_ref().unwrap_or_else(|code| panic!("{context}: partition {partition}: error {code}"));
            assert_eq!(values[0], 1, "{context}: partition {partition}: {values:?}");
            assert!(
                !first.contains(&partition) || values[..] == [1, 2, 3],
                "{context}: partition {partition}: {values:?}"
            );
        }
        server.crash(Crash::Kill);
    }
}

/// While the disk of one directory takes its time over each sync, the partitions of the other are answered as ever.
#[test]
fn a_disk_that_hangs_in_syncs_holds_up_its_own_partitions_alone() {
    for seed in seeds(30) {
        let context = format!("seed {seed}");
        let sim = Sim::new(SimOptions::calm(seed));
        // Three, for of two each core would have one alone.
        let mut server = boot_with_topic(&sim, &["/data", "/more", "/third"], &context);
        let slow = partitions_in(&server, "/more", "t");
        server.machine().slow_syncs("/more", 60 * SECOND_NS);
        let task_context = context.clone();
        run(&sim, &context, async move |io: Io| {
            let mut held_up = Vec::new();
            for partition in slow.iter().copied() {
                let (id, mut connection) = leader(&io, "t", partition).await;
                connection.send_produce(id, partition, -1, &batch(1)).await.expect("it takes requests");
                held_up.push(connection);
            }
            // The syncs of these have begun, whichever way they are made.
            io.sleep_ms(1_000).await;
            let began = io.now();
            for number in 0..3 {
                for partition in (0..PARTITIONS).filter(|partition| !slow.contains(partition)) {
                    let (id, mut connection) = leader(&io, "t", partition).await;
                    connection.send_produce(id, partition, -1, &batch(number)).await.expect("it takes requests");
                    let produced = connection.receive_produced().await.expect("it answers");
                    produced.unwrap_or_else(|code| panic!("{task_context}: refused: {code}"));
                }
            }
            let took_ms = io.now().since(began) / 1_000_000;
            assert!(took_ms < 3_000, "{task_context}: {took_ms} ms for syncs that wait for nobody");
            for mut connection in held_up {
                let early = connection.receive_produced().await;
                assert!(matches!(early, Err(CallError::Lost)), "{task_context}: durable before its sync: {early:?}");
            }
        });
        server.crash(Crash::Kill);
    }
}
