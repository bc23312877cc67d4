//! `sessile_fuzz::operations` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sessile_fuzz::operations(data));
