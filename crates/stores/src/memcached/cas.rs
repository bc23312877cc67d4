//! CAS numbers, and the start of a server that they count from.
//!
//! Invariant: a server begins to count anew when it starts, so after a restart a successor may be given the very numbers that
//! a lease from before knows. So a number goes with the generation of the server that gave it, and a command with a
//! number of one generation is never sent to another (`request`, `connection`).

/// One run of one server, from its start to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generation {
    pub(super) pid: u64,
    /// In seconds. The server computes both its time and its uptime from this, so their difference never changes.
    pub(super) started_s: u64,
}

impl Generation {
    /// From the answer to `stats`.
    pub(super) fn of(stats: &[(String, String)]) -> Option<Generation> {
        let number = |name: &str| stats.iter().find(|(known, _)| known == name)?.1.parse::<u64>().ok();
        Some(Generation { pid: number("pid")?, started_s: number("time")?.checked_sub(number("uptime")?)? })
    }
}

/// What the server gave an item when it was last changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cas {
    pub(super) number: u64,
    pub(super) generation: Generation,
}
