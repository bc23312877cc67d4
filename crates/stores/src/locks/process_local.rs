//! What one process keeps between calls: idle connections, the position of its last sweep.
//!
//! Invariants: a forked child gets none of what its parent kept, and drops it at its first call. No
//! thread waits long: in a child the mutex may stay locked for ever, if another thread of the
//! parent had it at the fork. So what is kept must be dispensable, and is taken out for anything
//! that takes time.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Attempts to lock the mutex, which is held for nanoseconds.
const LOCK_ATTEMPTS: usize = 64;
/// How long it is waited for where the holder is a thread of this process: the kernel may have
/// taken the CPU from it.
const LOCK_WAIT_MAX: Duration = Duration::from_millis(20);
const LOCK_PAUSE: Duration = Duration::from_micros(100);

pub struct ProcessLocal<T> {
    /// The process that `kept` is of, written under the mutex. Relaxed: without the mutex it only
    /// says whether to wait, and an outdated value costs one look or one wait.
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
    /// `act` neither waits nor makes a system call. `None` if the mutex stays locked, after at most
    /// [`LOCK_WAIT_MAX`].
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.with_pauses(act, || std::thread::sleep(LOCK_PAUSE))
    }

    fn with_pauses<R>(&self, act: impl FnOnce(&mut T) -> R, pause: impl FnMut()) -> Option<R> {
        let pid = std::process::id();
        let mut kept = self.lock(pid, pause)?;
        let is_inherited = self.owner.swap(pid, Relaxed) != pid;
        let inherited = is_inherited.then(|| std::mem::take(&mut *kept));
        let result = act(&mut kept);
        drop(kept);
        // What closes files takes milliseconds.
        drop(inherited);
        Some(result)
    }

    fn lock(&self, pid: u32, mut pause: impl FnMut()) -> Option<MutexGuard<'_, T>> {
        let (mut attempts, mut deadline) = (0, None);
        loop {
            match self.kept.try_lock() {
                Ok(kept) => return Some(kept),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => attempts += 1,
            }
            if attempts < LOCK_ATTEMPTS {
                std::thread::yield_now();
            } else if self.owner.load(Relaxed) != pid
                || Instant::now() >= *deadline.get_or_insert_with(|| Instant::now() + LOCK_WAIT_MAX)
            {
                return None;
            } else {
                pause();
            }
        }
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
        local.owner.fetch_add(1, Relaxed); // as if this were a child
        assert!(local.take().is_empty());
        local.put(vec!["of the child"]);
        assert_eq!(local.take(), ["of the child"]);
    }

    #[test]
    fn a_frozen_mutex_stops_nobody() {
        let local = ProcessLocal::<u32>::default();
        let _frozen = local.kept.lock().unwrap();
        assert_eq!(local.take(), 0);
        local.owner.fetch_add(1, Relaxed); // as if this were a child
        assert_eq!(local.with_pauses(|_| (), || panic!("a child waits for nobody")), None);
    }

    /// On a busy machine a host that was out of order counted as available now and then.
    #[test]
    fn a_thread_that_lost_its_cpu_with_the_mutex_is_waited_for() {
        let local = ProcessLocal::<u32>::default();
        let mut held = local.kept.lock().ok();
        assert_eq!(local.with_pauses(|kept| *kept, || drop(held.take())), Some(0));
    }
}
