//! `commit` replaces the payload, sets the expiry and gives up the lease; `create` stores a record
//! under an id that must be free.

use sessile_core::{ErrorKind, Head, Key, OwnerChange, Result, Timestamp, Ttl};

use super::lease::HeldEntry;
use super::publish::Publication;
use crate::{memory::*, storage::*};

impl RecordWriter {
    pub fn commit(
        &self,
        plane: &Plane,
        held: &HeldEntry,
        (payload, ttl): (&[u8], Ttl),
        set: OwnerChange,
        now: Timestamp,
    ) -> Result<()> {
        let entry = plane.check_lease(self, held)?;
        // A touch without the lock may have set another absolute end meanwhile.
        let touched = Override(entry.ends().load(Relaxed)).applies_to(held.state);
        let old = held.old.map(|old| old.to_head(touched));
        let mut head = Head::next(old, ttl, now);
        let mut changes_owner = false;
        if let OwnerChange::Set(owner) = set
            && owner != head.owner
        {
            (head.owner, changes_owner) = (owner, true);
            entry.doubt_owner(plane, held.lock);
        }
        let header = &RecordHeader::new(entry.number, held.bin.into(), head);
        let new = Publication { entry, from: held.state, kind: EntryKind::Live, header, payload };
        let published = self.publish(plane, &new);
        if changes_owner && matches!(published, Ok(true)) {
            entry.settle_owner(plane, held.lock, head.owner);
        }
        entry.lock().unlock(held.lock);
        if published? { Ok(()) } else { Err(ErrorKind::Destroyed.into()) }
    }

    pub fn create(
        &self,
        plane: &Plane,
        key: &Key,
        payload: &[u8],
        ttl: Ttl,
        now: Timestamp,
    ) -> Result<()> {
        let bin = self.bin_number(plane, key.bin())?;
        let (entry, mine, from) = self.lock_vacant(plane, plane.digest_of(key))?;
        let header = &RecordHeader::new(entry.number, bin, Head::next(None, ttl, now));
        let new = Publication { entry, from, kind: EntryKind::Live, header, payload };
        match self.publish(plane, &new) {
            Ok(published) => {
                entry.lock().unlock(mine);
                // Destroyed in this instant: another process uses the id.
                if published { Ok(()) } else { Err(ErrorKind::Exists.into()) }
            }
            Err(error) => {
                self.give_up(plane, entry, mine)?;
                Err(error)
            }
        }
    }
}
