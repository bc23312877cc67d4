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
        return store.change(&REGENERATE, &held.key, &others, args).map(drop);
    }
    let changed = store.change_slot(held, new, &lock, &alias, now);
    let Err(error) = &changed else { return Ok(()) };
    // Of a session that was destroyed no copy may stay. In any other doubt the copy may be the
    // session: only its lock goes, at the next begin.
    let in_doubt = *error.kind() == ErrorKind::Unreachable
        || is_unanswered() && *error.kind() != ErrorKind::Destroyed;
    if in_doubt || store.run::<i64>(&WITHDRAW, new, &[], (&held.token,)).is_err() {
        store.orphans.remember(new, &held.token);
    }
    changed
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
            let copy = if has_record { self.stored_bytes(&held.key)? } else { Vec::new() };
            let args = (&held.token, now.as_ms(), lock, lock_ttl, &copy, self.life_of(&copy, now));
            self.change(&ARRIVE, new, &[], args)?;
            let copied = copy.get(..HEADER_BYTES).unwrap_or_default();
            let args = (&held.token, &held.read, alias, alias_px, has_record, copied);
            if self.change(&DEPART, &held.key, &[], args)?.is_none() {
                return Ok(());
            }
        }
        Err(stale())
    }

    fn stored_bytes(&self, key: &Key) -> Result<Vec<u8>> {
        let mut get = redis::cmd("GET");
        get.arg(self.names.data(key));
        Ok(self.query::<Option<Vec<u8>>>(key, &get)?.unwrap_or_default())
    }

    /// For how many milliseconds the server keeps the copy. Of what is no record, only until the
    /// other slot refuses.
    fn life_of(&self, copy: &[u8], now: Timestamp) -> u64 {
        let stored = decode_header(copy, |_| Ok(())).ok();
        let due = stored.and_then(|stored: Stored<()>| stored.due());
        ms(due.map_or(Duration::ZERO, |due| due.since(now)) + EXPIRY_SLACK)
    }
}
