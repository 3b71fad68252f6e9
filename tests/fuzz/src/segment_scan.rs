//! The scan of a segment at recovery, in pieces of several sizes.

use alluvium::log::offset_index::IndexEntry;
use alluvium::log::scan::{ScanEnd, SegmentScan};
use alluvium::record::batch::{batch_len_bytes, stamp_crc};
use alluvium::record::offset::Offset;

/// A byte of choices, the size of a piece, the base offset, then the file.
pub fn run(data: &[u8]) {
    let [choices, piece_bytes, base, rest @ ..] = data else { return };
    let piece_bytes = 1 + usize::from(*piece_bytes);
    let base = if choices & LAST_BASE == 0 { Offset(i64::from(*base)) } else { Offset(i64::MAX - i64::from(*base)) };
    let mut file = rest.to_vec();
    if choices & CRC_AS_IT_IS == 0 {
        let mut left = file.as_mut_slice();
        while let Ok(len_bytes) = batch_len_bytes(left)
            && let Some((batch, rest)) = left.split_at_mut_checked(len_bytes as usize)
        {
            stamp_crc(batch);
            left = rest;
        }
    }
    let checks_crc = choices & NO_CRC == 0;
    let whole = scan(&file, file.len().max(1), base, checks_crc);
    let pieces = scan(&file, piece_bytes, base, checks_crc);
    assert_eq!(whole, pieces, "pieces of {piece_bytes} bytes change what is found");
    // What was cut is a log to its end.
    let valid_bytes = usize::try_from(whole.0.valid_bytes).expect("files here are small");
    let (end, batches) = scan(&file[..valid_bytes], piece_bytes, base, checks_crc);
    assert_eq!(end, ScanEnd { damage: None, ..whole.0 }, "the cut is no whole log");
    assert_eq!(batches, whole.1);
    for entry in IndexEntry::decode_all(rest) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(IndexEntry::decode_all(&bytes).next(), Some(entry));
    }
}

fn scan(file: &[u8], piece_bytes: usize, base: Offset, checks_crc: bool) -> (ScanEnd, Vec<(u64, i64)>) {
    let mut scan = SegmentScan::new(base, 0, base, file.len() as u64, checks_crc);
    let mut batches = Vec::new();
    let mut next_position = 0;
    for piece in file.chunks(piece_bytes) {
        let wants_more = scan.feed(piece, |position, header| {
            assert_eq!(position, next_position, "a batch begins where the last one ends");
            next_position += u64::from(header.len_bytes);
            batches.push((position, header.base_offset.0));
        });
        if !wants_more {
            break;
        }
    }
    let end = scan.finish();
    assert_eq!(end.valid_bytes, next_position);
    assert!(end.valid_bytes <= file.len() as u64);
    assert!(end.next_offset >= base, "offsets go back to {}", end.next_offset);
    (end, batches)
}

/// Kafka's own segment, whole and cut, and its index.
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |choices: u8, base: u8, file: &[u8]| [&[choices, 60, base], file].concat();
    let first = batch_len_bytes(SEGMENT).map_or(0, |len| len as usize);
    vec![
        seed(0, 0, &SEGMENT[..first]),
        seed(0, 0, &SEGMENT[..1000]),
        seed(NO_CRC, 0, &SEGMENT[..1500]),
        seed(CRC_AS_IT_IS, 0, &SEGMENT[..2000]),
        seed(LAST_BASE, 0, &SEGMENT[..700]),
        seed(0, 0, SEGMENT),
        seed(0, 0, INDEX),
    ]
}

const SEGMENT: &[u8] = include_bytes!("../../golden/log/golden-log-0/00000000000000000000.log");
const INDEX: &[u8] = include_bytes!("../../golden/log/golden-log-0/00000000000000000000.index");
const NO_CRC: u8 = 1;
const CRC_AS_IT_IS: u8 = 2;
const LAST_BASE: u8 = 4;
