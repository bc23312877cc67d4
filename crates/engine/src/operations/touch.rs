//! `touch`: moves the expiry without writing the payload.

use std::ops::ControlFlow;

use sessile_core::{ErrorKind, Key, Result, Ttl, follow_aliases};

use super::lease::{HeldEntry, retry};
use crate::{memory::*, storage::*};

impl RecordWriter {
    pub fn touch(&self, plane: &Plane, key: &Key, ttl: Ttl) -> Result<()> {
        let touched = follow_aliases(&plane.digest_to_find(key), |digest| {
            retry(|| {
                let number = plane.find_entry(*digest).ok_or(ErrorKind::Gone)?;
                self.try_touch(plane, plane.entry(number), *digest, ttl)
            })
        });
        touched.map(|_| ())
    }

    pub fn touch_held(&self, plane: &Plane, held: &HeldEntry, ttl: Ttl) -> Result<()> {
        let entry = plane.check_lease(self, held)?;
        retry(|| {
            if entry.state().version() != held.state.version() {
                return Err(ErrorKind::Destroyed.into());
            }
            Ok(self.try_touch(plane, entry, held.digest, ttl)?.and_then(ControlFlow::break_value))
        })
    }

    /// `None`: the entry has changed; `Continue`: the id leads to another one.
    fn try_touch(
        &self,
        plane: &Plane,
        entry: TableEntry<'_>,
        digest: KeyDigest,
        ttl: Ttl,
    ) -> Result<Option<ControlFlow<(), KeyDigest>>> {
        self.with_room(plane, ClaimPurpose::Touch, || self.touch_entry(plane, entry, digest, ttl))
    }

    fn touch_entry(
        &self,
        plane: &Plane,
        entry: TableEntry<'_>,
        digest: KeyDigest,
        ttl: Ttl,
    ) -> Result<Option<ControlFlow<(), KeyDigest>>> {
        let seen = entry.touched().load(Acquire);
        let seen_end = entry.ends().load(Acquire);
        let now = plane.now();
        let (stored, before) =
            match entry.view_entry(plane, digest, ReadDepth::Header, LOCKED_TRIES)? {
                EntryView::Stored(stored, snapshot) => (stored, snapshot),
                EntryView::Elsewhere | EntryView::Contended => return Ok(None),
                EntryView::Leaving => return Err(ErrorKind::Gone.into()),
            };
        if let Some(target) = stored.leads_to(now) {
            return Ok(Some(ControlFlow::Continue(*target)));
        }
        if before.state.is_being_destroyed() {
            return self.end_destroy(plane, entry).map(|()| None);
        }
        let after = stored.touched(ttl, now)?;
        // Written down first, like a tombstone: a process that loses the race does it again.
        let note = log_touch(plane, self, &entry, &LoggedTouch { before: &before, after, now })?;
        if matches!(note, TouchNote::Changed) {
            return Ok(None);
        }
        let end = after.ends.filter(|_| after.ends != before.head.ends);
        let moved = end
            .is_none_or(|end| entry.ends().cas(seen_end, Override::new(end, before.state).0))
            // Refused when the hand has closed the record, or another touch came first.
            && entry.touched().cas(seen, Override::new(after.expires, before.state).0);
        if !moved {
            return Ok(note.discarded());
        }
        // On a disk the due time remembers the later expiry that a touch has moved back.
        if plane.log.is_none() || after.expires >= before.head.expires {
            entry.bring_due_forward(plane, after.expires);
        }
        // The words may have come round to their old values while the record was removed or
        // replaced.
        let same = EntryState(entry.state_word().load(SeqCst)).is_moved_from(before.state);
        Ok(if same { Some(ControlFlow::Break(())) } else { note.discarded() })
    }
}
