//! `sessile_fuzz::memcached_reply` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sessile_fuzz::memcached_reply(data));
