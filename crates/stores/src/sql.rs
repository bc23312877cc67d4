//! A session as a row of a table, and what a lease goes by: what the stores that speak SQL have in common.
//!
//! Invariant: whether a change is allowed is decided here, from the row as it is now and from what the lease has seen; so
//! that a commit is right even if the lock that keeps others away was lost. Not here: statements and connections.

use std::time::Duration;

use sessile_core::{Bin, Error, ErrorKind, Found, Key, Limits, Record, Result, Timestamp, Trace, Ttl};

/// Regenerated ids may lead to ids that were regenerated themselves; more steps than this are a loop.
pub(crate) const ALIAS_STEPS_MAX: usize = 16;

/// What a row says.
#[derive(Debug)]
pub(crate) enum Content {
    /// Perhaps expired. The payload is empty when only the head was read.
    Live(Record),
    Destroyed {
        /// Which destruction it was.
        mark: i64,
        forget: Timestamp,
    },
    /// Leads to another id until the grace is over.
    Regenerated { target: Box<str>, until: Timestamp, forget: Timestamp },
}

impl Content {
    /// What a look-up of this row finds at `now`.
    pub fn found(self, now: Timestamp) -> Found {
        match self {
            Content::Live(record) if !record.expired(now) => Found::live(record),
            Content::Destroyed { forget, .. } if forget > now => Found::traced(Trace::Destroyed),
            Content::Regenerated { forget, .. } if forget > now => Found::traced(Trace::Regenerated),
            _ => Found::nothing(),
        }
    }

    /// Where the row leads at `now`.
    pub fn leads_to(&self, bin: &Bin, now: Timestamp) -> Result<Option<Key>> {
        match self {
            Content::Regenerated { target, until, .. } if *until > now => {
                let key = Key::in_bin(bin.clone(), target);
                key.map(Some).map_err(|_| corrupt("a regenerated row leads to a malformed id"))
            }
            _ => Ok(None),
        }
    }

    /// The record, if it is one.
    pub fn into_record(self) -> Option<Record> {
        match self {
            Content::Live(record) => Some(record),
            _ => None,
        }
    }

    /// Whether the id is taken for `create` and `regenerate`.
    pub fn takes_id(&self, now: Timestamp) -> bool {
        match self {
            Content::Live(record) => !record.expired(now),
            Content::Destroyed { .. } => false,
            Content::Regenerated { until, .. } => *until > now,
        }
    }
}

/// What a lease goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A live record: its version and creation.
    Live { version: u64, created: Timestamp },
    /// None, but perhaps a tombstone.
    Nothing { mark: Option<i64> },
}

impl Seen {
    pub fn of(content: Option<&Content>, now: Timestamp) -> Seen {
        match content {
            Some(Content::Live(record)) if !record.expired(now) => {
                Seen::Live { version: record.version, created: record.created }
            }
            Some(Content::Destroyed { mark, .. }) => Seen::Nothing { mark: Some(*mark) },
            _ => Seen::Nothing { mark: None },
        }
    }

    /// Whether there is still what a lease that began at `begun` has seen. True: its record; false: nothing, and the lease
    /// may create one.
    ///
    /// # Errors
    ///
    /// `Destroyed`, `Stale` or `Gone` when it is not so.
    pub fn check(self, there: Option<&Content>, begun: Timestamp, now: Timestamp) -> Result<bool> {
        match (self, there) {
            (Seen::Live { version, created }, Some(content)) => match content {
                Content::Live(record) if record.version == version && record.created == created => Ok(true),
                Content::Destroyed { .. } => Err(destroyed()),
                _ => Err(replaced()),
            },
            (Seen::Live { .. }, None) => Err(gone()),
            // A tombstone is remembered for an hour; after that its absence proves nothing.
            (Seen::Nothing { .. }, None) if now.since(begun) >= Limits::TOMBSTONE_TTL => Err(gone()),
            (Seen::Nothing { .. }, None) => Ok(false),
            (Seen::Nothing { mark: seen }, Some(content)) => match content {
                Content::Destroyed { mark, .. } if seen != Some(*mark) => Err(destroyed()),
                content if content.takes_id(now) => Err(replaced()),
                _ => Ok(false),
            },
        }
    }
}

/// The head of the record that a commit makes: of the next version of one that was seen, or of a new one.
pub(crate) fn next_head(seen: Option<Record>, ttl: Ttl, now: Timestamp) -> Record {
    let Some(old) = seen else { return new_head(ttl, now) };
    let (expires, ends) = ttl.deadline(now, old.created, old.ends);
    Record { version: old.version + 1, written: now, expires, ends, ..old }
}

/// The head of a record that is created now.
pub(crate) fn new_head(ttl: Ttl, now: Timestamp) -> Record {
    let (expires, ends) = ttl.deadline(now, now, None);
    Record { payload: Vec::new(), version: 1, created: now, written: now, expires, ends }
}

/// Until when an id that was given up leads on, and until when it is told to have been one.
pub(crate) fn end_of_grace(now: Timestamp, grace: Duration) -> (Timestamp, Timestamp) {
    let until = now.plus(grace);
    (until, until.plus(Limits::TOMBSTONE_TTL))
}

/// A column's integers are signed; times of the contract are not. What does not fit is the end of time.
pub(crate) fn ms(time: Timestamp) -> i64 {
    i64::try_from(time.as_ms()).unwrap_or(i64::MAX)
}

/// A stored row that cannot be what this program wrote. Rows are never repaired silently.
pub(crate) fn corrupt(what: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, what)
        .advice("the row was left as it is; see the page of the store in docs/stores/, Repair")
}

pub(crate) fn circle() -> Error {
    corrupt("regenerated ids lead in a circle")
}

fn destroyed() -> Error {
    Error::new(ErrorKind::Destroyed, "the session was destroyed after it was read")
}

fn replaced() -> Error {
    Error::new(ErrorKind::Stale, "the record was replaced after it was read")
        .advice("nobody else may remove the locks of the store or change its rows")
}

fn gone() -> Error {
    Error::new(ErrorKind::Gone, "the record is gone, and so long ago that it may have been destroyed")
}

pub(crate) fn nothing_to_touch() -> Error {
    Error::new(ErrorKind::Gone, "there is no record to touch")
}

pub(crate) fn taken() -> Error {
    Error::new(ErrorKind::Exists, "the id is taken")
}

/// A lease that was inherited by fork.
pub(crate) fn not_ours() -> Error {
    Error::new(ErrorKind::Stale, "the lease belongs to the process that this one was forked from")
}
