//! `sessile_fuzz::engine_log` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sessile_fuzz::engine_log(data));
