//! `begin`: takes a session's lock and reads its record.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sessile_core::{Found, Key, Result, follow_aliases};

use super::lease::{HeldEntry, OldHead, retry};
use crate::{memory::*, storage::*, table::*};

impl RecordWriter {
    pub fn begin(
        &self,
        plane: &Plane,
        key: &Key,
        wait_max: Duration,
    ) -> Result<(HeldEntry, u64, Found)> {
        let bin = self.bin_number(plane, key.bin())? as u32;
        // Read only for a second try: a clock costs as much as a lock.
        let mut start: Option<Instant> = None;
        let mut tries = 0;
        let mut left = || {
            tries += 1;
            if tries == 1 {
                return wait_max;
            }
            wait_max.saturating_sub(start.get_or_insert_with(Instant::now).elapsed())
        };
        // Over all tries: a session that moves while others wait for it is one wait of each.
        let waits_since = Cell::new(None);
        let begun = follow_aliases(&plane.digest_to_find(key), |digest| {
            retry(|| self.try_begin(plane, *digest, bin, (left(), &waits_since)))
        });
        if let Some(since) = waits_since.get() {
            self.count_wait(plane, since.elapsed());
        }
        let hit = begun.as_ref().is_ok_and(|((_, found), _)| found.record.is_some());
        self.count_begin(plane, hit);
        let ((held, mut found), moved_to) = begun?;
        if let Some(digest) = moved_to {
            found.moved_to = Some(shown_key(key.bin().clone(), digest)?);
        }
        let fence = held.fence;
        Ok((held, fence, found))
    }

    /// `None`: the entry has changed; `Continue`: the id leads to another one.
    #[inline(always)]
    fn try_begin(
        &self,
        plane: &Plane,
        digest: KeyDigest,
        bin: u32,
        (wait_max, waits_since): (Duration, &Cell<Option<Instant>>),
    ) -> Result<Option<ControlFlow<(HeldEntry, Found), KeyDigest>>> {
        let (entry, hint) = match plane.find_or_take(self, digest)? {
            KeyEntry::New(entry, lock, state) => {
                let now = plane.now();
                if let Err(error) = self.check_attached(plane, now) {
                    self.give_up(plane, entry, lock)?;
                    return Err(error);
                }
                let fence = entry.next_fence(now);
                if !entry.is_held(lock) {
                    return Ok(None);
                }
                let entry = entry.number as u32;
                let held = HeldEntry { entry, bin, lock, digest, fence, state, old: None };
                return Ok(Some(ControlFlow::Break((held, Found::default()))));
            }
            KeyEntry::Existing(entry, hint) => (entry, hint),
        };
        // Read anew before each try: each log-out would send all waiters back to the start.
        let before = Cell::new(entry.state());
        let attempt = self.lock_within(plane, entry.lock(), wait_max, || {
            before.set(entry.state());
            if !wait_max.is_zero() {
                note_wait(waits_since, entry.lock());
            }
            entry.belongs_to(digest)
        });
        let lock = match attempt {
            LockAttempt::Acquired(lock) => lock,
            LockAttempt::Moved => return Ok(None),
            LockAttempt::TimedOut(owner) => return Err(entry.timed_out(plane, owner, wait_max)),
        };
        let now = plane.now();
        let fence = entry.next_fence(now);
        let viewed = self
            .check_attached(plane, now)
            .and_then(|()| self.end_destroy(plane, entry))
            .and_then(|()| entry.view_entry(plane, digest, ReadDepth::Whole(hint), LOCKED_TRIES));
        let outcome = match viewed {
            Ok(EntryView::Stored(_, found))
                if !entry.keeps_lock(lock, before.get(), found.state) =>
            {
                Ok(None)
            }
            Ok(EntryView::Stored(stored, snapshot)) => {
                let state = snapshot.state;
                match stored.look_up(snapshot.payload, now) {
                    ControlFlow::Continue(target) => Ok(Some(ControlFlow::Continue(target))),
                    ControlFlow::Break(found) => {
                        if let Some(record) = &found.record {
                            let bytes = record.payload.len() as u64;
                            self.slots.expect_replacement(plane, state.location(), bytes);
                        }
                        let entry = entry.number as u32;
                        let old = found.record.as_ref().map(|record| OldHead::of(record.head));
                        let held = HeldEntry { entry, bin, lock, digest, fence, state, old };
                        return Ok(Some(ControlFlow::Break((held, found))));
                    }
                }
            }
            Ok(EntryView::Leaving) => return entry.finish_removal(plane, lock).map(|()| None),
            Ok(EntryView::Elsewhere | EntryView::Contended) => Ok(None),
            Err(error) => Err(error),
        };
        entry.lock().unlock(lock);
        outcome
    }
}

/// Notes when a wait began. A lock that others took and gave back meanwhile is no wait. Not in
/// models, as with all counters.
fn note_wait(waits_since: &Cell<Option<Instant>>, lock: &Word) {
    if !cfg!(sessile_model)
        && waits_since.get().is_none()
        && LockWord(lock.load(Relaxed)).owner().is_some()
    {
        waits_since.set(Some(Instant::now()));
    }
}
