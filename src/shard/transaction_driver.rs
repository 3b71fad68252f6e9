//! Drives decided transactions to their ends: a marker to each partition, on whatever core, then word to the coordinator.
//!
//! A decision that is durable is never given up: what a crash or a reload interrupts, the coordinator hands out again.

use std::collections::VecDeque;
use std::rc::Rc;

use tracing::{debug, warn};

use crate::log::error::AppendError;
use crate::record::control::EndMarker;
use crate::record::offset::{PartitionId, ProducerId};
use crate::shard::core::Shard;
use crate::shard::error::AppendFailure;
use crate::shard::hosting;
use crate::shard::machine::CoordinatorFailure;
use crate::shard::markers::{self, Ending, MarkerFailure};
use crate::shard::router::Route;
use crate::txn::coordinator::TransactionCoordinator;
use crate::txn::reply::{MarkerJob, TransactionReply};
use crate::txn::request::TransactionRequest;

/// Works for the coordinator of one partition of `__transaction_state`, as long as that is here.
pub(in crate::shard) async fn drive(shard: Rc<Shard>, id: PartitionId) {
    loop {
        let asked = shard.ask_here::<TransactionCoordinator>(id.partition, TransactionRequest::TakeMarkers).await;
        match asked {
            Ok(TransactionReply::Markers(job)) => {
                shard.io().spawn(finish(shard.clone(), id, job));
            }
            Ok(TransactionReply::Late { transactional_id }) => {
                shard.io().spawn(abort_late(shard.clone(), id, transactional_id));
            }
            Ok(reply) => debug!(?reply, "a coordinator answered what was not asked"),
            Err(CoordinatorFailure::Loading | CoordinatorFailure::NotAvailable) if !shard.is_closing() => {
                shard.io().sleep_ms(RETRY_MS).await;
            }
            // It may refuse, or be on its way to be read again.
            Err(CoordinatorFailure::NotHere) if !shard.is_closing() && shard.hosted(id).is_some() => {
                shard.io().sleep_ms(RETRY_MS_MAX).await;
            }
            Err(_) => return,
        }
    }
}

/// Writes the markers of one transaction, and says so when all are durable.
async fn finish(shard: Rc<Shard>, id: PartitionId, job: MarkerJob) {
    let Some(state) = shard.hosted(id) else { return };
    let coordinator_epoch = state.log().borrow().leader_epoch().get();
    let ending = Ending {
        producer_id: job.producer_id,
        producer_epoch: job.producer_epoch,
        marker: EndMarker {
            is_commit: job.is_commit,
            coordinator_epoch,
            transaction_version: i8::try_from(job.client_version).unwrap_or(0),
        },
    };
    let named = job.partitions.iter().flat_map(|(topic, indexes)| indexes.iter().map(|index| (topic.clone(), *index)));
    let wanted: VecDeque<(String, i32)> = named.collect();
    let shard_of_jobs = shard.clone();
    hosting::run_side_by_side(shard.io(), wanted, MARKERS_AT_ONCE_MAX, move |(topic, index)| {
        let shard = shard_of_jobs.clone();
        async move { end_in(&shard, &topic, index, ending).await }
    })
    .await;
    if shard.is_closing() {
        // Some may be missing; the next start goes on.
        return;
    }
    let written = TransactionRequest::MarkersWritten {
        transactional_id: job.transactional_id,
        producer_id: job.producer_id,
        producer_epoch: job.producer_epoch,
    };
    if let Err(error) = shard.ask_here::<TransactionCoordinator>(id.partition, written).await {
        // It is read again, and hands the transaction out once more.
        debug!(%error, "a coordinator did not hear that a transaction has ended");
    }
}

/// Aborts a transaction that is open for too long, with the producer id that its end takes. Where that cannot be had, the
/// coordinator says so again at its next check.
async fn abort_late(shard: Rc<Shard>, id: PartitionId, transactional_id: String) {
    let fresh = match shard.next_producer_id().await {
        Ok(fresh) => ProducerId(fresh),
        Err(error) => return warn!(transactional_id, %error, "no producer id to abort a late transaction with"),
    };
    let abort = TransactionRequest::AbortLate { transactional_id, fresh };
    if let Err(error) = shard.ask_here::<TransactionCoordinator>(id.partition, abort).await {
        debug!(%error, "a coordinator did not hear that a late transaction may be aborted");
    }
}

/// Writes one marker, however often it takes. Where the partition is gone there is nothing to end; but only this core's
/// catalog, which has been here since the coordinator was read, can tell that. Another core that knows nothing of the
/// partition may be on its way to know it, after a start: it is asked again.
async fn end_in(shard: &Rc<Shard>, topic: &str, index: i32, ending: Ending) {
    let mut delay_ms = RETRY_MS;
    while !shard.is_closing() {
        let snapshot = shard.snapshot();
        let Some(topic_id) = snapshot.topic(topic).map(|topic| topic.id) else { return };
        let id = PartitionId { topic_id, partition: index };
        if matches!(shard.route(id), Route::Unknown) {
            return;
        }
        match markers::end_transaction(shard, id, ending).await {
            Ok(_) => return,
            Err(MarkerFailure::Append(AppendFailure::Refused(
                error @ (AppendError::InvalidProducerEpoch { .. } | AppendError::CoordinatorFenced { .. }),
            ))) => {
                // Somebody else has ended it there, with a later epoch.
                return warn!(topic, partition = index, %error, "a marker was not needed");
            }
            Err(failure) => {
                debug!(topic, partition = index, ?failure, "a marker is tried again");
                shard.io().sleep_ms(delay_ms).await;
                delay_ms = (2 * delay_ms).min(RETRY_MS_MAX);
            }
        }
    }
}

const RETRY_MS: u64 = 20;
const RETRY_MS_MAX: u64 = 1000;
/// Markers of one transaction that are under way together.
const MARKERS_AT_ONCE_MAX: usize = 32;
