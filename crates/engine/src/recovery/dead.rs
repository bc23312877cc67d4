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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use sessile_core::{Clock, Error, ErrorKind, Key, OwnerChange, Store, Ttl};

    use super::*;
    use crate::EngineOptions;

    /// It went on taking locks that everyone else took for a dead process's, so two held one
    /// session.
    #[test]
    fn a_process_that_was_taken_for_dead_finds_out_before_it_holds_or_writes() {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let open = || {
            crate::open(&folder.path().join("store"), Clock::system(), &EngineOptions::default())
                .unwrap()
        };
        let (victim, other) = (open(), open());
        let [held, new, old] = ["held", "new", "old"].map(|id| Key::session(id).unwrap());
        let ttl = Ttl::sliding(Duration::from_secs(60)).unwrap();
        other.create(&old, b"kept", ttl).unwrap();
        let (mut touched, ..) = victim.begin(&old, Duration::ZERO).unwrap();
        let (lease, ..) = victim.begin(&held, Duration::ZERO).unwrap();
        let slot = victim.me().unwrap().slot;
        let life = victim.plane.process_word(slot, process_word::LIFE).load(SeqCst);
        finish_dead(&other.plane, slot, life);

        let refused = |done: Result<(), Error>| {
            assert_eq!(done.unwrap_err().kind().code(), ErrorKind::Stale.code());
        };
        refused(victim.touch_held(&mut touched, ttl));
        refused(victim.commit(lease, b"late", ttl, OwnerChange::Keep));
        refused(victim.begin(&new, Duration::ZERO).map(drop));
        refused(victim.create(&new, b"late", ttl));
        refused(victim.touch(&old, ttl));
        refused(victim.destroy(&old));
        assert_eq!(other.begin(&old, Duration::ZERO).unwrap().2.record.unwrap().payload, b"kept");
        for key in [held, new] {
            let (lease, _, found) = other.begin(&key, Duration::ZERO).unwrap();
            assert!(found.record.is_none());
            other.commit(lease, b"in time", ttl, OwnerChange::Keep).unwrap();
        }
    }
}
