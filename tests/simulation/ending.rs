//! A decided transaction ends in each of its partitions, whatever the cores know of these when the server starts.

use std::collections::BTreeMap;

use alluvium::control::broker_config::BrokerConfig;
use alluvium::record::batch::TRANSACTIONAL_BIT;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::offset::ProducerId;
use alluvium::ring::io::Io;
use alluvium::ring::sim::options::{Crash, SimOptions};
use alluvium::ring::sim::world::Sim;
use alluvium::shard::options::ListenMode;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::uuid::Uuid;

use crate::client::{CallError, Connection};
use crate::seeds::seeds;
use crate::server::{Server, core_of};
use crate::transactor::{Producer, Story};

const SECOND_NS: u64 = 1_000_000_000;
const TOPIC: &str = "t";
const PARTITIONS: i32 = 24;

fn boot(sim: &Sim, server: &mut Server, seed: u64) {
    server.boot();
    let ready = sim.run_until(|| server.is_ready() || server.failure().is_some(), 60 * SECOND_NS);
    assert!(ready.is_ok() && server.failure().is_none(), "seed {seed}: no boot: {:?}", server.failure());
}

/// Asks until nothing is under way any more that the answer waits for.
async fn settled<T>(io: &Io, mut ask: impl AsyncFnMut() -> Result<T, CallError>) -> T {
    const PASSING: [ErrorCode; 4] = [
        ErrorCode::ConcurrentTransactions,
        ErrorCode::NotEnoughReplicas,
        ErrorCode::CoordinatorNotAvailable,
        ErrorCode::CoordinatorLoadInProgress,
    ];
    loop {
        match ask().await {
            Err(CallError::Refused(code)) if PASSING.iter().any(|passing| passing.code() == code) => {
                io.sleep_ms(5).await;
            }
            other => return other.expect("it answers"),
        }
    }
}

async fn connect(io: &Io, core: usize) -> Connection {
    Connection::open(io, Server::address(core)).await.expect("it listens")
}

/// Of each partition: the topic's id and a connection to the core that leads it.
async fn leaders(io: &Io) -> (Uuid, BTreeMap<i32, usize>) {
    let topics = connect(io, 0).await.metadata().await.expect("it answers");
    let view = &topics[TOPIC];
    (view.id, view.leaders.iter().map(|(index, (node, _))| (*index, core_of(*node).expect("a core"))).collect())
}

/// Writes to all partitions in one transaction and commits it; back once that is decided.
async fn commit(io: Io, id: String) {
    let configs = [("retention.ms".to_owned(), "-1".to_owned())];
    connect(&io, 0).await.create_topic(TOPIC, PARTITIONS, &configs).await.expect("it is new");
    let story = Story::new(id, TOPIC.to_owned());
    let node = settled(&io, async || connect(&io, 0).await.coordinator_of(&story.id, 1).await).await;
    let core = core_of(node).expect("a core");
    let (id, epoch) = settled(&io, async || connect(&io, core).await.init_transactions(&story.id, 60_000).await).await;
    let producer = Producer { id, epoch, bumps: false, sequences: BTreeMap::new() };
    let (topic, leaders) = leaders(&io).await;
    for (partition, leader) in leaders {
        settled(&io, async || connect(&io, core).await.add_partition(&story, &producer, partition).await).await;
        let mut builder = BatchBuilder::new().producer(ProducerId(id), epoch, 0).attributes(TRANSACTIONAL_BIT);
        builder.add(io.wall_ms(), None, Some(b"v"));
        let batch = builder.build().expect("uncompressed");
        let mut leader = connect(&io, leader).await;
        settled(&io, async || leader.produce_in_transaction(&story, topic, partition, &batch, false).await).await;
    }
    connect(&io, core).await.end_transaction(&story, &producer, true).await.expect("it is open");
}

/// The server dies before a marker is written. After the start the coordinator's core may have its partition long before the
/// other core has any, which then knows of no topic: that is no reason to leave a transaction open there.
#[test]
fn a_decision_reaches_partitions_of_a_core_that_starts_late() {
    for seed in seeds(40) {
        let sim = Sim::new(SimOptions::calm(seed));
        let mut config = BrokerConfig::default();
        for pair in ["transaction.state.log.num.partitions=2", "log.cleaner.enable=false"] {
            config.set_pair(pair).expect("a key of Kafka's");
        }
        let mut server = Server::new(&sim, config, ListenMode::PerCore);
        boot(&sim, &mut server, seed);
        let io = sim.machine().core(0);
        let ran = sim.run(&io, 600 * SECOND_NS, commit(io.clone(), format!("id-{}", seed % 8)));
        assert!(ran.is_ok(), "seed {seed}: {ran:?}");
        server.crash(if seed % 2 == 0 { Crash::PowerCut } else { Crash::Kill });
        boot(&sim, &mut server, seed);
        let io = sim.machine().core(0);
        let task = io.clone();
        let ended = sim.run(&io, 60 * SECOND_NS, async move {
            let (topic, leaders) = leaders(&task).await;
            for (partition, leader) in leaders {
                let mut leader = connect(&task, leader).await;
                loop {
                    let (values, _, last_stable, high_watermark) =
                        leader.fetch_committed(topic, partition, 0).await.expect("it answers");
                    if last_stable == high_watermark {
                        // The marker may be there twice.
                        assert!(values.len() == 1 && high_watermark >= 2, "seed {seed}, partition {partition}");
                        break;
                    }
                    task.sleep_ms(20).await;
                }
            }
        });
        assert!(ended.is_ok(), "seed {seed}: a transaction stays open: {ended:?}");
        server.crash(Crash::Kill);
    }
}
