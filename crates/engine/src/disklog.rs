//! Records on a disk: the line before each header, its checksum, and notes.
//!
//! ```text
//! word  0                              1 2     3         4      5        6           7
//!       magic 32 | kind 8 | granules   digest  sequence  fence  longest  generation  checksum
//! ```
//!
//! Invariants: a line is written together with what it describes and is believed only with a valid checksum, which
//! is good for one place in one generation of one store; of two records of a digest the one with the greater
//! sequence is the later; then a tombstone is, then what has the greater fence. docs/engine.md, "On a disk".

use std::os::fd::OwnedFd;

use sessile_core::{Result, Timestamp};
use xxhash_rust::xxh3::xxh3_64_with_secret;

use crate::disk::DataFile;
use crate::flush;
use crate::lane::Claim;
use crate::layout::{GRANULE_BYTES, SEGMENT_BYTES};
use crate::map::{LINE_WORDS, Region};
use crate::plane::{Digest, Entry, Plane};
use crate::process::Process;
use crate::record::{HEADER_BYTES, Header};
use crate::staging::{self, read_at};
use crate::sync::Ordering;
use crate::words::{Kind, Location, Override, State};

/// Bytes of a line.
pub const LINE_BYTES: u64 = 64;
const MAGIC: u64 = u32::from_le_bytes(*b"SLG1") as u64;
const SECRET_BYTES: usize = 192;
/// The words of a line or a header.
pub type Words = [u64; LINE_WORDS];
const SECRET_CONTEXT: &str = "sessile 2026 checksum of records in the log";
/// The part of a time to live that a rebuild adds to each expiry, for touches that were not logged.
const GRANT_PART: u64 = 16;

/// What is special to a store on a disk.
pub struct Log {
    pub file: Box<dyn DataFile>,
    /// The list of bins, to append to.
    bins: OwnedFd,
    /// Copies of the segments that are being appended to; none where a write to a mapped file may need room.
    pub stages: Option<Region>,
    secret: [u8; SECRET_BYTES],
    /// How old the oldest unsynced byte may become, in milliseconds; 0: nothing is ever synced.
    pub interval_ms: u64,
}

impl Log {
    pub fn new(
        file: Box<dyn DataFile>,
        bins: OwnedFd,
        stages: Option<Region>,
        store_secret: &[u8; 32],
        interval_ms: u64,
    ) -> Log {
        let mut secret = [0; SECRET_BYTES];
        blake3::Hasher::new_derive_key(SECRET_CONTEXT).update(store_secret).finalize_xof().fill(&mut secret);
        Log { file, bins, stages, secret, interval_ms }
    }

    /// Writes a bin down before its number is used.
    ///
    /// # Errors
    ///
    /// `Full` or `Io`.
    pub fn keep_bin(&self, number: u64, name: &str) -> Result<()> {
        // A line begins on one of its own, also after one that was torn.
        let line = format!("\n{number} {name}\n");
        let written = rustix::io::write(&self.bins, line.as_bytes());
        let whole = |bytes| if bytes == line.len() { Ok(()) } else { Err(rustix::io::Errno::NOSPC) };
        let kept = written.and_then(whole).and_then(|()| rustix::fs::fdatasync(&self.bins));
        kept.map_err(|errno| crate::directory::failed("a bin cannot be written down", errno))
    }

    /// The checksum of a record at a place: the line up to the checksum, the header, the place, what follows.
    pub fn checksum(&self, line: Words, header: Words, location: Location, rest: &[u8]) -> u64 {
        let [line @ .., _] = line;
        let [l0, l1, l2, l3, l4, l5, l6] = line;
        let [h0, h1, h2, h3, h4, h5, h6, h7] = header;
        let rest = xxh3_64_with_secret(rest, &self.secret);
        let words = [l0, l1, l2, l3, l4, l5, l6, h0, h1, h2, h3, h4, h5, h6, h7, location.0, rest];
        xxh3_64_with_secret(words.map(u64::to_le_bytes).as_flattened(), &self.secret)
    }
}

/// What a line says its record is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Says {
    Live,
    Regenerated,
    /// A piece of a large payload.
    Chunk,
    /// Note: the record of this sequence has another expiry.
    Touch,
    /// Note: destroyed. Last, so that it wins over what has the same sequence.
    Tombstone,
}

impl Says {
    fn of(number: u64) -> Option<Says> {
        [Says::Live, Says::Regenerated, Says::Chunk, Says::Touch, Says::Tombstone].get(number as usize).copied()
    }

    /// What a record is written as.
    pub fn of_state(kind: Kind) -> Says {
        if kind == Kind::Regenerated { Says::Regenerated } else { Says::Live }
    }

    pub fn is_note(self) -> bool {
        matches!(self, Says::Touch | Says::Tombstone)
    }
}

/// What a record replaces, and so where it stands among all records of its digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    pub digest: Digest,
    pub sequence: u64,
    pub fence: u64,
    pub longest: Timestamp,
}

/// A line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    pub says: Says,
    pub granules: u64,
    pub origin: Origin,
    pub generation: u64,
    pub checksum: u64,
}

impl Line {
    pub fn from_words(words: [u64; LINE_WORDS]) -> Option<Line> {
        let [first, digest0, digest1, sequence, fence, longest, generation, checksum] = words;
        let says = Says::of(first >> 32 & 0xff)?;
        let digest = Digest(digest0, digest1);
        let origin = Origin { digest, sequence, fence, longest: Timestamp::from_ms(longest) };
        (first & 0xffff_ffff == MAGIC).then_some(Line { says, granules: first >> 40, origin, generation, checksum })
    }

    fn to_words(self) -> [u64; LINE_WORDS] {
        let Origin { digest, sequence, fence, longest } = self.origin;
        let first = MAGIC | (self.says as u64) << 32 | self.granules << 40;
        [first, digest.0, digest.1, sequence, fence, longest.as_ms(), self.generation, self.checksum]
    }

    /// The line of the record at a location, which the caller pins or looks at again.
    pub fn read(plane: &Plane, location: Location) -> Option<Line> {
        if !plane.may_read(location) || location.within() < LINE_BYTES {
            return None;
        }
        read_at(plane, location.offset() - LINE_BYTES, |region, offset| {
            let words = region.line(offset);
            Line::from_words(std::array::from_fn(|at| words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))))
        })
    }
}

/// Granules of a record with so many bytes after its header.
pub fn granules(stored_bytes: u64) -> u64 {
    (LINE_BYTES + HEADER_BYTES + stored_bytes).div_ceil(GRANULE_BYTES)
}

/// Bytes of line and header.
pub const RECORD_HEAD_BYTES: u64 = LINE_BYTES + HEADER_BYTES;

/// What a record in the log says.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub says: Says,
    pub origin: Origin,
    pub head: &'a Header,
    /// Payload, or list of chunks.
    pub rest: &'a [u8],
}

/// A record as it is written: at this offset of the file, line and header, the rest.
pub struct Record<'a> {
    pub offset: u64,
    pub head: [[u8; 8]; 2 * LINE_WORDS],
    pub rest: &'a [u8],
}

impl Text<'_> {
    /// As it is written into what was claimed for it.
    pub fn record(&self, plane: &Plane, log: &Log, claim: Claim) -> Record<'_> {
        let Text { says, origin, head, rest } = *self;
        let generation = crate::segment::state(plane, claim.location.segment()).generation();
        let mut line = Line { says, granules: granules(rest.len() as u64), origin, generation, checksum: 0 };
        let header = Header { stamp: claim.stamp, ..*head }.to_words();
        line.checksum = log.checksum(line.to_words(), header, claim.location, rest);
        let mut bytes = [[0; 8]; 2 * LINE_WORDS];
        bytes.iter_mut().zip(line.to_words().into_iter().chain(header)).for_each(|(to, word)| *to = word.to_le_bytes());
        Record { offset: claim.location.offset() - LINE_BYTES, head: bytes, rest }
    }
}

impl Record<'_> {
    /// Writes it to the file.
    ///
    /// # Errors
    ///
    /// Those of the file; nothing may lead to the record then.
    pub fn write(&self, log: &Log) -> Result<()> {
        log.file.write(&[self.head.as_flattened(), self.rest].concat(), self.offset)
    }
}

/// Writes a record into what was claimed for it.
///
/// # Errors
///
/// Those of the file; nothing may lead to the record then.
pub fn put(plane: &Plane, log: &Log, claim: Claim, text: &Text<'_>) -> Result<()> {
    text.record(plane, log, claim).write(log)?;
    flush::note_write(plane);
    Ok(())
}

/// The same without a line, for a list that is not complete: only this process and recovery look at it.
///
/// # Errors
///
/// Those of the file.
pub fn put_unfinished(plane: &Plane, log: &Log, claim: Claim, head: &Header, rest: &[u8]) -> Result<()> {
    let mut bytes = vec![0; LINE_BYTES as usize];
    let header = Header { stamp: claim.stamp, ..*head }.to_words();
    bytes.extend_from_slice(header.map(u64::to_le_bytes).as_flattened());
    bytes.extend_from_slice(rest);
    log.file.write(&bytes, claim.location.offset() - LINE_BYTES)?;
    flush::note_write(plane);
    Ok(())
}

/// Takes the magic of a record away that was written and not published, so that no rebuild believes it.
pub fn invalidate(plane: &Plane, me: &Process, location: Location) {
    let Some(log) = &plane.log else { return };
    if location.within() >= LINE_BYTES
        && staging::invalidate(plane, me, location.offset() - LINE_BYTES)
        && let Err(error) = log.file.write(&[0; 8], location.offset() - LINE_BYTES)
    {
        log::warn!("a record that was given up cannot be marked so: {error:#}");
    }
}

/// Whether a record that was read, and found unchanged afterwards, has the checksum that it was written with.
pub fn is_valid(log: &Log, line: Line, header: &Header, location: Location, rest: &[u8]) -> bool {
    log.checksum(line.to_words(), header.to_words(), location, rest) == line.checksum
}

/// The valid record at the start of some bytes of the log, and its length.
pub fn parse(log: &Log, bytes: &[u8], place: Location) -> Option<(Line, Header, usize)> {
    let (line_bytes, rest) = bytes.split_at_checked(LINE_BYTES as usize)?;
    let line = Line::from_words(words_of(line_bytes)?)?;
    let (header_bytes, rest) = rest.split_at_checked(HEADER_BYTES as usize)?;
    let header = Header::from_words(words_of(header_bytes)?);
    let stored = usize::try_from(header.stored_bytes()).ok()?;
    let stored_bytes = rest.get(..stored)?;
    let valid = line.granules == granules(stored as u64) && is_valid(log, line, &header, place, stored_bytes);
    valid.then_some((line, header, (LINE_BYTES + HEADER_BYTES) as usize + stored))
}

fn words_of(bytes: &[u8]) -> Option<[u64; LINE_WORDS]> {
    let (chunks, []) = bytes.as_chunks::<8>() else { return None };
    let mut words = [0; LINE_WORDS];
    words.iter_mut().zip(chunks).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    (chunks.len() == LINE_WORDS).then_some(words)
}

/// What comes after the present state of an entry. Reads the record, so the state must be swapped from `present`
/// for the answer to count. The fence is that of the holder, if there is one: whoever takes a lock raises it.
pub fn origin(plane: &Plane, entry: &Entry<'_>, present: State) -> Origin {
    let digest = entry.digest();
    let last = entry.fence().load(Ordering::Relaxed);
    let fence = last;
    let due = Timestamp::from_ms(entry.due().load(Ordering::Relaxed));
    if !present.has_record() {
        let buried = if present.kind() == Kind::Destroyed { present.forgotten_at() } else { Timestamp::ZERO };
        return Origin { digest, sequence: last + 1, fence, longest: buried.max(due) };
    }
    let line = Line::read(plane, present.location());
    let (sequence, longest) = line.map_or((last, Timestamp::ZERO), |line| (line.origin.sequence, line.origin.longest));
    // What a touch has logged counts too; where one has moved the expiry back, the due time remembers the later one.
    let touched = Override(entry.touched().load(Ordering::Relaxed)).applies_to(present);
    let touched = touched.map_or(Timestamp::ZERO, |expires| granted(plane.now(), expires));
    Origin { digest, sequence: sequence + 1, fence, longest: longest.max(touched).max(due) }
}

/// An expiry as a rebuild would have it at most.
pub fn granted(written: Timestamp, expires: Timestamp) -> Timestamp {
    let ttl = expires.as_ms().saturating_sub(written.as_ms());
    Timestamp::from_ms(expires.as_ms().saturating_add(ttl / GRANT_PART))
}

/// The length of the grid whose lines a touch is logged at.
pub fn grid_ms(now: Timestamp, expires: Timestamp) -> u64 {
    (expires.as_ms().saturating_sub(now.as_ms()) / GRANT_PART).max(1)
}

const _: () = assert!(SEGMENT_BYTES.is_multiple_of(GRANULE_BYTES), "a segment is whole granules");

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use sessile_core::{Clock, Key, Store, Ttl};

    use super::*;

    #[test]
    fn a_record_is_valid_only_where_and_as_it_was_written() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let path = folder.path().join("store");
        let engine = crate::open(&path, Clock::system(), &crate::Options::default()).unwrap();
        let ttl = Ttl::sliding(std::time::Duration::from_secs(60)).unwrap();
        engine.create(&Key::session("one").unwrap(), &[7; 300], ttl).unwrap();
        engine.sync().unwrap(); // out of its stage
        let log = engine.plane.log.as_ref().unwrap();
        let mut bytes = vec![0; 4_096];
        log.file.read(&mut bytes, 0).unwrap();
        let place = crate::segment::location(0, crate::class::LOG, 0);
        let (.., length) = parse(log, &bytes, place).unwrap();
        assert_eq!(length, (LINE_BYTES + HEADER_BYTES) as usize + 300);
        let elsewhere = crate::segment::location(0, crate::class::LOG, 1);
        assert!(parse(log, &bytes, elsewhere).is_none(), "valid at another place");
        for at in 0..length {
            for bit in [1, 128] {
                let mut bytes = bytes.clone();
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
                assert!(parse(log, &bytes, place).is_none(), "valid with byte {at} changed");
            }
        }
        drop(engine);
        crate::power::remove_control(&path);
    }
}
