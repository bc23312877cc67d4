//! Records, and the result of a look-up.

use std::fmt;

use crate::{Key, Owner, Timestamp, Ttl};

/// One stored session.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// The bytes that the application stored. The contract never looks inside.
    pub payload: Vec<u8>,
    /// Everything else.
    pub head: Head,
}

/// Everything of a record but its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// 1 when created, one more after each commit. Not a fence: it starts anew when the record is
    /// destroyed and created again. Stores that share a foreign layout may only know 0.
    pub version: u64,
    /// When the record was created. Kept by `regenerate`.
    pub created: Timestamp,
    /// When the payload was last committed. A touch does not change it.
    pub written: Timestamp,
    /// From this moment on the record reads as missing.
    pub expires: Timestamp,
    /// Absolute end, beyond which no commit or touch can move `expires`.
    pub ends: Option<Timestamp>,
    /// The user to whom the session belongs. Kept by commits, touches and `regenerate`, until
    /// another one is set.
    pub owner: Option<Owner>,
}

impl Head {
    /// The head that a commit writes: of the version after `old`, or of a new record.
    ///
    /// `old` may have expired under its lease: it keeps its creation, its absolute end and its
    /// owner.
    pub fn next(old: Option<Head>, ttl: Ttl, now: Timestamp) -> Head {
        let created = old.map_or_else(|| ttl.created(now), |old| old.created);
        let (expires, ends) = ttl.deadline(now, created, old.and_then(|old| old.ends));
        let version = old.map_or(0, |old| old.version).saturating_add(1);
        let owner = old.and_then(|old| old.owner);
        Head { version, created, written: now, expires, ends, owner }
    }

    /// The head with the owner that a commit sets; a commit that sets none keeps the present one.
    #[inline]
    #[must_use]
    pub fn with_owner(mut self, set: OwnerChange) -> Head {
        self.owner = set.after(self.owner);
        self
    }

    /// Whether the record must read as missing at `now`, exact to the millisecond.
    pub fn expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }
}

/// What a commit does with the owner of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnerChange {
    /// It stays as it is; a new record has none.
    #[default]
    Keep,
    /// The session gets this one, or none.
    Set(Option<Owner>),
}

impl OwnerChange {
    /// The owner of a session that had this one.
    pub fn after(self, before: Option<Owner>) -> Option<Owner> {
        match self {
            OwnerChange::Keep => before,
            OwnerChange::Set(owner) => owner,
        }
    }
}

// A payload holds carts and log-ins: `{:?}` must not put it into a log line.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record {{ {:?}, payload_bytes: {} }}", self.head, self.payload.len())
    }
}

/// The result of a look-up. The default: nothing found, nothing known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The live record. Missing or expired is `None`, never an error.
    pub record: Option<Record>,
    /// The key under which `record` was found (and locked), if the id was regenerated and is within
    /// its grace.
    pub moved_to: Option<Key>,
    /// Why there is no record, if the store knows.
    pub absence: Absence,
}

// A compiler copies up to 128 bytes in registers and more by a call. A look-up is handed on several
// times in each request: 16 bytes more once cost 3 % of a cycle of the engine.
const _: () = assert!(size_of::<Found>() <= 128);

/// Why an id has no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Absence {
    /// Never seen, expired, or forgotten.
    #[default]
    Unknown,
    /// The session was destroyed (a log-out).
    Destroyed,
    /// The id was regenerated and its grace is over. Its use may be an attack, so it is counted.
    Regenerated,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_000);

    fn ttl(idle_ms: u64) -> Ttl {
        Ttl::sliding(Duration::from_millis(idle_ms)).unwrap()
    }

    #[test]
    fn a_new_record_has_version_1_and_the_next_one_keeps_creation_and_absolute_end() {
        let capped = ttl(100).within(Duration::from_millis(150)).unwrap();
        let first = Head::next(None, capped, NOW);
        let ends = Some(Timestamp::from_ms(1_150));
        let expires = Timestamp::from_ms(1_100);
        let owner = None;
        assert_eq!(first, Head { version: 1, created: NOW, written: NOW, expires, ends, owner });
        // Committed after it expired under its lease, by a ttl without an absolute lifetime.
        let owner = Owner::new(b"17").ok();
        let first = first.with_owner(OwnerChange::Set(owner)).with_owner(OwnerChange::Keep);
        let later = Timestamp::from_ms(1_120);
        let second = Head::next(Some(first), ttl(100), later);
        let expires = Timestamp::from_ms(1_150);
        assert_eq!(second, Head { version: 2, created: NOW, written: later, expires, ends, owner });
        assert_eq!(second.with_owner(OwnerChange::Set(None)).owner, None);
    }

    #[test]
    fn a_version_does_not_start_again_at_its_end() {
        let last = Head { version: u64::MAX, ..Head::next(None, ttl(1), NOW) };
        assert_eq!(Head::next(Some(last), ttl(1), NOW).version, u64::MAX);
    }

    #[test]
    fn debug_shows_no_payload() {
        let record = Record { payload: b"secret".to_vec(), head: Head::next(None, ttl(1), NOW) };
        assert!(format!("{record:?}").contains("payload_bytes: 6"));
        assert!(!format!("{record:?}").contains("115"), "the bytes are in it");
    }
}
