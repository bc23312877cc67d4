//! Segments: equal pieces of the data file, each cut into slots of one size class.
//!
//! A slot is free when its stamp is zero. Invariants: a slot is claimed by one compare-and-swap of its stamp from
//! zero, and freed by one back to zero that names the stamp, so a slot is freed once however many try; a segment
//! changes its class only under its lock and only while every one of its stamps is [`BLOCKED`], so who claims a
//! stamp and then finds the segment unchanged owns bytes of the class that it meant. docs/engine.md, "Segments".

use std::sync::atomic::AtomicU64;

use sessile_core::{Error, ErrorKind, Result};

use crate::append::is_reusable;
use crate::broken::{self, Twin};
use crate::class::{CLASSES, CLASSES_ALL, class_of, is_log, slot_bytes, slots};
use crate::disklog::LINE_BYTES;
use crate::lane::{Claim, Lane};
use crate::layout::{PAGE_BYTES, SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SEGMENTS, SLOTS_MAX, STAMPS_BYTES, header};
use crate::lock::{try_lock, unlock};
use crate::plane::Plane;
use crate::process::{Process, slot, thread_cpu};
use crate::record::HEADER_BYTES;
use crate::staging;
use crate::sync::{Ordering, Word};
use crate::words::Location;

/// The stamp of a slot that nobody can claim, because its segment is being given back.
pub const BLOCKED: u64 = 1;
/// In the stamp of a note in the log, which nothing leads to.
const NOTE: u64 = 1 << 48;
/// The second granule of a record in the log says how long it is: this and the number of granules.
const LENGTH: u64 = 1 << 32;
/// Stamps of claims are greater: the process slot lies above these bits.
const CLAIM_MIN: u64 = 1 << 52;

/// Whether a stamp is one of a claim, and not one of the values with a meaning of their own.
pub fn is_claim(stamp: u64) -> bool {
    stamp >= CLAIM_MIN
}

/// Whether a stamp is one of a note.
pub fn is_note(stamp: u64) -> bool {
    is_claim(stamp) && stamp & NOTE != 0
}

/// The stamp that a claim for a note has.
pub fn note_stamp(stamp: u64) -> u64 {
    stamp | NOTE
}

/// The word of the second granule of a record.
pub fn length_mark(granules: u64) -> u64 {
    LENGTH | granules
}

/// What the second granule says of the length; one for a record without one.
pub fn marked_length(word: u64) -> u64 {
    if word & LENGTH != 0 && !is_claim(word) { (word & (LENGTH - 1)).max(1) } else { 1 }
}

/// What a segment is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// It has no memory and no class.
    Unbacked,
    /// Slots are claimed from it.
    Open,
    /// Its records are being moved elsewhere; nothing is claimed.
    Evacuating,
    /// Its stamps are being blocked.
    Closing,
    /// On a disk: nothing is in it, it has room there; what replaced its records may not be synced yet.
    Emptied,
}

/// The state of a segment: use (3 bits), class (8 bits), generation (53 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentState(pub u64);

impl SegmentState {
    pub fn usage(self) -> Use {
        match self.0 & 7 {
            1 => Use::Open,
            2 => Use::Evacuating,
            3 => Use::Closing,
            4 => Use::Emptied,
            _ => Use::Unbacked,
        }
    }

    /// Its class; bytes from shared memory are untrusted, hence the bound.
    pub fn class(self) -> u64 {
        (self.0 >> 3 & 0xff).min(CLASSES_ALL - 1)
    }

    /// Grows with each change, so that it names one use of the segment.
    pub fn generation(self) -> u64 {
        self.0 >> 11
    }

    /// The state of a segment whose records were found by a rebuild.
    pub fn rebuilt(usage: Use, class: u64, generation: u64) -> SegmentState {
        SegmentState(usage as u64 | class << 3 | generation << 11)
    }

    pub fn next(self, usage: Use, class: u64) -> SegmentState {
        SegmentState(usage as u64 | class << 3 | ((self.0 >> 11) + 1) << 11)
    }
}

/// The present state of a segment.
pub fn state(plane: &Plane, segment: u64) -> SegmentState {
    SegmentState(plane.segment(segment).0.load(Ordering::SeqCst))
}

/// The place of the header of the record in a slot.
pub fn location(segment: u64, class: u64, slot: u64) -> Location {
    let before = if is_log(class) { LINE_BYTES } else { 0 };
    Location::new(segment, slot * slot_bytes(class) + before)
}

/// The stamp of the slot at a location, if its segment has slots there.
pub fn stamp_of(plane: &Plane, location: Location) -> Option<&Word> {
    let segment = location.segment();
    if segment >= plane.segment_count() {
        return None;
    }
    let state = state(plane, segment);
    let slot = location.within() / slot_bytes(state.class());
    (!matches!(state.usage(), Use::Unbacked | Use::Emptied) && slot < slots(state.class()))
        .then(|| plane.stamp(segment, slot))
}

/// Frees a slot, once: true for the one call that did it.
pub fn free(plane: &Plane, claim: Claim) -> bool {
    is_claim(claim.stamp)
        && stamp_of(plane, claim.location).is_some_and(|stamp| {
            let named = if broken::is(Twin::FreesUnseen) { stamp.load(Ordering::SeqCst) } else { claim.stamp };
            stamp.cas(named, 0)
        })
}

/// Frees what a dead process had claimed or was about to. It may have meant a class that the segment no longer has,
/// and died before it could see that; so the stamp is looked for in the whole segment.
pub fn free_claim_of_dead(plane: &Plane, claim: Claim) {
    let segment = claim.location.segment();
    if !is_claim(claim.stamp) || segment >= plane.segment_count() || free(plane, claim) {
        return;
    }
    let slots = slots(state(plane, segment).class());
    (0..slots).for_each(|slot| {
        let stamp = plane.stamp(segment, slot);
        if stamp.load(Ordering::Relaxed) == claim.stamp {
            stamp.cas(claim.stamp, 0);
        }
    });
}

/// Where this process claims slots of one class. Only a hint: threads may overwrite each other's.
#[derive(Default)]
struct Rotation {
    segment: AtomicU64, // + 1; 0: none yet
    next: AtomicU64,
    found: AtomicU64,
    poor: AtomicU64,
}

/// Where this process claims slots: it goes over the open segments of a class, in a circle with all others.
pub struct Rotations([Rotation; CLASSES as usize]);

impl Default for Rotations {
    fn default() -> Rotations {
        Rotations(std::array::from_fn(|_| Rotation::default()))
    }
}

/// A segment of whose slots less than this part was free when it was searched is a poor one ...
const POOR: u64 = 8;
/// ... and after so many in a row the store grows. So about a sixteenth of the slots is free in a store that is
/// rewritten at random, which is what finding one cheaply costs; a store that only grows searches eight
/// segments in vain for each one that it fills.
const POOR_MAX: u64 = 8;
/// How far a begin looks ahead for the slot that its commit will claim: two lines of stamps.
const LOOK_AHEAD: u64 = 16;
/// Headers of segments looked at in one search: 8 KiB of memory.
const SEARCH_MAX: u64 = 512;

impl Rotations {
    /// Claims a slot of a class. `announce` writes the claim down before it is made.
    ///
    /// # Errors
    ///
    /// `Full` when there is no free slot and the store may not grow.
    pub fn claim(&self, lane: &Lane<'_>, class: u64, announce: impl Fn(Claim)) -> Result<Claim> {
        let plane = lane.plane;
        let Some(rotation) = self.0.get(class as usize) else { return Err(full()) };
        loop {
            if let Some(claim) = rotation.claim_here(lane, class, &announce) {
                return Ok(claim);
            }
            let here = rotation.segment.load(Ordering::Relaxed);
            let searched = here == 0 || !rotation.is_poor(class);
            let next = if searched { next_open(plane, class, SEARCH_MAX) } else { None };
            match next.map_or_else(|| open_one(lane, class), Ok) {
                Ok(segment) => rotation.go_to(segment),
                Err(error) => return self.claim_anywhere(lane, class, &announce, error),
            }
        }
    }

    /// When growing is refused: one circle over all segments, however little there is in each.
    fn claim_anywhere(&self, lane: &Lane<'_>, class: u64, announce: &impl Fn(Claim), error: Error) -> Result<Claim> {
        let plane = lane.plane;
        let Some(rotation) = self.0.get(class as usize) else { return Err(error) };
        let count = plane.segment_count().max(1);
        let first = plane.header(header::CURSORS + class * 8).load(Ordering::Relaxed) % count;
        for segment in (first..count).chain(0..first) {
            let state = state(plane, segment);
            if state.usage() != Use::Open || state.class() != class {
                continue;
            }
            rotation.go_to(segment);
            if let Some(claim) = rotation.claim_here(lane, class, announce) {
                plane.header(header::CURSORS + class * 8).store(segment, Ordering::Relaxed);
                return Ok(claim);
            }
        }
        Err(error)
    }
}

impl Rotations {
    /// Asks for the memory that a commit will touch if the payload keeps its size: the stamp of the old slot, which
    /// is freed, and the first lines of the slot that is likely to be claimed.
    pub fn expect_replacement(&self, plane: &Plane, old: Location, payload_bytes: u64) {
        let Some(class) = class_of(HEADER_BYTES + payload_bytes) else { return };
        plane.prefetch_stamp(old, slot_bytes(class));
        let Some(rotation) = self.0.get(class as usize) else { return };
        let Some(segment) = rotation.segment.load(Ordering::Relaxed).checked_sub(1) else { return };
        let next = rotation.next.load(Ordering::Relaxed);
        let until = slots(class).min(next + LOOK_AHEAD);
        if let Some(slot) = (next..until).find(|slot| plane.stamp(segment, *slot).load(Ordering::Relaxed) == 0) {
            plane.prefetch_data(location(segment, class, slot));
            rotation.next.store(slot, Ordering::Relaxed);
        }
    }
}

impl Rotation {
    /// Claims the next free slot of the segment that is being searched.
    fn claim_here(&self, lane: &Lane<'_>, class: u64, announce: &impl Fn(Claim)) -> Option<Claim> {
        let plane = lane.plane;
        let segment = self.segment.load(Ordering::Relaxed).checked_sub(1)?;
        let seen = state(plane, segment);
        if seen.usage() != Use::Open || seen.class() != class {
            return None;
        }
        for slot in self.next.load(Ordering::Relaxed)..slots(class) {
            let stamp = plane.stamp(segment, slot);
            if stamp.load(Ordering::Relaxed) != 0 {
                continue;
            }
            let claim = Claim { location: location(segment, class, slot), stamp: lane.stamp() };
            announce(claim);
            if !stamp.cas(0, claim.stamp) {
                continue;
            }
            if state(plane, segment) != seen && !broken::is(Twin::ClaimsUnseen) {
                // Closed meanwhile. Our stamp kept it from being given away; take it back.
                stamp.cas(claim.stamp, 0);
                return None;
            }
            self.next.store(slot + 1, Ordering::Relaxed);
            self.found.store(self.found.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return Some(claim);
        }
        None
    }

    /// Searches a segment from its start.
    fn go_to(&self, segment: u64) {
        self.next.store(0, Ordering::Relaxed);
        self.found.store(0, Ordering::Relaxed);
        self.segment.store(segment + 1, Ordering::Relaxed);
    }

    /// Whether the segments searched lately had so little that the store should grow.
    fn is_poor(&self, class: u64) -> bool {
        let poor = self.found.load(Ordering::Relaxed) * POOR < slots(class);
        let before = self.poor.load(Ordering::Relaxed);
        let poor = if poor { before + 1 } else { 0 };
        self.poor.store(poor % POOR_MAX, Ordering::Relaxed);
        poor >= POOR_MAX
    }
}

/// The next open segment of a class. All processes go round together: one that was searched a moment ago by another
/// has little to find, and would make the store grow without need.
fn next_open(plane: &Plane, class: u64, search_max: u64) -> Option<u64> {
    let (count, cursor) = (plane.segment_count(), plane.header(header::CURSORS + class * 8));
    if count == 0 {
        return None;
    }
    let after = cursor.load(Ordering::Relaxed) % count;
    let found = (0..count.min(search_max)).map(|step| (after + step) % count).find(|segment| {
        let state = state(plane, *segment);
        state.usage() == Use::Open && state.class() == class
    });
    cursor.store(found.map_or(after + count.min(search_max), |segment| segment + 1), Ordering::Relaxed);
    found
}

/// Whether a class has at least so many open segments besides this one, among those that one search looks at.
pub fn has_others(plane: &Plane, segment: u64, class: u64, least: usize) -> bool {
    let count = plane.segment_count();
    let others = (1..count.min(SEARCH_MAX)).map(|step| (segment + step) % count);
    let open = others.map(|other| state(plane, other)).filter(|state| state.usage() == Use::Open);
    open.filter(|state| state.class() == class).take(least).count() == least
}

/// Gives a segment to a class: one that was given back before, or a new one at the end.
fn open_one(lane: &Lane<'_>, class: u64) -> Result<u64> {
    let (plane, me) = (lane.plane, lane.process);
    let start = thread_cpu();
    if plane.occupied() + SEGMENT_BYTES > plane.bytes_max() {
        return Err(full());
    }
    let count = plane.segment_count();
    let first = plane.header(header::COMPACTION).load(Ordering::Relaxed);
    let unbacked = (0..count.min(SEARCH_MAX)).map(|step| (first + step) % count).find_map(|segment| {
        let free = state(plane, segment).usage() == Use::Unbacked;
        free.then(|| prepare(plane, me, segment, class).transpose()).flatten()
    });
    let opened = match unbacked {
        Some(opened) => opened?,
        None => loop {
            // If someone else prepares it first, add another.
            if let Some(opened) = prepare(plane, me, add_segment(plane)?, class)? {
                break opened;
            }
        },
    };
    me.count_cpu(plane, slot::GROWTH_NS_MOST, start);
    Ok(opened)
}

/// A segment more at the end, unbacked; whoever added it.
pub fn add_segment(plane: &Plane) -> Result<u64> {
    let new = plane.segment_count();
    if new >= plane.segments_max() {
        return Err(full());
    }
    let header_page = (SEGMENTS + new * SEGMENT_HEADER_BYTES) / PAGE_BYTES * PAGE_BYTES;
    plane.control.back(header_page, PAGE_BYTES)?;
    plane.header(header::SEGMENTS).cas(new, new + 1);
    Ok(new)
}

/// Gives an unbacked segment memory and a class; `None` when someone else is at it.
fn prepare(plane: &Plane, me: &Process, segment: u64, class: u64) -> Result<Option<u64>> {
    let (word, lock) = plane.segment(segment);
    let Some(mine) = try_lock(plane, me, lock) else { return Ok(None) };
    let seen = SegmentState(word.load(Ordering::SeqCst));
    let prepared = if seen.usage() == Use::Unbacked {
        back(plane, segment, class).map(|()| {
            // Who died while preparing it left any of zero and BLOCKED; nobody can have claimed one.
            (0..slots(class)).for_each(|slot| plane.stamp(segment, slot).store(0, Ordering::Relaxed));
            // SeqCst: after the stamps.
            word.cas(seen.0, seen.next(Use::Open, class).0).then_some(segment)
        })
    } else {
        Ok(None)
    };
    unlock(lock, mine);
    prepared
}

fn back(plane: &Plane, segment: u64, class: u64) -> Result<()> {
    plane.stamps.back(segment * STAMPS_BYTES, (slots(class) * 8).next_multiple_of(PAGE_BYTES))?;
    plane.data.back(segment * SEGMENT_BYTES, SEGMENT_BYTES)
}

/// Gives an evacuating segment back to the kernel if nothing is left in it.
pub fn close(plane: &Plane, me: &Process, segment: u64) -> bool {
    let (word, lock) = plane.segment(segment);
    let Some(mine) = try_lock(plane, me, lock) else { return false };
    let seen = SegmentState(word.load(Ordering::SeqCst));
    let class = seen.class();
    let mut closed = false;
    if matches!(seen.usage(), Use::Evacuating | Use::Closing) {
        let closing = if seen.usage() == Use::Closing { seen } else { seen.next(Use::Closing, class) };
        word.cas(seen.0, closing.0);
        let blocked = |slot| {
            let stamp = plane.stamp(segment, slot);
            let seen = stamp.load(Ordering::SeqCst);
            let free = !is_claim(seen) && (seen == BLOCKED || stamp.cas(seen, BLOCKED));
            free || broken::is(Twin::ClosesOverStamps)
        };
        closed = (0..slots(class)).all(blocked);
        if closed && is_log(class) {
            // SeqCst: a sync that began before this does not count.
            plane
                .log_segment(segment)
                .0
                .store(plane.header(header::SYNCS_BEGUN).load(Ordering::SeqCst), Ordering::SeqCst);
            word.cas(closing.0, closing.next(Use::Emptied, class).0);
        } else if closed {
            // Before it may be prepared again: a late punch would take away what others have written.
            plane.data.punch(segment * SEGMENT_BYTES, SEGMENT_BYTES);
            // Zero again, so a claimer that comes very late may take one; it then finds the state changed.
            plane.stamps.punch(segment * STAMPS_BYTES, STAMPS_BYTES);
            word.cas(closing.0, closing.next(Use::Unbacked, class).0);
        } else {
            // Someone claimed a slot at the last moment, or a record is left.
            (0..slots(class)).for_each(|slot| {
                plane.stamp(segment, slot).cas(BLOCKED, 0);
            });
            word.cas(closing.0, closing.next(Use::Evacuating, class).0);
        }
    }
    unlock(lock, mine);
    closed
}

/// Gives the room of an emptied segment of the log back to the file system, if it may be reused already.
pub fn give_back(plane: &Plane, me: &Process, segment: u64) -> bool {
    let Some(log) = &plane.log else { return false };
    let (word, lock) = plane.segment(segment);
    let Some(mine) = try_lock(plane, me, lock) else { return false };
    let seen = SegmentState(word.load(Ordering::SeqCst));
    let given = seen.usage() == Use::Emptied && is_reusable(plane, segment) && staging::give_up(plane, me, segment);
    if given {
        log.file.punch(segment * SEGMENT_BYTES, SEGMENT_BYTES);
        plane.stamps.punch(segment * STAMPS_BYTES, STAMPS_BYTES);
        word.cas(seen.0, seen.next(Use::Unbacked, seen.class()).0);
    }
    unlock(lock, mine);
    given
}

/// Changes between open and evacuating, unless someone else is changing it.
pub fn set_evacuating(plane: &Plane, me: &Process, segment: u64, evacuating: bool) -> bool {
    let (word, lock) = plane.segment(segment);
    let Some(mine) = try_lock(plane, me, lock) else { return false };
    let seen = SegmentState(word.load(Ordering::SeqCst));
    let (from, to) = if evacuating { (Use::Open, Use::Evacuating) } else { (Use::Evacuating, Use::Open) };
    let changed = seen.usage() == from && word.cas(seen.0, seen.next(to, seen.class()).0);
    if changed && is_log(seen.class()) {
        // Never appended to again in this use, also if it is not emptied after all: its records have one generation.
        plane.log_segment(segment).1.store(SLOTS_MAX, Ordering::Release);
    }
    unlock(lock, mine);
    changed
}

pub(crate) fn full() -> Error {
    Error::new(ErrorKind::Full, "the store has reached its size limit")
        .advice("raise `size_bytes_max` in the URL, lower time to live or payloads, or run `sessile gc`")
}
