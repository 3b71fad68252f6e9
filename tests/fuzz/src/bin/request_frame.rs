//! The fuzzer of `request_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: alluvium_fuzz::write_seeds(&alluvium_fuzz::request_frame::seeds()),
    |data: &[u8]| alluvium_fuzz::request_frame::run(data)
);
