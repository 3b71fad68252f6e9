//! Reads: from an offset to a range of one segment's file, which is then sent without a copy.

use std::io;
use std::rc::Rc;

use tracing::warn;

use crate::log::error::ReadError;
use crate::log::lookup::LookupStep;
use crate::log::partition_transactions::{AbortedPlan, AbortedSource};
use crate::log::plan::{ReadBound, ReadPlan, SegmentId};
use crate::log::transaction_index::{AbortedTransaction, TRANSACTION_ENTRY_BYTES, collect};
use crate::record::offset::Offset;
use crate::ring::buffer::Buffer;
use crate::ring::io::{File, Io};
use crate::shard::core::Shard;
use crate::shard::error::ReadFailure;
use crate::shard::files::FileKind;
use crate::shard::partition::Partition;
use crate::shard::remote_bytes::RemoteBytes;
use crate::shard::{remote_aborted, remote_read};
use crate::tier::remote_segments::RemoteSpan;

/// What a range is sent from.
pub enum RangeSource {
    /// The segment's file; it stays readable although the segment may be deleted.
    File(File),
    /// Read from this segment of a tier that is not of this machine: exactly the range, held in the tier's memory.
    Tier(RemoteBytes, RemoteSpan),
    /// A copy of exactly the range.
    Memory(Buffer),
}

/// A range of records, ready to be sent.
pub struct RecordsRange {
    /// Where they are.
    pub source: RangeSource,
    /// Where the range is, and what follows it.
    pub plan: ReadPlan,
}

impl RecordsRange {
    /// Reads the range; less where the file ends before.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn read(self, io: &Io) -> io::Result<Buffer> {
        match self.source {
            RangeSource::File(file) => {
                let buffer = io.buffer(self.plan.len_bytes as usize);
                let (read, mut buffer) = file.read_at(buffer, self.plan.position_bytes).await;
                buffer.truncate(read?);
                Ok(buffer)
            }
            RangeSource::Tier(bytes, _) => Ok(Buffer::from_vec(bytes.joined().into_owned())),
            RangeSource::Memory(buffer) => Ok(buffer),
        }
    }
}

/// Finds the records from `from` on, up to `bound`. `None`: there are none yet, or the first batch does not
/// fit into `bytes_max` and `whole_first_batch` is not asked for.
///
/// # Errors
/// The offset is outside the log, or the lookup could not read.
pub async fn locate(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    from: Offset,
    bytes_max: u32,
    whole_first_batch: bool,
    bound: ReadBound,
) -> Result<Option<RecordsRange>, ReadFailure> {
    if !partition.is_online() {
        return Err(ReadFailure::Offline);
    }
    let plan = || partition.log().borrow().plan_read(from, bytes_max, whole_first_batch, bound);
    let replacements = || partition.log().borrow().replacements();
    let mut planned_at = replacements();
    // Rare, and large.
    let remote = || Box::pin(remote_read::locate(shard, partition, from, bytes_max, whole_first_batch, bound));
    let mut lookup = match plan() {
        Err(ReadError::BelowLocalStart { .. }) => return remote().await,
        planned => planned?,
    };
    loop {
        if replacements() != planned_at {
            // Compaction has moved what was found.
            planned_at = replacements();
            lookup = plan()?;
        }
        let (segment, kind, position_bytes, len_bytes) = match lookup.step() {
            LookupStep::Empty => return Ok(None),
            LookupStep::NeedIndex { segment, position_bytes, len_bytes } => {
                (segment, FileKind::OffsetIndex, position_bytes, len_bytes)
            }
            LookupStep::NeedLog { segment, position_bytes, len_bytes } => {
                (segment, FileKind::Log, position_bytes, len_bytes)
            }
            LookupStep::Done(found) => {
                let Some(file) = open(shard, partition, found.segment, FileKind::Log).await? else {
                    // The tier may have it now.
                    lookup = match plan() {
                        Err(ReadError::BelowLocalStart { .. }) => return remote().await,
                        planned => planned?,
                    };
                    continue;
                };
                if replacements() != planned_at {
                    continue;
                }
                if let Some(hint) = found.next_hint {
                    partition.log().borrow_mut().read_hint(hint);
                }
                return Ok(Some(RecordsRange { source: RangeSource::File(file), plan: found }));
            }
        };
        let Some(file) = open(shard, partition, segment, kind).await? else {
            lookup = match plan() {
                Err(ReadError::BelowLocalStart { .. }) => return remote().await,
                planned => planned?,
            };
            continue;
        };
        let buffer = shard.io().buffer(len_bytes as usize);
        let (read, buffer) = file.read_at(buffer, position_bytes).await;
        let read = read.map_err(|error: io::Error| ReadFailure::from(error))?;
        if replacements() != planned_at {
            continue;
        }
        lookup.feed(&buffer[..read])?;
    }
}

/// What one partition's read comes to.
pub struct Located {
    /// What is to be sent.
    pub range: RecordsRange,
    /// The aborted transactions that a reader of the range has to know, in the order of their markers; none where it reads
    /// uncommitted records too.
    pub aborted: Vec<AbortedTransaction>,
}

impl Located {
    /// Cuts it between batches, so that it has at most `bytes_max`; the first batch stays whole where `whole_first_batch`
    /// says so, however long it is. `None`: it does not fit. Only what was read from a tier elsewhere is cut.
    #[must_use]
    pub fn cut_to(mut self, partition: &Partition, bytes_max: u32, whole_first_batch: bool) -> Option<Self> {
        remote_read::cut_to(partition, &mut self.range, bytes_max, whole_first_batch).then(|| {
            if let Some(next) = self.range.plan.next_hint {
                self.aborted.retain(|aborted| aborted.first_offset < next.offset);
            }
            self
        })
    }

    /// True where it is held in the tier's memory, and can be cut.
    #[must_use]
    pub fn is_of_tier(&self) -> bool {
        matches!(self.range.source, RangeSource::Tier(..))
    }
}

/// As [`locate`], with the aborted transactions that a reader up to the last stable offset has to know.
///
/// # Errors
/// Those of [`locate`]; or an index of transactions could not be read, or is not what it was.
pub async fn locate_with_aborted(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    from: Offset,
    bytes_max: u32,
    whole_first_batch: bool,
    bound: ReadBound,
) -> Result<Option<Located>, ReadFailure> {
    loop {
        let located = locate(shard, partition, from, bytes_max, whole_first_batch, bound).await?;
        let Some(mut range) = located else { return Ok(None) };
        if bound != ReadBound::LastStable {
            return Ok(Some(Located { range, aborted: Vec::new() }));
        }
        if let RangeSource::Tier(bytes, _) = &mut range.source {
            // What is held of the tier's memory is let go while more of it is waited for.
            *bytes = RemoteBytes::default();
        }
        let found = aborted_transactions(shard, partition, &range.plan).await.inspect_err(|failure| {
            warn!(topic = partition.topic(), partition = partition.id().partition, error = %failure, "a transaction index could not be read");
        })?;
        // Where compaction has come between, both are to be found anew.
        let Some(aborted) = found else { continue };
        if let RangeSource::Tier(bytes, span) = &mut range.source {
            let again = Box::pin(remote_read::read_again(shard, partition, span, &range.plan)).await?;
            let Some(again) = again else { continue };
            *bytes = again;
        }
        return Ok(Some(Located { range, aborted }));
    }
}

/// Those that a reader of `range` has to know. Called in the same poll in which the range was located. `None`: compaction
/// has replaced segments meanwhile, and the range is to be located again, for the indexes no longer tell of records that
/// only the replaced files have.
async fn aborted_transactions(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    range: &ReadPlan,
) -> Result<Option<Vec<AbortedTransaction>>, ReadFailure> {
    let mut found = Vec::new();
    if !partition.has_segment(range.segment) {
        // In the tier; its transactions may have been ended in what is here.
        let upper = Box::pin(remote_aborted::collect_remote(shard, partition, range, &mut found)).await?;
        let plan = upper.and_then(|upper| partition.log().borrow().plan_aborted_above(range.start_offset, upper));
        return collect_local(shard, partition, plan, found).await;
    }
    let plan = partition.log().borrow().plan_aborted(range);
    collect_local(shard, partition, plan, found).await
}

async fn collect_local(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    plan: Option<AbortedPlan>,
    mut found: Vec<AbortedTransaction>,
) -> Result<Option<Vec<AbortedTransaction>>, ReadFailure> {
    let replacements = partition.log().borrow().replacements();
    let Some(plan) = plan else { return Ok(Some(found)) };
    for source in plan.sources {
        let goes_on = match source {
            AbortedSource::Memory(entries) => collect(entries, plan.from, plan.upper, &mut found),
            AbortedSource::File { segment, entry_count } => {
                let opened = open(shard, partition, segment, FileKind::TransactionIndex).await;
                if partition.log().borrow().replacements() != replacements {
                    return Ok(None);
                }
                let Some(file) = opened? else { continue };
                let len_bytes = entry_count as usize * TRANSACTION_ENTRY_BYTES;
                let (read, buffer) = file.read_at(shard.io().buffer(len_bytes), 0).await;
                if partition.log().borrow().replacements() != replacements {
                    return Ok(None);
                }
                if read.map_err(|error: io::Error| ReadFailure::from(error))? < len_bytes {
                    return Err(ReadError::Damaged { segment: segment.base_offset(), position_bytes: 0 }.into());
                }
                collect(AbortedTransaction::decode_all(&buffer[..len_bytes]), plan.from, plan.upper, &mut found)
            }
        };
        if !goes_on {
            break;
        }
    }
    Ok(Some(found))
}

/// `None` where the segment was deleted meanwhile: the offset is to be looked up again, and is out of range by then.
async fn open(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    segment: SegmentId,
    kind: FileKind,
) -> io::Result<Option<File>> {
    let opened = if partition.has_segment(segment) {
        shard.files().open(shard.io(), partition.folder(), partition.id(), segment, kind).await.map(Some)
    } else {
        Ok(None)
    };
    if partition.has_segment(segment) {
        return opened;
    }
    // The handle would keep the file's space.
    shard.files().forget_segment(partition.id(), segment);
    Ok(None)
}
