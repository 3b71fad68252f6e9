//! Retention and DeleteRecords against the real server: what goes, when, and what a restart makes of it.
#![allow(clippy::disallowed_methods, reason = "a test looks at the server's files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::support::client::batch;
use crate::support::process::{Server, ServerPlan};
use crate::support::wait;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::compression::Compression;
use alluvium::record::offset::ProducerId;
use alluvium::record::record_reader::{check_crc, read_records};

const TOPIC: &str = "t";
/// Looks for what is to be deleted at once, and then ten times a second.
const OFTEN: &str = "--set log.initial.task.delay.ms=0 --set log.retention.check.interval.ms=100";
/// A segment is full when an index is. These leave room for two entries of the time index, of which one is kept for the
/// sealing: full after two batches.
const TINY_SEGMENTS: [(&str, &str); 2] = [("segment.index.bytes", "24"), ("index.interval.bytes", "0")];

const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const POLICY_VIOLATION: i16 = 44;

fn plan(folder: &Path, flags: &str) -> ServerPlan {
    ServerPlan { cores: "1".to_owned(), ..ServerPlan::new(folder).flags(flags) }
}

fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    wait::until(what, Duration::from_secs(30), || ask().then_some(()));
}

fn create(server: &Server, configs: &[(&str, &str)]) {
    let code = server.client(0).create_topic(TOPIC, 1, configs).expect("the server answers");
    assert_eq!(code, 0, "create {TOPIC} with {configs:?}");
}

/// Batches of two records, one request each.
fn produce(server: &Server, batches: i64) {
    let mut client = server.client(0);
    for _ in 0..batches {
        let values = [vec![b'x'; 40], vec![b'y'; 40]];
        let produced = client.produce(TOPIC, 0, -1, &batch(&values)).expect("the server answers");
        assert_eq!(produced.error_code, 0);
    }
}

fn log_start(server: &Server) -> i64 {
    let (code, log_start) = server.client(0).delete_records(TOPIC, 0, 0).expect("the server answers");
    assert_eq!(code, 0, "deleting nothing tells where the log begins");
    log_start
}

/// Offsets of all records from `from` on.
fn offsets(server: &Server, from: i64) -> Vec<i64> {
    let records = server.client(0).read_from(TOPIC, 0, from).expect("the server answers");
    records.iter().map(|record| record.offset).collect()
}

fn files(folder: &Path, extension: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.join("t-0")).expect("the partition's folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(extension));
    names.sort();
    names
}

#[test]
fn c069_delete_records_takes_and_refuses_what_kafka_does() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let server = plan(folder.path(), "").start();
    create(&server, &[]);
    produce(&server, 10);
    let mut client = server.client(0);
    let mut ask = |offset| client.delete_records(TOPIC, 0, offset).expect("the server answers");
    assert_eq!(ask(21), (OFFSET_OUT_OF_RANGE, -1), "above the high watermark");
    assert_eq!(ask(-2), (OFFSET_OUT_OF_RANGE, -1), "below zero");
    assert_eq!(ask(i64::MAX), (OFFSET_OUT_OF_RANGE, -1));
    assert_eq!(ask(i64::MIN), (OFFSET_OUT_OF_RANGE, -1));
    assert_eq!(ask(0), (0, 0));
    assert_eq!(ask(7), (0, 7), "inside a batch");
    assert_eq!(ask(3), (0, 7), "lower than the start: nothing is done");
    let low = server.client(0).fetch(TOPIC, 0, 6, 1 << 20).expect("the server answers");
    assert_eq!(low.error_code, OFFSET_OUT_OF_RANGE);
    assert_eq!(offsets(&server, 7), (7..20).collect::<Vec<_>>());
    let mut ask = |offset| client.delete_records(TOPIC, 0, offset).expect("the server answers");
    assert_eq!(ask(-1), (0, 20), "up to the high watermark");
    assert_eq!(ask(-1), (0, 20));
    assert_eq!(offsets(&server, 20), [0; 0]);
    produce(&server, 1);
    assert_eq!(offsets(&server, 20), [20, 21], "the log goes on");
    let unknown = server.client(0).delete_records("missing", 0, 0).expect("the server answers");
    assert_eq!(unknown, (UNKNOWN_TOPIC_OR_PARTITION, -1));
    let unknown = server.client(0).delete_records(TOPIC, 1, 0).expect("the server answers");
    assert_eq!(unknown, (UNKNOWN_TOPIC_OR_PARTITION, -1));
    let code = server.client(0).create_topic("compacted", 1, &[("cleanup.policy", "compact")]);
    assert_eq!(code.expect("the server answers"), 0);
    let refused = server.client(0).delete_records("compacted", 0, 0).expect("the server answers");
    assert_eq!(refused, (POLICY_VIOLATION, -1));
    server.stop().assert_clean();
}

/// What DeleteRecords was answered stays deleted: after a stop, and after kill -9, also without a segment deleted.
#[test]
fn the_log_start_survives_a_stop_and_a_kill() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let plan = plan(folder.path(), "");
    let server = plan.start();
    create(&server, &[]);
    produce(&server, 10);
    let mut wanted = 0;
    let mut server = Some(server);
    for round in 0..4 {
        let running = server.take().expect("started below");
        assert_eq!(log_start(&running), wanted, "round {round}");
        wanted += 3;
        let answer = running.client(0).delete_records(TOPIC, 0, wanted).expect("the server answers");
        assert_eq!(answer, (0, wanted), "round {round}");
        if round % 2 == 0 {
            running.kill();
        } else {
            running.stop().assert_clean();
            let text = fs::read_to_string(folder.path().join("log-start-offset-checkpoint")).expect("merged");
            assert_eq!(text, format!("0\n1\nt 0 {wanted}\n"), "as Kafka writes it");
        }
        server = Some(plan.start());
    }
    let server = server.expect("started");
    assert_eq!(log_start(&server), wanted);
    assert_eq!(offsets(&server, wanted), (wanted..20).collect::<Vec<_>>());
    server.stop().assert_clean();
}

/// C178: a consumer that was overtaken by retention is told so once, and reads on from the start; nobody else is.
#[test]
fn c178_out_of_range_is_told_only_where_it_is_true() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let server = plan(folder.path(), OFTEN).start();
    create(&server, &[("retention.bytes", "1000"), TINY_SEGMENTS[0], TINY_SEGMENTS[1]]);
    produce(&server, 60);
    // Four segments of 310 bytes: without the first of them it would be less than 1000.
    eventually("segments are deleted", || log_start(&server) == 104);
    let start = log_start(&server);
    for (from, wanted) in [(0, 1), (start - 1, 1), (start, 0), (119, 0), (120, 0), (121, 1)] {
        let fetched = server.client(0).fetch(TOPIC, 0, from, 1 << 20).expect("the server answers");
        assert_eq!(fetched.error_code, wanted, "fetch from {from}, the log is {start} to 120");
    }
    assert_eq!(offsets(&server, start), (start..120).collect::<Vec<_>>());
    server.stop().assert_clean();
}

#[test]
fn retention_deletes_files_after_their_delay_and_keeps_the_last_segments() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let plan = plan(folder.path(), OFTEN);
    let server = plan.start();
    let delay = ("file.delete.delay.ms", "600000");
    create(&server, &[("retention.bytes", "1000"), delay, TINY_SEGMENTS[0], TINY_SEGMENTS[1]]);
    produce(&server, 60);
    eventually("segments are renamed", || !files(folder.path(), ".log.deleted").is_empty());
    eventually("all that is to go is gone", || log_start(&server) == 104 && files(folder.path(), ".log").len() == 4);
    let (left, start) = (files(folder.path(), ".log"), log_start(&server));
    assert_eq!(left.first(), Some(&format!("{start:020}.log")), "the log begins with its first file");
    assert!(files(folder.path(), ".deleted").len() > 2 * left.len(), "logs and indexes wait for their delay");
    server.stop().assert_clean();
    let text = fs::read_to_string(folder.path().join("log-start-offset-checkpoint")).expect("merged");
    assert_eq!(text, "0\n0\n", "the first segment says where the log begins");
    // What is left over goes at the next start, whatever the delay.
    let server = plan.start();
    eventually("the leftovers are removed", || files(folder.path(), ".deleted").is_empty());
    assert_eq!(log_start(&server), start);
    assert_eq!(offsets(&server, start), (start..120).collect::<Vec<_>>());
    server.stop().assert_clean();
}

/// An expired log is rolled first, and goes whole; offsets go on. Under both durabilities.
#[test]
fn an_expired_active_segment_goes_too() {
    for durability in ["segment", "os"] {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let server = plan(folder.path(), OFTEN).flags(&format!("--durability {durability}")).start();
        create(&server, &[("retention.ms", "1"), ("file.delete.delay.ms", "0")]);
        produce(&server, 5);
        eventually("the active segment is deleted", || files(folder.path(), ".log") == ["00000000000000000010.log"]);
        eventually("its files are removed", || files(folder.path(), ".deleted").is_empty());
        assert_eq!(log_start(&server), 10, "{durability}");
        let produced = server.client(0).produce(TOPIC, 0, -1, &batch(&[b"z".to_vec()])).expect("answered");
        assert_eq!(produced.base_offset, 10, "{durability}");
        server.stop().assert_clean();
    }
}

/// C078: what Kafka left on its way out or set aside is not served; the first is removed, the others stay.
#[test]
fn c078_folders_on_their_way_are_not_served() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let plan = plan(folder.path(), "");
    let server = plan.start();
    create(&server, &[]);
    produce(&server, 3);
    server.stop().assert_clean();
    let id = "0123456789abcdef0123456789abcdef";
    let aside = |kind: &str| -> PathBuf { folder.path().join(format!("t-0.{id}-{kind}")) };
    for kind in ["delete", "future", "stray"] {
        fs::create_dir(aside(kind)).expect("room");
        fs::write(aside(kind).join("00000000000000000000.log"), "not a log").expect("room");
    }
    let server = plan.start();
    eventually("the deleted folder is removed", || !aside("delete").exists());
    assert!(aside("future").exists());
    assert!(aside("stray").exists());
    assert_eq!(offsets(&server, 0), (0..6).collect::<Vec<_>>());
    server.stop().assert_clean();
    assert!(!aside("delete").exists());
}

/// C080: a stop while hundreds of segments are on their way out is a clean one, and they do not come back.
#[test]
fn c080_a_stop_in_the_middle_of_many_deletions_is_clean() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let often = plan(folder.path(), OFTEN);
    let rare = plan(folder.path(), "");
    let server = rare.start();
    create(&server, &[("file.delete.delay.ms", "0"), TINY_SEGMENTS[0], TINY_SEGMENTS[1]]);
    produce(&server, 700);
    assert!(files(folder.path(), ".log").len() > 300, "many segments");
    assert_eq!(server.client(0).delete_records(TOPIC, 0, 1399).expect("the server answers"), (0, 1399));
    server.stop().assert_clean();
    // The start drops what is below the log start, and is stopped while the files go.
    let server = often.start();
    assert_eq!(log_start(&server), 1399);
    server.stop().assert_clean();
    assert!(folder.path().join(".kafka_cleanshutdown").exists(), "the stop was clean");
    let server = often.start();
    eventually("all are removed", || files(folder.path(), ".log").len() <= 2);
    assert_eq!(offsets(&server, 1399), [1399]);
    // Now while they are renamed.
    produce(&server, 700);
    assert_eq!(server.client(0).delete_records(TOPIC, 0, -1).expect("the server answers"), (0, 2800));
    eventually("the first is renamed", || log_start(&server) == 2800 && files(folder.path(), ".log").len() < 300);
    server.stop().assert_clean();
    assert!(folder.path().join(".kafka_cleanshutdown").exists(), "the stop was clean");
    let server = often.start();
    assert_eq!(log_start(&server), 2800);
    eventually("all are removed", || files(folder.path(), ".log").len() == 1);
    server.stop().assert_clean();
}

/// Looks for what is to be compacted a hundred times a second.
const CLEANER: &str = "--set log.cleaner.backoff.ms=10";
/// What is compacted, at once.
const COMPACT: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0"), ("file.delete.delay.ms", "0")];

/// Offset, key and value of a record.
type Keyed = (i64, String, Option<String>);

fn keyed_batch(compression: Compression, records: &[(&str, Option<&str>)]) -> Vec<u8> {
    let mut builder = BatchBuilder::new().compression(compression);
    for (key, value) in records {
        builder.add(1_700_000_000_000, Some(key.as_bytes()), value.map(str::as_bytes));
    }
    builder.build().expect("the codecs work")
}

fn produce_keyed(server: &Server, compression: Compression, records: &[(&str, Option<&str>)]) {
    let produced = server.client(0).produce(TOPIC, 0, -1, &keyed_batch(compression, records)).expect("answered");
    assert_eq!(produced.error_code, 0);
}

/// All records from `from` on.
fn keyed(server: &Server, from: i64) -> Vec<Keyed> {
    let (mut client, mut next, mut found) = (server.client(0), from, Vec::new());
    loop {
        let fetched = client.fetch(TOPIC, 0, next, 4 << 20).expect("the server answers");
        assert_eq!(fetched.error_code, 0, "fetch from {next}");
        let mut bytes = &fetched.records[..];
        if bytes.is_empty() {
            assert_eq!(next, fetched.high_watermark);
            return found;
        }
        while let Ok(header) = check_crc(bytes) {
            read_records(bytes, 64 << 20, |record| {
                let offset = header.base_offset.0 + i64::from(record.offset_delta);
                let text = |field: &[u8]| String::from_utf8(field.to_vec()).expect("text");
                if offset >= next {
                    found.push((offset, record.key.map(text).unwrap_or_default(), record.value.map(text)));
                }
            })
            .expect("a whole batch");
            next = next.max(header.last_offset().0 + 1);
            bytes = &bytes[header.len_bytes as usize..];
        }
    }
}

/// C090: the active segment is not touched; after a roll the newest of each key is left, with its offset. A fetch of an
/// offset that is gone gives the next one. In every codec, and through a stop and a kill.
#[test]
fn c090_after_a_roll_the_newest_record_of_each_key_is_left() {
    for compression in Compression::ALL {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let plan = plan(folder.path(), CLEANER);
        let server = plan.start();
        create(&server, &[COMPACT[0], COMPACT[1], COMPACT[2], TINY_SEGMENTS[0], TINY_SEGMENTS[1]]);
        produce_keyed(&server, compression, &[("k", Some("1")), ("k", Some("2"))]);
        produce_keyed(&server, compression, &[("a", Some("1")), ("a", None)]);
        for number in 0..6 {
            produce_keyed(&server, compression, &[("end", Some(&number.to_string()))]);
        }
        let of = |key: &str| keyed(&server, 0).into_iter().filter(|record| record.1 == key).collect::<Vec<_>>();
        eventually("k and a are compacted", || of("k").len() == 1 && of("a").len() == 1);
        assert_eq!(of("k"), [(1, "k".to_owned(), Some("2".to_owned()))], "{compression:?}");
        assert_eq!(of("a"), [(3, "a".to_owned(), None)], "{compression:?}: a tombstone stays for a day");
        let all = keyed(&server, 0);
        assert_eq!(all[0].0, 1, "{compression:?}: 0 is gone, 1 comes next");
        let end = |number: i64| (4 + number, "end".to_owned(), Some(number.to_string()));
        assert_eq!(all[all.len() - 2..], [end(4), end(5)], "{compression:?}: the active segment is as it was");
        eventually("nothing is left under another name", || {
            [".deleted", ".swap", ".cleaned"].iter().all(|suffix| files(folder.path(), suffix).is_empty())
        });
        let before = keyed(&server, 0);
        server.stop().assert_clean();
        let text = fs::read_to_string(folder.path().join("cleaner-offset-checkpoint")).expect("merged");
        assert!(text.starts_with("0\n1\nt 0 "), "as Kafka writes it: {text:?}");
        let server = plan.start();
        assert_eq!(keyed(&server, 0), before, "{compression:?}: after a stop");
        server.kill();
        let server = plan.start();
        assert_eq!(keyed(&server, 0), before, "{compression:?}: after a kill");
        server.stop().assert_clean();
    }
}

/// Segments become one, tombstones go, and a map that is too small for all keys takes several passes.
#[test]
fn many_segments_are_compacted_to_one() {
    for dedupe_bytes in ["134217728", "600"] {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let flags = format!("{CLEANER} --set log.cleaner.dedupe.buffer.size={dedupe_bytes}");
        let plan = plan(folder.path(), &flags);
        let server = plan.start();
        create(
            &server,
            &[COMPACT[0], COMPACT[1], COMPACT[2], ("segment.bytes", "1048576"), ("delete.retention.ms", "0")],
        );
        let padding = "x".repeat(20_000);
        let mut newest = std::collections::BTreeMap::new();
        for number in 0..300_i64 {
            let key = format!("key-{}", number * 7 % 40);
            let value = (number % 11 != 0).then(|| format!("{number} {padding}"));
            produce_keyed(&server, Compression::None, &[(&key, value.as_deref())]);
            newest.insert(key, (number, value));
        }
        // Behind the last roll.
        eventually("it is compacted", || keyed(&server, 0).len() < 140);
        let left = keyed(&server, 0);
        for (key, (offset, value)) in &newest {
            let found = left.iter().rfind(|record| record.1 == *key);
            let wanted = (*offset, key.clone(), value.clone());
            // A tombstone may be gone; then all of its key is.
            assert!(
                found == Some(&wanted) || (value.is_none() && found.is_none()),
                "{key} at {offset}: {:?}",
                found.map(|found| found.0)
            );
        }
        server.kill();
        let server = plan.start();
        assert!(keyed(&server, 0).len() <= left.len());
        server.stop().assert_clean();
    }
}

/// C098: what made Kafka's cleaner die or loop. Each is a log of its own; the sound ones are compacted whatever lies beside them,
/// a damaged one is given up, and the core sleeps afterwards.
#[test]
fn c098_one_bad_log_does_not_stop_the_others() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let plan = plan(folder.path(), CLEANER);
    let rare = self::plan(folder.path(), "--set log.cleaner.enable=false");
    let server = rare.start();
    // Producers are forgotten a day after their last batch.
    let now_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_millis() as i64;
    for name in ["damaged", "limited", "deleted", "gaps", "empty", TOPIC] {
        let policy = if name == "deleted" { ("cleanup.policy", "compact,delete") } else { COMPACT[0] };
        let mut configs = vec![policy, COMPACT[1], COMPACT[2], TINY_SEGMENTS[0], TINY_SEGMENTS[1]];
        if name == "limited" {
            configs.push(("max.message.bytes", "1000"));
        }
        assert_eq!(server.client(0).create_topic(name, 1, &configs).expect("answered"), 0);
        for number in (0..9).filter(|_| name != "limited") {
            let value = format!("{number} {}", "v".repeat(3000));
            let mut builder = BatchBuilder::new();
            if name == "empty" {
                // The last batch of each producer stays, without its records.
                builder = builder.producer(ProducerId(100 + number), 0, 0);
            }
            for _ in 0..2 {
                builder.add(now_ms, Some(b"k"), Some(value.as_bytes()));
            }
            let batch = builder.build().expect("uncompressed");
            assert_eq!(server.client(0).produce(name, 0, -1, &batch).expect("answered").error_code, 0);
        }
    }
    // Beyond all sealed segments.
    assert_eq!(server.client(0).delete_records("deleted", 0, 17).expect("answered"), (0, 17));
    server.stop().assert_clean();
    let log = folder.path().join("damaged-0/00000000000000000000.log");
    let mut bytes = fs::read(&log).expect("the first segment");
    bytes[100] ^= 1;
    fs::write(&log, bytes).expect("room");
    // All its batches have more than it would take now.
    for entry in fs::read_dir(folder.path().join(format!("{TOPIC}-0"))).expect("a folder") {
        let file = entry.expect("a file").path();
        if !file.ends_with("partition.metadata") {
            fs::copy(&file, folder.path().join("limited-0").join(file.file_name().expect("a name"))).expect("room");
        }
    }
    fs::remove_file(folder.path().join(".kafka_cleanshutdown")).expect("a clean stop");
    // As Kafka's own compaction leaves them: a segment begins later than its name says, another ends before the next one.
    leave_one_batch(&folder.path().join("gaps-0/00000000000000000004"), false);
    leave_one_batch(&folder.path().join("gaps-0/00000000000000000008"), true);
    let server = plan.start();
    // Records, and batches without any.
    let count = |name: &str| -> (usize, usize) {
        let (mut client, mut next) = (server.client(0), if name == "deleted" { 17 } else { 0 });
        let (mut records, mut empty) = (0, 0);
        loop {
            let fetched = client.fetch(name, 0, next, 4 << 20).expect("answered");
            assert_eq!(fetched.error_code, 0, "fetch of {name} from {next}");
            if fetched.records.is_empty() {
                assert_eq!(next, fetched.high_watermark, "{name}");
                return (records, empty);
            }
            let mut bytes = &fetched.records[..];
            while let Ok(header) = check_crc(bytes) {
                records += header.record_count as usize;
                empty += usize::from(header.record_count == 0);
                next = header.last_offset().0 + 1;
                bytes = &bytes[header.len_bytes as usize..];
            }
        }
    };
    // The newest of what is sealed, and two batches of two records that are not.
    const ONE_AND_ACTIVE: usize = 5;
    let sound = ["limited", "gaps", "empty", TOPIC];
    for name in sound {
        eventually(&format!("{name} is compacted"), || count(name).0 <= ONE_AND_ACTIVE);
    }
    assert_eq!(count("deleted").0, 2, "the batch that has the last offset");
    let (_, empty) = count("empty");
    assert!(empty >= 7, "{empty} batches are empty");
    // Once more, over segments that have nothing but what is empty.
    for name in sound {
        for _ in 0..4 {
            let mut builder = BatchBuilder::new();
            builder.add(now_ms, Some(b"k"), Some(b"v"));
            builder.add(now_ms, Some(b"k"), Some(b"v"));
            let batch = builder.build().expect("uncompressed");
            assert_eq!(server.client(0).produce(name, 0, -1, &batch).expect("answered").error_code, 0);
        }
        eventually(&format!("{name} is compacted again"), || count(name).0 <= ONE_AND_ACTIVE);
    }
    assert!(count("empty").1 > empty, "what had records is empty now");
    let before = cpu_ticks(&server);
    std::thread::sleep(Duration::from_secs(1));
    let ticks = cpu_ticks(&server) - before;
    assert!(ticks < 50, "{ticks} hundredths of a second of CPU in a second with nothing to do");
    let status = server.stop();
    status.assert_clean();
}

/// Takes all but one batch out of a segment that has several, with the indexes, which are made anew.
fn leave_one_batch(segment: &Path, is_first: bool) {
    let log = segment.with_extension("log");
    let bytes = fs::read(&log).expect("a segment");
    let first_bytes = check_crc(&bytes).expect("a batch").len_bytes as usize;
    assert!(first_bytes < bytes.len(), "{log:?} has several batches");
    fs::write(&log, if is_first { &bytes[..first_bytes] } else { &bytes[first_bytes..] }).expect("room");
    for index in ["index", "timeindex"] {
        fs::remove_file(segment.with_extension(index)).expect("an index");
    }
}

fn cpu_ticks(server: &Server) -> u64 {
    let stat = server.proc_file("stat");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in brackets").split_whitespace().collect();
    [11, 12].iter().map(|at: &usize| fields[*at].parse::<u64>().expect("a number")).sum()
}
