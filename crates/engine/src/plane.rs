//! The shared memory of one store: its files, mapped, and where things lie in them.
//!
//! It knows addresses and nothing about protocols. Numbers that come from shared memory are checked here before
//! they become addresses.

use sessile_core::{Clock, Timestamp};

use crate::disklog::Log;
use crate::layout::{
    BLOCK_BYTES, BLOCK_DUE_AT, BLOCK_ENTRIES_AT, BLOCKS_MAX, BUCKET_BYTES, ENTRIES_OF_BLOCK, LANES_AT, PROCESS_BYTES,
    PROCESSES, SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SEGMENTS, STAMPS_BYTES, header,
};
use crate::map::{LINE_BYTES, LINE_WORDS, Region};
use crate::sync::{Ordering, Word};
use crate::words::{Location, State};

/// Lines of a header and 1,500 bytes.
const USUAL_LINES: u64 = 25;

/// The regions, and what every operation needs to know.
pub struct Plane {
    pub control: Region,
    pub entries: Region,
    pub index: Region,
    pub stamps: Region,
    pub data: Region,
    /// On a disk: the file of the data, which is mapped for reading only, and how to write it.
    pub log: Option<Log>,
    pub clock: Clock,
    /// The key of the digests of ids.
    pub secret: [u8; 32],
    /// Bytes of the file system, for the default size limit.
    pub file_system_bytes: u64,
}

/// An entry: one session, in one cache line. docs/engine.md, "Entry".
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub number: u64,
    words: &'a [Word; LINE_WORDS],
}

/// The full digest of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(pub u64, pub u64);

impl<'a> Entry<'a> {
    pub fn digest(&self) -> Digest {
        Digest(self.words[0].load(Ordering::Relaxed), self.words[1].load(Ordering::Relaxed))
    }

    /// Only by who took a free entry, before the index leads to it.
    pub fn set_digest(&self, digest: Digest) {
        self.words[0].store(digest.0, Ordering::Relaxed);
        self.words[1].store(digest.1, Ordering::Relaxed);
    }

    pub fn lock(&self) -> &'a Word {
        &self.words[2]
    }

    pub fn state_word(&self) -> &'a Word {
        &self.words[3]
    }

    /// Acquire: pairs with the compare-and-swap that published it, so that the record is seen complete.
    pub fn state(&self) -> State {
        State(self.words[3].load(Ordering::Acquire))
    }

    pub fn replace_state(&self, old: State, new: State) -> bool {
        self.words[3].cas(old.0, new.0)
    }

    /// The override of the expiry.
    pub fn touched(&self) -> &'a Word {
        &self.words[4]
    }

    /// The override of the absolute end.
    pub fn ends(&self) -> &'a Word {
        &self.words[5]
    }

    /// The fence of the latest holder. Written by the holder only.
    pub fn fence(&self) -> &'a Word {
        &self.words[6]
    }

    /// What the due time of this entry says, so that a commit need not look there.
    pub fn due(&self) -> &'a Word {
        &self.words[7]
    }
}

impl Plane {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn header(&self, word: u64) -> &Word {
        self.control.word(word)
    }

    /// How many entries exist.
    pub fn entry_count(&self) -> u64 {
        // Acquire: pairs with the growth that backed the block before it was counted.
        self.header(header::ENTRY_BLOCKS).load(Ordering::Acquire).min(BLOCKS_MAX) * ENTRIES_OF_BLOCK
    }

    /// How many segments exist.
    pub fn segment_count(&self) -> u64 {
        self.header(header::SEGMENTS).load(Ordering::Acquire).min(self.segments_max())
    }

    /// How many segments the mapping of the data has room for.
    pub fn segments_max(&self) -> u64 {
        self.data.bytes() / SEGMENT_BYTES
    }

    fn block_offset(number: u64) -> u64 {
        number / ENTRIES_OF_BLOCK * BLOCK_BYTES
    }

    /// An entry by its number. The caller has it from `entry_count` or from the index.
    pub fn entry(&self, number: u64) -> Entry<'_> {
        let offset = Plane::block_offset(number) + BLOCK_ENTRIES_AT + number % ENTRIES_OF_BLOCK * 64;
        Entry { number, words: self.entries.line(offset) }
    }

    /// Asks for what a commit that replaces this record will touch.
    pub fn prefetch_stamp(&self, location: Location, slot_bytes: u64) {
        self.stamps.prefetch(location.segment() * STAMPS_BYTES + location.within() / slot_bytes * 8);
    }

    /// Asks for all lines of a record of the usual size. The processor would fetch what follows the first ones by
    /// itself, but late, and not beyond a page.
    pub fn prefetch_data(&self, location: Location) {
        self.prefetch_lines(location, USUAL_LINES);
    }

    /// Asks for the first lines of a record, at most for as many as one of the usual size has.
    pub fn prefetch_lines(&self, location: Location, lines: u64) {
        self.data.prefetch_lines(location.offset(), lines.min(USUAL_LINES));
    }

    /// The word of the bitmap of entries in use that has this one, and its bit.
    pub fn used_bit(&self, number: u64) -> (&Word, u64) {
        let at = number % ENTRIES_OF_BLOCK;
        (self.entries.word(Plane::block_offset(number) + at / 64 * 8), 1 << (at % 64))
    }

    /// When an entry must be looked at, in milliseconds of the wall clock. Zero: at once.
    pub fn due(&self, number: u64) -> &Word {
        self.entries.word(Plane::block_offset(number) + BLOCK_DUE_AT + number % ENTRIES_OF_BLOCK * 8)
    }

    pub fn bucket(&self, number: u64) -> &[Word; LINE_WORDS] {
        self.index.line(number * BUCKET_BYTES)
    }

    /// The hints of a bucket: one for each of its cells, at the same place. They lie beside it, so that the one page of
    /// both is looked up once.
    pub fn hints(&self, number: u64) -> &[Word; LINE_WORDS] {
        self.index.line(number * BUCKET_BYTES + LINE_BYTES)
    }

    /// Asks for a bucket and its hints.
    pub fn prefetch_bucket(&self, number: u64) {
        self.index.prefetch(number * BUCKET_BYTES);
        self.index.prefetch(number * BUCKET_BYTES + LINE_BYTES);
    }

    /// State and lock of a segment.
    pub fn segment(&self, number: u64) -> (&Word, &Word) {
        let offset = SEGMENTS + number * SEGMENT_HEADER_BYTES;
        (self.control.word(offset), self.control.word(offset + 8))
    }

    /// What a segment of the log has besides: the syncs begun when it was emptied, the granules appended.
    pub fn log_segment(&self, number: u64) -> (&Word, &Word) {
        let offset = SEGMENTS + number * SEGMENT_HEADER_BYTES + 16;
        (self.control.word(offset), self.control.word(offset + 8))
    }

    /// Which stage a segment of the log has. staging.rs
    pub fn stage_of(&self, number: u64) -> &Word {
        self.control.word(SEGMENTS + number * SEGMENT_HEADER_BYTES + 32)
    }

    /// The stamp of a slot.
    pub fn stamp(&self, segment: u64, slot: u64) -> &Word {
        self.stamps.word(segment * STAMPS_BYTES + slot * 8)
    }

    /// Whether a location may be read: its segment exists.
    pub fn may_read(&self, location: Location) -> bool {
        location.segment() < self.segment_count()
    }

    /// A word of the identity or of the statistics of a process.
    pub fn process_word(&self, slot: u64, word: u64) -> &Word {
        self.control.word(PROCESSES + slot * PROCESS_BYTES + word * 8)
    }

    pub fn lane(&self, slot: u64, lane: u64) -> &[Word; LINE_WORDS] {
        self.control.line(PROCESSES + slot * PROCESS_BYTES + LANES_AT + lane * 64)
    }

    /// Memory that all files occupy together.
    pub fn occupied(&self) -> u64 {
        [&self.control, &self.entries, &self.index, &self.stamps, &self.data]
            .into_iter()
            .chain(self.log.as_ref().and_then(|log| log.stages.as_ref()))
            .map(Region::occupied)
            .sum()
    }

    /// The size limit in force.
    pub fn bytes_max(&self) -> u64 {
        match self.header(header::BYTES_MAX).load(Ordering::Relaxed) {
            0 => self.file_system_bytes / 4 * 3,
            bytes => bytes,
        }
    }
}
