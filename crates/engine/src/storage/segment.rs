//! Segments: equal pieces of the data file, each cut into slots of one size class.
//!
//! Invariants: a slot is free when its stamp is zero, and freed by naming its stamp; a segment
//! changes its class only under its lock and while all its stamps are [`BLOCKED`]. DESIGN.md,
//! "Segments".

use sessile_core::Result;

use super::lane::SlotClaim;
use crate::{memory::*, table::*};

/// The stamp of a slot that cannot be claimed, because its segment is being given back.
pub const BLOCKED: u64 = 1;
/// In the stamp of a note in the log, to which no entry leads.
const NOTE: u64 = 1 << 48;
/// The second granule of a record in the log: this and the number of granules.
const LENGTH: u64 = 1 << 32;
/// Stamps of claims are greater: the process slot lies above these bits.
const CLAIM_MIN: u64 = 1 << 52;

pub fn is_claim(stamp: u64) -> bool {
    stamp >= CLAIM_MIN
}

pub fn is_note(stamp: u64) -> bool {
    is_claim(stamp) && stamp & NOTE != 0
}

pub fn note_stamp(stamp: u64) -> u64 {
    stamp | NOTE
}

/// For a record whose own stamp cannot be believed: no lane makes it.
pub fn stamp_of_damaged(location: Location, is_note: bool) -> u64 {
    let stamp = ((PROCESSES_MAX + 1) * CLAIM_MIN) | location.0;
    if is_note { note_stamp(stamp) } else { stamp }
}

pub fn length_mark(granules: u64) -> u64 {
    LENGTH | granules
}

/// The granules of a record whose second granule has this word.
pub fn marked_length(word: u64) -> u64 {
    if word & LENGTH != 0 && !is_claim(word) { (word & (LENGTH - 1)).max(1) } else { 1 }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SegmentUse {
    Unbacked,
    Open,
    /// Its records are being moved elsewhere; nothing is claimed.
    Evacuating,
    Closing,
    /// Empty with its room on the disk; its successors may not be synced yet.
    Emptied,
}

/// The state of a segment: use (3 bits), class (8 bits), generation (53 bits).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SegmentState(pub u64);

impl SegmentState {
    pub fn usage(self) -> SegmentUse {
        match self.0 & 7 {
            1 => SegmentUse::Open,
            2 => SegmentUse::Evacuating,
            3 => SegmentUse::Closing,
            4 => SegmentUse::Emptied,
            _ => SegmentUse::Unbacked,
        }
    }

    /// Bytes from shared memory are untrusted, hence the bound.
    pub fn class(self) -> u64 {
        (self.0 >> 3 & 0xff).min(CLASSES_ALL - 1)
    }

    /// Grows with each change, so that it names one use of the segment.
    pub fn generation(self) -> u64 {
        self.0 >> 11
    }

    pub fn rebuilt(usage: SegmentUse, class: u64, generation: u64) -> SegmentState {
        SegmentState(usage as u64 | class << 3 | generation << 11)
    }

    pub fn next(self, usage: SegmentUse, class: u64) -> SegmentState {
        SegmentState::rebuilt(usage, class, self.generation() + 1)
    }

    pub fn is_open_for(self, class: u64) -> bool {
        self.usage() == SegmentUse::Open && self.class() == class
    }

    pub fn is_leaving(self) -> bool {
        matches!(self.usage(), SegmentUse::Evacuating | SegmentUse::Closing)
    }

    pub fn has_slots(self) -> bool {
        !matches!(self.usage(), SegmentUse::Unbacked | SegmentUse::Emptied)
    }
}

impl Plane {
    pub fn segment_state(&self, segment: u64) -> SegmentState {
        SegmentState(self.segment(segment).state.load(SeqCst))
    }

    pub fn stamp_of(&self, location: Location) -> Option<&Word> {
        let segment = location.segment();
        if segment >= self.segment_count() {
            return None;
        }
        let state = self.segment_state(segment);
        let slot = location.within() / slot_bytes(state.class());
        (state.has_slots() && slot < slots(state.class())).then(|| self.stamp(segment, slot))
    }

    /// True for the one call that did it.
    pub fn free_slot(&self, claim: SlotClaim) -> bool {
        is_claim(claim.stamp)
            && self.stamp_of(claim.location).is_some_and(|stamp| {
                let named =
                    if mutated(Mutation::FreesUnseen) { stamp.load(SeqCst) } else { claim.stamp };
                stamp.cas(named, 0)
            })
    }

    /// Frees a slot of a dead process, which may have meant a class that the segment no longer has:
    /// its stamp is searched in the whole segment.
    pub fn free_slot_of_dead(&self, claim: SlotClaim) {
        let segment = claim.location.segment();
        if !is_claim(claim.stamp) || segment >= self.segment_count() || self.free_slot(claim) {
            return;
        }
        for slot in 0..slots(self.segment_state(segment).class()) {
            let stamp = self.stamp(segment, slot);
            if stamp.load(Relaxed) == claim.stamp {
                stamp.cas(claim.stamp, 0);
            }
        }
    }

    /// Adds an unbacked segment at the end, unless another process just did; returns its number.
    pub fn add_segment(&self) -> Result<u64> {
        let new = self.segment_count();
        if new >= self.segments_max() {
            return Err(full());
        }
        let header_page = (SEGMENTS + new * SEGMENT_HEADER_BYTES) / PAGE_BYTES * PAGE_BYTES;
        self.control.back(header_page, PAGE_BYTES)?;
        self.header(header::SEGMENTS).cas(new, new + 1);
        Ok(new)
    }

    pub fn add_segments(&self, count: u64) -> Result<()> {
        while self.segment_count() < count {
            self.add_segment()?;
        }
        Ok(())
    }
}

/// The location of a record is that of its header.
pub fn record_location(segment: u64, class: u64, slot: u64) -> Location {
    let before = if is_log(class) { LOG_LINE_BYTES } else { 0 };
    Location::new(segment, slot * slot_bytes(class) + before)
}

impl AttachedProcess {
    /// `None` while another process has the lock.
    pub fn under_segment_lock<T>(
        &self,
        plane: &Plane,
        segment: u64,
        change: impl FnOnce(&Word, SegmentState) -> T,
    ) -> Option<T> {
        let words = plane.segment(segment);
        let _held = self.try_hold(plane, words.lock)?;
        Some(change(words.state, SegmentState(words.state.load(SeqCst))))
    }

    /// Changes between open and evacuating, unless another process is changing the segment.
    pub fn set_evacuating(&self, plane: &Plane, segment: u64, evacuating: bool) -> bool {
        let (from, to) = if evacuating {
            (SegmentUse::Open, SegmentUse::Evacuating)
        } else {
            (SegmentUse::Evacuating, SegmentUse::Open)
        };
        let changed = self.under_segment_lock(plane, segment, |word, seen| {
            let changed = seen.usage() == from && word.cas(seen.0, seen.next(to, seen.class()).0);
            if changed && is_log(seen.class()) {
                // Never appended to again in this use: its records have one generation.
                plane.segment(segment).appended.store(SLOTS_MAX, Release);
            }
            changed
        });
        changed == Some(true)
    }
}
