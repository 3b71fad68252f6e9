//! Batches as producers send them: the deep check in slices, with each codec, and the walk over records.

use alluvium::record::batch::{HEADER_BYTES, LEN_PREFIX_BYTES, batch_len_bytes, parse_header, stamp, stamp_crc};
use alluvium::record::batch_error::{BatchError, Invalidity};
use alluvium::record::builder::{BatchBuilder, compress};
use alluvium::record::check::{CheckedBatch, DeepCheck, Progress, check_for_append};
use alluvium::record::compression::Compression;
use alluvium::record::offset::{LeaderEpoch, Offset, ProducerId};
use alluvium::record::record_tally::AppendLimits;
use alluvium::record::record_walk::RecordWalk;

/// One byte of choices, then the `records` field of a request.
pub fn run(data: &[u8]) {
    let Some((choices, bytes)) = data.split_first() else { return };
    let limits = limits(*choices);
    let mut bytes = bytes.to_vec();
    if choices & CRC_AS_IT_IS == 0 {
        let len_bytes = batch_len_bytes(&bytes).map_or(0, |len| len as usize);
        if len_bytes >= HEADER_BYTES
            && let Some(batch) = bytes.get_mut(..len_bytes)
        {
            stamp_crc(batch);
        }
    }
    let checked = check(&bytes, &limits);
    if choices & COMPRESS == 0 {
        return;
    }
    // The same records in a codec: what passes plain passes compressed.
    let Some((header, records)) = bytes.split_at_checked(HEADER_BYTES) else { return };
    for codec in Compression::ALL {
        let mut again = header.to_vec();
        again[ATTRIBUTES_LOW_AT] = (again[ATTRIBUTES_LOW_AT] & !CODEC_BITS) | codec as u8;
        let taken = checked.map_or(records, |checked| &records[..checked.len_bytes as usize - HEADER_BYTES]);
        compress(codec, taken, &mut again).expect("compressors take all bytes");
        let length = i32::try_from(again.len() - LEN_PREFIX_BYTES).expect("inputs are small");
        again[BATCH_LENGTH_AT..BATCH_LENGTH_AT + 4].copy_from_slice(&length.to_be_bytes());
        stamp_crc(&mut again);
        // The one thing that only a compressed batch may not have: gaps between its offsets.
        if matches!(check_for_append(&again, &limits), Err(BatchError::Invalid(Invalidity::InnerOffsets))) {
            continue;
        }
        let packed = check(&again, &limits);
        if let Some(plain) = checked.filter(|plain| plain.compression() == Compression::None) {
            let packed = packed.unwrap_or_else(|| panic!("{codec:?}: refused, and taken where it is not compressed"));
            assert_eq!(facts(&plain), facts(&packed), "{codec:?}: other facts than plain");
        }
    }
}

/// What does not depend on the codec.
fn facts(batch: &CheckedBatch) -> (i32, i32, i64, i32) {
    (batch.record_count, batch.last_offset_delta, batch.max_timestamp.0, batch.max_timestamp_offset_delta)
}

/// Whole and in slices; what passes can be stamped and walked.
fn check(bytes: &[u8], limits: &AppendLimits) -> Option<CheckedBatch> {
    let whole = check_for_append(bytes, limits);
    let sliced = DeepCheck::begin(bytes, limits).and_then(|mut check| {
        loop {
            if let Progress::Done(checked) = check.step(bytes, 64)? {
                return Ok(checked);
            }
        }
    });
    assert_eq!(whole, sliced, "slices change the answer");
    if let Ok((_, walk)) = RecordWalk::new(bytes) {
        for record in walk.flatten() {
            assert!(record.headers().count() <= bytes.len());
        }
    }
    let checked = whole.ok()?;
    let mut batch = bytes.get(..checked.len_bytes as usize).expect("a checked batch is whole").to_vec();
    stamp(&mut batch, Offset(42), LeaderEpoch(7));
    let header = parse_header(&batch).expect("a checked batch has a header");
    assert_eq!((header.base_offset.0, header.leader_epoch.0, header.record_count), (42, 7, checked.record_count));
    if checked.compression() == Compression::None {
        let (_, walk) = RecordWalk::new(&batch).expect("a checked batch can be walked");
        let mut count = 0;
        for record in walk {
            record.expect("the records of a checked batch are good");
            count += 1;
        }
        assert_eq!(count, checked.record_count, "the check and the walk count differently");
    }
    Some(checked)
}

fn limits(choices: u8) -> AppendLimits {
    AppendLimits {
        max_message_bytes: 1 << 20,
        segment_bytes: 1 << 30,
        compact: choices & COMPACT != 0,
        log_append_time: choices & LOG_APPEND_TIME != 0,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        now_ms: 1_700_000_000_000,
        codec: None,
        record_bytes_max: i32::MAX as u32,
    }
}

/// Batches of each codec and flag, and those of Kafka's own segment.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for codec in Compression::ALL {
        for (number, producer) in [(0, -1), (1, 77)] {
            let mut builder = BatchBuilder::new().compression(codec);
            if producer >= 0 {
                builder = builder.producer(ProducerId(producer), 3, 10);
            }
            for record in 0..=number * 40 {
                builder.add(
                    1_700_000_000_000 + record,
                    Some(b"key"),
                    (record % 3 != 1).then_some(b"some value".as_slice()),
                );
            }
            let batch = builder.build().expect("the compressors work");
            let choices = if codec == Compression::None { COMPRESS } else { 0 };
            seeds.push([&[choices | number as u8], batch.as_slice()].concat());
        }
    }
    let mut log = SEGMENT;
    while let Some(batch) = batch_len_bytes(log).ok().and_then(|len| log.get(..len as usize)) {
        log = &log[batch.len()..];
        let mut batch = batch.to_vec();
        stamp(&mut batch, Offset(0), LeaderEpoch(-1));
        seeds.push([&[0], batch.as_slice()].concat());
    }
    seeds
}

const SEGMENT: &[u8] = include_bytes!("../../golden/log/golden-log-0/00000000000000000000.log");
const COMPACT: u8 = 1;
const LOG_APPEND_TIME: u8 = 2;
const COMPRESS: u8 = 4;
const CRC_AS_IT_IS: u8 = 8;
const BATCH_LENGTH_AT: usize = 8;
const ATTRIBUTES_LOW_AT: usize = 22;
const CODEC_BITS: u8 = 7;
