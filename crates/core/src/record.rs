//! Records: what is stored under a key, and what a look-up found.

use crate::{Key, Timestamp};

/// One stored session.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The bytes that the application stored; the contract never looks inside.
    pub payload: Vec<u8>,
    /// 1 when created, one more after each commit. Starts anew when the record is destroyed and created
    /// again, which is why it is not a fence. Stores that share a foreign layout may only know 0.
    pub version: u64,
    /// When the record was created. Kept by `regenerate`.
    pub created: Timestamp,
    /// When the payload was last committed. A touch does not change it.
    pub written: Timestamp,
    /// From this moment on the record reads as missing.
    pub expires: Timestamp,
    /// Absolute end, beyond which no commit or touch can move `expires`.
    pub ends: Option<Timestamp>,
}

impl Record {
    /// Whether the record must read as missing at `now`. Not by one millisecond may it be returned.
    pub fn expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }
}

// A payload holds carts and log-ins: it must not end up in a log line by way of `{:?}`.
impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("payload_bytes", &self.payload.len())
            .field("version", &self.version)
            .field("created", &self.created)
            .field("written", &self.written)
            .field("expires", &self.expires)
            .field("ends", &self.ends)
            .finish()
    }
}

/// What a store found under a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The live record. Missing or expired is `None`, never an error.
    pub record: Option<Record>,
    /// The id was regenerated, its grace still runs, and `record` was found (and locked) under this key.
    pub moved_to: Option<Key>,
    /// Why there is no record, where the store still knows.
    pub trace: Trace,
}

impl Found {
    /// Nothing, and nothing known about it.
    pub fn nothing() -> Found {
        Found::default()
    }

    /// A live record under the key that was asked for.
    pub fn live(record: Record) -> Found {
        Found { record: Some(record), ..Found::default() }
    }

    /// No record, but a memory of one.
    pub fn traced(trace: Trace) -> Found {
        Found { trace, ..Found::default() }
    }
}

/// What a store remembers of an id that has no record (any more).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// Nothing: never seen, expired, or forgotten.
    #[default]
    Unknown,
    /// The session was destroyed (a log-out).
    Destroyed,
    /// The id was regenerated and its grace is over. Its use may be an attack, so it is counted.
    Regenerated,
}
