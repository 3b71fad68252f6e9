//! Recompression on a core: a few batches at a time, in slices, with memory taken from the core's share.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use crate::record::batch::BatchHeader;
use crate::record::batch_error::BatchError;
use crate::record::check::CheckedBatch;
use crate::record::compressor::Codec;
use crate::record::recompress::{Recompressed, Recompressor};
use crate::ring::buffer::Buffer;
use crate::ring::io::Io;
use crate::ring::task::WaitList;
use crate::shard::core::Shard;
use crate::shard::memory::Reservation;

/// A batch in the codec of its topic.
pub struct RecompressedBatch {
    /// Its bytes.
    pub records: Buffer,
    /// What an append needs to know of it.
    pub checked: CheckedBatch,
    /// For what it is longer than it came; kept until its request is answered.
    pub reserved: Vec<Reservation>,
}

/// Why a batch was not compressed anew.
#[derive(Debug, thiserror::Error)]
pub enum RecompressionFailure {
    /// It is too large in its new codec, or its records make no sense.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// It grows by more than the core has memory for now: a later try may find some.
    #[error("the core has no memory now for the batch in the codec of its topic; try again")]
    NoMemory,
}

/// What is needed to compress a checked batch anew.
pub struct Recompression<'a> {
    /// The header as it came.
    pub header: &'a BatchHeader,
    /// What the check found.
    pub checked: &'a CheckedBatch,
    /// The codec that the topic asks for.
    pub codec: Codec,
    /// Length of the records before compression.
    pub records_bytes: u64,
    /// `max.message.bytes`, which the outcome must keep.
    pub batch_bytes_max: u32,
}

/// Compresses a checked batch anew. Others have their turn between its slices; the order of appends is the caller's.
///
/// # Errors
/// Nothing was changed.
pub async fn recompress(
    shard: &Shard,
    records: Buffer,
    wanted: Recompression<'_>,
) -> Result<RecompressedBatch, RecompressionFailure> {
    let Recompression { header, checked, codec, records_bytes, batch_bytes_max } = wanted;
    let _slot = shard.recompressions().take(shard.io()).await;
    let mut recompressor = Recompressor::begin(header, checked, codec, records_bytes, batch_bytes_max)?;
    let mut reserved = Vec::new();
    // The frame has reserved as much as the batch is long.
    let mut covered_bytes = records.len();
    while recompressor.step(&records, BYTES_A_TURN)? == Recompressed::More {
        cover(shard, recompressor.output_bytes(), &mut covered_bytes, &mut reserved)?;
        shard.io().yield_now().await;
    }
    let (bytes, checked) = recompressor.finish()?;
    cover(shard, bytes.len(), &mut covered_bytes, &mut reserved)?;
    Ok(RecompressedBatch { records: Buffer::from_vec(bytes), checked, reserved })
}

/// Reserves memory ahead of the output, where that grows past what is covered.
fn cover(
    shard: &Shard,
    output_bytes: usize,
    covered_bytes: &mut usize,
    reserved: &mut Vec<Reservation>,
) -> Result<(), RecompressionFailure> {
    if output_bytes > *covered_bytes {
        let more_bytes = (output_bytes - *covered_bytes).max(RESERVED_AT_ONCE_BYTES);
        let reservation = shard.memory().try_reserve(shard.io(), more_bytes);
        reserved.push(reservation.ok_or(RecompressionFailure::NoMemory)?);
        *covered_bytes += more_bytes;
    }
    Ok(())
}

/// Recompressions of one core that may be under way: each has a compressor's tables.
pub struct RecompressionSlots {
    free: Cell<usize>,
    waiting: WaitList,
}

impl Default for RecompressionSlots {
    fn default() -> Self {
        Self { free: Cell::new(AT_ONCE_MAX), waiting: WaitList::default() }
    }
}

impl RecompressionSlots {
    async fn take(self: &Rc<Self>, io: &Io) -> RecompressionSlot {
        poll_fn(|_| {
            if self.free.get() > 0 {
                self.free.set(self.free.get() - 1);
                return Poll::Ready(());
            }
            self.waiting.wait(io.current_task());
            Poll::Pending
        })
        .await;
        RecompressionSlot { io: io.clone(), slots: self.clone() }
    }
}

/// Leave for one recompression; given back when dropped.
struct RecompressionSlot {
    io: Io,
    slots: Rc<RecompressionSlots>,
}

impl Drop for RecompressionSlot {
    fn drop(&mut self) {
        self.slots.free.set(self.slots.free.get() + 1);
        self.io.wake_all(&self.slots.waiting);
    }
}

/// A slice takes half a millisecond with gzip, the slowest at usual levels.
const BYTES_A_TURN: usize = 16 * 1024;
const RESERVED_AT_ONCE_BYTES: usize = 64 * 1024;
const AT_ONCE_MAX: usize = 4;
