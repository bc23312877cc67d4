//! `verify`: checks every invariant of DESIGN.md that can be seen from outside, and changes
//! nothing.
//!
//! Other processes go on working: only a suspect that three passes see, with the same stamp or
//! state, is a problem. Slots that a lane names are no suspects.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sessile_core::Verified;

use crate::{memory::*, storage::*};

const PASSES: usize = 3;
const PAUSE: Duration = Duration::from_millis(20);
/// Entries between two reports of progress, at which the caller may rest.
const PROGRESS_EVERY: u64 = 256;
const VERIFY_TRIES: usize = 1_000;

/// Kind and number of a place; the word that makes it suspect; the fault.
type Suspect = (&'static str, u64, u64, &'static str);

struct VerifyPass<'a> {
    plane: &'a Plane,
    suspects: HashSet<Suspect>,
    checked: u64,
    led_to: HashMap<u64, u64>,
}

impl Plane {
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Verified {
        let mut first = VerifyPass::run(self, progress);
        for _ in 1..PASSES {
            if first.suspects.is_empty() {
                break;
            }
            std::thread::sleep(PAUSE);
            let again = VerifyPass::run(self, progress);
            first.suspects.retain(|suspect| again.suspects.contains(suspect));
        }
        let mut verified = Verified { checked: first.checked, ..Verified::default() };
        let mut problems: Vec<String> = first
            .suspects
            .into_iter()
            .map(|(kind, number, word, what)| format!("{kind} {number} ({word:#x}): {what}"))
            .collect();
        problems.sort_unstable();
        problems.into_iter().for_each(|problem| verified.note(problem));
        verified
    }

    fn named_by_lanes(&self) -> HashSet<u64> {
        let intents = (0..PROCESSES_MAX).flat_map(|slot| self.lane_intents(slot));
        let claims = intents.flat_map(|intent| [intent.new, intent.old, intent.chunk]).flatten();
        claims.map(|claim| claim.stamp).collect()
    }
}

impl VerifyPass<'_> {
    fn run<'a>(plane: &'a Plane, progress: &mut dyn FnMut(u64)) -> VerifyPass<'a> {
        let (suspects, led_to) = (HashSet::new(), HashMap::new());
        let mut pass = VerifyPass { plane, suspects, checked: 0, led_to };
        let before = plane.named_by_lanes();
        for number in 0..plane.entry_count() {
            pass.check_entry(number);
            if number % PROGRESS_EVERY == 0 {
                progress(pass.checked);
            }
        }
        let after = plane.named_by_lanes();
        pass.check_slots(|stamp| before.contains(&stamp) || after.contains(&stamp));
        plane.check_index(|bucket, cell| {
            let what = "a cell leads to an entry that does not belong";
            pass.suspects.insert(("bucket", bucket, cell, what));
        });
        progress(pass.checked);
        pass
    }

    fn check_entry(&mut self, number: u64) {
        let plane = self.plane;
        let entry = plane.entry(number);
        let state = entry.state();
        let mut wrong = Vec::new();
        if state.kind() == EntryKind::Free {
            if state.0 & 7 > EntryKind::Leaving as u64 {
                self.suspects.insert(("entry", number, state.0, "its state cannot be"));
            }
            return;
        }
        self.checked += 1;
        let digest = entry.digest();
        let (word, bit) = plane.used_bit(number);
        if word.load(Relaxed) & bit == 0 {
            wrong.push("in use, but not marked as used");
        }
        // An empty entry whose owner died may not have come into the index; the hand removes it.
        let half_taken = matches!(state.kind(), EntryKind::Empty | EntryKind::Leaving);
        if !half_taken && plane.find_entry(digest) != Some(number) {
            wrong.push("in use, but the index does not lead to it");
        }
        let read = state.has_record().then(|| entry.read_entry(plane, digest, WHOLE, VERIFY_TRIES));
        match read {
            Some(Ok(EntryRead::Record(snapshot))) => {
                let locked = LockWord(entry.lock().load(Relaxed)).owner().is_some();
                let due = plane.due(number).load(Relaxed);
                // On a disk the due time may be that of an older record that expires there later.
                if !locked && plane.log.is_none() && due > snapshot.head.expires.as_ms() {
                    wrong.push("its due time is after its expiry");
                }
                if !entry.hints_at_owner(plane, snapshot.head.owner) {
                    wrong.push("the sessions of its owner are listed without it");
                }
                let location = snapshot.state.location();
                let head = SlotClaim { location, stamp: snapshot.header.stamp };
                let chunks = plane.chunks(location, &snapshot.header);
                for claim in std::iter::once(head).chain(chunks) {
                    let slot = claim.location.0;
                    if self.led_to.insert(slot, claim.stamp) == Some(claim.stamp) {
                        let what = "two records claim it";
                        self.suspects.insert(("slot", slot, claim.stamp, what));
                    }
                }
            }
            Some(Err(_)) => {
                // The slot that the entry leads to is not lost besides.
                let claim = entry.present_state(plane, state).and_then(|(_, claim)| claim);
                claim.map(|claim| self.led_to.insert(claim.location.0, claim.stamp));
                wrong.push("its record is not what the entry says");
            }
            _ => {}
        }
        self.suspects.extend(wrong.into_iter().map(|what| ("entry", number, state.0, what)));
    }

    fn check_slots(&mut self, is_named: impl Fn(u64) -> bool) {
        let plane = self.plane;
        for segment in 0..plane.segment_count() {
            let state = plane.segment_state(segment);
            if !state.has_slots() {
                continue;
            }
            for slot in 0..slots(state.class()) {
                let stamp = plane.stamp(segment, slot).load(SeqCst);
                if !is_claim(stamp) || is_note(stamp) {
                    continue;
                }
                let location = record_location(segment, state.class(), slot).0;
                if self.led_to.get(&location) != Some(&stamp) && !is_named(stamp) {
                    let what = "claimed, but nothing leads to it";
                    self.suspects.insert(("slot", location, stamp, what));
                }
            }
        }
    }
}
