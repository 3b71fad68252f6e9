//! Several data directories of a real server: one that cannot be used, or fails, takes only its partitions offline.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at a process from outside")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::small_disk::SmallDisk;
use crate::support::client::{Client, batch};
use crate::support::process::{Server, ServerPlan};
use crate::support::skip::skip;
use crate::support::wait;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::messages::describe_log_dirs_request::DescribeLogDirsRequest;
use alluvium::wire::messages::describe_log_dirs_response::DescribeLogDirsResponse;

const PARTITIONS: i32 = 4;
const STORAGE_ERROR: i16 = ErrorCode::KafkaStorageError.code();

struct Folders {
    scratch: tempfile::TempDir,
    first: PathBuf,
    second: PathBuf,
}

impl Folders {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
        Self { scratch, first, second }
    }

    fn plan(&self) -> ServerPlan {
        ServerPlan::new(&self.first).flags(&format!("--data-dir {}", self.second.display()))
    }

    /// The directory of each partition.
    fn holds(&self, dir: &Path, partition: i32) -> bool {
        dir.join(format!("t-{partition}")).is_dir()
    }
}

fn produce_to_all(server: &Server) -> Vec<i16> {
    let led = server.client(0).partitions("t").expect("it answers").expect("it is there");
    let produce = |partition: i32| {
        let mut client = server.client(led[partition as usize].core);
        client.produce("t", partition, -1, &batch(&[b"value".to_vec()])).expect("it answers").error_code
    };
    (0..PARTITIONS).map(produce).collect()
}

/// Error code and partitions of each directory, by all brokers.
fn describe(server: &Server) -> BTreeMap<PathBuf, (i16, usize)> {
    let mut found: BTreeMap<PathBuf, (i16, usize)> = BTreeMap::new();
    for core in 0..2 {
        let request = DescribeLogDirsRequest { topics: None };
        let rows = server.client(core).call(
            ApiKey::DescribeLogDirs,
            4,
            |out| request.encode(out, 4),
            |reader| {
                let response = DescribeLogDirsResponse::decode(reader, 4)?;
                let row = |dir: &alluvium::wire::messages::describe_log_dirs_response::DescribeLogDirsResult<'_>| {
                    assert!(
                        dir.error_code != 0 || dir.total_bytes >= dir.usable_bytes && dir.usable_bytes > 0,
                        "{dir:?}"
                    );
                    let count = dir.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>();
                    (PathBuf::from(dir.log_dir), dir.error_code, count)
                };
                Ok(response.results.iter().map(row).collect::<Vec<_>>())
            },
        );
        for (dir, error, count) in rows.expect("it answers") {
            let seen = found.entry(dir).or_insert((error, 0));
            assert_eq!(seen.0, error, "all cores say the same");
            seen.1 += count;
        }
    }
    found
}

/// One directory's path is no directory any more (a disk that is not there): the other is served, and all comes back.
#[test]
fn a_directory_that_cannot_be_used_at_the_start_keeps_the_other_serving() {
    let folders = Folders::new();
    let server = folders.plan().start();
    assert_eq!(server.client(0).create_topic("t", PARTITIONS, &[]).expect("it answers"), 0);
    assert_eq!(produce_to_all(&server), [0; 4]);
    let two_each: BTreeMap<_, _> = [(folders.first.clone(), (0, 2)), (folders.second.clone(), (0, 2))].into();
    assert_eq!(describe(&server), two_each);
    server.stop().assert_clean();

    let away = folders.second.with_extension("away");
    fs::rename(&folders.second, &away).expect("our own folder");
    fs::write(&folders.second, "no directory").expect("our own folder");
    let server = folders.plan().start();
    for (partition, code) in (0..).zip(produce_to_all(&server)) {
        let expected = if folders.holds(&folders.first, partition) { 0 } else { STORAGE_ERROR };
        assert_eq!(code, expected, "partition {partition}");
    }
    assert_eq!(
        describe(&server),
        [(folders.first.clone(), (0, 2)), (folders.second.clone(), (STORAGE_ERROR, 0))].into()
    );
    assert_eq!(server.log_count("a data directory cannot be used"), 1, "{}", server.log());
    assert_eq!(server.client(0).create_topic("new", 3, &[]).expect("it answers"), 0);
    server.stop().assert_clean();

    // The other way round: without the directory with the catalog nobody knows what there is.
    fs::rename(&folders.first, folders.first.with_extension("away")).expect("our own folder");
    fs::write(&folders.first, "no directory").expect("our own folder");
    fs::remove_file(&folders.second).expect("our own file");
    fs::rename(&away, &folders.second).expect("our own folder");
    folders.plan().start_refused().assert_refused("check that it exists, is a directory");

    fs::remove_file(&folders.first).expect("our own file");
    fs::rename(folders.first.with_extension("away"), &folders.first).expect("our own folder");
    // In another order.
    let plan = ServerPlan::new(&folders.second).flags(&format!("--data-dir {}", folders.first.display()));
    let server = plan.start();
    assert_eq!(produce_to_all(&server), [0; 4]);
    server.stop().assert_clean();
}

/// A directory vanishes under a running server: its partitions go offline when that is noticed, on both cores, and only
/// the other directory is left as by a clean stop.
#[test]
fn a_directory_that_fails_while_it_is_used_takes_only_its_own_offline() {
    let folders = Folders::new();
    let server = folders.plan().flags("--set log.segment.bytes=1048576").start();
    assert_eq!(server.client(0).create_topic("t", PARTITIONS, &[]).expect("it answers"), 0);
    assert_eq!(produce_to_all(&server), [0; 4]);
    let away = folders.second.with_extension("away");
    fs::rename(&folders.second, &away).expect("our own folder");
    // A partition that is to be made there finds it gone.
    assert_eq!(server.client(0).create_topic("new", 2, &[]).expect("it answers"), 0);
    server.wait_for_log("a data directory has failed", 1);
    for (partition, code) in (0..).zip(produce_to_all(&server)) {
        let expected = if folders.holds(&folders.first, partition) { 0 } else { STORAGE_ERROR };
        assert_eq!(code, expected, "partition {partition}");
    }
    assert_eq!(describe(&server)[&folders.second], (STORAGE_ERROR, 0));
    let ended = server.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    assert!(folders.first.join(".kafka_cleanshutdown").exists(), "{}", ended.log);
    assert!(!away.join(".kafka_cleanshutdown").exists(), "{}", ended.log);
    fs::rename(&away, &folders.second).expect("our own folder");
    let server = folders.plan().start();
    assert_eq!(produce_to_all(&server), [0; 4]);
    server.stop().assert_clean();
}

/// The file system below one directory begins to refuse writes with EIO while all partitions are written to: those of the directory are
/// offline on both cores, the others go on; with the file system repaired all is there that was acknowledged.
#[test]
fn a_disk_that_answers_eio_takes_only_its_directory_offline() {
    let folders = Folders::new();
    let (mount_point, image) = (folders.scratch.path().join("disk"), folders.scratch.path().join("image"));
    fs::create_dir(&mount_point).expect("a scratch folder");
    let test = "a disk that answers EIO";
    let Some(disk) = SmallDisk::ext4(&mount_point, &image) else {
        return skip(
            test,
            "no ext4 over a loop device can be mounted here (mkfs.ext4, unshare --mount, mount -o loop)",
        );
    };
    let failing = mount_point.join("data");
    let mut plan = ServerPlan::new(&folders.first).flags(&format!("--data-dir {}", failing.display()));
    plan.wrapper = disk.wrapper();
    let server = plan.start();
    assert_eq!(server.client(0).create_topic("t", PARTITIONS, &[]).expect("it answers"), 0);
    let is_failing: Vec<bool> = (0..PARTITIONS).map(|at| !folders.holds(&folders.first, at)).collect();
    assert_eq!(is_failing.iter().filter(|failing| **failing).count(), 2, "two partitions in each directory");
    let led = server.client(0).partitions("t").expect("it answers").expect("it is there");
    let client = |partition: i32| server.client(led[partition as usize].core);

    // Acknowledged of each partition, and those that were once refused.
    let acknowledged: Vec<Mutex<i64>> = (0..PARTITIONS).map(|_| Mutex::new(0)).collect();
    let enough = AtomicBool::new(false);
    let supported = thread::scope(|scope| {
        for partition in 0..PARTITIONS {
            let (mut client, at, enough) = (client(partition), partition as usize, &enough);
            let (acknowledged, is_failing) = (&acknowledged[at], is_failing[at]);
            scope.spawn(move || {
                while !enough.load(Ordering::Relaxed) {
                    match write_one(&mut client, partition) {
                        0 => *acknowledged.lock().expect("no panic") += 1,
                        code => {
                            assert!(is_failing, "partition {partition}: {code}");
                            assert_eq!(code, STORAGE_ERROR, "partition {partition}");
                            break;
                        }
                    }
                }
            });
        }
        let reach = |more: i64, only: fn(bool) -> bool| {
            let goals: Vec<i64> = acknowledged.iter().map(|count| *count.lock().expect("no panic") + more).collect();
            let there = || {
                let reached = |at: usize| *acknowledged[at].lock().expect("no panic") >= goals[at];
                (0..goals.len()).all(|at| !only(is_failing[at]) || reached(at)).then_some(())
            };
            wait::until("writing goes on", Duration::from_secs(60), there);
        };
        reach(20, |_| true);
        let supported = disk.fail();
        if supported {
            server.wait_for_log("a data directory has failed", 1);
            reach(20, |failing| !failing);
        }
        enough.store(true, Ordering::Relaxed);
        supported
    });
    if !supported {
        return skip(test, "this kernel does not abort an ext4 (mount -o remount,abort)");
    }

    for (partition, code) in (0..).zip(produce_to_all(&server)) {
        let expected = if is_failing[partition as usize] { STORAGE_ERROR } else { 0 };
        assert_eq!(code, expected, "partition {partition}");
        let fetched = client(partition).fetch("t", partition, 0, 1 << 20).expect("it answers");
        assert_eq!(fetched.error_code, expected, "partition {partition}");
        assert_eq!(fetched.records.is_empty(), expected != 0, "partition {partition}");
    }
    assert_eq!(describe(&server), [(folders.first.clone(), (0, 2)), (failing.clone(), (STORAGE_ERROR, 0))].into());
    let lines: Vec<String> =
        server.log().lines().filter(|line| line.contains("a data directory has failed")).map(str::to_owned).collect();
    // Each core may have met it before it heard of it.
    assert!((1..=2).contains(&lines.len()), "{lines:#?}");
    assert!(lines.iter().all(|line| line.contains(&*failing.to_string_lossy())), "{lines:#?}");
    // New partitions find their place on the other one.
    assert_eq!(server.client(0).create_topic("new", 2, &[]).expect("it answers"), 0);
    assert!((0..2).all(|partition| folders.first.join(format!("new-{partition}")).is_dir()));
    let ended = server.stop();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    assert!(!ended.log.contains("panicked"), "{}", ended.log);

    disk.repair(&image);
    let server = plan.start();
    assert_eq!(produce_to_all(&server), [0; 4]);
    for (partition, acknowledged) in (0..).zip(&acknowledged) {
        let mut client = server.client(led[partition as usize].core);
        let read = client.read_from("t", partition, 0).expect("it answers");
        let acknowledged = usize::try_from(*acknowledged.lock().expect("no panic")).expect("a count");
        assert!(read.len() > acknowledged, "partition {partition}: {} of {acknowledged} and one", read.len());
        assert!((0..).zip(&read).all(|(offset, record)| record.offset == offset), "partition {partition}");
    }
    assert_eq!(describe(&server)[&failing].0, 0);
    server.stop().assert_clean();
}

/// Writes one record; the error code.
fn write_one(client: &mut Client, partition: i32) -> i16 {
    client.produce("t", partition, -1, &batch(&[vec![b'.'; 1000]])).expect("it answers").error_code
}

/// At the first start of all a name is more likely wrong than a disk broken.
#[test]
fn the_first_start_wants_every_directory() {
    let folders = Folders::new();
    fs::write(&folders.second, "no directory").expect("a scratch folder");
    folders.plan().start_refused().assert_refused("check that it exists, is a directory");
}
