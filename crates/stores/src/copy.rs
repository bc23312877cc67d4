//! Sessions copied from one store to another, one at a time: with id, payload, creation, expiry
//! and absolute end.
//!
//! Invariants: the session that was written later wins, so a copy can be repeated. A session that
//! ended in the old store while it was copied is removed from the new one again. A log-out *after*
//! that does not reach the copy: for a site that is in use, sessions are moved (`migrate:`), not
//! copied.

use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sessile_core::{Clock, Error, ErrorKind, Head, Key, Record, Result, Sessions, Ttl};

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
    /// Payload and life are equal.
    Same,
    /// The new store has a later version, or a copy whose life has changed since.
    Newer,
    /// It has ended in the old store meanwhile.
    Ended,
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
    /// Whether the old store can be copied: it lists its sessions and keeps ids.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn check(&self) -> Result<()> {
        if !self.from.capabilities().listing {
            return Err(unsupported(format!("{} cannot list its sessions", self.from.label())));
        }
        let probe = Key::session("probe")?;
        if self.from.listed_key(&probe) != probe {
            let why = format!("{} keeps digests in place of ids", self.from.label());
            return Err(unsupported(why));
        }
        Ok(())
    }

    /// Compares and changes nothing.
    pub fn compare(&self, key: &Key) -> Result<Compared> {
        match self.from.find(key)?.record {
            None => Ok(Compared::Ended),
            Some(old) => Ok(compared(&old, self.to.peek(key)?.as_ref())),
        }
    }

    /// Copies what is missing in the new store or older there. Returns what was found before.
    ///
    /// # Errors
    ///
    /// `LockTimeout` while the session is held in the new store.
    pub fn copy(&self, key: &Key) -> Result<Compared> {
        let Some(old) = self.from.find(key)?.record else { return Ok(Compared::Ended) };
        let found = compared(&old, self.to.peek(key)?.as_ref());
        if !matches!(found, Compared::Missing | Compared::Older) {
            return Ok(found);
        }
        let begun = self.to.begin(key, WAIT_MAX)?;
        let found = compared(&old, begun.record.as_ref());
        let Some(rest) = Ttl::rest_of(&old.head, self.clock.now()) else {
            return Ok(Compared::Ended);
        };
        if matches!(found, Compared::Missing | Compared::Older) {
            begun.lease.commit(&old.payload, rest)?;
            if self.from.peek(key)?.is_none() {
                self.to.destroy(key)?;
                return Ok(Compared::Ended);
            }
        }
        Ok(found)
    }
}

fn compared(old: &Record, new: Option<&Record>) -> Compared {
    let Some(new) = new else { return Compared::Missing };
    if new.payload == old.payload && has_life_of(&new.head, &old.head) {
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

fn unsupported(why: String) -> Error {
    Error::new(ErrorKind::Unsupported, why)
        .advice("let sessions move when they are used: migrate:?from=URL&to=URL")
}

/// The URL of the `migrate:` store of two others.
pub fn migrate_url(from: &str, to: &str) -> String {
    const IN_OPTION: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'&').add(b'#').add(b'+');
    let [from, to] = [from, to].map(|url| utf8_percent_encode(url, IN_OPTION));
    format!("migrate:?from={from}&to={to}")
}
