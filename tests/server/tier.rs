//! The tier against the real server, on a folder: copies, reads, retention, restarts, what a crash leaves.
#![allow(clippy::disallowed_methods, reason = "a test looks at the server's files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use alluvium::log::leader_epochs::EpochEntry;
use alluvium::record::batch::crc32c;
use alluvium::record::offset::{LeaderEpoch, Offset, TimestampMs};
use alluvium::tier::metadata::{RemoteSegment, RemoteSegmentId, SegmentEvent};
use alluvium::tier::segment_state::SegmentState;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::support::client::{ReadRecord, batch};
use crate::support::process::{Server, ServerPlan, binary};
use crate::support::random::{self, Random};
use crate::support::wait;

pub(crate) const TOPIC: &str = "t";
/// Work is looked for all the time.
const OFTEN: &str = "--set log.initial.task.delay.ms=0 --set log.retention.check.interval.ms=50 \
     --set remote.log.manager.task.interval.ms=50 --set remote.log.manager.task.retry.backoff.ms=10 \
     --set remote.log.manager.task.retry.backoff.max.ms=50";
/// A segment is full when an index is: after two batches.
const TINY_SEGMENTS: [(&str, &str); 2] = [("segment.index.bytes", "24"), ("index.interval.bytes", "0")];
pub(crate) const TIERED: (&str, &str) = ("remote.storage.enable", "true");

pub(crate) const LATEST: i64 = -1;
pub(crate) const EARLIEST: i64 = -2;
pub(crate) const EARLIEST_LOCAL: i64 = -4;
pub(crate) const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// A data directory and a tier beside it.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a scratch folder") }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn tier(&self) -> PathBuf {
        self.folder.path().join("tier")
    }

    pub(crate) fn plan(&self) -> ServerPlan {
        let flags = format!("{OFTEN} --tier file://{}", self.tier().display());
        ServerPlan { cores: "1".to_owned(), ..ServerPlan::new(&self.data()).flags(&flags) }
    }

    /// Files of segments in the tier.
    pub(crate) fn remote_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for folder in fs::read_dir(self.tier()).into_iter().flatten().flatten() {
            let name = folder.file_name().to_string_lossy().into_owned();
            if folder.path().is_dir() && !name.starts_with('.') {
                let files = fs::read_dir(folder.path()).expect("a folder").flatten();
                found.extend(files.map(|file| file.path()));
            }
        }
        found
    }

    /// Segments on their way, or left there; manifests come and go.
    pub(crate) fn half_written(&self) -> usize {
        let entries = fs::read_dir(self.tier().join(".tmp")).into_iter().flatten().flatten();
        entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with("manifest-")).count()
    }

    fn local_logs(&self) -> usize {
        names(&self.data().join("t-0"), ".log")
    }
}

fn names(folder: &Path, suffix: &str) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(suffix)).count()
}

pub(crate) fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    wait::until(what, Duration::from_secs(60), || ask().then_some(()));
}

pub(crate) fn create(server: &Server, configs: &[(&str, &str)]) {
    let code = server.client(0).create_topic(TOPIC, 1, configs).expect("the server answers");
    assert_eq!(code, 0, "create {TOPIC} with {configs:?}");
}

pub(crate) fn tiered(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    TINY_SEGMENTS.into_iter().chain([TIERED]).chain(more.iter().copied()).collect()
}

/// Batches of two records, whose values tell their offsets.
pub(crate) fn produce(server: &Server, from: i64, batches: i64) {
    let mut client = server.client(0);
    for number in 0..batches {
        let base = from + 2 * number;
        let values = [base, base + 1].map(|offset| format!("value {offset}").into_bytes());
        let produced = client.produce(TOPIC, 0, -1, &batch(&values)).expect("the server answers");
        assert_eq!((produced.error_code, produced.base_offset), (0, base));
    }
}

pub(crate) fn list(server: &Server, timestamp: i64) -> i64 {
    let (offset, _, code) = server.client(0).list_offset(TOPIC, 0, timestamp).expect("the server answers");
    assert_eq!(code, 0, "ListOffsets {timestamp}");
    offset
}

fn read(server: &Server, from: i64) -> Vec<ReadRecord> {
    server.client(0).read_from(TOPIC, 0, from).expect("the server answers")
}

/// All records from `from` to `end` are there, each once, with their values.
pub(crate) fn assert_all(server: &Server, from: i64, end: i64) {
    let records = read(server, from);
    let offsets: Vec<i64> = records.iter().map(|record| record.offset).filter(|offset| *offset >= from).collect();
    assert_eq!(offsets, (from..end).collect::<Vec<_>>(), "records from {from}");
    for record in records {
        assert_eq!(record.value, format!("value {}", record.offset).into_bytes());
    }
}

/// A segment goes to the tier when its last records are safe, which may be after its roll: no pass has to find it.
#[test]
fn a_sealed_segment_is_copied_at_once() {
    for durability in ["segment", "os"] {
        let place = Place::new();
        // The passes are 30 s apart, as they are by default.
        let flags = format!("--durability {durability} --tier file://{}", place.tier().display());
        let server = ServerPlan { cores: "1".to_owned(), ..ServerPlan::new(&place.data()).flags(&flags) }.start();
        create(&server, &tiered(&[]));
        for rolls in 1..=20 {
            // Two batches fill a segment, and the third one rolls.
            produce(&server, if rolls == 1 { 0 } else { 4 * (rolls - 1) + 2 }, if rolls == 1 { 3 } else { 2 });
            let what = format!("segment {rolls} is in the tier, {durability}");
            wait::until(&what, Duration::from_secs(10), || (place.remote_files().len() as i64 >= rolls).then_some(()));
        }
    }
}

#[test]
fn sealed_segments_move_and_consumers_read_on_as_if_nothing_had_happened() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    produce(&server, 0, 20);
    // The active segment outlives local retention as well: it is sealed, copied and goes (C137).
    eventually("all records are in the tier alone", || list(&server, EARLIEST_LOCAL) == 40);
    assert_eq!([EARLIEST, LATEST, LATEST_TIERED, EARLIEST_PENDING_UPLOAD].map(|at| list(&server, at)), [0, 40, 39, 40]);
    eventually("the local disk shrinks", || place.local_logs() == 1);
    let copied = place.remote_files();
    assert!(copied.len() >= 10, "one file a segment: {copied:?}");
    assert_eq!(place.half_written(), 0, "nothing half-written stays");
    for from in [0, 1, 2, 17, 38, 39, 40] {
        assert_all(&server, from, 40);
    }
    // Times, in both tiers: the first record is the first of all times.
    let (offset, epoch, _) = server.client(0).list_offset(TOPIC, 0, 0).expect("the server answers");
    assert_eq!((offset, epoch), (0, 0), "by time");
    produce(&server, 40, 3);
    assert_all(&server, 0, 46);
    assert_eq!(server.client(0).fetch(TOPIC, 0, 47, 1 << 20).expect("an answer").error_code, 1, "out of range");

    server.kill();
    for is_kill in [true, false, true] {
        if is_kill { server_again(&place).kill() } else { server_again(&place).stop().assert_clean() }
    }
}

/// A server on the same folders, when it has shown that all is there.
fn server_again(place: &Place) -> Server {
    let server = place.plan().start();
    assert_eq!(list(&server, EARLIEST), 0);
    assert_all(&server, 0, 46);
    server
}

#[test]
fn c150_c165_what_retention_and_clients_delete_goes_from_the_tier_too() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    produce(&server, 0, 20);
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 40);
    let all = place.remote_files().len();
    // DeleteRecords in the middle of a remote segment.
    let (code, low) = server.client(0).delete_records(TOPIC, 0, 17).expect("the server answers");
    assert_eq!((code, low), (0, 17));
    assert_eq!(list(&server, EARLIEST), 17);
    eventually("what is below the log start is gone", || place.remote_files().len() < all);
    assert_all(&server, 17, 40);
    assert_eq!(server.client(0).fetch(TOPIC, 0, 16, 1 << 20).expect("an answer").error_code, 1);
    server.kill();
    let server = place.plan().start();
    assert_eq!(list(&server, EARLIEST), 17, "it does not come back");
    assert_all(&server, 17, 40);

    // The topic goes, and all of it; made again it begins anew.
    assert_eq!(server.client(0).delete_topic(TOPIC).expect("the server answers"), 0);
    eventually("its folder is empty", || place.remote_files().is_empty());
    create(&server, &tiered(&[("retention.bytes", "400"), ("local.retention.bytes", "0")]));
    assert_eq!(list(&server, EARLIEST), 0);
    assert_eq!(list(&server, LATEST_TIERED), -1);
    produce(&server, 0, 20);
    // Both tiers together have at most the limit and one segment.
    eventually("the total size is kept", || list(&server, EARLIEST) >= 24 && place.remote_files().len() <= 5);
    let start = list(&server, EARLIEST);
    assert_all(&server, start, 40);
    server.stop().assert_clean();
}

#[test]
fn a_kill_at_any_moment_leaves_no_orphan_and_no_hole() {
    let place = Place::new();
    let mut plan = place.plan();
    // Slow enough that a kill meets each step.
    plan = plan.flags("--set remote.log.manager.copy.max.bytes.per.second=4000");
    let mut end = 0;
    let seed = random::seed();
    println!("SEED={seed}");
    let mut random = Random::new(seed);
    for round in 0..6 {
        let server = plan.start();
        if round == 0 {
            create(&server, &tiered(&[("local.retention.bytes", "0"), ("file.delete.delay.ms", "0")]));
        }
        assert_all(&server, 0, end);
        produce(&server, end, 5);
        end += 10;
        std::thread::sleep(Duration::from_millis(random.below(400)));
        server.kill();
    }
    let server = place.plan().start();
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == end);
    assert_all(&server, 0, end);
    // Each file is one that is counted: the log begins and ends with them.
    eventually("nothing half-written stays", || place.half_written() == 0);
    let segments = place.remote_files().len() as i64;
    assert!(segments >= end / 4 && segments <= end, "{segments} files for {end} records");
    assert_eq!(server.client(0).delete_topic(TOPIC).expect("the server answers"), 0);
    eventually("no file stays that nobody knows", || place.remote_files().is_empty());
}

#[test]
fn c147_a_wrong_tier_or_topic_is_refused_in_words() {
    let place = Place::new();
    let server = place.plan().start();
    let create = |name: &str, policy: &str| {
        server.client(0).create_topic(name, 1, &[TIERED, ("cleanup.policy", policy)]).expect("the server answers")
    };
    const INVALID_CONFIG: i16 = 40;
    assert_eq!(
        [create("a", "compact"), create("b", "compact,delete"), create("c", "delete")],
        [INVALID_CONFIG, INVALID_CONFIG, 0]
    );
    server.stop().assert_clean();
    // The folder is this cluster's: another one is told so, and changes nothing.
    let other = tempfile::tempdir().expect("a scratch folder");
    let plan = ServerPlan::new(other.path()).flags(&format!("--tier file://{}", place.tier().display()));
    plan.start_refused().assert_refused("belongs to cluster");
    // Without a tier there is none to be asked for.
    let plain = tempfile::tempdir().expect("a scratch folder");
    let server = ServerPlan::new(plain.path()).start();
    assert_eq!(server.client(0).create_topic("t", 1, &[TIERED]).expect("the server answers"), INVALID_CONFIG);
    server.stop().assert_clean();
    // A tier that does not answer: the server starts all the same, or not, as it was told.
    let gone = format!("--tier file://{}/none/of/them", plain.path().display());
    let required = ServerPlan::new(plain.path()).flags(&gone).flags("--tier-required");
    required.start_refused().assert_refused("--tier");
    let server = ServerPlan::new(plain.path()).flags(&gone).start();
    server.wait_for_log("the tier does not answer", 1);
    server.stop().assert_clean();
}

/// `alluvium tier` with these words, and those that say where: its exit code and what it printed.
pub(crate) fn tier_command(place: &Place, words: &[&str]) -> (Option<i32>, String) {
    let (data, tier) = (place.data().display().to_string(), format!("file://{}", place.tier().display()));
    let mut all = words.to_vec();
    if words[0] != "check" {
        all.extend(["--data-dir", &data]);
    }
    if words[0] != "ls" {
        all.extend(["--tier", &tier]);
    }
    tier_command_with(&all)
}

/// `alluvium tier` with these words and no more.
pub(crate) fn tier_command_with(words: &[&str]) -> (Option<i32>, String) {
    let done = std::process::Command::new(binary()).arg("tier").args(words).output().expect("the binary starts");
    let text = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (done.status.code(), text)
}

#[test]
fn verify_finds_what_is_damaged_missing_or_unknown() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    produce(&server, 0, 8);
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 16);
    server.stop().assert_clean();
    let (code, text) = tier_command(&place, &["check"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = tier_command(&place, &["ls"]);
    assert_eq!((code, text.lines().count()), (Some(0), 1 + place.remote_files().len()), "{text}");
    let (code, text) = tier_command(&place, &["verify", TOPIC]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("0 problems"), "{text}");

    let mut files = place.remote_files();
    files.sort();
    // A record's bit, half a file, a file, and one that nobody knows.
    let mut bytes = fs::read(&files[0]).expect("readable");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&files[0], &bytes).expect("writable");
    let bytes = fs::read(&files[1]).expect("readable");
    fs::write(&files[1], &bytes[..bytes.len() / 2]).expect("writable");
    fs::remove_file(&files[2]).expect("there");
    fs::write(files[2].with_file_name("AAAAAAAAAAAAAAAAAAAAAA"), b"?").expect("writable");
    let (code, text) = tier_command(&place, &["verify"]);
    assert_eq!(code, Some(1), "{text}");
    for what in ["its CRC is wrong", "not in the store", "nobody knows this file", "4 problems"] {
        assert!(text.contains(what), "{what}: {text}");
    }
    // A reader is told; the server stays up, and what is whole is read.
    let server = place.plan().start();
    assert_all(&server, 16, 16);
    assert!(server.client(0).fetch(TOPIC, 0, 0, 1 << 20).is_ok());
    server.stop().assert_clean();
}

#[test]
fn scrub_finds_and_deletes_only_what_nobody_knows_and_is_old() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    produce(&server, 0, 8);
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 16);
    server.stop().assert_clean();
    // The stop may have come at a manifest that was being written; scrub deletes that too, where it is old enough.
    for entry in fs::read_dir(place.tier().join(".tmp")).expect("there").flatten() {
        fs::remove_file(entry.path()).expect("writable");
    }
    let (code, text) = tier_command(&place, &["scrub"]);
    assert_eq!(code, Some(0), "{text}");
    let known = place.remote_files();
    let folder = known[0].parent().expect("a folder").to_path_buf();
    let orphan = folder.join("AAAAAAAAAAAAAAAAAAAAAA");
    fs::write(&orphan, b"?").expect("writable");
    fs::write(place.tier().join(".tmp/left-by-a-crash"), b"?").expect("writable");
    let other = place.tier().join("other-0-AAAAAAAAAAAAAAAAAAAAAQ");
    fs::create_dir(&other).expect("writable");
    fs::write(other.join("AAAAAAAAAAAAAAAAAAAAAg"), b"?").expect("writable");
    let (code, text) = tier_command(&place, &["scrub"]);
    assert_eq!(code, Some(1), "{text}");
    for what in
        ["nobody knows it", "left-by-a-crash", "no data directory has this partition", "3 files that nobody knows"]
    {
        assert!(text.contains(what), "{what}: {text}");
    }
    let (_, text) = tier_command(&place, &["scrub", "--delete-orphans"]);
    assert!(text.contains("too young") && orphan.exists(), "{text}");
    let (_, text) = tier_command(&place, &["scrub", "--delete-orphans", "--older-than", "0"]);
    assert!(text.contains("2 of them deleted"), "{text}");
    assert!(!orphan.exists() && other.exists(), "{text}");
    let (code, text) =
        tier_command(&place, &["scrub", "--delete-orphans", "--older-than", "0", "--unknown-partitions"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(!other.exists(), "{text}");
    assert_eq!(place.remote_files().len(), known.len(), "what is known stays");
    fs::remove_file(&known[0]).expect("there");
    let (code, text) = tier_command(&place, &["scrub"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("missing"), "{text}");
}

#[test]
fn one_file_is_shown_without_a_server() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    produce(&server, 0, 4);
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 8);
    server.kill();
    let mut values = Vec::new();
    for file in place.remote_files() {
        let (code, text) = tier_command_with(&["cat", &file.display().to_string()]);
        assert_eq!(code, Some(0), "{text}");
        values.extend(text.lines().map(str::to_owned));
        let url = format!("file://{}", file.display());
        let (code, json) = tier_command_with(&["cat", &url, "--format", "json", "--count", "1"]);
        assert_eq!(code, Some(0), "{json}");
        assert!(json.contains(r#""topic":"t""#), "{json}");
    }
    values.sort();
    assert_eq!(values, (0..8).map(|offset| format!("value {offset}")).collect::<Vec<_>>());
    let dumped = std::process::Command::new(binary()).args(["dump", "--deep"]).arg(place.tier()).output();
    let dumped = dumped.expect("the binary starts");
    let text = String::from_utf8_lossy(&dumped.stdout);
    assert_eq!(dumped.status.code(), Some(0), "{text}");
    for what in ["tier_segment", "offset_index", "leader_epochs", "producer_snapshot", "batch base_offset=0"] {
        assert!(text.contains(what), "{what}: {text}");
    }
    let (code, text) = tier_command_with(&["cat", "s3://bucket/a/b"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is no file of a tier"), "{text}");
}

/// KIP-950: what is paused loses nothing, and leaves no hole when it goes on.
#[test]
fn copies_that_are_paused_go_on_without_a_gap() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    produce(&server, 0, 6);
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 12);
    // Kafka asks for a local retention that is the total one.
    server.stop().assert_clean();
    let server = place.plan().start();
    let paused = [("remote.log.copy.disable", "true"), ("local.retention.ms", "-2"), ("local.retention.bytes", "-2")];
    assert_eq!(server.client(0).create_topic("paused", 1, &tiered(&paused)).expect("the server answers"), 0);
    let mut client = server.client(0);
    for number in 0..10_i64 {
        let values = [2 * number, 2 * number + 1].map(|offset| format!("value {offset}").into_bytes());
        assert_eq!(client.produce("paused", 0, -1, &batch(&values)).expect("the server answers").error_code, 0);
    }
    produce(&server, 12, 6);
    eventually("the other goes on", || list(&server, EARLIEST_LOCAL) == 24);
    let (tiered_to, _, _) = server.client(0).list_offset("paused", 0, LATEST_TIERED).expect("the server answers");
    let (local_start, _, _) = server.client(0).list_offset("paused", 0, EARLIEST_LOCAL).expect("the server answers");
    assert_eq!((tiered_to, local_start), (-1, 0), "nothing is copied, and nothing local goes");
    assert_eq!(server.client(0).read_from("paused", 0, 0).expect("the server answers").len(), 20);
    server.stop().assert_clean();
}

/// A start with many remote segments: `REMOTE_SEGMENTS=1000000 cargo test --release --test server many_remote` measures a
/// million. They are read in under five seconds then, and 64 MiB hold what is known of them.
#[test]
fn many_remote_segments_cost_little_at_the_start_and_afterwards() {
    const PARTITIONS: i32 = 20;
    const OFFSETS: i64 = 100;
    let asked = std::env::var("REMOTE_SEGMENTS").ok().and_then(|count| count.parse().ok());
    let count: i64 = asked.unwrap_or(20_000);
    let a_partition = count / i64::from(PARTITIONS);
    let place = Place::new();
    let flags = format!("--tier file://{} --set remote.log.manager.task.interval.ms=600000", place.tier().display());
    let plan = ServerPlan { cores: "1".to_owned(), ..ServerPlan::new(&place.data()).flags(&flags) };
    let server = plan.start();
    let configs = tiered(&[("local.retention.bytes", "0"), ("retention.ms", "-1")]);
    assert_eq!(server.client(0).create_topic(TOPIC, PARTITIONS, &configs).expect("the server answers"), 0);
    let resident_before = server.resident_bytes();
    server.stop().assert_clean();
    let end = a_partition * OFFSETS;
    for partition in 0..PARTITIONS {
        let folder = place.data().join(format!("{TOPIC}-{partition}"));
        // The local log begins where the tier ends.
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(kind) = name.strip_prefix("00000000000000000000") {
                fs::rename(entry.path(), folder.join(format!("{end:020}{kind}"))).expect("the same disk");
            }
        }
        fs::write(folder.join("remote-segments"), metadata_of(&place, &folder, partition, a_partition, OFFSETS))
            .expect("writable");
    }
    let began_at = std::time::Instant::now();
    let server = plan.start();
    let elapsed = began_at.elapsed();
    let grown_bytes = server.resident_bytes().saturating_sub(resident_before);
    println!("{count} remote segments: ready after {elapsed:?}, {grown_bytes} bytes more than without");
    for partition in [0, PARTITIONS - 1] {
        for (timestamp, wanted) in [(EARLIEST, 0), (EARLIEST_LOCAL, end), (LATEST_TIERED, end - 1), (LATEST, end)] {
            let (offset, _, code) =
                server.client(0).list_offset(TOPIC, partition, timestamp).expect("the server answers");
            assert_eq!((code, offset), (0, wanted), "ListOffsets {timestamp} of partition {partition}");
        }
    }
    // A debug build is slow, and what it starts with is not little: a million show the rest.
    assert!(elapsed < Duration::from_secs(60), "{elapsed:?}");
    if count >= 1_000_000 {
        assert!(grown_bytes <= 64 << 20, "{grown_bytes} bytes");
    }
    server.stop().assert_clean();
}

/// A partition's metadata file as its copies would have left it, each segment in two frames.
fn metadata_of(place: &Place, folder: &Path, partition: i32, count: i64, offsets: i64) -> Vec<u8> {
    let text = fs::read_to_string(folder.join("partition.metadata")).expect("each partition has it");
    let id = text.lines().find_map(|line| line.strip_prefix("topic_id: ")).expect("a line of it");
    let id = URL_SAFE_NO_PAD.decode(id.trim()).expect("Kafka's spelling");
    let mut out = b"alv-tier\0\x01".to_vec();
    out.extend_from_slice(&id);
    out.extend_from_slice(&partition.to_be_bytes());
    for text in [TOPIC.to_owned(), format!("file://{}", place.tier().display())] {
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_be_bytes());
    let mut frame = |event: &SegmentEvent| {
        let payload = event.encode();
        out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        out.extend_from_slice(&crc32c(&payload).to_be_bytes());
        out.extend_from_slice(&payload);
    };
    for number in 0..count {
        let mut segment = RemoteSegment {
            id: RemoteSegmentId::from_random((partition as u128) << 64 | number as u128),
            start_offset: Offset(number * offsets),
            end_offset: Offset((number + 1) * offsets - 1),
            max_timestamp: TimestampMs(1_700_000_000_000 + number),
            event_time_ms: 1_700_000_000_000,
            broker_id: 1000,
            segment_bytes: 1000,
            file_bytes: 2000,
            file_crc: 0,
            state: SegmentState::CopyStarted,
            has_transaction_index: false,
            epochs: vec![EpochEntry { epoch: LeaderEpoch(0), start_offset: Offset(number * offsets) }],
        };
        frame(&SegmentEvent::Copy(segment.clone()));
        segment.state = SegmentState::CopyFinished;
        frame(&SegmentEvent::Copy(segment));
    }
    frame(&SegmentEvent::LocalStart(Offset(count * offsets)));
    out
}
