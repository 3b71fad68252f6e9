//! A server whose disks are lost, made again from the tier alone.
#![allow(clippy::disallowed_methods, reason = "a test looks at the server's files")]

use std::fs;

use alluvium::tier::manifest::Manifest;
use alluvium::tier::manifest_view::ManifestView;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use alluvium::wire::messages::offset_commit_response::OffsetCommitResponse;
use alluvium::wire::messages::offset_fetch_request::{OffsetFetchRequest, OffsetFetchRequestTopic};
use alluvium::wire::messages::offset_fetch_response::OffsetFetchResponse;

use crate::support::client::{idempotent_batch, records_of};
use crate::support::process::{Server, ServerPlan};
use crate::tier::{
    EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, Place, TOPIC, assert_all, create, eventually, list, produce,
    tier_command_with, tiered,
};

const GROUP: &str = "readers";
const COMMIT_VERSION: i16 = 7;
const FETCH_VERSION: i16 = 5;

/// Commits an offset of the topic's partition 0, as one who is in no group does. Tries again while the group's place is made.
fn commit(server: &Server, offset: i64) {
    eventually("the group takes a commit", || try_commit(server, offset) == 0);
}

fn try_commit(server: &Server, offset: i64) -> i16 {
    let partition = OffsetCommitRequestPartition {
        committed_offset: offset,
        committed_leader_epoch: -1,
        ..OffsetCommitRequestPartition::default()
    };
    let topic = OffsetCommitRequestTopic { name: TOPIC, partitions: vec![partition], ..Default::default() };
    let request = OffsetCommitRequest {
        group_id: GROUP,
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..OffsetCommitRequest::default()
    };
    let answer = server.client(0).call(
        ApiKey::OffsetCommit,
        COMMIT_VERSION,
        |out| request.encode(out, COMMIT_VERSION),
        |reader| {
            let response = OffsetCommitResponse::decode(reader, COMMIT_VERSION)?;
            Ok(response.topics[0].partitions[0].error_code)
        },
    );
    answer.expect("the server answers")
}

/// What the group has committed; `None` while its coordinator is being read.
fn committed(server: &Server) -> Option<i64> {
    let topic = OffsetFetchRequestTopic { name: TOPIC, partition_indexes: vec![0] };
    let request = OffsetFetchRequest { group_id: GROUP, topics: Some(vec![topic]), ..OffsetFetchRequest::default() };
    let answer = server.client(0).call(
        ApiKey::OffsetFetch,
        FETCH_VERSION,
        |out| request.encode(out, FETCH_VERSION),
        |reader| {
            let response = OffsetFetchResponse::decode(reader, FETCH_VERSION)?;
            let found = (response.error_code == 0).then(|| response.topics.first()?.partitions.first());
            Ok(found.flatten().map(|partition| partition.committed_offset))
        },
    );
    answer.expect("the server answers")
}

fn find_group(server: &Server) {
    use alluvium::wire::messages::find_coordinator_request::FindCoordinatorRequest;
    let request = FindCoordinatorRequest { key: GROUP, ..FindCoordinatorRequest::default() };
    // Makes `__consumer_offsets` where it is not there.
    let asked = server.client(0).call(ApiKey::FindCoordinator, 2, |out| request.encode(out, 2), |_| Ok(()));
    asked.expect("the server answers");
}

fn restore(place: &Place, more: &[&str]) -> (Option<i32>, String) {
    let url = format!("file://{}", place.tier().display());
    let data = place.data().display().to_string();
    let words: Vec<&str> =
        ["restore", "--from", &url, "--data-dir", &data].into_iter().chain(more.iter().copied()).collect();
    tier_command_with(&words)
}

/// What the manifests say together.
fn view(place: &Place) -> ManifestView {
    let mut all = ManifestView::default();
    for row in fs::read_dir(place.tier().join(".manifests")).into_iter().flatten().flatten() {
        let mut files: Vec<_> =
            fs::read_dir(row.path()).into_iter().flatten().flatten().map(|file| file.path()).collect();
        files.sort();
        let mut of_row = ManifestView::default();
        for file in files {
            // One that is replaced at this moment is read the next time.
            let Ok(bytes) = fs::read(&file) else { continue };
            let name = file.display().to_string();
            of_row.replay(&name, Manifest::decode(&name, &bytes).expect("whole")).expect("right");
        }
        all.join(of_row);
    }
    all
}

/// Waits until the manifests say that all files are there, where the log ends, and what the group has committed.
fn wait_for_manifests(place: &Place, end: i64, committed: i64) {
    eventually("the manifests say all of it", || {
        let view = view(place);
        let known: Vec<_> = view.partitions.values().collect();
        let offsets = view.group_offsets.values().flat_map(|(_, batches)| records_of(batches));
        let last = offsets.filter_map(|record| i64_at(&record.value, 2)).next_back();
        known.len() == 1
            && known[0].segments.len() == place.remote_files().len()
            && known[0].said.log_end.get() == end
            && last == Some(committed)
    });
}

/// A committed offset stands behind the version in its record's value.
fn i64_at(value: &[u8], at: usize) -> Option<i64> {
    value.get(at..)?.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes))
}

/// A server with 40 records in the tier and a group at 18; then its disk is gone.
fn lost_server(place: &Place) {
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0"), ("segment.ms", "600000"), ("retention.ms", "-1")]));
    produce(&server, 0, 20);
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 40);
    find_group(&server);
    commit(&server, 17);
    commit(&server, 18);
    wait_for_manifests(place, 40, 18);
    server.kill();
    fs::remove_dir_all(place.data()).expect("the disk is lost");
}

#[test]
fn c156_an_empty_server_gets_all_back_from_the_tier_alone() {
    let place = Place::new();
    lost_server(&place);
    let (code, text) = restore(&place, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("1 topics, 1 partitions") && text.contains("1 committed offsets"), "{text}");
    let (code, text) = restore(&place, &[]);
    assert_eq!(code, Some(1), "a second time: {text}");
    assert!(text.contains("is not empty"), "{text}");

    let server = place.plan().start();
    assert_eq!([EARLIEST, LATEST, LATEST_TIERED].map(|at| list(&server, at)), [0, 40, 39]);
    assert_all(&server, 0, 40);
    eventually("the group goes on", || committed(&server) == Some(18));
    let led = server.client(0).partitions(TOPIC).expect("an answer").expect("the topic");
    assert!(led[0].leader_epoch >= 1, "a new leader epoch: {led:?}");
    // New records go behind the old ones, and on to the tier.
    produce(&server, 40, 6);
    assert_all(&server, 0, 52);
    eventually("copies go on", || list(&server, EARLIEST_LOCAL) == 52);
    assert_all(&server, 0, 52);
    server.kill();
    // Once more, of what the restored server has written.
    fs::remove_dir_all(place.data()).expect("the disk is lost");
    let (code, text) = restore(&place, &["--topic", TOPIC]);
    assert_eq!(code, Some(0), "{text}");
    let server = place.plan().start();
    assert_all(&server, 0, 52);
    server.stop().assert_clean();
}

#[test]
fn c156_the_files_alone_are_enough_for_a_slow_restore() {
    let place = Place::new();
    lost_server(&place);
    let (code, text) = restore(&place, &["--slow", "--topic", "none"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("has no topic none"), "{text}");
    fs::remove_dir_all(place.tier().join(".manifests")).expect("there");
    let (code, text) = restore(&place, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("no manifests") && text.contains("settings are not known"), "{text}");
    let server = place.plan().start();
    assert_eq!([EARLIEST, LATEST, LATEST_TIERED].map(|at| list(&server, at)), [0, 40, 39]);
    assert_all(&server, 0, 40);
    let led = server.client(0).partitions(TOPIC).expect("an answer").expect("the topic");
    assert!(led[0].leader_epoch > 1000, "above all that were given: {led:?}");
    produce(&server, 40, 3);
    assert_all(&server, 0, 46);
    server.kill();
    // The server came up with its own manifests; local metadata alone lost is the same as a lost disk.
    let server = place.plan().start();
    assert_all(&server, 0, 46);
    server.stop().assert_clean();
}

/// Offset of the first record of a tier file: its header says where the records begin.
fn first_offset(file: &[u8]) -> i64 {
    let at = i32::from_be_bytes(file[21..25].try_into().expect("four bytes")) as usize;
    i64::from_be_bytes(file[at..at + 8].try_into().expect("eight bytes"))
}

#[test]
fn what_the_tier_lacks_is_said_and_nothing_is_deleted() {
    let place = Place::new();
    lost_server(&place);
    let mut files = place.remote_files();
    // In the order of their offsets, from the third on: their names are random, and what is left is to have a hole.
    files.sort_by_key(|file| first_offset(&fs::read(file).expect("readable")));
    files.rotate_left(2);
    // One file is gone, one is of another version, one is cut short; none of this is mended or removed.
    fs::remove_file(&files[0]).expect("there");
    let before = place.remote_files().len();
    let (code, text) = restore(&place, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("not in the store, though it was copied"), "{text}");
    assert_eq!(place.remote_files().len(), before);
    fs::remove_dir_all(place.data()).expect("there");

    let bytes = fs::read(&files[1]).expect("readable");
    fs::write(&files[1], [&[1], &bytes[1..]].concat()).expect("writable");
    let bytes = fs::read(&files[2]).expect("readable");
    fs::write(&files[2], &bytes[..bytes.len() - 1]).expect("writable");
    let bytes = fs::read(&files[3]).expect("readable");
    fs::write(&files[3], [&bytes[..9], &[0; 4], &bytes[13..]].concat()).expect("writable");
    let (code, text) = restore(&place, &["--slow"]);
    assert_eq!(code, Some(0), "{text}");
    for what in ["version byte 1", "cut short", "places the sections wrongly", "no segment has the offsets"] {
        assert!(text.contains(what), "{what}: {text}");
    }
    assert_eq!(place.remote_files().len(), before);
    fs::remove_dir_all(place.data()).expect("there");

    // A manifest of a newer server: nothing is made of it, and it stays.
    let row = fs::read_dir(place.tier().join(".manifests")).expect("there").flatten().next().expect("a row").path();
    let newest = row.join("09999999999999999999.full");
    fs::write(&newest, b"alv-mani\x00\x07").expect("writable");
    let (code, text) = restore(&place, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("09999999999999999999.full has version 7"), "{text}");
    assert!(newest.exists());
    let empty = tempfile::tempdir().expect("a scratch folder");
    let url = format!("file://{}/none", empty.path().display());
    let data = empty.path().join("data").display().to_string();
    let (code, text) = tier_command_with(&["restore", "--from", &url, "--data-dir", &data]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is not there, or is empty"), "{text}");
}

#[test]
fn what_had_not_been_copied_is_named_and_no_group_stands_beyond_it() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[]));
    produce(&server, 0, 21);
    eventually("what is sealed is in the tier", || list(&server, LATEST_TIERED) == 39);
    find_group(&server);
    commit(&server, 42);
    wait_for_manifests(&place, 42, 42);
    server.kill();
    fs::remove_dir_all(place.data()).expect("the disk is lost");
    let (code, text) = restore(&place, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("40 to 41 had not been copied and are lost"), "{text}");
    assert!(text.contains("1 of them lay beyond the end"), "{text}");
    let server = place.plan().start();
    assert_all(&server, 0, 40);
    eventually("the group misses nothing that comes", || committed(&server) == Some(40));
    // The offsets are given again, under a later epoch.
    produce(&server, 40, 3);
    assert_all(&server, 0, 46);
    server.stop().assert_clean();
}

#[test]
fn producers_are_known_again_after_a_restore() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    let mut client = server.client(0);
    let producer = client.init_producer_id().expect("the server answers");
    for number in 0..8 {
        let values = vec![format!("value {number}").into_bytes()];
        let batch = idempotent_batch(producer, number, &values);
        let produced = client.produce(TOPIC, 0, -1, &batch).expect("an answer");
        assert_eq!((produced.error_code, produced.base_offset), (0, i64::from(number)));
    }
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 8);
    eventually("a manifest is there", || !view(&place).partitions.is_empty());
    server.kill();
    fs::remove_dir_all(place.data()).expect("the disk is lost");
    let (code, text) = restore(&place, &[]);
    assert_eq!(code, Some(0), "{text}");
    let server = place.plan().start();
    let mut client = server.client(0);
    // Sent again it is the same record; the next one follows; one that leaves a gap is refused.
    let again =
        client.produce(TOPIC, 0, -1, &idempotent_batch(producer, 7, &[b"value 7".to_vec()])).expect("an answer");
    assert_eq!((again.error_code, again.base_offset), (0, 7));
    const OUT_OF_ORDER: i16 = 45;
    let gap = client.produce(TOPIC, 0, -1, &idempotent_batch(producer, 9, &[b"value 9".to_vec()])).expect("an answer");
    assert_eq!(gap.error_code, OUT_OF_ORDER);
    let next = client.produce(TOPIC, 0, -1, &idempotent_batch(producer, 8, &[b"value 8".to_vec()])).expect("an answer");
    assert_eq!((next.error_code, next.base_offset), (0, 8));
    assert_all(&server, 0, 9);
    let other = client.init_producer_id().expect("an answer");
    assert!(other.0 > producer.0, "an id that nobody had: {other:?} after {producer:?}");
    server.stop().assert_clean();
}

#[test]
fn c156_metadata_alone_that_is_lost_is_made_again() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    produce(&server, 0, 20);
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 40);
    server.kill();
    let known = place.data().join("t-0/remote-segments");
    let before = listed(&place);
    for more in [&["--metadata-only"][..], &["--metadata-only", "--slow"]] {
        fs::remove_file(&known).expect("there");
        let (code, text) = restore(&place, more);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("1 partitions know their segments"), "{text}");
        assert_eq!(listed(&place), before, "{more:?}");
    }
    let (_, text) = restore(&place, &["--metadata-only"]);
    assert!(text.contains("has its own remote-segments"), "{text}");
    let server = place.plan().start();
    assert_all(&server, 0, 40);
    produce(&server, 40, 2);
    assert_all(&server, 0, 44);
    let (code, text) = restore(&place, &["--metadata-only"]);
    assert_eq!(code, Some(1), "while the server runs: {text}");
    server.stop().assert_clean();
    // Another cluster's directory is told so.
    let other = tempfile::tempdir().expect("a scratch folder");
    ServerPlan::new(other.path()).start().stop().assert_clean();
    let url = format!("file://{}", place.tier().display());
    let data = other.path().display().to_string();
    let (code, text) = tier_command_with(&["restore", "--metadata-only", "--from", &url, "--data-dir", &data]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("belongs to cluster"), "{text}");
}

/// What `tier ls` says of all segments.
fn listed(place: &Place) -> String {
    let (code, text) = tier_command_with(&["ls", "--data-dir", &place.data().display().to_string()]);
    assert_eq!(code, Some(0), "{text}");
    text
}

#[test]
fn copies_go_on_where_no_manifest_can_be_written() {
    let place = Place::new();
    fs::create_dir_all(place.tier()).expect("writable");
    // A file stands where the folder should be.
    fs::write(place.tier().join(".manifests"), b"?").expect("writable");
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    produce(&server, 0, 8);
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 16);
    server.wait_for_log("a manifest of the tier could not be written", 1);
    assert_all(&server, 0, 16);
    // It can again: all is said.
    fs::remove_file(place.tier().join(".manifests")).expect("there");
    eventually("manifests are written again", || {
        view(&place).partitions.values().any(|known| known.segments.len() == place.remote_files().len())
    });
    server.kill();
    // A newer server's stay, and this one writes none.
    let newer = place.tier().join(".manifests/1000/00000000000000009999.full");
    fs::write(&newer, b"alv-mani\x00\x07").expect("writable");
    let rows = || fs::read_dir(newer.parent().expect("a row")).expect("there").count();
    let before = rows();
    let server = place.plan().start();
    server.wait_for_log("no manifests of the tier are written by this server", 1);
    produce(&server, 16, 4);
    eventually("copies go on", || list(&server, EARLIEST_LOCAL) == 24);
    assert_eq!(rows(), before);
    server.stop().assert_clean();
}
