//! What a dead process left, finished by the process that notices.
//!
//! Invariant: every step may be repeated and may run in several processes at once: it acts on a
//! copy of the lanes from when the slot was the dead process's, and frees by stamp. Waiters take
//! over locks.

use crate::{memory::*, storage::*};

/// Finishes what the owner of a slot in this life left, then marks the slot as recovered.
pub fn finish_dead(plane: &Plane, slot: u64, life: u64) {
    let left: Vec<LaneIntent> = plane.lane_intents(slot).collect();
    fence(SeqCst);
    let word = plane.process_word(slot, process_word::LIFE);
    if word.load(SeqCst) != life && !mutated(Mutation::RecoversUnseen) {
        return; // recovered by another process; the lanes may be those of the next owner
    }
    left.iter().for_each(|intent| plane.finish_change(intent));
    word.cas(life, life & !1);
}

impl Plane {
    fn finish_change(&self, intent: &LaneIntent) {
        if intent.entry >= self.entry_count() {
            return;
        }
        let entry = self.entry(intent.entry);
        if let Some(new) = intent.new
            && !entry.leads_to(new.location)
        {
            // Not published, or already replaced by a process that frees it too: by stamp, only one
            // of them does.
            if let Some(chunk) = intent.chunk {
                self.free_slot_of_dead(chunk);
            }
            self.free_chunks(new);
            self.free_slot_of_dead(new);
        }
        if let Some(old) = intent.old
            && !entry.leads_to(old.location)
        {
            entry.discard_replaced(self, old);
        }
    }
}
