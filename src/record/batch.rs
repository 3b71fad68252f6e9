//! Record batch v2: its header in place, its CRC, its stamps.
//!
//! Format: Kafka's "Record Batch" (KIP-98, magic 2), big-endian. The CRC-32C covers everything from the attributes to
//! the end, so base offset and leader epoch can be stamped by the broker without touching it; a stamp of log append
//! time changes attributes and max timestamp, and makes the CRC anew.

use crc_fast::{CrcAlgorithm, Digest};

use crate::record::batch_error::{BatchError, Corruption, Invalidity};
use crate::record::compression::Compression;
use crate::record::offset::{LeaderEpoch, Offset, ProducerId, TimestampMs};

/// The fields of a batch's header, all but the CRC's truth checked by nobody yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Length of the whole batch, with base offset and length field.
    pub len_bytes: u32,
    /// Epoch of the leader that appended it.
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C from the attributes to the end.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: Attributes,
    /// Offset of the last record, less the base offset.
    pub last_offset_delta: i32,
    /// Timestamp that the records' deltas count from.
    pub base_timestamp: TimestampMs,
    /// Largest timestamp, or the log append time.
    pub max_timestamp: TimestampMs,
    /// Who wrote it.
    pub producer_id: ProducerId,
    /// How often that producer was initialised.
    pub producer_epoch: i16,
    /// Sequence number of the first record.
    pub base_sequence: i32,
    /// Records within.
    pub record_count: i32,
}

impl BatchHeader {
    /// Offset of the last record.
    pub fn last_offset(&self) -> Offset {
        self.base_offset.plus(i64::from(self.last_offset_delta))
    }

    /// Sequence number of the last record; sequences wrap from 2^31-1 to 0.
    pub fn last_sequence(&self) -> i32 {
        sequence_after(self.base_sequence, self.last_offset_delta)
    }
}

/// The attributes of a batch: bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    /// The codec; `None` for the bits 5 to 7, which no Kafka knows.
    pub fn compression(self) -> Option<Compression> {
        Compression::from_bits(self.0 & COMPRESSION_BITS)
    }

    /// Max timestamp is the broker's time of the append, for all records.
    pub fn is_log_append_time(self) -> bool {
        self.0 & LOG_APPEND_TIME_BIT != 0
    }

    /// Part of a transaction.
    pub fn is_transactional(self) -> bool {
        self.0 & TRANSACTIONAL_BIT != 0
    }

    /// Holds a marker (commit, abort) instead of records.
    pub fn is_control(self) -> bool {
        self.0 & CONTROL_BIT != 0
    }

    /// Base timestamp is the time when tombstones may go (KIP-534).
    pub fn has_delete_horizon(self) -> bool {
        self.0 & DELETE_HORIZON_BIT != 0
    }
}

/// The length of the batch that `bytes` begins with, from its first [`LEN_PREFIX_BYTES`].
///
/// # Errors
/// `Invalid(NoBatch)` where `bytes` is shorter, `Corrupt(Length)` where the field is too small for a batch.
pub fn batch_len_bytes(bytes: &[u8]) -> Result<u32, BatchError> {
    let Some(length) = i32_at(bytes, BATCH_LENGTH_AT) else {
        return Err(Invalidity::NoBatch.into());
    };
    match u32::try_from(length) {
        Ok(length) if length as usize + LEN_PREFIX_BYTES >= HEADER_BYTES => Ok(length + LEN_PREFIX_BYTES as u32),
        _ => Err(Corruption::Length.into()),
    }
}

/// Reads the header that `bytes` begins with; the batch itself may reach beyond them. The CRC is not checked.
///
/// # Errors
/// `Invalid(NoBatch)` where `bytes` is shorter than a header, `Corrupt` where length or magic cannot be right,
/// `Invalid(OldMagic)` for formats before v2.
pub fn parse_header(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(Invalidity::NoBatch.into());
    };
    let len_bytes = batch_len_bytes(header)?;
    match header[MAGIC_AT] {
        MAGIC_V2 => {}
        0 | 1 => return Err(Invalidity::OldMagic.into()),
        _ => return Err(Corruption::Magic.into()),
    }
    Ok(BatchHeader {
        base_offset: Offset(i64_in(header, BASE_OFFSET_AT)),
        len_bytes,
        leader_epoch: LeaderEpoch(i32_in(header, LEADER_EPOCH_AT)),
        crc: i32_in(header, CRC_AT).cast_unsigned(),
        attributes: Attributes(i16_in(header, ATTRIBUTES_AT)),
        last_offset_delta: i32_in(header, LAST_OFFSET_DELTA_AT),
        base_timestamp: TimestampMs(i64_in(header, BASE_TIMESTAMP_AT)),
        max_timestamp: TimestampMs(i64_in(header, MAX_TIMESTAMP_AT)),
        producer_id: ProducerId(i64_in(header, PRODUCER_ID_AT)),
        producer_epoch: i16_in(header, PRODUCER_EPOCH_AT),
        base_sequence: i32_in(header, BASE_SEQUENCE_AT),
        record_count: i32_in(header, RECORD_COUNT_AT),
    })
}

/// CRC-32C, fed in pieces.
pub struct Crc32c {
    digest: Digest,
}

impl Crc32c {
    /// Of no bytes yet.
    pub fn new() -> Self {
        Self { digest: Digest::new(CrcAlgorithm::Crc32Iscsi) }
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// The CRC of all bytes so far.
    #[allow(clippy::cast_possible_truncation)] // a 32-bit algorithm fills the low half
    pub fn value(&self) -> u32 {
        self.digest.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Writes base offset and leader epoch into the header of `batch`; the CRC does not cover them.
///
/// # Panics
/// Where `batch` is shorter than a header: only checked batches are stamped.
pub fn stamp(batch: &mut [u8], base_offset: Offset, leader_epoch: LeaderEpoch) {
    assert!(batch.len() >= HEADER_BYTES, "a checked batch has a header, not {} bytes", batch.len());
    put(batch, BASE_OFFSET_AT, base_offset.0.to_be_bytes());
    put(batch, LEADER_EPOCH_AT, leader_epoch.0.to_be_bytes());
}

/// Writes time type and max timestamp as Kafka's broker does at an append, and the CRC anew where either changed.
/// `batch` is the whole batch and nothing else. Costs a pass over the bytes where something changed.
///
/// # Panics
/// Where `batch` is shorter than a header: only checked batches are stamped.
pub fn stamp_timestamp(batch: &mut [u8], log_append_time: bool, max_timestamp: TimestampMs) {
    assert!(batch.len() >= HEADER_BYTES, "a checked batch has a header, not {} bytes", batch.len());
    let old = i16_at(batch, ATTRIBUTES_AT).unwrap_or_default();
    let old_max = i64_at(batch, MAX_TIMESTAMP_AT).unwrap_or_default();
    if Attributes(old).is_log_append_time() == log_append_time && old_max == max_timestamp.0 {
        return;
    }
    // As Kafka does, unknown bits are not kept.
    let kept = old & (COMPRESSION_BITS | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT);
    let new = if log_append_time { kept | LOG_APPEND_TIME_BIT } else { kept };
    put(batch, ATTRIBUTES_AT, new.to_be_bytes());
    put(batch, MAX_TIMESTAMP_AT, max_timestamp.0.to_be_bytes());
    stamp_crc(batch);
}

/// Writes the CRC of the rest into the header of `batch`, which is the whole batch and nothing else.
///
/// # Panics
/// Where `batch` is shorter than a header.
pub fn stamp_crc(batch: &mut [u8]) {
    assert!(batch.len() >= HEADER_BYTES, "a batch has a header, not {} bytes", batch.len());
    let crc = crc32c(&batch[CRC_COVERS_FROM..]);
    put(batch, CRC_AT, crc.to_be_bytes());
}

/// The sequence number `count` after `sequence`: they wrap from 2^31-1 to 0.
pub fn sequence_after(sequence: i32, count: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(count);
    i32::try_from(if sum > i64::from(i32::MAX) { sum - i64::from(i32::MAX) - 1 } else { sum }).unwrap_or(i32::MAX)
}

fn put<const N: usize>(batch: &mut [u8], at: usize, bytes: [u8; N]) {
    batch[at..at + N].copy_from_slice(&bytes);
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

pub(in crate::record) fn i16_at(bytes: &[u8], at: usize) -> Option<i16> {
    array_at(bytes, at).map(i16::from_be_bytes)
}

pub(in crate::record) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array_at(bytes, at).map(i32::from_be_bytes)
}

pub(in crate::record) fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    array_at(bytes, at).map(i64::from_be_bytes)
}

// Of a whole header: the offsets are constants below its length, so the default is never taken.
fn i16_in(header: &[u8; HEADER_BYTES], at: usize) -> i16 {
    i16_at(header, at).unwrap_or_default()
}

fn i32_in(header: &[u8; HEADER_BYTES], at: usize) -> i32 {
    i32_at(header, at).unwrap_or_default()
}

fn i64_in(header: &[u8; HEADER_BYTES], at: usize) -> i64 {
    i64_at(header, at).unwrap_or_default()
}

/// Where each field begins.
pub const BASE_OFFSET_AT: usize = 0;
/// Bytes after this field: the length of the batch less [`LEN_PREFIX_BYTES`].
pub const BATCH_LENGTH_AT: usize = BASE_OFFSET_AT + 8;
/// Partition leader epoch.
pub const LEADER_EPOCH_AT: usize = BATCH_LENGTH_AT + 4;
/// Format version.
pub const MAGIC_AT: usize = LEADER_EPOCH_AT + 4;
/// CRC-32C of all that follows it.
pub const CRC_AT: usize = MAGIC_AT + 1;
/// Codec and flags.
pub const ATTRIBUTES_AT: usize = CRC_AT + 4;
/// Last offset less base offset.
pub const LAST_OFFSET_DELTA_AT: usize = ATTRIBUTES_AT + 2;
/// Base of the records' timestamps.
pub const BASE_TIMESTAMP_AT: usize = LAST_OFFSET_DELTA_AT + 4;
/// Largest timestamp.
pub const MAX_TIMESTAMP_AT: usize = BASE_TIMESTAMP_AT + 8;
/// Producer id.
pub const PRODUCER_ID_AT: usize = MAX_TIMESTAMP_AT + 8;
/// Producer epoch.
pub const PRODUCER_EPOCH_AT: usize = PRODUCER_ID_AT + 8;
/// Sequence of the first record.
pub const BASE_SEQUENCE_AT: usize = PRODUCER_EPOCH_AT + 2;
/// Number of records.
pub const RECORD_COUNT_AT: usize = BASE_SEQUENCE_AT + 4;
/// Length of the header; the records follow.
pub const HEADER_BYTES: usize = RECORD_COUNT_AT + 4;
/// Base offset and length field: what must be there to know a batch's length.
pub const LEN_PREFIX_BYTES: usize = BATCH_LENGTH_AT + 4;
/// The CRC covers from here to the end of the batch.
pub const CRC_COVERS_FROM: usize = ATTRIBUTES_AT;
/// The only format written and read.
pub const MAGIC_V2: u8 = 2;

/// Codec.
pub const COMPRESSION_BITS: i16 = 0b111;
/// Timestamps are log append times.
pub const LOG_APPEND_TIME_BIT: i16 = 1 << 3;
/// In a transaction.
pub const TRANSACTIONAL_BIT: i16 = 1 << 4;
/// A marker.
pub const CONTROL_BIT: i16 = 1 << 5;
/// Base timestamp is a delete horizon.
pub const DELETE_HORIZON_BIT: i16 = 1 << 6;

const _: () = assert!(HEADER_BYTES == 61);
const _: () = assert!(CRC_COVERS_FROM == CRC_AT + 4);
