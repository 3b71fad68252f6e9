//! The end of a transaction in one partition: a marker is appended on the core that leads it, and counts when it is durable.

use std::future::poll_fn;
use std::rc::Rc;

use crate::record::batch::parse_header;
use crate::record::check::CheckedBatch;
use crate::record::control::EndMarker;
use crate::record::offset::{Offset, PartitionId, ProducerId};
use crate::ring::buffer::Buffer;
use crate::shard::append;
use crate::shard::core::Shard;
use crate::shard::error::AppendFailure;
use crate::shard::router::Route;

/// Whose transaction ends, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Who wrote it.
    pub producer_id: ProducerId,
    /// The epoch that the marker has.
    pub producer_epoch: i16,
    /// The marker.
    pub marker: EndMarker,
}

/// Why a marker is not in a partition.
#[derive(Debug)]
pub enum MarkerFailure {
    /// The log refused it.
    Append(AppendFailure),
    /// Another core leads the partition, or this one cannot serve it yet.
    NotLeader,
    /// Its disk is the reason that it is not served.
    Offline,
    /// There is no such partition (any more).
    Unknown,
}

/// Appends a marker to a partition of any core; durable on return. Says where it lies.
///
/// # Errors
/// It may be tried again: a marker that is there twice ends nothing the second time.
pub async fn end_transaction(shard: &Rc<Shard>, id: PartitionId, ending: Ending) -> Result<Offset, MarkerFailure> {
    let core = match shard.route(id) {
        Route::There { core } => core,
        Route::Elsewhere { core, .. } => core as usize,
        Route::Here(_) | Route::NotReady { .. } | Route::Unknown => return end_here(shard, id, ending).await,
    };
    let ended = shard.on_core(core, move |there| async move { end_here(&there, id, ending).await }).await;
    ended.unwrap_or(Err(MarkerFailure::NotLeader))
}

/// The same for a partition of this core.
///
/// # Errors
/// As [`end_transaction`].
pub async fn end_here(shard: &Rc<Shard>, id: PartitionId, ending: Ending) -> Result<Offset, MarkerFailure> {
    let partition = match shard.route(id) {
        Route::Here(partition) => partition,
        Route::NotReady { offline: true } => return Err(MarkerFailure::Offline),
        Route::Unknown => return Err(MarkerFailure::Unknown),
        Route::NotReady { offline: false } | Route::There { .. } | Route::Elsewhere { .. } => {
            return Err(MarkerFailure::NotLeader);
        }
    };
    let io = shard.io();
    let batch = ending.marker.to_batch(ending.producer_id, ending.producer_epoch, io.wall_ms());
    let header = parse_header(&batch).expect("a batch that was built has a header");
    let checked = CheckedBatch::of_marker(&header, ending.marker);
    let started = append::start(shard, &partition, Buffer::from_vec(batch), &checked).await;
    let appended = started.map_err(MarkerFailure::Append)?;
    poll_fn(|_| appended.poll_durable(io)).await.map_err(MarkerFailure::Append)?;
    shard.transaction_ended(id, ending.producer_id, ending.marker.is_commit);
    Ok(appended.base_offset)
}
