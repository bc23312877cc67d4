//! Publication: a record is written, then the entry stands for it by one compare-and-swap.
//! DESIGN.md, "Operations", lists what a crash between any two steps leaves.

use sessile_core::Result;

use crate::{memory::*, storage::*};

/// A record to publish under an entry, if the entry still has the version of `from`.
pub struct Publication<'a> {
    pub entry: TableEntry<'a>,
    pub from: EntryState,
    pub kind: EntryKind,
    pub header: &'a RecordHeader,
    pub payload: &'a [u8],
}

impl RecordWriter {
    /// False when the entry has changed: its session is destroyed.
    pub fn publish(&self, plane: &Plane, new: &Publication<'_>) -> Result<bool> {
        let published =
            self.with_room(plane, ClaimPurpose::Commit, || self.try_publish(plane, new))?;
        if !published {
            self.end_destroy(plane, new.entry)?;
        }
        Ok(published)
    }

    fn try_publish(&self, plane: &Plane, new: &Publication<'_>) -> Result<bool> {
        let Publication { entry, from, kind, header, payload } = *new;
        if from.is_being_destroyed() {
            return Ok(false);
        }
        let Some((mut present, mut old)) = entry.present_state(plane, from) else {
            return Ok(false);
        };
        // For the hint; the caller may have done much else since the look-up.
        plane.prefetch_buckets(entry.digest());
        let lane = Lane::enter(plane, self, entry.number, old);
        let logged = plane.log.is_some().then(|| plane.logged_as(new, present));
        // The sequence is in the fence now. A log-out marks the state before it reads the fence: it
        // has seen ours, or we see its mark.
        if logged.is_some() && EntryState(entry.state_word().load(SeqCst)) != present {
            drop(lane);
            return self.try_publish(plane, new);
        }
        let claim = self.write_record(&lane, header, payload, logged)?;
        if !mutated(Mutation::SwapsBeforeSync) {
            self.await_sync(plane).inspect_err(|_| lane.give_up(claim))?;
        }
        if let Some(old) = old.filter(|_| mutated(Mutation::FreesBeforeState)) {
            lane.discard(old);
        }
        while !entry.replace_state(present, present.next(kind, claim.location)) {
            let Some(moved) = entry.present_state(plane, from) else {
                lane.discard(claim);
                return Ok(false);
            };
            // The same record is elsewhere now.
            (present, old) = moved;
            lane.replaces(old);
        }
        if mutated(Mutation::StateBeforeRecord) {
            plane.data.write(claim.location.offset() + HEADER_BYTES, payload);
        }
        entry.store_hint(plane, claim.location, payload.len() as u64);
        if let Some(old) = old {
            entry.discard_replaced(plane, old);
        }
        entry.forget_overrides();
        let head = header.head;
        let expires = head.ends.map_or(head.expires, |ends| ends.min(head.expires));
        entry.bring_due_forward(plane, expires);
        if mutated(Mutation::SwapsBeforeSync) {
            self.await_sync(plane)?;
        }
        Ok(true)
    }
}

impl Plane {
    fn logged_as(&self, new: &Publication<'_>, present: EntryState) -> LoggedAs {
        let Publication { entry, kind, header, .. } = *new;
        let mut lineage = entry.next_lineage(self, present);
        lineage.longest = lineage.longest.max(granted(header.head.written, header.head.expires));
        // Each later record counts on from there, also under an entry that is taken anew.
        entry.fence().raise(lineage.sequence);
        let replaced = present.is_readable().then(|| RecordHeader::read(self, present.location()));
        if replaced.flatten().is_some_and(|replaced| time_to_live(&replaced) < time_to_live(header))
        {
            // Should this process die before the swap, its record stays on the disk: a tombstone is
            // kept for as long as the record that it replaces could be committed for, or longer if
            // the due time says so.
            entry.due().raise(lineage.longest.as_ms());
            self.due(entry.number).raise(lineage.longest.as_ms());
        }
        LoggedAs { kind: RecordKind::of_entry(kind), lineage, purpose: ClaimPurpose::Commit }
    }
}

fn time_to_live(header: &RecordHeader) -> u64 {
    header.head.expires.as_ms().saturating_sub(header.head.written.as_ms())
}

impl TableEntry<'_> {
    /// Takes overrides of earlier versions away, so that the 22 bits that name a version cannot
    /// come round.
    fn forget_overrides(self) {
        for word in [self.touched(), self.ends()] {
            let seen = word.load(Relaxed);
            if seen != 0 && Override(seen).applies_to(self.state()).is_none() {
                word.cas(seen, 0);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use sessile_core::{Clock, Head, Key, Store, Timestamp, Ttl};

    use super::*;

    /// A process was killed between the writing of a commit for 30 days and its swap, over a record
    /// of 30 minutes. The tombstone of the next log-out was kept for an hour: when its place in the
    /// log had been used again, a rebuild found the record of the killed process.
    #[test]
    fn a_tombstone_outlives_a_record_that_was_written_and_never_published() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let path = folder.path().join("store");
        let clock = Clock::manual(Timestamp::from_ms(1_800_000_000_000));
        let engine = crate::open(&path, clock.clone(), &crate::EngineOptions::default()).unwrap();
        let [short, long] =
            [1_800, 30 * 86_400].map(|seconds| Ttl::sliding(Duration::from_secs(seconds)).unwrap());
        let key = Key::session("one").unwrap();
        engine.create(&key, b"cart", short).unwrap();
        let (plane, me, now) = (&engine.plane, engine.me().unwrap(), clock.now());
        let entry = plane.entry(plane.find_entry(plane.digest_of(&key)).unwrap());
        let (from, old) = entry.present_state(plane, entry.state()).unwrap();
        let header = &RecordHeader::new(entry.number, 0, Head::next(None, long, now));
        let (kind, payload) = (EntryKind::Live, &b"cart"[..]);
        let new = Publication { entry, from, kind, header, payload };
        // What a commit does before its swap.
        let lane = Lane::enter(plane, me, entry.number, old);
        let logged = Some(plane.logged_as(&new, from));
        me.write_record(&lane, header, payload, logged).unwrap();
        drop(lane);
        clock.advance(Duration::from_secs(60));
        engine.destroy(&key).unwrap();
        let kept_until = entry.state().forgotten_at();
        assert!(kept_until >= granted(now, header.head.expires), "until {kept_until:?}");
        drop(engine);
        crate::power_tests::remove_control(&path);
    }
}
