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

/// `too-slow`.
pub(crate) const LOAD_MAX: Threshold = Threshold {
    name: "load",
    value: 25,
    unit: "% of a closed loop",
    why: "the rest is for the application and for a busy hour; a fixed rate that was kept up with \
          says more",
};
/// `pushes-out`, `bots-short`.
pub(crate) const BOTS_MANY: Threshold = Threshold {
    name: "robots",
    value: 50,
    unit: "% of the sessions",
    why: "from half of them on they decide what a full store throws out",
};
/// `creates-too-slowly`.
pub(crate) const REQUESTS_OF_A_VISITOR: Threshold = Threshold {
    name: "requests of a visitor",
    value: 5,
    unit: "in a session",
    why: "as the workload `bots` has it: one of so many requests of a visitor begins a session",
};
/// `sweeps-are-felt`.
pub(crate) const FELT: Threshold = Threshold {
    name: "felt",
    value: 10,
    unit: "ms",
    why: "such a pause is seen beside the time that a page takes; shorter sweeps may be a second \
          mode, and nobody feels them",
};
/// `much-memory`.
pub(crate) const MEMORY_PART: Threshold = Threshold {
    name: "memory",
    value: 25,
    unit: "% of the machine",
    why: "sessions should not take more without somebody having been asked",
};
/// `much-memory` without results.
pub(crate) const MEMORY_UNKNOWN: Threshold = Threshold {
    name: "memory of no machine",
    value: 2,
    unit: "GiB",
    why: "a quarter of 8 GiB, where no results say how much the machine has",
};
/// Space by formula.
pub(crate) const OVERHEAD: Threshold = Threshold {
    name: "record",
    value: 1_024,
    unit: "bytes",
    why: "what a store takes for a session besides its payload, where it was not weighed",
};
/// Whether a row has about as many sessions as the site.
pub(crate) const SESSIONS_ALIKE: Threshold = Threshold {
    name: "about as many sessions",
    value: 4,
    unit: "times more or fewer",
    why: "each takes about as much space and time; beyond it space is derived, speed gets a note, \
          and a fixed rate that was too high does not count",
};
/// A note.
pub(crate) const PAYLOAD_FAR: Threshold = Threshold {
    name: "small payloads",
    value: 2,
    unit: "times smaller",
    why: "from there on it is told that the rows are of smaller sessions than the site's",
};
/// Whether rows at a fixed rate are comparable.
pub(crate) const ROUND_TRIP_ALIKE: Threshold = Threshold {
    name: "same distance",
    value: 2,
    unit: "times farther",
    why: "a rate that was kept up with over a shorter way is no room over a longer one",
};
/// Which conditions are considered.
pub(crate) const ANSWERED: Threshold = Threshold {
    name: "answered",
    value: 50,
    unit: "% of the stores",
    why: "of questions that so many have answered as the one with the most, that is taken which is \
          closest to the site",
};
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
