//! Notes in the log: that a session was destroyed, or that a touch has moved an expiry. No entry
//! leads to them.
//!
//! Invariants: a tombstone is written before the state says destroyed, and kept until everything
//! else about its digest has expired; a note stays while the lane that wrote it names it.

use sessile_core::{Error, Head, Limits, Result, Timestamp};

use super::group_commit::CHECK_DISK;
use super::header::{PLAIN, RecordHeader};
use super::lane::{Lane, SlotClaim};
use super::log_line::{Lineage, LogLine, LogRecord, RecordKind, granted, grid_ms};
use super::record::Snapshot;
use super::reserve::ClaimPurpose;
use super::write::RecordWriter;
use crate::memory::*;

/// How many sixteenths of the time to live a note that counts may be off.
const NOTE_PARTS: u64 = 3;

pub struct LoggedTouch<'a> {
    pub before: &'a Snapshot,
    pub after: Head,
    pub now: Timestamp,
}

/// What became of a tombstone that was to be left.
pub enum Tombstone {
    /// Until when it is kept, and where it is on a disk.
    Left(Timestamp, Option<SlotClaim>),
    /// The state has changed before anything was done.
    Changed,
    /// The state was marked, and then changed: another process has ended it (or, before the
    /// tombstone was written, moved the record).
    Overtaken,
}

pub enum TouchNote<'a> {
    /// The record says enough.
    Unneeded,
    /// The lane keeps the note until it is dropped.
    Written(Lane<'a>, SlotClaim),
    /// The state has changed since it was read.
    Changed,
}

impl TouchNote<'_> {
    /// Takes back what was written, for a touch that is tried again.
    pub fn discarded<T>(self) -> Option<T> {
        if let TouchNote::Written(lane, note) = self {
            lane.discard(note);
        }
        None
    }
}

impl TableEntry<'_> {
    /// The lineage of the record that replaces the present state of an entry; it counts only if the
    /// state is swapped from `present`.
    pub fn next_lineage(self, plane: &Plane, present: EntryState) -> Lineage {
        let digest = self.digest();
        let fence = self.fence().load(SeqCst);
        let due = Timestamp::from_ms(self.due().load(SeqCst));
        let line = present.has_record().then(|| LogLine::read(plane, present.location())).flatten();
        let (sequence, longest) = match line {
            Some(line) => (line.lineage.sequence, line.lineage.longest),
            // A damaged line does not say what is on the disk besides.
            None if plane.log.is_some() && present.has_record() => {
                (fence, plane.now().plus(Limits::TTL_MAX))
            }
            None => (fence, Timestamp::ZERO),
        };
        let remembered = if present.has_record() {
            // A logged touch counts too; where one has moved the expiry back, the due time
            // remembers the later one.
            let touched = Override(self.touched().load(SeqCst)).applies_to(present);
            touched.map_or(Timestamp::ZERO, |expires| granted(plane.now(), expires))
        } else if present.kind() == EntryKind::Destroyed {
            present.forgotten_at()
        } else {
            Timestamp::ZERO
        };
        let sequence = sequence.max(plane.header(header::SEQUENCE_FLOOR).load(Relaxed)) + 1;
        Lineage { digest, sequence, fence, longest: longest.max(remembered).max(due) }
    }
}

impl RecordWriter {
    fn append_note(
        &self,
        lane: &Lane<'_>,
        log: &DiskLog,
        (kind, purpose): (RecordKind, ClaimPurpose),
        lineage: Lineage,
        header: &RecordHeader,
    ) -> Result<SlotClaim> {
        let record = LogRecord { kind, lineage, header, body: &[] };
        self.appender.append(lane, log, &record, purpose)
    }

    /// Writes a tombstone. After `Full` nothing has changed; after `Io` the next change of the
    /// session destroys it.
    pub fn log_destroy(
        &self,
        lane: &Lane<'_>,
        entry: &TableEntry<'_>,
        present: EntryState,
        until: Timestamp,
    ) -> Result<Tombstone> {
        let plane = lane.plane;
        let Some(log) = &plane.log else { return Ok(Tombstone::Left(until, None)) };
        let now = plane.now();
        plane.cautious_now(); // learns the clock's lead
        let old = present.is_readable().then(|| RecordHeader::read(plane, present.location()));
        let (kind, purpose) = (RecordKind::Tombstone, ClaimPurpose::Tombstone);
        let granules = self.appender.claim(lane, kind, 0, purpose)?;
        // Whoever dies from here on leaves a session that the next change destroys: a commit would
        // have the tombstone's sequence, and lose against it.
        let marked = present.being_destroyed();
        let is_marked = marked == present || entry.replace_state(present, marked);
        let mut lineage = entry.next_lineage(plane, present);
        lineage.longest = lineage.longest.max(until);
        // A commit that began before may be under way: it is refused, but its record may stay on
        // the disk.
        if let Some(header) = old.flatten() {
            let ttl = header.head.expires.as_ms().saturating_sub(header.head.written.as_ms());
            let under_way = granted(now, Timestamp::from_ms(now.as_ms().saturating_add(ttl)));
            lineage.longest = lineage.longest.max(under_way);
        }
        let expires = lineage.longest;
        let (created, written) = (now, now);
        let head = Head { version: 0, created, written, expires, ends: None, owner: None };
        let header = RecordHeader::new(entry.number, 0, head);
        let record = LogRecord { kind, lineage, header: &header, body: &[] };
        entry.fence().raise(lineage.sequence);
        // The entry may have got another key since.
        let is_still_marked = is_marked && EntryState(entry.state_word().load(SeqCst)) == marked;
        if !is_still_marked && !mutated(Mutation::TombstoneAfterSwap) {
            granules.abandon(log, &record);
            return Ok(if is_marked { Tombstone::Overtaken } else { Tombstone::Changed });
        }
        let tombstone = granules.write(log, &record)?;
        self.await_sync(plane).map_err(|error| {
            lane.give_up(tombstone);
            let why = "the log-out cannot be synced; the next request for the session ends it";
            Error::new(error.kind().clone(), why).advice(CHECK_DISK)
        })?;
        Ok(Tombstone::Left(expires, Some(tombstone)))
    }

    /// Writes a note again if it still counts, and frees it. False while its writer is at it.
    pub fn move_note(&self, plane: &Plane, old: SlotClaim, purpose: ClaimPurpose) -> Result<bool> {
        if plane.is_being_noted(old.stamp) {
            return Ok(false);
        }
        if let (Some(log), Some((line, header))) = (&plane.log, plane.read_note(old))
            && line.is_valid(log, &header, old.location, &[])
            && let Some((number, lineage, header)) = plane.present_note(line, header)
        {
            let lane = Lane::enter(plane, self, number, None);
            self.append_note(&lane, log, (line.kind, purpose), lineage, &header)?;
        }
        plane.free_slot(old);
        Ok(true)
    }
}

/// Writes a touch that crosses a line of the grid, moves the expiry back, or sets another end.
pub fn log_touch<'a>(
    plane: &'a Plane,
    writer: &'a RecordWriter,
    entry: &TableEntry<'_>,
    touch: &LoggedTouch<'_>,
) -> Result<TouchNote<'a>> {
    let Some(log) = &plane.log else { return Ok(TouchNote::Unneeded) };
    let LoggedTouch { before, after, now } = *touch;
    let (was, expires) = (before.head.expires, after.expires);
    let grid = grid_ms(now, expires);
    if expires >= was
        && after.ends == before.head.ends
        && expires.as_ms() / grid == was.as_ms() / grid
    {
        return Ok(TouchNote::Unneeded);
    }
    let lane = Lane::enter(plane, writer, entry.number, None);
    let Some(line) = LogLine::read(plane, before.state.location()) else {
        return Ok(TouchNote::Unneeded);
    };
    let longest = line.lineage.longest.max(granted(now, expires));
    // The disk may have a later expiry than it will say now, or than a log-out knows of, which
    // marks the state before it reads the due time: it has seen ours, or we see its mark.
    let later = granted(after.written, was).max(longest).as_ms();
    entry.due().raise(later);
    plane.due(entry.number).raise(later);
    if !EntryState(entry.state_word().load(SeqCst)).is_moved_from(before.state) {
        return Ok(TouchNote::Changed);
    }
    let fence = entry.fence().add(1) + 1;
    let lineage = Lineage { fence, longest, ..line.lineage };
    let head = Head { written: now, ..after };
    let header = RecordHeader { head, payload_bytes: 0, form: PLAIN, ..before.header };
    let note = (RecordKind::Touch, ClaimPurpose::Touch);
    let claim = writer.append_note(&lane, log, note, lineage, &header)?;
    if !mutated(Mutation::TouchUnsynced) {
        writer.await_sync(plane).inspect_err(|_| lane.give_up(claim))?;
    }
    Ok(TouchNote::Written(lane, claim))
}

impl Plane {
    /// Whether a note counts, or is being written.
    pub fn note_counts(&self, note: SlotClaim) -> bool {
        self.is_being_noted(note.stamp)
            || self
                .read_note(note)
                .is_some_and(|(line, header)| self.present_note(line, header).is_some())
    }

    fn read_note(&self, note: SlotClaim) -> Option<(LogLine, RecordHeader)> {
        self.read_logged(note.location).filter(|(_, header)| header.stamp == note.stamp)
    }

    /// A note as it would be written now; `None` when it no longer counts.
    fn present_note(
        &self,
        line: LogLine,
        header: RecordHeader,
    ) -> Option<(u64, Lineage, RecordHeader)> {
        let entry = self.entry_of(line.lineage.digest)?;
        let state = entry.state();
        let (lineage, expires) = match line.kind {
            RecordKind::Tombstone if state.kind() == EntryKind::Destroyed => {
                let longest = line.lineage.longest.max(state.forgotten_at());
                (Lineage { longest, ..line.lineage }, longest)
            }
            RecordKind::Touch if state.is_readable() => {
                let record = LogLine::read(self, state.location())?;
                let touched = Override(entry.touched().load(Relaxed)).applies_to(state)?;
                let part = grid_ms(header.head.written, header.head.expires);
                // A rebuild has added one part, and touches within a cell, perhaps of a longer time
                // to live, are not logged.
                let near =
                    touched.as_ms().abs_diff(header.head.expires.as_ms()) <= NOTE_PARTS * part;
                let same = record.lineage.digest == line.lineage.digest
                    && record.lineage.sequence == line.lineage.sequence;
                (same && near).then_some((line.lineage, touched))?
            }
            _ => return None,
        };
        let head = Head { expires, ..header.head };
        Some((entry.number, lineage, RecordHeader { head, ..header }))
    }

    fn entry_of(&self, digest: KeyDigest) -> Option<TableEntry<'_>> {
        let entry = self.entry(self.find_entry(digest)?);
        (entry.digest() == digest).then_some(entry)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use sessile_core::{Clock, Key, Store, Ttl};

    use super::*;
    use crate::memory::LOG;
    use crate::memory::SeqCst;
    use crate::power_tests::remove_control;
    use crate::storage::segment::{is_note, record_location};

    /// `destroy` once named its entry in the lane after it had written the tombstone. Compaction,
    /// between the two, took the tombstone for one that nobody needs: after a power cut the session
    /// was back.
    #[test]
    fn a_tombstone_stays_from_when_it_is_written_until_the_state_is_swapped() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let path = folder.path().join("store");
        let engine = crate::open(&path, Clock::system(), &crate::EngineOptions::default()).unwrap();
        let ttl = Ttl::sliding(std::time::Duration::from_secs(60)).unwrap();
        let key = Key::session("one").unwrap();
        engine.create(&key, b"cart", ttl).unwrap();
        let (plane, me) = (&engine.plane, engine.me().unwrap());
        let entry = plane.entry(plane.find_entry(plane.digest_of(&key)).unwrap());
        let (state, old) = entry.present_state(plane, entry.state()).unwrap();
        let lane = Lane::enter(plane, me, entry.number, old);
        me.log_destroy(&lane, &entry, state, plane.now()).unwrap();
        let mut notes = (0..64).map(|granule| SlotClaim {
            location: record_location(0, LOG, granule),
            stamp: plane.stamp(0, granule).load(SeqCst),
        });
        let note = notes.rfind(|claim| is_note(claim.stamp)).unwrap();
        assert!(plane.note_counts(note));
        assert!(!me.move_note(plane, note, ClaimPurpose::Move).unwrap());
        drop(lane);
        assert!(!plane.note_counts(note), "it was given up");
        drop(engine);
        remove_control(&path);
    }
}
