//! Compaction: the records of a sparse segment move elsewhere, a few per call, and its memory goes back.
//!
//! Invariant: a move changes the location of a record and nothing else, by one compare-and-swap of the entry's state
//! that keeps the version; whoever changes the record at the same time wins. It is never needed for correctness.

use std::time::{Duration, Instant};

use sessile_core::Result;

use crate::append::shared_segment;
use crate::class::{CLASSES_ALL, LOG, is_log, slots};
use crate::disklog::{Line, Says};
use crate::hint;
use crate::index;
use crate::lane::{Claim, Lane};
use crate::layout::header;
use crate::notes;
use crate::plane::Plane;
use crate::process::{Process, slot};
use crate::record::{Header, Look, WHOLE, look};
use crate::reserve::{self, For};
use crate::segment::{
    SegmentState, Use, close, free, give_back, has_others, is_claim, is_note, location, marked_length, set_evacuating,
    state,
};
use crate::sync::Ordering;
use crate::words::Lock;
use crate::writing::{Logged, discard, discard_replaced, leads_to, write};

/// Records moved in one call.
const MOVES_MAX: u64 = 2;
/// Stamps looked at in one call; those of a log are mostly empty.
const STAMPS_MAX: u64 = 64;
const STAMPS_MAX_LOG: u64 = 256;
/// Notes looked at in one call: each costs up to four misses of the cache.
const NOTES_MAX: u64 = 4;
/// Emptied segments that a log keeps for the next writes: this part of all, and some. Giving one back takes milliseconds on
/// a disk that is told of each freed block, and getting it again costs as much.
const KEPT_PART: u64 = 2;
const KEPT_LEAST: u64 = 64;

/// Where this process is.
pub struct Compaction {
    at: Option<Work>,
    /// The part of free slots that segments of a class had when we last came by, in 1/256, smoothed.
    free: [u16; CLASSES_ALL as usize],
    /// Emptied segments that we came by in a row of so many.
    emptied: (u64, u64),
    /// Whether all that is emptied is given back, but for what the reserve needs.
    thorough: bool,
    /// A segment of a log is emptied when one part in so many is free.
    one_in: u64,
    purpose: For,
    /// Segments emptied so far.
    closed: u64,
}

/// What is left costs no more to move than what is gained.
const ONE_IN: u64 = 2;

impl Default for Compaction {
    fn default() -> Compaction {
        let free = [0; CLASSES_ALL as usize];
        Compaction { at: None, free, emptied: (0, 0), thorough: false, one_in: ONE_IN, purpose: For::Move, closed: 0 }
    }
}

#[derive(Clone, Copy)]
enum Work {
    /// Counting the free slots of a segment: so far `free` among the first `next`.
    Counting { segment: u64, seen: SegmentState, next: u64, free: u64 },
    /// Moving records away, at this slot; `left` records could not be moved.
    Moving { segment: u64, next: u64, left: u64 },
}

impl Compaction {
    /// Whether a segment is being counted or evacuated.
    pub fn is_busy(&self) -> bool {
        self.at.is_some()
    }

    /// For a log without room: empties what gains less, too.
    pub fn of_full(one_in: u64) -> Compaction {
        Compaction { one_in, purpose: For::Room, ..Compaction::default() }
    }

    /// How many segments it has emptied.
    pub fn closed(&self) -> u64 {
        self.closed
    }

    /// One small step. True when it has come to the end of a segment.
    pub fn step(&mut self, plane: &Plane, me: &Process) -> Result<bool> {
        match self.at {
            None => {
                let count = plane.segment_count();
                if count == 0 {
                    return Ok(true);
                }
                let segment = plane.header(header::COMPACTION).add(1) % count;
                let seen = state(plane, segment);
                self.at = match seen.usage() {
                    // Someone appends to it.
                    Use::Open if is_log(seen.class()) && is_appended_to(plane, me, segment) => None,
                    Use::Open => Some(Work::Counting { segment, seen, next: 0, free: 0 }),
                    Use::Evacuating | Use::Closing => Some(Work::Moving { segment, next: 0, left: 0 }),
                    Use::Unbacked => None,
                    Use::Emptied => {
                        self.meet_emptied(plane, me, segment, count);
                        None
                    }
                };
                self.emptied.1 += 1;
                Ok(self.at.is_none())
            }
            Some(Work::Counting { segment, seen, next, free }) => {
                let count = slots(seen.class());
                let (until, free) = if is_log(seen.class()) {
                    let (until, used) = used_granules(plane, segment, next, count);
                    (until, free + (until - next).saturating_sub(used))
                } else {
                    let until = (next + STAMPS_MAX).min(count);
                    let stamp = |slot: &u64| plane.stamp(segment, *slot).load(Ordering::Relaxed) == 0;
                    (until, free + (next..until).filter(stamp).count() as u64)
                };
                self.at = Some(Work::Counting { segment, seen, next: until, free });
                if until == count {
                    self.at = self.decide(plane, me, segment, seen, free);
                }
                Ok(self.at.is_none())
            }
            Some(Work::Moving { segment, next, left }) => self.move_some(plane, me, segment, next, left),
        }
    }

    /// Keeps as many emptied segments as the next writes may need, and gives the others back to the file system.
    fn meet_emptied(&mut self, plane: &Plane, me: &Process, segment: u64, count: u64) {
        if self.emptied.1 >= count {
            self.emptied = (0, 0);
        }
        self.emptied.0 += 1;
        let kept = if self.thorough { reserve::missing(plane) } else { count / KEPT_PART + KEPT_LEAST };
        if self.emptied.0 > kept {
            give_back(plane, me, segment);
        }
    }

    /// Whether a segment is worth giving up: it is at least half free, and two others of its class, a quarter free as
    /// they are on average, have room for what is in it. Without others it would only move into a new one.
    fn decide(&mut self, plane: &Plane, me: &Process, segment: u64, seen: SegmentState, free: u64) -> Option<Work> {
        let count = slots(seen.class());
        let part = (free * 256 / count) as u16;
        let smoothed = self.free.get_mut(seen.class() as usize)?;
        *smoothed = (*smoothed * 7 + part) / 8;
        if is_log(seen.class()) {
            // Chunks do not move, so their segments are only worth it when nothing is left.
            let enough = free == count || free * self.one_in >= count && seen.class() == LOG;
            let evacuates = enough && state(plane, segment) == seen && set_evacuating(plane, me, segment, true);
            return evacuates.then_some(Work::Moving { segment, next: 0, left: 0 });
        }
        let enough = free == count || part >= 128 && *smoothed >= 64 && has_others(plane, segment, seen.class(), 2);
        let evacuates = enough && state(plane, segment) == seen && set_evacuating(plane, me, segment, true);
        evacuates.then_some(Work::Moving { segment, next: 0, left: 0 })
    }

    fn move_some(&mut self, plane: &Plane, me: &Process, segment: u64, mut next: u64, mut left: u64) -> Result<bool> {
        let seen = state(plane, segment);
        if !matches!(seen.usage(), Use::Evacuating | Use::Closing) {
            self.at = None; // someone else has finished it
            return Ok(true);
        }
        let count = slots(seen.class());
        let (mut moved, mut looked) = (0, 0);
        while next < count && moved < MOVES_MAX && looked < STAMPS_MAX {
            let stamp = plane.stamp(segment, next).load(Ordering::SeqCst);
            if is_claim(stamp) {
                let claim = Claim { location: location(segment, seen.class(), next), stamp };
                let outcome = if is_note(stamp) {
                    notes::move_note(&Lane::enter(plane, me), claim, self.purpose)
                } else {
                    move_record(plane, me, claim, self.purpose)
                };
                match outcome {
                    Ok(true) => moved += 1,
                    Ok(false) => left += 1,
                    Err(error) => {
                        // Nowhere to move to: what was begun is undone.
                        set_evacuating(plane, me, segment, false);
                        self.at = None;
                        return Err(error);
                    }
                }
            }
            next += 1;
            looked += 1;
        }
        self.at = Some(Work::Moving { segment, next, left });
        if next < count {
            return Ok(false);
        }
        self.at = None;
        if close(plane, me, segment) {
            self.closed += 1;
        } else if left > 0 {
            // Chunks, which do not move, or slots that are being written: it may serve on.
            set_evacuating(plane, me, segment, false);
        }
        Ok(true)
    }
}

/// Whether a living process holds a segment to append to it, or all share it.
fn is_appended_to(plane: &Plane, me: &Process, segment: u64) -> bool {
    let owner = Lock(plane.segment(segment).1.load(Ordering::Relaxed)).owner();
    owner.is_some_and(|owner| !me.is_dead(plane, owner)) || shared_segment(plane) == Some(segment)
}

/// Goes over a part of a segment of the log, as far as one call may. Returns where it ends, and the granules of what begins
/// in it and is of use: a note that says nothing any more is not.
fn used_granules(plane: &Plane, segment: u64, first: u64, count: u64) -> (u64, u64) {
    let stamp = |granule| plane.stamp(segment, granule).load(Ordering::Relaxed);
    let end = (first + STAMPS_MAX_LOG).min(count);
    let (mut used, mut notes) = (0, 0);
    for granule in first..end {
        let claim = Claim { location: location(segment, LOG, granule), stamp: stamp(granule) };
        if !is_claim(claim.stamp) {
            continue;
        }
        if is_note(claim.stamp) {
            if notes == NOTES_MAX {
                return (granule, used);
            }
            notes += 1;
            if !notes::says_something(plane, claim) {
                continue;
            }
        }
        used += if granule + 1 < count { marked_length(stamp(granule + 1)) } else { 1 };
    }
    (end, used)
}

/// The entry that a record says it is of.
fn entry_of(plane: &Plane, header: &Header, line: Option<Line>) -> Option<u64> {
    match (&plane.log, line) {
        (None, _) => Some(header.entry),
        (Some(_), Some(line)) => index::find(plane, line.origin.digest),
        (Some(_), None) => None,
    }
    .filter(|entry| *entry < plane.entry_count())
}

/// Moves one record; false when it is not one that an entry leads to, or someone else changed it.
pub(crate) fn move_record(plane: &Plane, me: &Process, old: Claim, purpose: For) -> Result<bool> {
    let Some(header) = Header::read(plane, old.location) else { return Ok(false) };
    if header.stamp != old.stamp || !header.is_movable() {
        return Ok(false);
    }
    let line = plane.log.as_ref().and_then(|_| Line::read(plane, old.location));
    let Some(number) = entry_of(plane, &header, line) else { return Ok(false) };
    let entry = plane.entry(number);
    let state = entry.state();
    if !state.has_record() || state.location() != old.location {
        return Ok(false);
    }
    index::ask(plane, entry.digest()); // for the hint
    let Look::Record(snapshot) = look(plane, &entry, entry.digest(), WHOLE, 1)? else { return Ok(false) };
    if snapshot.state != state || snapshot.header.stamp != old.stamp {
        return Ok(false);
    }
    // In a log it stays what it was among all of its key.
    let says = Says::of_state(state.kind());
    let logged = line.map(|line| Logged { says, origin: line.origin, purpose });
    let lane = Lane::enter(plane, me);
    lane.intend(entry.number, Some(old));
    // The header as it was: overrides stay with the entry, whose version does not change.
    let new = write(&lane, snapshot.header, &snapshot.payload, logged)?;
    let moved = entry.replace_state(state, state.moved(new.location));
    if !moved {
        discard(&lane, new);
        return Ok(false);
    }
    lane.published();
    hint::leave(plane, &entry, new.location, snapshot.header.payload_bytes);
    discard_replaced(plane, &entry, old);
    // Who replaced the new one before it saw the mark may have known it by the stamp of an earlier record at the same
    // place, and has left it to us.
    if !leads_to(&entry, new.location) {
        free(plane, new);
    }
    me.count(plane, slot::MOVED, 1);
    Ok(true)
}

/// The whole of it: goes over all segments until nothing more can be given back or the time is over. True when done.
pub fn compact(plane: &Plane, me: &Process, start: Instant, time_max: Duration) -> Result<bool> {
    let mut compaction = Compaction::default();
    compaction.free.fill(128);
    compaction.thorough = true;
    let mut ends = 0;
    while ends < plane.segment_count() {
        if start.elapsed() >= time_max {
            return Ok(false);
        }
        // Nowhere to move to: that segment stays, the others have their turn.
        ends += u64::from(compaction.step(plane, me).unwrap_or(true));
    }
    Ok(true)
}
