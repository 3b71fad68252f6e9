//! Reads a coordinator's partition from its start to its end, in slices, and has the coordinator take it in.

use std::rc::Rc;

use crate::log::plan::ReadBound;
use crate::record::batch::{BatchHeader, parse_header};
use crate::record::coordination::{ReplayError, ReplayedRecord, TransactionalWriter};
use crate::record::offset::Offset;
use crate::record::record_reader::{check_crc, read_records};
use crate::shard::core::Shard;
use crate::shard::error::ReadFailure;
use crate::shard::machine::Machine;
use crate::shard::partition::Partition;
use crate::shard::read;

/// Why a partition was not replayed to its end.
#[derive(Debug)]
pub(in crate::shard) enum ReplayFailure {
    /// It is no longer here.
    Gone,
    /// Its log changed under the reader: begin again.
    Changed,
    /// The disk, or the log, refused.
    Read(ReadFailure),
    /// A batch or a record makes no sense.
    Corrupt {
        /// Where.
        offset: Offset,
        /// What is wrong with it.
        reason: String,
    },
}

impl ReplayFailure {
    fn corrupt(offset: Offset, reason: impl ToString) -> Self {
        Self::Corrupt { offset, reason: reason.to_string() }
    }
}

/// Replays all that is safe now. On return nothing was added behind it. Says how many records there were.
///
/// # Errors
/// The coordinator knows a part only, and is of no use.
pub(in crate::shard) async fn replay<M: Machine>(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    machine: &mut M,
    is_gone: impl Fn() -> bool,
) -> Result<u64, ReplayFailure> {
    let mut replayed = 0;
    let mut next = partition.log().borrow().offsets().log_start;
    loop {
        if is_gone() {
            return Err(ReplayFailure::Gone);
        }
        if next >= partition.high_watermark() {
            return Ok(replayed);
        }
        let range = match read::locate(shard, partition, next, SLICE_BYTES, true, ReadBound::HighWatermark).await {
            Ok(Some(range)) => range,
            // What was below the high watermark a moment ago is not there: nothing to read is not the end.
            Ok(None) => return Err(ReplayFailure::Changed),
            Err(_) if next < partition.log().borrow().offsets().log_start => return Err(ReplayFailure::Changed),
            Err(error) => return Err(ReplayFailure::Read(error)),
        };
        let buffer = range.read(shard.io()).await.map_err(|error| ReplayFailure::Read(error.into()))?;
        let before = next;
        let mut bytes = &buffer[..];
        while let Some(batch) = whole_batch(bytes) {
            let header = check_crc(batch).map_err(|error| ReplayFailure::corrupt(next, error))?;
            if header.base_offset.plus(i64::from(header.last_offset_delta)) >= next {
                replayed += replay_batch(machine, &header, batch)?;
                next = header.base_offset.plus(i64::from(header.last_offset_delta) + 1);
            }
            bytes = &bytes[batch.len()..];
        }
        if next == before {
            return Err(ReplayFailure::corrupt(next, "there is no whole batch"));
        }
        shard.io().yield_now().await;
    }
}

/// The batch that `bytes` begins with, where all of it is there.
fn whole_batch(bytes: &[u8]) -> Option<&[u8]> {
    let header = parse_header(bytes).ok()?;
    bytes.get(..header.len_bytes as usize)
}

fn replay_batch<M: Machine>(machine: &mut M, header: &BatchHeader, batch: &[u8]) -> Result<u64, ReplayFailure> {
    let attributes = header.attributes;
    let is_control = attributes.is_control();
    let writer = attributes.is_transactional().then_some(TransactionalWriter {
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        marker_count: None,
    });
    let mut failed = None;
    let mut count = 0;
    let read = read_records(batch, RECORD_BYTES_MAX, |record| {
        let offset = header.base_offset.plus(i64::from(record.offset_delta));
        count += 1;
        if failed.is_some() {
            return;
        }
        if is_control {
            match control_type(record.key) {
                Some(kind @ (ABORT | COMMIT)) => machine.transaction_ended(header.producer_id, kind == COMMIT),
                _ => tracing::debug!(%offset, "a control record of another kind was passed over"),
            }
            return;
        }
        let Some(key) = record.key else {
            failed = Some(ReplayFailure::corrupt(offset, "a record without a key"));
            return;
        };
        match machine.replay(&ReplayedRecord { offset, writer, key, value: record.value }) {
            Ok(()) => {}
            Err(error @ ReplayError::UnknownType(_)) => {
                // As Kafka: a newer server may have written it.
                tracing::warn!(%offset, %error, "a record of a coordinator's partition was passed over");
            }
            Err(error) => failed = Some(ReplayFailure::corrupt(offset, error)),
        }
    });
    read.map_err(|error| ReplayFailure::corrupt(header.base_offset, error))?;
    failed.map_or(Ok(count), Err)
}

/// The type of a control record: two bytes of version, two of type.
fn control_type(key: Option<&[u8]>) -> Option<i16> {
    let kind = key?.get(2..4)?;
    Some(i16::from_be_bytes([kind[0], kind[1]]))
}

const ABORT: i16 = 0;
const COMMIT: i16 = 1;
/// What is read at a time.
const SLICE_BYTES: u32 = 1024 * 1024;
/// The largest record of a compressed batch; Kafka's own of coordinators are at most a message's size.
const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;
