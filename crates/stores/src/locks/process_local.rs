//! What one process keeps between calls: idle connections, the position of its last sweep.
//!
//! Invariants: a forked child gets none of what its parent kept, and drops it at its first call. No
//! thread waits long: in a child the mutex may stay locked for ever, if another thread of the
//! parent had it at the fork. So what is kept must be dispensable, and is taken out for anything
//! that takes time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

/// Attempts to lock the mutex, which is held for nanoseconds.
const LOCK_ATTEMPTS: usize = 64;
/// More of them, with pauses, where the holder is a thread of this process: the kernel may have
/// taken the CPU from it.
const LOCK_PAUSES: usize = 200;
const LOCK_PAUSE: Duration = Duration::from_micros(100);

pub struct ProcessLocal<T> {
    /// The process that `kept` is of, written under the mutex.
    owner: AtomicU32,
    kept: Mutex<T>,
}

impl<T: Default> Default for ProcessLocal<T> {
    fn default() -> ProcessLocal<T> {
        let owner = AtomicU32::new(std::process::id());
        ProcessLocal { owner, kept: Mutex::default() }
    }
}

impl<T> ProcessLocal<T> {
    /// Of no process: the first call drops it.
    pub const fn of_nobody(value: T) -> ProcessLocal<T> {
        ProcessLocal { owner: AtomicU32::new(0), kept: Mutex::new(value) }
    }
}

impl<T: Default> ProcessLocal<T> {
    /// `act` neither waits nor makes a system call. `None` if the mutex stays locked.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        let pid = std::process::id();
        for attempt in 0..LOCK_ATTEMPTS + LOCK_PAUSES {
            let mut kept = match self.kept.try_lock() {
                Ok(kept) => kept,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => {
                    std::thread::yield_now();
                    continue;
                }
                Err(TryLockError::WouldBlock) if self.owner.load(Ordering::Relaxed) == pid => {
                    std::thread::sleep(LOCK_PAUSE);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return None,
            };
            if self.owner.load(Ordering::Relaxed) != pid {
                *kept = T::default();
                self.owner.store(pid, Ordering::Relaxed);
            }
            return Some(act(&mut kept));
        }
        None
    }

    /// The default in its place.
    pub fn take(&self) -> T {
        self.with(std::mem::take).unwrap_or_default()
    }

    pub fn put(&self, value: T) {
        self.with(|kept| *kept = value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_another_process_kept_is_dropped_and_never_given_out() {
        let local = ProcessLocal::<Vec<&str>>::default();
        local.put(vec!["of the parent"]);
        local.owner.fetch_add(1, Ordering::Relaxed); // as if this were a child
        assert!(local.take().is_empty());
        local.put(vec!["of the child"]);
        assert_eq!(local.take(), ["of the child"]);
    }

    #[test]
    fn a_frozen_mutex_stops_nobody() {
        let local = ProcessLocal::<u32>::default();
        local.put(1);
        let _frozen = local.kept.lock().unwrap();
        local.put(2);
        assert_eq!(local.take(), 0);
        local.owner.fetch_add(1, Ordering::Relaxed); // as if this were a child
        let start = Instant::now();
        assert_eq!(local.take(), 0);
        assert!(start.elapsed() < LOCK_PAUSE * LOCK_PAUSES as u32, "a child does not pause");
    }

    /// On a busy machine a host that was out of order counted as available now and then.
    #[test]
    fn a_thread_that_lost_its_cpu_with_the_mutex_is_waited_for() {
        let local = ProcessLocal::<u32>::default();
        let held = local.kept.lock().unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| local.with(|kept| *kept));
            std::thread::sleep(Duration::from_millis(3));
            drop(held);
            assert_eq!(other.join().unwrap(), Some(0));
        });
    }
}
