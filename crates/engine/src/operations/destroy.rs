//! `destroy`: removes a session at once and for good.

use sessile_core::{Key, Limits, Owner, Result, Stored, destroy_aliases};

use super::lease::retry;
use crate::{memory::*, storage::*};

impl RecordWriter {
    pub fn destroy(&self, plane: &Plane, key: &Key) -> Result<()> {
        self.with_room(plane, ClaimPurpose::Tombstone, || {
            destroy_aliases(&plane.digest_to_find(key), |digest, visited| {
                retry(|| self.try_destroy(plane, *digest, visited))
            })
        })
    }

    /// Of exactly this key, and only a live record of this owner.
    pub fn destroy_owned(&self, plane: &Plane, key: &Key, owner: Owner) -> Result<bool> {
        let digest = plane.digest_to_find(key);
        self.with_room(plane, ClaimPurpose::Tombstone, || {
            retry(|| self.try_destroy_owned(plane, digest, owner))
        })
    }

    /// `None`: the entry has changed.
    fn try_destroy_owned(
        &self,
        plane: &Plane,
        digest: KeyDigest,
        owner: Owner,
    ) -> Result<Option<bool>> {
        let Some(number) = plane.find_entry(digest) else { return Ok(Some(false)) };
        let entry = plane.entry(number);
        let lock = LockWord(entry.lock().load(SeqCst));
        let now = plane.now();
        let snapshot = match entry.view_entry(plane, digest, ReadDepth::Header, LOCKED_TRIES) {
            Ok(EntryView::Stored(Stored::Live(_), snapshot)) => snapshot,
            Ok(EntryView::Elsewhere | EntryView::Contended) => return Ok(None),
            _ => return Ok(Some(false)),
        };
        if snapshot.head.owner != Some(owner) || snapshot.head.expired(now) {
            return Ok(Some(false));
        }
        // It takes the place of this very record: one that was published since is looked at anew.
        match self.leave_tombstone(plane, entry, snapshot.state, now.plus(Limits::TOMBSTONE_TTL))? {
            Tombstone::Changed => return Ok(None),
            // As in `try_destroy`.
            Tombstone::Overtaken => {}
            Tombstone::Left(until, _) => entry.bring_due_forward(plane, until),
        }
        entry.lock().void_lock(lock);
        Ok(Some(true))
    }

    /// `None`: the entry has changed. `Some(target)`: destroy that first.
    fn try_destroy(
        &self,
        plane: &Plane,
        digest: KeyDigest,
        visited: &[KeyDigest],
    ) -> Result<Option<Option<KeyDigest>>> {
        const DONE: Result<Option<Option<KeyDigest>>> = Ok(Some(None));
        let Some(number) = plane.find_entry(digest) else { return DONE };
        let entry = plane.entry(number);
        let owner = LockWord(entry.lock().load(SeqCst));
        let now = plane.now();
        let (stored, state) = match entry.view_entry(plane, digest, ReadDepth::Header, LOCKED_TRIES)
        {
            Ok(EntryView::Stored(stored, snapshot)) => (stored, snapshot.state),
            Ok(EntryView::Leaving) => return DONE,
            Ok(EntryView::Elsewhere | EntryView::Contended) => return Ok(None),
            // An unreadable record leads nowhere, and can be destroyed like any other.
            Err(_) => (Stored::Nothing, entry.state()),
        };
        if let Some(target) = stored.leads_to(now).filter(|target| !visited.contains(target)) {
            return Ok(Some(Some(*target)));
        }
        if owner.owner().is_none() && !state.has_record() {
            return DONE;
        }
        if entry.digest() != digest || matches!(state.kind(), EntryKind::Free | EntryKind::Leaving)
        {
            return Ok(None);
        }
        let until = now.plus(Limits::TOMBSTONE_TTL);
        match self.leave_tombstone(plane, entry, state, until)? {
            Tombstone::Changed => return Ok(None),
            // Another process has done it. What is there now was begun afterwards.
            Tombstone::Overtaken => {}
            Tombstone::Left(until, _) => entry.bring_due_forward(plane, until),
        }
        // A holder from before the tombstone learns it from the version.
        entry.lock().void_lock(owner);
        DONE
    }
}
