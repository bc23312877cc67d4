//! `destroy`: removes a session at once and for good.

use sessile_core::{Key, Limits, Result, Stored, destroy_aliases};

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
