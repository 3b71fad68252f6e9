//! The catalog's file: as bytes, and as frames whose CRCs are right.

use alluvium::control::catalog::Catalog;
use alluvium::control::catalog_file::{FORMAT_VERSION, image, replay};
use alluvium::record::batch::crc32c;

/// An even first byte: the rest is a file. An odd one: the rest is frames (length, records), of which the next byte
/// says how many are the image; header and CRCs are made here.
pub fn run(data: &[u8]) {
    match data {
        [choice, file @ ..] if choice.is_multiple_of(2) => check(file),
        [_, in_image, frames @ ..] => check(&file_of(usize::from(*in_image), frames)),
        _ => {}
    }
}

fn check(file: &[u8]) {
    let Ok(replayed) = replay(file) else { return };
    assert_eq!(replayed.valid_bytes + replayed.torn_bytes, file.len() as u64, "bytes are lost");
    let valid_bytes = usize::try_from(replayed.valid_bytes).expect("files here are small");
    let cut = replay(&file[..valid_bytes]).expect("a torn tail can be cut");
    assert_eq!((&cut.catalog, cut.torn_bytes), (&replayed.catalog, 0), "the cut changes the catalog");
    let image = image(&replayed.catalog);
    let again = replay(&image).expect("an image can be replayed");
    assert_eq!(again.catalog, replayed.catalog, "the image is another catalog");
    assert_eq!(again.valid_bytes, image.len() as u64);
}

fn file_of(in_image: usize, mut data: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    let mut image_bytes = 0;
    let mut number = 0_u64;
    while let Some((length, rest)) = data.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (records, rest) = rest.split_at(length);
        data = rest;
        put_frame(&mut frames, number, records);
        number += 1;
        if number == in_image as u64 {
            image_bytes = frames.len();
        }
    }
    let mut file = b"ALVCTLOG".to_vec();
    file.extend(FORMAT_VERSION.to_be_bytes());
    file.extend((image_bytes as u64).to_be_bytes());
    file.extend(crc32c(&file).to_be_bytes());
    file.append(&mut frames);
    file
}

fn put_frame(file: &mut Vec<u8>, number: u64, records: &[u8]) {
    let length = u32::try_from(records.len()).expect("at most 64 KiB").to_be_bytes();
    let crc = crc32c(&[&length, number.to_be_bytes().as_slice(), records].concat());
    file.extend(length);
    file.extend(crc.to_be_bytes());
    file.extend(number.to_be_bytes());
    file.extend(records);
}

/// A catalog by hand, a byte a field as FORMAT.md draws them, in both forms.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let empty_image = image(&Catalog::new());
    let records = empty_image.get(FILE_HEADER_BYTES + FRAME_HEADER_BYTES..).unwrap_or_default();
    let cluster = [&[1], [9; 16].as_slice()].concat();
    let deleted = [&[4], [5; 16].as_slice()].concat();
    for frame in [records, &cluster, &deleted] {
        frames.extend(u16::try_from(frame.len()).expect("short").to_be_bytes());
        frames.extend(frame);
    }
    let mut seeds = vec![[&[1, 1], frames.as_slice()].concat(), [&[0], empty_image.as_slice()].concat()];
    // Each kind of record, with enough zeros and ones behind it to be whole.
    for kind in 1..=10_u8 {
        for fill in [0, 1] {
            let record = [&[kind], [fill; 120].as_slice()].concat();
            seeds.push([&[1, 0, 0, record.len() as u8], record.as_slice()].concat());
        }
    }
    seeds.push([&[0], file_of(1, &frames).as_slice()].concat());
    seeds
}

const FILE_HEADER_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 16;
