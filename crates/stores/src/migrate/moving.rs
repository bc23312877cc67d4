//! `begin`, which moves a session that is still in the old store.
//!
//! A move takes the locks of both stores, that of the new one first. A commit gives up the lock of
//! the new store, so the move takes it once more, and ends under both: what happened in between is
//! seen. A process that dies on the way leaves the session in the old store, or in both: then the
//! new one counts.

use std::time::{Duration, Instant};

use sessile_core::{Absence, Begun, Error, ErrorKind, Found, Key, Lease, Record, Result, Ttl};

use super::Migrate;
use crate::layouts::end_without_tombstone;

/// Each failed attempt is a change by another request.
const ATTEMPTS_MAX: usize = 100;

impl Migrate {
    /// A look-up in the old store, where the new one may not have the session yet. An id that was
    /// replaced in the new store is never looked for in the old one.
    pub fn find_old(&self, key: &Key, absence: Absence) -> Result<Found> {
        if absence == Absence::Regenerated {
            return Ok(Found::default());
        }
        let old = self.from.find(key)?;
        if absence == Absence::Destroyed && self.old_forgets {
            // A request of an old worker that lasted beyond the log-out has saved it.
            if old.record.is_some() {
                self.from.destroy(key)?;
            }
            return Ok(Found::default());
        }
        Ok(old)
    }

    pub fn begin_moving(&self, asked: &Key, wait_max: Duration) -> Result<Begun> {
        let (start, mut key) = (Instant::now(), asked.clone());
        let left = || wait_max.saturating_sub(start.elapsed());
        for _ in 0..ATTEMPTS_MAX {
            let mut begun = self.to.begin(&key, left())?;
            if begun.record.is_none() {
                // An id within its grace in the new store has led on.
                key = begun.lease.key().clone();
                let old = self.find_old(&key, begun.absence)?;
                match old.moved_to {
                    // Its session may have moved; where ids are digests, under an unknown id.
                    Some(target) if !self.old_keeps_digests() => {
                        key = target;
                        continue;
                    }
                    Some(_) => begun.absence = Absence::Regenerated,
                    None if old.record.is_some() => {
                        let Some(moved) = self.move_session(begun, &key, &left)? else { continue };
                        begun = moved;
                    }
                    None if begun.absence == Absence::Unknown => begun.absence = old.absence,
                    None => {}
                }
            }
            begun.moved |= key != *asked;
            return Ok(begun);
        }
        let why = format!("the session was moved or changed at each of {ATTEMPTS_MAX} attempts");
        Err(Error::new(ErrorKind::Io, why).advice("try again"))
    }

    /// Returns the session, moved and held in the new store; `None` if it has changed before both
    /// locks were taken.
    fn move_session(
        &self,
        begun: Begun,
        key: &Key,
        left: &dyn Fn() -> Duration,
    ) -> Result<Option<Begun>> {
        let Begun { lease: mut old_lease, record, moved, .. } = self.from.begin(key, left())?;
        let Some(record) = record.filter(|_| !moved) else { return Ok(None) };
        let Some(rest) = Ttl::rest_of(&record.head, self.clock.now()) else { return Ok(None) };
        let mut new_lease = begun.lease;
        if self.to.capabilities().owners {
            new_lease.set_owner(record.head.owner)?;
        }
        match new_lease.commit(&record.payload, rest) {
            Ok(()) => {}
            Err(error) if lost_lock(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        // Nothing on a disk may be destroyed before its successor is on one.
        match self.to.sync() {
            Err(error) if *error.kind() != ErrorKind::Unsupported => {
                self.end_revoked((&mut old_lease, &record), key);
                return Err(error);
            }
            _ => {}
        }
        let mut moved = self.to.begin(key, left()).inspect_err(|error| {
            self.end_revoked((&mut old_lease, &record), key);
            // Others hold it by now: it has moved.
            if matches!(error.kind(), ErrorKind::LockTimeout { .. }) {
                let _ = self.end_old(&mut old_lease, key);
            }
        })?;
        if self.has_ended(&mut moved, (&mut old_lease, &record), key)? {
            drop(moved);
            self.to.destroy(key)?;
            return Ok(None);
        }
        // Without a reason the new store has lost it, or it has expired: it is looked up again.
        if moved.record.is_none() && moved.absence == Absence::Unknown {
            return Ok(None);
        }
        self.end_old(&mut old_lease, key)?;
        Ok(Some(moved).filter(|moved| moved.record.is_some()))
    }

    /// The end of a move in the old store.
    fn end_old(&self, lease: &mut Lease, key: &Key) -> Result<()> {
        match self.new_forgets {
            true => end_without_tombstone(&self.from, lease, key),
            false => self.from.destroy(key),
        }
    }

    /// Where a move cannot go on after its commit, and a revocation has ended the session in the
    /// old store. It could not void the commit if the old store lists digests, or a store failed.
    fn end_revoked(&self, old: (&mut Lease, &Record), key: &Key) {
        let Some(owner) = old.1.head.owner else { return };
        if matches!(self.look_again(old, key), Ok(Late::Ended)) {
            // An error: the caller gets the first one, which is the cause.
            let _ = self.to.destroy_owned(key, owner);
        }
    }

    /// Whether the session was logged out, or got another id, in the old store after its record was
    /// read: a log-out waits for no lock, and a lock in time may have run out. A touch, which takes
    /// no lock either, is done again, unless a commit in the new store came later.
    fn has_ended(&self, moved: &mut Begun, old: (&mut Lease, &Record), key: &Key) -> Result<bool> {
        let (Some(there), false) = (&moved.record, moved.moved) else { return Ok(false) };
        match self.look_again(old, key)? {
            Late::Ended => return Ok(true),
            Late::Touched(rest) if there.head.version <= 1 => moved.lease.touch(rest)?,
            Late::Touched(_) | Late::Same => {}
        }
        Ok(false)
    }

    /// What has become of a session in the old store after its record was read.
    fn look_again(&self, (lease, read): (&mut Lease, &Record), key: &Key) -> Result<Late> {
        let late = self.from.find(key)?;
        if late.moved_to.is_some() {
            return Ok(Late::Ended);
        }
        let now = self.clock.now();
        let Some(late) = late.record else {
            return Ok(if read.head.expired(now) { Late::Same } else { Late::Ended });
        };
        let Some(rest) = Ttl::rest_of(&late.head, now) else { return Ok(Late::Same) };
        match lease.touch(rest) {
            // The lock has ended and not the session: the new store counts. Without a payload only
            // another's lock is there.
            Err(error)
                if self.old_forgets
                    && *error.kind() == ErrorKind::Stale
                    && !late.payload.is_empty() =>
            {
                return Ok(Late::Same);
            }
            Err(error) if lost_lock(&error) => return Ok(Late::Ended),
            touched => touched?,
        }
        let is_touched = late.head.expires != read.head.expires || late.head.ends != read.head.ends;
        Ok(if is_touched { Late::Touched(rest) } else { Late::Same })
    }
}

/// See [`Migrate::look_again`].
enum Late {
    Same,
    Touched(Ttl),
    /// Logged out, or under another id.
    Ended,
}

fn lost_lock(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Stale | ErrorKind::Destroyed | ErrorKind::Gone)
}
