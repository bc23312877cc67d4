//! The words of shared memory.
//!
//! Invariant: only [`Word`] writes shared memory, so every write passes [`crash::point`], where a
//! test can kill the process, and in the model build every access passes the scheduler.

use std::sync::atomic::AtomicU64;
pub use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};
pub use std::sync::atomic::fence;

#[cfg(sessile_model)]
pub use super::machine::Instant;
#[cfg(not(sessile_model))]
pub use std::time::Instant;

#[cfg(sessile_model)]
use super::machine::{before_read, before_write};

#[cfg(not(sessile_model))]
#[inline(always)]
fn before_read() {}

#[cfg(not(sessile_model))]
#[inline(always)]
fn before_write() -> bool {
    crash::point();
    true
}

/// Eight bytes of shared memory, aligned.
#[repr(transparent)]
#[derive(Default)]
pub struct Word(AtomicU64);

impl Word {
    #[inline]
    pub fn load(&self, order: Ordering) -> u64 {
        before_read();
        self.0.load(order)
    }

    /// Reads the word without giving the scheduler a chance to switch.
    #[cfg(sessile_model)]
    pub fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }

    #[inline]
    pub fn store(&self, value: u64, order: Ordering) {
        if before_write() {
            self.0.store(value, order);
        }
    }

    /// Replaces `old` by `new`; false when the word was not `old`.
    ///
    /// Sequentially consistent: claims of slots and locks are decided between pairs of words
    /// (DESIGN.md, "Pairs of words"), and on x86-64 the weaker orders cost the same.
    #[inline]
    pub fn cas(&self, old: u64, new: u64) -> bool {
        before_write() && self.0.compare_exchange(old, new, SeqCst, SeqCst).is_ok()
    }

    #[inline]
    pub fn add(&self, value: u64) -> u64 {
        if before_write() { self.0.fetch_add(value, SeqCst) } else { 0 }
    }

    #[inline]
    pub fn raise(&self, value: u64) {
        if before_write() {
            self.0.fetch_max(value, SeqCst);
        }
    }

    #[inline]
    pub fn set(&self, bits: u64) -> u64 {
        if before_write() { self.0.fetch_or(bits, SeqCst) } else { 0 }
    }

    #[inline]
    pub fn clear(&self, bits: u64) -> u64 {
        if before_write() { self.0.fetch_and(!bits, SeqCst) } else { 0 }
    }
}

/// Death on demand, between any two writes to shared memory.
pub mod crash {
    #[cfg(feature = "failpoints")]
    use std::sync::atomic::{AtomicU64, Ordering};

    #[cfg(feature = "failpoints")]
    static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

    /// The process makes this many more writes to shared memory, then it stops for good.
    #[cfg(feature = "failpoints")]
    pub fn stop_after(writes: u64) {
        LEFT.store(writes, Ordering::SeqCst);
    }

    #[cfg(feature = "failpoints")]
    /// Writes that are left.
    pub fn left() -> u64 {
        LEFT.load(Ordering::SeqCst)
    }

    #[cfg_attr(sessile_model, allow(dead_code, reason = "models let threads die in another way"))]
    #[inline(always)]
    pub(crate) fn point() {
        #[cfg(feature = "failpoints")]
        if LEFT.load(Ordering::Relaxed) != u64::MAX && LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
            // A SIGKILL that follows runs nothing: no destructor gives a lock back.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::STOP,
            );
            loop {
                std::thread::park();
            }
        }
    }
}
