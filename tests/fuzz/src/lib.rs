//! What each fuzzer does with its bytes, and the seeds that it begins with.
//!
//! `tests/fuzz_regressions.rs` compiles the same files into an ordinary test.

pub mod catalog_file;
pub mod checkpoints;
pub mod record_batch;
pub mod request_frame;
pub mod segment_scan;

/// Writes a target's seeds where `scripts/fuzz` asks for them; the corpus is read after that.
pub fn write_seeds(seeds: &[Vec<u8>]) {
    let Some(folder) = std::env::var_os("ALLUVIUM_FUZZ_SEEDS") else { return };
    let folder = std::path::PathBuf::from(folder);
    std::fs::create_dir_all(&folder).expect("the folder of seeds can be made");
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).expect("a seed can be written");
    }
}
