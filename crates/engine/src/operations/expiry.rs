//! The hand: expired records are removed a few per call, in a circle over all entries.
//!
//! Invariant: a record is removed only under its lock and only after it was closed to touches, so
//! no acknowledged touch is lost. DESIGN.md, "Expiry", bounds how many expired records can
//! wait.

use std::time::{Duration, Instant};

use sessile_core::{Limits, Result, Timestamp};

use crate::{memory::*, storage::*};

/// Records examined in one call.
const RECORDS_MAX: u64 = 4;
/// Entries that the hand of a process takes at a time; they share a word of the bitmap.
const GROUP: u64 = 64;
const HAND_TRIES: usize = 100;
/// A damaged record of which nothing is known is looked at again after this time.
const DAMAGED_KEPT: Duration = Duration::from_secs(3_600);
/// A record that keeps changing has not expired as far as the hand can tell.
const UNKNOWN: Timestamp = Timestamp::from_ms(u64::MAX);

#[derive(Default)]
pub struct Hand {
    next: u64,
    end: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Examination {
    Removed,
    /// A tombstone, an alias, or an empty or half-taken entry was removed.
    Cleaned,
    Kept,
}

use Examination::*;

impl Hand {
    /// How many entries were due, and how long they took.
    pub fn step(
        &mut self,
        plane: &Plane,
        me: &RecordWriter,
        now: Timestamp,
    ) -> Result<(u64, Duration)> {
        if self.next >= self.end {
            let count = plane.entry_count();
            if count == 0 {
                return Ok((0, Duration::ZERO));
            }
            self.next = plane.header(header::HAND).add(1) % (count / GROUP) * GROUP;
            self.end = self.next + GROUP;
        }
        let (first, used) = (self.next, plane.used_bit(self.next).0.load(Relaxed));
        self.next += RECORDS_MAX;
        let due = |number: &u64| used >> (number % GROUP) & 1 == 1 && plane.is_due(*number, now);
        let mut start = None;
        let mut examined = 0;
        for number in (first..first + RECORDS_MAX).filter(due) {
            start.get_or_insert_with(Instant::now);
            examined += 1;
            me.examine(plane, number, now)?;
        }
        Ok((examined, start.map_or(Duration::ZERO, |start| start.elapsed())))
    }
}

impl TableEntry<'_> {
    /// Puts the due time off to the expiry that was found, and reads that once more: a touch may
    /// have brought it forward meanwhile and left the due time.
    fn correct_due(self, plane: &Plane, expires: Timestamp) {
        let mut written = expires;
        if written == UNKNOWN {
            return;
        }
        loop {
            self.set_due(plane, written);
            // Pairs with the compare-and-swap of a touch, which reads the due time after it: one of
            // the two sees the other.
            fence(SeqCst);
            match self.expiry_of(plane) {
                Some(expires) if expires < written => written = expires,
                Some(_) => return,
                None => return self.set_due(plane, Timestamp::ZERO),
            }
        }
    }

    /// Whether an entry has not expired by any clock that may be right; its due time is corrected
    /// then. Tombstones, aliases and later records protect from earlier ones on the disk.
    fn is_kept(self, plane: &Plane) -> bool {
        let now = plane.cautious_now();
        let expires = self.expiry_of(plane).filter(|expires| *expires > now);
        expires.inspect(|expires| self.correct_due(plane, *expires)).is_some()
    }

    /// The expiry of an entry; `None` for one that may not be unlocked in this state.
    fn expiry_of(self, plane: &Plane) -> Option<Timestamp> {
        let state = self.state();
        match state.kind() {
            EntryKind::Destroyed => Some(state.forgotten_at()),
            EntryKind::Live | EntryKind::Regenerated => Some(self.expiry_of_record(plane)),
            EntryKind::Damaged => Some(self.kept_until(plane)),
            EntryKind::Free | EntryKind::Empty | EntryKind::Leaving => None,
        }
    }

    fn expiry_of_record(self, plane: &Plane) -> Timestamp {
        let read = |depth| self.read_entry(plane, self.digest(), depth, HAND_TRIES);
        let expires = match read(ReadDepth::Header) {
            Ok(EntryRead::Record(snapshot)) => snapshot.head.expires,
            Ok(_) => return UNKNOWN,
            Err(_) => return self.kept_until(plane),
        };
        // Only the checksum of all tells whether the header is what was written.
        if plane.log.is_some() && expires <= plane.now() && read(WHOLE).is_err() {
            return self.kept_until(plane);
        }
        expires
    }

    /// Until when a damaged record is kept: until all that the disk has of its session has expired,
    /// if its line can be read.
    fn kept_until(self, plane: &Plane) -> Timestamp {
        let line = LogLine::read(plane, self.state().location());
        let line = line.filter(|line| line.lineage.digest == self.digest());
        line.map_or_else(|| plane.now().plus(DAMAGED_KEPT), |line| line.lineage.longest)
    }
}

impl RecordWriter {
    pub fn examine(&self, plane: &Plane, number: u64, now: Timestamp) -> Result<Examination> {
        let entry = plane.entry(number);
        // Without the lock first: most due entries were touched or committed since.
        if entry.is_kept(plane) {
            return Ok(Kept);
        }
        let Some(mine) = self.try_lock(plane, entry.lock()) else { return Ok(Kept) };
        let outcome = self.examine_locked(plane, entry, mine, now);
        if !matches!(outcome, Ok(Removed | Cleaned)) {
            entry.lock().unlock(mine);
        }
        outcome
    }

    /// Gives the lock back if it removes the entry.
    fn examine_locked(
        &self,
        plane: &Plane,
        entry: TableEntry<'_>,
        mine: LockWord,
        now: Timestamp,
    ) -> Result<Examination> {
        let state = entry.state();
        if state.kind() == EntryKind::Free {
            // A process died between setting the bit and taking the entry.
            entry.clear_used(plane);
            entry.lock().unlock(mine);
            return Ok(Cleaned);
        }
        if state.kind() == EntryKind::Leaving {
            entry.finish_removal(plane, mine)?;
            return Ok(Cleaned);
        }
        if state.is_being_destroyed() {
            // One try: the request that this one serves must not wait for room.
            let until = now.plus(Limits::TOMBSTONE_TTL);
            if let Tombstone::Left(until, _) = self.leave_tombstone(plane, entry, state, until)? {
                entry.bring_due_forward(plane, until);
            }
            return Ok(Kept);
        }
        let touched = entry.touched().load(Relaxed);
        if entry.is_kept(plane) {
            return Ok(Kept);
        }
        // Closed: a later touch finds the record gone; an earlier one has changed the word.
        let live = state.kind() == EntryKind::Live;
        if live && !entry.touched().cas(touched, Override::closed(state).0) {
            return Ok(Kept);
        }
        let removed = match plane.remembered_until(state, now) {
            None => self.remove_session(plane, entry, mine, state)?,
            Some(until) => match self.leave_tombstone(plane, entry, state, until)? {
                Tombstone::Left(until, _) => {
                    entry.set_due(plane, until);
                    entry.lock().unlock(mine);
                    true
                }
                Tombstone::Changed | Tombstone::Overtaken => false,
            },
        };
        if !removed {
            return Ok(Kept);
        }
        if live {
            self.count(plane, process_word::REMOVED, 1);
            return Ok(Removed);
        }
        Ok(Cleaned)
    }
}

impl Plane {
    /// Until when an expired record must be remembered, because the disk has an older one that
    /// expires later.
    fn remembered_until(&self, state: EntryState, now: Timestamp) -> Option<Timestamp> {
        self.log.as_ref().filter(|_| state.has_record())?;
        let (line, header) = self.read_logged(state.location())?;
        let own = granted(header.head.written, header.head.expires);
        // Its own expiry may be later, too, if a touch has moved it back.
        let outlived = line.lineage.longest > own || header.head.expires > now;
        Some(line.lineage.longest).filter(|longest| outlived && *longest > self.cautious_now())
    }
}
