//! Rebuild: control plane, index and entries of a store on a disk, made anew from its log.
//!
//! Invariant: it runs while no process is attached, and a repetition gives the same result.
//! docs/engine.md, "On a disk".

use sessile_core::{Head, Result, Timestamp};

use super::scan::{FoundRecord, LogScan};
use crate::{memory::*, storage::*};

impl Plane {
    /// `Io`: the disk does not take what overrules other records, which are to be taken away then.
    pub fn rebuild(&self, log: &DiskLog, of_this_boot: bool) -> Result<()> {
        let start = Instant::now();
        if of_this_boot {
            // Also punches: a segment without records begins with the first generation, which the
            // disk may still have there.
            log.file.sync()?;
        }
        let scan = LogScan::read(self, log)?;
        let now = self.now();
        let (mut sessions, mut overruled) = (0, Vec::new());
        for group in scan.found.chunk_by(|a, b| a.digest() == b.digest()) {
            let made = self.rebuild_entry(log, &scan, group, sessions, (now, &mut overruled))?;
            sessions += u64::from(made);
        }
        if of_this_boot && !overruled.is_empty() {
            // The page cache may have what the disk has not, also after a sync that has failed.
            self.write_again(log)?;
            log.file.sync()?;
        }
        overruled.iter().try_for_each(|line| log.file.write(&[0; 8], *line))?;
        self.header(header::FENCE_FLOOR).raise(scan.latest);
        if !scan.found.is_empty() {
            // The writers may have died before the next sync.
            self.header(header::DIRTY_SINCE).store(now.as_ms().max(1), SeqCst);
            let segments = self.segment_count();
            let took = start.elapsed();
            log::info!(
                "the control plane was rebuilt: {sessions} entries from {segments} segments in \
                 {took:.1?}"
            );
        }
        Ok(())
    }

    /// Makes the entry of one digest, from all its records, latest first. False when it has none.
    fn rebuild_entry(
        &self,
        log: &DiskLog,
        scan: &LogScan,
        group: &[FoundRecord],
        number: u64,
        (now, overruled): (Timestamp, &mut Vec<u64>),
    ) -> Result<bool> {
        let counts = |found| scan.kind_of(found).map(|kind| (found, kind));
        let Some((winner, kind)) = group.iter().find_map(counts) else { return Ok(false) };
        // Notes of a touch count by their fence.
        let touch = group
            .iter()
            .filter(|found| found.is_touch())
            .filter(|found| found.line.lineage.sequence == winner.line.lineage.sequence)
            .max_by_key(|found| {
                let fence = found.line.lineage.fence;
                if mutated(Mutation::FirstTouchWins) { u64::MAX - fence } else { fence }
            });
        let longest = winner.line.lineage.longest;
        // The clock may be ahead: what a tombstone is about goes before the tombstone does.
        let forgets = kind == EntryKind::Destroyed && longest <= now;
        for loser in group {
            let location = loser.location;
            if location == winner.location || touch.is_some_and(|touch| touch.location == location)
            {
                continue;
            }
            // A record that was never published, misses something, or was overruled, and would
            // outlive the winner; a touch of such a record, whose sequence the next one gets.
            let outranks = if loser.is_touch() {
                loser.line.lineage.sequence > winner.line.lineage.sequence
            } else {
                loser.rank() > winner.rank()
            };
            if forgets || outranks || loser.line.lineage.longest > longest {
                overruled.push(location.offset() - LOG_LINE_BYTES);
            }
        }
        if matches!(kind, EntryKind::Destroyed | EntryKind::Damaged) {
            if longest <= now {
                return Ok(false);
            }
            let state = if kind == EntryKind::Damaged {
                EntryState(0).next(kind, winner.location)
            } else {
                EntryState(0).tombstone(longest)
            };
            self.take_entry(winner, number, state, longest)?;
            if winner.is_damaged && winner.is_tombstone() {
                self.repair_tombstone(log, winner, number)?;
            }
            self.set_stamp_of(winner);
            return Ok(true);
        }
        let head = touch.map_or(winner.header, |touch| touch.header).head;
        let expires = granted(head.written, head.expires);
        let expires = head.ends.map_or(expires, |ends| ends.min(expires));
        if expires.max(longest) <= now {
            return Ok(false);
        }
        let state = EntryState(0).next(kind, winner.location);
        self.take_entry(winner, number, state, expires)?;
        let entry = self.entry(number);
        entry.touched().store(Override::new(expires, state).0, Relaxed);
        if let Some(ends) = head.ends.filter(|_| head.ends != winner.header.head.ends) {
            entry.ends().store(Override::new(ends, state).0, Relaxed);
        }
        if let Some(touch) = touch {
            self.set_stamp_of(touch);
            // The next touch counts by a greater one.
            entry.fence().raise(touch.line.lineage.fence);
        }
        for chunk in &winner.chunks {
            self.set_stamp(*chunk, slots(LOG) / 4);
        }
        self.set_stamp_of(winner);
        Ok(true)
    }

    fn take_entry(
        &self,
        of: &FoundRecord,
        number: u64,
        state: EntryState,
        due: Timestamp,
    ) -> Result<()> {
        if number >= self.entry_count() {
            self.back_block(number / ENTRIES_OF_BLOCK)?;
        }
        let entry = self.entry(number);
        let lineage = of.line.lineage;
        entry.set_digest(lineage.digest);
        entry.state_word().store(state.0, Relaxed);
        entry.fence().store(lineage.sequence.max(lineage.fence), Relaxed);
        entry.set_due(self, due);
        entry.set_used(self);
        self.insert_entry(lineage.digest, number)?;
        entry.store_hint(self, of.location, of.header.payload_bytes);
        Ok(())
    }

    /// Its line says all that its header has to say.
    fn repair_tombstone(&self, log: &DiskLog, found: &FoundRecord, number: u64) -> Result<()> {
        let lineage = found.line.lineage;
        let expires = lineage.longest;
        let head = Head { version: 0, created: expires, written: expires, expires, ends: None };
        let header = &RecordHeader::new(number, 0, head);
        let claim = SlotClaim { location: found.location, stamp: found.header.stamp };
        let kind = RecordKind::Tombstone;
        LogRecord { kind, lineage, header, body: &[] }.encode(self, log, claim).write(log)
    }

    fn set_stamp_of(&self, found: &FoundRecord) {
        let stamp = found.header.stamp;
        debug_assert_eq!(
            found.line.kind.is_note(),
            is_note(stamp),
            "notes have stamps of their own"
        );
        self.set_stamp(SlotClaim { location: found.location, stamp }, found.line.granules);
    }

    fn set_stamp(&self, claim: SlotClaim, granules: u64) {
        let (segment, granule) =
            (claim.location.segment(), claim.location.within() / GRANULE_BYTES);
        self.stamp(segment, granule).store(claim.stamp, Relaxed);
        if granules > 1 && granule + 1 < SLOTS_MAX {
            self.stamp(segment, granule + 1).store(length_mark(granules), Relaxed);
        }
    }
}
