//! How a remote segment's file is cut into the pieces that are read and kept.

use std::ops::Range;

use crate::tier::metadata::RemoteSegmentId;
use crate::tier::store::StoredFile;

/// A part of a remote segment's file that is read in pieces of its own.
#[derive(Clone)]
pub struct PieceSource {
    /// The segment.
    pub segment: RemoteSegmentId,
    /// Its file.
    pub file: StoredFile,
    /// Where the part begins in the file.
    pub begin_bytes: u64,
    /// Where it ends.
    pub end_bytes: u64,
    /// Which part it is.
    pub region: Region,
}

/// Parts of a remote segment's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// The header and the sections before the records: small pieces, kept longer.
    Indexes,
    /// The records.
    Log,
}

impl PieceSource {
    fn piece_bytes(&self) -> u64 {
        match self.region {
            Region::Indexes => INDEX_PIECE_BYTES,
            Region::Log => LOG_PIECE_BYTES,
        }
    }

    /// The piece that has a place of the file.
    pub(in crate::shard) fn number_at(&self, position_bytes: u64) -> u64 {
        position_bytes.saturating_sub(self.begin_bytes) / self.piece_bytes()
    }

    /// The pieces that have a range of the file. `None` where no byte of it is of this part.
    pub(in crate::shard) fn numbers(&self, position_bytes: u64, len_bytes: usize) -> Option<Range<u64>> {
        let end = position_bytes.saturating_add(len_bytes as u64).min(self.end_bytes);
        let is_some = self.begin_bytes <= position_bytes && position_bytes < end;
        is_some.then(|| self.number_at(position_bytes)..self.number_at(end - 1) + 1)
    }

    /// Where a piece begins in the file.
    pub(in crate::shard) fn piece_begin(&self, number: u64) -> u64 {
        self.begin_bytes + number * self.piece_bytes()
    }

    /// Length of `count` pieces from `number` on.
    pub(in crate::shard) fn run_bytes(&self, number: u64, count: usize) -> usize {
        let end = self.piece_begin(number + count as u64).min(self.end_bytes);
        usize::try_from(end.saturating_sub(self.piece_begin(number))).unwrap_or(usize::MAX)
    }

    /// What a read of them holds: the store's client has it as well while it is on its way.
    pub(in crate::shard) fn loading_bytes(&self, number: u64, count: usize) -> usize {
        2 * held_bytes(self.run_bytes(number, count))
    }
}

/// What a buffer of `len_bytes` takes of the core's pool.
pub(in crate::shard) fn held_bytes(len_bytes: usize) -> usize {
    len_bytes.next_power_of_two().max(PAGE_BYTES)
}

/// Where pieces of records begin, for records that begin here: at a whole chunk of HDFS's checksums, so that a read of whole
/// pieces is one of whole packets.
pub(in crate::shard) fn log_pieces_begin(position_bytes: u64) -> u64 {
    position_bytes - position_bytes % CHUNK_BYTES
}

const CHUNK_BYTES: u64 = 512;
const PAGE_BYTES: usize = 4096;
/// As much of a header and indexes as is read at once: 8,000 entries of an offset index.
const INDEX_PIECE_BYTES: u64 = 64 * 1024;
/// Records, as they are kept.
pub(in crate::shard) const LOG_PIECE_BYTES: u64 = 256 * 1024;
/// Neighbours that are read at once for who waits for them: 1 MiB of records.
pub(in crate::shard) const RUN_PIECES_MAX: usize = 4;
/// Neighbours that are read at once ahead of who comes in order: 4 MiB of records, the largest buffer that a core keeps for the
/// next one.
pub(in crate::shard) const AHEAD_RUN_PIECES_MAX: usize = 16;
