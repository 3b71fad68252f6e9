//! Appends to a partition that another core leads.
//!
//! The connection's core has checked the batch; the core that leads gives it its offsets, writes it, and answers when it
//! is safe. Batches for one partition are appended in the order in which they were sent.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use crate::api::client_append::{self, Client};
use crate::api::error_map::{self, Refusal};
use crate::record::check::CheckedBatch;
use crate::record::offset::{PartitionId, ProducerId};
use crate::ring::buffer::Buffer;
use crate::shard::core::Shard;
use crate::shard::error::AppendFailure;
use crate::shard::forward::{CoreGone, Sent};
use crate::shard::router::Route;
use crate::wire::error_code::ErrorCode;

/// Where a batch landed.
#[derive(Clone, Copy, Debug)]
pub struct Landed {
    /// Offset of its first record.
    pub base_offset: i64,
    /// The time stamped on it, where the topic has `LogAppendTime`.
    pub log_append_time_ms: Option<i64>,
    /// First offset of the log.
    pub log_start: i64,
}

/// What an append waits for before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The batch is in the page cache (acks=0).
    Written,
    /// The batch is safe, or the client's time is up.
    Durable {
        /// The client's time limit.
        timeout_ms: u64,
    },
}

/// An append on its way.
pub type ForwardedAppend = Sent<Result<Landed, Refusal>>;

/// Sends a batch to the core that leads its partition; on return it has its place among those sent before.
pub async fn send(
    shard: &Rc<Shard>,
    core: usize,
    id: PartitionId,
    records: &[u8],
    batch: CheckedBatch,
    client: Client,
    until: Until,
) -> ForwardedAppend {
    // The one copy of this way: a buffer belongs to its core's pool.
    let records = records.to_vec();
    shard.send_job(core, move |there| append_here(there, id, records, batch, client, until)).await
}

/// How it came out.
pub async fn outcome(append: ForwardedAppend) -> Result<Landed, Refusal> {
    append.await.unwrap_or_else(|CoreGone| Err(Refusal::new(ErrorCode::NotLeaderOrFollower)))
}

/// Tells the core that leads that a batch sent in this place was refused; on return that is known before what is sent next.
pub async fn refuse(shard: &Rc<Shard>, core: usize, id: PartitionId, batch: CheckedBatch) {
    let told = shard.send_job(core, move |there| async move {
        if let Route::Here(partition) = there.route(id) {
            let place = partition.forwarded().enter(there.io());
            place.wait_turn().await;
            partition.log().borrow_mut().refuse_append(&batch);
        }
    });
    drop(told.await);
}

/// [`client_append::verify`] on the core that leads, in the place of the batch among those sent before.
///
/// # Errors
/// The coordinator has something against the batch, or that core is gone.
pub async fn verify(
    shard: &Rc<Shard>,
    core: usize,
    id: PartitionId,
    producer: (ProducerId, i16),
    client: Client,
) -> Result<(), Refusal> {
    let asked = shard.send_job(core, move |there| async move {
        let Route::Here(partition) = there.route(id) else { return Ok(()) };
        let place = partition.forwarded().enter(there.io());
        place.wait_turn().await;
        client_append::verify(&there, &partition, producer, &client).await
    });
    asked.await.await.unwrap_or_else(|CoreGone| Err(Refusal::new(ErrorCode::NotLeaderOrFollower)))
}

/// The same refusal with the start of a log that another core has, where Kafka says it.
pub async fn at_log_start(shard: &Rc<Shard>, core: usize, id: PartitionId, refusal: Refusal) -> Refusal {
    let log_start = shard.on_core(core, move |there| async move {
        match there.route(id) {
            Route::Here(partition) => Some(partition.log().borrow().offsets().log_start),
            _ => None,
        }
    });
    match log_start.await {
        Ok(Some(log_start)) => refusal.at(log_start),
        Ok(None) | Err(CoreGone) => refusal,
    }
}

async fn append_here(
    shard: Rc<Shard>,
    id: PartitionId,
    records: Vec<u8>,
    batch: CheckedBatch,
    client: Client,
    until: Until,
) -> Result<Landed, Refusal> {
    let partition = match shard.route(id) {
        Route::Here(partition) => partition,
        Route::NotReady { offline: true } => return Err(Refusal::new(ErrorCode::KafkaStorageError)),
        Route::Unknown => return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition)),
        Route::NotReady { offline: false } | Route::There { .. } | Route::Elsewhere { .. } => {
            return Err(Refusal::new(ErrorCode::NotLeaderOrFollower));
        }
    };
    let io = shard.io();
    let place = partition.forwarded().enter(io);
    place.wait_turn().await;
    let started = client_append::start(&shard, &partition, Buffer::from_vec(records), batch, &client).await;
    drop(place);
    let appended = started?;
    let failed = |failure: AppendFailure| error_map::append_failure(&failure);
    match until {
        Until::Written => appended.wait_written(io).await.map_err(failed)?,
        Until::Durable { timeout_ms } => {
            let deadline = io.now().plus_ms(timeout_ms);
            let mut timer = None;
            poll_fn(|_| match appended.poll_durable(io) {
                Poll::Ready(durable) => Poll::Ready(durable.map_err(failed)),
                Poll::Pending if io.now() >= deadline => Poll::Ready(Err(Refusal::new(ErrorCode::RequestTimedOut))),
                Poll::Pending => {
                    timer.get_or_insert_with(|| io.wake_at(deadline));
                    Poll::Pending
                }
            })
            .await?;
        }
    }
    Ok(Landed {
        base_offset: appended.base_offset.get(),
        log_append_time_ms: appended.log_append_time_ms,
        log_start: partition.log().borrow().offsets().log_start.get(),
    })
}
