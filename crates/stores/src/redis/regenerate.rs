//! Giving a session a new id.
//!
//! On one server it is one script. In a cluster the two ids are in two slots, mostly on two
//! servers, and it takes three steps:
//!
//! 1. Read the record under the old id.
//! 2. `arrive.lua`, in the new slot: a copy of it, and our lock.
//! 3. `depart.lua`, in the old slot: an alias takes the place of the record, if that is still the
//!    one that was copied and the lease is still good. If it was touched, begin again.
//!
//! Step 3 is the moment of the change. Before it the old id has the session, and the new id has a
//! copy of which nobody knows; after it the old id leads to the new one, which has had the session
//! since step 2. So a reader finds one of them at any time, whichever process or server dies
//! (docs/decisions/0032).

use std::time::Duration;

use sessile_core::{ErrorKind, Key, Result, Stored, Timestamp};

use super::begin::Held;
use super::bounded::Bounded;
use super::script::{ARRIVE, DEPART, REGENERATE, WITHDRAW, stale};
use super::value::{HEADER_BYTES, decode_header, held_value};
use super::{EXPIRY_SLACK, ms};
use crate::connections::doubt::is_unanswered;

/// A touch without a lease may come between the copy and the change, but not for ever.
const COPIES_MAX: usize = 8;

pub fn regenerate(store: &Bounded<'_>, held: &Held, new: &Key, grace: Duration) -> Result<()> {
    let now = store.clock.now();
    let alias = store.value(&Stored::alias(new.clone(), grace, now), &held.token, b"", now);
    let lock = (held_value(&held.token, held.since), ms(store.lock_ttl));
    if store.servers.cluster().is_none() {
        let (alias, px) = alias;
        let args = (&held.token, &held.read, now.as_ms(), lock, alias, px, held.head.is_some());
        let others = store.names.of(new);
        let changed = store.change(&REGENERATE, &held.key, &others, args).map(drop);
        // If it was made, the lock under the new id must not stay for its time.
        return changed.inspect_err(|error| {
            if *error.kind() == ErrorKind::Unreachable || is_unanswered() {
                store.orphans.remember(new, &held.token);
            }
        });
    }
    let changed = store.change_slot(held, new, &lock, &alias, now);
    let Err(error) = &changed else { return Ok(()) };
    // Of a session that was destroyed no copy may stay. In any doubt the copy may be the session:
    // only its lock goes, at the next begin.
    let is_withdrawn = match error.kind() {
        ErrorKind::Destroyed => true,
        ErrorKind::Stale | ErrorKind::Gone | ErrorKind::Exists => !is_unanswered(),
        _ => false,
    };
    if !is_withdrawn || store.run::<i64>(&WITHDRAW, new, &[], (&held.token,)).is_err() {
        store.orphans.remember(new, &held.token);
    }
    changed
}

/// The state of the old id, as a regeneration finds it.
enum Source {
    /// To be copied. Empty for what has no payload to copy: the old slot sorts it out.
    Copy(Vec<u8>),
    /// An earlier try, whose answer was lost, has made the change. The old slot says so again.
    Done,
    /// Somebody else's alias, or our own to another id.
    Moved,
}

impl Bounded<'_> {
    fn change_slot(
        &self,
        held: &Held,
        new: &Key,
        (lock, lock_ttl): &(Vec<u8>, u64),
        (alias, alias_px): &(Vec<u8>, u64),
        now: Timestamp,
    ) -> Result<()> {
        let has_record = held.head.is_some();
        for _ in 0..COPIES_MAX {
            let source = has_record.then(|| self.source(held, new)).transpose()?;
            let (copy, is_done) = match source {
                Some(Source::Moved) => return Err(stale()),
                Some(Source::Copy(copy)) => (copy, false),
                Some(Source::Done) => (Vec::new(), true),
                None => (Vec::new(), false),
            };
            if !is_done {
                let lease = (held.fence, lock, lock_ttl);
                let args = (&held.token, now.as_ms(), lease, &copy, self.life_of(&copy, now));
                self.change(&ARRIVE, new, &[self.names.fence_of_slot(new)], args)?;
            }
            let copied = copy.get(..HEADER_BYTES).unwrap_or_default();
            let args = (&held.token, &held.read, alias, alias_px, has_record, copied);
            if self.change(&DEPART, &held.key, &[], args)?.is_none() {
                return Ok(());
            }
        }
        Err(stale())
    }

    /// A copy must be of a live record: an alias that arrived under the id to which it leads would
    /// take the place of the session.
    fn source(&self, held: &Held, new: &Key) -> Result<Source> {
        let mut get = redis::cmd("GET");
        get.arg(self.names.data(&held.key));
        let Some(value) = self.query::<Option<Vec<u8>>>(&held.key, &get)? else {
            return Ok(Source::Copy(Vec::new()));
        };
        let is_ours = value.get(2..10) == held.token.get(..8);
        Ok(match decode_header(&value, |id| Ok(id.to_vec()))? {
            Stored::Live(_) => Source::Copy(value),
            Stored::Alias { target, .. } if is_ours && target == new.id().as_bytes() => {
                Source::Done
            }
            Stored::Alias { .. } => Source::Moved,
            _ => Source::Copy(Vec::new()),
        })
    }

    /// For how many milliseconds the server keeps the copy. Of what is no record, only until the
    /// other slot refuses.
    fn life_of(&self, copy: &[u8], now: Timestamp) -> u64 {
        let stored = decode_header(copy, |_| Ok(())).ok();
        let due = stored.and_then(|stored: Stored<()>| stored.due());
        ms(due.map_or(Duration::ZERO, |due| due.since(now)) + EXPIRY_SLACK)
    }
}
