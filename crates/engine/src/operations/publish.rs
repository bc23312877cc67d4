//! Publication: a record is written, then the entry stands for it by one compare-and-swap.
//! docs/engine.md, "Operations", lists what a crash between any two steps leaves.

use sessile_core::Result;

use crate::{memory::*, storage::*};

/// A record to publish under an entry, if the entry still has the version of `from`.
pub struct Publication<'a> {
    pub entry: TableEntry<'a>,
    pub from: EntryState,
    pub kind: EntryKind,
    pub header: RecordHeader,
    pub payload: &'a [u8],
}

impl RecordWriter {
    /// False when the entry has changed.
    pub fn publish(&self, plane: &Plane, new: &Publication<'_>) -> Result<bool> {
        self.with_room(plane, ClaimPurpose::Commit, || self.try_publish(plane, new))
    }

    fn try_publish(&self, plane: &Plane, new: &Publication<'_>) -> Result<bool> {
        let Publication { entry, from, kind, header, payload } = *new;
        let Some((mut present, mut old)) = entry.present_state(plane, from) else {
            return Ok(false);
        };
        // For the hint; the caller may have done much else since the look-up.
        plane.prefetch_buckets(entry.digest());
        let lane = Lane::enter(plane, self, entry.number, old);
        let logged = plane.log.is_some().then(|| plane.logged_as(new, present));
        let claim = self.write_record(&lane, header, payload, logged)?;
        self.await_sync(plane).inspect_err(|_| lane.give_up(claim))?;
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
        Ok(true)
    }
}

impl Plane {
    fn logged_as(&self, new: &Publication<'_>, present: EntryState) -> LoggedAs {
        let Publication { entry, kind, ref header, .. } = *new;
        let mut lineage = entry.next_lineage(self, present);
        lineage.longest = lineage.longest.max(granted(header.head.written, header.head.expires));
        // Each later record counts on from there, also under an entry that is taken anew.
        entry.fence().raise(lineage.sequence);
        LoggedAs { kind: RecordKind::of_entry(kind), lineage, purpose: ClaimPurpose::Commit }
    }
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
