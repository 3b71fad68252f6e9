//! The targets of `tests/fuzz` in an ordinary test run: their seeds, what the fuzzers once found, and damage to both.
//!
//! The damage is drawn blindly, from a seed: the short form of `scripts/fuzz`, which sees coverage and needs a build of its
//! own. `INPUTS` says how many inputs each target gets, `SEED` repeats a run.
#![allow(clippy::disallowed_methods, reason = "reads the kept inputs")]
#![allow(unreachable_pub, reason = "these files are public in the fuzzers' own crate")]

use std::fs;
use std::panic;
use std::path::Path;

use support::random::{Random, number_from_env, seed};

#[path = "fuzz/src/catalog_file.rs"]
mod catalog_file;
#[path = "fuzz/src/checkpoints.rs"]
mod checkpoints;
#[path = "fuzz/src/record_batch.rs"]
mod record_batch;
#[path = "fuzz/src/request_frame.rs"]
mod request_frame;
#[path = "fuzz/src/segment_scan.rs"]
mod segment_scan;
mod support;

/// Runs a target on its seeds, on each file of its folder, and on damaged copies of all; a panic comes after the name of
/// the input, or with the seed.
fn replay(target: &str, seeds: &[Vec<u8>], run: fn(&[u8])) {
    assert!(seeds.len() > 4, "{target} has {} seeds", seeds.len());
    for seed in seeds {
        run(seed);
    }
    let mut inputs = seeds.to_vec();
    kept(target, |path, input| {
        println!("{path}");
        run(&input);
        inputs.push(input);
    });
    let seed = seed();
    let mut random = Random::new(seed);
    for number in 0..number_from_env("INPUTS", INPUTS) {
        let damaged = damage(&inputs, &mut random);
        let outcome = panic::catch_unwind(|| run(&damaged));
        assert!(outcome.is_ok(), "{target}: input {number} of SEED={seed}: {damaged:02x?}");
    }
}

/// One of the inputs with a few things done to it that fuzzers do.
fn damage(inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let pick = |random: &mut Random| &inputs[random.below(inputs.len() as u64) as usize];
    let mut bytes = pick(random).clone();
    bytes.truncate(LEN_BYTES_MAX);
    for _ in 0..random.between(1, 6) {
        let len = bytes.len() as u64;
        let at = random.below(len + 1) as usize;
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.next() as u8),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 if at < bytes.len() => bytes[at] = random.next() as u8,
            // Lengths and counts that are huge, negative, or off by one.
            4 if at + 4 <= bytes.len() => {
                let extremes = [i32::MAX, i32::MIN, -1, 0, 1, 0x0000_ffff, len as i32, len as i32 + 1];
                let value = extremes[random.below(extremes.len() as u64) as usize];
                bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
            }
            5 if at + 8 <= bytes.len() => bytes[at..at + 8].copy_from_slice(&random.next().to_be_bytes()),
            6 => {
                let end = at + random.below(64).min(len - at as u64) as usize;
                drop(bytes.drain(at..end));
            }
            _ => {
                let other = pick(random);
                let from = random.below(other.len() as u64 + 1) as usize;
                bytes.truncate(at);
                bytes.extend(other[from..].iter().take(LEN_BYTES_MAX));
            }
        }
    }
    bytes.truncate(LEN_BYTES_MAX);
    bytes
}

/// What the fuzzers found and left in the target's folder.
fn kept(target: &str, mut each: impl FnMut(std::path::Display<'_>, Vec<u8>)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/regressions").join(target);
    let Ok(entries) = fs::read_dir(&folder) else { return };
    for entry in entries {
        let path = entry.expect("the folder is readable").path();
        each(path.display(), fs::read(&path).expect("the file is readable"));
    }
}

/// As the fuzzers' own.
const LEN_BYTES_MAX: usize = 8192;
/// A second or two for each target.
const INPUTS: u64 = 20_000;

#[test]
fn request_frames() {
    replay("request_frame", &request_frame::seeds(), request_frame::run);
}

#[test]
fn record_batches() {
    replay("record_batch", &record_batch::seeds(), record_batch::run);
}

#[test]
fn catalog_files() {
    replay("catalog_file", &catalog_file::seeds(), catalog_file::run);
}

#[test]
fn segment_scans() {
    replay("segment_scan", &segment_scan::seeds(), segment_scan::run);
}

#[test]
fn checkpoint_texts() {
    replay("checkpoints", &checkpoints::seeds(), checkpoints::run);
}
