//! `peek`: reads a record without a lease.

use std::ops::ControlFlow;
use std::time::Duration;

use sessile_core::{Found, Key, Result, follow_aliases};

use super::lease::retry;
use crate::{memory::*, storage::*, table::*};

/// How long a reader that was disturbed at each try waits for the lock.
const PIN_WAIT: Duration = Duration::from_secs(60);

impl AttachedProcess {
    pub fn peek(&self, plane: &Plane, key: &Key) -> Result<Found> {
        let (found, moved_to) = follow_aliases(&plane.digest_to_find(key), |digest| {
            retry(|| self.try_peek(plane, *digest))
        })?;
        let moved_to = moved_to.map(|digest| shown_key(key.bin().clone(), digest)).transpose()?;
        Ok(Found { moved_to, ..found })
    }

    /// `None`: the entry has changed; `Continue`: the id leads to another one.
    #[inline(always)]
    fn try_peek(
        &self,
        plane: &Plane,
        digest: KeyDigest,
    ) -> Result<Option<ControlFlow<Found, KeyDigest>>> {
        plane.prefetch_buckets(digest);
        // The clock is read while the index is on its way from memory.
        let now = plane.now();
        self.check_attached(plane, now)?;
        let Some((number, hint)) = plane.find_to_read(digest) else {
            return Ok(Some(ControlFlow::Break(Found::default())));
        };
        let entry = plane.entry(number);
        let mut view = entry.view_entry(plane, digest, ReadDepth::Whole(hint), UNLOCKED_TRIES)?;
        if let EntryView::Contended = view {
            view = self.view_pinned(plane, &entry, digest)?;
        }
        Ok(match view {
            EntryView::Elsewhere | EntryView::Contended => None,
            EntryView::Leaving => Some(ControlFlow::Break(Found::default())),
            EntryView::Stored(stored, snapshot) => Some(stored.look_up(snapshot.payload, now)),
        })
    }

    /// Reads under the lock, so that a long payload under constant change can be read at all.
    #[cold]
    fn view_pinned(
        &self,
        plane: &Plane,
        entry: &TableEntry<'_>,
        digest: KeyDigest,
    ) -> Result<EntryView> {
        match self.lock_within(plane, entry.lock(), PIN_WAIT, || entry.belongs_to(digest)) {
            LockAttempt::Acquired(mine) => {
                let view = entry.view_entry(plane, digest, WHOLE, LOCKED_TRIES);
                entry.lock().unlock(mine);
                view
            }
            LockAttempt::Moved => Ok(EntryView::Elsewhere),
            LockAttempt::TimedOut(owner) => Err(entry.timed_out(plane, owner, PIN_WAIT)),
        }
    }
}
