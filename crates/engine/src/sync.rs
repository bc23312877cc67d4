//! The words of shared memory.
//!
//! Everything that two processes share is a [`Word`]. Invariant: no other type of this crate writes shared
//! memory, so that every write passes [`crash::point`], where a test can kill the process.

use std::sync::atomic::AtomicU64;
pub use std::sync::atomic::{Ordering, fence};

/// Eight bytes of shared memory, aligned.
#[repr(transparent)]
#[derive(Default)]
pub struct Word(AtomicU64);

impl Word {
    /// Reads it.
    #[inline]
    pub fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    /// Writes it.
    #[inline]
    pub fn store(&self, value: u64, order: Ordering) {
        crash::point();
        self.0.store(value, order);
    }

    /// Replaces `old` by `new`; false when it was not `old`.
    ///
    /// Sequentially consistent: claims of slots and locks are decided between pairs of words (docs/engine.md,
    /// "Pairs of words"), and on x86-64 the weaker orders cost the same.
    #[inline]
    pub fn cas(&self, old: u64, new: u64) -> bool {
        crash::point();
        self.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Adds, and returns what was there.
    #[inline]
    pub fn add(&self, value: u64) -> u64 {
        crash::point();
        self.0.fetch_add(value, Ordering::SeqCst)
    }

    /// Raises it to at least `value`.
    #[inline]
    pub fn raise(&self, value: u64) {
        crash::point();
        self.0.fetch_max(value, Ordering::SeqCst);
    }

    /// Sets bits, and returns what was there.
    #[inline]
    pub fn set(&self, bits: u64) -> u64 {
        crash::point();
        self.0.fetch_or(bits, Ordering::SeqCst)
    }

    /// Clears bits, and returns what was there.
    #[inline]
    pub fn clear(&self, bits: u64) -> u64 {
        crash::point();
        self.0.fetch_and(!bits, Ordering::SeqCst)
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
    #[inline(always)]
    pub(super) fn point() {
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
