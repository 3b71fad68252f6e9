//! Make, extend and cut the files of a partition, through the ring.
//!
//! The shard calls these where a plan asks for more than a write to an open log. Each says what is durable on return.

use std::path::Path;

use crate::log::error::RecoveryError;
use crate::log::layout::{
    LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, offset_index_path, producer_snapshot_path, segment_path,
    time_index_path, transaction_index_path,
};
use crate::log::partition_metadata;
use crate::log::plan::{RollPlan, SegmentId, Truncate};
use crate::log::producer_snapshots::SnapshotWrite;
use crate::record::offset::{Offset, TopicId};
use crate::ring::buffer::Buffer;
use crate::ring::io::{File, Io, OpenHow, replace_file};

/// Makes the files of the next segment, empty, and syncs their folder. Hands the open log back.
///
/// # Errors
/// Where the disk refuses: the old segment goes on being the active one.
pub async fn roll_files(io: &Io, folder: &Path, plan: &RollPlan) -> Result<File, RecoveryError> {
    make_segment(io, folder, plan.segment).await
}

/// Cuts what a failed append left: later segments go, the log is shortened, both durably. Call it when no write of the
/// partition is on its way any more, then [`truncated`](crate::log::partition_log::PartitionLog::truncated).
///
/// # Errors
/// Where the disk refuses: the partition cannot go on.
pub async fn cut_files(io: &Io, folder: &Path, cut: &Truncate) -> Result<(), RecoveryError> {
    for segment in &cut.remove {
        remove_segment(io, folder, *segment).await?;
    }
    let path = segment_path(folder, cut.segment);
    let log = io.open(&path, OpenHow::ReadWrite).await.map_err(at_path(&path))?;
    log.set_len(cut.position_bytes).await.map_err(at_path(&path))?;
    log.sync_data().await.map_err(at_path(&path))?;
    io.sync_dir(folder).await.map_err(at_path(folder))
}

/// Replaces `leader-epoch-checkpoint`; durable on return.
///
/// # Errors
/// Where the disk refuses: the old one is still there.
pub async fn write_epochs(io: &Io, folder: &Path, text: String) -> Result<(), RecoveryError> {
    let path = folder.join(LEADER_EPOCH_CHECKPOINT);
    replace_file(io, &path, text.into_bytes()).await.map_err(at_path(&path))
}

/// Writes a snapshot of the producers. Not synced: its checksum says whether it is whole, and it is derived while what it
/// summarises is there ([`sync_producer_snapshot`] before that goes).
///
/// # Errors
/// Where the disk refuses; what there is of the file is removed then.
pub async fn write_producer_snapshot(io: &Io, folder: &Path, write: SnapshotWrite) -> Result<(), RecoveryError> {
    let path = producer_snapshot_path(folder, write.offset);
    let file = io.open(&path, OpenHow::CreateOrTruncate).await.map_err(at_path(&path))?;
    let written = file.write_at(Buffer::from_vec(write.bytes), 0).await.0;
    if written.is_err() {
        let _ = io.remove_file(&path).await;
    }
    written.map_err(at_path(&path))
}

/// Makes a snapshot of the producers durable, with its entry in the folder.
///
/// # Errors
/// Where the disk refuses.
pub async fn sync_producer_snapshot(io: &Io, folder: &Path, offset: Offset) -> Result<(), RecoveryError> {
    let path = producer_snapshot_path(folder, offset);
    let file = io.open(&path, OpenHow::ReadWrite).await.map_err(at_path(&path))?;
    file.sync_data().await.map_err(at_path(&path))?;
    io.sync_dir(folder).await.map_err(at_path(folder))
}

/// Removes a snapshot of the producers, if it is there.
///
/// # Errors
/// Where the disk refuses.
pub async fn remove_producer_snapshot(io: &Io, folder: &Path, offset: Offset) -> Result<(), RecoveryError> {
    remove_if_there(io, &producer_snapshot_path(folder, offset)).await
}

/// Writes `partition.metadata`; durable on return.
///
/// # Errors
/// Where the disk refuses.
pub async fn write_metadata(io: &Io, folder: &Path, topic_id: TopicId) -> Result<(), RecoveryError> {
    let path = folder.join(PARTITION_METADATA);
    replace_file(io, &path, partition_metadata::to_text(topic_id).into_bytes()).await.map_err(at_path(&path))
}

pub(in crate::log) async fn make_segment(io: &Io, folder: &Path, segment: SegmentId) -> Result<File, RecoveryError> {
    for index_path in [offset_index_path(folder, segment), time_index_path(folder, segment)] {
        let index = io.open(&index_path, OpenHow::CreateOrTruncate).await.map_err(at_path(&index_path))?;
        drop(index);
    }
    let path = segment_path(folder, segment);
    // A file of that name can only be the rest of a roll that came to nothing: no batch in it was acknowledged.
    let log = io.open(&path, OpenHow::CreateOrTruncate).await.map_err(at_path(&path))?;
    io.sync_dir(folder).await.map_err(at_path(folder))?;
    Ok(log)
}

/// The log goes last: an index alone is removed at the next start.
pub(in crate::log) async fn remove_segment(io: &Io, folder: &Path, segment: SegmentId) -> Result<(), RecoveryError> {
    let indexes =
        [offset_index_path(folder, segment), time_index_path(folder, segment), transaction_index_path(folder, segment)];
    for path in indexes.into_iter().chain([segment_path(folder, segment)]) {
        remove_if_there(io, &path).await?;
    }
    Ok(())
}

pub(in crate::log) async fn remove_if_there(io: &Io, path: &Path) -> Result<(), RecoveryError> {
    match io.remove_file(path).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at_path(path)(error)),
        _ => Ok(()),
    }
}

pub(in crate::log) fn at_path(path: &Path) -> impl FnOnce(std::io::Error) -> RecoveryError + '_ {
    move |source| RecoveryError::Io { path: path.to_owned(), source }
}
