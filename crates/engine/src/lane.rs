//! Lanes: what a thread is about to change, written down before it does.
//!
//! Invariant: from before a slot is claimed until after the old one is freed, the lane names the entry, both slots
//! and their stamps. So whoever finds the process dead can tell from the entry whether the change was published, and
//! frees the slot that nobody leads to: docs/engine.md, "Recovery". A lane has one user at a time.

use crate::layout::{LANES, PROCESSES_MAX};
use crate::map::LINE_WORDS;
use crate::plane::Plane;
use crate::process::{Process, slot::LIFE};
use crate::sync::{Ordering, Word};
use crate::words::Location;

/// A slot and the stamp it was claimed with. Stamps never repeat, so it names one use of the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    pub location: Location,
    pub stamp: u64,
}

/// What a lane says.
#[derive(Clone, Copy, Debug)]
pub struct Intent {
    pub entry: u64,
    pub new: Option<Claim>,
    pub old: Option<Claim>,
    pub chunk: Option<Claim>,
}

/// A lane in use.
pub struct Lane<'a> {
    pub plane: &'a Plane,
    pub process: &'a Process,
    number: u64,
    words: &'a [Word; LINE_WORDS],
}

const SEQUENCE: usize = 0;
const ENTRY: usize = 1;
const NEW: usize = 2;
const OLD: usize = 4;
const CHUNK: usize = 6;
/// In the word of the entry: what was claimed has been published.
const PUBLISHED: u64 = 1 << 63;
/// The highest bit of a sequence stays zero: notes in the log have it (segment.rs).
const SEQUENCE_BITS: u32 = 49;
const LANE_BITS: u32 = 3;

impl<'a> Lane<'a> {
    /// A free lane of this process.
    pub fn enter(plane: &'a Plane, process: &'a Process) -> Lane<'a> {
        loop {
            for (number, busy) in process.busy.iter().enumerate() {
                // Acquire pairs with the release in `drop`: the next user sees the words of the one before.
                if busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    let number = number as u64;
                    return Lane { plane, process, number, words: plane.lane(process.slot, number) };
                }
            }
            // More threads than lanes write at this moment; none of them waits for anything in there.
            std::thread::yield_now();
        }
    }

    /// A stamp that was never used before. The sequence goes on from one owner of the slot to the next.
    pub fn stamp(&self) -> u64 {
        let sequence = (self.words[SEQUENCE].load(Ordering::Relaxed) + 1) & ((1 << (SEQUENCE_BITS - 1)) - 1);
        self.words[SEQUENCE].store(sequence, Ordering::Relaxed);
        (self.process.slot + 1) << (SEQUENCE_BITS + LANE_BITS) | self.number << SEQUENCE_BITS | sequence
    }

    /// From now on this entry is being changed from `old`.
    pub fn intend(&self, entry: u64, old: Option<Claim>) {
        self.put(NEW, None);
        self.put(CHUNK, None);
        self.put(OLD, old);
        self.words[ENTRY].store(entry + 1, Ordering::Release);
    }

    /// What is replaced has moved.
    pub fn replaces(&self, old: Option<Claim>) {
        self.put(OLD, old);
    }

    /// This slot is about to be claimed for it.
    pub fn about_to_claim(&self, new: Claim) {
        self.put(NEW, Some(new));
    }

    /// This slot is about to be claimed for a chunk of its payload.
    pub fn about_to_claim_chunk(&self, chunk: Claim) {
        self.put(CHUNK, Some(chunk));
    }

    /// The entry leads to the new slot. SeqCst: whoever replaces it from now on either finds the lane marked, or is seen
    /// by a look at the entry that comes after this.
    pub fn published(&self) {
        let entry = self.words[ENTRY].load(Ordering::Relaxed);
        self.words[ENTRY].store(entry | PUBLISHED, Ordering::SeqCst);
    }

    /// Everything is in order again.
    pub fn done(&self) {
        // Release: after what was freed.
        self.words[ENTRY].store(0, Ordering::Release);
    }

    fn put(&self, at: usize, claim: Option<Claim>) {
        let (location, stamp) = claim.map_or((0, 0), |claim| (claim.location.0 + 1, claim.stamp));
        if let Some([first, second]) = self.words.get(at..at + 2) {
            // The location is written last and taken away first: a pair is never of two claims.
            first.store(0, Ordering::Release);
            second.store(stamp, Ordering::Release);
            first.store(location, Ordering::Release);
        }
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.done();
        if let Some(busy) = self.process.busy.get(self.number as usize) {
            busy.store(false, Ordering::Release);
        }
    }
}

/// The lane that made a stamp, and the sequence in it.
pub fn made_by(stamp: u64) -> (u64, u64, u64) {
    let slot = (stamp >> (SEQUENCE_BITS + LANE_BITS)).saturating_sub(1);
    let lane = stamp >> SEQUENCE_BITS & ((1 << LANE_BITS) - 1);
    (slot, lane, stamp & ((1 << (SEQUENCE_BITS - 1)) - 1))
}

/// Raises the sequence of a lane, so that it never makes a stamp again that a rebuild has found.
pub fn skip_to(plane: &Plane, slot: u64, lane: u64, sequence: u64) {
    plane.lane(slot, lane)[SEQUENCE].raise(sequence);
}

/// Whether the lane that made a stamp names it as one that may yet be published.
pub fn is_in_progress(plane: &Plane, stamp: u64) -> bool {
    let (slot, lane, _) = made_by(stamp);
    if slot >= PROCESSES_MAX || lane >= LANES {
        return false;
    }
    let words = plane.lane(slot, lane);
    let entry = words[ENTRY].load(Ordering::SeqCst);
    entry != 0 && entry & PUBLISHED == 0 && words[NEW + 1].load(Ordering::SeqCst) == stamp
}

/// Whether a living process is still at the note that has this stamp: it stands where a chunk would, without a record.
pub fn is_being_noted(plane: &Plane, stamp: u64) -> bool {
    let (slot, lane, _) = made_by(stamp);
    if slot >= PROCESSES_MAX || lane >= LANES {
        return false;
    }
    let (life, words) = (plane.process_word(slot, LIFE).load(Ordering::SeqCst), plane.lane(slot, lane));
    life & 1 == 1 && words[ENTRY].load(Ordering::SeqCst) != 0 && words[CHUNK + 1].load(Ordering::SeqCst) == stamp
}

/// What a dead process was about to do in each lane.
pub fn intents(plane: &Plane, slot: u64) -> impl Iterator<Item = Intent> + '_ {
    (0..LANES).filter_map(move |lane| {
        let words = plane.lane(slot, lane);
        let claim = |at: usize| {
            let [first, second] = words.get(at..at + 2)? else { return None };
            let location = first.load(Ordering::Acquire).checked_sub(1)?;
            Some(Claim { location: Location(location), stamp: second.load(Ordering::Relaxed) })
        };
        let entry = (words[ENTRY].load(Ordering::Acquire) & !PUBLISHED).checked_sub(1)?;
        Some(Intent { entry, new: claim(NEW), old: claim(OLD), chunk: claim(CHUNK) })
    })
}
