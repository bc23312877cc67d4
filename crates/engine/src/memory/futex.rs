//! Sleeping on a word of shared memory. The kernel compares the word and starts the sleep in one
//! step, so a change before a wake is never missed. A signal can end a sleep: the caller reads the
//! word again.

use std::time::Duration;

use super::map::Region;
use super::sync::Word;

/// Sleeps if the low half of a word is as expected.
#[cfg(not(sessile_model))]
pub fn futex_wait(word: &Word, expected: u32, sleep: Duration) {
    use rustix::thread::futex;
    let timeout = rustix::time::Timespec {
        tv_sec: sleep.as_secs().cast_signed(),
        tv_nsec: i64::from(sleep.subsec_nanos()),
    };
    let flags = futex::Flags::empty();
    let _ = futex::wait(Region::low_half(word), flags, expected, Some(&timeout));
}

/// First come first; returns how many woke.
#[cfg(not(sessile_model))]
pub fn futex_wake(word: &Word, count: u32) -> usize {
    use rustix::thread::futex;
    // Fails only for a bad address.
    futex::wake(Region::low_half(word), futex::Flags::empty(), count).unwrap_or(0)
}

#[cfg(sessile_model)]
pub fn futex_wait(word: &Word, expected: u32, sleep: Duration) {
    super::machine::sleep_on(Region::identity(word), || word.now() as u32 == expected, sleep);
}

#[cfg(sessile_model)]
pub fn futex_wake(word: &Word, count: u32) -> usize {
    super::machine::wake(Region::identity(word), count)
}
