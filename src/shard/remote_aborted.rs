//! Aborted transactions of what only the tier has.

use std::rc::Rc;

use crate::log::plan::ReadPlan;
use crate::log::transaction_index::{AbortedTransaction, collect};
use crate::record::offset::Offset;
use crate::shard::core::Shard;
use crate::shard::error::ReadFailure;
use crate::shard::partition::Partition;
use crate::shard::remote_read::{open, read_section};
use crate::tier::remote_segments::RemoteSpan;
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
    let (upper, with_any) = {
        let segments = remote.segments();
        let Some(first) = segments.find(range.segment.base_offset()) else { return Ok(None) };
        // As Kafka: an offset behind all of the range; one that is too late only tells of more.
        let upper = range.next_hint.map_or(first.end_offset().plus(1), |hint| hint.offset);
        // An entry stands in the segment of its marker, which may be a later one than the transaction's records.
        let from = first.start_offset();
        let later = segments.finished().iter().filter(|span| {
            span.start_offset() >= from && span.start_offset() < local_log_start && span.has_transaction_index()
        });
        (upper, later.copied().collect::<Vec<RemoteSpan>>())
    };
    for span in with_any {
        let file = open(shard, partition, &span).await?;
        let len_bytes = usize::try_from(file.header.section_bytes(Section::TransactionIndex)).unwrap_or(usize::MAX);
        let bytes = read_section(shard, &file, Section::TransactionIndex, 0, len_bytes).await?;
        if !collect(AbortedTransaction::decode_all(&bytes), range.start_offset, upper, found) {
            return Ok(None);
        }
    }
    Ok(Some(upper))
}
