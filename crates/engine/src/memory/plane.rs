//! The mapped files of one store, and where things lie in them. Numbers from shared memory are
//! checked here before they become addresses.

use std::ops::Range;

use sessile_core::{Clock, Timestamp};

use super::data_file::DataFile;
use super::layout::{
    BLOCK_BYTES, BLOCK_DUE_AT, BLOCK_ENTRIES_AT, BLOCK_OWNERS_AT, BLOCKS_MAX, BUCKET_BYTES,
    BUCKET_WORDS, CACHE_LINE_BYTES, COUNTERS, ENTRIES_OF_BLOCK, LANES_AT, LINE_WORDS,
    PROCESS_BYTES, PROCESSES, SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SEGMENTS, SLOTS_MAX,
    STAMPS_BYTES, header,
};
use super::map::Region;
use super::sync::{Acquire, Relaxed, Word};
use super::sync_mode::SyncMode;
use super::words::{EntryState, Location};

const USUAL_LINES: u64 = 25;
const LOG_SECRET_BYTES: usize = 192;
const LOG_SECRET_CONTEXT: &str = "sessile 2026 checksum of records in the log";

pub struct Plane {
    pub control: Region,
    pub entries: Region,
    pub index: Region,
    pub stamps: Region,
    /// On a disk it is mapped for reading only.
    pub data: Region,
    pub log: Option<DiskLog>,
    pub clock: Clock,
    pub secret: [u8; 32],
    pub file_system_bytes: u64,
}

pub struct DiskLog {
    pub file: Box<dyn DataFile>,
    pub bins: Box<dyn DataFile>,
    pub seals: Box<dyn DataFile>,
    pub secret: [u8; LOG_SECRET_BYTES],
    pub sync: SyncMode,
}

impl DiskLog {
    pub fn new(
        file: Box<dyn DataFile>,
        (bins, seals): (Box<dyn DataFile>, Box<dyn DataFile>),
        store_secret: &[u8; 32],
        sync: SyncMode,
    ) -> DiskLog {
        let mut secret = [0; LOG_SECRET_BYTES];
        let mut hasher = blake3::Hasher::new_derive_key(LOG_SECRET_CONTEXT);
        hasher.update(store_secret).finalize_xof().fill(&mut secret);
        DiskLog { file, bins, seals, secret, sync }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyDigest(pub u64, pub u64);

#[derive(Clone, Copy)]
pub struct TableEntry<'a> {
    pub number: u64,
    words: &'a [Word; LINE_WORDS],
}

impl<'a> TableEntry<'a> {
    pub fn digest(&self) -> KeyDigest {
        KeyDigest(self.words[0].load(Relaxed), self.words[1].load(Relaxed))
    }

    /// Only by the process that took the free entry, before the index leads to it.
    pub fn set_digest(&self, digest: KeyDigest) {
        self.words[0].store(digest.0, Relaxed);
        self.words[1].store(digest.1, Relaxed);
    }

    pub fn lock(&self) -> &'a Word {
        &self.words[2]
    }

    pub fn state_word(&self) -> &'a Word {
        &self.words[3]
    }

    /// Acquire: pairs with the compare-and-swap that published it, so that the record is seen
    /// complete.
    pub fn state(&self) -> EntryState {
        EntryState(self.words[3].load(Acquire))
    }

    pub fn replace_state(&self, old: EntryState, new: EntryState) -> bool {
        self.words[3].cas(old.0, new.0)
    }

    pub fn touched(&self) -> &'a Word {
        &self.words[4]
    }

    pub fn ends(&self) -> &'a Word {
        &self.words[5]
    }

    /// The fence of the latest holder, and not below the sequence of any record of its key.
    pub fn fence(&self) -> &'a Word {
        &self.words[6]
    }

    /// A copy of the entry's due time, so that a commit need not read that.
    pub fn due(&self) -> &'a Word {
        &self.words[7]
    }
}

pub struct SegmentWords<'a> {
    pub state: &'a Word,
    pub lock: &'a Word,
    // In a log:
    /// The syncs begun when it was written last, or emptied.
    pub syncs: &'a Word,
    /// The granules appended.
    pub appended: &'a Word,
    /// Writes that have begun and not returned.
    pub writing: &'a Word,
    /// The granules sealed, and the generation in which they were.
    pub sealed: &'a Word,
}

impl Plane {
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn header(&self, word: u64) -> &Word {
        self.control.word(word)
    }

    pub fn entry_count(&self) -> u64 {
        // Acquire: pairs with the growth that backed the block before it was counted.
        self.header(header::ENTRY_BLOCKS).load(Acquire).min(BLOCKS_MAX) * ENTRIES_OF_BLOCK
    }

    pub fn segment_count(&self) -> u64 {
        self.header(header::SEGMENTS).load(Acquire).min(self.segments_max())
    }

    pub fn segments_max(&self) -> u64 {
        self.data.bytes() / SEGMENT_BYTES
    }

    fn block_offset(number: u64) -> u64 {
        number / ENTRIES_OF_BLOCK * BLOCK_BYTES
    }

    pub fn entry(&self, number: u64) -> TableEntry<'_> {
        let offset =
            Plane::block_offset(number) + BLOCK_ENTRIES_AT + number % ENTRIES_OF_BLOCK * 64;
        TableEntry { number, words: self.entries.line(offset) }
    }

    pub fn prefetch_stamp(&self, location: Location, slot_bytes: u64) {
        let offset = location.segment() * STAMPS_BYTES + location.within() / slot_bytes * 8;
        self.stamps.prefetch_lines(offset, 1);
    }

    /// Prefetches a record of the usual size: the processor would do it late, and not beyond a
    /// page.
    pub fn prefetch_data(&self, location: Location) {
        self.prefetch_lines(location, USUAL_LINES);
    }

    pub fn prefetch_lines(&self, location: Location, lines: u64) {
        self.data.prefetch_lines(location.offset(), lines.min(USUAL_LINES));
    }

    pub fn used_bit(&self, number: u64) -> (&Word, u64) {
        let at = number % ENTRIES_OF_BLOCK;
        (self.entries.word(Plane::block_offset(number) + at / 64 * 8), 1 << (at % 64))
    }

    /// When an entry must be examined, in milliseconds of the wall clock. Zero: at once.
    pub fn due(&self, number: u64) -> &Word {
        self.entries
            .word(Plane::block_offset(number) + BLOCK_DUE_AT + number % ENTRIES_OF_BLOCK * 8)
    }

    /// Whose session the entry may stand for.
    pub fn owner_hint(&self, number: u64) -> &Word {
        self.entries
            .word(Plane::block_offset(number) + BLOCK_OWNERS_AT + number % ENTRIES_OF_BLOCK * 8)
    }

    pub fn owner_hints(&self, block: u64) -> &[Word; ENTRIES_OF_BLOCK as usize] {
        self.entries.words(block * BLOCK_BYTES + BLOCK_OWNERS_AT)
    }

    pub fn bucket(&self, number: u64) -> &[Word; BUCKET_WORDS] {
        self.index.words(number * BUCKET_BYTES)
    }

    /// Half a word for each cell, beside the bucket, so that one look-up of the page serves both.
    pub fn hints(&self, number: u64) -> &[Word; LINE_WORDS] {
        self.index.line(number * BUCKET_BYTES + BUCKET_WORDS as u64 * 8)
    }

    pub fn prefetch_bucket(&self, number: u64) {
        self.index.prefetch_lines(number * BUCKET_BYTES, BUCKET_BYTES / CACHE_LINE_BYTES);
    }

    pub fn segment(&self, number: u64) -> SegmentWords<'_> {
        let [state, lock, syncs, appended, writing, sealed, ..] =
            self.control.line(SEGMENTS + number * SEGMENT_HEADER_BYTES);
        SegmentWords { state, lock, syncs, appended, writing, sealed }
    }

    pub fn stamp(&self, segment: u64, slot: u64) -> &Word {
        self.stamps.word(segment * STAMPS_BYTES + slot * 8)
    }

    /// The first free slot from one up to another of a segment.
    #[inline]
    pub fn find_free_slot(&self, segment: u64, slots: Range<u64>) -> Option<u64> {
        let stamps: &[Word; SLOTS_MAX as usize] = self.stamps.words(segment * STAMPS_BYTES);
        let stamps = stamps.get(slots.start as usize..slots.end as usize)?;
        let ahead = stamps.iter().position(|stamp| stamp.load(Relaxed) == 0)?;
        Some(slots.start + ahead as u64)
    }

    pub fn may_read(&self, location: Location) -> bool {
        location.segment() < self.segment_count()
    }

    pub fn process_word(&self, slot: u64, word: u64) -> &Word {
        self.control.word(PROCESSES + slot * PROCESS_BYTES + word * 8)
    }

    /// What the owners of a slot have counted: [`COUNTERS`].
    pub fn counters(&self, slot: u64) -> &[Word; LINE_WORDS] {
        self.control.line(COUNTERS + slot * CACHE_LINE_BYTES)
    }

    pub fn lane(&self, slot: u64, lane: u64) -> &[Word; LINE_WORDS] {
        self.control.line(PROCESSES + slot * PROCESS_BYTES + LANES_AT + lane * 64)
    }

    pub fn occupied(&self) -> u64 {
        [&self.control, &self.entries, &self.index, &self.stamps, &self.data]
            .into_iter()
            .map(Region::occupied)
            .sum()
    }

    pub fn bytes_max(&self) -> u64 {
        match self.header(header::BYTES_MAX).load(Relaxed) {
            0 => self.file_system_bytes / 4 * 3,
            bytes => bytes,
        }
    }

    pub fn may_grow(&self, bytes: u64) -> bool {
        self.occupied() + bytes <= self.bytes_max()
    }
}
