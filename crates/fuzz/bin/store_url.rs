//! `sessile_fuzz::store_url` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sessile_fuzz::store_url(data));
