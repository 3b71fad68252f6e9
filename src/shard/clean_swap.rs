//! Puts the segments of a compaction in the place of those that it read.
//!
//! Each step is durable before the next begins, so that a start after a crash at any point finds either the old segments
//! or the new ones, and never both (`log/swap_recovery.rs` ends what was begun):
//!
//! 0. The journal of places for lookups by time says that those of the old segments count no more.
//! 1. `.cleaned` becomes `.swap`, the lowest log last. From here on the new segments count.
//! 2. In memory they take the place of the old ones; who looks for their files gets these handles, whatever the names are.
//! 3. The old ones become `.deleted`. Readers that hold a handle go on reading.
//! 4. `.swap` goes from the names.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tracing::warn;

use crate::log::clean_plan::CleaningGroup;
use crate::log::layout::{DELETED_SUFFIX, PartitionFile, segment_file_names};
use crate::log::plan::SegmentId;
use crate::shard::clean_sink::WrittenSegment;
use crate::shard::clean_turns::CleaningTurns;
use crate::shard::core::Shard;
use crate::shard::error::CleanFailure;
use crate::shard::kept_places;
use crate::shard::partition::Partition;
use crate::shard::producer_snapshots;

/// Swaps the segments in. False where the old ones are not there any more, or the partition is to be left alone: then
/// nothing was done.
///
/// # Errors
/// The disk refuses a rename or its sync: the partition is offline, and the next start ends what was begun.
pub(in crate::shard) async fn swap(
    turns: &CleaningTurns,
    group: &CleaningGroup,
    written: Vec<WrittenSegment>,
) -> Result<bool, CleanFailure> {
    let (shard, partition) = (turns.shard(), turns.partition());
    let _turn = partition.replacement_turn().turn(turns.io()).await;
    if turns.check().is_err() || !partition.log().borrow().has_group(group) {
        return Ok(false);
    }
    if let Err(error) = kept_places::void(shard, partition, &group.segments).await {
        warn!(topic = partition.topic(), partition = partition.id().partition, %error, "compacted segments are not swapped in: the kept places of those before them would count for them");
        return Ok(false);
    }
    // Retention waits for its turn; but the partition may have gone meanwhile.
    if turns.check().is_err() {
        return Ok(false);
    }
    // Counts as a write: whoever closes or renames the folder waits for it.
    partition.begin_write();
    let swapped = swap_in_turn(shard, partition, group, written).await;
    partition.end_write(turns.io());
    if let Err(error) = &swapped {
        shard.fail_partition(partition, "compacted segments could not be swapped in", error);
        return Err(CleanFailure::Stopped);
    }
    kept_places::keep_of(shard, partition).await;
    Ok(true)
}

async fn swap_in_turn(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    group: &CleaningGroup,
    written: Vec<WrittenSegment>,
) -> io::Result<()> {
    let (io, folder) = (shard.io(), partition.folder());
    let ids: Vec<SegmentId> = written.iter().map(|segment| segment.cleaned.id()).collect();
    let rename = |from: &str, to: &str| {
        let (from, to) = (folder.join(from), folder.join(to));
        async move { io.rename(&from, &to).await }
    };
    // The log of the first segment says that all others are complete.
    let mut names: Vec<[String; 3]> = written.iter().rev().flat_map(|segment| segment.cleaned.swap_names()).collect();
    let lowest_log = names.pop();
    for [cleaned, swap, _] in &names {
        rename(cleaned, swap).await?;
    }
    if ids.len() > 1 {
        io.sync_dir(folder).await?;
    }
    if let Some([cleaned, swap, _]) = &lowest_log {
        rename(cleaned, swap).await?;
    }
    io.sync_dir(folder).await?;

    for old in &group.segments {
        shard.files().forget_segment(partition.id(), *old);
    }
    let mut cleaned = Vec::new();
    for segment in written {
        for (kind, file) in segment.files {
            shard.files().pin(partition.id(), segment.cleaned.id(), kind, file);
        }
        cleaned.push(segment.cleaned);
    }
    partition.log().borrow_mut().replace(group, cleaned);

    let mut doomed = Vec::new();
    for old in &group.segments {
        doomed.extend(set_aside(shard, folder, *old).await?);
    }
    io.sync_dir(folder).await?;
    names.extend(lowest_log);
    for [_, swap, last] in &names {
        rename(swap, last).await?;
    }
    io.sync_dir(folder).await?;
    for id in ids {
        shard.files().unpin(partition.id(), id);
    }
    shard.deletions().remove_later(shard, partition.id(), doomed, partition.limits().file_delete_delay_ms);
    producer_snapshots::remove_stale(shard, partition).await;
    Ok(())
}

/// Renames the files of a replaced segment, but for the producers' snapshot, which belongs to its offset.
async fn set_aside(shard: &Shard, folder: &Path, segment: SegmentId) -> io::Result<Vec<PathBuf>> {
    let mut aside = Vec::new();
    for name in segment_file_names(segment) {
        if matches!(PartitionFile::parse(&name), PartitionFile::ProducerSnapshot(_)) {
            continue;
        }
        let to = folder.join(format!("{name}{DELETED_SUFFIX}"));
        match shard.io().rename(&folder.join(&name), &to).await {
            Ok(()) => aside.push(to),
            // Not every segment has all of them.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(aside)
}
