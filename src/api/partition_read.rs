//! Reading one partition for a fetch, on the core that leads it.

use std::rc::Rc;

use crate::api::error_map;
use crate::api::tier_reads::{self, TierReads, Turn};
use crate::log::partition_log::PartitionLog;
use crate::log::plan::ReadBound;
use crate::log::transaction_index::AbortedTransaction;
use crate::record::offset::{LeaderEpoch, Offset, PartitionId};
use crate::shard::core::Shard;
use crate::shard::deadline::within;
use crate::shard::partition::Partition;
use crate::shard::read::{self, RecordsRange};
use crate::wire::error_code::ErrorCode;

/// What a fetch may still take.
#[derive(Clone, Copy)]
pub struct Budget {
    /// Bytes that are left.
    pub left_bytes: i64,
    /// The first batch comes whole, however small the limits.
    pub whole_first_batch: bool,
}

impl Budget {
    /// Counts what was found.
    pub fn take(&mut self, found: &Found) {
        let bytes = i64::try_from(found.records_bytes()).unwrap_or(i64::MAX);
        self.whole_first_batch &= bytes == 0;
        // A negative limit fails the first partition alone, as in Kafka.
        self.left_bytes = self.left_bytes.saturating_sub(bytes).max(0);
    }
}

/// What is asked of one partition.
#[derive(Clone, Copy)]
pub struct Ask {
    /// The partition.
    pub id: PartitionId,
    /// The leader epoch that the client takes to be current, -1 for no opinion.
    pub current_leader_epoch: i32,
    /// The offset to read from.
    pub fetch_offset: i64,
    /// The epoch of the last record that the client has, -1 where it does not say.
    pub last_fetched_epoch: i32,
    /// Bytes of this partition at most.
    pub bytes_max: i32,
}

/// What was found of one wanted partition.
pub struct Found {
    /// What went wrong, if anything.
    pub error: ErrorCode,
    /// -1 where it is not known.
    pub high_watermark: i64,
    /// -1 where it is not known.
    pub last_stable: i64,
    /// -1 where it is not known.
    pub log_start: i64,
    /// Transactions whose records the client passes over.
    pub aborted: Vec<AbortedTransaction>,
    /// The list of aborted transactions is null, not empty: Kafka's answer to who reads uncommitted records too.
    pub aborted_is_null: bool,
    /// What is to be sent.
    pub records: Option<RecordsRange>,
    /// What counts for the least bytes of a fetch: also what is there and was cut off.
    pub available_bytes: u64,
    /// Where the client's log parts from this one.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// The core that leads, where the client is to be told.
    pub leader: Option<(u32, LeaderEpoch)>,
}

impl Found {
    /// Nothing but an error.
    pub fn error(error: ErrorCode) -> Self {
        Self {
            error,
            high_watermark: -1,
            last_stable: -1,
            log_start: -1,
            aborted: Vec::new(),
            aborted_is_null: true,
            records: None,
            available_bytes: 0,
            diverging: None,
            leader: None,
        }
    }

    /// Nothing of that name is there: found out before any log was read.
    pub fn missing(error: ErrorCode) -> Self {
        Self { aborted_is_null: false, ..Self::error(error) }
    }

    /// As [`missing`](Self::missing) made it.
    pub fn is_missing(&self) -> bool {
        matches!(self.error, ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId)
    }

    /// Length of what is to be sent.
    pub fn records_bytes(&self) -> u64 {
        self.records.as_ref().map_or(0, |range| u64::from(range.plan.len_bytes))
    }
}

/// Reads one partition of this core.
pub async fn read_one(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    ask: &Ask,
    budget: Budget,
    read_committed: bool,
    reads: &mut TierReads,
) -> Found {
    let (offsets, diverging) = {
        let log = partition.log().borrow();
        if let Some(error) = error_map::leader_epoch_error(ask.current_leader_epoch, log.leader_epoch()) {
            return Found::error(error);
        }
        let diverging = match diverging_epoch(&log, ask) {
            Ok(diverging) => diverging,
            Err(error) => return Found::error(error),
        };
        (log.offsets(), diverging)
    };
    let mut found = Found {
        high_watermark: offsets.high_watermark.get(),
        last_stable: offsets.last_stable.get(),
        log_start: offsets.log_start.get(),
        ..Found::error(ErrorCode::None)
    };
    if diverging.is_some() {
        found.diverging = diverging;
        return found;
    }
    let limit_bytes = budget.left_bytes.min(i64::from(ask.bytes_max));
    let bytes_max = u32::try_from(limit_bytes).unwrap_or(0);
    let (bound, end) = match read_committed {
        true => (ReadBound::LastStable, found.last_stable),
        false => (ReadBound::HighWatermark, found.high_watermark),
    };
    let from = Offset(ask.fetch_offset);
    let whole_first_batch = budget.whole_first_batch;
    let reading = || read::locate_with_aborted(shard, partition, from, bytes_max, whole_first_batch, bound);
    let located = match reads.turn(shard, partition, ask, whole_first_batch) {
        Turn::Anew => {
            let is_remote = tier_reads::is_remote(partition, ask);
            let read = reading().await;
            if is_remote {
                tier_reads::count(shard, &read);
            }
            read
        }
        // Kafka says no offsets either.
        Turn::Failed(error) => return Found::error(error),
        Turn::Found(located) => Ok(located.cut_to(partition, bytes_max, whole_first_batch)),
        Turn::Nothing => Ok(None),
        // Not there yet: no error, and no records.
        Turn::Until(deadline) => Box::pin(within(shard.io(), deadline, reading())).await.unwrap_or(Ok(None)),
    };
    match located {
        // What Kafka makes of a negative limit, where there is something to read.
        Ok(_) if limit_bytes < 0 && ask.fetch_offset < end => {
            return Found::error(ErrorCode::UnknownServerError);
        }
        Ok(located) => {
            let (records, aborted) = located.map(|located| (located.range, located.aborted)).unzip();
            // As Kafka: null also where there are records of which not even the first batch may be sent.
            let withheld = records.is_none() && bytes_max > 0 && ask.fetch_offset < end;
            found.aborted_is_null = !read_committed || withheld;
            found.aborted = aborted.unwrap_or_default();
            found.available_bytes =
                available_bytes(&partition.log().borrow(), records.as_ref(), ask, budget.left_bytes, bound);
            found.records = records;
        }
        Err(failure) => {
            tracing::debug!(topic = partition.topic(), partition = partition.id().partition, error = %failure, "fetch refused");
            return Found::error(error_map::read_failure(&failure));
        }
    }
    found
}

/// What Kafka counts for a fetch's least bytes: all that lies there up to the partition's limit, although the answer ends
/// between batches before it; and enough where waiting brings no more, as in a segment that is not the last.
fn available_bytes(
    log: &PartitionLog,
    found: Option<&RecordsRange>,
    ask: &Ask,
    left_bytes: i64,
    bound: ReadBound,
) -> u64 {
    let from = Offset(ask.fetch_offset);
    let bytes_max = u64::try_from(ask.bytes_max).unwrap_or(0);
    match found {
        None if from >= log.end_for(bound) => 0,
        _ if log.is_on_older_segment(from, bound) => u64::MAX,
        Some(range) => log.bytes_to_end(&range.plan, bound).min(bytes_max).max(u64::from(range.plan.len_bytes)),
        // The first batch is longer than the partition's limit, or than what is left of the whole fetch's.
        None if i64::from(ask.bytes_max) <= left_bytes => bytes_max,
        None => u64::MAX,
    }
}

/// Where the log of a client that has records up to `last_fetched_epoch` parts from this one (KIP-595).
fn diverging_epoch(log: &PartitionLog, ask: &Ask) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    let last_fetched = LeaderEpoch(ask.last_fetched_epoch);
    if last_fetched < LeaderEpoch(0) {
        return Ok(None);
    }
    // Kafka's answer where it knows no such epoch: the client looks for a valid offset.
    let (epoch, end) = log.offset_for_epoch(last_fetched).ok_or(ErrorCode::OffsetOutOfRange)?;
    Ok((epoch < last_fetched || end < Offset(ask.fetch_offset)).then_some((epoch, end)))
}
