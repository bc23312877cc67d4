//! Records as they are written to a disk: the log line before each header, and its checksum.
//!
//! ```text
//! word  0                              1 2     3         4      5        6           7
//!       check 32 | kind 8 | granules   digest  sequence  fence  longest  generation  checksum
//! ```
//!
//! Invariant: a checksum is good for one place in one generation of one store. The check of the
//! line alone tells of which session a damaged record is. DESIGN.md, "On a disk".

use sessile_core::{Result, Timestamp};
use xxhash_rust::xxh3::xxh3_64_with_secret;

use super::header::RecordHeader;
use super::lane::SlotClaim;
use super::segment::record_location;
use crate::memory::*;

type LineWords = [u64; LINE_WORDS];
/// A rebuild adds this part of the time to live, for touches that were not logged.
const GRANT_PART: u64 = 16;
pub const RECORD_HEAD_BYTES: u64 = LOG_LINE_BYTES + HEADER_BYTES;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    Live,
    Regenerated,
    Chunk,
    /// Note: the record of this sequence has another expiry.
    Touch,
    /// Note: destroyed. Last, so that it wins over a record of the same sequence.
    Tombstone,
}

impl RecordKind {
    fn from_code(code: u64) -> Option<RecordKind> {
        use RecordKind::{Chunk, Live, Regenerated, Tombstone, Touch};
        [Live, Regenerated, Chunk, Touch, Tombstone].get(code as usize).copied()
    }

    pub fn of_entry(kind: EntryKind) -> RecordKind {
        if kind == EntryKind::Regenerated { RecordKind::Regenerated } else { RecordKind::Live }
    }

    pub fn is_note(self) -> bool {
        matches!(self, RecordKind::Touch | RecordKind::Tombstone)
    }
}

/// The place of a record among all records of its digest.
#[derive(Clone, Copy)]
pub struct Lineage {
    pub digest: KeyDigest,
    /// One more than that of the record it replaces.
    pub sequence: u64,
    pub fence: u64,
    /// When everything on the disk about this digest has expired.
    pub longest: Timestamp,
}

#[derive(Clone, Copy)]
pub struct LogLine {
    check: u64,
    pub kind: RecordKind,
    pub granules: u64,
    pub lineage: Lineage,
    pub generation: u64,
    checksum: u64,
}

impl LogLine {
    /// `None` unless a line was written like this and at this place.
    pub fn from_words(log: &DiskLog, words: LineWords, location: Location) -> Option<LogLine> {
        let [first, digest0, digest1, sequence, fence, longest, generation, checksum] = words;
        let kind = RecordKind::from_code(first >> 32 & 0xff)?;
        let digest = KeyDigest(digest0, digest1);
        let lineage = Lineage { digest, sequence, fence, longest: Timestamp::from_ms(longest) };
        let (check, granules) = (first & 0xffff_ffff, first >> 40);
        let line = LogLine { check, kind, granules, lineage, generation, checksum };
        let is_checked =
            check == line_check(log, words, location) || mutated(Mutation::CheckUnseen);
        (granules > 0 && is_checked).then_some(line)
    }

    fn to_words(self) -> LineWords {
        let Lineage { digest, sequence, fence, longest } = self.lineage;
        let first = self.check | (self.kind as u64) << 32 | self.granules << 40;
        let (generation, checksum) = (self.generation, self.checksum);
        [first, digest.0, digest.1, sequence, fence, longest.as_ms(), generation, checksum]
    }

    pub fn is_valid(
        self,
        log: &DiskLog,
        header: &RecordHeader,
        location: Location,
        body: &[u8],
    ) -> bool {
        checksum(log, self.to_words(), header.to_words(), location, body) == self.checksum
    }
}

/// Of the line up to the checksum, and the location.
fn line_check(log: &DiskLog, line: LineWords, location: Location) -> u64 {
    let [l0, l1, l2, l3, l4, l5, l6, _] = line;
    let words = [l0 >> 32, l1, l2, l3, l4, l5, l6, location.0].map(u64::to_le_bytes);
    xxh3_64_with_secret(words.as_flattened(), &log.secret) & 0xffff_ffff
}

/// Of the line up to the checksum, the header, the location, and the hash of the body.
fn checksum(
    log: &DiskLog,
    line: LineWords,
    header: LineWords,
    location: Location,
    body: &[u8],
) -> u64 {
    let [l0, l1, l2, l3, l4, l5, l6, _] = line;
    let [h0, h1, h2, h3, h4, h5, h6, h7] = header;
    let body = xxh3_64_with_secret(body, &log.secret);
    let words = [l0, l1, l2, l3, l4, l5, l6, h0, h1, h2, h3, h4, h5, h6, h7, location.0, body];
    xxh3_64_with_secret(words.map(u64::to_le_bytes).as_flattened(), &log.secret)
}

pub fn granules(stored_bytes: u64) -> u64 {
    (RECORD_HEAD_BYTES + stored_bytes).div_ceil(GRANULE_BYTES)
}

#[derive(Clone, Copy)]
pub struct LogRecord<'a> {
    pub kind: RecordKind,
    pub lineage: Lineage,
    pub header: &'a RecordHeader,
    pub body: &'a [u8],
}

/// A record as it is written.
pub struct EncodedRecord<'a> {
    pub offset: u64,
    pub head: [[u8; 8]; 2 * LINE_WORDS],
    pub body: &'a [u8],
}

impl<'a> LogRecord<'a> {
    pub fn encode(&self, plane: &Plane, log: &DiskLog, claim: SlotClaim) -> EncodedRecord<'a> {
        let LogRecord { kind, lineage, header, body } = *self;
        let generation = plane.segment_state(claim.location.segment()).generation();
        let granules = granules(body.len() as u64);
        let mut line = LogLine { check: 0, kind, granules, lineage, generation, checksum: 0 };
        line.check = line_check(log, line.to_words(), claim.location);
        let header = RecordHeader { stamp: claim.stamp, ..*header }.to_words();
        line.checksum = checksum(log, line.to_words(), header, claim.location, body);
        EncodedRecord::new(line.to_words(), header, claim, body)
    }
}

impl<'a> EncodedRecord<'a> {
    fn new(line: LineWords, header: LineWords, claim: SlotClaim, body: &'a [u8]) -> Self {
        let mut head = [[0; 8]; 2 * LINE_WORDS];
        head.iter_mut()
            .zip(line.into_iter().chain(header))
            .for_each(|(to, word)| *to = word.to_le_bytes());
        EncodedRecord { offset: claim.location.offset() - LOG_LINE_BYTES, head, body }
    }

    /// Without a line, for an incomplete list: only this process and recovery read it.
    pub fn unfinished(claim: SlotClaim, header: &RecordHeader, body: &'a [u8]) -> Self {
        let header = RecordHeader { stamp: claim.stamp, ..*header }.to_words();
        EncodedRecord::new([0; LINE_WORDS], header, claim, body)
    }

    pub fn given_up(mut self) -> Self {
        self.head[0] = [0; 8];
        self
    }

    /// After an error nothing may lead to the record.
    pub fn write(&self, log: &DiskLog) -> Result<()> {
        log.file.write(&[self.head.as_flattened(), self.body].concat(), self.offset)
    }
}

pub struct ParsedRecord<'a> {
    pub line: LogLine,
    pub header: RecordHeader,
    pub location: Location,
    /// `None`: header or body are not what was written.
    pub body: Option<&'a [u8]>,
}

/// Every granule is tried: a writer may have died anywhere, and an older record may end there.
pub fn parse_segment<'a>(
    log: &'a DiskLog,
    bytes: &'a [u8],
    segment: u64,
) -> impl Iterator<Item = ParsedRecord<'a>> {
    (0..slots(LOG)).filter_map(move |granule| {
        let location = record_location(segment, LOG, granule);
        parse_record(log, bytes, (granule * GRANULE_BYTES) as usize, location)
    })
}

fn parse_record<'a>(
    log: &DiskLog,
    bytes: &'a [u8],
    start: usize,
    location: Location,
) -> Option<ParsedRecord<'a>> {
    let (line, rest) = bytes.get(start..)?.split_at_checked(LOG_LINE_BYTES as usize)?;
    let line = LogLine::from_words(log, words_of(line)?, location)?;
    let (header, rest) = rest.split_at_checked(HEADER_BYTES as usize)?;
    let header = RecordHeader::from_words(words_of(header)?);
    let stored = header.stored_bytes();
    let body = usize::try_from(stored).ok().and_then(|stored| rest.get(..stored));
    let body = body.filter(|body| {
        line.granules == granules(stored)
            && (line.is_valid(log, &header, location, body) || mutated(Mutation::ChecksumUnseen))
    });
    Some(ParsedRecord { line, header, location, body })
}

fn words_of(bytes: &[u8]) -> Option<LineWords> {
    let (chunks, []) = bytes.as_chunks::<8>() else { return None };
    let mut words = [0; LINE_WORDS];
    words.iter_mut().zip(chunks).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    (chunks.len() == LINE_WORDS).then_some(words)
}

pub fn granted(written: Timestamp, expires: Timestamp) -> Timestamp {
    let ttl = expires.as_ms().saturating_sub(written.as_ms());
    Timestamp::from_ms(expires.as_ms().saturating_add(ttl / GRANT_PART))
}

/// The distance between the lines of the grid at which a touch is logged.
pub fn grid_ms(now: Timestamp, expires: Timestamp) -> u64 {
    (expires.as_ms().saturating_sub(now.as_ms()) / GRANT_PART).max(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use sessile_core::{Clock, Key, Store, Ttl};

    use super::*;

    #[test]
    fn a_record_is_valid_only_where_and_as_it_was_written() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let path = folder.path().join("store");
        let engine = crate::open(&path, Clock::system(), &crate::EngineOptions::default()).unwrap();
        let ttl = Ttl::sliding(std::time::Duration::from_secs(60)).unwrap();
        engine.create(&Key::session("one").unwrap(), &[7; 300], ttl).unwrap();
        engine.sync().unwrap();
        let log = engine.plane.log.as_ref().unwrap();
        let mut bytes = vec![0; 4_096];
        log.file.read(&mut bytes, 0).unwrap();
        let place = record_location(0, LOG, 0);
        let length = parse_record(log, &bytes, 0, place).unwrap().body.unwrap().len();
        assert_eq!(length, 300);
        let elsewhere = record_location(0, LOG, 1);
        assert!(parse_record(log, &bytes, 0, elsewhere).is_none(), "valid at another place");
        for at in 0..RECORD_HEAD_BYTES as usize + length {
            for bit in [1, 128] {
                let mut bytes = bytes.clone();
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
                let parsed = parse_record(log, &bytes, 0, place);
                let is_whole = parsed.as_ref().is_some_and(|parsed| parsed.body.is_some());
                assert!(!is_whole, "valid with byte {at} changed");
                // The checksum itself is not under the check of the line.
                let is_told = parsed.is_some();
                assert_eq!(is_told, at as u64 >= LOG_LINE_BYTES - 8, "byte {at}");
            }
        }
        drop(engine);
        crate::power_tests::remove_control(&path);
    }
}
