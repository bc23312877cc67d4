//! Sessions copied from the storage of another program into one of our stores.
//!
//! Invariants: those of a copy between stores, with what the other program keeps. The session that
//! ends later wins, unless the other program knows its last use, and that came before the other
//! session was written. An empty session replaces none: Sessile's own integrations keep empty rows
//! in the tables of their programs. The old storage is read and never changed.
//!
//! A content is read only where it is needed: before 7.2, Redis takes that for a use. So a
//! repetition cannot make a session of the old storage look later than the new one, which a visitor
//! has used since.

use sessile_core::{
    Absence, Begun, Clock, Error, ErrorKind, Found, Head, Key, OwnerChange, Result, Sessions,
    Timestamp, Ttl,
};

use super::{Compared, ROUNDING_MS, WAIT_MAX};
use crate::layouts::{EntryName, ForeignSession, ScannedEntry, Walk};

/// Moments of a use are in whole seconds, and come before or after what is saved.
const USE_ROUNDING_MS: u64 = 2_000;

/// A storage of another program, and a store of ours.
pub struct Import {
    label: String,
    walk: Box<dyn Walk>,
    to: Sessions,
    clock: Clock,
}

/// The life of a session, as the other program tells it.
#[derive(Clone, Copy)]
struct Life {
    used: Option<Timestamp>,
    expires: Timestamp,
}

/// A session of the old storage under its key.
struct Old {
    key: Key,
    life: Life,
    session: ForeignSession,
}

impl Import {
    /// A copy from what [`layouts::open_to_copy`] has opened, with its label.
    ///
    /// [`layouts::open_to_copy`]: crate::layouts::open_to_copy
    pub fn new((label, walk): (String, Box<dyn Walk>), to: Sessions, clock: Clock) -> Import {
        Import { label, walk, to, clock }
    }

    /// The old storage, without a password, and the new store.
    pub fn labels(&self) -> [&str; 2] {
        [&self.label, self.to.label()]
    }

    /// About how many entries the old storage has, as far as it can tell.
    pub fn count(&mut self) -> Option<u64> {
        self.walk.count()
    }

    /// The next sessions, about so many, without their contents, and whether there are more.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn page(&mut self, entries_max: usize) -> Result<(Vec<ScannedEntry>, bool)> {
        let mut entries = Vec::new();
        let more = self.walk.page(entries_max, &mut |entry| entries.push(entry))?;
        Ok((entries, more))
    }

    /// Compares and changes nothing.
    ///
    /// # Errors
    ///
    /// `InvalidId` for an id that no store of ours takes; `Corrupt` for a content that is not what
    /// the program writes.
    pub fn compare(&mut self, entry: &ScannedEntry) -> Result<Compared> {
        self.look(entry).map(|(compared, _)| compared)
    }

    /// Copies what is missing in the new store or older there. Returns what was found before.
    ///
    /// # Errors
    ///
    /// As [`Import::compare`]; `LockTimeout` while the session is held in the new store; `TooLarge`
    /// for one that it does not take.
    pub fn copy(&mut self, entry: &ScannedEntry) -> Result<Compared> {
        let (found, old) = self.look(entry)?;
        let Some(old) = old.filter(|_| found.is_behind()) else { return Ok(found) };
        let Begun { mut lease, record, absence, moved } = self.to.begin(&old.key, WAIT_MAX)?;
        let moved_to = moved.then(|| lease.key().clone());
        let found = self.compared(&old, &Found { record, moved_to, absence });
        let Some(rest) = old.rest(self.clock.now()) else { return Ok(Compared::Ended) };
        if found.is_behind() {
            if self.to.capabilities().owners {
                lease.change_owner(old.session.owner)?;
            }
            lease.commit(&old.session.payload, rest)?;
            // Logged out meanwhile.
            if self.walk.read(entry)?.is_none() {
                self.to.destroy(&old.key)?;
                return Ok(Compared::Ended);
            }
        }
        Ok(found)
    }

    /// The session of the old storage, unless its life alone tells that it is not the later one.
    fn look(&mut self, entry: &ScannedEntry) -> Result<(Compared, Option<Old>)> {
        let key = key_of(&entry.name)?;
        let ended = Ok((Compared::Ended, None));
        let Some(life) = self.life(entry.used, entry.expires)? else { return ended };
        let found = self.to.find(&key)?;
        match absent(&found) {
            Some(gone @ Compared::EndedInNew) => return Ok((gone, None)),
            None if !found.record.iter().all(|new| life.may_be_later(&new.head)) => {
                return Ok((Compared::Newer, None));
            }
            _ => {}
        }
        let Some(session) = self.walk.read(entry)? else { return ended };
        let Some(life) = self.life(session.used, session.expires)? else { return ended };
        let old = Old { key, life, session };
        Ok((self.compared(&old, &found), Some(old)))
    }

    /// `None` if it is over.
    fn life(&self, used: Option<Timestamp>, expires: Option<Timestamp>) -> Result<Option<Life>> {
        let expires = expires.ok_or_else(endless)?;
        Ok((expires > self.clock.now()).then_some(Life { used, expires }))
    }

    fn compared(&self, old: &Old, found: &Found) -> Compared {
        compared(old, found, self.to.capabilities().owners)
    }
}

impl Life {
    /// Whether it may be the same, or was used later.
    fn may_be_later(self, new: &Head) -> bool {
        self.is_near(new) || self.is_later(new)
    }

    fn is_near(self, new: &Head) -> bool {
        self.expires.as_ms().abs_diff(new.expires.as_ms()) <= ROUNDING_MS
    }

    fn ends_later(self, new: &Head) -> bool {
        self.expires > new.expires && !self.is_near(new)
    }

    /// A use alone proves nothing: Redis forgets idle times when it starts.
    fn is_later(self, new: &Head) -> bool {
        let is_before = |used: Timestamp| used.as_ms() + USE_ROUNDING_MS < new.written.as_ms();
        self.ends_later(new) && !self.used.is_some_and(is_before)
    }
}

impl Old {
    /// The time that the session has left, for the copy. A session whose creation is unknown counts
    /// as created at its last use.
    fn rest(&self, now: Timestamp) -> Option<Ttl> {
        let created = self.life.used.unwrap_or(now);
        let head = Head {
            version: 0,
            created,
            written: created,
            expires: self.life.expires,
            ends: None,
            owner: None,
        };
        Ttl::rest_of(&head, now)
    }
}

/// What a look-up without a record means.
fn absent(found: &Found) -> Option<Compared> {
    if found.moved_to.is_some() {
        return Some(Compared::EndedInNew);
    }
    let is_known = found.absence != Absence::Unknown;
    match found.record {
        Some(_) => None,
        // Logged out in the new store, or replaced there.
        None if is_known => Some(Compared::EndedInNew),
        None => Some(Compared::Missing),
    }
}

fn compared(old: &Old, found: &Found, with_owners: bool) -> Compared {
    let (None, Some(new)) = (absent(found), &found.record) else {
        return absent(found).unwrap_or(Compared::EndedInNew);
    };
    let is_owned_alike = match old.session.owner {
        OwnerChange::Set(owner) if with_owners => owner == new.head.owner,
        _ => true,
    };
    let is_alike = new.payload == old.session.payload && is_owned_alike;
    let life = old.life;
    if is_alike && life.is_near(&new.head) {
        return Compared::Same;
    }
    if life.is_later(&new.head) && !old.session.is_empty {
        Compared::Older
    } else {
        Compared::Newer
    }
}

fn key_of(name: &EntryName) -> Result<Key> {
    let id = match name {
        EntryName::Secret(id) => str::from_utf8(id).ok(),
        EntryName::Tagged(_) | EntryName::Shown(_) => None,
    };
    // An id that is no text is as malformed as an empty one.
    Key::session(id.unwrap_or_default())
}

fn endless() -> Error {
    Error::new(ErrorKind::Corrupt, "the session has no expiry")
        .advice("give it one (in Redis: EXPIRE), or delete it")
}

#[cfg(all(test, feature = "memory"))]
#[allow(clippy::unwrap_used, reason = "tests")]
#[path = "foreign_tests.rs"]
mod tests;
