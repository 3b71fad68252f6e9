//! The fuzzer of `record_batch`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: alluvium_fuzz::write_seeds(&alluvium_fuzz::record_batch::seeds()),
    |data: &[u8]| alluvium_fuzz::record_batch::run(data)
);
