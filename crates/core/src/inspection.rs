//! The results of the operators' operations: details and verify.
//!
//! [`crate::Stat`] is the same for every store; details differ. Nothing here may contain an id or a
//! payload: it goes to terminals, JSON and monitoring.

use crate::{Holder, Key};

/// One fact about an opened store, for its operator.
///
/// Its name has words of `a-z`, `0-9` and `_`, is stable for scripts, and does not repeat the unit.
/// Several details may share a name (one for each lock held).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// A number of things.
    Count(u64),
    /// A size in bytes.
    Bytes(u64),
    /// An age or another span of time in milliseconds.
    Milliseconds(u64),
    /// A word or a short line, without ids and payloads.
    Text(String),
}

/// Details with their names, in display order.
pub type Details = Vec<(&'static str, Detail)>;

impl Detail {
    /// The word for the unit in JSON.
    pub const fn unit(&self) -> &'static str {
        match self {
            Detail::Count(_) => "count",
            Detail::Bytes(_) => "bytes",
            Detail::Milliseconds(_) => "ms",
            Detail::Text(_) => "text",
        }
    }
}

/// A lock that was held when the store was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The key as listings show it; `None` if the store knows only the lock.
    pub key: Option<Key>,
    /// The holder, as far as the store knows it.
    pub holder: Holder,
    /// Whether other requests wait for it; `None` if the store does not know.
    pub has_waiters: Option<bool>,
}

/// The result of `verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Checked records and other structures.
    pub checked: u64,
    /// The problems, one line each, without ids and payloads: at most
    /// [`Verified::PROBLEMS_LISTED_MAX`].
    pub problems: Vec<String>,
    /// Problems beyond those listed.
    pub unlisted: u64,
}

impl Verified {
    /// The most listed problems: a thoroughly damaged store must not fill the memory.
    pub const PROBLEMS_LISTED_MAX: usize = 1_000;

    /// Notes a problem; beyond the limit it is only counted.
    pub fn note(&mut self, problem: impl Into<String>) {
        if self.problems.len() < Verified::PROBLEMS_LISTED_MAX {
            self.problems.push(problem.into());
        } else {
            self.unlisted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_broken_all_over_is_counted_but_not_listed_in_full() {
        let mut verified = Verified::default();
        for _ in 0..Verified::PROBLEMS_LISTED_MAX + 3 {
            verified.note("a record does not fit its checksum");
        }
        assert_eq!(
            (verified.problems.len(), verified.unlisted),
            (Verified::PROBLEMS_LISTED_MAX, 3)
        );
    }
}
