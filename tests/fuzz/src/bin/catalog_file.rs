//! The fuzzer of `catalog_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: alluvium_fuzz::write_seeds(&alluvium_fuzz::catalog_file::seeds()),
    |data: &[u8]| alluvium_fuzz::catalog_file::run(data)
);
