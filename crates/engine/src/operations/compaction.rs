//! Compaction: the records of a sparse segment move elsewhere, a few per call, and its memory goes
//! back.
//!
//! Invariant: a move changes only the location of a record, by one compare-and-swap that keeps the
//! version; a process that changes the record at the same time wins.

use std::time::{Duration, Instant};

use sessile_core::Result;

use crate::{memory::*, storage::*, table::*};

/// Records moved in one call.
const MOVES_MAX: u64 = 2;
/// Stamps read in one call; most of those of a log are empty.
const STAMPS_MAX: u64 = 64;
const STAMPS_MAX_LOG: u64 = 256;
/// Notes read in one call: each costs up to four misses of the cache.
const NOTES_MAX: u64 = 4;
/// Emptied segments that a log keeps: this part of all, and some. Giving one back takes
/// milliseconds on a disk that is told of each freed block, and getting it again costs as much.
const KEPT_PART: u64 = 2;
const KEPT_LEAST: u64 = 64;
/// Moving half a segment costs no more than is gained.
const ONE_IN: u64 = 2;
/// In 1/256: the free part of a segment that is emptied, and of its class.
const FREE_PART: u64 = 128;
const FREE_PART_OF_CLASS: u16 = 64;

pub struct Compaction {
    at: Option<CompactionWork>,
    /// The free part of segments of a class, in 1/256, smoothed.
    free: [u16; CLASSES_ALL as usize],
    /// Emptied segments among the last so many.
    emptied: (u64, u64),
    /// Whether all emptied segments are given back, but for the reserve.
    thorough: bool,
    one_in: u64,
    purpose: ClaimPurpose,
    pub closed: u64,
}

impl Default for Compaction {
    fn default() -> Compaction {
        Compaction {
            at: None,
            free: [0; CLASSES_ALL as usize],
            emptied: (0, 0),
            thorough: false,
            one_in: ONE_IN,
            purpose: ClaimPurpose::Move,
            closed: 0,
        }
    }
}

#[derive(Clone, Copy)]
enum CompactionWork {
    /// Counting the free slots of a segment: so far `free` among the first `next`.
    Counting { segment: u64, seen: SegmentState, next: u64, free: u64 },
    /// Moving records away, at this slot; `left` records could not be moved.
    Moving { segment: u64, next: u64, left: u64 },
}

impl Compaction {
    pub fn is_busy(&self) -> bool {
        self.at.is_some()
    }

    /// For a log without room: empties segments that gain less, too.
    pub fn of_full(one_in: u64) -> Compaction {
        Compaction { one_in, purpose: ClaimPurpose::Room, ..Compaction::default() }
    }

    /// One small step. True when it has come to the end of a segment.
    pub fn step(&mut self, plane: &Plane, me: &RecordWriter) -> Result<bool> {
        match self.at {
            None => self.begin_segment(plane, me),
            Some(CompactionWork::Counting { segment, seen, next, free }) => {
                let count = slots(seen.class());
                let (until, free) = if is_log(seen.class()) {
                    let (until, used) = plane.used_granules(segment, next, count);
                    (until, free + (until - next).saturating_sub(used))
                } else {
                    let until = (next + STAMPS_MAX).min(count);
                    let is_free = |slot: &u64| plane.stamp(segment, *slot).load(Relaxed) == 0;
                    (until, free + (next..until).filter(is_free).count() as u64)
                };
                self.at = if until < count {
                    Some(CompactionWork::Counting { segment, seen, next: until, free })
                } else {
                    let evacuates = self.is_worth_it(plane, segment, seen, free)
                        && plane.segment_state(segment) == seen
                        && me.set_evacuating(plane, segment, true);
                    evacuates.then_some(CompactionWork::Moving { segment, next: 0, left: 0 })
                };
            }
            Some(CompactionWork::Moving { segment, next, left }) => {
                // An error leaves the segment.
                self.at = None;
                self.at = self.move_some(plane, me, segment, next, left)?;
            }
        }
        Ok(self.at.is_none())
    }

    fn begin_segment(&mut self, plane: &Plane, me: &RecordWriter) {
        let count = plane.segment_count();
        if count == 0 {
            return;
        }
        let segment = plane.header(header::COMPACTION).add(1) % count;
        let seen = plane.segment_state(segment);
        self.at = match seen.usage() {
            SegmentUse::Open if is_log(seen.class()) && me.is_appended_to(plane, segment) => None,
            SegmentUse::Open => Some(CompactionWork::Counting { segment, seen, next: 0, free: 0 }),
            SegmentUse::Evacuating | SegmentUse::Closing => {
                Some(CompactionWork::Moving { segment, next: 0, left: 0 })
            }
            SegmentUse::Unbacked => None,
            SegmentUse::Emptied => {
                self.pass_emptied(plane, me, segment, count);
                None
            }
        };
        self.emptied.1 += 1;
    }

    /// Gives an emptied segment back, unless the next writes may need it.
    fn pass_emptied(&mut self, plane: &Plane, me: &AttachedProcess, segment: u64, count: u64) {
        if self.emptied.1 >= count {
            self.emptied = (0, 0);
        }
        self.emptied.0 += 1;
        let kept =
            if self.thorough { plane.missing_reserve() } else { count / KEPT_PART + KEPT_LEAST };
        if self.emptied.0 > kept {
            me.give_back(plane, segment);
        }
    }

    /// Whether a segment is at least half free, and two others of its class, a quarter free on
    /// average, have room for its records: else they would only move into a new one.
    fn is_worth_it(&mut self, plane: &Plane, segment: u64, seen: SegmentState, free: u64) -> bool {
        let (class, count) = (seen.class(), slots(seen.class()));
        let part = free * 256 / count;
        let Some(smoothed) = self.free.get_mut(class as usize) else { return false };
        *smoothed = (*smoothed * 7 + part as u16) / 8;
        if is_log(class) {
            // Chunks do not move: their segments are worth it only when nothing is left.
            return free == count || free * self.one_in >= count && class == LOG;
        }
        let sparse = part >= FREE_PART && *smoothed >= FREE_PART_OF_CLASS;
        free == count || sparse && plane.has_two_others(segment, class)
    }

    /// Moves a few records; closes the segment at its end. Returns the work that is left.
    fn move_some(
        &mut self,
        plane: &Plane,
        me: &RecordWriter,
        segment: u64,
        mut next: u64,
        mut left: u64,
    ) -> Result<Option<CompactionWork>> {
        let seen = plane.segment_state(segment);
        if !seen.is_leaving() {
            return Ok(None); // another process has finished it
        }
        let count = slots(seen.class());
        let until = count.min(next + STAMPS_MAX);
        let mut moved = 0;
        while next < until && moved < MOVES_MAX {
            let stamp = plane.stamp(segment, next).load(SeqCst);
            if is_claim(stamp) {
                let location = record_location(segment, seen.class(), next);
                let claim = SlotClaim { location, stamp };
                let outcome = if is_note(stamp) {
                    me.move_note(plane, claim, self.purpose)
                } else {
                    me.move_record(plane, claim, self.purpose)
                };
                let outcome = outcome.inspect_err(|_| {
                    // No room to move to: undo what was begun.
                    me.set_evacuating(plane, segment, false);
                })?;
                *(if outcome { &mut moved } else { &mut left }) += 1;
            }
            next += 1;
        }
        if next < count {
            return Ok(Some(CompactionWork::Moving { segment, next, left }));
        }
        if me.close_segment(plane, segment) {
            self.closed += 1;
        } else if left > 0 {
            // Chunks, which do not move, or slots that are being written: it may serve on.
            me.set_evacuating(plane, segment, false);
        }
        Ok(None)
    }
}

impl AttachedProcess {
    /// Whether a living process holds a segment to append to it, or processes share it.
    fn is_appended_to(&self, plane: &Plane, segment: u64) -> bool {
        let owner = LockWord(plane.segment(segment).lock.load(Relaxed)).owner();
        owner.is_some_and(|owner| !self.is_dead(plane, owner))
            || plane.shared_segment() == Some(segment)
    }
}

impl Plane {
    /// Returns how far one call may read, and the granules of the records that begin there and
    /// count.
    fn used_granules(&self, segment: u64, first: u64, count: u64) -> (u64, u64) {
        let stamp = |granule| self.stamp(segment, granule).load(Relaxed);
        let end = (first + STAMPS_MAX_LOG).min(count);
        let (mut used, mut notes) = (0, 0);
        for granule in first..end {
            let location = record_location(segment, LOG, granule);
            let claim = SlotClaim { location, stamp: stamp(granule) };
            if !is_claim(claim.stamp) {
                continue;
            }
            if is_note(claim.stamp) {
                if notes == NOTES_MAX {
                    return (granule, used);
                }
                notes += 1;
                if !self.note_counts(claim) {
                    continue;
                }
            }
            used += if granule + 1 < count { marked_length(stamp(granule + 1)) } else { 1 };
        }
        (end, used)
    }
}

impl RecordWriter {
    pub fn move_record(
        &self,
        plane: &Plane,
        old: SlotClaim,
        purpose: ClaimPurpose,
    ) -> Result<bool> {
        let Some(header) = RecordHeader::read(plane, old.location) else { return Ok(false) };
        if header.stamp != old.stamp || !header.is_movable() {
            return Ok(false);
        }
        let line = plane.log.as_ref().and_then(|_| LogLine::read(plane, old.location));
        let number = match (&plane.log, line) {
            (None, _) => Some(header.entry),
            (Some(_), line) => line.and_then(|line| plane.find_entry(line.lineage.digest)),
        };
        let Some(number) = number.filter(|number| *number < plane.entry_count()) else {
            return Ok(false);
        };
        let entry = plane.entry(number);
        let state = entry.state();
        if !state.has_record() || state.location() != old.location {
            return Ok(false);
        }
        plane.prefetch_buckets(entry.digest()); // for the hint
        let EntryRead::Record(snapshot) = entry.read_entry(plane, entry.digest(), WHOLE, 1)? else {
            return Ok(false);
        };
        if snapshot.state != state || snapshot.header.stamp != old.stamp {
            return Ok(false);
        }
        // In a log its place among all records of its key stays the same.
        let kind = RecordKind::of_entry(state.kind());
        let logged = line.map(|line| LoggedAs { kind, lineage: line.lineage, purpose });
        let lane = Lane::enter(plane, self, entry.number, Some(old));
        // The header as it was: overrides stay with the entry, whose version does not change.
        let new = self.write_record(&lane, &snapshot.header, &snapshot.payload, logged)?;
        if !entry.replace_state(state, state.moved(new.location)) {
            lane.discard(new);
            return Ok(false);
        }
        lane.published();
        entry.store_hint(plane, new.location, snapshot.header.payload_bytes);
        entry.discard_replaced(plane, old);
        // A process that replaced the new record before it saw the mark may have known it by the
        // stamp of an earlier record at the same place, and has left it to us.
        if !entry.leads_to(new.location) {
            plane.free_slot(new);
        }
        self.count(plane, process_word::MOVED, 1);
        Ok(true)
    }

    /// Goes over all segments. True when done.
    pub fn compact_all(&self, plane: &Plane, time_max: Duration) -> Result<bool> {
        let start = Instant::now();
        let mut compaction = Compaction { thorough: true, ..Compaction::default() };
        compaction.free.fill(FREE_PART as u16);
        let mut ends = 0;
        while ends < plane.segment_count() {
            if start.elapsed() >= time_max {
                return Ok(false);
            }
            // Without room to move to, that segment stays, and the others have their turn.
            ends += u64::from(compaction.step(plane, self).unwrap_or(true));
        }
        Ok(true)
    }
}
