//! The tier's work of one core: which partition needs some, and what; a few at a time, again where it failed.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tracing::{error, info, warn};

use crate::log::segment::Segment;
use crate::record::offset::{Offset, TimestampMs};
use crate::shard::core::Shard;
use crate::shard::directories::is_no_space;
use crate::shard::partition::Partition;
use crate::shard::remote_partition::{RecordError, RemotePartition};
use crate::shard::retention;
use crate::shard::tier_backlog::{self, BacklogReport};
use crate::shard::tier_copy::{self, Candidate};
use crate::shard::tier_figures::TierFigures;
use crate::shard::tier_removal;
use crate::tier::error::{BatchDamage, MetadataError, OwnerError, SegmentFileError, StoreError};
use crate::tier::index_check::MadeIndexes;
use crate::tier::mover::Admission;
use crate::tier::owner;
use crate::tier::remote_expiry::{Expiry, TotalRetention};

/// Why a piece of work came to nothing; it is tried again, but where the disk of the partition itself has failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state could not be noted.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The local disk refused.
    #[error("a local segment could not be read: {0}")]
    Disk(#[from] std::io::Error),
    /// The segment is damaged here: it is not copied.
    #[error("segment {segment} is damaged and is not copied: {source}")]
    Damaged {
        /// The segment.
        segment: Offset,
        /// Where.
        source: BatchDamage,
    },
    /// An index of the segment is wrong: these are right.
    #[error("an index of segment {segment} is wrong")]
    WrongIndex {
        /// The segment.
        segment: Offset,
        /// To be copied instead.
        indexes: MadeIndexes,
    },
    /// The segment does not fit into the format.
    #[error(transparent)]
    Format(#[from] SegmentFileError),
    /// There is no tier, or it is not known to be ours yet.
    #[error("the tier is not ready")]
    NoTier,
    /// The server stops, or the partition has left: nothing is wrong.
    #[error("it is given up")]
    GivenUp,
}

/// Takes the base folder, or finds that it is ours.
///
/// # Errors
/// It is not ours, or the store does not answer.
pub async fn claim(shard: &Rc<Shard>) -> Result<(), OwnerError> {
    let Some(tier) = shard.tier() else { return Ok(()) };
    let has_segments = shard
        .partitions()
        .iter()
        .any(|partition| partition.remote().is_some_and(|remote| !remote.segments().finished().is_empty()));
    owner::claim(shard.io(), tier.store(), &shard.options().cluster_id, has_segments).await?;
    tier.set_claimed();
    info!(core = shard.core_index(), tier = tier.store().url(), "the tier is ready");
    Ok(())
}

/// Looks for work whenever there may be some, and every `remote.log.manager.task.interval.ms`, until the stop.
pub async fn keep(shard: Rc<Shard>) {
    let Some(tier) = shard.tier().cloned() else { return };
    let io = shard.io();
    let interval_ms = shard.options().broker_config.remote_task_interval_ms();
    let mut is_pass = true;
    let mut next_pass = io.now();
    let mut next_figures = io.now().plus_ms(FIGURES_MS);
    let mut figures = TierFigures::default();
    let mut backlog = BacklogReport::default();
    let mut next_backlog = io.now();
    while !shard.is_stopping() {
        if io.now() >= next_pass {
            is_pass = true;
            next_pass = io.now().plus_ms(interval_ms);
            backlog.look(&shard, &tier).await;
        }
        if io.now() >= next_backlog && !tier.store().is_local() {
            next_backlog = io.now().plus_ms(BACKLOG_MS);
            tier.store().note_backlog(tier_backlog::waiting_bytes(&shard));
        }
        if io.now() >= next_figures {
            next_figures = io.now().plus_ms(FIGURES_MS);
            let before = std::mem::replace(&mut figures, TierFigures::of(&shard));
            if figures != before {
                figures.log(shard.core_index());
            }
        }
        let mut wake_at = next_pass.min(next_figures);
        if tier.is_claimed() {
            begin_due(&shard, is_pass);
            is_pass = false;
            if let Some(retry) = tier.mover().borrow().next_retry(io.now()) {
                wake_at = wake_at.min(retry);
            }
        } else if let Err(error) = claim(&shard).await {
            warn!(%error, "the tier cannot be used: nothing is copied, and nothing local goes that was not copied; it is tried again");
            wake_at = io.now().plus_ms(CLAIM_AGAIN_MS);
        } else {
            continue;
        }
        let _timer = io.wake_at(wake_at);
        poll_fn(|_| {
            if tier.take_news(io) || shard.is_stopping() || io.now() >= wake_at {
                return Poll::Ready(());
            }
            shard.note_stopping();
            Poll::Pending
        })
        .await;
        shard.forget_stopping();
    }
}

/// Begins work on partitions that need some, as many as may be at once. What goes locally is looked for in a pass alone: a
/// roll that the disk refuses is not asked for again and again.
fn begin_due(shard: &Rc<Shard>, is_pass: bool) {
    let Some(tier) = shard.tier() else { return };
    for partition in shard.partitions() {
        let Some(remote) = partition.remote().filter(|_| partition.is_online()) else { continue };
        let has_surplus = || is_pass && tier_removal::has_local_surplus(shard, &partition);
        if !needs_work(shard, &partition, &remote) && !has_surplus() {
            continue;
        }
        match tier.mover().borrow_mut().begin(partition.id(), shard.io().now()) {
            Admission::Begun => {}
            Admission::UnderWay | Admission::NotBefore(_) => continue,
            // Whoever ends tells.
            Admission::Full => break,
        }
        shard.io().spawn(work(shard.clone(), partition, remote));
    }
}

fn needs_work(shard: &Shard, partition: &Partition, remote: &RemotePartition) -> bool {
    !remote.segments().unfinished().is_empty()
        || is_switched_off(partition, remote)
        || next_candidate(partition, remote).is_some()
        || !plan_expiry(shard, partition, remote).segments.is_empty()
}

/// The topic is tiered no more, and what is in the tier is to go.
fn is_switched_off(partition: &Partition, remote: &RemotePartition) -> bool {
    let tier = partition.limits().tier;
    !tier.enabled && tier.delete_on_disable && !remote.segments().is_empty()
}

/// All that one partition needs, one piece after the other.
async fn work(shard: Rc<Shard>, partition: Rc<Partition>, remote: Rc<RemotePartition>) {
    let Some(tier) = shard.tier() else { return };
    let (topic, index) = (partition.topic(), partition.id().partition);
    let done = work_through(&shard, &partition, &remote).await;
    let now = shard.io().now();
    match done {
        Ok(()) | Err(WorkError::GivenUp) => tier.mover().borrow_mut().succeeded(partition.id()),
        Err(error) => {
            let retry_ms = tier.mover().borrow_mut().failed(partition.id(), now, shard.io().random_u64());
            if let WorkError::Record(RecordError::Disk(MetadataError::Io { source, .. })) = &error
                && !is_no_space(source)
            {
                shard.fail_partition(&partition, "what is known of its remote segments could not be written", source);
            } else {
                match &error {
                    WorkError::Damaged { .. } => {
                        error!(topic, partition = index, %error, retry_ms, "the segment stays here; check the disk");
                    }
                    _ => {
                        warn!(topic, partition = index, %error, retry_ms, "the tier's work on a partition failed; it is tried again")
                    }
                }
            }
        }
    }
    // Those that found no place may have one now.
    tier.note_ended(shard.io());
    tier.tell(shard.io());
}

async fn work_through(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    remote: &Rc<RemotePartition>,
) -> Result<(), WorkError> {
    loop {
        check_goes_on(shard, partition)?;
        // What a crash or a failure has left of a copy or a deletion.
        let unfinished = remote.segments().unfinished();
        for id in unfinished {
            tier_removal::remove_segment(shard, partition, remote, id, "it was not finished").await?;
        }
        if is_switched_off(partition, remote) {
            tier_removal::remove_all(shard, partition, remote).await?;
            continue;
        }
        if let Some(candidate) = next_candidate(partition, remote) {
            tier_copy::copy(shard, partition, remote, &candidate).await?;
            continue;
        }
        let expiry = plan_expiry(shard, partition, remote);
        if expiry.segments.is_empty() {
            break;
        }
        tier_removal::expire(shard, partition, remote, expiry).await?;
    }
    // What the tier has by now may go here. Where the active segment is sealed by that, its end tells.
    retention::check(shard, partition).await;
    Ok(())
}

/// An error where the work is to be given up.
pub(in crate::shard) fn check_goes_on(shard: &Shard, partition: &Rc<Partition>) -> Result<(), WorkError> {
    let is_hosted = shard.hosted(partition.id()).is_some_and(|hosted| Rc::ptr_eq(&hosted, partition));
    if is_hosted && partition.is_online() && !shard.is_stopping() { Ok(()) } else { Err(WorkError::GivenUp) }
}

/// The oldest sealed segment that the tier has not, where it may be copied: below the last stable offset, durable here,
/// and with complete indexes.
fn next_candidate(partition: &Partition, remote: &RemotePartition) -> Option<Candidate> {
    let tier = partition.limits().tier;
    if !tier.enabled || tier.copy_disabled {
        return None;
    }
    let copied_below = partition.copied_below();
    let durable = partition.checkpointed_recovery_point();
    let log = partition.log().borrow();
    let bound = log.offsets().last_stable.min(durable);
    let segments = log.segments();
    // From the local start on: nothing that only the tier has is copied again. What lies below the log start will go.
    let from = copied_below.max(log.offsets().log_start);
    let at = segments.partition_point(|segment| segment.base_offset() <= from).saturating_sub(1);
    let (segment, next) = (segments.get(at)?, segments.get(at + 1)?);
    let next_base = next.base_offset();
    let is_known = remote.segments().covered_to(segment.base_offset()) >= next_base;
    (next_base <= bound && !is_known && segment.size_bytes() > 0).then(|| Candidate {
        segment: segment.id(),
        next_base,
        log_bytes: segment.size_bytes(),
        max_timestamp: segment.max_timestamp().map_or(TimestampMs::NONE, |(max, _)| max),
    })
}

fn plan_expiry(shard: &Shard, partition: &Partition, remote: &RemotePartition) -> Expiry {
    let limits = partition.limits();
    let keeps = TotalRetention {
        retention_ms: limits.retention.retention_ms.filter(|_| limits.retention.delete),
        retention_bytes: limits.retention.retention_bytes.filter(|_| limits.retention.delete),
    };
    let copied_below = partition.copied_below();
    let (log_start, local_only_bytes) = {
        let log = partition.log().borrow();
        let only_local = log.segments().iter().filter(|segment| segment.base_offset() >= copied_below);
        (log.offsets().log_start, only_local.map(Segment::size_bytes).sum())
    };
    remote.segments().plan_expiry(&keeps, shard.io().wall_ms(), log_start, local_only_bytes)
}

/// How often the figures are told, where they have changed.
const FIGURES_MS: u64 = 30_000;
/// How often the store is told what waits for it, at most.
const BACKLOG_MS: u64 = 1_000;
/// After a store that did not answer.
const CLAIM_AGAIN_MS: u64 = 5_000;
