//! The batches of one sealed segment, one after the other, checked.

use crate::log::plan::SegmentId;
use crate::log::segment::Segment;
use crate::record::batch::{BatchHeader, CRC_COVERS_FROM, Crc32c, HEADER_BYTES, parse_header};
use crate::record::batch_error::BatchError;
use crate::record::compression::Compression;
use crate::record::offset::Offset;
use crate::record::unpack::Unpacker;
use crate::ring::buffer::Buffer;
use crate::ring::io::File;
use crate::shard::clean_turns::{CleaningTurns, SLICE_BYTES};
use crate::shard::error::CleanFailure;
use crate::shard::files::FileKind;

/// A walk over a segment that is not appended to. In memory there is one piece of it, as long as its longest batch.
pub(in crate::shard) struct SegmentBatches {
    segment: SegmentId,
    file: File,
    size_bytes: u64,
    /// Where the next batch begins, and the least offset that it may have.
    position_bytes: u64,
    next_offset: Offset,
    buffer: Buffer,
    buffer_at: u64,
    piece_bytes: usize,
    /// Where the batch at hand lies in the buffer.
    batch: std::ops::Range<usize>,
    checks_crc: bool,
}

impl SegmentBatches {
    /// Opens a segment. `checks_crc`: of every batch; a second walk over it may do without.
    pub(in crate::shard) async fn open(
        turns: &CleaningTurns,
        segment: SegmentId,
        checks_crc: bool,
    ) -> Result<Self, CleanFailure> {
        let (shard, partition) = (turns.shard(), turns.partition());
        let size_bytes = {
            let log = partition.log().borrow();
            let at = log.segments().binary_search_by_key(&segment, Segment::id).map_err(|_| CleanFailure::Stopped)?;
            log.segments()[at].size_bytes()
        };
        let opened = shard.files().open(shard.io(), partition.folder(), partition.id(), segment, FileKind::Log).await;
        if !partition.has_segment(segment) {
            // Deleted meanwhile; the handle would keep the file's space.
            shard.files().forget_segment(partition.id(), segment);
            return Err(CleanFailure::Stopped);
        }
        let file = opened.map_err(|source| CleanFailure::Unreadable { segment, position_bytes: 0, source })?;
        let config = &shard.options().broker_config;
        let share = config.log_cleaner_io_buffer_size() / shard.options().core_count.max(1) / 2;
        Ok(Self {
            segment,
            file,
            size_bytes,
            position_bytes: 0,
            next_offset: segment.0,
            buffer: Buffer::zeroed(0),
            buffer_at: 0,
            piece_bytes: (share as usize).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX),
            batch: 0..0,
            checks_crc,
        })
    }

    /// Goes to the next batch; `None` at the end.
    pub(in crate::shard) async fn next(
        &mut self,
        turns: &mut CleaningTurns,
    ) -> Result<Option<BatchHeader>, CleanFailure> {
        if self.position_bytes == self.size_bytes {
            return Ok(None);
        }
        let left_bytes = self.size_bytes - self.position_bytes;
        let head = self.bytes(turns, HEADER_BYTES.min(usize::try_from(left_bytes).unwrap_or(usize::MAX))).await?;
        let header = parse_header(head).map_err(|what| self.damaged(what))?;
        if u64::from(header.len_bytes) > left_bytes
            || header.last_offset_delta < 0
            || header.record_count < 0
            || header.base_offset < self.next_offset
        {
            return Err(self.damaged(BatchError::Invalid(crate::record::batch_error::Invalidity::Count)));
        }
        let len_bytes = header.len_bytes as usize;
        self.bytes(turns, len_bytes).await?;
        if self.checks_crc {
            let mut crc = Crc32c::new();
            for piece in self.batch().get(CRC_COVERS_FROM..).unwrap_or_default().chunks(CRC_PIECE_BYTES) {
                crc.update(piece);
                turns.work(piece.len() / CRC_BYTES_A_WORK_BYTE).await;
            }
            if crc.value() != header.crc {
                return Err(self.damaged(BatchError::Corrupt(crate::record::batch_error::Corruption::Crc)));
            }
        }
        self.position_bytes += u64::from(header.len_bytes);
        self.next_offset = header.last_offset().plus(1);
        Ok(Some(header))
    }

    /// The bytes of the batch at hand.
    pub(in crate::shard) fn batch(&self) -> &[u8] {
        self.buffer.get(self.batch.clone()).unwrap_or_default()
    }

    /// True where no batch follows.
    pub(in crate::shard) fn is_at_end(&self) -> bool {
        self.position_bytes == self.size_bytes
    }

    /// What is wrong with the batch at hand.
    pub(in crate::shard) fn damaged(&self, what: BatchError) -> CleanFailure {
        CleanFailure::Damaged {
            segment: self.segment,
            offset: self.next_offset,
            position_bytes: self.position_bytes,
            what,
        }
    }

    /// The first `len` bytes of the next batch, read where they are not there yet.
    async fn bytes(&mut self, turns: &mut CleaningTurns, len: usize) -> Result<&[u8], CleanFailure> {
        let mut start = usize::try_from(self.position_bytes - self.buffer_at).unwrap_or(usize::MAX);
        if self.buffer.len() < start.saturating_add(len) {
            let left_bytes = usize::try_from(self.size_bytes - self.position_bytes).unwrap_or(usize::MAX);
            let wanted = self.piece_bytes.max(len).min(left_bytes);
            let (read, mut buffer) = self.file.read_at(turns.io().buffer(wanted), self.position_bytes).await;
            let (segment, position_bytes) = (self.segment, self.position_bytes);
            let unreadable = |source| CleanFailure::Unreadable { segment, position_bytes, source };
            let read = read.map_err(unreadable)?;
            if read < wanted {
                return Err(unreadable(std::io::ErrorKind::UnexpectedEof.into()));
            }
            buffer.truncate(read);
            self.buffer = buffer;
            self.buffer_at = self.position_bytes;
            start = 0;
            turns.pay(read).await?;
        }
        self.batch = start..start + len;
        Ok(&self.buffer[self.batch.clone()])
    }
}

/// The plain records of a batch: in place, or unpacked into `scratch`.
pub(in crate::shard) async fn plain_records<'a>(
    turns: &mut CleaningTurns,
    header: &BatchHeader,
    batch: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], BatchError> {
    let body = batch.get(HEADER_BYTES..).unwrap_or_default();
    let compression = header.attributes.compression().ok_or(BatchError::Undecodable)?;
    if compression == Compression::None || header.record_count == 0 {
        return Ok(body);
    }
    let mut unpacker = Unpacker::begin(compression, std::mem::take(scratch), PLAIN_BYTES_MAX)?;
    while unpacker.step(body, SLICE_BYTES)? {
        turns.work(SLICE_BYTES).await;
    }
    *scratch = unpacker.finish();
    turns.work(scratch.len() % SLICE_BYTES).await;
    Ok(scratch)
}

/// Kafka's buffers begin at this size, and grow to a batch's.
const PIECE_BYTES_MIN: usize = 64 * 1024;
const PIECE_BYTES_MAX: usize = 4 << 20;
const CRC_PIECE_BYTES: usize = 1 << 20;
/// A CRC is so much faster than what else is done with a byte.
const CRC_BYTES_A_WORK_BYTE: usize = 32;
/// A batch that unpacks to more would take the core's memory from its requests; the largest that clients make by
/// themselves are a hundredth of this.
const PLAIN_BYTES_MAX: usize = 256 << 20;
