//! `sessile_fuzz::php_session` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sessile_fuzz::php_session(data));
