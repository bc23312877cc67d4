//! The index: from the digest of a key to its entry, growing bucket by bucket.
//!
//! ```text
//! head  entry 32 | sequence 24 | cell 4 | step 2 | kind 2
//! cell  entry + 1: 32 | tag 16 | sequence 16
//! ```
//!
//! Invariants: one compare-and-swap of the head announces and decides a change; then any process
//! can carry it out, so none waits for another. Each change gives a cell another sequence, so a
//! late helper fails. DESIGN.md, "Index", goes through the cases.

use std::ops::Range;

use sessile_core::Result;

use super::hint::Hint;
use crate::memory::*;

const SEQUENCE_BITS: u64 = 24;

#[derive(Clone, Copy)]
enum BucketKind {
    /// Its parent has not split yet.
    Unused,
    Active,
    /// Frozen: its cells are being copied to its children.
    Splitting,
    /// Its children have them.
    Split,
}

use BucketKind::*;

#[derive(Clone, Copy)]
enum BucketChange {
    Rest,
    Insert,
    Remove,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct BucketHead(u64);

impl BucketHead {
    fn kind(self) -> BucketKind {
        match self.0 & 3 {
            1 => Active,
            2 => Splitting,
            3 => Split,
            _ => Unused,
        }
    }

    fn has_cells(self) -> bool {
        matches!(self.kind(), Active | Splitting)
    }

    fn change(self) -> BucketChange {
        match self.0 >> 2 & 3 {
            1 => BucketChange::Insert,
            2 => BucketChange::Remove,
            _ => BucketChange::Rest,
        }
    }

    fn cell(self) -> usize {
        (self.0 >> 4 & 15) as usize
    }

    fn sequence(self) -> u64 {
        self.0 >> 8 & ((1 << SEQUENCE_BITS) - 1)
    }

    fn entry(self) -> u64 {
        self.0 >> 32
    }

    /// Announces a change of a cell. The sequence differs from the cell's and is not zero.
    fn announce(
        self,
        change: BucketChange,
        cell: usize,
        present: BucketCell,
        entry: u64,
    ) -> BucketHead {
        let mut sequence = self.sequence() + 1;
        while sequence & 0xffff == 0 || sequence & 0xffff == present.sequence() {
            sequence += 1;
        }
        let mut sequence = sequence & ((1 << SEQUENCE_BITS) - 1);
        if mutated(Mutation::SequenceComesRound) {
            sequence = if present.sequence() == 1 { 2 } else { 1 };
        }
        BucketHead(
            Active as u64 | (change as u64) << 2 | (cell as u64) << 4 | sequence << 8 | entry << 32,
        )
    }

    fn rested(self, kind: BucketKind) -> BucketHead {
        BucketHead(kind as u64 | self.sequence() << 8)
    }
}

#[derive(Clone, Copy)]
struct BucketCell(u64);

impl BucketCell {
    fn new(entry: u64, digest: KeyDigest, sequence: u64) -> BucketCell {
        BucketCell((entry + 1) << 32 | tag(digest) << 16 | sequence & 0xffff)
    }

    fn empty(sequence: u64) -> BucketCell {
        BucketCell(sequence & 0xffff)
    }

    fn entry(self) -> Option<u64> {
        (self.0 >> 32).checked_sub(1)
    }

    fn tag(self) -> u64 {
        self.0 >> 16 & 0xffff
    }

    fn sequence(self) -> u64 {
        self.0 & 0xffff
    }
}

fn tag(digest: KeyDigest) -> u64 {
    digest.0 >> 48
}

fn bucket_number(level: u32, digest: KeyDigest) -> u64 {
    (1 << level) + (digest.0 & ((1 << level) - 1))
}

type Bucket<'a> = &'a [Word; BUCKET_WORDS];

struct BucketRef<'a> {
    level: u32,
    number: u64,
    bucket: Bucket<'a>,
}

fn bucket_head(bucket: Bucket<'_>) -> BucketHead {
    BucketHead(bucket[0].load(SeqCst))
}

fn cells(bucket: Bucket<'_>) -> impl Iterator<Item = (usize, BucketCell)> + '_ {
    // Acquire: pairs with the compare-and-swap that filled the cell, so the entry's digest is seen.
    let words = bucket.iter().skip(1).take(BUCKET_CELLS);
    words.enumerate().map(|(at, word)| (at, BucketCell(word.load(Acquire))))
}

fn cell_word(bucket: Bucket<'_>, at: usize) -> &Word {
    bucket.get(at + 1).unwrap_or(&bucket[BUCKET_WORDS - 1])
}

pub enum Insertion {
    Inserted,
    Existing(u64),
}

impl Plane {
    pub fn create_index(&self) -> Result<()> {
        for number in 1 << LEVEL_FIRST..2 << LEVEL_FIRST {
            self.back_bucket(number)?;
            self.bucket(number)[0].cas(0, BucketHead(Active as u64 | 1 << 8).0);
        }
        Ok(())
    }

    fn is_page_backed(&self, page: u64) -> bool {
        self.control.word(INDEX_PAGES + page / 64 * 8).load(Acquire) >> (page % 64) & 1 == 1
    }

    fn is_backed(&self, number: u64) -> bool {
        pages_of(number..number + 1).all(|page| self.is_page_backed(page))
    }

    fn back_bucket(&self, number: u64) -> Result<()> {
        for page in pages_of(number..number + 1).filter(|page| !self.is_page_backed(*page)) {
            if !self.may_grow(PAGE_BYTES) {
                return Err(full());
            }
            self.index.back(page * PAGE_BYTES, PAGE_BYTES)?;
            self.control.word(INDEX_PAGES + page / 64 * 8).set(1 << (page % 64));
        }
        Ok(())
    }

    /// The level at which a bucket gets 8 to 16 keys: most are there, and the others a level above
    /// (up to about 11) or below.
    fn usual_level(&self) -> u32 {
        (self.entry_count() / 8).max(1).ilog2().clamp(LEVEL_FIRST, LEVEL_LAST)
    }

    pub fn prefetch_buckets(&self, digest: KeyDigest) {
        let level = self.usual_level();
        let other = if self.entry_count() >> level < 11 { level - 1 } else { level + 1 };
        for near in [level, other.clamp(LEVEL_FIRST, LEVEL_LAST)] {
            self.prefetch_bucket(bucket_number(near, digest));
        }
    }

    /// Signposts are followed from the level where most buckets are.
    fn find_bucket(&self, digest: KeyDigest) -> BucketRef<'_> {
        let mut level = self.usual_level();
        loop {
            let number = bucket_number(level, digest);
            if self.is_backed(number) {
                let bucket = self.bucket(number);
                match bucket_head(bucket).kind() {
                    Active | Splitting => {
                        return BucketRef { level, number, bucket };
                    }
                    Split if level < LEVEL_LAST => {
                        level += 1;
                        continue;
                    }
                    _ => {}
                }
            }
            // Not there yet: its parent is in charge. The first level always exists.
            if level == LEVEL_FIRST {
                return BucketRef { level, number, bucket: self.bucket(number) };
            }
            level -= 1;
        }
    }

    /// The entry of a digest. `probable` gets its cell while the entry is on its way from memory.
    fn entry_with<T>(
        &self,
        bucket: Bucket<'_>,
        digest: KeyDigest,
        probable: impl Fn(usize) -> T,
    ) -> Option<(u64, T)> {
        cells(bucket).find_map(|(at, cell)| {
            let entry = cell
                .entry()
                .filter(|entry| cell.tag() == tag(digest) && *entry < self.entry_count())?;
            let found = self.entry(entry).digest();
            let meanwhile = probable(at);
            (found == digest).then_some((entry, meanwhile))
        })
    }

    pub fn find_entry(&self, digest: KeyDigest) -> Option<u64> {
        self.prefetch_buckets(digest);
        self.look_up(digest, |_, _| {}).map(|(entry, ())| entry)
    }

    /// The entry of a key whose record will be read: the record is prefetched, too.
    pub fn find_to_read(&self, digest: KeyDigest) -> Option<(u64, Hint)> {
        self.look_up(digest, |hints, at| self.follow_hint(Hint::load(hints, at)))
    }

    fn look_up<T>(
        &self,
        digest: KeyDigest,
        probable: impl Fn(&[Word; LINE_WORDS], usize) -> T,
    ) -> Option<(u64, T)> {
        loop {
            let BucketRef { number, bucket, .. } = self.find_bucket(digest);
            let before = bucket_head(bucket);
            let found = self.entry_with(bucket, digest, |at| probable(self.hints(number), at));
            if found.is_some() {
                return found;
            }
            fence(Acquire);
            // Not found only counts if no cell can have moved or changed in between.
            let after = bucket_head(bucket);
            if before == after && after.has_cells() {
                return None;
            }
        }
    }

    pub fn insert_entry(&self, digest: KeyDigest, entry: u64) -> Result<Insertion> {
        self.prefetch_buckets(digest);
        loop {
            let place = self.find_bucket(digest);
            let bucket = place.bucket;
            let Some(seen) = self.settled(&place)? else { continue };
            if let Some((existing, ())) = self.entry_with(bucket, digest, |_| {}) {
                return Ok(Insertion::Existing(existing));
            }
            let Some((at, free)) = cells(bucket).find(|(_, cell)| cell.entry().is_none()) else {
                if place.level == LEVEL_LAST {
                    return Err(full());
                }
                // Memory first: a frozen bucket that cannot be split would keep its sessions from
                // leaving.
                children(&place).into_iter().try_for_each(|child| self.back_bucket(child))?;
                if mutated(Mutation::SplitsUnfrozen) {
                    self.split_bucket(&place, seen)?;
                }
                bucket[0].cas(seen.0, seen.rested(Splitting).0);
                continue;
            };
            let seen = if mutated(Mutation::AnnouncesUnseen) { bucket_head(bucket) } else { seen };
            // The compare-and-swap fails if anything was announced since `seen`: cells and the
            // digests behind them have not changed.
            let announced = seen.announce(BucketChange::Insert, at, free, entry);
            if bucket[0].cas(seen.0, announced.0) {
                self.carry_out(bucket, announced);
                return Ok(Insertion::Inserted);
            }
        }
    }

    pub fn remove_entry(&self, digest: KeyDigest, entry: u64) -> Result<bool> {
        self.prefetch_buckets(digest);
        loop {
            let place = self.find_bucket(digest);
            let bucket = place.bucket;
            let Some(seen) = self.settled(&place)? else { continue };
            let Some((at, cell)) = cells(bucket).find(|(_, cell)| cell.entry() == Some(entry))
            else {
                if bucket_head(bucket) == seen {
                    return Ok(false);
                }
                continue;
            };
            let announced = seen.announce(BucketChange::Remove, at, cell, entry);
            if bucket[0].cas(seen.0, announced.0) {
                self.carry_out(bucket, announced);
                return Ok(true);
            }
        }
    }

    /// The head after helping; `None` when another bucket is in charge.
    fn settled(&self, place: &BucketRef<'_>) -> Result<Option<BucketHead>> {
        loop {
            let seen = bucket_head(place.bucket);
            match (seen.kind(), seen.change()) {
                (Active, BucketChange::Rest) => return Ok(Some(seen)),
                (Active, _) => self.carry_out(place.bucket, seen),
                (Splitting, _) => self.split_bucket(place, seen)?,
                _ => return Ok(None),
            }
        }
    }

    /// Carries out what a head announces. Any number of processes may, at any later time.
    fn carry_out(&self, bucket: Bucket<'_>, announced: BucketHead) {
        let word = cell_word(bucket, announced.cell());
        let present = BucketCell(word.load(SeqCst));
        let entry = announced.entry();
        let digest =
            if entry < self.entry_count() { self.entry(entry).digest() } else { KeyDigest(0, 0) };
        // If the announcement still stands now, it stood while digest and cell were read: the fence
        // keeps the reads above from being answered later than the one below.
        fence(Acquire);
        if bucket_head(bucket) != announced && !mutated(Mutation::HelperTrusts) {
            return;
        }
        if present.sequence() != announced.sequence() & 0xffff {
            let next = match announced.change() {
                BucketChange::Insert => BucketCell::new(entry, digest, announced.sequence()),
                _ => BucketCell::empty(announced.sequence()),
            };
            word.cas(present.0, next.0);
        }
        bucket[0].cas(announced.0, announced.rested(Active).0);
    }

    /// Copies the cells of a frozen bucket to its children and turns it into a signpost.
    fn split_bucket(&self, place: &BucketRef<'_>, frozen: BucketHead) -> Result<()> {
        let BucketRef { level, number, bucket } = *place;
        let children = children(place);
        for child in children {
            self.back_bucket(child)?;
        }
        let [low, high] = children.map(|child| (self.bucket(child), self.hints(child)));
        for (at, cell) in cells(bucket) {
            let Some(entry) = cell.entry().filter(|entry| *entry < self.entry_count()) else {
                continue;
            };
            let digest = self.entry(entry).digest();
            // While the bucket is frozen its entries keep their digests; later nothing read here
            // counts.
            fence(Acquire);
            if bucket_head(bucket) != frozen {
                return Ok(());
            }
            let (child, hints) = if digest.0 >> level & 1 == 0 { low } else { high };
            // It may belong to another key by now: a hint may be wrong.
            Hint::load(self.hints(number), at).store(hints, at);
            // A virgin cell is zero, one that was ever used is not: a late helper changes nothing.
            cell_word(child, at).cas(0, BucketCell::new(entry, digest, 1).0);
        }
        for (child, _) in [low, high] {
            child[0].cas(0, BucketHead(Active as u64 | 1 << 8).0);
        }
        bucket[0].cas(frozen.0, frozen.rested(Split).0);
        Ok(())
    }

    /// Calls `wrong` with each bucket and cell that leads to an entry that does not belong there.
    pub fn check_index(&self, mut wrong: impl FnMut(u64, u64)) {
        // Of each word of the bitmap, the buckets that begin in its pages. Most have no memory.
        let first = |word: u64| (word * 64 * PAGE_BYTES).div_ceil(BUCKET_BYTES);
        let numbers = (0..INDEX_BYTES / PAGE_BYTES / 64)
            .filter(|word| self.control.word(INDEX_PAGES + word * 8).load(Acquire) != 0)
            .flat_map(|word| first(word)..first(word + 1));
        let backed = |number: &u64| *number >= 1 << LEVEL_FIRST && self.is_backed(*number);
        for number in numbers.filter(backed) {
            let bucket = self.bucket(number);
            if !bucket_head(bucket).has_cells() {
                continue;
            }
            let level = number.ilog2();
            for (_, cell) in cells(bucket) {
                let Some(entry) = cell.entry() else { continue };
                let belongs = entry < self.entry_count() && {
                    let (digest, state) = (self.entry(entry).digest(), self.entry(entry).state());
                    state.kind() != EntryKind::Free
                        && tag(digest) == cell.tag()
                        && bucket_number(level, digest) == number
                };
                if !belongs && bucket_head(bucket).has_cells() {
                    wrong(number, cell.0);
                }
            }
        }
    }
}

impl TableEntry<'_> {
    pub fn store_hint(self, plane: &Plane, location: Location, payload_bytes: u64) {
        let BucketRef { number, bucket, .. } = plane.find_bucket(self.digest());
        if let Some((at, _)) = cells(bucket).find(|(_, cell)| cell.entry() == Some(self.number)) {
            Hint::new(location, payload_bytes).store(plane.hints(number), at);
        }
    }
}

/// The pages of the index in which buckets lie.
fn pages_of(buckets: Range<u64>) -> Range<u64> {
    buckets.start * BUCKET_BYTES / PAGE_BYTES..(buckets.end * BUCKET_BYTES).div_ceil(PAGE_BYTES)
}

fn children(place: &BucketRef<'_>) -> [u64; 2] {
    let BucketRef { level, number, .. } = *place;
    let index = number - (1 << level);
    [index, index + (1 << level)].map(|index| (2 << level) + index)
}

#[cfg(all(test, not(sessile_model)))]
mod tests {
    use super::*;

    /// A bucket of the last level cannot split. With two levels less one of them was full with 45
    /// million sessions, and the next session of that bucket was refused.
    #[test]
    fn the_last_level_has_room_for_as_many_sessions_as_there_are_entries() {
        let buckets = f64::from(1_u32 << LEVEL_LAST);
        let sessions = (BLOCKS_MAX * ENTRIES_OF_BLOCK) as f64;
        let keys = sessions / buckets;
        let fills =
            (1..=BUCKET_CELLS as i32 + 1).fold((-keys).exp(), |p, n| p * keys / f64::from(n));
        assert!(
            fills * buckets < 0.1,
            "{} buckets of the last level are too full",
            fills * buckets
        );
    }
}
