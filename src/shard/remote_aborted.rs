//! Aborted transactions of what only the tier has.

use std::rc::Rc;

use crate::log::plan::ReadPlan;
use crate::log::transaction_index::{AbortedTransaction, TRANSACTION_ENTRY_BYTES, collect};
use crate::record::offset::Offset;
use crate::shard::core::Shard;
use crate::shard::error::ReadFailure;
use crate::shard::partition::Partition;
use crate::shard::remote_read::{open, read_section};
use crate::tier::segment_file::Section;

/// Adds those that the tier knows to `found`. Says up to where the local log is to be asked as well; `None`: not at all.
///
/// A segment without a transaction index has no aborted transactions, and its file is not even opened (C139, C141).
///
/// # Errors
/// The tier does not answer: the records must not be told as committed then.
pub(in crate::shard) async fn collect_remote(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    range: &ReadPlan,
    found: &mut Vec<AbortedTransaction>,
) -> Result<Option<Offset>, ReadFailure> {
    let Some(remote) = partition.remote() else { return Ok(None) };
    let local_log_start = partition.log().borrow().offsets().local_log_start;
    let (upper, mut from) = {
        let segments = remote.segments();
        let Some(first) = segments.find(range.segment.base_offset()) else { return Ok(None) };
        // As Kafka: an offset behind all of the range; one that is too late only tells of more.
        let upper = range.next_hint.map_or(first.end_offset().plus(1), |hint| hint.offset);
        (upper, first.start_offset())
    };
    // An entry stands in the segment of its marker, which may be a later one than the transaction's records.
    loop {
        let next = remote.segments().next_with_transaction_index(from).copied();
        let Some(span) = next.filter(|span| span.start_offset() < local_log_start) else { break };
        from = span.start_offset().plus(1);
        let file = open(shard, partition, &span).await?;
        let mut position_bytes = 0;
        loop {
            let read =
                read_section(shard, &file, Section::TransactionIndex, position_bytes, ENTRIES_AT_ONCE_BYTES).await?;
            if read.is_empty() {
                break;
            }
            if !collect(AbortedTransaction::decode_all(&read.joined()), range.start_offset, upper, found) {
                return Ok(None);
            }
            position_bytes += read.len() as u64;
        }
    }
    Ok(Some(upper))
}

/// Entries of an index, as they are read: whole ones.
const ENTRIES_AT_ONCE_BYTES: usize = 1024 * TRANSACTION_ENTRY_BYTES;
