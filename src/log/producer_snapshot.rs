//! The bytes of Kafka's `.snapshot`: the producers of a partition at one offset.
//!
//! Version (int16, 1), CRC-32C of all that follows it (uint32), count (int32), then the entries; big-endian, as in Kafka's
//! `ProducerSnapshot.json`. Kafka writes the last batch of each producer. We write up to five entries for one producer,
//! oldest batch first, so that a retry is known again after a restart too: Kafka's reader keeps the last entry of an id.

use thiserror::Error;

use crate::record::batch::crc32c;
use crate::record::offset::{Offset, ProducerId, TimestampMs};

/// One batch of one producer; the last one of an id says what the producer's state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// Who wrote it.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub epoch: i16,
    /// Sequence number of the batch's last record; -1 without a batch.
    pub last_sequence: i32,
    /// Offset of the batch's last record; -1 without a batch.
    pub last_offset: Offset,
    /// Offset of its last record less that of its first.
    pub offset_delta: i32,
    /// Its largest timestamp or log append time.
    pub timestamp: TimestampMs,
    /// Epoch of the coordinator that ended the producer's last transaction; -1 where none did.
    pub coordinator_epoch: i32,
    /// First offset of the transaction that is open; -1 where none is.
    pub transaction_first_offset: Offset,
}

/// Why bytes are no snapshot: an older one, or the log, says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// Shorter than its own header.
    #[error("cut off in its header")]
    Short,
    /// Not version 1.
    #[error("version {0}, expected 1")]
    Version(i16),
    /// Torn, or damaged.
    #[error("its checksum is wrong")]
    Crc,
    /// The count does not agree with the length.
    #[error("{count} entries in {len_bytes} bytes")]
    Count {
        /// What it says.
        count: i32,
        /// Bytes after the count.
        len_bytes: usize,
    },
    /// A number that cannot be.
    #[error("entry {index} cannot be")]
    Entry {
        /// Which one.
        index: usize,
    },
}

/// The bytes of the file.
pub fn to_bytes(entries: impl Iterator<Item = SnapshotEntry>) -> Vec<u8> {
    let mut bytes = vec![0; EMPTY_BYTES];
    let mut count = 0_i32;
    for entry in entries {
        count += 1;
        bytes.extend_from_slice(&entry.producer_id.0.to_be_bytes());
        bytes.extend_from_slice(&entry.epoch.to_be_bytes());
        bytes.extend_from_slice(&entry.last_sequence.to_be_bytes());
        bytes.extend_from_slice(&entry.last_offset.0.to_be_bytes());
        bytes.extend_from_slice(&entry.offset_delta.to_be_bytes());
        bytes.extend_from_slice(&entry.timestamp.0.to_be_bytes());
        bytes.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
        bytes.extend_from_slice(&entry.transaction_first_offset.0.to_be_bytes());
    }
    bytes[..CRC_AT].copy_from_slice(&VERSION.to_be_bytes());
    bytes[COUNT_AT..EMPTY_BYTES].copy_from_slice(&count.to_be_bytes());
    let crc = crc32c(&bytes[COUNT_AT..]);
    bytes[CRC_AT..COUNT_AT].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// Reads them.
///
/// # Errors
/// Where a crash tore the file, or it is something else.
pub fn parse(bytes: &[u8]) -> Result<Vec<SnapshotEntry>, SnapshotError> {
    let mut fields = Fields(bytes);
    let version = fields.take().map(i16::from_be_bytes).ok_or(SnapshotError::Short)?;
    if version != VERSION {
        return Err(SnapshotError::Version(version));
    }
    let crc = fields.take().map(u32::from_be_bytes).ok_or(SnapshotError::Short)?;
    if crc32c(fields.0) != crc {
        return Err(SnapshotError::Crc);
    }
    let count = fields.take().map(i32::from_be_bytes).ok_or(SnapshotError::Short)?;
    let len_bytes = fields.0.len();
    if usize::try_from(count).ok().and_then(|count| count.checked_mul(ENTRY_BYTES)) != Some(len_bytes) {
        return Err(SnapshotError::Count { count, len_bytes });
    }
    let mut entries = Vec::with_capacity(len_bytes / ENTRY_BYTES);
    for (index, bytes) in fields.0.chunks_exact(ENTRY_BYTES).enumerate() {
        entries.push(entry(Fields(bytes)).ok_or(SnapshotError::Entry { index })?);
    }
    Ok(entries)
}

fn entry(mut fields: Fields<'_>) -> Option<SnapshotEntry> {
    let entry = SnapshotEntry {
        producer_id: ProducerId(fields.take().map(i64::from_be_bytes)?),
        epoch: fields.take().map(i16::from_be_bytes)?,
        last_sequence: fields.take().map(i32::from_be_bytes)?,
        last_offset: Offset(fields.take().map(i64::from_be_bytes)?),
        offset_delta: fields.take().map(i32::from_be_bytes)?,
        timestamp: TimestampMs(fields.take().map(i64::from_be_bytes)?),
        coordinator_epoch: fields.take().map(i32::from_be_bytes)?,
        transaction_first_offset: Offset(fields.take().map(i64::from_be_bytes)?),
    };
    let has_batch = entry.last_offset >= Offset::ZERO;
    // A batch's first offset is not below 0; what a group coordinator writes for a producer has no sequence.
    let can_be = entry.producer_id.is_some()
        && (!has_batch || (0..=entry.last_offset.0).contains(&i64::from(entry.offset_delta)))
        && entry.last_sequence >= -1;
    can_be.then_some(entry)
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }
}

const VERSION: i16 = 1;
const CRC_AT: usize = 2;
const COUNT_AT: usize = 6;
/// Length of a snapshot without producers.
pub const EMPTY_BYTES: usize = 10;
/// Length of an entry.
pub const ENTRY_BYTES: usize = 46;
/// A longer file is not read: as many entries as a Kafka broker of this machine's size could have.
pub const SNAPSHOT_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &[u8] = include_bytes!("../../tests/golden/log/golden-log-0/00000000000000000090.snapshot");

    /// A snapshot of a real Kafka 4.4.0, both ways.
    #[test]
    fn kafkas_own_is_read_and_written_alike() {
        let entries = parse(GOLDEN).expect("Kafka's");
        assert_eq!(entries.len(), 6);
        let ids: Vec<i64> = entries.iter().map(|entry| entry.producer_id.0).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
        let last = entries[5];
        assert_eq!((last.epoch, last.last_sequence, last.last_offset, last.offset_delta), (0, 4, Offset(84), 4));
        assert_eq!((last.coordinator_epoch, last.transaction_first_offset), (-1, Offset(-1)));
        assert_eq!(to_bytes(entries.into_iter()), GOLDEN);
        assert_eq!(to_bytes(std::iter::empty()).len(), EMPTY_BYTES);
        assert_eq!(parse(&to_bytes(std::iter::empty())), Ok(Vec::new()));
    }

    #[test]
    fn torn_damaged_and_foreign_ones_are_refused() {
        for len in 0..GOLDEN.len() {
            assert!(parse(&GOLDEN[..len]).is_err(), "cut at {len}");
        }
        for at in 0..GOLDEN.len() {
            let mut bytes = GOLDEN.to_vec();
            bytes[at] ^= 0x10;
            assert!(parse(&bytes).is_err(), "byte {at}");
        }
        assert_eq!(parse(&vec![0; GOLDEN.len()]), Err(SnapshotError::Version(0)));
        let mut longer = GOLDEN.to_vec();
        longer.extend_from_slice(&[0; 46]);
        assert_eq!(parse(&longer), Err(SnapshotError::Crc));
        // With a right checksum too, the count and the numbers have to be ones that can be.
        let sealed = |change: fn(&mut Vec<u8>)| {
            let mut bytes = GOLDEN.to_vec();
            change(&mut bytes);
            let crc = crc32c(&bytes[COUNT_AT..]);
            bytes[CRC_AT..COUNT_AT].copy_from_slice(&crc.to_be_bytes());
            parse(&bytes)
        };
        assert!(matches!(sealed(|bytes| bytes[9] = 7), Err(SnapshotError::Count { count: 7, .. })));
        assert!(matches!(sealed(|bytes| bytes[6] = 0xff), Err(SnapshotError::Count { .. })));
        assert!(matches!(sealed(|bytes| bytes.truncate(60)), Err(SnapshotError::Count { count: 6, .. })));
        assert_eq!(sealed(|bytes| bytes[10] = 0x80), Err(SnapshotError::Entry { index: 0 }), "a negative id");
        assert_eq!(sealed(|bytes| bytes[32] = 0x80), Err(SnapshotError::Entry { index: 0 }), "a negative delta");
        assert!(sealed(|_| {}).is_ok());
    }
}
