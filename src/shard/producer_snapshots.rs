//! Snapshots of producers: written beside the append path, removed when nobody needs them.
//!
//! They are derived: where one cannot be written or removed, the next start replays more of the log.

use std::rc::Rc;

use tracing::warn;

use crate::log::segment_files;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;

/// Writes those that were taken and whose batches are written.
pub(in crate::shard) async fn write_ready(shard: Rc<Shard>, partition: Rc<Partition>) {
    loop {
        let Some(write) = partition.log().borrow_mut().next_producer_snapshot() else { return };
        let offset = write.offset;
        if let Err(error) = segment_files::write_producer_snapshot(shard.io(), partition.folder(), write).await {
            partition.log().borrow_mut().producer_snapshot_failed(offset);
            shard.note_unwritten(&partition, "a snapshot of the producers could not be written", &error.into_io());
        }
    }
}

/// Removes those of deleted segments, and those that a later one replaces.
pub(in crate::shard) async fn remove_stale(shard: &Rc<Shard>, partition: &Rc<Partition>) {
    let stale = partition.log().borrow_mut().take_stale_producer_snapshots();
    for offset in stale {
        if let Err(error) = segment_files::remove_producer_snapshot(shard.io(), partition.folder(), offset).await {
            warn!(topic = partition.topic(), partition = partition.id().partition, %error, "a snapshot of the producers could not be removed; the next start does it");
        }
    }
}

/// Now and then: partitions that took in much since their last snapshot get one, so that a start after a crash replays
/// little; and what is stale goes.
pub(in crate::shard) async fn keep(shard: &Rc<Shard>) {
    for partition in shard.partitions() {
        if !partition.is_online() {
            continue;
        }
        if partition.log().borrow().producer_snapshot_is_due() {
            partition.log().borrow_mut().snapshot_producers();
        }
        write_ready(shard.clone(), partition.clone()).await;
        remove_stale(shard, &partition).await;
        shard.io().yield_now().await;
    }
}
