//! Which of this core's logs is compacted, and when.
//!
//! One at a time, the dirtiest first, as Kafka's cleaner does. A log in which something cannot be read is given up, with
//! a word on what to do, and the others go on.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use tracing::{error, info, warn};

use crate::log::clean_plan::{CleaningPlan, CleaningStep};
use crate::log::plan::SegmentId;
use crate::record::batch::{HEADER_BYTES, parse_header};
use crate::record::offset::TimestampMs;
use crate::shard::checkpoints;
use crate::shard::cleaning;
use crate::shard::core::Shard;
use crate::shard::directories::is_no_space;
use crate::shard::error::CleanFailure;
use crate::shard::files::FileKind;
use crate::shard::partition::Partition;
use crate::shard::retention;

/// Compacts what is due, then waits `log.cleaner.backoff.ms`, until the stop.
pub async fn keep(shard: Rc<Shard>) {
    let config = &shard.options().broker_config;
    if !config.log_cleaner_enable() {
        return;
    }
    let backoff_ms = config.log_cleaner_backoff_ms().max(BACKOFF_MS_MIN);
    while !shard.is_stopping() {
        shard.io().sleep_ms(backoff_ms).await;
        while let Some((partition, plan)) = dirtiest(&shard).await {
            if !run(&shard, &partition, &plan).await {
                break;
            }
        }
    }
}

/// The log with the largest dirty share among those that are due.
async fn dirtiest(shard: &Rc<Shard>) -> Option<(Rc<Partition>, CleaningPlan)> {
    let mut found: Option<(Rc<Partition>, CleaningPlan)> = None;
    for partition in shard.partitions() {
        if !partition.limits().cleaning.compact {
            continue;
        }
        // Ten thousand partitions are many, though each is quickly looked at.
        shard.io().yield_now().await;
        if let Some(plan) = look_at(shard, &partition).await.filter(|plan| plan.is_due)
            && found.as_ref().is_none_or(|(_, dirtiest)| plan.dirty_ratio() > dirtiest.dirty_ratio())
        {
            found = Some((partition, plan));
        }
    }
    found
}

/// What of a log can be compacted now.
async fn look_at(shard: &Rc<Shard>, partition: &Rc<Partition>) -> Option<CleaningPlan> {
    let mut file_times_ms = BTreeMap::new();
    loop {
        if shard.is_stopping() || !partition.is_online() || partition.is_uncleanable() {
            return None;
        }
        // What was not durable in the last checkpoint's sense may be cut off after a crash.
        let durable = partition.checkpointed_recovery_point();
        let step = partition.log().borrow().plan_cleaning(
            &partition.limits().cleaning,
            partition.cleaned_to(),
            durable,
            shard.io().wall_ms(),
            &file_times_ms,
        );
        let asked = match step {
            CleaningStep::Nothing => return None,
            CleaningStep::Clean(plan) => return Some(plan),
            CleaningStep::FileTime(segment) => {
                let time_ms = retention::file_time_ms(shard, partition, segment).await;
                time_ms.map(|time_ms| file_times_ms.insert(segment, time_ms).map_or((), drop))
            }
            CleaningStep::FirstTimestamp(segment) => {
                let timestamp = first_timestamp(shard, partition, segment).await;
                timestamp.map(|timestamp| partition.log().borrow_mut().first_batch_was_read(segment, timestamp))
            }
        };
        if let Err(error) = asked {
            warn!(topic = partition.topic(), partition = partition.id().partition, %error,
                "the age of a segment could not be read; it is looked at again at the next check");
            return None;
        }
    }
}

async fn first_timestamp(shard: &Rc<Shard>, partition: &Partition, segment: SegmentId) -> io::Result<TimestampMs> {
    let file = shard.files().open(shard.io(), partition.folder(), partition.id(), segment, FileKind::Log).await?;
    let (read, head) = file.read_at(shard.io().buffer(HEADER_BYTES), 0).await;
    let header = parse_header(head.get(..read?).unwrap_or_default());
    Ok(header.map_or(TimestampMs::NONE, |header| header.max_timestamp))
}

/// Compacts one log; false where the next try should wait.
async fn run(shard: &Rc<Shard>, partition: &Rc<Partition>, plan: &CleaningPlan) -> bool {
    let (topic, index) = (partition.topic(), partition.id().partition);
    let began_at = shard.io().now();
    let failure = match cleaning::clean(shard, partition, plan).await {
        Ok(cleaned) => {
            let cleaning::Cleaned { end, bytes_before, bytes_after, key_count, is_partial } = cleaned;
            let elapsed_ms = shard.io().now().since(began_at) / 1_000_000;
            info!(topic, partition = index, %end, bytes_before, bytes_after, key_count, is_partial, elapsed_ms, "log compacted");
            partition.set_cleaned_to(Some(end));
            if let Some(dir) = partition.folder().parent() {
                checkpoints::write_cleaned(shard, dir).await;
            }
            return true;
        }
        Err(failure) => failure,
    };
    match &failure {
        CleanFailure::Stopped => {}
        CleanFailure::Disk(source) if is_no_space(source) => {
            warn!(topic, partition = index, folder = %partition.folder().display(),
                "the disk is full: the log is compacted when there is space; it needs as much as the largest segment");
        }
        CleanFailure::Disk(source) => {
            shard.note_unwritten(partition, "a compacted segment could not be written", source)
        }
        CleanFailure::Unreadable { .. } | CleanFailure::Damaged { .. } => {
            partition.set_uncleanable();
            error!(topic, partition = index, error = %failure,
                "the log is not compacted until the server is started again, and grows; the other logs go on. Look at the segment with \
                 `alluvium dump`; records up to the damage can be given up by cleanup.policy=compact,delete and DeleteRecords behind it");
        }
    }
    false
}

/// Looked at more often, a core with nothing to compact would not sleep.
const BACKOFF_MS_MIN: u64 = 10;
