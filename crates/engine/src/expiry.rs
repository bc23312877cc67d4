//! The hand: expired records are removed a few per call, in a circle over all entries.
//!
//! Invariants: nothing expired is ever served because the hand has not come by, for readers look at the clock; a
//! record is removed only under its lock and only after it was closed to touches, so no acknowledged touch is lost;
//! a call examines at most [`RECORDS_MAX`] entries. What an entry's due time says is never later than its true
//! expiry. docs/engine.md, "Expiry", bounds how much can pile up.

use std::time::{Duration, Instant};

use sessile_core::{Result, Timestamp};

use crate::disklog::{Line, granted};
use crate::entries::{bury, leave, remove};
use crate::lane::Lane;
use crate::layout::header;
use crate::lock::{try_lock, unlock};
use crate::plane::{Entry, Plane};
use crate::process::{Process, slot};
use crate::record::{Header, Look, Part, look};
use crate::sync::{Ordering, fence};
use crate::words::{Kind, Lock, Override, State};

/// Records examined in one call.
pub const RECORDS_MAX: u64 = 4;
/// Entries that the hand of a process takes at a time; they share a word of the bitmap.
const GROUP: u64 = 64;
/// Tries of a look under the lock: only a destroy or a move can disturb it, and each of them comes once.
const LOCKED_TRIES: usize = 100;

/// Where the hand of this process is.
#[derive(Default)]
pub struct Hand {
    next: u64,
    end: u64,
}

/// What became of an examined entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Examined {
    /// An expired record was removed.
    Removed,
    /// Something else was cleaned up: a tombstone, an empty or half-taken entry.
    Cleaned,
    /// It stays.
    Kept,
}

impl Hand {
    /// Examines the next few entries. Returns how many were due and how long that took; nothing due takes no time
    /// worth a look at the clock.
    pub fn step(&mut self, plane: &Plane, me: &Process, now: Timestamp) -> Result<(u64, Duration)> {
        if self.next >= self.end {
            let count = plane.entry_count();
            if count == 0 {
                return Ok((0, Duration::ZERO));
            }
            self.next = plane.header(header::HAND).add(1) % (count / GROUP) * GROUP;
            self.end = self.next + GROUP;
        }
        let (first, used) = (self.next, plane.used_bit(self.next).0.load(Ordering::Relaxed));
        self.next += RECORDS_MAX;
        let due = |number: &u64| used >> (number % GROUP) & 1 == 1 && is_due(plane, *number, now);
        let mut start = None;
        let mut examined = 0;
        for number in (first..first + RECORDS_MAX).filter(due) {
            start.get_or_insert_with(Instant::now);
            examined += 1;
            examine(plane, me, number, now)?;
        }
        Ok((examined, start.map_or(Duration::ZERO, |start| start.elapsed())))
    }
}

/// Whether an entry wants to be looked at.
pub fn is_due(plane: &Plane, number: u64, now: Timestamp) -> bool {
    plane.due(number).load(Ordering::Relaxed) <= now.as_ms()
}

/// Notes when an entry must be looked at.
pub fn set_due(plane: &Plane, entry: Entry<'_>, expires: Timestamp) {
    entry.due().store(expires.as_ms(), Ordering::Relaxed);
    plane.due(entry.number).store(expires.as_ms(), Ordering::Relaxed);
}

/// Notes an expiry, which costs nothing while it only moves into the future.
pub fn note_expiry(plane: &Plane, entry: Entry<'_>, expires: Timestamp) {
    let noted = entry.due().load(Ordering::Relaxed);
    if noted == 0 || noted > expires.as_ms() {
        set_due(plane, entry, expires);
    }
}

/// Puts the due time off to the expiry that was found. Someone may have brought the expiry forward meanwhile and,
/// finding the due time early enough, left it: so the expiry is looked at once more after the due time is written.
fn correct_due(plane: &Plane, entry: Entry<'_>, expires: Timestamp) -> Result<()> {
    let mut written = expires;
    if written == Timestamp::from_ms(u64::MAX) {
        return Ok(());
    }
    loop {
        set_due(plane, entry, written);
        fence(Ordering::SeqCst);
        match expiry_of(plane, entry)? {
            Some(expires) if expires < written => written = expires,
            Some(_) => return Ok(()),
            None => written = Timestamp::ZERO,
        }
        if written == Timestamp::ZERO {
            set_due(plane, entry, written);
            return Ok(());
        }
    }
}

/// Looks at one entry and removes what has expired.
pub fn examine(plane: &Plane, me: &Process, number: u64, now: Timestamp) -> Result<Examined> {
    let entry = plane.entry(number);
    // Without the lock first: most that are due were touched or committed since.
    if let Some(expires) = expiry_of(plane, entry)?
        && expires > now
    {
        correct_due(plane, entry, expires)?;
        return Ok(Examined::Kept);
    }
    let Some(mine) = try_lock(plane, me, entry.lock()) else { return Ok(Examined::Kept) };
    let outcome = examine_locked(plane, me, entry, mine, now);
    if !matches!(outcome, Ok(Examined::Removed | Examined::Cleaned)) {
        unlock(entry.lock(), mine);
    }
    outcome
}

/// When what the entry stands for ends; `None` for what has no business being there unlocked.
fn expiry_of(plane: &Plane, entry: Entry<'_>) -> Result<Option<Timestamp>> {
    let state = entry.state();
    Ok(match state.kind() {
        Kind::Destroyed => Some(state.forgotten_at()),
        Kind::Live | Kind::Regenerated => match look(plane, &entry, entry.digest(), Part::Header, LOCKED_TRIES)? {
            Look::Record(snapshot) => Some(snapshot.expires),
            // Someone is at it right now: not expired as far as we can tell.
            _ => Some(Timestamp::from_ms(u64::MAX)),
        },
        Kind::Free | Kind::Empty | Kind::Leaving => None,
    })
}

/// On a disk: until when something must be remembered of an expired record, because the disk has an older one of its key
/// that expires later. `None` is the usual case.
fn remembered_until(plane: &Plane, state: State, now: Timestamp) -> Option<Timestamp> {
    plane.log.as_ref().filter(|_| state.has_record())?;
    let (line, header) = Line::read(plane, state.location()).zip(Header::read(plane, state.location()))?;
    let own = granted(header.written, header.expires);
    // Its own expiry may be later, too, if a touch has moved it back.
    let outlived = line.origin.longest > own || header.expires > now;
    Some(line.origin.longest).filter(|longest| outlived && *longest > now)
}

fn examine_locked(plane: &Plane, me: &Process, entry: Entry<'_>, mine: Lock, now: Timestamp) -> Result<Examined> {
    let state = entry.state();
    if state.kind() == Kind::Free {
        // Someone died between taking the bit and taking the entry. The next one to take it sets the bit again.
        let (word, bit) = plane.used_bit(entry.number);
        word.clear(bit);
        unlock(entry.lock(), mine);
        return Ok(Examined::Cleaned);
    }
    if state.kind() == Kind::Leaving {
        leave(plane, entry, mine)?;
        return Ok(Examined::Cleaned);
    }
    let touched = entry.touched().load(Ordering::Relaxed);
    if let Some(expires) = expiry_of(plane, entry)?
        && expires > now
    {
        correct_due(plane, entry, expires)?;
        return Ok(Examined::Kept);
    }
    // Closed: a touch that comes now finds the record gone; one that came before has changed the word.
    if state.kind() == Kind::Live && !entry.touched().cas(touched, Override::closed(state).0) {
        return Ok(Examined::Kept);
    }
    let lane = Lane::enter(plane, me);
    let removed = match remembered_until(plane, state, now) {
        None => remove(&lane, entry, mine, state)?,
        Some(until) => bury(&lane, entry, mine, state, until)?,
    };
    if !removed {
        return Ok(Examined::Kept);
    }
    if state.kind() == Kind::Live {
        me.count(plane, slot::REMOVED, 1);
        return Ok(Examined::Removed);
    }
    Ok(Examined::Cleaned)
}
