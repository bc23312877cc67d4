//! `begin`, which moves a session that is still in the old store.
//!
//! A process that dies on the way leaves the session in the old store, or in both: then the new one
//! counts, and the copy in the old store ends by its own expiry or with a log-out.

use std::time::{Duration, Instant};

use sessile_core::{Absence, Begun, Error, ErrorKind, Found, Key, Lease, Result, Ttl};

use super::Migrate;

/// Each failed attempt is a change by another request.
const ATTEMPTS_MAX: usize = 100;

impl Migrate {
    pub fn begin_moving(&self, asked: &Key, wait_max: Duration) -> Result<(Lease, u64, Found)> {
        let (start, mut key) = (Instant::now(), asked.clone());
        for _ in 0..ATTEMPTS_MAX {
            let left = || wait_max.saturating_sub(start.elapsed());
            let Begun { lease, record, mut absence, moved } = self.to.begin(&key, left())?;
            if record.is_none() {
                let old = self.find_old(&key)?;
                match old.moved_to {
                    // The old store keeps no ids: only a request with the new id can move it.
                    Some(target) if target.is_listed() => absence = Absence::Regenerated,
                    Some(target) if old.record.is_some() => {
                        key = target;
                        continue;
                    }
                    _ if old.record.is_some() => {
                        self.move_session(lease, &key, left())?;
                        continue;
                    }
                    _ => {}
                }
            }
            let moved_to = (moved || key != *asked).then(|| lease.key().clone());
            let fence = lease.fence();
            return Ok((lease, fence, Found { record, moved_to, absence }));
        }
        let why = format!("the session was moved or changed at each of {ATTEMPTS_MAX} attempts");
        Err(Error::new(ErrorKind::Io, why).advice("try again"))
    }

    /// Under the locks of both stores. It may have been destroyed, or moved by another request,
    /// before they were taken: the caller looks again.
    fn move_session(&self, lease: Lease, key: &Key, wait_max: Duration) -> Result<()> {
        let Begun { lease: old_lease, record, .. } = self.from.begin(key, wait_max)?;
        let Some(record) = record else { return Ok(()) };
        let Some(ttl) = Ttl::rest_of(&record.head, self.clock.now()) else { return Ok(()) };
        match lease.commit(&record.payload, ttl).map_err(|error| (error.kind().clone(), error)) {
            Ok(()) => {}
            Err((ErrorKind::Stale | ErrorKind::Destroyed | ErrorKind::Gone, _)) => return Ok(()),
            Err((_, error)) => return Err(error),
        }
        // Nothing on a disk may be destroyed before its successor is on one.
        match self.to.sync() {
            Err(error) if *error.kind() != ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        // A touch needs no lock.
        let expires = self.from.peek(key)?.map(|late| late.head);
        if let Some(late) = expires.filter(|late| late.expires > record.head.expires)
            && let Some(ttl) = Ttl::rest_of(&late, self.clock.now())
        {
            self.to.touch(key, ttl)?;
        }
        self.from.destroy(key)?;
        old_lease.release()
    }
}
