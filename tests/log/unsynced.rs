//! Indexes that were in the page cache alone when a process ended: a start that believes them makes them durable.
#![cfg(feature = "sim")]

use std::path::{Path, PathBuf};

use alluvium::log::layout::{segment_path, transaction_index_path};
use alluvium::log::partition_log::{LogConfig, PartitionLog};
use alluvium::log::plan::{Append, IndexKind};
use alluvium::log::recovery::RecoveredLog;
use alluvium::log::segment_files::roll_files;
use alluvium::record::batch::{TRANSACTIONAL_BIT, parse_header};
use alluvium::record::builder::BatchBuilder;
use alluvium::record::check::CheckedBatch;
use alluvium::record::control::EndMarker;
use alluvium::record::offset::{LeaderEpoch, ProducerId};
use alluvium::ring::buffer::Buffer;
use alluvium::ring::io::{Io, OpenHow};
use alluvium::ring::sim::options::Crash;

use crate::recovery::{Disk, folder, seed, unclean};

/// A transaction that is aborted, whose entry nobody syncs.
async fn abort_one(io: Io, recovered: RecoveredLog) {
    let config = LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() };
    let mut log = PartitionLog::new(recovered, config, LeaderEpoch(6));
    let mut builder = BatchBuilder::new().producer(ProducerId(9), 0, 0).attributes(TRANSACTIONAL_BIT);
    builder.add(2_000, None, Some(b"aborted"));
    let records = builder.build().expect("uncompressed");
    let checked = CheckedBatch::from_header(&parse_header(&records).expect("built"));
    let marker = EndMarker { is_commit: false, coordinator_epoch: 1, transaction_version: 1 };
    let ending = marker.to_batch(ProducerId(9), 0, 2_000);
    let ended = CheckedBatch::of_marker(&parse_header(&ending).expect("built"), marker);
    for (mut bytes, checked) in [(records, checked), (ending, ended)] {
        let plan = loop {
            match log.plan_append(&checked, 0).expect("it fits") {
                Append::Plan(plan) => break plan,
                Append::Roll(roll) => {
                    roll_files(&io, &folder(), &roll).await.expect("room");
                    assert!(log.rolled(&roll));
                }
                Append::Duplicate { .. } => panic!("no duplicate was sent"),
            }
        };
        plan.stamp(&mut bytes);
        let file = io.open(&segment_path(&folder(), plan.segment), OpenHow::ReadWrite).await.expect("there");
        file.write_at(Buffer::from_vec(bytes), plan.position_bytes).await.0.expect("room");
        log.commit_append(&plan);
    }
    let writes = log.take_all_index_writes().into_iter();
    let writes: Vec<_> = writes.filter(|write| write.kind == IndexKind::Transaction).collect();
    assert_eq!(writes.len(), 1, "one abort");
    for write in writes {
        let path = transaction_index_path(&folder(), write.segment);
        let file = io.open(&path, OpenHow::ReadWriteOrCreate).await.expect("room");
        file.write_at(Buffer::from_vec(write.bytes), write.position_bytes).await.0.expect("room");
    }
}

/// Offset, time and transaction indexes as a reader sees them.
fn indexes(disk: &Disk, names: &[String]) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let is_index =
        |name: &&String| Path::new(name).extension().is_some_and(|kind| kind.to_string_lossy().ends_with("index"));
    let paths = names.iter().filter(is_index).map(|name| folder().join(name));
    paths.map(|path| (path.clone(), disk.machine.peek(&path))).collect()
}

/// The process was killed, so that the page cache has what it wrote; the next one starts, and then the power fails. From that
/// start on the recovery point may lie behind all of the log, and no later start makes an index anew.
#[test]
fn what_a_start_believes_outlives_a_power_cut() {
    for seed_of_run in 0..40 {
        let disk = Disk::with_seed(seed_of_run);
        seed(&disk, 30);
        let recovered = disk.open(unclean(0)).expect("whole");
        disk.run(move |io| abort_one(io, recovered));
        // Unsynced again, and right.
        let entries = disk.run(|io| async move {
            let entries = io.read_dir(&folder()).await.expect("there");
            for entry in entries.iter().filter(|entry| entry.name.ends_with("index") && entry.len_bytes > 0) {
                let file = io.open(&folder().join(&entry.name), OpenHow::ReadWrite).await.expect("there");
                let len = usize::try_from(entry.len_bytes).expect("short");
                let (read, bytes) = file.read_at(io.buffer(len), 0).await;
                assert_eq!(read.expect("there"), len);
                let copy = bytes.to_vec();
                file.write_at(Buffer::from_vec(vec![0; len]), 0).await.0.expect("room");
                file.sync_data().await.expect("a good disk");
                file.write_at(Buffer::from_vec(copy), 0).await.0.expect("room");
            }
            entries
        });
        let names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
        drop(disk.open(unclean(0)).expect("whole"));
        let believed = indexes(&disk, &names);
        assert!(believed.len() > 6, "seed {seed_of_run}: {believed:?}");
        disk.machine.crash(Crash::PowerCut);
        assert_eq!(indexes(&disk, &names), believed, "seed {seed_of_run}");
    }
}
