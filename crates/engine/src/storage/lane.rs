//! Lanes: what a thread is about to change, written down before the change.
//!
//! Invariants: from before a slot is claimed until after the old one is freed, the lane names the
//! entry, both slots and their stamps (DESIGN.md, "Recovery"). A lane in use always names its
//! entry: no claim can be written down without one.

use std::time::Duration;

use crate::{memory::*, table::*};

/// A slot and its stamp, which never repeats: one use of the slot.
#[derive(Clone, Copy)]
pub struct SlotClaim {
    pub location: Location,
    pub stamp: u64,
}

pub struct LaneIntent {
    pub entry: u64,
    pub new: Option<SlotClaim>,
    pub old: Option<SlotClaim>,
    pub chunk: Option<SlotClaim>,
}

pub struct Lane<'a> {
    pub plane: &'a Plane,
    pub process: &'a AttachedProcess,
    number: u64,
    words: &'a [Word; LINE_WORDS],
}

/// What a slot is claimed for, and where the lane names it.
#[derive(Clone, Copy)]
pub enum ClaimTarget {
    Record = 2,
    /// A chunk of the payload, or a note.
    Chunk = 6,
}

const SEQUENCE: usize = 0;
const ENTRY: usize = 1;
const NEW: usize = ClaimTarget::Record as usize;
const OLD: usize = 4;
const CHUNK: usize = ClaimTarget::Chunk as usize;
/// In the word of the entry: the claimed slot has been published.
const PUBLISHED: u64 = 1 << 63;
/// The highest bit of a sequence stays zero: stamps of notes have it (segment.rs).
const SEQUENCE_BITS: u32 = 49;
const SEQUENCE_MASK: u64 = (1 << (SEQUENCE_BITS - 1)) - 1;
const LANE_BITS: u32 = 3;
const LANE_PAUSE: Duration = Duration::from_micros(100);

impl<'a> Lane<'a> {
    /// Takes a free lane for a change of an entry, whose record is `old`.
    pub fn enter(
        plane: &'a Plane,
        process: &'a AttachedProcess,
        entry: u64,
        old: Option<SlotClaim>,
    ) -> Lane<'a> {
        let number = loop {
            // Acquire pairs with the release in `drop`: the next user sees the words of the last.
            let free = process
                .lanes_in_use
                .iter()
                .position(|in_use| in_use.compare_exchange(false, true, Acquire, Relaxed).is_ok());
            if let Some(number) = free {
                break number as u64;
            }
            // More threads than lanes write at this moment.
            if plane.log.as_ref().is_some_and(|log| log.sync == SyncMode::EachChange) {
                std::thread::sleep(LANE_PAUSE); // each waits for a sync
            } else {
                std::thread::yield_now();
            }
        };
        let lane = Lane { plane, process, number, words: plane.lane(process.slot, number) };
        lane.put(NEW, None);
        lane.put(CHUNK, None);
        lane.put(OLD, old);
        lane.words[ENTRY].store(entry + 1, Release);
        lane
    }

    /// Never used before: the sequence goes on from one owner of the slot to the next.
    pub fn stamp(&self) -> u64 {
        let sequence = (self.words[SEQUENCE].load(Relaxed) + 1) & SEQUENCE_MASK;
        self.words[SEQUENCE].store(sequence, Relaxed);
        (self.process.slot + 1) << (SEQUENCE_BITS + LANE_BITS)
            | self.number << SEQUENCE_BITS
            | sequence
    }

    pub fn replaces(&self, old: Option<SlotClaim>) {
        self.put(OLD, old);
    }

    #[inline]
    pub fn about_to_claim(&self, target: ClaimTarget, claim: SlotClaim) {
        self.put(target as usize, Some(claim));
    }

    /// The entry leads to the new slot. SeqCst: a process that replaces it from now on either finds
    /// the lane marked, or is seen by a later read of the entry.
    pub fn published(&self) {
        let entry = self.words[ENTRY].load(Relaxed);
        self.words[ENTRY].store(entry | PUBLISHED, SeqCst);
    }

    fn put(&self, at: usize, claim: Option<SlotClaim>) {
        let (location, stamp) = claim.map_or((0, 0), |claim| (claim.location.0 + 1, claim.stamp));
        if let Some([first, second]) = self.words.get(at..at + 2) {
            // The location is written last and taken away first: a pair is never of two claims.
            first.store(0, Release);
            second.store(stamp, Release);
            first.store(location, Release);
        }
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        // Release: after the slots were freed.
        self.words[ENTRY].store(0, Release);
        if let Some(in_use) = self.process.lanes_in_use.get(self.number as usize) {
            in_use.store(false, Release);
        }
    }
}

/// The process slot and lane that made a stamp, and its sequence.
pub fn made_by(stamp: u64) -> (u64, u64, u64) {
    let slot = (stamp >> (SEQUENCE_BITS + LANE_BITS)).saturating_sub(1);
    let lane = stamp >> SEQUENCE_BITS & ((1 << LANE_BITS) - 1);
    (slot, lane, stamp & SEQUENCE_MASK)
}

impl Plane {
    /// Keeps the lane that made a stamp from making it again.
    pub fn skip_stamp(&self, stamp: u64) {
        if let Some((_, words)) = self.lane_of(stamp) {
            words[SEQUENCE].raise(made_by(stamp).2);
        }
    }

    fn lane_of(&self, stamp: u64) -> Option<(u64, &[Word; LINE_WORDS])> {
        let (slot, lane, _) = made_by(stamp);
        (slot < PROCESSES_MAX && lane < LANES).then(|| (slot, self.lane(slot, lane)))
    }

    /// Whether the lane that made a stamp names it as one that may yet be published.
    pub fn is_in_progress(&self, stamp: u64) -> bool {
        self.lane_of(stamp).is_some_and(|(_, words)| {
            let entry = words[ENTRY].load(SeqCst);
            entry != 0 && entry & PUBLISHED == 0 && words[NEW + 1].load(SeqCst) == stamp
        })
    }

    pub fn is_being_noted(&self, stamp: u64) -> bool {
        self.lane_of(stamp).is_some_and(|(slot, words)| {
            let life = self.process_word(slot, process_word::LIFE).load(SeqCst);
            life & 1 == 1
                && words[ENTRY].load(SeqCst) != 0
                && words[CHUNK + 1].load(SeqCst) == stamp
        })
    }

    pub fn lane_intents(&self, slot: u64) -> impl Iterator<Item = LaneIntent> + '_ {
        (0..LANES).filter_map(move |lane| {
            let words = self.lane(slot, lane);
            let claim = |at: usize| {
                let [first, second] = words.get(at..at + 2)? else { return None };
                let location = first.load(Acquire).checked_sub(1)?;
                Some(SlotClaim { location: Location(location), stamp: second.load(Relaxed) })
            };
            let entry = (words[ENTRY].load(Acquire) & !PUBLISHED).checked_sub(1)?;
            Some(LaneIntent { entry, new: claim(NEW), old: claim(OLD), chunk: claim(CHUNK) })
        })
    }
}
