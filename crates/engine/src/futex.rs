//! Sleeping on a word of shared memory until somebody wakes it.
//!
//! Invariant: the kernel compares the word and puts the caller to sleep in one step, so whoever changes the word first
//! and wakes afterwards misses nobody. Whatever ends a sleep, the caller looks at the word again: it may be a signal.

use std::time::Duration;

use crate::sync::Word;

/// Sleeps if the low half of a word is as expected, at most so long.
#[cfg(not(sessile_model))]
pub fn wait(word: &Word, expected: u32, sleep: Duration) {
    use rustix::thread::futex;
    let timeout =
        rustix::time::Timespec { tv_sec: sleep.as_secs().cast_signed(), tv_nsec: i64::from(sleep.subsec_nanos()) };
    let _ = futex::wait(crate::map::Region::low_half(word), futex::Flags::empty(), expected, Some(&timeout));
}

/// Wakes so many who sleep on a word, in the order in which they came; how many there were.
#[cfg(not(sessile_model))]
pub fn wake(word: &Word, count: u32) -> usize {
    use rustix::thread::futex;
    // Fails only for a bad address.
    futex::wake(crate::map::Region::low_half(word), futex::Flags::empty(), count).unwrap_or(0)
}

/// As above, for the threads of a model.
#[cfg(sessile_model)]
pub fn wait(word: &Word, expected: u32, sleep: Duration) {
    crate::machine::sleep_on(crate::map::Region::identity(word), || word.now() as u32 == expected, sleep);
}

/// As above, for the threads of a model.
#[cfg(sessile_model)]
pub fn wake(word: &Word, count: u32) -> usize {
    crate::machine::wake(crate::map::Region::identity(word), count)
}
