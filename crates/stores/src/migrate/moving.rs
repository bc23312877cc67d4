//! `begin`, which moves a session that is still in the old store.
//!
//! A move takes the locks of both stores, that of the new one first. A commit gives up the lock of
//! the new store, so the move takes it once more, and ends under both: what happened in between is
//! seen. A process that dies on the way leaves the session in the old store, or in both: then the
//! new one counts.

use std::time::{Duration, Instant};

use sessile_core::{Absence, Begun, Error, ErrorKind, Found, Key, Record, Result, Ttl};

use super::Migrate;

/// Each failed attempt is a change by another request.
const ATTEMPTS_MAX: usize = 100;

impl Migrate {
    /// A look-up in the old store, where the new one may not have the session yet. An id that was
    /// replaced in the new store is never looked for in the old one.
    pub fn find_old(&self, key: &Key, absence: Absence) -> Result<Found> {
        if absence == Absence::Regenerated {
            return Ok(Found::default());
        }
        self.from.find(key)
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
        let old = self.from.begin(key, left())?;
        let Some(record) = old.record.filter(|_| !old.moved) else { return Ok(None) };
        let Some(rest) = Ttl::rest_of(&record.head, self.clock.now()) else { return Ok(None) };
        match begun.lease.commit(&record.payload, rest) {
            Ok(()) => {}
            Err(error) if lost_lock(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        // Nothing on a disk may be destroyed before its successor is on one.
        match self.to.sync() {
            Err(error) if *error.kind() != ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        let mut moved = self.to.begin(key, left()).inspect_err(|_| {
            // Others hold it by now: it has moved.
            let _ = self.from.destroy(key);
        })?;
        let is_ended = self.catch_up(&mut moved, &record, key)?;
        if is_ended {
            drop(moved);
            self.to.destroy(key)?;
        } else {
            self.from.destroy(key)?;
            if moved.record.is_some() {
                return Ok(Some(moved));
            }
        }
        Ok(None)
    }

    /// What was done in the old store without a lock after the record was read: true for a log-out.
    /// A touch is done again, unless a commit in the new store came later.
    fn catch_up(&self, moved: &mut Begun, read: &Record, key: &Key) -> Result<bool> {
        let (Some(there), false) = (&moved.record, moved.moved) else { return Ok(false) };
        let Some(late) = self.from.peek(key)? else { return Ok(true) };
        let is_touched = late.head.expires != read.head.expires || late.head.ends != read.head.ends;
        if is_touched
            && there.head.version <= 1
            && let Some(rest) = Ttl::rest_of(&late.head, self.clock.now())
        {
            moved.lease.touch(rest)?;
        }
        Ok(false)
    }
}

fn lost_lock(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Stale | ErrorKind::Destroyed | ErrorKind::Gone)
}
