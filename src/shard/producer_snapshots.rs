//! Snapshots of producers: written beside the append path, removed when nobody needs them.
//!
//! They are derived: where one cannot be written or removed, the next start replays more of the log. But what deleted
//! segments alone said of producers is said by a snapshot alone: one is durable before they go (`make_durable`), and it
//! stays until a later one is durable too. Where the tier has those segments, it is the very one of the first local one.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;

use tracing::warn;

use crate::log::error::RecoveryError;
use crate::log::segment_files;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;

/// Writes those that were taken and whose batches are written.
pub(in crate::shard) async fn write_ready(shard: Rc<Shard>, partition: Rc<Partition>) {
    let _turn = partition.snapshots_turn().turn(shard.io()).await;
    loop {
        let Some(write) = partition.log().borrow_mut().next_producer_snapshot() else { return };
        let offset = write.offset;
        if let Err(error) = segment_files::write_producer_snapshot(shard.io(), partition.folder(), write).await {
            partition.log().borrow_mut().producer_snapshot_failed(offset);
            shard.note_unwritten(&partition, "a snapshot of the producers could not be written", &error.into_io());
        }
    }
}

/// Returns when a crash would leave a snapshot for the segments that the tier alone has from now on, whose records are still
/// read: the one of the first local segment. A start makes the transaction index anew from there, and a later one does not
/// tell which transactions had begun in the tier.
///
/// # Errors
/// There is none, or it could not be synced. A start after a crash writes those anew that were lost.
pub(in crate::shard) async fn make_local_start_durable(shard: &Rc<Shard>, partition: &Rc<Partition>) -> io::Result<()> {
    make_durable(shard, partition).await?;
    if !partition.log().borrow().has_producers() {
        return Ok(());
    }
    let _turn = partition.snapshots_turn().turn(shard.io()).await;
    let base = partition.log().borrow().first_kept_base();
    if partition.log().borrow().durable_producer_snapshot(base) != Some(base) {
        return Err(io::Error::other(
            "the snapshot of the producers where the local log begins is missing; the next start writes it anew",
        ));
    }
    segment_files::sync_producer_snapshot(shard.io(), partition.folder(), base).await.map_err(RecoveryError::into_io)
}

/// Returns when a crash would leave a snapshot for the segments that begin and end below the log start: those may go then.
/// Where the only one is of an end of the log that is not durable yet, it waits for that.
///
/// # Errors
/// There is none, and none could be written: what those segments alone say of producers would be lost with them.
pub(in crate::shard) async fn make_durable(shard: &Rc<Shard>, partition: &Rc<Partition>) -> io::Result<()> {
    for _ in 0..TRIES_MAX {
        let base = partition.log().borrow().first_kept_base();
        if partition.producers_durable_at() >= base {
            return Ok(());
        }
        if !partition.log().borrow().has_producers() {
            partition.set_producers_durable_at(base);
            return Ok(());
        }
        write_ready(shard.clone(), partition.clone()).await;
        let turn = partition.snapshots_turn().turn(shard.io()).await;
        let known = partition.log().borrow().durable_producer_snapshot(base);
        if let Some(offset) = known {
            let synced = segment_files::sync_producer_snapshot(shard.io(), partition.folder(), offset).await;
            synced.map_err(RecoveryError::into_io)?;
            partition.set_producers_durable_at(base);
            return Ok(());
        }
        drop(turn);
        let awaited = partition.log().borrow_mut().snapshot_producers_from(base);
        // Appends that are under way belong to it, or the end of the log that it tells of is not durable: a crash would take
        // it with that.
        poll_fn(|_| {
            let log = partition.log().borrow();
            let is_known = awaited.is_some_and(|awaited| log.knows_producer_snapshot(awaited));
            let is_awaited = is_known && awaited > Some(log.offsets().high_watermark);
            if !partition.is_online() || !is_awaited {
                return Poll::Ready(());
            }
            partition.progress().wait(shard.io().current_task());
            Poll::Pending
        })
        .await;
        if !partition.is_online() {
            return Err(io::Error::other("the partition went offline before its producers' snapshot was durable"));
        }
    }
    Err(io::Error::other("no snapshot of the partition's producers could be written"))
}

/// Removes those of deleted segments, and those that a later one replaces.
pub(in crate::shard) async fn remove_stale(shard: &Rc<Shard>, partition: &Rc<Partition>) {
    let _turn = partition.snapshots_turn().turn(shard.io()).await;
    let (newest, has_stale, high_watermark) = {
        let log = partition.log().borrow();
        let newest = log.newest_producer_snapshot();
        (newest, log.has_stale_producer_snapshots(), log.offsets().high_watermark)
    };
    // A crash that takes the end of the log with it takes the snapshot of that end too.
    let Some(newest) = newest.filter(|newest| has_stale && *newest <= high_watermark) else { return };
    if let Err(error) = segment_files::sync_producer_snapshot(shard.io(), partition.folder(), newest).await {
        let (topic, index) = (partition.topic(), partition.id().partition);
        return warn!(topic, partition = index, %error, "a snapshot of the producers could not be synced; earlier ones stay for now");
    }
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

/// The first finds the snapshot of the roll, or takes one; the second finds that one; a failed append may take it away once.
const TRIES_MAX: usize = 3;
