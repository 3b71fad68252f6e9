//! The fuzzer of `checkpoints`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: alluvium_fuzz::write_seeds(&alluvium_fuzz::checkpoints::seeds()),
    |data: &[u8]| alluvium_fuzz::checkpoints::run(data)
);
