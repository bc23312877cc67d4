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
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Key, Result};

use super::process_local::ProcessLocal;
use super::token::Token;

/// Beyond, the oldest keep their locks for their time.
const ORPHANS_MAX: usize = 64;

#[derive(Default)]
pub struct Orphans {
    /// Nearly every begin has no orphans and reads only this.
    any: AtomicBool,
    /// A forked child leaves those of its parent alone.
    list: ProcessLocal<Vec<Orphan>>,
}

struct Orphan {
    key: Key,
    token: Token,
    since: Instant,
}

impl Orphans {
    pub fn remember(&self, key: &Key, token: &Token) {
        self.put(Orphan { key: key.clone(), token: *token, since: Instant::now() });
    }

    /// Releases all locks that may still exist and concern the caller, which wakes their waiters.
    /// Errors: `Unreachable` while the server still does not answer: the caller's request would
    /// fail too.
    pub fn release_all(
        &self,
        lock_ttl: Duration,
        concerns: impl Fn(&Key) -> bool,
        mut unlock: impl FnMut(&Key, &Token) -> Result<()>,
    ) -> Result<()> {
        let mut orphans = self.take();
        orphans.retain(|orphan| orphan.since.elapsed() < lock_ttl);
        let concerned: Vec<bool> = orphans.iter().map(|orphan| concerns(&orphan.key)).collect();
        let mut concerned = concerned.into_iter();
        let others = orphans.extract_if(.., |_| !concerned.next().unwrap_or(true));
        others.for_each(|orphan| self.put(orphan));
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
        self.list.with(|list| {
            if list.len() >= ORPHANS_MAX {
                list.remove(0);
            }
            list.push(orphan);
            // Relaxed: the mutex orders the list, and a begin that misses the store leaves the
            // orphan to the next one.
            self.any.store(true, Ordering::Relaxed);
        });
    }

    fn take(&self) -> Vec<Orphan> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.list
            .with(|list| {
                self.any.store(false, Ordering::Relaxed);
                std::mem::take(list)
            })
            .unwrap_or_default()
    }
}
