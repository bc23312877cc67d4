//! A clock for forgetting: when may an entry go that protects from older records on the disk?
//!
//! Invariant: a wall clock that is set ahead forgets nothing for a day. Its lead is wall time less
//! the time that has passed since the kernel started, which nothing can set. The least lead of two
//! windows of at least a day each counts. A clock that was right when an entry was looked at, or
//! later, therefore holds for a day after it was set forward. One that stays ahead counts after
//! two days at most. DESIGN.md, "Nothing comes back".

use std::time::Duration;

use sessile_core::Timestamp;

use crate::memory::*;

const WINDOW: Duration = Duration::from_secs(86_400);

impl Plane {
    /// The earliest moment that it may be now. On a disk only; in memory nothing is found again.
    pub fn cautious_now(&self) -> Timestamp {
        let now = self.now();
        if self.log.is_none() {
            return now;
        }
        let passed = self.clock.passed_ms();
        // Inverted, so that the least lead is the greatest word, and 0 is none.
        let lead = u64::MAX - now.as_ms().saturating_sub(passed);
        let (window, present, before) = (
            self.header(header::CLOCK_WINDOW),
            self.header(header::CLOCK_PRESENT),
            self.header(header::CLOCK_BEFORE),
        );
        let began = window.load(Relaxed);
        let ended = passed.saturating_sub(began) >= WINDOW.as_millis() as u64;
        // Killed in between, the present window keeps the lead of the one before.
        if ended && window.cas(began, passed.max(1)) {
            before.store(present.load(Relaxed), Relaxed);
            present.store(lead, Relaxed);
        }
        present.raise(lead);
        let least = u64::MAX - present.load(Relaxed).max(before.load(Relaxed));
        now.min(Timestamp::from_ms(least.saturating_add(passed)))
    }
}
