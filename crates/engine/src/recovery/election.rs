//! Which record of each digest counts, established in the entries themselves while a rebuild reads
//! the log.
//!
//! ```text
//! word        of an entry while its rebuild runs                              afterwards
//! lock        sequence of the latest record so far                            0
//! state       kind (Empty: none so far), location; version 2: there are copies   version 1
//! touched     expiry, in milliseconds                                         with the version
//! ends        absolute end of the note that counts; 0: none                   with the version
//! fence       fence of the record, or of the note that counts                 not below sequence
//! due         longest                                                         due time
//! due time    1 + the location of the note of a touch that counts; 0: none    due time
//! ```
//!
//! Invariant: no process is attached, so no word has its usual meaning until `finish_entry`.
//! DESIGN.md, "Rebuild".

use std::cmp::Ordering;

use sessile_core::{Result, Timestamp};

use super::scan::FoundRecord;
use crate::{memory::*, storage::*, table::*};

/// What is known of a segment while the log is read.
#[derive(Clone, Copy, Default)]
pub struct SegmentTally {
    /// The digests whose latest record is here and nowhere else.
    only: u32,
    /// It has records that could not be ranked when they were read first.
    pub undecided: bool,
    /// It may have something besides records that count.
    pub contested: bool,
}

pub struct Election<'a> {
    pub plane: &'a Plane,
    pub now: Timestamp,
    pub segments: Vec<SegmentTally>,
    /// Made so far, from the first one on.
    pub entries: u64,
    /// Whether a record has been elected, and whether an alias has led nowhere.
    pub has_changed: bool,
    pub dangles: bool,
}

impl<'a> Election<'a> {
    pub fn new(plane: &'a Plane, segments: u64) -> Election<'a> {
        let segments = vec![SegmentTally::default(); segments as usize];
        let now = plane.now();
        Election { plane, now, segments, entries: 0, has_changed: false, dangles: false }
    }

    fn tally(&mut self, location: Location, change: impl FnOnce(&mut SegmentTally)) {
        if let Some(segment) = self.segments.get_mut(location.segment() as usize) {
            change(segment);
        }
    }

    fn only(&self, location: Location) -> u32 {
        self.segments.get(location.segment() as usize).map_or(0, |segment| segment.only)
    }

    /// The entry of a digest, made if there is none.
    fn entry_for(&mut self, digest: KeyDigest) -> Result<u64> {
        let (plane, number) = (self.plane, self.entries);
        if number >= plane.entry_count() {
            plane.back_block(number / ENTRIES_OF_BLOCK)?;
        }
        let entry = plane.entry(number);
        entry.set_digest(digest);
        match plane.insert_entry(digest, number)? {
            Insertion::Existing(number) => Ok(number),
            Insertion::Inserted => {
                entry.state_word().store(EntryState(0).next_bare(EntryKind::Empty).0, Relaxed);
                entry.set_used(plane);
                self.entries += 1;
                Ok(number)
            }
        }
    }

    /// Ranks a record of the first reading, if it counts alone. Only what has not expired makes an
    /// entry, and a tombstone, which goes after what it is about.
    pub fn nominate(&mut self, found: &FoundRecord<'_>) -> Result<()> {
        let (lineage, location) = (found.line.lineage, found.location);
        // A note that was moved may let its session expire later than it once said.
        let (expires, _) = end_of(found);
        let lasts = lineage.longest > self.now
            || found.is_tombstone()
            || !found.is_damaged() && expires > self.now;
        let is_record = !found.is_touch() && !found.is_chunk();
        let decided = is_record && lasts && found.counts_alone();
        self.tally(location, |segment| {
            segment.undecided |= is_record && (!decided || found.has_list());
            segment.contested |= !decided || found.has_list() || found.is_damaged();
        });
        if found.is_chunk() {
            return Ok(());
        }
        if let Some(target) = found.target().filter(|_| !found.is_sealed) {
            self.entry_for(target)?;
        }
        if lasts {
            let number = self.entry_for(lineage.digest)?;
            if decided && let Some(kind) = self.kind_of(found) {
                self.elect(number, found, kind);
            }
        }
        Ok(())
    }

    /// Ranks a record when all records of the log are known.
    pub fn rank(&mut self, found: &FoundRecord<'_>) {
        let Some(number) = self.plane.find_entry(found.line.lineage.digest) else { return };
        match self.kind_of(found) {
            Some(kind) => self.elect(number, found, kind),
            None => self.dangles |= found.target().is_some(),
        }
    }

    /// What an entry stands for of which this is the latest record; `None` when it does not count,
    /// because it was not complete on the disk.
    fn kind_of(&self, found: &FoundRecord<'_>) -> Option<EntryKind> {
        let plane = self.plane;
        let has_record = |target: &KeyDigest| {
            let entry = plane.find_entry(*target).map(|number| plane.entry(number));
            entry.is_some_and(|entry| entry.state().kind() != EntryKind::Empty)
        };
        let is_there = |chunk: SlotClaim| {
            let stamp = plane.stamp_of(chunk.location);
            stamp.is_some_and(|stamp| stamp.load(Relaxed) == chunk.stamp)
        };
        let is_whole = found.has_all_chunks(is_there);
        let leads_somewhere = || found.target().as_ref().is_none_or(has_record);
        match found.line.kind {
            RecordKind::Touch | RecordKind::Chunk => None,
            RecordKind::Tombstone => Some(EntryKind::Destroyed),
            _ if !(found.is_sealed || is_whole && leads_somewhere()) => None,
            _ if found.is_damaged() || !is_whole => Some(EntryKind::Damaged),
            RecordKind::Regenerated => Some(EntryKind::Regenerated),
            RecordKind::Live => Some(EntryKind::Live),
        }
    }

    /// The record counts unless the entry has a later one. Of two copies of one record, which a
    /// move leaves, that one counts whose segment has more records without a copy: so a segment
    /// that was emptied has none after the rebuild, and counts for the reserve. A damaged copy
    /// comes last.
    fn elect(&mut self, number: u64, found: &FoundRecord<'_>, kind: EntryKind) {
        let (entry, location) = (self.plane.entry(number), found.location);
        let present = entry.state();
        let (has_copies, seat) = (present.version() > 1, present.location());
        if present.kind() == EntryKind::Empty {
            self.take_seat(number, found, kind);
        } else if seat == location {
            // A list, of which it is known only now whether its chunks are there.
            if present.kind() != kind {
                entry.state_word().store(EntryState(0).next(kind, seat).0, Relaxed);
            }
        } else {
            let sequence = entry.lock().load(Relaxed);
            let is_tombstone = present.kind() == EntryKind::Destroyed;
            let rank = (sequence, is_tombstone, entry.fence().load(Relaxed));
            let order = found.rank().cmp(&rank);
            if order != Ordering::Less && !has_copies {
                self.tally(seat, |segment| segment.only = segment.only.saturating_sub(1));
            }
            self.tally(location, |segment| segment.contested = true);
            self.tally(seat, |segment| segment.contested = true);
            match order {
                Ordering::Less => {}
                Ordering::Greater => self.take_seat(number, found, kind),
                Ordering::Equal => {
                    for copy in [seat, location] {
                        self.tally(copy, |segment| segment.undecided = true);
                    }
                    if present.kind() == EntryKind::Damaged && kind != EntryKind::Damaged {
                        // What the damaged copy said of its end and its owner is as damaged.
                        entry.touched().store(end_of(found).0.as_ms(), Relaxed);
                        self.plane.restore_owner_hint(number, found.header.head.owner);
                    }
                    let copies = [(kind, location), (present.kind(), seat)].into_iter();
                    let better = |of: &(_, _)| (of.0 != EntryKind::Damaged, self.only(of.1));
                    if let Some((kind, at)) = copies.max_by_key(better) {
                        let copied = EntryState(0).next_bare(kind).next(kind, at);
                        entry.state_word().store(copied.0, Relaxed);
                    }
                }
            }
        }
    }

    fn take_seat(&mut self, number: u64, found: &FoundRecord<'_>, kind: EntryKind) {
        let (plane, entry, lineage) = (self.plane, self.plane.entry(number), found.line.lineage);
        let (expires, _) = end_of(found);
        let state = EntryState(0).next(kind, found.location);
        for (word, value) in [
            (entry.lock(), lineage.sequence),
            (entry.state_word(), state.0),
            (entry.touched(), expires.as_ms()),
            (entry.fence(), lineage.fence),
            (entry.due(), lineage.longest.as_ms()),
        ] {
            word.store(value, Relaxed);
        }
        entry.store_hint(plane, found.location, found.header.payload_bytes);
        plane.restore_owner_hint(number, found.header.head.owner);
        self.tally(found.location, |segment| segment.only += 1);
        self.has_changed = true;
    }

    /// Clears the stamp of what does not count. Returns what has to be zeroed: a record that was
    /// never published, misses something, or was overruled, and would outlive the one that counts;
    /// and a touch of such a record, whose sequence the next one gets.
    pub fn settle(&self, found: &FoundRecord<'_>) -> Option<Location> {
        let (plane, lineage, location) = (self.plane, found.line.lineage, found.location);
        let claim = SlotClaim { location, stamp: found.header.stamp };
        let entry = plane.find_entry(lineage.digest).map(|number| plane.entry(number));
        let Some((entry, state)) = entry
            .map(|entry| (entry, entry.state()))
            .filter(|(_, state)| state.kind() != EntryKind::Empty)
        else {
            plane.free_slot(claim);
            return None;
        };
        let seat = state.location();
        if location == seat {
            return None;
        }
        if found.is_chunk() {
            let is_listed = RecordHeader::read(plane, seat).is_some_and(|header| {
                plane.chunks(seat, &header).any(|chunk| chunk.location == location)
            });
            if state.kind() != EntryKind::Live || !is_listed {
                plane.free_slot(claim);
            }
            return None;
        }
        let longest = Timestamp::from_ms(entry.due().load(Relaxed));
        let sequence = entry.lock().load(Relaxed);
        let may_count = found.is_touch() && state.is_readable() && lineage.sequence == sequence;
        if may_count && let Some(former) = self.elect_touch(entry, found) {
            return former;
        }
        plane.free_slot(claim);
        // The clock may be ahead: what a tombstone is about goes before the tombstone does.
        let forgets = state.kind() == EntryKind::Destroyed && longest <= self.now;
        let outranks = lineage.sequence > sequence
            || lineage.sequence == sequence && !found.is_touch() && !found.counts_alone();
        (forgets || outranks || lineage.longest > longest).then_some(location)
    }

    /// Notes of a touch count by their fence. Returns the one before, which is overruled; `None` if
    /// this one does not count.
    fn elect_touch(
        &self,
        entry: TableEntry<'_>,
        found: &FoundRecord<'_>,
    ) -> Option<Option<Location>> {
        let (noted, fence) = (self.plane.due(entry.number), found.line.lineage.fence);
        let (expires, ends) = end_of(found);
        // Of two copies, the later one may know of later touches, which were not logged.
        let rank = (fence, expires.as_ms());
        let is_late = mutated(Mutation::FirstTouchWins) && noted.load(Relaxed) != 0;
        if is_late || rank <= (entry.fence().load(Relaxed), entry.touched().load(Relaxed)) {
            return None;
        }
        let former = noted.load(Relaxed).checked_sub(1).map(Location);
        noted.store(found.location.0 + 1, Relaxed);
        // The next touch counts by a greater one.
        entry.fence().store(fence, Relaxed);
        entry.touched().store(expires.as_ms(), Relaxed);
        entry.ends().store(ends.map_or(0, Timestamp::as_ms), Relaxed);
        former.iter().for_each(|at| self.plane.free_at(*at));
        Some(former)
    }

    /// Gives the words of an entry their usual meaning. False: nothing is left of it, and it is
    /// free.
    pub fn finish_entry(&self, number: u64) -> Result<bool> {
        let (plane, entry) = (self.plane, self.plane.entry(number));
        let (kind, location) = (entry.state().kind(), entry.state().location());
        let moment = |word: &Word| Timestamp::from_ms(word.load(Relaxed));
        let (longest, expires, ends) =
            (moment(entry.due()), moment(entry.touched()), moment(entry.ends()));
        let noted = plane.due(number).load(Relaxed);
        let is_readable = entry.state().is_readable();
        let lasts = if is_readable { expires.max(longest) } else { longest };
        entry.fence().raise(entry.lock().load(Relaxed));
        entry.lock().store(0, Relaxed);
        if kind == EntryKind::Empty || lasts <= self.now {
            if kind != EntryKind::Empty {
                plane.free_at(location);
            }
            noted.checked_sub(1).map(Location).inspect(|at| plane.free_at(*at));
            return entry.finish_removal(plane, LockWord(0)).map(|()| false);
        }
        let state = match kind {
            EntryKind::Destroyed => EntryState(0).tombstone(longest),
            kind => EntryState(0).next(kind, location),
        };
        let as_override = |moment: Timestamp| {
            if is_readable && moment > Timestamp::ZERO { Override::new(moment, state).0 } else { 0 }
        };
        entry.state_word().store(state.0, Relaxed);
        entry.touched().store(as_override(expires), Relaxed);
        entry.ends().store(as_override(ends), Relaxed);
        // As the touch itself does, when it ends a session that was not logged out: before that the
        // entry would leave a tombstone. One that lives needs no look at the log.
        let has_life = expires > self.now || !self.is_end(noted);
        let due = if is_readable && has_life { expires } else { lasts };
        entry.set_due(plane, due);
        Ok(true)
    }

    /// Whether the note of a touch, by its location and one, has left its session no life.
    fn is_end(&self, noted: u64) -> bool {
        let note = noted.checked_sub(1).and_then(|at| self.plane.read_logged(Location(at)));
        note.is_some_and(|(_, header)| header.head.expires <= header.head.written)
    }
}

/// When a record or the note of a touch lets its session expire, and its absolute end.
fn end_of(found: &FoundRecord<'_>) -> (Timestamp, Option<Timestamp>) {
    let head = found.header.head;
    let expires = granted(head.written, head.expires);
    (head.ends.map_or(expires, |ends| ends.min(expires)), head.ends)
}

impl Plane {
    /// Frees the record or note at a location, and its chunks.
    fn free_at(&self, location: Location) {
        let stamp = self.stamp_of(location).map(|stamp| stamp.load(Relaxed));
        if let Some(claim) = stamp.map(|stamp| SlotClaim { location, stamp }) {
            self.free_chunks(claim);
            self.free_slot(claim);
        }
    }
}
