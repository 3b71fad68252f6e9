//! Several data directories of a real server: one that cannot be used, or fails, takes only its partitions offline.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at a process from outside")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::client::batch;
use crate::support::process::{Server, ServerPlan};
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::messages::describe_log_dirs_request::DescribeLogDirsRequest;
use alluvium::wire::messages::describe_log_dirs_response::DescribeLogDirsResponse;

const PARTITIONS: i32 = 4;
const STORAGE_ERROR: i16 = ErrorCode::KafkaStorageError.code();

struct Folders {
    _scratch: tempfile::TempDir,
    first: PathBuf,
    second: PathBuf,
}

impl Folders {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
        Self { _scratch: scratch, first, second }
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

/// At the first start of all a name is more likely wrong than a disk broken.
#[test]
fn the_first_start_wants_every_directory() {
    let folders = Folders::new();
    fs::write(&folders.second, "no directory").expect("a scratch folder");
    folders.plan().start_refused().assert_refused("check that it exists, is a directory");
}
