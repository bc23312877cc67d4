//! Compaction: the records of a sparse segment move elsewhere, a few per call, and its memory goes back.
//!
//! Invariant: a move changes the location of a record and nothing else, by one compare-and-swap of the entry's state
//! that keeps the version; whoever changes the record at the same time wins. It is never needed for correctness.

use std::time::{Duration, Instant};

use sessile_core::Result;

use crate::class::{CLASSES, slots};
use crate::lane::{Claim, Lane};
use crate::layout::header;
use crate::plane::Plane;
use crate::process::{Process, slot};
use crate::record::{Header, Look, discard, discard_replaced, leads_to, look, write};
use crate::segment::{BLOCKED, Rotations, SegmentState, Use, close, free, has_others, set_evacuating, state};
use crate::sync::Ordering;

/// Records moved in one call.
const MOVES_MAX: u64 = 2;
/// Stamps looked at in one call.
const STAMPS_MAX: u64 = 64;

/// Where this process is.
pub struct Compaction {
    at: Option<Work>,
    /// The part of free slots that segments of a class had when we last came by, in 1/256, smoothed.
    free: [u16; CLASSES as usize],
}

impl Default for Compaction {
    fn default() -> Compaction {
        Compaction { at: None, free: [0; CLASSES as usize] }
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

    /// One small step. True when it has come to the end of a segment.
    pub fn step(&mut self, plane: &Plane, me: &Process, rotations: &Rotations) -> Result<bool> {
        match self.at {
            None => {
                let count = plane.segment_count();
                if count == 0 {
                    return Ok(true);
                }
                let segment = plane.header(header::COMPACTION).add(1) % count;
                let seen = state(plane, segment);
                self.at = match seen.usage() {
                    Use::Open => Some(Work::Counting { segment, seen, next: 0, free: 0 }),
                    Use::Evacuating | Use::Closing => Some(Work::Moving { segment, next: 0, left: 0 }),
                    Use::Unbacked => None,
                };
                Ok(self.at.is_none())
            }
            Some(Work::Counting { segment, seen, next, free }) => {
                let count = slots(seen.class());
                let until = (next + STAMPS_MAX).min(count);
                let stamp = |slot: &u64| plane.stamp(segment, *slot).load(Ordering::Relaxed) == 0;
                let free = free + (next..until).filter(stamp).count() as u64;
                self.at = Some(Work::Counting { segment, seen, next: until, free });
                if until == count {
                    self.at = self.decide(plane, me, segment, seen, free);
                }
                Ok(self.at.is_none())
            }
            Some(Work::Moving { segment, next, left }) => self.move_some(plane, me, rotations, segment, next, left),
        }
    }

    /// Whether a segment is worth giving up: it is at least half free, and two others of its class, a quarter free as
    /// they are on average, have room for what is in it. Without others it would only move into a new one.
    fn decide(&mut self, plane: &Plane, me: &Process, segment: u64, seen: SegmentState, free: u64) -> Option<Work> {
        let count = slots(seen.class());
        let part = (free * 256 / count) as u16;
        let smoothed = self.free.get_mut(seen.class() as usize)?;
        *smoothed = (*smoothed * 7 + part) / 8;
        let enough = free == count || part >= 128 && *smoothed >= 64 && has_others(plane, segment, seen.class(), 2);
        let evacuates = enough && state(plane, segment) == seen && set_evacuating(plane, me, segment, true);
        evacuates.then_some(Work::Moving { segment, next: 0, left: 0 })
    }

    fn move_some(
        &mut self,
        plane: &Plane,
        me: &Process,
        rotations: &Rotations,
        segment: u64,
        mut next: u64,
        mut left: u64,
    ) -> Result<bool> {
        let seen = state(plane, segment);
        if !matches!(seen.usage(), Use::Evacuating | Use::Closing) {
            self.at = None; // someone else has finished it
            return Ok(true);
        }
        let count = slots(seen.class());
        let (mut moved, mut looked) = (0, 0);
        while next < count && moved < MOVES_MAX && looked < STAMPS_MAX {
            let stamp = plane.stamp(segment, next).load(Ordering::SeqCst);
            if stamp > BLOCKED {
                let claim = Claim { location: crate::segment::location(segment, seen.class(), next), stamp };
                match move_record(plane, me, rotations, claim) {
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
        if !close(plane, me, segment) && left > 0 {
            // Chunks, which do not move, or slots that are being written: it may serve on.
            set_evacuating(plane, me, segment, false);
        }
        Ok(true)
    }
}

/// Moves one record; false when it is not one that an entry leads to, or someone else changed it.
pub(crate) fn move_record(plane: &Plane, me: &Process, rotations: &Rotations, old: Claim) -> Result<bool> {
    let Some(header) = Header::read(plane, old.location) else { return Ok(false) };
    if header.stamp != old.stamp || !header.is_movable() || header.entry >= plane.entry_count() {
        return Ok(false);
    }
    let entry = plane.entry(header.entry);
    let state = entry.state();
    if !state.has_record() || state.location() != old.location {
        return Ok(false);
    }
    let Look::Record(snapshot) = look(plane, &entry, entry.digest(), true, 1)? else { return Ok(false) };
    if snapshot.state != state || snapshot.header.stamp != old.stamp {
        return Ok(false);
    }
    let lane = Lane::enter(plane, me);
    lane.intend(entry.number, Some(old));
    // The header as it was: overrides stay with the entry, whose version does not change.
    let new = write(&lane, rotations, snapshot.header, &snapshot.payload)?;
    let moved = entry.replace_state(state, state.moved(new.location));
    if !moved {
        discard(plane, new);
        return Ok(false);
    }
    lane.published();
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
pub fn compact(plane: &Plane, me: &Process, rotations: &Rotations, start: Instant, time_max: Duration) -> Result<bool> {
    let mut compaction = Compaction::default();
    compaction.free.fill(128);
    let mut ends = 0;
    while ends < plane.segment_count() {
        if start.elapsed() >= time_max {
            return Ok(false);
        }
        // Nowhere to move to: that segment stays, the others have their turn.
        ends += u64::from(compaction.step(plane, me, rotations).unwrap_or(true));
    }
    Ok(true)
}
