//! Many partitions: how long a start takes after a clean stop and after a kill, what each costs in memory at rest, and
//! what an answer that names them all does to others.
//!
//! `PARTITIONS` says how many (1,000 by default). With 10,000 and more, and `ALLUVIUM_BINARY` naming a release build, the
//! figures that the design promises are held: open in under 3 s, at most 32 KiB resident for each.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test looks at a process from outside")]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alluvium::record::offset::ProducerId;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use support::client::idempotent_batch;
use support::process::{Server, ServerPlan};
use support::random;

#[test]
fn many_partitions_open_fast_and_rest_small() {
    let count = random::number_from_env("PARTITIONS", 1_000);
    let topics = count.div_ceil(PARTITIONS_A_TOPIC);
    let folder = tempfile::tempdir().expect("a scratch folder");
    let plan = ServerPlan::new(folder.path()).flags("--log info");
    let server = plan.start();
    let empty_bytes = server.resident_bytes();
    for topic in 0..topics {
        let code = server.client(0).create_topic(&name(topic), PARTITIONS_A_TOPIC as i32, &[]);
        assert_eq!(code.expect("the server answers"), 0, "{}", name(topic));
    }
    let written = write_everywhere(&server, topics, 0);
    server.stop().assert_clean();

    let server = plan.start();
    let opened = server.ready_after;
    let resident_bytes = server.resident_bytes();
    let each_bytes = resident_bytes.saturating_sub(empty_bytes) / written;
    println!(
        "{written} partitions after a clean stop: ready in {:.2} s, {} MiB resident, {:.1} KiB for each",
        opened.as_secs_f64(),
        resident_bytes >> 20,
        each_bytes as f64 / 1024.0
    );
    for line in server.log().lines().filter(|line| line.contains("partitions opened")) {
        println!("{line}");
    }
    // What was written before the stop is known: sent again it gets the same offsets, and the next batch goes on.
    assert_eq!(write_everywhere(&server, topics, 0), written);
    assert_eq!(write_everywhere(&server, topics, 1), written);
    server.kill();

    let server = plan.start();
    println!("after a kill: ready in {:.2} s", server.ready_after.as_secs_f64());
    assert_eq!(write_everywhere(&server, topics, 0), written);
    assert_eq!(write_everywhere(&server, topics, 1), written);
    server.stop().assert_clean();
    if count >= 10_000 {
        assert!(opened.as_secs_f64() < 3.0, "{written} partitions were opened in {opened:?}");
        assert!(each_bytes <= 32 << 10, "{each_bytes} bytes resident for each of {written} partitions");
    }
}

/// C208: while clients ask for all partitions again and again, a request beside them on the same core waits for a slice of an
/// answer at most, not for the answer.
#[test]
fn c208_a_big_answer_holds_up_no_other_request() {
    let topics = random::number_from_env("PARTITIONS", 3_000).div_ceil(PARTITIONS_A_TOPIC);
    let folder = tempfile::tempdir().expect("a scratch folder");
    let server = ServerPlan::new(folder.path()).flags("--log info").start();
    for topic in 0..topics {
        let code = server.client(0).create_topic(&name(topic), PARTITIONS_A_TOPIC as i32, &[]);
        assert_eq!(code.expect("the server answers"), 0, "{}", name(topic));
    }
    let alone = probe(&server, PROBES);
    let is_over = AtomicBool::new(false);
    let (beside, mut answers) = thread::scope(|scope| {
        let asker = scope.spawn(|| ask_for_all(&server, topics, &is_over));
        let beside = probe(&server, PROBES);
        is_over.store(true, Ordering::Relaxed);
        (beside, asker.join().expect("it asserts"))
    });
    answers.sort();
    let at = |sorted: &[Duration], share: usize| sorted[(sorted.len() - 1) * share / 100];
    println!(
        "a request each millisecond on one core: p50 {:.0?}, p99 {:.0?}, worst {:.0?}; beside Metadata of {} partitions \
         ({} answers, p50 {:.1?} each): p50 {:.0?}, p99 {:.0?}, worst {:.0?}",
        at(&alone, 50),
        at(&alone, 99),
        at(&alone, 100),
        topics * PARTITIONS_A_TOPIC,
        answers.len(),
        at(&answers, 50),
        at(&beside, 50),
        at(&beside, 99),
        at(&beside, 100)
    );
    let ended = server.stop();
    ended.log.lines().filter(|line| line.contains("core stopped")).for_each(|line| println!("{line}"));
    ended.assert_clean();
    // One that waited for whole answers would wait for half of one at the median: another answer is always under way.
    assert!(
        at(&beside, 50) * 3 < at(&answers, 50),
        "p50 {:?} beside answers of {:?}",
        at(&beside, 50),
        at(&answers, 50)
    );
}

/// How long each of `count` small requests took, a millisecond apart, in order of length.
fn probe(server: &Server, count: usize) -> Vec<Duration> {
    let mut client = server.client(0);
    let mut taken: Vec<Duration> = (0..count)
        .map(|_| {
            // A pace, not a wait for something.
            thread::sleep(Duration::from_millis(1));
            let began = Instant::now();
            client.ping().expect("the server answers");
            began.elapsed()
        })
        .collect();
    taken.sort();
    taken
}

/// Asks for all topics, by no name and by each one's in turn, until `is_over`; how long each answer took.
fn ask_for_all(server: &Server, topics: u64, is_over: &AtomicBool) -> Vec<Duration> {
    let mut client = server.client(0);
    let names: Vec<String> = (0..topics).map(name).collect();
    let named = |name| MetadataRequestTopic { name: Some(name), ..MetadataRequestTopic::default() };
    let named: Vec<_> = names.iter().map(|name| named(name.as_str())).collect();
    let mut taken = Vec::new();
    while !is_over.load(Ordering::Relaxed) || taken.len() < 2 {
        let asked = (taken.len() % 2 == 1).then(|| named.clone());
        let request = MetadataRequest { topics: asked, ..MetadataRequest::default() };
        let began = Instant::now();
        client.send(ApiKey::Metadata, 9, |out| request.encode(out, 9)).expect("the server reads");
        let answer = client.receive().expect("the server answers");
        taken.push(began.elapsed());
        // 26 bytes a partition at least.
        assert!(answer.len() as u64 > topics * PARTITIONS_A_TOPIC * 26, "{} bytes", answer.len());
    }
    taken
}

/// Writes batch number `number` of one producer to each partition, and asserts where it stands; says how many there are.
fn write_everywhere(server: &Server, topics: u64, number: i32) -> u64 {
    let mut written = 0;
    let mut clients = [server.client(0), server.client(1)];
    for topic in (0..topics).map(name) {
        let led = server.client(0).partitions(&topic).expect("the server answers").expect("it was made");
        let mut by_core: BTreeMap<u16, Vec<i32>> = BTreeMap::new();
        for (partition, led) in (0..).zip(led) {
            by_core.entry(led.core).or_default().push(partition);
        }
        let records = idempotent_batch((ProducerId(77), 0), number * RECORDS, &[vec![b'.'; 100], vec![b','; 100]]);
        for (core, partitions) in by_core {
            let client = &mut clients[usize::from(core)];
            for some in partitions.chunks(IN_FLIGHT) {
                for partition in some {
                    client.send_produce(&topic, *partition, -1, &records).expect("the server reads");
                }
                for partition in some {
                    let (_, produced) = client.receive_produced().expect("the server answers");
                    let stands = (produced.error_code, produced.base_offset);
                    assert_eq!(stands, (0, i64::from(number * RECORDS)), "{topic}-{partition}, batch {number}");
                    written += 1;
                }
            }
        }
    }
    written
}

fn name(topic: u64) -> String {
    format!("many-{topic}")
}

const PARTITIONS_A_TOPIC: u64 = 1_000;
const PROBES: usize = 1_000;
const RECORDS: i32 = 2;
const IN_FLIGHT: usize = 50;
