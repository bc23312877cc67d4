//! Counters of what must not pass in silence.
//!
//! One set for each opened store and process. A failed save is an error for the request that made it, and
//! a number here for the operator who was not looking.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Saves (create, commit) that failed, for whatever reason.
    FailedSaves,
    /// Saves refused because the payload was over the limit.
    TooLarge,
    /// Commits refused because another holder had taken over.
    StaleCommits,
    /// Commits refused because the session had been destroyed: log-outs that would have been undone.
    DestroyedCommits,
    /// Waits for a lock that ended in a timeout.
    LockTimeouts,
    /// Uses of an id whose grace after regeneration was over.
    SpentIds,
}

impl Counter {
    /// All of them, in display order.
    pub const ALL: [Counter; 6] = [
        Counter::FailedSaves,
        Counter::TooLarge,
        Counter::StaleCommits,
        Counter::DestroyedCommits,
        Counter::LockTimeouts,
        Counter::SpentIds,
    ];

    /// The word for tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Counter::FailedSaves => "failed_saves",
            Counter::TooLarge => "too_large",
            Counter::StaleCommits => "stale_commits",
            Counter::DestroyedCommits => "destroyed_commits",
            Counter::LockTimeouts => "lock_timeouts",
            Counter::SpentIds => "spent_ids",
        }
    }
}

/// The counters of one opened store in this process.
#[derive(Debug, Default)]
pub struct Counters([AtomicU64; 6]);

impl Counters {
    /// The present value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.slot(counter).load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, counter: Counter) {
        // Relaxed: a counter orders nothing.
        self.slot(counter).fetch_add(1, Ordering::Relaxed);
    }

    fn slot(&self, counter: Counter) -> &AtomicU64 {
        let [failed, large, stale, destroyed, timeouts, spent] = &self.0;
        match counter {
            Counter::FailedSaves => failed,
            Counter::TooLarge => large,
            Counter::StaleCommits => stale,
            Counter::DestroyedCommits => destroyed,
            Counter::LockTimeouts => timeouts,
            Counter::SpentIds => spent,
        }
    }
}
