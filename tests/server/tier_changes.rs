//! What becomes of a tiered partition when its disk or its topic's settings change.
#![allow(clippy::disallowed_methods, reason = "a test looks at the server's files")]

use std::fs;

use alluvium::record::batch::crc32c;

use crate::small_disk::SmallDisk;
use crate::support::client::batch;
use crate::support::process::ServerPlan;
use crate::support::skip::skip;
use crate::tier::{
    EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, Place, TOPIC, assert_all, create, eventually, list, produce,
    tiered,
};

/// What a disk has changed is not carried on: the copy is refused and told, and whatever is behind it stays here.
#[test]
fn a_damaged_segment_is_told_and_not_copied() {
    let place = Place::new();
    // So slow that nothing is copied yet.
    let server = place.plan().flags("--set remote.log.manager.copy.max.bytes.per.second=1").start();
    create(&server, &tiered(&[("local.retention.bytes", "0"), ("file.delete.delay.ms", "0")]));
    produce(&server, 0, 8);
    server.stop().assert_clean();
    let log = place.data().join("t-0/00000000000000000004.log");
    let mut bytes = fs::read(&log).expect("a sealed segment");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&log, &bytes).expect("writable");
    let server = place.plan().start();
    server.wait_for_log("segment 4 is damaged and is not copied", 2);
    assert_eq!(list(&server, LATEST_TIERED), 3, "the one before is in the tier");
    eventually("it goes locally", || list(&server, EARLIEST_LOCAL) == 4);
    eventually("nothing half-written stays", || place.half_written() == 0 && place.remote_files().len() == 1);
    let first = server.client(0).fetch(TOPIC, 0, 0, 1).expect("an answer");
    assert!(first.error_code == 0 && !first.records.is_empty(), "what is in the tier is read: {first:?}");
    assert_all(&server, 8, 16);
    produce(&server, 16, 4);
    assert_eq!((list(&server, LATEST_TIERED), list(&server, EARLIEST_LOCAL)), (3, 4));
    // Its disk's copy was right, say: all of it moves on.
    server.stop().assert_clean();
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&log, &bytes).expect("writable");
    let server = place.plan().start();
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 24);
    assert_all(&server, 0, 24);
    server.stop().assert_clean();
}

#[test]
fn leader_epochs_are_known_over_both_tiers() {
    let place = Place::new();
    let mut begins = Vec::new();
    for round in 0..5_i64 {
        let server = place.plan().start();
        if round == 0 {
            create(&server, &tiered(&[("local.retention.bytes", "0")]));
        }
        let (end, epoch, _) = server.client(0).list_offset(TOPIC, 0, LATEST).expect("the server answers");
        assert_eq!(end, 6 * round);
        if round < 4 {
            produce(&server, end, 3);
            eventually("it is in the tier alone", || list(&server, EARLIEST_LOCAL) == end + 6);
            begins.push((epoch, end));
            server.kill();
            continue;
        }
        // Each ends where the next one begins: those that are in the tier alone, and the last, of which nothing is written.
        let mut client = server.client(0);
        for (at, (epoch, _)) in begins.iter().enumerate() {
            let end = begins.get(at + 1).map_or(end, |(_, begin)| *begin);
            assert_eq!(client.epoch_end(TOPIC, 0, *epoch).expect("the server answers"), (0, *epoch, end), "{begins:?}");
        }
        assert!(begins.windows(2).all(|pair| pair[0].0 < pair[1].0), "each start raises it: {begins:?}");
        server.stop().assert_clean();
    }
}

/// As after a restore of one folder of another server's disk: what is known there of another topic's segments is kept.
#[test]
fn segments_of_another_topic_id_are_told_and_kept() {
    let place = Place::new();
    let server = place.plan().start();
    create(&server, &tiered(&[("local.retention.bytes", "0")]));
    produce(&server, 0, 5);
    eventually("all is in the tier", || list(&server, EARLIEST_LOCAL) == 10);
    server.stop().assert_clean();
    let folder = place.data().join("t-0");
    let known = folder.join("remote-segments");
    let mut bytes = fs::read(&known).expect("there");
    // Magic and version, the topic's id; then the partition, two names and their lengths, and a CRC.
    bytes[10..26].copy_from_slice(&[0xab; 16]);
    let mut at = 30;
    for _ in 0..2 {
        at += 2 + usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    }
    let crc = crc32c(&bytes[..at]);
    bytes[at..at + 4].copy_from_slice(&crc.to_be_bytes());
    fs::write(&known, &bytes).expect("writable");
    let copied = place.remote_files().len();
    let server = place.plan().start();
    server.wait_for_log("remote-segments is of another topic", 1);
    // It has what is here alone: a file of the last segment that went may still be.
    let start = list(&server, EARLIEST);
    assert!((8..=10).contains(&start) && list(&server, LATEST) == 10, "the log begins at {start}");
    produce(&server, 10, 4);
    eventually("its own segments are copied", || list(&server, EARLIEST_LOCAL) == 18);
    assert_all(&server, start, 18);
    server.stop().assert_clean();
    let aside = fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path());
    let aside = aside.into_iter().find(|path| path.to_string_lossy().contains("remote-segments.")).expect("set aside");
    assert_eq!(fs::read(aside).expect("readable"), bytes, "what was known is still there");
    assert!(place.remote_files().len() > copied, "and so are the files");
}

/// The tier is away while records come in: what waits, and that the disk fills up, is told before a producer is refused; when
/// the tier is there, all of it moves and there is room again.
#[test]
fn a_disk_that_fills_up_is_told_before_producers_are_refused() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let Some(disk) = SmallDisk::tmpfs(folder.path()) else {
        return skip("a disk that fills up", "this user may not mount in a namespace of its own (unshare --mount)");
    };
    let elsewhere = tempfile::tempdir().expect("a scratch folder");
    let tier = elsewhere.path().join("mount/tier");
    let often = "--set log.initial.task.delay.ms=0 --set log.retention.check.interval.ms=50 \
         --set remote.log.manager.task.interval.ms=50";
    let flags = format!("{often} --tier file://{}", tier.display());
    let mut plan = ServerPlan { cores: "1".to_owned(), ..ServerPlan::new(&folder.path().join("data")).flags(&flags) };
    plan.wrapper = disk.wrapper();
    let server = plan.start();
    let configs = [
        ("remote.storage.enable", "true"),
        ("segment.bytes", "1048576"),
        ("local.retention.bytes", "1"),
        ("file.delete.delay.ms", "0"),
    ];
    create(&server, &configs);
    let mut client = server.client(0);
    let mut write = |value_bytes: usize| {
        client.produce(TOPIC, 0, -1, &batch(&[vec![7; value_bytes]])).expect("the server answers").error_code
    };
    let mut written = 0;
    while server.log_count("the disk fills up with segments that wait for the tier") == 0 {
        assert_eq!(write(200_000), 0, "it is told before a producer is refused; {written} records were written");
        written += 1;
    }
    assert!(server.log_count("waiting_bytes=") > 0, "{}", server.log());
    assert_eq!(list(&server, EARLIEST_LOCAL), 0, "nothing goes that was not copied");
    while write(200_000) == 0 {
        written += 1;
    }
    fs::create_dir_all(tier.parent().expect("a parent")).expect("writable");
    eventually("what waited has moved", || list(&server, EARLIEST_LOCAL) > written - 12);
    eventually("there is room again", || write(200_000) == 0);
    assert_eq!(list(&server, EARLIEST), 0);
    assert_eq!(server.client(0).read_from(TOPIC, 0, 0).expect("the server answers").len() as i64, written + 1);
    server.stop().assert_clean();
}
