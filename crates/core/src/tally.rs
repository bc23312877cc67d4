//! Events of all processes of a store, added up in shared memory.
//!
//! Invariant: an event that was counted stays counted when its process dies. Not here: the shared
//! memory itself. The engine counts in its control plane ([`Store::totals`](crate::Store::totals));
//! for other stores the registry gives [`Sessions`](crate::Sessions) a [`Tally`].

use std::time::Duration;

/// What all processes of this host have counted since the counters were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Begins, granted or not.
    pub requests: u64,
    /// Begins that found a live record.
    pub hits: u64,
    /// Commits that succeeded.
    pub commits: u64,
    /// Saves that failed.
    pub failed_saves: u64,
    /// Begins that waited for a lock.
    pub lock_waits: u64,
    /// The sum of those waits in microseconds.
    pub lock_wait_us: u64,
    /// The longest of them in microseconds.
    pub lock_wait_us_max: u64,
}

impl Totals {
    /// Adds what other processes have counted.
    pub fn add(&mut self, other: &Totals) {
        self.requests = self.requests.saturating_add(other.requests);
        self.hits = self.hits.saturating_add(other.hits);
        self.commits = self.commits.saturating_add(other.commits);
        self.failed_saves = self.failed_saves.saturating_add(other.failed_saves);
        self.lock_waits = self.lock_waits.saturating_add(other.lock_waits);
        self.lock_wait_us = self.lock_wait_us.saturating_add(other.lock_wait_us);
        self.lock_wait_us_max = self.lock_wait_us_max.max(other.lock_wait_us_max);
    }
}

/// Where the events of one store are counted for all its processes. Forked children share it.
pub trait Tally: Send + Sync {
    /// A begin that took so long, and whether it found a record.
    fn count_begin(&self, hit: bool, took: Duration);
    /// A commit that succeeded.
    fn count_commit(&self);
    /// A save that failed.
    fn count_failed_save(&self);
    /// All that was counted, by any process; `None` if nobody has counted yet.
    fn totals(&self) -> Option<Totals>;
}
