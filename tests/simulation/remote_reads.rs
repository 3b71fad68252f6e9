//! Reads of a tier that is elsewhere and slow, or fails: what waits for it, what does not, and what is said.

use alluvium::control::broker_config::BrokerConfig;
use alluvium::record::builder::BatchBuilder;
use alluvium::ring::io::Io;
use alluvium::ring::sim::options::{Crash, Delays, SimOptions};
use alluvium::ring::sim::world::Sim;
use alluvium::shard::options::ListenMode;
use alluvium::tier::sim_store::StoreFaults;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use alluvium::wire::messages::fetch_response::FetchResponse;
use alluvium::wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use alluvium::wire::messages::list_offsets_response::ListOffsetsResponse;
use alluvium::wire::reader::Reader;
use alluvium::wire::uuid::Uuid;

use crate::client::Connection;
use crate::seeds::seeds;
use crate::server::{Server, SimTier, core_of};

const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const COLD: &str = "cold";
const HOT: &str = "hot";
pub(crate) const PARTITIONS: i32 = 16;
/// Of each partition.
pub(crate) const RECORDS: i64 = 8;
/// Records have times from here on, a second apart.
pub(crate) const FIRST_MS: i64 = 1_700_000_000_000;
pub(crate) const EARLIEST_LOCAL: i64 = -4;

/// A world with a cold and a hot topic, and a store that is as the test wants it from now on.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) server: Server,
    context: String,
}

impl World {
    pub(crate) fn new(seed: u64, pairs: &[&str], faults: StoreFaults) -> Self {
        let context = format!("seed {seed}");
        // Syncs are quick: what takes long is the store.
        let delays = Delays { sync_ns: (100_000, 500_000), ..Delays::default() };
        let sim = Sim::new(SimOptions { seed, delays, ..SimOptions::default() });
        let mut config = BrokerConfig::default();
        config.enable_tier();
        let usual = [
            "log.initial.task.delay.ms=10",
            "log.retention.check.interval.ms=100",
            "remote.log.manager.task.interval.ms=100",
        ];
        for pair in usual.iter().chain(pairs) {
            config.set_pair(pair).expect("a key of Kafka's");
        }
        let mode = if seed % 2 == 1 { ListenMode::FirstCore } else { ListenMode::PerCore };
        let mut server = Server::new(&sim, config, mode);
        server.tier = Some(SimTier { elsewhere: Some(StoreFaults::default()), memory_bytes: 16 << 20 });
        let mut world = Self { sim, server, context };
        world.boot();
        world.run(async |io: Io| {
            let mut first = Connection::open(&io, Server::address(0)).await.expect("it listens");
            let tiered = [
                ("segment.index.bytes", "48"),
                ("index.interval.bytes", "0"),
                ("retention.ms", "-1"),
                ("remote.storage.enable", "true"),
                ("local.retention.bytes", "0"),
            ];
            for (name, configs) in [(COLD, &tiered[..]), (HOT, &tiered[..3])] {
                let configs: Vec<_> =
                    configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
                first.create_topic(name, PARTITIONS, &configs).await.expect("it is new");
            }
            for partition in 0..PARTITIONS {
                for at in 0..RECORDS {
                    produce(&io, COLD, partition, FIRST_MS + 1000 * at).await;
                }
                produce(&io, HOT, partition, FIRST_MS).await;
            }
            for partition in 0..PARTITIONS {
                let (_, mut connection) = leader(&io, COLD, partition).await;
                while list(&mut connection, partition, EARLIEST_LOCAL, 0).await != (0, RECORDS) {
                    io.sleep_ms(50).await;
                }
            }
        });
        world.boot_with(faults);
        world
    }

    /// A new process: nothing is in memory.
    pub(crate) fn boot_with(&mut self, faults: StoreFaults) {
        self.boot_within(faults, 16 << 20);
    }

    fn boot_within(&mut self, faults: StoreFaults, memory_bytes: usize) {
        self.server.crash(Crash::Kill);
        self.server.tier = Some(SimTier { elsewhere: Some(faults), memory_bytes });
        self.boot();
    }

    pub(crate) fn boot(&mut self) {
        self.server.boot();
        let ready = self.sim.run_until(|| self.server.is_ready() || self.server.failure().is_some(), 60 * SECOND_NS);
        assert!(
            ready.is_ok() && self.server.failure().is_none(),
            "{}: no boot: {:?}",
            self.context,
            self.server.failure()
        );
    }

    /// Runs a client on a machine of its own.
    pub(crate) fn run<T: 'static>(&self, job: impl AsyncFnOnce(Io) -> T + 'static) -> T {
        let io = self.sim.machine().core(0);
        let task = io.clone();
        let ran = self.sim.run(&io, 600 * SECOND_NS, async move { job(task).await });
        ran.unwrap_or_else(|error| panic!("{}: {error:?}", self.context))
    }
}

pub(crate) async fn leader(io: &Io, topic: &str, partition: i32) -> (Uuid, Connection) {
    let mut first = Connection::open(io, Server::address(0)).await.expect("it listens");
    let topics = first.metadata().await.expect("it answers");
    let view = &topics[topic];
    let core = core_of(view.leaders[&partition].0).expect("one of the cores");
    (view.id, Connection::open(io, Server::address(core)).await.expect("it listens"))
}

/// Partitions of both topics whose leader is that of the first cold one, and a connection to it.
async fn neighbours(io: &Io) -> (Connection, Uuid, Vec<i32>, Uuid, i32) {
    let mut first = Connection::open(io, Server::address(0)).await.expect("it listens");
    let topics = first.metadata().await.expect("it answers");
    let (cold, hot) = (&topics[COLD], &topics[HOT]);
    let node = cold.leaders[&0].0;
    let of = |leaders: &std::collections::BTreeMap<i32, (i32, i32)>| {
        leaders.iter().filter(|(_, (leader, _))| *leader == node).map(|(partition, _)| *partition).collect::<Vec<_>>()
    };
    let connection = Connection::open(io, Server::address(core_of(node).expect("a core"))).await.expect("it listens");
    let hot_here = *of(&hot.leaders).first().expect("some partition is there");
    (connection, cold.id, of(&cold.leaders), hot.id, hot_here)
}

pub(crate) async fn produce(io: &Io, topic: &str, partition: i32, time_ms: i64) {
    let (id, mut connection) = leader(io, topic, partition).await;
    let mut builder = BatchBuilder::new();
    builder.add(time_ms, None, Some(&[7; 200]));
    connection.send_produce(id, partition, -1, &builder.build().expect("no compressor")).await.expect("it listens");
    connection.receive_produced().await.expect("it answers").expect("nothing is wrong");
}

/// The error code, and the offset.
pub(crate) async fn list(connection: &mut Connection, partition: i32, timestamp: i64, timeout_ms: i32) -> (i16, i64) {
    let asked = ListOffsetsPartition { partition_index: partition, current_leader_epoch: -1, timestamp };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 0,
        topics: vec![ListOffsetsTopic { name: COLD, partitions: vec![asked] }],
        timeout_ms,
    };
    let body = connection.call(ApiKey::ListOffsets, 10, |out| request.encode(out, 10)).await.expect("it answers");
    let response = ListOffsetsResponse::decode(&mut Reader::new(&body), 10).expect("it makes sense");
    let found = &response.topics[0].partitions[0];
    (found.error_code, found.offset)
}

/// One fetch: error codes and bytes of records, in the order of the wishes.
async fn fetch(
    connection: &mut Connection,
    wanted: &[(Uuid, i32)],
    bytes_max: i32,
    partition_bytes_max: i32,
) -> Vec<(i16, usize)> {
    fetch_as(connection, wanted, 0, bytes_max, partition_bytes_max, 0).await
}

pub(crate) async fn fetch_as(
    connection: &mut Connection,
    wanted: &[(Uuid, i32)],
    fetch_offset: i64,
    bytes_max: i32,
    partition_bytes_max: i32,
    isolation_level: i8,
) -> Vec<(i16, usize)> {
    let topics = wanted.chunk_by(|one, next| one.0 == next.0).map(|of_topic| FetchTopic {
        topic_id: of_topic[0].0,
        partitions: of_topic
            .iter()
            .map(|(_, partition)| FetchPartition {
                partition: *partition,
                fetch_offset,
                partition_max_bytes: partition_bytes_max,
                ..FetchPartition::default()
            })
            .collect(),
        ..FetchTopic::default()
    });
    let request = FetchRequest {
        max_wait_ms: 100,
        min_bytes: 1,
        max_bytes: bytes_max,
        isolation_level,
        topics: topics.collect(),
        ..FetchRequest::default()
    };
    let body = connection.call(ApiKey::Fetch, 16, |out| request.encode(out, 16)).await.expect("it answers");
    let response = FetchResponse::decode(&mut Reader::new(&body), 16).expect("it makes sense");
    let mut found = Vec::new();
    for (topic, partition) in wanted {
        let of_topic = response.responses.iter().find(|answer| answer.topic_id == *topic).expect("each is answered");
        let answer = of_topic.partitions.iter().find(|answer| answer.partition_index == *partition).expect("each");
        found.push((answer.error_code, answer.records.unwrap_or_default().len()));
    }
    found
}

fn slow(us: u64) -> StoreFaults {
    StoreFaults { hang_per_million: 1_000_000, hang_us: us, ..StoreFaults::default() }
}

/// How long `job` takes, in milliseconds.
async fn timed<T>(io: &Io, job: impl Future<Output = T>) -> (u64, T) {
    let began_at = io.now();
    let done = job.await;
    (io.now().since(began_at) / 1_000_000, done)
}

#[test]
fn c143_all_cold_partitions_of_a_fetch_move_and_hold_up_nothing_hot() {
    for seed in seeds(6) {
        let mut world = World::new(seed, &["remote.fetch.max.wait.ms=20000"], slow(200_000));
        let one_ms = world.run(async |io: Io| {
            let (mut connection, cold, partitions, ..) = neighbours(&io).await;
            let wanted = [(cold, partitions[0])];
            let (ms, found) = timed(&io, fetch(&mut connection, &wanted, 1 << 20, 1 << 20)).await;
            assert!(found[0].0 == 0 && found[0].1 > 200, "{found:?}");
            ms
        });
        assert!(one_ms >= 200, "seed {seed}: the store is slow, and {one_ms} ms were enough");
        world.boot_with(slow(200_000));
        world.run(async move |io: Io| {
            let (mut connection, cold, partitions, hot, hot_partition) = neighbours(&io).await;
            let wanted: Vec<_> = partitions.iter().map(|partition| (cold, *partition)).collect();
            assert!(wanted.len() >= 4, "{partitions:?}");
            let is_over = std::rc::Rc::new(std::cell::Cell::new(false));
            let (told, task) = (is_over.clone(), io.clone());
            io.spawn(async move {
                let (ms, found) = timed(&task, fetch(&mut connection, &wanted, 1 << 20, 1 << 20)).await;
                assert!(found.iter().all(|(code, bytes)| *code == 0 && *bytes > 200), "seed {seed}: {found:?}");
                assert!(ms <= 3 * one_ms, "seed {seed}: {ms} ms for all, {one_ms} for one");
                told.set(true);
            });
            let (mut longest_ms, mut rounds) = (0, 0);
            while !is_over.get() {
                let (ms, ()) = timed(&io, produce(&io, HOT, hot_partition, FIRST_MS)).await;
                longest_ms = longest_ms.max(ms);
                let (mut other, ..) = neighbours(&io).await;
                let (ms, found) = timed(&io, fetch(&mut other, &[(hot, hot_partition)], 1 << 20, 1 << 20)).await;
                assert!(found[0].1 > 0);
                longest_ms = longest_ms.max(ms);
                rounds += 1;
            }
            assert!(rounds > 3 && longest_ms < 100, "seed {seed}: {rounds} rounds, the longest took {longest_ms} ms");
        });
        world.server.crash(Crash::Kill);
    }
}

#[test]
fn a_store_that_hangs_delays_a_fetch_by_its_wait_alone_and_what_it_read_is_not_lost() {
    for seed in seeds(6) {
        let mut world = World::new(seed, &[], slow(2_000_000));
        world.run(async move |io: Io| {
            let (mut connection, cold, partitions, hot, hot_partition) = neighbours(&io).await;
            let wanted = [(cold, partitions[0]), (hot, hot_partition)];
            let began_at = io.now();
            let mut rounds = 0;
            loop {
                let (ms, found) = timed(&io, fetch(&mut connection, &wanted, 1 << 20, 1 << 20)).await;
                assert!(ms < 700, "seed {seed}: {ms} ms, and it may wait for 500");
                assert!(found[1].0 == 0 && found[1].1 > 0, "seed {seed}: the hot one was there: {found:?}");
                assert_eq!(found[0].0, 0, "seed {seed}: late is no error");
                rounds += 1;
                if found[0].1 > 0 {
                    break;
                }
                assert!(ms >= 490, "seed {seed}: {ms} ms");
            }
            // To open it, its indexes, its records.
            let all_ms = io.now().since(began_at) / 1_000_000;
            assert!(rounds > 4 && all_ms < 3 * 2_000 + 1_500, "seed {seed}: {rounds} rounds, {all_ms} ms");
            let (ms, found) = timed(&io, fetch(&mut connection, &wanted, 1 << 20, 1 << 20)).await;
            assert!(ms < 100 && found[0].1 > 0, "seed {seed}: it is kept: {ms} ms");
        });
        world.server.crash(Crash::Kill);
    }
}

/// What is there is not held up for long by what is late, and that comes with a later fetch.
#[test]
fn a_partition_that_is_late_holds_up_none_that_is_there() {
    let mut early = 0;
    // Those with a core of its own for each broker: what lies on several cores is waited for.
    for seed in seeds(12).filter(|seed| seed % 2 == 0) {
        let some_hang = StoreFaults { hang_per_million: 250_000, hang_us: 1_000_000, ..StoreFaults::default() };
        let mut world = World::new(seed, &["remote.fetch.max.wait.ms=20000"], some_hang);
        early += world.run(async move |io: Io| {
            let (mut connection, cold, partitions, ..) = neighbours(&io).await;
            let mut wanted: Vec<_> = partitions.iter().map(|partition| (cold, *partition)).collect();
            let (mut early, began_at) = (0, io.now());
            while !wanted.is_empty() {
                let (ms, found) = timed(&io, fetch(&mut connection, &wanted, 1 << 20, 1 << 20)).await;
                assert!(found.iter().any(|(_, bytes)| *bytes > 200), "seed {seed}: {ms} ms for nothing");
                assert!(found.iter().all(|(code, _)| *code == 0), "seed {seed}: late is no error: {found:?}");
                let mut each = found.iter();
                wanted.retain(|_| each.next().is_none_or(|(_, bytes)| *bytes == 0));
                assert!(!(100..=800).contains(&ms), "seed {seed}: {ms} ms, and {} are late", wanted.len());
                early += usize::from(ms < 100 && !wanted.is_empty());
            }
            let all_ms = io.now().since(began_at) / 1_000_000;
            assert!(all_ms < 8_000, "seed {seed}: {all_ms} ms until all were there");
            early
        });
        world.server.crash(Crash::Kill);
    }
    assert!(early > 3 || std::env::var("SIMULATION_SEED").is_ok(), "{early} answers without what was late");
}

#[test]
fn a_store_that_fails_fails_its_partitions_alone() {
    for seed in seeds(4) {
        let failing = StoreFaults { error_per_million: 1_000_000, ..StoreFaults::default() };
        let mut world = World::new(seed, &[], failing);
        let ask = async |io: Io| {
            let (mut connection, cold, partitions, hot, hot_partition) = neighbours(&io).await;
            let wanted = [(cold, partitions[0]), (hot, hot_partition)];
            fetch(&mut connection, &wanted, 1 << 20, 1 << 20).await
        };
        let found = world.run(ask);
        assert_eq!(found[0], (ErrorCode::UnknownServerError.code(), 0), "seed {seed}: as Kafka says it");
        assert!(found[1].0 == 0 && found[1].1 > 0, "seed {seed}: {found:?}");
        world.boot_with(StoreFaults::default());
        assert!(world.run(ask).iter().all(|(code, bytes)| *code == 0 && *bytes > 0));
        // As much as was asked for, and no more: but for a first batch that is longer.
        let found = world.run(async |io: Io| {
            let (mut connection, cold, partitions, ..) = neighbours(&io).await;
            let wanted: Vec<_> = partitions.iter().map(|partition| (cold, *partition)).collect();
            [fetch(&mut connection, &wanted, 1_000, 600).await, fetch(&mut connection, &wanted, 100, 100).await]
        });
        let bytes = found.each_ref().map(|found| found.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>());
        assert!(bytes[0].iter().sum::<usize>() <= 1_000 && bytes[0].iter().all(|bytes| *bytes <= 600), "{bytes:?}");
        assert!(bytes[0].iter().filter(|bytes| **bytes > 0).count() >= 2, "{bytes:?}");
        assert!(bytes[1].iter().filter(|bytes| **bytes > 0).count() == 1, "{bytes:?}");
        world.server.crash(Crash::Kill);
    }
}

#[test]
fn a_lookup_by_time_ends_when_its_time_is_up() {
    for seed in seeds(4) {
        let world = World::new(seed, &["remote.list.offsets.request.timeout.ms=7000"], slow(150_000));
        world.run(async move |io: Io| {
            let (mut connection, _, partitions, _, hot_partition) = neighbours(&io).await;
            let partition = partitions[0];
            let task = io.clone();
            let late = io.clone();
            io.spawn(async move {
                let (ms, found) = timed(&late, list(&mut connection, partition, FIRST_MS + 1, 200)).await;
                assert_eq!(found, (ErrorCode::RequestTimedOut.code(), -1), "seed {seed}");
                assert!((200..300).contains(&ms), "seed {seed}: {ms} ms");
            });
            let (ms, ()) = timed(&task, produce(&task, HOT, hot_partition, FIRST_MS)).await;
            assert!(ms < 100, "seed {seed}: a produce took {ms} ms");
            // By the broker's own patience it is found.
            let (mut connection, ..) = neighbours(&task).await;
            let (_, found) = timed(&task, list(&mut connection, partition, FIRST_MS + 1, 0)).await;
            assert_eq!(found, (0, 1), "seed {seed}");
        });
    }
}

/// A close that fails may have closed, or half of it, or nothing: the copy is made again, under another name.
#[test]
fn c162_copies_whose_calls_fail_are_made_again() {
    for seed in seeds(4) {
        let failing = StoreFaults { error_per_million: 100_000, ..StoreFaults::default() };
        let mut world = World::new(seed, &[], failing);
        world.run(async move |io: Io| {
            for partition in 0..4 {
                for at in RECORDS..2 * RECORDS {
                    produce(&io, COLD, partition, FIRST_MS + 1000 * at).await;
                }
            }
            for partition in 0..4 {
                let (_, mut connection) = leader(&io, COLD, partition).await;
                while list(&mut connection, partition, EARLIEST_LOCAL, 0).await != (0, 2 * RECORDS) {
                    io.sleep_ms(50).await;
                }
            }
        });
        world.boot_with(StoreFaults::default());
        world.run(async move |io: Io| {
            for partition in 0..4 {
                let (id, mut connection) = leader(&io, COLD, partition).await;
                for at in 0..2 * RECORDS {
                    let found = fetch_as(&mut connection, &[(id, partition)], at, 1, 1, 0).await;
                    assert!(found[0].0 == 0 && found[0].1 > 200, "seed {seed}: record {at}: {found:?}");
                }
            }
        });
        world.server.crash(Crash::Kill);
    }
}

/// `fetch.max.bytes` counts what comes of the tier like all else; the first batch alone may be longer.
#[test]
fn a_fetch_brings_no_more_than_it_asks_for_whatever_tier_it_is_of() {
    for seed in seeds(4) {
        let mut world = World::new(seed, &["remote.fetch.max.wait.ms=20000"], slow(1_000));
        world.run(async move |io: Io| {
            let (mut connection, cold, partitions, hot, hot_partition) = neighbours(&io).await;
            let cold_first: Vec<_> =
                partitions.iter().map(|partition| (cold, *partition)).chain([(hot, hot_partition)]).collect();
            let hot_first: Vec<_> = cold_first.iter().rev().copied().collect();
            let one = fetch(&mut connection, &cold_first[..1], 1, 1).await[0].1;
            assert!(one > 200, "seed {seed}: the first batch is brought whole: {one}");
            for wanted in [cold_first, hot_first] {
                for bytes_max in [1, 300, 600, 1000, 2000, 1 << 20] {
                    let found = fetch(&mut connection, &wanted, bytes_max, 1 << 20).await;
                    let bytes: usize = found.iter().map(|(_, bytes)| bytes).sum();
                    let most = usize::try_from(bytes_max).expect("small").max(one);
                    assert!((one..=most).contains(&bytes), "seed {seed}: {bytes} of {bytes_max}: {found:?}");
                }
            }
        });
        world.server.crash(Crash::Kill);
    }
}

/// Segments without aborted transactions are known to have none: their indexes are not even asked for. Each call of the store
/// takes so long that one more would show.
#[test]
fn c139_c141_who_reads_committed_records_asks_no_more_of_the_store() {
    for seed in seeds(4) {
        let mut world = World::new(seed, &["remote.fetch.max.wait.ms=20000"], slow(200_000));
        let ask = |isolation_level| {
            async move |io: Io| {
                let (mut connection, cold, partitions, ..) = neighbours(&io).await;
                let wanted = [(cold, partitions[0])];
                timed(&io, fetch_as(&mut connection, &wanted, 0, 1 << 20, 1 << 20, isolation_level)).await
            }
        };
        let (all_ms, all) = world.run(ask(0));
        world.boot_with(slow(200_000));
        let (committed_ms, committed) = world.run(ask(1));
        assert_eq!(all, committed, "seed {seed}");
        assert!(all[0].0 == 0 && all[0].1 > 200, "seed {seed}: {all:?}");
        assert!(committed_ms < all_ms + 100, "seed {seed}: {committed_ms} ms, {all_ms} for all");
        world.server.crash(Crash::Kill);
    }
}

/// Memory that a piece of an index and the records it leads to do not fit into together: each fetch still brings something,
/// and needs none of its wait for that, since it waits for no memory that it holds itself.
#[test]
fn memory_for_one_piece_is_enough_for_a_fetch() {
    /// In the middle of a segment: where it lies is for the index to say.
    const OFFSET: i64 = 1;
    for seed in seeds(6) {
        let mut world = World::new(seed, &[], StoreFaults::default());
        for (memory_bytes, isolation_level) in [(256, 0), (256, 1), (2_000, 0), (2_000, 1), (16 << 10, 1)] {
            world.boot_within(StoreFaults::default(), memory_bytes);
            world.run(async move |io: Io| {
                let (mut connection, cold, partitions, ..) = neighbours(&io).await;
                let mut wanted: Vec<_> = partitions.iter().map(|partition| (cold, *partition)).collect();
                assert!(wanted.len() >= 4, "{partitions:?}");
                let alone = [wanted.remove(0)];
                let (ms, found) =
                    timed(&io, fetch_as(&mut connection, &alone, OFFSET, 1 << 20, 1 << 20, isolation_level)).await;
                let context = format!("seed {seed}, {memory_bytes} bytes, isolation {isolation_level}");
                assert!(found[0].0 == 0 && found[0].1 > 200, "{context}: {found:?}");
                assert!(ms < 400, "{context}: {ms} ms, as long as it may wait");
                while !wanted.is_empty() {
                    let found = fetch_as(&mut connection, &wanted, OFFSET, 1 << 20, 1 << 20, isolation_level).await;
                    assert!(found.iter().all(|(code, _)| *code == 0), "{context}: {found:?}");
                    let before = wanted.len();
                    let mut answers = found.iter();
                    wanted.retain(|_| answers.next().is_some_and(|(_, bytes)| *bytes == 0));
                    assert!(wanted.len() < before, "{context}: nothing came of {found:?}");
                }
            });
        }
        world.server.crash(Crash::Kill);
    }
}

/// The file is opened; then its header and index are read, and beside them the records at the place where they must be if all
/// are of one length.
#[test]
fn a_cold_fetch_waits_for_the_store_twice() {
    for seed in seeds(4) {
        for offset in 0..3 {
            let mut world = World::new(seed, &["remote.fetch.max.wait.ms=20000"], StoreFaults::default());
            world.boot_with(slow(200_000));
            world.run(async move |io: Io| {
                let (mut connection, cold, partitions, ..) = neighbours(&io).await;
                let wanted = [(cold, partitions[0])];
                let (ms, found) = timed(&io, fetch_as(&mut connection, &wanted, offset, 1 << 20, 1 << 20, 0)).await;
                assert!(found[0].0 == 0 && found[0].1 > 200, "seed {seed}: {found:?}");
                assert!((400..500).contains(&ms), "seed {seed}, offset {offset}: {ms} ms");
            });
            world.server.crash(Crash::Kill);
        }
    }
}
