//! What the fuzzers of `tests/fuzz` once found, and their seeds, in an ordinary test run.
#![allow(clippy::disallowed_methods, reason = "reads the kept inputs")]
#![allow(unreachable_pub, reason = "these files are public in the fuzzers' own crate")]

use std::fs;
use std::path::Path;

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

/// Runs a target on its seeds and on each file of its folder; a panic comes after the name of the input.
fn replay(target: &str, seeds: &[Vec<u8>], run: fn(&[u8])) {
    assert!(seeds.len() > 4, "{target} has {} seeds", seeds.len());
    for seed in seeds {
        run(seed);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/regressions").join(target);
    let Ok(entries) = fs::read_dir(&folder) else { return };
    for entry in entries {
        let path = entry.expect("the folder is readable").path();
        println!("{}", path.display());
        run(&fs::read(&path).expect("the file is readable"));
    }
}

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
