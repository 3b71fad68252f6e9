//! Cold lookups by time, counted by the reads that the server asks of its disk.

use alluvium::control::broker_config::BrokerConfig;
use alluvium::record::builder::BatchBuilder;
use alluvium::ring::io::Io;
use alluvium::ring::sim::options::{DiskOp, SimOptions};
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

async fn fill(io: Io) {
    let configs = [("segment.bytes", "2097152"), ("retention.ms", "-1")];
    let configs: Vec<_> = configs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let mut first = Connection::open(&io, Server::address(0)).await.expect("it listens");
    first.create_topic(TOPIC, 1, &configs).await.expect("it is new");
    let (id, mut connection) = leader(&io, TOPIC, 0).await;
    for number in 0..BATCHES {
        let mut builder = BatchBuilder::new();
        builder.add(FIRST_MS + 1_000 * number, None, Some(&[7; 20_000]));
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

/// After a clean stop each takes one read of a log, of the files that places in memory lead past; without them, one of each
/// index, one of headers, and one of the batch behind those.
#[test]
fn a_cold_lookup_by_time_reads_the_log_once() {
    for (seed, (are_kept, reads, suffices)) in
        seeds(2).flat_map(|seed| [(true, 1, true), (false, 1, false), (false, 4, true)].map(|case| (seed, case)))
    {
        let context = format!("seed {seed}, places kept: {are_kept}, {reads} reads");
        let sim = Sim::new(SimOptions::calm(seed));
        let mut config = BrokerConfig::default();
        config.set_pair("log.cleaner.enable=false").expect("a key of Kafka's");
        let mut server = Server::new(&sim, config, ListenMode::PerCore);
        boot(&sim, &mut server, seed);
        let io = sim.machine().core(0);
        sim.run(&io, 600 * SECOND_NS, fill(io.clone())).expect("it serves");
        server.request_stop();
        assert!(sim.run_until(|| server.has_stopped(), 60 * SECOND_NS).is_ok(), "{context}: no stop");
        assert!(server.finish_stop(&sim, 60 * SECOND_NS), "{context}: no end");
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
