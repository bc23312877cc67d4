//! The words of shared memory.
//!
//! Everything that two processes share is a [`Word`]. Invariant: no other type of this crate writes shared
//! memory, so that every write passes [`crash::point`], where a test can kill the process. In the model build
//! (`--cfg sessile_model`) every access is also a point at which the scheduler of `machine` may let another thread go on.

use std::sync::atomic::AtomicU64;
pub use std::sync::atomic::{Ordering, fence};

#[cfg(sessile_model)]
pub use crate::machine::Instant;
#[cfg(not(sessile_model))]
pub use std::time::Instant;

#[cfg(sessile_model)]
use crate::machine::{before_read, before_write};

#[cfg(not(sessile_model))]
#[inline(always)]
fn before_read() {}

/// True: the write may happen.
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
    /// Reads it.
    #[inline]
    pub fn load(&self, order: Ordering) -> u64 {
        before_read();
        self.0.load(order)
    }

    /// Reads it at a point that is none for the scheduler.
    #[cfg(sessile_model)]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Writes it.
    #[inline]
    pub fn store(&self, value: u64, order: Ordering) {
        if before_write() {
            self.0.store(value, order);
        }
    }

    /// Replaces `old` by `new`; false when it was not `old`.
    ///
    /// Sequentially consistent: claims of slots and locks are decided between pairs of words (docs/engine.md,
    /// "Pairs of words"), and on x86-64 the weaker orders cost the same.
    #[inline]
    pub fn cas(&self, old: u64, new: u64) -> bool {
        before_write() && self.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Adds, and returns what was there.
    #[inline]
    pub fn add(&self, value: u64) -> u64 {
        if before_write() { self.0.fetch_add(value, Ordering::SeqCst) } else { 0 }
    }

    /// Raises it to at least `value`.
    #[inline]
    pub fn raise(&self, value: u64) {
        if before_write() {
            self.0.fetch_max(value, Ordering::SeqCst);
        }
    }

    /// Sets bits, and returns what was there.
    #[inline]
    pub fn set(&self, bits: u64) -> u64 {
        if before_write() { self.0.fetch_or(bits, Ordering::SeqCst) } else { 0 }
    }

    /// Clears bits, and returns what was there.
    #[inline]
    pub fn clear(&self, bits: u64) -> u64 {
        if before_write() { self.0.fetch_and(!bits, Ordering::SeqCst) } else { 0 }
    }
}

/// Death on demand, between any two writes to shared memory.
pub mod crash {
    #[cfg(feature = "failpoints")]
    use std::sync::atomic::{AtomicU64, Ordering};

    #[cfg(feature = "failpoints")]
    static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

    /// From now on the process survives this many writes to shared memory, then it kills itself.
    #[cfg(feature = "failpoints")]
    pub fn after(writes: u64) {
        LEFT.store(writes, Ordering::SeqCst);
    }

    /// How many writes are left.
    #[cfg(feature = "failpoints")]
    pub fn left() -> u64 {
        LEFT.load(Ordering::SeqCst)
    }

    /// Called before each write.
    #[cfg_attr(sessile_model, allow(dead_code, reason = "models let threads die in another way"))]
    #[inline(always)]
    pub(crate) fn point() {
        #[cfg(feature = "failpoints")]
        if LEFT.load(Ordering::Relaxed) != u64::MAX && LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
            // SIGKILL runs nothing: no destructor gives a lock back.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            loop {
                std::thread::park();
            }
        }
    }
}
