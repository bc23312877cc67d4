//! What one process keeps between calls: idle connections, the position of its last sweep.
//!
//! Invariants: a forked child gets none of what its parent kept, and drops it at its first call. No
//! thread waits: in a child the mutex may stay locked for ever, if another thread of the parent had
//! it at the fork. So what is kept must be dispensable, and is taken out for anything that takes
//! time.

use std::sync::{Mutex, TryLockError};

/// Attempts to lock the mutex, which is held for nanoseconds.
const LOCK_ATTEMPTS: usize = 64;

pub struct ProcessLocal<T>(Mutex<(u32, T)>);

impl<T: Default> Default for ProcessLocal<T> {
    fn default() -> ProcessLocal<T> {
        ProcessLocal(Mutex::new((std::process::id(), T::default())))
    }
}

impl<T> ProcessLocal<T> {
    /// Of no process: the first call drops it.
    pub const fn of_nobody(value: T) -> ProcessLocal<T> {
        ProcessLocal(Mutex::new((0, value)))
    }
}

impl<T: Default> ProcessLocal<T> {
    /// `act` neither waits nor makes a system call. `None` if the mutex stays locked.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        for _ in 0..LOCK_ATTEMPTS {
            let mut kept = match self.0.try_lock() {
                Ok(kept) => kept,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::yield_now();
                    continue;
                }
            };
            let pid = std::process::id();
            if kept.0 != pid {
                *kept = (pid, T::default());
            }
            return Some(act(&mut kept.1));
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
    use super::*;

    #[test]
    fn what_another_process_kept_is_dropped_and_never_given_out() {
        let local = ProcessLocal::<Vec<&str>>::default();
        local.put(vec!["of the parent"]);
        local.0.lock().unwrap().0 += 1; // as if this were a child
        assert!(local.take().is_empty());
        local.put(vec!["of the child"]);
        assert_eq!(local.take(), ["of the child"]);
    }

    #[test]
    fn a_frozen_mutex_stops_nobody() {
        let local = ProcessLocal::<u32>::default();
        local.put(1);
        let _frozen = local.0.lock().unwrap();
        local.put(2);
        assert_eq!(local.take(), 0);
    }
}
