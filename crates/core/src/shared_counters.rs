//! Events of all processes of a store, added up in shared memory.
//!
//! Invariant: an event that was counted stays counted when its process dies. Not here: the shared
//! memory itself. The engine counts in its control plane
//! ([`Store::shared_counts`](crate::Store::shared_counts)); for other stores the registry gives
//! [`Sessions`](crate::Sessions) a [`SharedCounters`].

use std::time::Duration;

/// What all processes of this host have counted since the counters were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCounts {
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
    /// The longest of those waits in microseconds.
    pub lock_wait_us_max: u64,
}

impl SharedCounts {
    /// Adds what other processes have counted.
    pub fn add(&mut self, other: &SharedCounts) {
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
pub trait SharedCounters: Send + Sync {
    /// Counts a begin: whether it found a record, and how long it took.
    fn count_begin(&self, hit: bool, took: Duration);
    /// Counts a commit that succeeded.
    fn count_commit(&self);
    /// Counts a save that failed.
    fn count_failed_save(&self);
    /// The counts of all processes; `None` if no process has counted yet.
    fn shared_counts(&self) -> Option<SharedCounts>;
}
