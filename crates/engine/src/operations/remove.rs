//! How a session leaves its entry: removed, or replaced by a tombstone.

use sessile_core::{Result, Timestamp};

use crate::{memory::*, storage::*, table::*};

impl AttachedProcess {
    /// Frees a locked entry and its record, and gives the lock back. False when its state has
    /// changed since `seen`: then nothing is done.
    pub fn remove_session(
        &self,
        plane: &Plane,
        entry: TableEntry<'_>,
        mine: LockWord,
        seen: EntryState,
    ) -> Result<bool> {
        let Some((mut state, mut old)) = entry.present_state(plane, seen) else { return Ok(false) };
        let lane = Lane::enter(plane, self, entry.number, old);
        while !entry.replace_state(state, state.next_bare(EntryKind::Leaving)) {
            let Some(present) = entry.present_state(plane, seen) else { return Ok(false) };
            (state, old) = present;
            lane.replaces(old);
        }
        if let Some(old) = old {
            entry.discard_replaced(plane, old);
        }
        drop(lane);
        entry.finish_removal(plane, mine)?;
        Ok(true)
    }
}

impl RecordWriter {
    /// Frees the record and leaves a tombstone. Returns until when; `None` when the state has
    /// changed since `seen`. After `Full` or `Io` nothing has changed.
    pub fn leave_tombstone(
        &self,
        plane: &Plane,
        entry: TableEntry<'_>,
        seen: EntryState,
        until: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let Some((state, old)) = entry.present_state(plane, seen) else { return Ok(None) };
        let lane = Lane::enter(plane, self, entry.number, old);
        if mutated(Mutation::TombstoneAfterSwap)
            && entry.replace_state(state, state.tombstone(until))
        {
            self.log_destroy(&lane, &entry, state, until)?;
            old.into_iter().for_each(|old| entry.discard_replaced(plane, old));
            return Ok(Some(until));
        }
        let (until, tombstone) = self.log_destroy(&lane, &entry, state, until)?;
        if !entry.replace_state(state, state.tombstone(until)) {
            // The change that won has the same sequence, and a tombstone would win over it.
            tombstone.into_iter().for_each(|tombstone| lane.discard(tombstone));
            return Ok(None);
        }
        if let Some(old) = old {
            entry.discard_replaced(plane, old);
        }
        Ok(Some(until))
    }
}
