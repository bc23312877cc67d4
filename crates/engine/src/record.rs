//! Records: what lies in a slot, how it is written, and how it is read while others may replace it.
//!
//! ```text
//! word  0      1        2        3        4     5        6                          7      8 ...
//!       stamp  created  written  expires  ends  version  bytes 40 | bin 8 | form 8  entry  payload or list of chunks
//! ```
//!
//! Invariants: a record is complete before an entry leads to it and never changes afterwards; its first word is zero
//! while it is written and the stamp of its slot when it is complete. A reader trusts what it has copied only if entry
//! and first word are still the same afterwards. docs/engine.md, "Records".

use sessile_core::{Error, ErrorKind, Result, Timestamp};

use crate::broken::{self, Twin};
use crate::class::{LARGEST, class_of};
use crate::lane::{Claim, Lane, is_in_progress};
use crate::plane::{Digest, Entry, Plane};
use crate::segment::{self, Rotations, stamp_of};
use crate::sync::{Ordering, fence};
use crate::words::{Kind, Location, Override, State};

/// Bytes before the payload.
pub const HEADER_BYTES: u64 = 64;
/// Payload of one chunk of a large record.
pub const CHUNK_BYTES: u64 = LARGEST - HEADER_BYTES;
/// A chunk in the list: location and stamp.
const LISTED_BYTES: u64 = 16;
/// The largest payload that the list of chunks can lead to.
pub const PAYLOAD_BYTES_MAX: u64 = CHUNK_BYTES / LISTED_BYTES * CHUNK_BYTES;

const PLAIN: u64 = 0;
const CHUNKED: u64 = 1;
/// The form of a chunk itself: nothing leads to it but the list of its record.
const CHUNK: u64 = 2;

/// What a record says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub stamp: u64,
    pub created: Timestamp,
    pub written: Timestamp,
    pub expires: Timestamp,
    pub ends: Option<Timestamp>,
    pub version: u64,
    pub payload_bytes: u64,
    pub bin: u64,
    pub entry: u64,
    pub form: u64,
}

/// A record as its entry has it: overrides applied.
#[derive(Debug)]
pub struct Snapshot {
    pub state: State,
    pub header: Header,
    pub expires: Timestamp,
    pub ends: Option<Timestamp>,
    pub payload: Vec<u8>,
}

/// What was found behind an entry.
#[derive(Debug)]
pub enum Look {
    /// The entry belongs to another key by now.
    Elsewhere,
    /// A state without a record.
    Bare(State),
    /// A record.
    Record(Snapshot),
    /// It changed while it was copied, again and again.
    Restless,
}

/// How often a reader without the lock tries.
pub const TRIES: usize = 3;

impl Header {
    /// A header for a new record of an entry.
    pub fn new(entry: u64, bin: u64, version: u64, created: Timestamp, written: Timestamp) -> Header {
        let expires = written;
        Header { stamp: 0, created, written, expires, ends: None, version, payload_bytes: 0, bin, entry, form: PLAIN }
    }

    /// Reads a header; nothing in it can be trusted until the entry was looked at again.
    pub fn read(plane: &Plane, location: Location) -> Option<Header> {
        if !plane.may_read(location) {
            return None;
        }
        let words = plane.data.line(location.offset());
        // Acquire: the words below are not older than the stamp.
        let stamp = words[0].load(Ordering::Acquire);
        let [_, created, written, expires, ends, version, packed, entry] = words;
        let time = |word: &crate::sync::Word| Timestamp::from_ms(word.load(Ordering::Relaxed));
        let (ends, packed) = (ends.load(Ordering::Relaxed), packed.load(Ordering::Relaxed));
        Some(Header {
            stamp,
            created: time(created),
            written: time(written),
            expires: time(expires),
            ends: (ends != u64::MAX).then_some(Timestamp::from_ms(ends)),
            version: version.load(Ordering::Relaxed),
            payload_bytes: packed & 0xff_ffff_ffff,
            bin: packed >> 40 & 0xff,
            entry: entry.load(Ordering::Relaxed),
            form: packed >> 48 & 0xff,
        })
    }

    /// Whether a slot holds a record in one piece, which can be moved: chunks and their lists stay where they are.
    pub fn is_movable(&self) -> bool {
        self.form == PLAIN
    }

    fn write(&self, plane: &Plane, location: Location) {
        let words = plane.data.line(location.offset());
        words[0].store(0, Ordering::Relaxed);
        // A reader that sees any word below sees the zero above: pairs with the fence in `unchanged`.
        fence(Ordering::Release);
        let ends = self.ends.map_or(u64::MAX, Timestamp::as_ms);
        let packed = self.payload_bytes | self.bin << 40 | self.form << 48;
        let [_, rest @ ..] = words;
        let values =
            [self.created.as_ms(), self.written.as_ms(), self.expires.as_ms(), ends, self.version, packed, self.entry];
        rest.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    /// Bytes in the slot after the header.
    fn stored_bytes(&self) -> u64 {
        if self.form == CHUNKED { self.payload_bytes.div_ceil(CHUNK_BYTES) * LISTED_BYTES } else { self.payload_bytes }
    }

    /// Frees the chunks of a record whose own slot is freed afterwards: a repetition finds the list still there.
    pub fn free_chunks(plane: &Plane, head: Claim) {
        let Some(stamp) = stamp_of(plane, head.location) else { return };
        let mine = || stamp.load(Ordering::SeqCst) == head.stamp;
        let Some(header) = Header::read(plane, head.location) else { return };
        if header.form != CHUNKED || header.stamp != head.stamp || !mine() {
            return;
        }
        for chunk in chunks(plane, head.location, &header) {
            if !mine() {
                return;
            }
            segment::free(plane, chunk);
        }
    }
}

/// The chunks of a record, as its list has them; none for a record in one piece.
pub fn chunks(plane: &Plane, location: Location, header: &Header) -> impl Iterator<Item = Claim> {
    let list = location.offset() + HEADER_BYTES;
    let listed = if header.form == CHUNKED { header.stored_bytes() } else { 0 };
    let count = listed.min(location.room() - HEADER_BYTES) / LISTED_BYTES;
    (0..count).map_while(move |at| {
        let word = |offset| plane.data.word(list + at * LISTED_BYTES + offset).load(Ordering::Acquire);
        let location = word(0).checked_sub(1)?;
        Some(Claim { location: Location(location), stamp: word(8) })
    })
}

/// Writes a record into a new slot, which the lane names. Nothing leads to it yet.
///
/// # Errors
///
/// `Full`; everything that was claimed is free again.
pub fn write(lane: &Lane<'_>, rotations: &Rotations, mut header: Header, payload: &[u8]) -> Result<Claim> {
    let plane = lane.plane;
    header.payload_bytes = payload.len() as u64;
    header.form = if header.payload_bytes <= CHUNK_BYTES { PLAIN } else { CHUNKED };
    let class = class_of(HEADER_BYTES + header.stored_bytes()).ok_or_else(too_large)?;
    let claim = rotations.claim(lane, class, |claim| lane.about_to_claim(claim))?;
    header.write(plane, claim.location);
    let start = claim.location.offset() + HEADER_BYTES;
    let complete = || plane.data.word(claim.location.offset()).store(claim.stamp, Ordering::Release);
    if header.form == PLAIN {
        if !broken::is(Twin::StateBeforeRecord) {
            plane.data.write(start, payload);
        }
        complete();
        return Ok(claim);
    }
    // The list is empty before it counts as one, so recovery never follows what lay here before.
    (0..header.stored_bytes() / 8).for_each(|word| plane.data.word(start + word * 8).store(0, Ordering::Relaxed));
    complete();
    for (at, piece) in payload.chunks(CHUNK_BYTES as usize).enumerate() {
        match write_chunk(lane, rotations, &header, piece) {
            Ok(chunk) => {
                let listed = start + at as u64 * LISTED_BYTES;
                plane.data.word(listed + 8).store(chunk.stamp, Ordering::Relaxed);
                plane.data.word(listed).store(chunk.location.0 + 1, Ordering::Release);
            }
            Err(error) => {
                discard(plane, claim);
                return Err(error);
            }
        }
    }
    Ok(claim)
}

fn write_chunk(lane: &Lane<'_>, rotations: &Rotations, header: &Header, piece: &[u8]) -> Result<Claim> {
    let class = class_of(HEADER_BYTES + piece.len() as u64).ok_or_else(too_large)?;
    let chunk = rotations.claim(lane, class, |chunk| lane.about_to_claim_chunk(chunk))?;
    let header = Header { form: CHUNK, payload_bytes: piece.len() as u64, ..*header };
    header.write(lane.plane, chunk.location);
    lane.plane.data.write(chunk.location.offset() + HEADER_BYTES, piece);
    lane.plane.data.word(chunk.location.offset()).store(chunk.stamp, Ordering::Release);
    Ok(chunk)
}

/// Frees a record and its chunks. Nothing leads to it any more.
pub fn discard(plane: &Plane, claim: Claim) {
    Header::free_chunks(plane, claim);
    segment::free(plane, claim);
}

/// Frees the record that an entry led to until a moment ago.
///
/// While `old` was only remembered, the record may have been moved away and back to the same place, where it then has
/// another stamp: the state looks as if nothing had happened. So what is there now goes too if it is a record of this
/// entry that the entry does not lead to; should its mover not have come to its end, the mover frees it.
pub fn discard_replaced(plane: &Plane, entry: &Entry<'_>, old: Claim) {
    Header::free_chunks(plane, old);
    if segment::free(plane, old) || broken::is(Twin::ForgetsReturned) {
        return;
    }
    let Some(stamp) = stamp_of(plane, old.location).map(|stamp| stamp.load(Ordering::SeqCst)) else { return };
    let Some(header) = Header::read(plane, old.location) else { return };
    let of_this_entry = header.stamp == stamp && header.entry == entry.number && header.is_movable();
    // In this order: once its lane is marked nobody leads the entry to it again.
    if of_this_entry && !is_in_progress(plane, stamp) && !leads_to(entry, old.location) {
        segment::free(plane, Claim { stamp, ..old });
    }
}

/// Whether an entry stands for the record at a location.
pub fn leads_to(entry: &Entry<'_>, location: Location) -> bool {
    let state = State(entry.state_word().load(Ordering::SeqCst));
    state.has_record() && state.location() == location
}

/// The present state of an entry and the claim of its record, if it still has the version of `from`.
///
/// The stamp is read while the entry leads to the slot, so the claim is that of the record and never of a successor
/// in the same slot: recovery may free it at any later time.
pub fn settle(plane: &Plane, entry: &Entry<'_>, from: State) -> Option<(State, Option<Claim>)> {
    loop {
        let state = entry.state();
        if state.moved(from.location()) != from && !broken::is(Twin::CommitsUnseen) {
            return None;
        }
        let location = state.location();
        let stamp = state.has_record().then(|| stamp_of(plane, location)).flatten();
        let stamp = stamp.map(|stamp| stamp.load(Ordering::SeqCst));
        if State(entry.state_word().load(Ordering::SeqCst)) == state {
            return Some((state, stamp.map(|stamp| Claim { location, stamp })));
        }
    }
}

/// Looks at what an entry stands for, if it still belongs to `digest`.
///
/// # Errors
///
/// `Corrupt` when the record is not one of this entry although nobody changed it.
pub fn look(plane: &Plane, entry: &Entry<'_>, digest: Digest, with_payload: bool, tries: usize) -> Result<Look> {
    for _ in 0..tries {
        let state = entry.state();
        if state.kind() == Kind::Free || entry.digest() != digest {
            return Ok(Look::Elsewhere);
        }
        if !state.has_record() {
            // The digest was read after the state; if the state is still the same, they belong together.
            fence(Ordering::Acquire);
            if entry.state() == state {
                return Ok(Look::Bare(state));
            }
            continue;
        }
        let location = state.location();
        if with_payload {
            plane.prefetch_data(location);
        }
        let header = Header::read(plane, location);
        let mut payload = Vec::new();
        let copied = header.is_some_and(|header| !with_payload || copy(plane, location, &header, &mut payload));
        // Overrides are read before the state is looked at again, so they are not older than a later commit.
        let touched = Override(entry.touched().load(Ordering::Relaxed));
        let moved_end = Override(entry.ends().load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let same = entry.state_word().load(Ordering::Relaxed) == state.0 || broken::is(Twin::ReadsOnce);
        let Some(header) = header.filter(|header| same && unchanged(plane, location, header)) else {
            if same && header.is_none() {
                return Err(corrupt());
            }
            continue;
        };
        if !copied || header.entry != entry.number {
            return Err(corrupt());
        }
        let ends = moved_end.applies_to(state).map_or(header.ends, Some);
        let expires = touched.applies_to(state).unwrap_or(header.expires);
        let expires = ends.map_or(expires, |ends| ends.min(expires));
        return Ok(Look::Record(Snapshot { state, header, expires, ends, payload }));
    }
    Ok(Look::Restless)
}

/// Whether the slot was not reused since the header was read. The caller has fenced.
fn unchanged(plane: &Plane, location: Location, header: &Header) -> bool {
    header.stamp != 0 && plane.data.word(location.offset()).load(Ordering::Relaxed) == header.stamp
}

/// Copies the payload; false when what the header says cannot be.
fn copy(plane: &Plane, location: Location, header: &Header, payload: &mut Vec<u8>) -> bool {
    let room = location.room() - HEADER_BYTES;
    if header.stored_bytes() > room || header.payload_bytes > PAYLOAD_BYTES_MAX {
        return false;
    }
    if header.form == PLAIN {
        plane.data.read(location.offset() + HEADER_BYTES, header.payload_bytes as usize, payload);
        return true;
    }
    let mut left = header.payload_bytes;
    for chunk in chunks(plane, location, header) {
        let length = left.min(CHUNK_BYTES);
        if !plane.may_read(chunk.location) || length > chunk.location.room() - HEADER_BYTES {
            return false;
        }
        plane.data.read(chunk.location.offset() + HEADER_BYTES, length as usize, payload);
        left -= length;
    }
    left == 0
}

fn too_large() -> Error {
    let limit = PAYLOAD_BYTES_MAX;
    Error::new(ErrorKind::TooLarge { size: limit + 1, limit }, "the payload needs more chunks than a record can list")
}

pub(crate) fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, "a record in shared memory is not what its entry says")
        .advice("run `sessile verify` on the store; destroying the session makes its id usable again")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use sessile_core::{Clock, Key, Store, Ttl};

    use super::*;

    const FREED: u64 = 0;

    /// A record is replaced by someone who remembers an earlier stamp at its place; returns what is left there.
    fn stamp_after(published: bool, replaced: bool) -> u64 {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let engine = crate::open(&folder.path().join("store"), Clock::system(), crate::Options::default()).unwrap();
        let key = Key::session("moved").unwrap();
        engine.create(&key, b"payload", Ttl::sliding(std::time::Duration::from_secs(60)).unwrap()).unwrap();
        let (plane, me) = (&engine.plane, engine.me().unwrap());
        let entry = plane.entry(crate::index::find(plane, engine.digest(&key)).unwrap());
        let (state, old) = settle(plane, &entry, entry.state()).unwrap();
        let lane = Lane::enter(plane, me);
        lane.intend(entry.number, old);
        let header = Header::read(plane, state.location()).unwrap();
        let new = write(&lane, &me.rotations, header, b"payload").unwrap();
        assert!(entry.replace_state(state, state.moved(new.location)));
        if published {
            lane.published();
        }
        if replaced {
            entry.replace_state(entry.state(), entry.state().moved(state.location()));
        }
        discard_replaced(plane, &entry, Claim { stamp: new.stamp + 1, ..new });
        let left = stamp_of(plane, new.location).unwrap().load(Ordering::SeqCst);
        if left == new.stamp { left } else { FREED }
    }

    #[test]
    fn a_record_that_came_back_to_its_old_place_is_freed_by_who_replaces_it() {
        assert_eq!(stamp_after(true, true), FREED);
    }

    #[test]
    fn a_record_is_left_to_its_mover_until_he_says_that_it_is_published() {
        assert_ne!(stamp_after(false, true), FREED);
    }

    #[test]
    fn a_record_that_its_entry_leads_to_is_never_freed() {
        assert_ne!(stamp_after(true, false), FREED);
    }
}
