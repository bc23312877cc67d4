//! Locks that may be ours although no lease knows of them, on servers where a lock is a key with a token in it.
//!
//! A server that does not answer within the retries may carry out a begin, or have missed a release, all the
//! same: then it keeps the lock until its time is over, and the visitor waits for a request that is long gone.
//! So the store remembers the tokens, and its next begin gives those locks back first.
//!
//! Invariant: what is given back is a lock that bears the token of a begin that has failed or of a lease that
//! has ended, so nobody's. It is not a promise: a begin that the server carries out later still, or that failed
//! in a process which asks for nothing again, keeps its lock for `lock_ttl_ms`. Not here: how a lock is given back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Key, Result};

use crate::owner::Token;

/// As many requests as may run into one outage at once; of more, the oldest keep their locks for their time.
const ORPHANS_MAX: usize = 64;

/// The locks without a lease of one opened store.
#[derive(Default)]
pub(crate) struct Orphans {
    /// A begin without orphans, so nearly every begin, looks at this alone.
    any: AtomicBool,
    list: Mutex<Vec<Orphan>>,
}

struct Orphan {
    key: Key,
    token: Token,
    since: Instant,
    /// A forked child leaves those of its parent to it.
    pid: u32,
}

impl Orphans {
    /// Notes a lock that may bear this token.
    pub fn remember(&self, key: &Key, token: &Token) {
        self.put(Orphan { key: key.clone(), token: *token, since: Instant::now(), pid: std::process::id() });
    }

    /// Gives all back that can still be there, those who wait for them being woken.
    ///
    /// # Errors
    ///
    /// `Unreachable` while the server still does not answer: then the caller need not ask either.
    pub fn give_back(&self, lock_ttl: Duration, mut unlock: impl FnMut(&Key, &Token) -> Result<()>) -> Result<()> {
        let mut orphans = self.take();
        orphans.retain(|orphan| orphan.pid == std::process::id() && orphan.since.elapsed() < lock_ttl);
        while let Some(orphan) = orphans.pop() {
            match unlock(&orphan.key, &orphan.token) {
                Err(error) if *error.kind() == ErrorKind::Unreachable => {
                    orphans.push(orphan);
                    orphans.into_iter().for_each(|orphan| self.put(orphan));
                    return Err(error);
                }
                // Given back, or not ours any more, or the server refuses it: there is nothing else to try.
                _ => {}
            }
        }
        Ok(())
    }

    fn put(&self, orphan: Orphan) {
        let Some(mut list) = self.list() else { return };
        if list.len() >= ORPHANS_MAX {
            list.remove(0);
        }
        list.push(orphan);
        // Relaxed: the mutex orders the list, and a begin that misses the news leaves it to the next one.
        self.any.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> Vec<Orphan> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let Some(mut list) = self.list() else { return Vec::new() };
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut list)
    }

    /// `None` when another thread has it, perhaps one that a fork left behind: nobody waits for it.
    fn list(&self) -> Option<MutexGuard<'_, Vec<Orphan>>> {
        match self.list.try_lock() {
            Ok(list) => Some(list),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
