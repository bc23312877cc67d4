//! The types of the operations on many records: sweep, stat, list.

use std::time::Duration;

use crate::{Bin, Error, ErrorKind, Head, Key, Owner, Result, Timestamp};

/// The bounds of one call of `sweep`. It stops at the first that is reached.
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

impl Budget {
    /// A caller that removes everything rests this many times as long as each call took.
    pub const REST_TIMES: u32 = 4;

    /// The rest of a caller after a call of `sweep` that took `call`; at most 1 s.
    ///
    /// Without rests a caller fills the buffers between a server and its disk, and then every
    /// request waits. A long call has waited itself.
    pub fn rest_after(call: Duration, times: u32) -> Duration {
        call.saturating_mul(times).min(Duration::from_secs(1))
    }
}

/// The work of one call of `sweep`. Only its own removals are counted.
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
    /// False when the store was too large to look at all of it: the counts are then lower bounds.
    pub complete: bool,
}

impl Stat {
    /// Counts one record, live or expired.
    pub fn count(&mut self, head: &Head, payload_bytes: u64, now: Timestamp) {
        if head.expired(now) {
            self.expired += 1;
            return;
        }
        self.sessions += 1;
        self.payload_bytes += payload_bytes;
        let oldest = self.oldest_written.get_or_insert(head.written);
        *oldest = head.written.min(*oldest);
    }
}

/// The position of a listing. Opaque to all but its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

impl Cursor {
    /// The content of the cursor.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` when `parse` does not know it.
    pub fn parse<'c, T>(&'c self, parse: impl FnOnce(&'c str) -> Option<T>) -> Result<T> {
        parse(&self.0).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, "the cursor is not one of this store")
                .advice("start without a cursor")
        })
    }
}

/// The position after this key, for a store that lists its keys in order.
impl From<&Key> for Cursor {
    fn from(key: &Key) -> Cursor {
        Cursor(format!("{}/{}", key.bin().name(), key.id()))
    }
}

/// The key of a position after it; `InvalidArgument` for a cursor of another store.
impl TryFrom<&Cursor> for Key {
    type Error = Error;

    fn try_from(cursor: &Cursor) -> Result<Key> {
        cursor.parse(|text| {
            let (bin, id) = text.split_once('/')?;
            Key::in_bin(Bin::new(bin).ok()?, id).ok()
        })
    }
}

/// Which records a listing returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Only this bin; all bins when `None`.
    pub bin: Option<Bin>,
    /// Only payloads of at least this many bytes.
    pub payload_bytes_min: u64,
    /// Only the sessions of this owner. One that has it, and keeps its id, while the listing lasts
    /// is in it.
    pub owner: Option<Owner>,
    /// Most records to look at in one call, 1 to [`crate::Limits::PAGE_ENTRIES_MAX`]; the page may
    /// be shorter.
    pub entries_max: usize,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { bin: None, payload_bytes_min: 0, owner: None, entries_max: 1_000 }
    }
}

impl Filter {
    /// Whether a listing returns a record of this key, size and owner.
    pub fn matches(&self, key: &Key, payload_bytes: u64, owner: Option<Owner>) -> bool {
        payload_bytes >= self.payload_bytes_min
            && self.bin.as_ref().is_none_or(|bin| bin == key.bin())
            && (self.owner.is_none() || self.owner == owner)
    }
}

/// One record of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key as stored (a digest where ids are hashed).
    pub key: Key,
    /// Payload size in bytes.
    pub payload_bytes: u64,
    /// Everything else, perhaps without `ends`: a listing need not read that.
    pub head: Head,
}

/// One bounded part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Live records. One that exists during the whole listing appears at least once, perhaps twice.
    pub entries: Vec<Listed>,
    /// The next position; `None` at the end. A page may be empty and still have a next one.
    pub next: Option<Cursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_counts_expired_records_apart_and_knows_the_oldest_live_one() {
        let ms = Timestamp::from_ms;
        let mut stat = Stat::default();
        for (written, expires) in [(30, 101), (20, 101), (10, 100)] {
            let (written, expires) = (ms(written), ms(expires));
            let head =
                Head { version: 1, created: written, written, expires, ends: None, owner: None };
            stat.count(&head, 7, ms(100));
        }
        let expected = Stat {
            sessions: 2,
            expired: 1,
            payload_bytes: 14,
            oldest_written: Some(ms(20)),
            complete: false,
        };
        assert_eq!(stat, expected);
    }

    #[test]
    fn a_rest_is_longer_than_the_call_and_ends() {
        let rest = Budget::rest_after(Duration::from_millis(20), Budget::REST_TIMES);
        assert_eq!(rest, Duration::from_millis(80));
        assert_eq!(Budget::rest_after(Duration::from_secs(5), 0), Duration::ZERO);
        assert_eq!(Budget::rest_after(Duration::MAX, 1_000), Duration::from_secs(1));
    }

    #[test]
    fn a_filter_looks_at_bin_size_and_owner() {
        let key = Key::session("a").unwrap();
        let large = Filter { payload_bytes_min: 8, ..Filter::default() };
        assert!(large.matches(&key, 8, None) && !large.matches(&key, 7, None));
        let others = Filter { bin: Bin::new("cache").ok(), ..Filter::default() };
        assert!(!others.matches(&key, 8, None));
        let [owner, another] = [b"17", b"18"].map(|name| Owner::new(name).ok());
        let owned = Filter { owner, ..Filter::default() };
        assert!(owned.matches(&key, 0, owner) && Filter::default().matches(&key, 0, owner));
        assert!(!owned.matches(&key, 0, another) && !owned.matches(&key, 0, None));
    }
}
