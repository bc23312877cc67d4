//! Counters of events that must not pass in silence.
//!
//! One set for each opened store and process. A failed save is an error for its request, and a
//! number here for the operator.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Saves (create, commit) that failed, for any reason.
    FailedSaves,
    /// Saves refused because the payload was over the limit.
    TooLarge,
    /// Commits refused because another holder had taken over.
    StaleCommits,
    /// Commits refused because the session had been destroyed: they would have undone a log-out.
    DestroyedCommits,
    /// Waits for a lock that ended in a timeout.
    LockTimeouts,
    /// Uses of an id whose grace after regeneration was over.
    SpentIds,
    /// Values that two requests of a session have changed at a time.
    MergeConflicts,
}

impl Counter {
    /// All counters, in display order.
    pub const ALL: [Counter; 7] = [
        Counter::FailedSaves,
        Counter::TooLarge,
        Counter::StaleCommits,
        Counter::DestroyedCommits,
        Counter::LockTimeouts,
        Counter::SpentIds,
        Counter::MergeConflicts,
    ];

    /// The name that operators see.
    pub const fn name(self) -> &'static str {
        match self {
            Counter::FailedSaves => "failed_saves",
            Counter::TooLarge => "too_large",
            Counter::StaleCommits => "stale_commits",
            Counter::DestroyedCommits => "destroyed_commits",
            Counter::LockTimeouts => "lock_timeouts",
            Counter::SpentIds => "spent_ids",
            Counter::MergeConflicts => "merge_conflicts",
        }
    }
}

/// The counters of one opened store in this process.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; Counter::ALL.len()]);

impl Counters {
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.slot(counter).map_or(0, |slot| slot.load(Ordering::Relaxed))
    }

    pub(crate) fn add(&self, counter: Counter, events: u64) {
        // Relaxed: a counter orders nothing.
        self.slot(counter).map(|slot| slot.fetch_add(events, Ordering::Relaxed));
    }

    fn slot(&self, counter: Counter) -> Option<&AtomicU64> {
        self.0.get(counter as usize)
    }
}
