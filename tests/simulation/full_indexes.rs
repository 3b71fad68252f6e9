//! A disk that has no room for indexes for a while: what they say is right when there is room again, and after a crash.

use alluvium::control::broker_config::BrokerConfig;
use alluvium::record::batch::TRANSACTIONAL_BIT;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::offset::ProducerId;
use alluvium::ring::io::Io;
use alluvium::ring::sim::options::{Crash, SimOptions};
use alluvium::ring::sim::world::Sim;
use alluvium::shard::options::ListenMode;

use crate::client::{CallError, Connection};
use crate::remote_reads::leader;
use crate::seeds::seeds;
use crate::server::{Server, core_of};
use crate::transactor::{Producer, Story};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const TOPIC: &str = "t";
/// As many transactions before there is no room, then, and after.
const EACH: usize = 6;

pub(crate) fn boot(sim: &Sim, server: &mut Server, context: &str) {
    server.boot();
    let ready = sim.run_until(|| server.is_ready() || server.failure().is_some(), 60 * SECOND_NS);
    assert!(ready.is_ok() && server.failure().is_none(), "{context}: no boot: {:?}", server.failure());
}

/// Runs a client on a machine of its own.
pub(crate) fn run<T: 'static>(sim: &Sim, context: &str, job: impl AsyncFnOnce(Io) -> T + 'static) -> T {
    let io = sim.machine().core(0);
    let task = io.clone();
    let ran = sim.run(&io, 600 * SECOND_NS, async move { job(task).await });
    ran.unwrap_or_else(|error| panic!("{context}: {error:?}"))
}

fn story() -> Story {
    Story::new("id".into(), TOPIC.into())
}

/// Asks until it is not refused: coordinators come up, and markers are on their way.
async fn again<T>(io: &Io, mut ask: impl AsyncFnMut() -> Result<T, CallError>) -> T {
    for _ in 0..1_000 {
        match ask().await {
            Ok(done) => return done,
            Err(CallError::Refused(_)) => io.sleep_ms(5).await,
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("it is refused for ever");
}

async fn coordinator(io: &Io) -> Connection {
    let mut any = Connection::open(io, Server::address(0)).await.expect("it listens");
    let node = again(io, async || any.coordinator_of("id", 1).await).await;
    Connection::open(io, Server::address(core_of(node).expect("a core"))).await.expect("it listens")
}

/// Makes the topic, and a producer.
pub(crate) async fn begin(io: Io, configs: &[(&str, &str)]) -> Producer {
    let mut any = Connection::open(&io, Server::address(0)).await.expect("it listens");
    let configs = configs.iter().chain(&[("index.interval.bytes", "200"), ("retention.ms", "-1")]);
    let configs: Vec<_> = configs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    any.create_topic(TOPIC, 1, &configs).await.expect("it is new");
    let mut coordinator = coordinator(&io).await;
    let (id, epoch) = again(&io, async || coordinator.init_transactions("id", 60_000).await).await;
    Producer { id, epoch, bumps: false, sequences: [(0, 0)].into() }
}

/// One of two batches; every third is committed, the others aborted.
pub(crate) async fn transact(io: &Io, producer: &mut Producer, number: usize) {
    let (topic, mut leader) = leader(io, TOPIC, 0).await;
    let mut coordinator = coordinator(io).await;
    again(io, async || coordinator.add_partition(&story(), producer, 0).await).await;
    for _ in 0..2 {
        let sequence = producer.sequences.entry(0).or_insert(0);
        let builder = BatchBuilder::new().producer(ProducerId(producer.id), producer.epoch, *sequence);
        let mut builder = builder.attributes(TRANSACTIONAL_BIT);
        builder.add(io.wall_ms(), None, Some(format!("{number:0200}").as_bytes()));
        *sequence += 1;
        let batch = builder.build().expect("uncompressed");
        again(io, async || leader.produce_in_transaction(&story(), topic, 0, &batch, false).await).await;
    }
    again(io, async || coordinator.end_transaction(&story(), producer, number.is_multiple_of(3)).await).await;
}

/// The numbers of the committed transactions as a reader sees them, from each offset on.
pub(crate) async fn committed(io: &Io) -> Vec<usize> {
    let (topic, mut leader) = leader(io, TOPIC, 0).await;
    let (mut next, mut seen) = (0, Vec::new());
    loop {
        let (values, after, last_stable, end) = leader.fetch_committed(topic, 0, next).await.expect("it serves");
        seen.extend(values.iter().map(|value| {
            let text = std::str::from_utf8(value).expect("digits");
            text.parse::<usize>().expect("a number")
        }));
        if after == next {
            if last_stable == end && next >= end {
                break;
            }
            io.sleep_ms(5).await;
        }
        next = after;
    }
    for offset in 0..next {
        let fetched = leader.fetch(topic, 0, offset, 0).await.expect("it is in range");
        assert!(fetched.next_offset > offset, "nothing at {offset}");
    }
    seen.dedup();
    seen
}

/// Aborted transactions stay aborted, committed ones are there, and every offset is found: while there is no room for an
/// index, when there is again, and after the checkpoint that follows and a crash. What was refused is not passed over by what
/// comes after it.
#[test]
fn what_was_refused_of_indexes_is_written_before_what_follows() {
    let all: Vec<usize> = (0..3 * EACH).filter(|number| number % 3 == 0).collect();
    for (seed, part) in
        seeds(8).flat_map(|seed| [".txnindex", ".index", ".timeindex", "index"].map(|part| (seed, part)))
    {
        let durability = if seed % 2 == 0 { "segment" } else { "os" };
        let context = format!("seed {seed}, no room for {part}, {durability}");
        let sim = Sim::new(SimOptions::calm(seed));
        let mut config = BrokerConfig::default();
        config.set_pair("transaction.state.log.num.partitions=1").expect("a key of Kafka's");
        let mut server = Server::new(&sim, config, ListenMode::PerCore);
        boot(&sim, &mut server, &context);
        let mut producer = run(&sim, &context, async move |io| {
            begin(io, &[("alluvium.durability", durability), ("segment.index.bytes", "48")]).await
        });
        for third in 0..3 {
            server.machine().deny_space((third == 1).then_some(part));
            producer = run(&sim, &context, async move |io| {
                for number in third * EACH..(third + 1) * EACH {
                    transact(&io, &mut producer, number).await;
                    // Longer than appends let a full disk rest.
                    io.sleep_ms(600).await;
                }
                producer
            });
            let seen = run(&sim, &context, async |io| committed(&io).await);
            assert_eq!(seen, all[..(third + 1) * EACH / 3], "{context}: in its life");
        }
        // Past a checkpoint.
        sim.run_for(125 * SECOND_NS);
        if seed % 4 == 3 {
            server.request_stop();
            assert!(sim.run_until(|| server.has_stopped(), 60 * SECOND_NS).is_ok(), "{context}: no stop");
            assert!(server.finish_stop(&sim, 60 * SECOND_NS), "{context}: no end");
        } else {
            // Under `os` a power cut takes records too.
            server.crash(if durability == "os" { Crash::Kill } else { Crash::PowerCut });
        }
        boot(&sim, &mut server, &context);
        let seen = run(&sim, &context, async |io| committed(&io).await);
        assert_eq!(seen, all, "{context}: after it");
        server.crash(Crash::Kill);
    }
}
