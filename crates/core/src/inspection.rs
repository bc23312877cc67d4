//! The shapes of the operations for an operator: details and verify.
//!
//! [`crate::Stat`] is what every store that lists can say; this is what only one kind of store can. Nothing in
//! here may contain an id or a payload: it goes to terminals, JSON and monitoring.

/// One thing that an operator may want to know of an opened store.
///
/// Names are words of `a-z`, `0-9` and `_`, stable for scripts, and do not repeat the unit, which the value
/// has. Several details may share a name where there are several of a thing (one for each lock held).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// What it is.
    pub name: &'static str,
    /// How much or which.
    pub value: DetailValue,
}

impl Detail {
    /// A number of things.
    pub const fn count(name: &'static str, count: u64) -> Detail {
        Detail { name, value: DetailValue::Count(count) }
    }

    /// A size in bytes.
    pub const fn bytes(name: &'static str, bytes: u64) -> Detail {
        Detail { name, value: DetailValue::Bytes(bytes) }
    }

    /// An age or another span of time in milliseconds.
    pub const fn milliseconds(name: &'static str, milliseconds: u64) -> Detail {
        Detail { name, value: DetailValue::Milliseconds(milliseconds) }
    }

    /// A word or a short line, without ids and payloads.
    pub fn text(name: &'static str, text: impl Into<String>) -> Detail {
        Detail { name, value: DetailValue::Text(text.into()) }
    }
}

/// A value with its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetailValue {
    /// A number of things.
    Count(u64),
    /// A size in bytes.
    Bytes(u64),
    /// A span of time in milliseconds.
    Milliseconds(u64),
    /// A word or a short line.
    Text(String),
}

impl DetailValue {
    /// The word for the unit in JSON.
    pub const fn unit(&self) -> &'static str {
        match self {
            DetailValue::Count(_) => "count",
            DetailValue::Bytes(_) => "bytes",
            DetailValue::Milliseconds(_) => "ms",
            DetailValue::Text(_) => "text",
        }
    }
}

/// What `verify` looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Records and other things that were checked: zero means that there was nothing.
    pub checked: u64,
    /// What is wrong, one line each, without ids and payloads: at most [`Verified::PROBLEMS_LISTED_MAX`].
    pub problems: Vec<String>,
    /// Problems beyond those listed.
    pub unlisted: u64,
}

impl Verified {
    /// Most problems that are listed. A store that is broken all over must not fill the memory to say so.
    pub const PROBLEMS_LISTED_MAX: usize = 1_000;

    /// Notes a problem; beyond the limit it is only counted.
    pub fn note(&mut self, problem: impl Into<String>) {
        if self.problems.len() < Verified::PROBLEMS_LISTED_MAX {
            self.problems.push(problem.into());
        } else {
            self.unlisted += 1;
        }
    }

    /// Whether nothing is wrong.
    pub fn clean(&self) -> bool {
        self.problems.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_broken_all_over_is_counted_but_not_listed_in_full() {
        let mut verified = Verified::default();
        assert!(verified.clean());
        for _ in 0..Verified::PROBLEMS_LISTED_MAX + 3 {
            verified.note("a record does not fit its checksum");
        }
        assert!(!verified.clean());
        assert_eq!((verified.problems.len(), verified.unlisted), (Verified::PROBLEMS_LISTED_MAX, 3));
    }
}
