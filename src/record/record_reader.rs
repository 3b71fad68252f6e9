//! Every record of a batch in turn, whatever its codec: for the command line.

use crate::record::batch::{BatchHeader, CRC_COVERS_FROM, HEADER_BYTES, crc32c, parse_header};
use crate::record::batch_error::{BatchError, Corruption, Invalidity};
use crate::record::compression::Compression;
use crate::record::decompress::Decompressor;
use crate::record::record_fields::{Record, VARINT_BYTES_MAX, varint};

/// Calls `each` with every record of the batch that `batch` begins with, in order, decompressed piece by piece. In memory
/// there is at most one piece, and one record that several pieces make up; that has `record_bytes_max` bytes at most.
///
/// The CRC is not checked here ([`check_crc`] does). Offsets and timestamps are the caller's to judge.
///
/// # Errors
/// Where the batch is not whole, its codec fails, a record is malformed, or there are more or fewer than the header says.
/// `each` was called for the records before that.
pub fn read_records(
    batch: &[u8],
    record_bytes_max: usize,
    mut each: impl FnMut(&Record<'_>),
) -> Result<BatchHeader, BatchError> {
    let header = parse_header(batch)?;
    let body = batch.get(HEADER_BYTES..header.len_bytes as usize).ok_or(Invalidity::NoBatch)?;
    let compression = header.attributes.compression().ok_or(BatchError::Undecodable)?;
    let mut left = header.record_count;
    if compression == Compression::None {
        if !take_whole(body, &mut left, &mut each)?.is_empty() {
            return Err(Invalidity::Record.into());
        }
    } else {
        let mut decompressor = Decompressor::new(compression)?;
        let mut cut = Vec::new();
        let mut sink = |piece: &[u8]| take_piece(&mut cut, piece, record_bytes_max, &mut left, &mut each);
        let mut at = 0;
        loop {
            let (used_bytes, made_bytes) = decompressor.step(&body[at..], &mut sink)?;
            at += used_bytes;
            if used_bytes == 0 && made_bytes == 0 {
                break;
            }
        }
        if at < body.len() {
            return Err(BatchError::Undecodable);
        }
        decompressor.finish(&mut sink)?;
        if !cut.is_empty() {
            return Err(Invalidity::Record.into());
        }
    }
    if left != 0 {
        return Err(Invalidity::Record.into());
    }
    Ok(header)
}

/// Checks the CRC of the batch that `batch` begins with.
///
/// # Errors
/// Where the batch is not whole, or the CRC does not agree.
pub fn check_crc(batch: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = parse_header(batch)?;
    let covered = batch.get(CRC_COVERS_FROM..header.len_bytes as usize).ok_or(Invalidity::NoBatch)?;
    if crc32c(covered) != header.crc {
        return Err(Corruption::Crc.into());
    }
    Ok(header)
}

/// The next piece of a stream of records; `cut` holds a record that is not whole yet.
fn take_piece(
    cut: &mut Vec<u8>,
    mut piece: &[u8],
    record_bytes_max: usize,
    left: &mut i32,
    each: &mut impl FnMut(&Record<'_>),
) -> Result<(), BatchError> {
    while !cut.is_empty() && !piece.is_empty() {
        // Only as much as finishes this record, so that the rest is read where it lies.
        let missing = match record_len_bytes(cut)? {
            Some(len_bytes) if len_bytes > record_bytes_max => return Err(Invalidity::Record.into()),
            Some(len_bytes) => len_bytes.saturating_sub(cut.len()),
            None => 1,
        };
        let (taken, rest) = piece.split_at(missing.min(piece.len()));
        cut.extend_from_slice(taken);
        piece = rest;
        if record_len_bytes(cut)?.is_some_and(|len_bytes| cut.len() >= len_bytes) {
            take_whole(cut, left, each)?;
            cut.clear();
        }
    }
    let rest = take_whole(piece, left, each)?;
    cut.extend_from_slice(rest);
    Ok(())
}

/// Takes all whole records from the front; returns what is left of the last one.
fn take_whole<'a>(
    mut bytes: &'a [u8],
    left: &mut i32,
    each: &mut impl FnMut(&Record<'_>),
) -> Result<&'a [u8], BatchError> {
    while !bytes.is_empty() {
        if *left <= 0 {
            return Err(Invalidity::Record.into());
        }
        match record_len_bytes(bytes)? {
            Some(len_bytes) if len_bytes <= bytes.len() => {
                let (record, len_bytes) = Record::parse(bytes)?;
                each(&record);
                *left -= 1;
                bytes = &bytes[len_bytes..];
            }
            _ => break,
        }
    }
    Ok(bytes)
}

/// Length of the record that begins here, its length field included; `None` where that field is not whole.
fn record_len_bytes(bytes: &[u8]) -> Result<Option<usize>, BatchError> {
    let mut at = 0;
    match varint(bytes, &mut at) {
        Some(body_bytes) => match usize::try_from(body_bytes) {
            Ok(body_bytes) => Ok(Some(at + body_bytes)),
            Err(_) => Err(Invalidity::Record.into()),
        },
        None if bytes.len() >= VARINT_BYTES_MAX => Err(Invalidity::Record.into()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::builder::BatchBuilder;

    type Read = (i32, i64, Option<Vec<u8>>, Option<Vec<u8>>, usize);

    fn batch(codec: Compression, count: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new().compression(codec);
        for number in 0..count {
            let value: Vec<u8> = (0..number * 37 % 5000).map(|at| (at * number % 253) as u8).collect();
            let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", Some(b"v")), (b"", None)];
            match number % 3 {
                0 => builder.add(5 + number as i64, None, Some(&value)),
                1 => builder.add(5, Some(&[number as u8; 3]), None),
                _ => builder.add_with_headers(1, Some(b""), Some(&value), &headers),
            }
        }
        builder.build().expect("the codecs work")
    }

    fn read(bytes: &[u8], record_bytes_max: usize) -> (Vec<Read>, Result<BatchHeader, BatchError>) {
        let mut records: Vec<Read> = Vec::new();
        let owned = |field: Option<&[u8]>| field.map(<[u8]>::to_vec);
        let end = read_records(bytes, record_bytes_max, |record| {
            let headers = record.headers().count();
            let (key, value) = (owned(record.key), owned(record.value));
            records.push((record.offset_delta, record.timestamp_delta_ms, key, value, headers));
        });
        (records, end)
    }

    #[test]
    fn every_codec_gives_the_same_records() {
        for count in [1, 2, 300, 2000] {
            let (plain, end) = read(&batch(Compression::None, count), usize::MAX);
            end.unwrap_or_else(|error| panic!("{count}: {error}"));
            assert_eq!(plain.len(), count);
            for codec in Compression::ALL {
                let bytes = batch(codec, count);
                check_crc(&bytes).unwrap_or_else(|error| panic!("{codec:?}: {error}"));
                let (records, end) = read(&bytes, 6000);
                end.unwrap_or_else(|error| panic!("{count} {codec:?}: {error}"));
                assert_eq!(records, plain, "{count} {codec:?}");
            }
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        for codec in Compression::ALL {
            let bytes = batch(codec, 60);
            for at in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                let (records, _) = read(&flipped, 1 << 20);
                assert!(records.len() <= 1 << 20, "{codec:?}, byte {at}");
                let crc = check_crc(&flipped);
                assert_eq!(crc.is_err(), !(0..8).contains(&at) && !(12..16).contains(&at), "{codec:?}, byte {at}");
            }
            for cut in 0..bytes.len() {
                assert!(read(&bytes[..cut], 1 << 20).1.is_err(), "{codec:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn more_or_fewer_records_than_said_is_an_error() {
        for codec in Compression::ALL {
            for count in [0_i32, 9, 11, -1, i32::MAX] {
                let mut bytes = batch(codec, 10);
                bytes[crate::record::batch::RECORD_COUNT_AT..HEADER_BYTES].copy_from_slice(&count.to_be_bytes());
                assert!(read(&bytes, usize::MAX).1.is_err(), "{codec:?}, {count}");
            }
        }
    }
}
