//! The fuzzer of `segment_scan`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: alluvium_fuzz::write_seeds(&alluvium_fuzz::segment_scan::seeds()),
    |data: &[u8]| alluvium_fuzz::segment_scan::run(data)
);
