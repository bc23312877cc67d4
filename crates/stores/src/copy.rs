//! Sessions copied from one store to another, one at a time: with id, payload, creation, expiry,
//! absolute end and owner.
//!
//! Invariants: the session that was written later wins, so a copy can be repeated. A session that
//! ended in the old store while it was copied is removed from the new one again, and one that ended
//! in the new store is not copied. A log-out *after* that does not reach the copy: for a site that
//! is in use, sessions are moved (`migrate:`), not copied.

mod foreign;

use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sessile_core::{
    Absence, Begun, Clock, Error, ErrorKind, Found, Head, Key, Record, Result, Sessions, Ttl,
};

pub use foreign::Import;

/// How long a copy waits for a session that is held in the new store.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Moments that one store rounds, and another does not.
const ROUNDING_MS: u64 = 1_000;

/// The new store against the old one, for one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compared {
    /// The new store does not have it.
    Missing,
    /// The old store has a later version.
    Older,
    /// Payload and life are equal, and the owner where both stores keep owners.
    Same,
    /// The new store has a later version, or a copy whose life has changed since.
    Newer,
    /// It has ended in the old store, or has another id there.
    Ended,
    /// It has ended in the new store, or has another id there: a log-out, or a move to the old one.
    EndedInNew,
}

/// Two stores.
pub struct Pair {
    /// The old store, which is listed.
    pub from: Sessions,
    /// The new store.
    pub to: Sessions,
    /// The clock of both.
    pub clock: Clock,
}

impl Pair {
    /// Compares and changes nothing.
    pub fn compare(&self, key: &Key) -> Result<Compared> {
        match self.old(key)? {
            None => Ok(Compared::Ended),
            Some(old) => Ok(self.compared(&old, &self.to.find(key)?)),
        }
    }

    /// Whether the owners of sessions can be carried from the old store into the new one.
    pub fn carries_owners(&self) -> bool {
        [&self.from, &self.to].iter().all(|store| store.capabilities().owners)
    }

    /// Whether sessions lose their owners: the new store keeps none.
    pub fn loses_owners(&self) -> bool {
        self.from.capabilities().owners && !self.to.capabilities().owners
    }

    fn compared(&self, old: &Record, found: &Found) -> Compared {
        compared(old, found, self.carries_owners())
    }

    /// What the old store has under this very id: an id that was replaced may have been planted.
    fn old(&self, key: &Key) -> Result<Option<Record>> {
        let found = self.from.find(key)?;
        Ok(found.record.filter(|_| found.moved_to.is_none()))
    }

    /// Copies what is missing in the new store or older there. Returns what was found before.
    ///
    /// # Errors
    ///
    /// `LockTimeout` while the session is held in the new store.
    pub fn copy(&self, key: &Key) -> Result<Compared> {
        let Some(mut old) = self.old(key)? else { return Ok(Compared::Ended) };
        let found = self.compared(&old, &self.to.find(key)?);
        if !found.is_behind() {
            return Ok(found);
        }
        let found = self.write(key, &old, None)?;
        let mut written = found;
        // A save in the old store meanwhile is older than the copy, and yet the later version.
        while written.is_behind() {
            match self.old(key)? {
                Some(now) if now == old => break,
                Some(now) => {
                    written = self.write(key, &now, Some(&old))?;
                    old = now;
                }
                None => {
                    self.to.destroy(key)?;
                    return Ok(Compared::Ended);
                }
            }
        }
        Ok(found)
    }

    /// Writes a version where the new store is behind it or has what was `copied` just now. Returns
    /// what was found.
    fn write(&self, key: &Key, old: &Record, copied: Option<&Record>) -> Result<Compared> {
        let Begun { mut lease, record, absence, moved } = self.to.begin(key, WAIT_MAX)?;
        let moved_to = moved.then(|| lease.key().clone());
        let is_copy = |new: &Record| copied.is_some_and(|copied| new.payload == copied.payload);
        let found = match &record {
            Some(new) if moved_to.is_none() && is_copy(new) => Compared::Older,
            _ => self.compared(old, &Found { record, moved_to, absence }),
        };
        let Some(rest) = Ttl::rest_of(&old.head, self.clock.now()) else {
            return Ok(Compared::Ended);
        };
        if found.is_behind() {
            // Also none: the session may have had one when it was copied before.
            if self.carries_owners() {
                lease.set_owner(old.head.owner)?;
            }
            lease.commit(&old.payload, rest)?;
        }
        Ok(found)
    }
}

impl Compared {
    fn is_behind(self) -> bool {
        matches!(self, Compared::Missing | Compared::Older)
    }
}

fn compared(old: &Record, found: &Found, with_owners: bool) -> Compared {
    if found.moved_to.is_some() {
        return Compared::EndedInNew;
    }
    let Some(new) = &found.record else {
        // Logged out in the new store, or replaced there.
        let is_known = found.absence != Absence::Unknown;
        return if is_known { Compared::EndedInNew } else { Compared::Missing };
    };
    let is_owned_alike = !with_owners || new.head.owner == old.head.owner;
    if new.payload == old.payload && has_life_of(&new.head, &old.head) && is_owned_alike {
        Compared::Same
    } else if new.head.written < old.head.written {
        Compared::Older
    } else {
        Compared::Newer
    }
}

fn has_life_of(new: &Head, old: &Head) -> bool {
    let near = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) <= ROUNDING_MS,
        (one, other) => one == other,
    };
    let moments = |head: &Head| {
        [Some(head.created), Some(head.expires), head.ends].map(|moment| Some(moment?.as_ms()))
    };
    moments(new).into_iter().zip(moments(old)).all(|(new, old)| near(new, old))
}

/// Whether a store can be copied: it lists its sessions and keeps ids.
///
/// # Errors
///
/// `Unsupported`.
pub fn check_old(from: &Sessions) -> Result<()> {
    if !from.capabilities().listing {
        return Err(unsupported(format!("{} cannot list its sessions", from.label())));
    }
    let probe = Key::session("probe")?;
    if from.listed_key(&probe) != probe {
        return Err(unsupported(format!("{} keeps digests in place of ids", from.label())));
    }
    Ok(())
}

fn unsupported(why: String) -> Error {
    Error::new(ErrorKind::Unsupported, why)
        .advice("let sessions move when they are used: migrate:?from=URL&to=URL")
}

/// The URL of the `migrate:` store of two others.
pub fn migrate_url(from: &str, to: &str) -> String {
    const IN_OPTION: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'&').add(b'#');
    let [from, to] = [from, to].map(|url| utf8_percent_encode(url, IN_OPTION));
    format!("migrate:?from={from}&to={to}")
}
