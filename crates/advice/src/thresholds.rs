//! The chosen numbers that no measured row can replace, each with its reason.
//!
//! Invariant: rules, and code that selects figures for them, have no such numbers of their own.
//! Default limits of servers are facts and not listed here.

use std::fmt;

/// A chosen number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Its name in `bench/RECOMMEND.md`.
    pub name: &'static str,
    pub value: u64,
    pub unit: &'static str,
    /// Why it exists, and when a row overrides it.
    pub why: &'static str,
}

const fn threshold(
    name: &'static str,
    value: u64,
    unit: &'static str,
    why: &'static str,
) -> Threshold {
    Threshold { name, value, unit, why }
}

/// `too-slow`.
pub(crate) const LOAD_MAX: Threshold = threshold(
    "load",
    25,
    "% of a closed loop",
    "the rest is for the application and for a busy hour; a fixed rate that was kept up with \
          says more",
);
/// `bots-short`.
pub(crate) const BOTS_MANY: Threshold = threshold(
    "robots",
    50,
    "% of the sessions",
    "from half of them on most of what a store keeps is never read again",
);
/// `creates-too-slowly`.
pub(crate) const REQUESTS_OF_A_VISITOR: Threshold = threshold(
    "requests of a visitor",
    5,
    "in a session",
    "as the workload `bots` has it: one of so many requests of a visitor begins a session",
);
/// `sweeps-are-felt`.
pub(crate) const FELT: Threshold = threshold(
    "felt",
    10,
    "ms",
    "such a pause is seen beside the time that a page takes; shorter sweeps may be a second \
          mode, and nobody feels them",
);
/// `much-memory`.
pub(crate) const MEMORY_PART: Threshold = threshold(
    "memory",
    25,
    "% of the machine",
    "sessions should not take more without somebody having been asked",
);
/// `much-memory` without results.
pub(crate) const MEMORY_UNKNOWN: Threshold = threshold(
    "memory of no machine",
    2,
    "GiB",
    "a quarter of 8 GiB, where no results say how much the machine has",
);
/// Space by formula.
pub(crate) const OVERHEAD: Threshold = threshold(
    "record",
    1_024,
    "bytes",
    "what a store takes for a session besides its payload, where it was not weighed",
);
/// Whether a row has about as many sessions as the site.
pub(crate) const SESSIONS_ALIKE: Threshold = threshold(
    "about as many sessions",
    4,
    "times more or fewer",
    "each takes about as much space and time; beyond it space is derived, speed gets a note, \
          and a fixed rate that was too high does not count",
);
/// A note.
pub(crate) const PAYLOAD_FAR: Threshold = threshold(
    "small payloads",
    2,
    "times smaller",
    "from there on it is told that the rows are of smaller sessions than the site's",
);
/// Whether rows at a fixed rate are comparable.
pub(crate) const ROUND_TRIP_ALIKE: Threshold = threshold(
    "same distance",
    2,
    "times farther",
    "a rate that was kept up with over a shorter way is no room over a longer one",
);
/// Which conditions are considered.
pub(crate) const ANSWERED: Threshold = threshold(
    "answered",
    50,
    "% of the stores",
    "of questions that so many have answered as the one with the most, that is taken which is \
          closest to the site",
);
pub const THRESHOLDS: &[Threshold] = &[
    LOAD_MAX,
    BOTS_MANY,
    REQUESTS_OF_A_VISITOR,
    FELT,
    MEMORY_PART,
    MEMORY_UNKNOWN,
    OVERHEAD,
    SESSIONS_ALIKE,
    PAYLOAD_FAR,
    ROUND_TRIP_ALIKE,
    ANSWERED,
];

impl Threshold {
    /// The percentage as a fraction.
    pub(crate) fn part(&self) -> f64 {
        self.value as f64 / 100.0
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.unit)
    }
}
