//! Slots in memory: how a process claims them, and how an emptied segment is given back.

use std::sync::atomic::AtomicU64;

use sessile_core::{Error, Result};

use super::lane::{ClaimTarget, Lane, SlotClaim};
use super::segment::{BLOCKED, SegmentUse, is_claim, record_location};
use crate::{memory::*, table::*};

/// Where this process claims slots of one class: hints, which threads may overwrite.
#[derive(Default)]
struct Rotation {
    segment: AtomicU64, // + 1; 0: none yet
    next: AtomicU64,
    found: AtomicU64,
    poor: AtomicU64,
}

pub struct SlotRotations([Rotation; CLASSES as usize]);

impl Default for SlotRotations {
    fn default() -> SlotRotations {
        SlotRotations(std::array::from_fn(|_| Rotation::default()))
    }
}

/// A searched segment of whose slots less than this part was free is a poor one ...
const POOR: u64 = 24;
/// ... and after so many in a row the store grows: about one slot in thirty is free in a
/// store that is rewritten at random, the price of finding one cheaply.
const POOR_MAX: u64 = 8;
/// A begin searches four lines of stamps for the slot of its commit.
const LOOK_AHEAD: u64 = 32;
/// 8 KiB of headers.
const SEARCH_MAX: u64 = 512;

impl SlotRotations {
    pub fn claim_slot(
        &self,
        lane: &Lane<'_>,
        class: u64,
        target: ClaimTarget,
    ) -> Result<SlotClaim> {
        let plane = lane.plane;
        let Some(rotation) = self.0.get(class as usize) else { return Err(full()) };
        loop {
            if let Some(claim) = rotation.claim_here(lane, class, target) {
                return Ok(claim);
            }
            let here = rotation.segment.load(Relaxed);
            let searched = here == 0 || !rotation.is_poor(class);
            let next = if searched { plane.next_open(class) } else { None };
            match next.map_or_else(|| lane.process.open_slots(plane, class), Ok) {
                Ok(segment) => rotation.go_to(segment),
                Err(error) => return rotation.claim_anywhere(lane, class, target, error),
            }
        }
    }

    /// Prefetches the old stamp, and the first lines of the slot that a commit of this size will
    /// claim.
    pub fn expect_replacement(&self, plane: &Plane, old: Location, payload_bytes: u64) {
        let Some(class) = class_of(HEADER_BYTES + payload_bytes) else { return };
        plane.prefetch_stamp(old, slot_bytes(class));
        let Some(rotation) = self.0.get(class as usize) else { return };
        let Some(segment) = rotation.segment.load(Relaxed).checked_sub(1) else { return };
        let next = rotation.next.load(Relaxed);
        let until = slots(class).min(next + LOOK_AHEAD);
        if let Some(slot) = plane.find_free_slot(segment, next..until) {
            plane.prefetch_data(record_location(segment, class, slot));
            rotation.next.store(slot, Relaxed);
        }
    }
}

impl Rotation {
    fn claim_here(&self, lane: &Lane<'_>, class: u64, target: ClaimTarget) -> Option<SlotClaim> {
        let plane = lane.plane;
        let segment = self.segment.load(Relaxed).checked_sub(1)?;
        let seen = plane.segment_state(segment);
        if !seen.is_open_for(class) {
            return None;
        }
        let mut next = self.next.load(Relaxed);
        while let Some(slot) = plane.find_free_slot(segment, next..slots(class)) {
            next = slot + 1;
            let stamp = plane.stamp(segment, slot);
            let location = record_location(segment, class, slot);
            let claim = SlotClaim { location, stamp: lane.stamp() };
            lane.about_to_claim(target, claim);
            if !stamp.cas(0, claim.stamp) {
                continue;
            }
            if plane.segment_state(segment) != seen && !mutated(Mutation::ClaimsUnseen) {
                // Closed meanwhile. Our stamp kept the segment from being given away.
                stamp.cas(claim.stamp, 0);
                return None;
            }
            self.next.store(next, Relaxed);
            self.found.store(self.found.load(Relaxed) + 1, Relaxed);
            return Some(claim);
        }
        None
    }

    /// When growing is refused: one circle over all segments, however few slots each has free.
    fn claim_anywhere(
        &self,
        lane: &Lane<'_>,
        class: u64,
        target: ClaimTarget,
        refused: Error,
    ) -> Result<SlotClaim> {
        let plane = lane.plane;
        let cursor = plane.header(header::CURSORS + class * 8);
        let count = plane.segment_count().max(1);
        let first = cursor.load(Relaxed) % count;
        for segment in (first..count).chain(0..first) {
            if !plane.segment_state(segment).is_open_for(class) {
                continue;
            }
            self.go_to(segment);
            if let Some(claim) = self.claim_here(lane, class, target) {
                cursor.store(segment, Relaxed);
                return Ok(claim);
            }
        }
        Err(refused)
    }

    fn go_to(&self, segment: u64) {
        self.next.store(0, Relaxed);
        self.found.store(0, Relaxed);
        self.segment.store(segment + 1, Relaxed);
    }

    /// Whether the last searched segments had so few free slots that the store should grow.
    fn is_poor(&self, class: u64) -> bool {
        let poor = self.found.load(Relaxed) * POOR < slots(class);
        let poor = if poor { self.poor.load(Relaxed) + 1 } else { 0 };
        self.poor.store(poor % POOR_MAX, Relaxed);
        poor >= POOR_MAX
    }
}

impl Plane {
    /// The next open segment of a class. All processes share the cursor: a segment searched a
    /// moment ago has few free slots, and would make the store grow without need.
    fn next_open(&self, class: u64) -> Option<u64> {
        let (count, cursor) = (self.segment_count(), self.header(header::CURSORS + class * 8));
        if count == 0 {
            return None;
        }
        let after = cursor.load(Relaxed) % count;
        let found = (0..count.min(SEARCH_MAX))
            .map(|step| (after + step) % count)
            .find(|segment| self.segment_state(*segment).is_open_for(class));
        let next = found.map_or(after + count.min(SEARCH_MAX), |segment| segment + 1);
        cursor.store(next, Relaxed);
        found
    }

    pub fn has_two_others(&self, segment: u64, class: u64) -> bool {
        let count = self.segment_count();
        let others = (1..count.min(SEARCH_MAX)).map(|step| (segment + step) % count);
        others.filter(|other| self.segment_state(*other).is_open_for(class)).nth(1).is_some()
    }
}

impl AttachedProcess {
    fn open_slots(&self, plane: &Plane, class: u64) -> Result<u64> {
        let start = thread_cpu();
        if !plane.may_grow(SEGMENT_BYTES) {
            return Err(full());
        }
        let count = plane.segment_count();
        let first = plane.header(header::COMPACTION).load(Relaxed);
        let unbacked = (0..count.min(SEARCH_MAX))
            .map(|step| (first + step) % count)
            .filter(|segment| plane.segment_state(*segment).usage() == SegmentUse::Unbacked);
        // If another process takes the new segment first, add another.
        let new = std::iter::repeat_with(|| plane.add_segment());
        for segment in unbacked.map(Ok).chain(new) {
            let segment = segment?;
            if self.prepare_slots(plane, segment, class)? {
                self.count_cpu(plane, process_word::GROWTH_NS_MOST, start);
                return Ok(segment);
            }
        }
        Err(full())
    }

    /// False when another process is at it.
    fn prepare_slots(&self, plane: &Plane, segment: u64, class: u64) -> Result<bool> {
        let prepared = self.under_segment_lock(plane, segment, |word, seen| {
            if seen.usage() != SegmentUse::Unbacked {
                return Ok(false);
            }
            let stamps = (slots(class) * 8).next_multiple_of(PAGE_BYTES);
            plane.stamps.back(segment * STAMPS_BYTES, stamps)?;
            plane.data.back(segment * SEGMENT_BYTES, SEGMENT_BYTES)?;
            // An earlier use left BLOCKED, a process that died here zeros, too; none is claimed.
            (0..slots(class)).for_each(|slot| plane.stamp(segment, slot).store(0, Relaxed));
            // SeqCst: after the stamps.
            Ok(word.cas(seen.0, seen.next(SegmentUse::Open, class).0))
        });
        prepared.unwrap_or(Ok(false))
    }

    /// Closes an empty segment: in memory it goes back to the kernel, in a log it waits for a sync.
    pub fn close_segment(&self, plane: &Plane, segment: u64) -> bool {
        let closed = self.under_segment_lock(plane, segment, |word, seen| {
            if !seen.is_leaving() {
                return false;
            }
            let class = seen.class();
            let closing = if seen.usage() == SegmentUse::Closing {
                seen
            } else {
                seen.next(SegmentUse::Closing, class)
            };
            word.cas(seen.0, closing.0);
            let blocked = |slot| {
                let stamp = plane.stamp(segment, slot);
                let seen = stamp.load(SeqCst);
                let free = !is_claim(seen) && (seen == BLOCKED || stamp.cas(seen, BLOCKED));
                free || mutated(Mutation::ClosesOverStamps)
            };
            let closed = (0..slots(class)).all(blocked);
            let usage = if closed && is_log(class) {
                // SeqCst: a sync that began before this does not count.
                let begun = plane.header(header::SYNCS_BEGUN).load(SeqCst);
                plane.segment(segment).syncs.store(begun, SeqCst);
                SegmentUse::Emptied
            } else if closed {
                SegmentUse::Unbacked
            } else {
                // A slot was claimed at the last moment, or a record is left.
                for slot in 0..slots(class) {
                    plane.stamp(segment, slot).cas(BLOCKED, 0);
                }
                SegmentUse::Evacuating
            };
            word.cas(closing.0, closing.next(usage, class).0);
            if usage == SegmentUse::Unbacked {
                // Under the lock: a late punch would take away new records. Stamps keep their
                // memory, so that one who comes late may touch them on a full file system.
                plane.data.punch(segment * SEGMENT_BYTES, SEGMENT_BYTES);
            }
            closed
        });
        closed == Some(true)
    }
}
