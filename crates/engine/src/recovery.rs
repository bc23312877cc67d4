//! What a dead process left, finished by whoever notices.
//!
//! Invariant: every step may be repeated and may run in several processes at once. It acts on a copy of the lanes
//! that was taken while the slot still belonged to the dead process, and frees by stamp, which succeeds once.
//! Locks are not looked for here: each waiter takes over the one that it waits for.

use crate::broken::{self, Twin};
use crate::lane::{Intent, intents};
use crate::plane::Plane;
use crate::process::slot;
use crate::record::Header;
use crate::segment;
use crate::sync::{Ordering, fence};
use crate::writing::{discard_replaced, leads_to};

/// Finishes what the owner of a slot in this life left, then marks the slot as recovered.
pub fn recover(plane: &Plane, slot: u64, life: u64) {
    let left: Vec<Intent> = intents(plane, slot).collect();
    fence(Ordering::SeqCst);
    let word = plane.process_word(slot, slot::LIFE);
    if word.load(Ordering::SeqCst) != life && !broken::is(Twin::RecoversUnseen) {
        return; // someone else has recovered it, and what was read may belong to the next owner
    }
    left.iter().for_each(|intent| finish(plane, intent));
    word.cas(life, life & !1);
}

fn finish(plane: &Plane, intent: &Intent) {
    if intent.entry >= plane.entry_count() {
        return;
    }
    let entry = plane.entry(intent.entry);
    if let Some(new) = intent.new
        && !leads_to(&entry, new.location)
    {
        // Not published, or already replaced by someone who frees it too: by stamp, only one of them does.
        if let Some(chunk) = intent.chunk {
            segment::free_claim_of_dead(plane, chunk);
        }
        Header::free_chunks(plane, new);
        segment::free_claim_of_dead(plane, new);
    }
    if let Some(old) = intent.old
        && !leads_to(&entry, old.location)
    {
        discard_replaced(plane, &entry, old);
    }
}
