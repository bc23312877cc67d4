//! `regenerate`: gives a session a new id. The record is copied under the new key first; then, in
//! one step, the old entry leads to the new one. A crash in between leaves a copy that expires.

use std::time::Duration;

use sessile_core::{ErrorKind, Head, Key, Limits, Result};

use super::lease::{HeldEntry, OldHead};
use super::publish::Publication;
use crate::{memory::*, storage::*};

impl RecordWriter {
    pub fn regenerate(
        &self,
        plane: &Plane,
        held: &mut HeldEntry,
        new: &Key,
        grace: Duration,
    ) -> Result<()> {
        let old = plane.check_lease(self, held)?;
        if old.state().version() != held.state.version() {
            return Err(ErrorKind::Destroyed.into());
        }
        let digest = plane.digest_of(new);
        let (entry, mine, from) = self.lock_vacant(plane, digest)?;
        entry.fence().raise(held.fence);
        let moved = if held.old.is_some() {
            self.copy_to(plane, held, old, (entry, mine, from), (digest, grace))
        } else {
            Ok((from, None))
        };
        match moved {
            Ok((state, old_head)) => {
                let (entry, old_lock) = (entry.number as u32, held.lock);
                *held = HeldEntry { entry, lock: mine, digest, state, old: old_head, ..*held };
                // Without a record only the lock moves, and an entry that stands for nothing goes.
                self.give_up(plane, old, old_lock)
            }
            Err(error) => {
                self.drop_copy(plane, entry, mine, digest)?;
                Err(error)
            }
        }
    }

    fn copy_to(
        &self,
        plane: &Plane,
        held: &HeldEntry,
        old: TableEntry<'_>,
        (entry, mine, from): (TableEntry<'_>, LockWord, EntryState),
        (digest, grace): (KeyDigest, Duration),
    ) -> Result<(EntryState, Option<OldHead>)> {
        let now = plane.now();
        // Also a record that has expired since it was read: the lease goes on with it.
        let snapshot = match old.read_entry(plane, held.digest, WHOLE, LOCKED_TRIES)? {
            EntryRead::Record(snapshot) if snapshot.state.version() == held.state.version() => {
                snapshot
            }
            _ => return Err(ErrorKind::Destroyed.into()),
        };
        // The end as it was copied: an end set by a touch is no override of the new entry.
        let head = snapshot.head;
        let header = &RecordHeader { entry: entry.number, head, ..snapshot.header };
        let grace_ends = now.plus(grace);
        let forgotten = grace_ends.plus(Limits::TOMBSTONE_TTL);
        if plane.log.is_some() {
            // As long as the disk has the old id, it has to have something of the new one: without
            // it the record before would count. The record takes over what the due time says.
            let longest = old.next_lineage(plane, held.state).longest.max(granted(now, forgotten));
            entry.due().raise(longest.as_ms());
        }
        let payload = &snapshot.payload;
        let copy = Publication { entry, from, kind: EntryKind::Live, header, payload };
        if head.owner.is_some() {
            entry.doubt_owner(plane, mine);
        }
        if !self.publish(plane, &copy)? {
            return Err(ErrorKind::Destroyed.into());
        }
        if head.owner.is_some() {
            entry.settle_owner(plane, mine, head.owner);
        }
        let state = entry.state();
        let alias = Head { created: now, written: now, expires: forgotten, ends: None, ..head };
        let header = &RecordHeader::new(old.number, held.bin.into(), alias);
        let payload = &alias_payload(digest, grace_ends);
        let (from, kind) = (held.state, EntryKind::Regenerated);
        let alias = Publication { entry: old, from, kind, header, payload };
        if self.publish(plane, &alias)? {
            Ok((state, Some(OldHead::of(head))))
        } else {
            Err(ErrorKind::Destroyed.into())
        }
    }

    /// Takes a copy back that the old entry does not lead to after all.
    fn drop_copy(
        &self,
        plane: &Plane,
        entry: TableEntry<'_>,
        mine: LockWord,
        digest: KeyDigest,
    ) -> Result<()> {
        let state = entry.state();
        if matches!(state.kind(), EntryKind::Live | EntryKind::Empty) && entry.belongs_to(digest) {
            if plane.log.is_none() || !state.has_record() {
                if self.remove_session(plane, entry, mine, state)? {
                    return Ok(());
                }
            } else {
                // On a disk the copy would be a session again after a rebuild.
                let left = self.leave_tombstone(plane, entry, state, plane.now());
                if let Ok(Tombstone::Left(until, _)) = left {
                    entry.set_due(plane, until);
                }
                entry.lock().unlock(mine);
                return left.map(|_| ());
            }
        }
        entry.lock().unlock(mine);
        Ok(())
    }
}
