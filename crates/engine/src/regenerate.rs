//! A new id for a session.
//!
//! The record is copied under the new key first; then, in one step, the old entry stops being the session and leads
//! to the new one. A crash in between leaves a copy under an id that nobody was told, which expires like any other.

use std::time::Duration;

use sessile_core::{Key, Limits, Result, Timestamp};

use crate::change::{Published, destroyed};
use crate::disklog::{granted, origin};
use crate::engine::Engine;
use crate::entries::{bury, remove};
use crate::lane::Lane;
use crate::lock::unlock;
use crate::plane::{Digest, Entry};
use crate::process::Process;
use crate::record::{Header, Look, WHOLE, look};
use crate::session::{Base, Held, LOCKED_TRIES, alias_payload, belongs};
use crate::words::{Kind, Lock, State};

impl Engine {
    pub(crate) fn regenerate_session(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        let me = self.me()?;
        let old = self.check_lease(me, held)?;
        if old.state().version() != held.state.version() {
            return Err(destroyed());
        }
        let digest = self.digest(new);
        let (entry, mine, from) = self.vacant(me, digest)?;
        entry.fence().raise(held.fence);
        let moved = if held.base.is_some() {
            self.copy_to(me, held, old, entry, from, (digest, grace))
        } else {
            Ok((from, None))
        };
        match moved {
            Ok((state, ends)) => {
                let old_lock = held.lock;
                // The end as it was copied: one that was set by a touch is no override of the new entry.
                let base = held.base.map(|base| Base { ends, ..base });
                *held = Held { entry: entry.number, lock: mine, digest, state, base, ..*held };
                // Without a record only the lock moves, and an entry that stands for nothing goes.
                self.give_up(me, old, old_lock)
            }
            Err(error) => {
                self.drop_copy(me, entry, mine, digest)?;
                Err(error)
            }
        }
    }

    /// Publishes the record under the new entry and turns the old one into a signpost.
    fn copy_to(
        &self,
        me: &Process,
        held: &Held,
        old: Entry<'_>,
        entry: Entry<'_>,
        from: State,
        (digest, grace): (Digest, Duration),
    ) -> Result<(State, Option<Timestamp>)> {
        let now = self.plane.now();
        // Also one that has expired since it was read: whoever holds the lease goes on with it.
        let snapshot = match look(&self.plane, &old, held.digest, WHOLE, LOCKED_TRIES)? {
            Look::Record(snapshot) if snapshot.state.version() == held.state.version() => snapshot,
            _ => return Err(destroyed()),
        };
        let header = Header { entry: entry.number, expires: snapshot.expires, ends: snapshot.ends, ..snapshot.header };
        let grace_ends = now.plus(grace);
        let forgotten = grace_ends.plus(Limits::TOMBSTONE_TTL);
        if self.plane.log.is_some() {
            // As long as the disk has the old id, it has to find something of the new one: without it the record before would
            // count. What the due time says, the record takes over.
            let longest = origin(&self.plane, &old, held.state).longest.max(granted(now, forgotten));
            entry.due().raise(longest.as_ms());
        }
        match self.publish(me, entry, from, Kind::Live, header, &snapshot.payload)? {
            Published::Done => {}
            Published::Refused => return Err(destroyed()),
        }
        let state = entry.state();
        let header = Header::new(old.number, held.bin, snapshot.header.version, now, now);
        let header = Header { expires: forgotten, ..header };
        let signpost = alias_payload(digest, grace_ends);
        match self.publish(me, old, held.state, Kind::Regenerated, header, &signpost)? {
            Published::Done => Ok((state, snapshot.ends)),
            Published::Refused => Err(destroyed()),
        }
    }

    /// Takes a copy back that the old entry does not lead to after all.
    fn drop_copy(&self, me: &Process, entry: Entry<'_>, mine: Lock, digest: Digest) -> Result<()> {
        let state = entry.state();
        if matches!(state.kind(), Kind::Live | Kind::Empty) && belongs(&entry, digest) {
            let lane = Lane::enter(&self.plane, me);
            // On a disk the copy would be a session again after a rebuild.
            let gone = if self.plane.log.is_some() && state.has_record() {
                bury(&lane, entry, mine, state, self.plane.now())?
            } else {
                remove(&lane, entry, mine, state)?
            };
            if gone {
                return Ok(());
            }
        }
        unlock(entry.lock(), mine);
        Ok(())
    }
}
