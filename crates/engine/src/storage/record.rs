//! Records: read while other processes may replace them, and freed.
//!
//! Invariants: a copy counts only if entry and first word are unchanged afterwards (DESIGN.md,
//! "Pairs of words"); a record is freed by its stamp, once, after nothing leads to it any more.

use sessile_core::{Head, Result, Stored, Timestamp};

use super::header::{CHUNKED, FORM_AT, PLAIN, RecordHeader};
use super::lane::{Lane, SlotClaim};
use super::log_line::LogLine;
use crate::{memory::*, table::*};

pub const UNLOCKED_TRIES: usize = 3;
/// Tries under the lock: only a destroy and a move can disturb them, and neither goes on for ever.
pub const LOCKED_TRIES: usize = 10_000;

pub struct Snapshot {
    pub state: EntryState,
    pub header: RecordHeader,
    /// With the overrides of the entry.
    pub head: Head,
    pub payload: Vec<u8>,
}

pub enum EntryRead {
    Elsewhere,
    Bare(EntryState),
    Record(Snapshot),
    Contended,
}

#[derive(Clone, Copy)]
pub enum ReadDepth {
    Header,
    /// With its payload. The lines that the hint names have been prefetched.
    Whole(Hint),
}

pub const WHOLE: ReadDepth = ReadDepth::Whole(Hint::NONE);

#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each read")]
pub enum EntryView {
    /// The record is a zero without one.
    Stored(Stored<KeyDigest>, Snapshot),
    /// The entry is of no use any more: find the key's entry again.
    Elsewhere,
    /// It is leaving the index; a process that wants the key can help.
    Leaving,
    Contended,
}

impl RecordHeader {
    /// Nothing in it counts until the entry was read again.
    #[inline(always)]
    pub fn read(plane: &Plane, location: Location) -> Option<RecordHeader> {
        if !plane.may_read(location) {
            return None;
        }
        // The words after the stamp are not older than it.
        let words = plane.data.load_line(location.offset());
        Some(RecordHeader::from_words(words))
    }
}

impl LogLine {
    /// The caller pins the record or reads again.
    pub fn read(plane: &Plane, location: Location) -> Option<LogLine> {
        let log = plane.log.as_ref()?;
        if !plane.may_read(location) || location.within() < LOG_LINE_BYTES {
            return None;
        }
        let words = plane.data.load_line(location.offset() - LOG_LINE_BYTES);
        LogLine::from_words(log, words, location)
    }
}

impl Plane {
    pub fn read_logged(&self, location: Location) -> Option<(LogLine, RecordHeader)> {
        LogLine::read(self, location).zip(RecordHeader::read(self, location))
    }

    /// The chunks of a record, as its list has them; none for a record in one piece.
    pub fn chunks(
        &self,
        location: Location,
        header: &RecordHeader,
    ) -> impl Iterator<Item = SlotClaim> {
        let list = location.offset() + HEADER_BYTES;
        let listed = if header.form == CHUNKED { header.stored_bytes() } else { 0 };
        let count = listed.min(location.room() - HEADER_BYTES) / LISTED_BYTES;
        (0..count).map_while(move |at| {
            let word = |offset| self.data.word(list + at * LISTED_BYTES + offset).load(Acquire);
            let location = word(0).checked_sub(1)?;
            Some(SlotClaim { location: Location(location), stamp: word(8) })
        })
    }

    /// Whether the slot was not reused since the header was read. The caller has fenced.
    fn is_unchanged(&self, location: Location, header: &RecordHeader) -> bool {
        let stamp = || self.data.word(location.offset()).load(Relaxed);
        header.stamp != 0 && stamp() == header.stamp
    }

    /// Frees the chunks of a record whose own slot is freed afterwards: a repetition still finds
    /// the list.
    pub fn free_chunks(&self, head: SlotClaim) {
        let Some(stamp) = self.stamp_of(head.location) else { return };
        let is_ours = || stamp.load(SeqCst) == head.stamp;
        // Most records are in one piece: two words tell it. Acquire: as in `load_line`.
        let word = |at| self.data.word(head.location.offset() + at);
        if !self.may_read(head.location)
            || word(0).load(Acquire) != head.stamp
            || RecordHeader::form_of(word(FORM_AT).load(Relaxed)) != CHUNKED
        {
            return;
        }
        let Some(header) = RecordHeader::read(self, head.location) else { return };
        if header.form != CHUNKED || header.stamp != head.stamp || !is_ours() {
            return;
        }
        for chunk in self.chunks(head.location, &header) {
            if !is_ours() {
                return;
            }
            self.free_slot(chunk);
        }
    }
}

impl TableEntry<'_> {
    /// The present state of an entry and the claim of its record, if only moves have changed it
    /// since `from`. The stamp is read while the entry leads to the slot, so it is never that of a
    /// successor: recovery may free it later.
    pub fn present_state(
        self,
        plane: &Plane,
        from: EntryState,
    ) -> Option<(EntryState, Option<SlotClaim>)> {
        loop {
            let state = self.state();
            if !state.is_moved_from(from) && !mutated(Mutation::CommitsUnseen) {
                return None;
            }
            let location = state.location();
            let stamp = state.has_record().then(|| plane.stamp_of(location)).flatten();
            let stamp = stamp.map(|stamp| stamp.load(SeqCst));
            if self.state_word().load(SeqCst) == state.0 {
                return Some((state, stamp.map(|stamp| SlotClaim { location, stamp })));
            }
        }
    }

    pub fn leads_to(self, location: Location) -> bool {
        let state = EntryState(self.state_word().load(SeqCst));
        state.has_record() && state.location() == location
    }

    /// `Corrupt`: the record is not one of this entry although nothing has changed it.
    #[inline(always)] // the result is large; moving it from call to call was a twentieth of a peek
    pub fn read_entry(
        self,
        plane: &Plane,
        digest: KeyDigest,
        depth: ReadDepth,
        tries: usize,
    ) -> Result<EntryRead> {
        let with_payload = matches!(depth, ReadDepth::Whole(_));
        let mut payload = match depth {
            ReadDepth::Header => Vec::new(),
            ReadDepth::Whole(hint) => spare::take(hint.room()),
        };
        for _ in 0..tries {
            let state = self.state();
            if state.kind() == EntryKind::Free || self.digest() != digest {
                return Ok(EntryRead::Elsewhere);
            }
            if !state.is_readable() {
                // The digest was read after the state; if the state is unchanged, they belong
                // together.
                fence(Acquire);
                if self.state() != state {
                    continue;
                }
                let damaged = state.kind() == EntryKind::Damaged;
                return if damaged { Err(corrupt()) } else { Ok(EntryRead::Bare(state)) };
            }
            let location = state.location();
            if let ReadDepth::Whole(hint) = depth
                && !hint.leads_to(location)
            {
                plane.prefetch_data(location);
            }
            let header = RecordHeader::read(plane, location);
            let line = plane.log.as_ref().and_then(|_| LogLine::read(plane, location));
            payload.clear();
            let copied = header.is_some_and(|header| {
                !with_payload || copy(plane, location, &header, line, &mut payload)
            });
            // Overrides are read before the state is read again: not older than a later commit.
            let touched = Override(self.touched().load(Relaxed));
            let moved_end = Override(self.ends().load(Relaxed));
            fence(Acquire);
            let same = self.state_word().load(Relaxed) == state.0 || mutated(Mutation::ReadsOnce);
            let Some(header) = header.filter(|header| same && plane.is_unchanged(location, header))
            else {
                if same && header.is_none() {
                    return Err(corrupt());
                }
                continue;
            };
            let belongs = match (&plane.log, line) {
                (None, _) => header.entry == self.number,
                (Some(_), None) => false,
                (Some(log), Some(line)) => {
                    // `copy` has checked a list and its chunks.
                    let whole = with_payload && header.form == PLAIN;
                    line.lineage.digest == digest
                        && (!whole || line.is_valid(log, &header, location, &payload))
                }
            };
            if !copied || !belongs {
                return Err(corrupt());
            }
            let ends = moved_end.applies_to(state).or(header.head.ends);
            let expires = touched.applies_to(state).unwrap_or(header.head.expires);
            let expires = ends.map_or(expires, |ends| ends.min(expires));
            let head = Head { expires, ends, ..header.head };
            return Ok(EntryRead::Record(Snapshot { state, header, head, payload }));
        }
        Ok(EntryRead::Contended)
    }

    #[inline(always)]
    pub fn view_entry(
        self,
        plane: &Plane,
        digest: KeyDigest,
        depth: ReadDepth,
        tries: usize,
    ) -> Result<EntryView> {
        let read = match (self.read_entry(plane, digest, depth, tries)?, depth) {
            // Where an alias leads is in its payload.
            (EntryRead::Record(alias), ReadDepth::Header)
                if alias.state.kind() == EntryKind::Regenerated =>
            {
                self.read_entry(plane, digest, WHOLE, tries)?
            }
            (read, _) => read,
        };
        Ok(match read {
            EntryRead::Elsewhere => EntryView::Elsewhere,
            EntryRead::Contended => EntryView::Contended,
            EntryRead::Bare(state) => {
                let stored = match state.kind() {
                    EntryKind::Leaving => return Ok(EntryView::Leaving),
                    EntryKind::Destroyed => {
                        Stored::Tombstone { mark: state.version(), forget: state.forgotten_at() }
                    }
                    _ => Stored::Nothing,
                };
                let header = RecordHeader::from_words([0; LINE_WORDS]);
                let bare = Snapshot { state, header, head: header.head, payload: Vec::new() };
                EntryView::Stored(stored, bare)
            }
            EntryRead::Record(snapshot) if snapshot.state.kind() == EntryKind::Live => {
                EntryView::Stored(Stored::Live(snapshot.head), snapshot)
            }
            EntryRead::Record(alias) => {
                let (target, grace_ends) = alias_of(&alias.payload).ok_or_else(corrupt)?;
                let forget = alias.head.expires;
                EntryView::Stored(Stored::Alias { target, grace_ends, forget }, alias)
            }
        })
    }

    /// Frees the record that an entry led to until a moment ago. Compaction may have moved the
    /// record away and back to this place under another stamp: then that record is freed too,
    /// unless its mover is still at work and frees it.
    pub fn discard_replaced(self, plane: &Plane, old: SlotClaim) {
        plane.free_chunks(old);
        if plane.free_slot(old) || mutated(Mutation::ForgetsReturned) {
            return;
        }
        let Some(stamp) = plane.stamp_of(old.location).map(|stamp| stamp.load(SeqCst)) else {
            return;
        };
        let Some(header) = RecordHeader::read(plane, old.location) else { return };
        let of_this_entry = match (&plane.log, LogLine::read(plane, old.location)) {
            (None, _) => header.entry == self.number,
            (Some(_), line) => line.is_some_and(|line| line.lineage.digest == self.digest()),
        };
        let of_this_entry = of_this_entry && header.stamp == stamp && header.is_movable();
        // In this order: once its lane is marked, no process leads the entry to it again.
        if of_this_entry && !plane.is_in_progress(stamp) && !self.leads_to(old.location) {
            plane.free_slot(SlotClaim { stamp, ..old });
        }
    }
}

/// False when the header cannot be true, or a list or its chunks are not what was written.
#[inline(always)]
fn copy(
    plane: &Plane,
    location: Location,
    header: &RecordHeader,
    line: Option<LogLine>,
    payload: &mut Vec<u8>,
) -> bool {
    let room = location.room() - HEADER_BYTES;
    if header.stored_bytes() > room || header.payload_bytes > PAYLOAD_BYTES_MAX {
        return false;
    }
    if header.form == PLAIN {
        let offset = location.offset() + HEADER_BYTES;
        plane.data.read(offset, header.payload_bytes as usize, payload);
        return true;
    }
    copy_chunks(plane, location, header, line, payload)
}

fn copy_chunks(
    plane: &Plane,
    location: Location,
    header: &RecordHeader,
    line: Option<LogLine>,
    payload: &mut Vec<u8>,
) -> bool {
    if let Some(log) = &plane.log {
        let mut list = Vec::new();
        let offset = location.offset() + HEADER_BYTES;
        plane.data.read(offset, header.stored_bytes() as usize, &mut list);
        if !line.is_some_and(|line| line.is_valid(log, header, location, &list)) {
            return false;
        }
    }
    let mut left = header.payload_bytes;
    for chunk in plane.chunks(location, header) {
        let length = left.min(CHUNK_BYTES);
        if !plane.may_read(chunk.location) || length > chunk.location.room() - HEADER_BYTES {
            return false;
        }
        let start = payload.len();
        plane.data.read(chunk.location.offset() + HEADER_BYTES, length as usize, payload);
        left -= length;
        if let Some(log) = &plane.log {
            let piece = payload.get(start..).unwrap_or_default();
            let is_ours = |(found, header): (LogLine, RecordHeader)| {
                header.stamp == chunk.stamp
                    && line.is_some_and(|line| line.lineage.digest == found.lineage.digest)
                    && found.is_valid(log, &header, chunk.location, piece)
            };
            if !plane.read_logged(chunk.location).is_some_and(is_ours) {
                return false;
            }
        }
    }
    left == 0
}

pub fn alias_payload(target: KeyDigest, grace_ends: Timestamp) -> Vec<u8> {
    [target.0, target.1, grace_ends.as_ms()].iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn alias_of(payload: &[u8]) -> Option<(KeyDigest, Timestamp)> {
    let (words, []) = payload.as_chunks::<8>() else { return None };
    let &[first, second, grace_ends] = words else { return None };
    let [first, second, grace_ends] = [first, second, grace_ends].map(u64::from_le_bytes);
    Some((KeyDigest(first, second), Timestamp::from_ms(grace_ends)))
}

impl Plane {
    /// Zeroes the magic of an unpublished record: no rebuild counts it.
    fn invalidate(&self, location: Location) {
        let Some(log) = self.log.as_ref().filter(|_| location.within() >= LOG_LINE_BYTES) else {
            return;
        };
        if let Err(error) = log.file.write(&[0; 8], location.offset() - LOG_LINE_BYTES) {
            log::warn!("a record that was given up cannot be marked so: {error:#}");
        }
    }
}

impl Lane<'_> {
    /// After a sync that has failed. The record may be on the disk all the same, and its mark as
    /// given up may be lost in the next failure: all later records get greater sequences.
    pub fn give_up(&self, claim: SlotClaim) {
        if mutated(Mutation::ForgetsRefused) {
            self.plane.free_slot(claim);
            return;
        }
        if let Some(line) = LogLine::read(self.plane, claim.location) {
            self.plane.header(header::SEQUENCE_FLOOR).raise(line.lineage.sequence);
        }
        self.discard(claim);
    }

    pub fn discard(&self, claim: SlotClaim) {
        let plane = self.plane;
        plane.free_chunks(claim);
        // As long as it has our stamp the place is ours.
        plane.invalidate(claim.location);
        plane.free_slot(claim);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use sessile_core::{Clock, Key, Store, Ttl};

    use super::*;

    /// A chunk was read once from wherever the list said, if only it had a valid checksum there: a
    /// list with a turned bit could show a part of somebody else's session.
    #[test]
    fn a_list_that_leads_to_other_chunks_is_corrupt() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let path = folder.path().join("store");
        let engine = crate::open(&path, Clock::system(), &crate::EngineOptions::default()).unwrap();
        let ttl = Ttl::sliding(std::time::Duration::from_secs(60)).unwrap();
        let plane = &engine.plane;
        let list_of = |id: &str, byte| {
            let key = Key::session(id).unwrap();
            engine.create(&key, &[byte; 150_000], ttl).unwrap();
            let entry = plane.entry(plane.find_entry(plane.digest_of(&key)).unwrap());
            let location = entry.state().location();
            let header = RecordHeader::read(plane, location).unwrap();
            (key, location, plane.chunks(location, &header).collect::<Vec<_>>())
        };
        let (key, list, own) = list_of("one", 1);
        let (_, _, foreign) = list_of("two", 2);
        let other = foreign.first().unwrap();
        let log = plane.log.as_ref().unwrap();
        // The foreign chunk with its stamp, and with ours; our chunks in another order.
        for (location, stamp) in [
            (other.location, other.stamp),
            (other.location, own.first().unwrap().stamp),
            (own.get(1).unwrap().location, own.get(1).unwrap().stamp),
        ] {
            let item = [(location.0 + 1).to_le_bytes(), stamp.to_le_bytes()].concat();
            log.file.write(&item, list.offset() + HEADER_BYTES).unwrap();
            let error = engine.peek(&key).err().map(|error| error.kind().code());
            assert_eq!(error, Some("corrupt"));
        }
        drop(engine);
        crate::power_tests::remove_control(&path);
    }
}
