//! Aborted transactions whose records only the tier has any more.

use alluvium::control::broker_config::BrokerConfig;
use alluvium::ring::sim::options::{Crash, SimOptions};
use alluvium::ring::sim::world::Sim;
use alluvium::shard::options::ListenMode;

use crate::full_indexes::{SECOND_NS, begin, boot, committed, run, transact};
use crate::seeds::seeds;
use crate::server::{Server, SimTier};

/// As many transactions in each life.
const EACH: usize = 5;

/// A power cut takes the snapshots of rolls, segments go to the tier, and the server is killed at any moment: what was aborted
/// stays so, whether its records, its marker or both are in the tier alone.
#[test]
fn what_was_aborted_stays_so_when_its_records_are_in_the_tier_alone() {
    for seed in seeds(8) {
        let context = format!("seed {seed}");
        let sim = Sim::new(SimOptions::calm(seed));
        let mut config = BrokerConfig::default();
        config.enable_tier();
        for pair in [
            "transaction.state.log.num.partitions=1",
            "log.initial.task.delay.ms=5",
            "log.retention.check.interval.ms=20",
            "remote.log.manager.task.interval.ms=20",
        ] {
            config.set_pair(pair).expect("a key of Kafka's");
        }
        let mut server = Server::new(&sim, config, ListenMode::PerCore);
        server.tier = Some(SimTier { elsewhere: None, memory_bytes: 16 << 20 });
        boot(&sim, &mut server, &context);
        let random = sim.random();
        // Segments of a transaction each, or ones that end within a transaction.
        let index_bytes = ["16", "24"][random.index(2)];
        let mut producer = run(&sim, &context, async move |io| {
            let tiered = [
                ("segment.index.bytes", index_bytes),
                ("remote.storage.enable", "true"),
                ("local.retention.bytes", "300"),
                ("alluvium.durability", "segment"),
            ];
            begin(io, &tiered).await
        });
        for life in 0..4 {
            producer = run(&sim, &context, async move |io| {
                for number in life * EACH..(life + 1) * EACH {
                    transact(&io, &mut producer, number).await;
                }
                producer
            });
            sim.run_for(random.between(1, SECOND_NS / 4));
            server.crash(if random.coin() { Crash::PowerCut } else { Crash::Kill });
            boot(&sim, &mut server, &context);
            sim.run_for(random.between(1, SECOND_NS / 4));
            let seen = run(&sim, &context, async |io| committed(&io).await);
            let all: Vec<usize> = (0..(life + 1) * EACH).filter(|number| number.is_multiple_of(3)).collect();
            assert_eq!(seen, all, "{context}, life {life}");
        }
        server.crash(Crash::Kill);
    }
}
