//! Records: what lies in a slot, and how it is read while others may replace it.
//!
//! ```text
//! word  0      1        2        3        4     5        6                          7      8 ...
//!       stamp  created  written  expires  ends  version  bytes 40 | bin 8 | form 8  entry  payload or list of chunks
//! ```
//!
//! Invariants: a record is complete before an entry leads to it and never changes afterwards; its first word is zero
//! while it is written and the stamp of its slot when it is complete. A reader trusts what it has copied only if entry
//! and first word are still the same afterwards. docs/engine.md, "Records".

use sessile_core::{Error, ErrorKind, Result, Timestamp, spare};

use crate::broken::{self, Twin};
use crate::class::LARGEST;
use crate::disklog::{LINE_BYTES, Line, is_valid};
use crate::hint::Hint;
use crate::lane::Claim;
use crate::map::LINE_WORDS;
use crate::plane::{Digest, Entry, Plane};
use crate::segment::stamp_of;
use crate::staging::read_at;
use crate::sync::{Ordering, fence};
use crate::words::{Kind, Location, Override, State};

/// Bytes before the payload.
pub const HEADER_BYTES: u64 = 64;
/// Payload of one chunk of a large record.
pub const CHUNK_BYTES: u64 = LARGEST - HEADER_BYTES - LINE_BYTES;
/// A chunk in the list: location and stamp.
pub const LISTED_BYTES: u64 = 16;
/// The largest payload that the list of chunks can lead to.
pub const PAYLOAD_BYTES_MAX: u64 = CHUNK_BYTES / LISTED_BYTES * CHUNK_BYTES;

pub const PLAIN: u64 = 0;
pub const CHUNKED: u64 = 1;
/// The form of a chunk itself: nothing leads to it but the list of its record.
pub const CHUNK: u64 = 2;

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

/// How much of a record is asked for.
#[derive(Clone, Copy)]
pub enum Part {
    Header,
    /// With its payload. What a hint says has been asked for, and gets its room while it is on the way.
    Whole(Hint),
}

/// All of a record of which nothing is known yet.
pub const WHOLE: Part = Part::Whole(Hint::NONE);

impl Part {
    pub fn has_payload(self) -> bool {
        matches!(self, Part::Whole(_))
    }
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
    #[inline(always)]
    pub fn read(plane: &Plane, location: Location) -> Option<Header> {
        if !plane.may_read(location) {
            return None;
        }
        Some(read_at(plane, location.offset(), |region, offset| {
            let [first, rest @ ..] = region.line(offset);
            let mut words = [0; LINE_WORDS];
            // Acquire: the words below are not older than the stamp.
            words[0] = first.load(Ordering::Acquire);
            words.iter_mut().skip(1).zip(rest).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
            Header::from_words(words)
        }))
    }

    pub fn from_words(words: [u64; LINE_WORDS]) -> Header {
        let [stamp, created, written, expires, ends, version, packed, entry] = words;
        Header {
            stamp,
            created: Timestamp::from_ms(created),
            written: Timestamp::from_ms(written),
            expires: Timestamp::from_ms(expires),
            ends: (ends != u64::MAX).then_some(Timestamp::from_ms(ends)),
            version,
            payload_bytes: packed & 0xff_ffff_ffff,
            bin: packed >> 40 & 0xff,
            entry,
            form: packed >> 48,
        }
    }

    pub fn to_words(self) -> [u64; LINE_WORDS] {
        let Header { stamp, created, written, expires, ends, version, payload_bytes, bin, entry, form } = self;
        let ends = ends.map_or(u64::MAX, Timestamp::as_ms);
        let packed = payload_bytes | bin << 40 | form << 48;
        [stamp, created.as_ms(), written.as_ms(), expires.as_ms(), ends, version, packed, entry]
    }

    /// Whether a slot holds a record in one piece, which can be moved: chunks and their lists stay where they are.
    pub fn is_movable(&self) -> bool {
        self.form == PLAIN
    }

    /// Bytes in the slot after the header.
    pub fn stored_bytes(&self) -> u64 {
        if self.form == CHUNKED { self.payload_bytes.div_ceil(CHUNK_BYTES) * LISTED_BYTES } else { self.payload_bytes }
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
#[inline(always)] // what it returns is large, and moving it from call to call was a twentieth of a peek
pub fn look(plane: &Plane, entry: &Entry<'_>, digest: Digest, part: Part, tries: usize) -> Result<Look> {
    let with_payload = part.has_payload();
    let mut payload = match part {
        Part::Header => Vec::new(),
        Part::Whole(hint) => spare::take(hint.room()),
    };
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
        if let Part::Whole(hint) = part
            && !hint.says(location)
        {
            plane.prefetch_data(location);
        }
        let header = Header::read(plane, location);
        let line = plane.log.as_ref().and_then(|_| Line::read(plane, location));
        payload.clear();
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
        let belongs = match (&plane.log, line) {
            (None, _) => header.entry == entry.number,
            (Some(_), None) => false,
            (Some(log), Some(line)) => {
                let whole = with_payload && header.form == PLAIN;
                line.origin.digest == digest && (!whole || is_valid(log, line, &header, location, &payload))
            }
        };
        if !copied || !belongs {
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
    let stamp = || read_at(plane, location.offset(), |region, offset| region.word(offset).load(Ordering::Relaxed));
    header.stamp != 0 && stamp() == header.stamp
}

/// Copies the payload; false when what the header says cannot be.
#[inline(always)]
fn copy(plane: &Plane, location: Location, header: &Header, payload: &mut Vec<u8>) -> bool {
    let room = location.room() - HEADER_BYTES;
    if header.stored_bytes() > room || header.payload_bytes > PAYLOAD_BYTES_MAX {
        return false;
    }
    if header.form == PLAIN {
        read_at(plane, location.offset() + HEADER_BYTES, |region, offset| {
            payload.clear();
            region.read(offset, header.payload_bytes as usize, payload);
        });
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
        if let Some(log) = &plane.log {
            let piece = payload.len().checked_sub(length as usize).and_then(|start| payload.get(start..));
            let read = Line::read(plane, chunk.location).zip(Header::read(plane, chunk.location)).zip(piece);
            if !read.is_some_and(|((line, header), piece)| is_valid(log, line, &header, chunk.location, piece)) {
                return false;
            }
        }
    }
    left == 0
}

pub(crate) fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, "a record is not what its entry says, or was damaged")
        .advice("run `sessile verify` on the store; destroying the session makes its id usable again")
}
