//! What goes of the tier: expired segments, copies that came to nothing, all of a deleted topic.
//!
//! A deletion is noted before the store is asked, and once more when nothing is left. The log start moves first, durably:
//! no reader is sent to what is on its way out.

use std::path::Path;
use std::rc::Rc;

use tracing::{info, warn};

use crate::log::retention::RetentionStep;
use crate::shard::checkpoints;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;
use crate::shard::remote_partition::{RecordError, RemotePartition};
use crate::shard::tier_work::{WorkError, check_goes_on};
use crate::tier::error::StoreError;
use crate::tier::metadata::{RemoteSegmentId, SegmentEvent};
use crate::tier::metadata_file::{MetadataFile, MetadataHeader, REMOTE_SEGMENTS};
use crate::tier::remote_expiry::Expiry;
use crate::tier::segment_state::SegmentState;
use crate::tier::store::{partition_folder, segment_path, temporary_path};

/// Deletes one remote segment, or what is left of it.
///
/// # Errors
/// It is tried again.
pub(in crate::shard) async fn remove_segment(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    remote: &Rc<RemotePartition>,
    id: RemoteSegmentId,
    reason: &str,
) -> Result<(), WorkError> {
    check_goes_on(shard, partition)?;
    let Some(tier) = shard.tier() else { return Err(WorkError::GivenUp) };
    shard.counters().remote_delete_requests.add(1);
    let begun = SegmentEvent::Delete { id, state: SegmentState::DeleteStarted };
    remote.record(shard.io(), begun.clone()).await?;
    tier.manifest_news().note(partition.id(), begun);
    tier.forget(id);
    for path in [temporary_path(id), segment_path(partition.topic(), partition.id(), id)] {
        let removed = tier.store().remove(&path, false).await;
        removed.inspect_err(|_| shard.counters().remote_delete_errors.add(1))?;
    }
    check_goes_on(shard, partition)?;
    remote.record(shard.io(), SegmentEvent::Delete { id, state: SegmentState::DeleteFinished }).await?;
    shard.counters().remote_segments_deleted.add(1);
    info!(topic = partition.topic(), partition = partition.id().partition, remote_segment = %id, reason, "deleted a segment of the tier");
    Ok(())
}

/// Deletes what retention takes.
///
/// # Errors
/// It is tried again.
pub(in crate::shard) async fn expire(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    remote: &Rc<RemotePartition>,
    expiry: Expiry,
) -> Result<(), WorkError> {
    check_goes_on(shard, partition)?;
    if let Some(log_start) = expiry.log_start {
        // What is in the tier is below the high watermark.
        let high_watermark = partition.high_watermark();
        let _ = partition.log().borrow_mut().advance_log_start(log_start.min(high_watermark));
        shard.io().wake_all(partition.progress());
    }
    checkpoints::make_log_start_durable(shard, partition).await?;
    for (id, reason) in expiry.segments {
        remove_segment(shard, partition, remote, id, reason).await?;
    }
    note_first_base(partition, remote);
    Ok(())
}

/// A start would find the log beginning with what is left.
fn note_first_base(partition: &Partition, remote: &RemotePartition) {
    let first_local = partition.log().borrow().segments().first().map(|segment| segment.base_offset());
    if let Some(first) = remote.segments().start().into_iter().chain(first_local).min() {
        partition.set_first_base_on_disk(first);
    }
}

/// Deletes all that a partition has in the tier: the log begins with what is here.
///
/// # Errors
/// It is tried again.
pub(in crate::shard) async fn remove_all(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    remote: &Rc<RemotePartition>,
) -> Result<(), WorkError> {
    let local_log_start = partition.log().borrow().offsets().local_log_start;
    let all: Vec<RemoteSegmentId> = remote.segments().live();
    info!(topic = partition.topic(), partition = partition.id().partition, segments = all.len(), log_start_offset = %local_log_start, "the topic is tiered no more; its segments in the tier go");
    let expiry = Expiry {
        segments: all.into_iter().map(|id| (id, "the topic is tiered no more")).collect(),
        log_start: Some(local_log_start),
    };
    expire(shard, partition, remote, expiry).await
}

/// True where something of the local log goes now, or the active segment is to be sealed.
pub(in crate::shard) fn has_local_surplus(shard: &Shard, partition: &Partition) -> bool {
    let limits = partition.local_retention();
    if limits.copied_below.is_none() {
        return false;
    }
    let step =
        partition.log().borrow().plan_retention(&limits, shard.io().wall_ms(), &std::collections::BTreeMap::new());
    matches!(step, RetentionStep::Roll(_) | RetentionStep::Remove(_))
}

/// Removes what a deleted partition has in the tier; its folder says what that is, and stays until then. Goes on trying
/// until the stop; the next start goes on. False where it is still there.
pub(in crate::shard) async fn remove_remote_of(shard: &Rc<Shard>, folder: &Path) -> bool {
    let mut wait_ms = AGAIN_MS_MIN;
    while !shard.is_stopping() {
        let error = match remove_remote(shard, folder).await {
            Ok(()) => return true,
            Err(error) => error,
        };
        if shard.tier().is_none() {
            warn!(folder = %folder.display(), "a deleted partition has segments in a tier, and this server was started without --tier: they stay until it is started with it");
            return false;
        }
        warn!(folder = %folder.display(), %error, retry_ms = wait_ms, "what a deleted partition has in the tier could not be removed; it is tried again");
        shard.io().sleep_ms(wait_ms).await;
        wait_ms = (wait_ms * 2).min(AGAIN_MS_MAX);
    }
    false
}

/// Removes a folder and its files, one after the other.
pub(in crate::shard) async fn remove_folder(shard: &Rc<Shard>, folder: &Path) {
    let removed = async {
        let io = shard.io();
        for entry in io.read_dir(folder).await? {
            io.remove_file(&folder.join(&entry.name)).await?;
            io.yield_now().await;
        }
        io.remove_dir(folder).await
    };
    if let Err(error) = removed.await {
        warn!(folder = %folder.display(), %error, "a deleted partition's files could not be removed; the next start tries again");
    }
}

async fn remove_remote(shard: &Rc<Shard>, folder: &Path) -> Result<(), WorkError> {
    let loaded = MetadataFile::load(shard.io(), folder).await.map_err(RecordError::from)?;
    let Some(loaded) = loaded else { return Ok(()) };
    if loaded.segments.is_empty() {
        return Ok(());
    }
    let tier = shard.tier().filter(|tier| tier.is_claimed()).ok_or(WorkError::NoTier)?;
    let MetadataHeader { id, topic, .. } = loaded.file.header().clone();
    for segment in loaded.segments.live() {
        tier.forget(segment);
        tier.store().remove(&temporary_path(segment), false).await?;
        tier.store().remove(&segment_path(&topic, id, segment), false).await?;
        shard.io().yield_now().await;
    }
    // Files that no metadata knows are kept, and so is their folder: `tier scrub` is for them.
    let remote_folder = partition_folder(&topic, id);
    match tier.store().list(&remote_folder).await {
        Ok(left) if left.is_empty() => {
            tier.store().remove(&remote_folder, true).await?;
        }
        Ok(left) => {
            warn!(folder = remote_folder, files = left.len(), "files in the tier that nobody knows stay there");
        }
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    info!(topic, partition = id.partition, "a deleted partition's segments in the tier were removed");
    // From here on the folder is like any other.
    shard.io().remove_file(&folder.join(REMOTE_SEGMENTS)).await?;
    Ok(())
}

const AGAIN_MS_MIN: u64 = 1_000;
const AGAIN_MS_MAX: u64 = 60_000;
