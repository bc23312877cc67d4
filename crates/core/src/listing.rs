//! The shapes of the operations that look at many records: sweep, stat, list.

use std::time::Duration;

use crate::{Bin, Key, Record, Timestamp};

/// How much one call of `sweep` may do. It stops at whichever bound is reached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most records to look at.
    pub records_max: u64,
    /// Longest time to work; checked between small batches, so a call may run over by one batch.
    pub time_max: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { records_max: 1_000, time_max: Duration::from_millis(20) }
    }
}

/// How long who removes everything rests between two calls of `sweep`: this many times as long as the call took.
///
/// A server has buffers between what it is told and its disk. Who goes on without a rest fills them, and then everybody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest(pub u32);

impl Default for Rest {
    fn default() -> Rest {
        Rest(4)
    }
}

impl Rest {
    /// At most: a call that took long has waited itself, and a pass should end.
    const MAX: Duration = Duration::from_secs(1);

    /// The rest after a call.
    pub fn after(self, call: Duration) -> Duration {
        call.saturating_mul(self.0).min(Rest::MAX)
    }
}

/// What one call of `sweep` did. The counts are true: what is counted was done by this call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Records looked at.
    pub examined: u64,
    /// Expired records removed (tombstones and spent aliases are not counted).
    pub removed: u64,
    /// The pass over the store is complete: the next call starts a new one.
    pub complete: bool,
}

/// Sizes, counts and ages of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Live records.
    pub sessions: u64,
    /// Records that have expired and are not removed yet.
    pub expired: u64,
    /// Sum of the live payloads in bytes.
    pub payload_bytes: u64,
    /// The earliest `written` among the live records.
    pub oldest_written: Option<Timestamp>,
    /// False when the store was too large to look at all of it; the counts are then lower bounds.
    pub complete: bool,
}

/// Where a listing goes on. Opaque to everyone but the store that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// Which records a listing returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Only this bin; all bins when `None`.
    pub bin: Option<Bin>,
    /// Only payloads of at least this many bytes.
    pub payload_bytes_min: u64,
    /// Most records to look at in one call, 1 to [`crate::Limits::PAGE_ENTRIES_MAX`]; the page may be shorter.
    pub entries_max: usize,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { bin: None, payload_bytes_min: 0, entries_max: 1_000 }
    }
}

/// One record of a listing, without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key as stored (a digest where ids are hashed).
    pub key: Key,
    /// Payload size in bytes.
    pub payload_bytes: u64,
    /// See [`crate::Record::version`].
    pub version: u64,
    /// See [`crate::Record::created`].
    pub created: Timestamp,
    /// See [`crate::Record::written`].
    pub written: Timestamp,
    /// See [`crate::Record::expires`].
    pub expires: Timestamp,
}

impl Entry {
    /// The entry of a record that was read as a whole.
    pub fn of(key: &Key, record: &Record) -> Entry {
        Entry {
            key: key.clone(),
            payload_bytes: record.payload.len() as u64,
            version: record.version,
            created: record.created,
            written: record.written,
            expires: record.expires,
        }
    }
}

/// One bounded part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Live records. One that exists during the whole listing appears at least once, perhaps twice.
    pub entries: Vec<Entry>,
    /// Where to go on; `None` at the end. A page may be empty and still have a next one.
    pub next: Option<Cursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_longer_than_the_call_and_ends() {
        assert_eq!(Rest::default().after(Duration::from_millis(20)), Duration::from_millis(80));
        assert_eq!(Rest(0).after(Duration::from_secs(5)), Duration::ZERO);
        assert_eq!(Rest(1_000).after(Duration::MAX), Duration::from_secs(1));
    }
}
