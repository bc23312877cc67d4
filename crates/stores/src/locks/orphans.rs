//! Locks without a lease that may still be ours, on servers where a lock is a key with a token.
//!
//! A server that does not answer within the retries may still carry out a begin, or have missed a
//! release. Then it keeps the lock for `lock_ttl_ms`, and the visitor waits for a request that is
//! gone. So the store remembers the tokens, and its next begin releases those locks first.
//!
//! Invariant: a released lock has the token of a failed begin or an ended lease. Not a promise: a
//! lock stays for `lock_ttl_ms` if the server carries out the begin even later, or if the process
//! makes no further request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Key, Result};

use super::token::Token;

/// Beyond, the oldest keep their locks for their time.
const ORPHANS_MAX: usize = 64;

#[derive(Default)]
pub struct Orphans {
    /// Nearly every begin has no orphans and reads only this.
    any: AtomicBool,
    list: Mutex<Vec<Orphan>>,
}

struct Orphan {
    key: Key,
    token: Token,
    since: Instant,
    /// A forked child leaves its parent's orphans alone.
    pid: u32,
}

impl Orphans {
    pub fn remember(&self, key: &Key, token: &Token) {
        self.put(Orphan {
            key: key.clone(),
            token: *token,
            since: Instant::now(),
            pid: std::process::id(),
        });
    }

    /// Releases all locks that may still exist, which wakes their waiters. Errors: `Unreachable`
    /// while the server still does not answer: the caller's request would fail too.
    pub fn release_all(
        &self,
        lock_ttl: Duration,
        mut unlock: impl FnMut(&Key, &Token) -> Result<()>,
    ) -> Result<()> {
        let mut orphans = self.take();
        orphans
            .retain(|orphan| orphan.pid == std::process::id() && orphan.since.elapsed() < lock_ttl);
        while let Some(orphan) = orphans.pop() {
            match unlock(&orphan.key, &orphan.token) {
                Err(error) if *error.kind() == ErrorKind::Unreachable => {
                    orphans.push(orphan);
                    orphans.into_iter().for_each(|orphan| self.put(orphan));
                    return Err(error);
                }
                // Released, or not ours any more, or refused: there is nothing else to try.
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
        // Relaxed: the mutex orders the list, and a begin that misses the store leaves the orphan
        // to the next one.
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

    /// `None` if another thread has it, perhaps one that a fork left behind. No thread waits.
    fn list(&self) -> Option<MutexGuard<'_, Vec<Orphan>>> {
        match self.list.try_lock() {
            Ok(list) => Some(list),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
