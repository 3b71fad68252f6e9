//! What goes of this core's logs, and when: by time, by size, by DeleteRecords.
//!
//! The log start moves first, in memory and then durably; the files go last. So a reader never meets a hole, and what was
//! deleted does not come back after a crash, whatever part of the renames it kept.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use tracing::{info, warn};

use crate::log::layout::{self, DELETED_SUFFIX};
use crate::log::plan::SegmentId;
use crate::log::retention::{Removal, RetentionStep};
use crate::record::offset::Offset;
use crate::shard::append;
use crate::shard::checkpoints;
use crate::shard::core::Shard;
use crate::shard::error::DeleteFailure;
use crate::shard::files::FileKind;
use crate::shard::hosting;
use crate::shard::partition::Partition;
use crate::shard::producer_snapshots;
use crate::shard::remote_partition::RecordError;
use crate::tier::error::MetadataError;
use crate::tier::metadata::SegmentEvent;

/// Looks at all partitions of this core every `log.retention.check.interval.ms`, until the stop. What a topic's configs
/// say then is in force.
pub async fn keep(shard: Rc<Shard>) {
    let config = &shard.options().broker_config;
    let interval_ms = config.log_retention_check_interval_ms();
    shard.io().sleep_ms(config.log_initial_task_delay_ms()).await;
    while !shard.is_stopping() {
        hosting::open_again(&shard).await;
        let shard_of_jobs = shard.clone();
        let jobs = shard.partitions().into();
        hosting::run_side_by_side(shard.io(), jobs, CHECKED_AT_ONCE_MAX, move |partition| {
            let shard = shard_of_jobs.clone();
            async move { check(&shard, &partition).await }
        })
        .await;
        shard.io().sleep_ms(interval_ms).await;
    }
}

/// Deletes what is to go of one partition now.
pub async fn check(shard: &Rc<Shard>, partition: &Rc<Partition>) {
    let io = shard.io();
    let mut file_times_ms = BTreeMap::new();
    let mut has_rolled = false;
    // Files go oldest first, whoever asks; and compaction may be about to put others in the place of these segments.
    let _turn = partition.replacement_turn().turn(io).await;
    loop {
        // A pass over ten thousand partitions is long, though each is short.
        io.yield_now().await;
        if shard.is_stopping() || !partition.is_online() || shard.hosted(partition.id()).is_none() {
            return;
        }
        let limits = partition.local_retention();
        let step = {
            let mut log = partition.log().borrow_mut();
            let step = log.plan_retention(&limits, io.wall_ms(), &file_times_ms);
            if let RetentionStep::Remove(removal) = &step {
                log.remove(removal);
            }
            step
        };
        match step {
            RetentionStep::Nothing => return,
            RetentionStep::FileTime(segment) => match file_time_ms(shard, partition, segment).await {
                Ok(time_ms) => {
                    file_times_ms.insert(segment, time_ms);
                }
                Err(error) => {
                    return warn!(topic = partition.topic(), partition = partition.id().partition, segment = %segment, %error,
                        "the age of a segment could not be read; it is looked at again at the next check");
                }
            },
            RetentionStep::Roll(roll) => {
                // Where it was written to meanwhile, or there is no space: at the next check.
                if has_rolled || append::roll(shard, partition, roll).await.is_err() {
                    return;
                }
                has_rolled = true;
            }
            RetentionStep::Remove(removal) => {
                // Counts as a write: whoever closes the folder waits for it.
                partition.begin_write();
                carry_out(shard, partition, &removal).await;
                partition.end_write(io);
                return;
            }
        }
    }
}

/// When a segment's file was last written.
pub(in crate::shard) async fn file_time_ms(
    shard: &Rc<Shard>,
    partition: &Partition,
    segment: SegmentId,
) -> io::Result<i64> {
    let file = shard.files().open(shard.io(), partition.folder(), partition.id(), segment, FileKind::Log).await?;
    file.modified_ms().await
}

/// The segments are out of the log already: makes its start durable, then takes the names of their files.
async fn carry_out(shard: &Rc<Shard>, partition: &Rc<Partition>, removal: &Removal) {
    let (topic, index) = (partition.topic(), partition.id().partition);
    shard.io().wake_all(partition.progress());
    for (segment, reason) in &removal.segments {
        shard.files().forget_segment(partition.id(), *segment);
        match removal.local_only {
            true => {
                info!(topic, partition = index, segment = %segment, %reason, local_log_start_offset = %removal.next_base, "local segment deleted; the tier has it")
            }
            false => {
                info!(topic, partition = index, segment = %segment, %reason, log_start_offset = %removal.next_base, "segment deleted")
            }
        }
    }
    if removal.local_only
        && let Err(error) = note_local_start(shard, partition, removal.next_base).await
    {
        partition.note_files_below();
        return warn!(topic, partition = index, %error, "where the local log begins could not be noted: files that the tier has stay here until the next start");
    }
    let is_known = checkpoints::make_log_start_durable(shard, partition).await;
    if let Err(error) = &is_known {
        if partition.has_files_below() {
            // A hole behind those would look like a torn tail, and cost what follows.
            return warn!(topic, partition = index, %error, "the log start offset could not be written, and files of earlier segments are left: those deleted now keep their files until the next start");
        }
        // A full disk, perhaps, and these files are what fills it: they go, oldest first and each durably, so that a crash
        // leaves no hole.
        warn!(topic, partition = index, %error, "the log start offset could not be written; segments are deleted one by one");
    }
    for (segment, _) in &removal.segments {
        if shard.is_stopping() {
            // The next start removes what is below the log start; a stop does not wait for five hundred renames.
            return partition.note_files_below();
        }
        if let Err(error) = doom(shard, partition, *segment).await {
            partition.note_files_below();
            return warn!(topic, partition = index, segment = %segment, %error, "a segment's files could not be renamed; the next start removes them");
        }
        if is_known.is_err() && !sync_folder(shard, partition).await {
            return partition.note_files_below();
        }
    }
    if sync_folder(shard, partition).await && !removal.local_only {
        partition.set_first_base_on_disk(removal.next_base);
    }
}

/// Of what the tier has, no log start says that it is gone here: without this a crash that spared some of the files would
/// leave a hole. What they alone say of producers becomes durable too.
async fn note_local_start(shard: &Rc<Shard>, partition: &Rc<Partition>, offset: Offset) -> Result<(), RecordError> {
    let at_folder = |source| MetadataError::Io { path: partition.folder().display().to_string(), source };
    producer_snapshots::make_local_start_durable(shard, partition).await.map_err(at_folder)?;
    let Some(remote) = partition.remote() else { return Ok(()) };
    remote.record(shard.io(), SegmentEvent::LocalStart(offset)).await
}

/// Renames a segment's files, and has them removed after `file.delete.delay.ms`.
async fn doom(shard: &Rc<Shard>, partition: &Rc<Partition>, segment: SegmentId) -> io::Result<()> {
    let mut doomed: Vec<PathBuf> = Vec::new();
    for name in layout::segment_file_names(segment) {
        let path = partition.folder().join(&name);
        let aside = partition.folder().join(format!("{name}{DELETED_SUFFIX}"));
        match shard.io().rename(&path, &aside).await {
            Ok(()) => doomed.push(aside),
            // Not every segment has all of them.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    shard.deletions().remove_later(shard, partition.id(), doomed, partition.limits().file_delete_delay_ms);
    Ok(())
}

async fn sync_folder(shard: &Rc<Shard>, partition: &Rc<Partition>) -> bool {
    let Err(error) = shard.io().sync_dir(partition.folder()).await else { return true };
    shard.fail_partition(partition, "a sync of its folder failed", &error);
    false
}

/// DeleteRecords: moves the log start to `offset`, or to the high watermark where that is -1. What is below it by now can
/// not be read any more; [`checkpoints::make_log_start_durable`] makes that last. Says where the log begins.
///
/// # Errors
/// Nothing has changed.
pub fn delete_records(shard: &Shard, partition: &Partition, offset: i64) -> Result<Offset, DeleteFailure> {
    if !partition.is_online() {
        return Err(DeleteFailure::Offline);
    }
    let limits = partition.limits();
    if limits.append.compact && !limits.retention.delete {
        return Err(DeleteFailure::Policy);
    }
    let mut log = partition.log().borrow_mut();
    let to = if offset == TO_HIGH_WATERMARK { log.offsets().high_watermark } else { Offset(offset) };
    if to < Offset(0) {
        return Err(DeleteFailure::OutOfRange);
    }
    let has_moved = log.advance_log_start(to).map_err(|_| DeleteFailure::OutOfRange)?;
    let log_start = log.offsets().log_start;
    drop(log);
    if has_moved {
        info!(topic = partition.topic(), partition = partition.id().partition, log_start_offset = %log_start, "records deleted by a client");
        // A fetch that waits below it is answered now.
        shard.io().wake_all(partition.progress());
        if let Some(tier) = shard.tier() {
            tier.tell(shard.io());
        }
    }
    Ok(log_start)
}

/// Kafka's DeleteRecordsRequest.HIGH_WATERMARK.
const TO_HIGH_WATERMARK: i64 = -1;
/// Partitions with something to delete that are worked on at the same time: the ring's bounded workers are four, and
/// lookups need some of them.
const CHECKED_AT_ONCE_MAX: usize = 2;
