//! A core's checkpoints: how far its logs are durable, where they begin, how far they are compacted.
//!
//! Each core keeps three files in each data directory. Recovery points are derived: written now and then, lost without
//! harm. A log start offset inside a segment is known from its file alone: it is written before DeleteRecords is
//! answered, one write for all that ask meanwhile, and before the files of deleted segments go. A log that begins with
//! its first segment needs no line there. At a clean stop all are merged into Kafka's, one a directory.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tracing::{error, warn};

use crate::log::core_checkpoint::{self, CorePoints};
use crate::log::layout;
use crate::log::recovery_point::{self, PartitionOffsets};
use crate::ring::io::{Io, OpenHow, read_file, replace_file};
use crate::shard::core::{RecoveryPoints, Shard};
use crate::shard::directories::blames_directory;
use crate::shard::exclusive::to_its_end;
use crate::shard::kept_places;
use crate::shard::options::DataDir;
use crate::shard::partition::Partition;
use crate::shard::producer_snapshots;

/// Reads where the last run's logs were known to be durable and to begin: from each core's own checkpoints, or, where
/// there are none (the directory was Kafka's), from Kafka's.
pub async fn load(io: &Io, dir: &DataDir) -> RecoveryPoints {
    let mut points = RecoveryPoints { places: kept_places::load(io, dir).await, ..RecoveryPoints::default() };
    let Ok(entries) = io.read_dir(&dir.path).await else { return points };
    let mut is_ours = false;
    for entry in entries.iter().filter(|entry| !entry.name.ends_with(".tmp")) {
        let into = match &entry.name {
            name if name.starts_with(CORE_RECOVERY_POINTS) => &mut points.by_id,
            name if name.starts_with(CORE_LOG_STARTS) => &mut points.log_starts_by_id,
            name if name.starts_with(CORE_CLEANED) => &mut points.cleaned_by_id,
            _ => continue,
        };
        is_ours = true;
        // Two cores may have had a partition one after the other: what was durable, or deleted, then is so now.
        for (id, (topic, offset)) in load_core(io, &dir.path.join(&entry.name)).await {
            let (_, known) = into.entry(id).or_insert((topic, offset));
            *known = offset.max(*known);
        }
    }
    if !is_ours {
        points.by_name = load_kafkas(io, &dir.path.join(layout::RECOVERY_POINT_CHECKPOINT)).await;
        points.log_starts_by_name = load_kafkas(io, &dir.path.join(layout::LOG_START_CHECKPOINT)).await;
        points.cleaned_by_name = load_kafkas(io, &dir.path.join(layout::CLEANER_CHECKPOINT)).await;
    }
    points
}

async fn load_kafkas(io: &Io, path: &Path) -> PartitionOffsets {
    let Ok(bytes) = read_file(io, path, CHECKPOINT_BYTES_MAX).await else { return PartitionOffsets::new() };
    recovery_point::parse(&String::from_utf8_lossy(&bytes)).unwrap_or_else(|| {
        warn!(path = %path.display(), "a checkpoint makes no sense; it is taken as empty");
        PartitionOffsets::new()
    })
}

async fn load_core(io: &Io, path: &Path) -> CorePoints {
    let parsed = read_file(io, path, CHECKPOINT_BYTES_MAX)
        .await
        .map(|bytes| core_checkpoint::parse(&String::from_utf8_lossy(&bytes)));
    match parsed {
        Ok(Some(found)) => return found,
        Ok(None) => warn!(path = %path.display(), "a checkpoint makes no sense; it is taken as empty"),
        Err(error) => warn!(path = %path.display(), %error, "a checkpoint could not be read; it is taken as empty"),
    }
    CorePoints::new()
}

/// Writes this core's recovery points now and then, so that a start after a crash scans little; and forgets producers
/// that wrote nothing for `producer.id.expiration.ms`, as Kafka does.
pub async fn keep(shard: Rc<Shard>) {
    while !shard.is_stopping() {
        shard.io().sleep_ms(INTERVAL_MS).await;
        let expiration_ms = i64::from(shard.options().broker_config.producer_id_expiration_ms());
        let now_ms = shard.io().wall_ms();
        for partition in shard.partitions() {
            partition.log().borrow_mut().expire_producers(now_ms, expiration_ms);
        }
        producer_snapshots::keep(&shard).await;
        shard.write_failed_indexes().await;
        write_recovery_points(&shard).await;
        kept_places::keep(&shard).await;
    }
}

/// Writes all kinds, and the places of lookups by time, for a clean stop.
pub async fn write_all(shard: &Rc<Shard>) {
    write_recovery_points(shard).await;
    keep_log_starts(shard).await;
    for dir in shard.options().data_dirs.iter().filter(|dir| !shard.directory_has_failed(&dir.path)) {
        write_cleaned(shard, &dir.path).await;
    }
    kept_places::write(shard).await;
}

/// Writes where compaction has come to in a directory. Derived: without it logs are compacted again from their start.
pub(in crate::shard) async fn write_cleaned(shard: &Rc<Shard>, dir: &Path) {
    let _turn = shard.checkpoints_turn().turn(shard.io()).await;
    let partitions = shard.partitions().into_iter().filter(|partition| partition.folder().parent() == Some(dir));
    let points: CorePoints = partitions
        .filter_map(|partition| Some((partition.id(), (partition.topic().to_owned(), partition.cleaned_to()?))))
        .collect();
    let path = dir.join(format!("{CORE_CLEANED}{}", shard.core_index()));
    if points.is_empty() && shard.io().open(&path, OpenHow::Read).await.is_err() {
        return;
    }
    if let Err(error) = replace_file(shard.io(), &path, core_checkpoint::to_text(&points).into_bytes()).await {
        warn!(path = %path.display(), %error, "where compaction has come to could not be written; a start will compact more");
        if blames_directory(&error) {
            shard.fail_directory(dir, "where compaction has come to could not be written", &error);
        }
    }
}

/// Writes the log start offsets of all directories that have any: those that came from Kafka's checkpoint, or from
/// another core's, are this core's to keep from here on.
pub async fn keep_log_starts(shard: &Rc<Shard>) {
    for dir in shard.options().data_dirs.iter().filter(|dir| !shard.directory_has_failed(&dir.path)) {
        let _turn = shard.checkpoints_turn().turn(shard.io()).await;
        let is_new = log_starts(shard, &dir.path).0.is_empty();
        if is_new && shard.io().open(&log_starts_path(shard, &dir.path), OpenHow::Read).await.is_err() {
            continue;
        }
        if let Err(error) = write_log_starts(shard, &dir.path).await {
            error!(dir = %dir.path.display(), %error, "the log start offsets could not be written; after a crash deleted records may be there again");
            if blames_directory(&error) {
                shard.fail_directory(&dir.path, "the log start offsets could not be written", &error);
            }
        }
    }
}

/// Returns when the log start offset that the partition has now would be known after a crash, and what is known of its
/// producers without the segments below.
///
/// # Errors
/// The disk refuses; a later call tries again.
pub async fn make_log_start_durable(shard: &Rc<Shard>, partition: &Rc<Partition>) -> io::Result<()> {
    let wanted = partition.log().borrow().offsets().log_start;
    if partition.log_start_durable() >= wanted {
        return Ok(());
    }
    let (shard_of_work, partition) = (shard.clone(), partition.clone());
    to_its_end(shard.io(), async move {
        let shard = shard_of_work;
        let Some(dir) = partition.folder().parent() else { return Ok(()) };
        // Whoever had the turn may have written this one too; and one that was deleted begins nowhere.
        while partition.log_start_durable() < wanted && shard.hosted(partition.id()).is_some() {
            // Again where the start has moved on meanwhile, over another segment.
            producer_snapshots::make_durable(&shard, &partition).await?;
            let _turn = shard.checkpoints_turn().turn(shard.io()).await;
            if partition.log_start_durable() < wanted {
                write_log_starts(&shard, dir).await?;
            }
        }
        Ok(())
    })
    .await
}

/// The lines of the file, and the partitions whose start they tell, or whose first segment does.
fn log_starts(shard: &Shard, dir: &Path) -> (CorePoints, Vec<Rc<Partition>>) {
    let mut points = shard.log_starts_of_others(dir);
    let mut told = Vec::new();
    for partition in shard.partitions().into_iter().filter(|partition| partition.folder().parent() == Some(dir)) {
        let log_start = partition.log().borrow().offsets().log_start;
        if log_start > partition.first_base_on_disk() {
            // Where it has moved over a segment just now, its own turn comes: a start would drop the segment, and what that
            // alone says of producers.
            let is_safe = partition.producers_durable_at() >= partition.log().borrow().first_kept_base();
            let log_start = if is_safe { log_start } else { partition.log_start_durable() };
            points.insert(partition.id(), (partition.topic().to_owned(), log_start));
            told.push(partition);
        }
    }
    (points, told)
}

/// In the turn of the checkpoints.
async fn write_log_starts(shard: &Shard, dir: &Path) -> io::Result<()> {
    let (points, told) = log_starts(shard, dir);
    replace_file(shard.io(), &log_starts_path(shard, dir), core_checkpoint::to_text(&points).into_bytes()).await?;
    for partition in told {
        if let Some((_, offset)) = points.get(&partition.id()) {
            partition.set_log_start_durable(*offset);
        }
    }
    Ok(())
}

fn log_starts_path(shard: &Shard, dir: &Path) -> PathBuf {
    dir.join(format!("{CORE_LOG_STARTS}{}", shard.core_index()))
}

async fn write_recovery_points(shard: &Rc<Shard>) {
    let _turn = shard.checkpoints_turn().turn(shard.io()).await;
    for dir in shard.options().data_dirs.iter().filter(|dir| !shard.directory_has_failed(&dir.path)) {
        let mut points = CorePoints::new();
        let partitions = shard.partitions().into_iter();
        let partitions: Vec<Rc<Partition>> =
            partitions.filter(|partition| partition.folder().parent() == Some(&dir.path)).collect();
        for partition in &partitions {
            points.insert(partition.id(), (partition.topic().to_owned(), partition.checkpointed_recovery_point()));
        }
        let path = dir.path.join(format!("{CORE_RECOVERY_POINTS}{}", shard.core_index()));
        if let Err(error) = replace_file(shard.io(), &path, core_checkpoint::to_text(&points).into_bytes()).await {
            warn!(path = %path.display(), %error, "the recovery points could not be written; a start after a crash will scan more");
            if blames_directory(&error) {
                shard.fail_directory(&dir.path, "the recovery points could not be written", &error);
            }
        } else {
            for partition in partitions {
                points.get(&partition.id()).into_iter().for_each(|(_, offset)| partition.set_recorded_point(*offset));
            }
        }
    }
}

/// Merges the cores' checkpoints into Kafka's, one a directory, when no core writes any more.
///
/// # Errors
/// Where the disk refuses.
pub async fn merge(io: &Io, dir: &DataDir, core_count: u32) -> io::Result<()> {
    let mut merged = [PartitionOffsets::new(), PartitionOffsets::new(), PartitionOffsets::new()];
    for (prefix, into) in [CORE_RECOVERY_POINTS, CORE_LOG_STARTS, CORE_CLEANED].into_iter().zip(&mut merged) {
        for core in 0..core_count {
            let path = dir.path.join(format!("{prefix}{core}"));
            if prefix != CORE_RECOVERY_POINTS && io.open(&path, OpenHow::Read).await.is_err() {
                continue;
            }
            for (id, (topic, offset)) in load_core(io, &path).await {
                let known = into.entry((topic, id.partition)).or_insert(offset);
                *known = offset.max(*known);
            }
        }
    }
    kept_places::remove_others(io, dir, core_count).await;
    let [recovery_points, log_starts, cleaned] = merged.map(|offsets| recovery_point::to_text(&offsets));
    // All is durable, so the high watermarks are where the recovery points are.
    for (name, text) in [
        (layout::RECOVERY_POINT_CHECKPOINT, &recovery_points),
        (layout::HIGH_WATERMARK_CHECKPOINT, &recovery_points),
        (layout::LOG_START_CHECKPOINT, &log_starts),
        (layout::CLEANER_CHECKPOINT, &cleaned),
    ] {
        replace_file(io, &dir.path.join(name), text.clone().into_bytes()).await?;
    }
    Ok(())
}

/// Each core's own recovery points: this and its index.
const CORE_RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint.core-";
/// Its log start offsets.
pub const CORE_LOG_STARTS: &str = "log-start-offset-checkpoint.core-";
/// Where its compactions have come to.
const CORE_CLEANED: &str = "cleaner-offset-checkpoint.core-";
const CHECKPOINT_BYTES_MAX: u64 = 64 << 20;
/// Kafka's log.flush.offset.checkpoint.interval.ms.
const INTERVAL_MS: u64 = 60_000;
