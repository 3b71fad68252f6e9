//! `alluvium dump` of what a partition knows of producers: snapshots and aborted transactions.

use super::dump_error::DumpError;
use super::dump_sink::{FileDump, Row};
use crate::record::batch::crc32c;
use crate::wire::reader::{DecodeError, Reader};

/// Prints a producer snapshot: version, CRC-32C of what follows, then an entry for each producer.
pub fn dump_snapshot(bytes: &[u8], mut out: FileDump<'_>) -> Result<Option<String>, DumpError> {
    if let Err((position, what)) = snapshot(bytes, &mut out)? {
        out.problem(position, what).map_err(DumpError::Output)?;
    }
    out.end(|row| row).map_err(DumpError::Output)
}

/// Prints a transaction index: an entry for each aborted transaction.
pub fn dump_aborted(bytes: &[u8], limit_from: Option<i64>, mut out: FileDump<'_>) -> Result<Option<String>, DumpError> {
    let mut last_offset_before = -1;
    for (number, entry) in bytes.chunks(ABORTED_ENTRY_BYTES).enumerate() {
        if out.is_full() {
            break;
        }
        let at = (number * ABORTED_ENTRY_BYTES) as u64;
        match aborted_entry(entry) {
            Ok((version, row, last_offset)) => {
                if limit_from.is_some_and(|from| last_offset < from) {
                    continue;
                }
                out.entry(&row).map_err(DumpError::Output)?;
                if version != 0 {
                    out.problem(at, format!("version {version} is unknown")).map_err(DumpError::Output)?;
                }
                if last_offset <= last_offset_before {
                    out.problem(at, "its last offset does not rise").map_err(DumpError::Output)?;
                }
                last_offset_before = last_offset;
            }
            Err(_) => out.problem(at, "the last entry is cut short").map_err(DumpError::Output)?,
        }
    }
    out.end(|row| row).map_err(DumpError::Output)
}

type Problem = (u64, String);

fn snapshot(bytes: &[u8], out: &mut FileDump<'_>) -> Result<Result<(), Problem>, DumpError> {
    let mut reader = Reader::new(bytes);
    let head = (|| Ok::<_, DecodeError>((reader.int16("version")?, reader.int32("crc")?, reader.int32("count")?)))();
    let Ok((version, crc, count)) = head else {
        return Ok(Err((0, format!("{} bytes are fewer than a snapshot's head has", bytes.len()))));
    };
    let actual = crc32c(bytes.get(CRC_COVERS_FROM..).unwrap_or_default());
    let crc_ok = crc.cast_unsigned() == actual;
    let row = Row::new("snapshot").with("version", version).with("producers", count).with("crc_ok", crc_ok);
    out.row(&row).map_err(DumpError::Output)?;
    if version != SNAPSHOT_VERSION {
        return Ok(Err((0, format!("version {version} is unknown; version {SNAPSHOT_VERSION} is"))));
    }
    let expected = i64::from(count) * SNAPSHOT_ENTRY_BYTES + SNAPSHOT_HEAD_BYTES;
    for _ in 0..count {
        if out.is_full() {
            break;
        }
        let at = reader.position_bytes() as u64;
        let Ok(row) = snapshot_entry(&mut reader) else {
            return Ok(Err((at, format!("{count} producers are announced, and the file ends here"))));
        };
        out.entry(&row).map_err(DumpError::Output)?;
    }
    if expected != bytes.len() as i64 {
        let what = format!("{count} producers take {expected} bytes, and the file has {}", bytes.len());
        return Ok(Err((u64::try_from(expected).unwrap_or(0).min(bytes.len() as u64), what)));
    }
    if !crc_ok {
        let what = format!("the CRC is {crc:08x} and should be {actual:08x}: its bytes are not those written");
        return Ok(Err((2, what)));
    }
    Ok(Ok(()))
}

fn snapshot_entry(reader: &mut Reader<'_>) -> Result<Row, DecodeError> {
    let producer_id = reader.int64("producer_id")?;
    let epoch = reader.int16("producer_epoch")?;
    let last_sequence = reader.int32("last_sequence")?;
    let last_offset = reader.int64("last_offset")?;
    let offset_delta = reader.int32("offset_delta")?;
    let timestamp = reader.int64("timestamp")?;
    let coordinator_epoch = reader.int32("coordinator_epoch")?;
    let transaction = reader.int64("current_transaction_first_offset")?;
    Ok(Row::new("producer")
        .with("producer_id", producer_id)
        .with("producer_epoch", epoch)
        .with("last_sequence", last_sequence)
        .with("last_offset", last_offset)
        .with("offset_delta", offset_delta)
        .with("timestamp", timestamp)
        .with("coordinator_epoch", coordinator_epoch)
        .with("current_transaction_first_offset", transaction))
}

fn aborted_entry(entry: &[u8]) -> Result<(i16, Row, i64), DecodeError> {
    let mut reader = Reader::new(entry);
    let version = reader.int16("version")?;
    let producer_id = reader.int64("producer_id")?;
    let first_offset = reader.int64("first_offset")?;
    let last_offset = reader.int64("last_offset")?;
    let last_stable_offset = reader.int64("last_stable_offset")?;
    let row = Row::new("aborted")
        .with("producer_id", producer_id)
        .with("first_offset", first_offset)
        .with("last_offset", last_offset)
        .with("last_stable_offset", last_stable_offset);
    Ok((version, row, last_offset))
}

const SNAPSHOT_VERSION: i16 = 1;
/// Behind version and CRC.
const CRC_COVERS_FROM: usize = 6;
const SNAPSHOT_HEAD_BYTES: i64 = 10;
const SNAPSHOT_ENTRY_BYTES: i64 = 46;
const ABORTED_ENTRY_BYTES: usize = 34;
