//! How a session leaves its entry: removed, or replaced by a tombstone.

use sessile_core::{Limits, Result, Timestamp};

use crate::{memory::*, storage::*, table::*};

impl AttachedProcess {
    /// Frees a locked entry and its record, and gives the lock back. False when its state has
    /// changed since `seen`, or a log-out has begun, which may void the lock on the way: then
    /// nothing is done.
    pub fn remove_session(
        &self,
        plane: &Plane,
        entry: TableEntry<'_>,
        mine: LockWord,
        seen: EntryState,
    ) -> Result<bool> {
        let Some((mut state, mut old)) = entry.present_state(plane, seen) else { return Ok(false) };
        if seen.is_being_destroyed() {
            return Ok(false);
        }
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
    /// Frees the record and leaves a tombstone, if the state has not changed since `seen`. After
    /// `Full` nothing has changed.
    pub fn leave_tombstone(
        &self,
        plane: &Plane,
        entry: TableEntry<'_>,
        seen: EntryState,
        until: Timestamp,
    ) -> Result<Tombstone> {
        let Some(mut present) = entry.present_state(plane, seen) else {
            return Ok(Tombstone::Changed);
        };
        loop {
            let (state, old) = present;
            let lane = Lane::enter(plane, self, entry.number, old);
            if mutated(Mutation::TombstoneAfterSwap)
                && entry.replace_state(state, state.tombstone(until))
            {
                self.log_destroy(&lane, &entry, state, until)?;
                old.into_iter().for_each(|old| entry.discard_replaced(plane, old));
                return Ok(Tombstone::Left(until, None));
            }
            let left = self.log_destroy(&lane, &entry, state, until)?;
            let marked = if plane.log.is_some() { state.being_destroyed() } else { state };
            match left {
                Tombstone::Left(until, _)
                    if entry.replace_state(marked, state.tombstone(until)) =>
                {
                    old.into_iter().for_each(|old| entry.discard_replaced(plane, old));
                    return Ok(left);
                }
                Tombstone::Left(_, Some(tombstone)) => lane.discard(tombstone),
                Tombstone::Left(_, None) | Tombstone::Changed => return Ok(Tombstone::Changed),
                Tombstone::Overtaken => {}
            }
            drop(lane);
            // Once marked, it is this log-out that another process ends: never done twice.
            match entry.present_state(plane, marked) {
                Some(moved) => present = moved,
                None => return Ok(Tombstone::Overtaken),
            }
        }
    }

    /// Ends a log-out that another process has begun, and may have died in.
    pub fn end_destroy(&self, plane: &Plane, entry: TableEntry<'_>) -> Result<()> {
        loop {
            let state = entry.state();
            if !state.is_being_destroyed() {
                return Ok(());
            }
            let until = plane.now().plus(Limits::TOMBSTONE_TTL);
            let left = self.with_room(plane, ClaimPurpose::Tombstone, || {
                self.leave_tombstone(plane, entry, state, until)
            })?;
            if let Tombstone::Left(until, _) = left {
                entry.bring_due_forward(plane, until);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use sessile_core::{Clock, ErrorKind, Key, OwnerChange, Store, Ttl};

    use super::*;
    use crate::operations::HeldEntry;
    use crate::power_tests::remove_control;
    use crate::{Engine, EngineOptions, open};

    fn store(folder: &tempfile::TempDir) -> Engine {
        open(&folder.path().join("store"), Clock::system(), &EngineOptions::default()).unwrap()
    }

    /// Whether the session is there after the control plane was lost.
    fn is_there_after_a_rebuild(engine: Engine, folder: &tempfile::TempDir) -> bool {
        let path = folder.path().join("store");
        drop(engine);
        remove_control(&path);
        let rebuilt = store(folder);
        let found = rebuilt.peek(&key()).unwrap().record.is_some();
        drop(rebuilt);
        remove_control(&path);
        found
    }

    fn key() -> Key {
        Key::session("one").unwrap()
    }

    /// What `destroy` does until it dies before it swaps the state.
    fn destroy_and_die(engine: &Engine) {
        let (plane, me) = (&engine.plane, engine.me().unwrap());
        let entry = plane.entry(plane.find_entry(plane.digest_of(&key())).unwrap());
        let (state, old) = entry.present_state(plane, entry.state()).unwrap();
        let lane = Lane::enter(plane, me, entry.number, old);
        let left = me.log_destroy(&lane, &entry, state, plane.now()).unwrap();
        assert!(matches!(left, Tombstone::Left(..)));
    }

    fn held(engine: &Engine) -> (HeldEntry, bool) {
        let (held, _, found) = engine.begin(&key(), Duration::ZERO).unwrap();
        (held, found.record.is_some())
    }

    /// A log-out was killed between its tombstone and the swap. The commit of the session's holder,
    /// acknowledged, had the sequence of the tombstone: after a power cut it was lost.
    #[test]
    fn a_commit_over_a_log_out_that_was_killed_half_way_is_refused() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let engine = store(&folder);
        let ttl = Ttl::sliding(Duration::from_secs(60)).unwrap();
        engine.create(&key(), b"cart", ttl).unwrap();
        let (holder, _) = held(&engine);
        destroy_and_die(&engine);
        assert!(engine.peek(&key()).unwrap().record.is_some(), "not destroyed yet");
        let refused = engine.commit(holder, b"bought", ttl, OwnerChange::Keep);
        assert_eq!(refused.unwrap_err().kind().code(), ErrorKind::Destroyed.code());
        assert!(engine.peek(&key()).unwrap().record.is_none(), "what was refused has happened");
        assert!(!is_there_after_a_rebuild(engine, &folder));
    }

    /// The holder of a session without a record let go in the middle of a log-out, which voided its
    /// lock. A request took the entry, and the holder, still removing it, removed that session.
    #[test]
    fn an_entry_is_not_removed_in_the_middle_of_a_log_out() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let engine = store(&folder);
        let (holder, found) = held(&engine);
        assert!(!found);
        destroy_and_die(&engine);
        let (plane, me) = (&engine.plane, engine.me().unwrap());
        me.release(plane, &holder).unwrap();
        let number = plane.find_entry(plane.digest_of(&key())).unwrap();
        let entry = plane.entry(number);
        assert!(entry.state().is_being_destroyed(), "the log-out has not ended");
        me.examine(plane, number, plane.now()).unwrap();
        assert!(entry.state().kind() == EntryKind::Destroyed, "the hand ends it");
        drop(engine);
        remove_control(&folder.path().join("store"));
    }

    #[test]
    fn a_request_after_a_log_out_that_was_killed_half_way_finds_it_done() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let engine = store(&folder);
        let ttl = Ttl::sliding(Duration::from_secs(60)).unwrap();
        engine.create(&key(), b"cart", ttl).unwrap();
        destroy_and_die(&engine);
        let (holder, found) = held(&engine);
        assert!(!found, "the log-out is ended before anybody holds the session");
        engine.commit(holder, b"anew", ttl, OwnerChange::Keep).unwrap();
        assert!(is_there_after_a_rebuild(engine, &folder), "an acknowledged commit");
    }
}
