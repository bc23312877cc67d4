//! The index: from the digest of a key to its entry, growing bucket by bucket.
//!
//! A bucket is two cache lines: a head and seven cells, and beside them a hint for each cell (hint.rs). A full bucket of
//! level `l` splits into two of level `l + 1`; it stays behind as a signpost. Bucket `i` of level `l` has number
//! `2^l + i`, so no directory is needed and nothing is ever rehashed as a whole.
//!
//! ```text
//! head  entry 32 | sequence 24 | cell 3 | step 2 | kind 3       cell  entry + 1: 32 | tag 16 | sequence 16
//! ```
//!
//! Invariants: a change is announced in the head by one compare-and-swap, which decides it; then anyone can carry it
//! out, and everyone who wants another change of the bucket does. So no process that stops or dies in between is
//! waited for. Each change of a cell gives it a sequence that differs from the one before, so a helper that comes late
//! finds its compare-and-swap refused. docs/engine.md, "Index", goes through the cases.

use sessile_core::Result;

use crate::broken::{self, Twin};
use crate::hint::{self, Hint};
use crate::layout::{BUCKETS_OF_PART, INDEX_PART_BYTES, INDEX_PARTS, LEVEL_FIRST, LEVEL_LAST};
use crate::map::LINE_WORDS;
use crate::plane::{Digest, Plane};
use crate::segment::full;
use crate::sync::{Ordering, Word, fence};
use crate::words::Kind;

const SEQUENCE_BITS: u64 = 24;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BucketKind {
    /// Its parent has not split yet.
    Unused,
    Active,
    /// Frozen: its cells are being copied to its children.
    Splitting,
    /// Its children have them.
    Split,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Rest,
    Insert,
    Remove,
}

/// The head of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head(u64);

impl Head {
    fn kind(self) -> BucketKind {
        match self.0 & 7 {
            1 => BucketKind::Active,
            2 => BucketKind::Splitting,
            3 => BucketKind::Split,
            _ => BucketKind::Unused,
        }
    }

    fn step(self) -> Step {
        match self.0 >> 3 & 3 {
            1 => Step::Insert,
            2 => Step::Remove,
            _ => Step::Rest,
        }
    }

    fn cell(self) -> usize {
        (self.0 >> 5 & 7) as usize
    }

    fn sequence(self) -> u64 {
        self.0 >> 8 & ((1 << SEQUENCE_BITS) - 1)
    }

    fn entry(self) -> u64 {
        self.0 >> 32
    }

    /// The head that announces a change of a cell. Its sequence differs from the cell's and is not zero.
    fn announce(self, step: Step, cell: usize, present: Cell, entry: u64) -> Head {
        let mut sequence = self.sequence() + 1;
        while sequence & 0xffff == 0 || sequence & 0xffff == present.sequence() {
            sequence += 1;
        }
        let mut sequence = sequence & ((1 << SEQUENCE_BITS) - 1);
        if broken::is(Twin::SequenceComesRound) {
            sequence = if present.sequence() == 1 { 2 } else { 1 };
        }
        Head(BucketKind::Active as u64 | (step as u64) << 3 | (cell as u64) << 5 | sequence << 8 | entry << 32)
    }

    /// The same with nothing announced.
    fn rested(self, kind: BucketKind) -> Head {
        Head(kind as u64 | self.sequence() << 8)
    }
}

/// A cell of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell(u64);

impl Cell {
    fn new(entry: u64, digest: Digest, sequence: u64) -> Cell {
        Cell((entry + 1) << 32 | tag(digest) << 16 | sequence & 0xffff)
    }

    fn empty(sequence: u64) -> Cell {
        Cell(sequence & 0xffff)
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

fn tag(digest: Digest) -> u64 {
    digest.0 >> 48
}

fn bucket_number(level: u32, digest: Digest) -> u64 {
    (1 << level) + (digest.0 & ((1 << level) - 1))
}

type Bucket<'a> = &'a [Word; LINE_WORDS];

/// The bucket in charge of a digest.
struct Place<'a> {
    level: u32,
    number: u64,
    bucket: Bucket<'a>,
}

fn head(bucket: Bucket<'_>) -> Head {
    Head(bucket[0].load(Ordering::SeqCst))
}

fn cells(bucket: Bucket<'_>) -> impl Iterator<Item = (usize, Cell)> + '_ {
    // Acquire: pairs with the compare-and-swap that filled the cell, so the entry's digest is seen.
    bucket.iter().skip(1).enumerate().map(|(at, word)| (at, Cell(word.load(Ordering::Acquire))))
}

fn cell_word(bucket: Bucket<'_>, at: usize) -> &Word {
    bucket.get(at + 1).unwrap_or(&bucket[LINE_WORDS - 1])
}

/// What `insert` found.
pub enum Inserted {
    New,
    /// The key has an entry already.
    Existing(u64),
}

/// Gives the first level its memory.
///
/// # Errors
///
/// `Full`.
pub fn create(plane: &Plane) -> Result<()> {
    for number in 1 << LEVEL_FIRST..2 << LEVEL_FIRST {
        back(plane, number)?;
        plane.bucket(number)[0].cas(0, Head(BucketKind::Active as u64 | 1 << 8).0);
    }
    Ok(())
}

fn is_backed(plane: &Plane, number: u64) -> bool {
    let part = number / BUCKETS_OF_PART;
    plane.control.word(INDEX_PARTS + part / 64 * 8).load(Ordering::Acquire) >> (part % 64) & 1 == 1
}

fn back(plane: &Plane, number: u64) -> Result<()> {
    if is_backed(plane, number) {
        return Ok(());
    }
    if plane.occupied() + INDEX_PART_BYTES > plane.bytes_max() {
        return Err(full());
    }
    let part = number / BUCKETS_OF_PART;
    plane.index.back(part * INDEX_PART_BYTES, INDEX_PART_BYTES)?;
    plane.control.word(INDEX_PARTS + part / 64 * 8).set(1 << (part % 64));
    Ok(())
}

/// The level at which most buckets are: seven cells are two thirds full on average.
fn usual_level(plane: &Plane) -> u32 {
    (plane.entry_count() / 4).max(1).ilog2().clamp(LEVEL_FIRST, LEVEL_LAST)
}

/// Asks for the buckets in which a digest may be: where most are, and those above and below, for a third of the keys
/// are there. Whoever has something else to do does it between this and the look-up.
pub fn ask(plane: &Plane, digest: Digest) {
    let level = usual_level(plane);
    for near in level.saturating_sub(1).max(LEVEL_FIRST)..=(level + 1).min(LEVEL_LAST) {
        plane.prefetch_bucket(bucket_number(near, digest));
    }
}

/// The bucket in charge of a digest. Signposts are followed from the level where most buckets are.
fn find_bucket(plane: &Plane, digest: Digest) -> Place<'_> {
    let mut level = usual_level(plane);
    loop {
        let number = bucket_number(level, digest);
        if is_backed(plane, number) {
            let bucket = plane.bucket(number);
            match head(bucket).kind() {
                BucketKind::Active | BucketKind::Splitting => return Place { level, number, bucket },
                BucketKind::Split if level < LEVEL_LAST => {
                    level += 1;
                    continue;
                }
                _ => {}
            }
        }
        // Not there yet: its parent is in charge. The first level always exists.
        if level == LEVEL_FIRST {
            return Place { level, number, bucket: plane.bucket(number) };
        }
        level -= 1;
    }
}

/// The cell and the entry of a digest. Which cell it probably is, is told while the entry is on its way from memory.
fn entry_with<T>(plane: &Plane, bucket: Bucket<'_>, digest: Digest, probable: impl Fn(usize) -> T) -> Option<(u64, T)> {
    cells(bucket).find_map(|(at, cell)| {
        let entry = cell.entry().filter(|entry| cell.tag() == tag(digest) && *entry < plane.entry_count())?;
        let found = plane.entry(entry).digest();
        let meanwhile = probable(at);
        (found == digest).then_some((entry, meanwhile))
    })
}

/// The entry of a key. The entry may be reused the next moment: compare its digest again.
pub fn find(plane: &Plane, digest: Digest) -> Option<u64> {
    ask(plane, digest);
    look_up(plane, digest, |_| {}).map(|(entry, ())| entry)
}

/// The same for who is going to read the record, and has asked for the buckets: the record is asked for while the entry
/// is still on its way from memory.
pub fn find_to_read(plane: &Plane, digest: Digest) -> Option<(u64, Hint)> {
    look_up(plane, digest, |word| hint::follow(plane, word))
}

/// The hint of an entry that the index leads to.
pub fn hint_word(plane: &Plane, digest: Digest, entry: u64) -> Option<&Word> {
    let Place { number, bucket, .. } = find_bucket(plane, digest);
    let (at, _) = cells(bucket).find(|(_, cell)| cell.entry() == Some(entry))?;
    Some(cell_word(plane.hints(number), at))
}

fn look_up<T>(plane: &Plane, digest: Digest, probable: impl Fn(&Word) -> T) -> Option<(u64, T)> {
    loop {
        let Place { number, bucket, .. } = find_bucket(plane, digest);
        let before = head(bucket);
        let probable = |at| probable(cell_word(plane.hints(number), at));
        let found = entry_with(plane, bucket, digest, probable);
        if found.is_some() {
            return found;
        }
        fence(Ordering::Acquire);
        // Not found only counts if no cell can have moved or changed in between.
        let after = head(bucket);
        if before == after && matches!(after.kind(), BucketKind::Active | BucketKind::Splitting) {
            return None;
        }
    }
}

/// Makes the index lead from a digest to an entry that has it.
///
/// # Errors
///
/// `Full` when the index cannot grow.
pub fn insert(plane: &Plane, digest: Digest, entry: u64) -> Result<Inserted> {
    ask(plane, digest);
    loop {
        let place = find_bucket(plane, digest);
        let bucket = place.bucket;
        let Some(seen) = settled(plane, &place)? else { continue };
        if let Some((existing, ())) = entry_with(plane, bucket, digest, |_| {}) {
            return Ok(Inserted::Existing(existing));
        }
        let Some((at, free)) = cells(bucket).find(|(_, cell)| cell.entry().is_none()) else {
            if place.level == LEVEL_LAST {
                return Err(full());
            }
            // Memory first: a frozen bucket that cannot be split would keep its sessions from leaving.
            children(&place).into_iter().try_for_each(|child| back(plane, child))?;
            if broken::is(Twin::SplitsUnfrozen) {
                split(plane, &place, seen)?;
            }
            bucket[0].cas(seen.0, seen.rested(BucketKind::Splitting).0);
            continue;
        };
        let seen = if broken::is(Twin::AnnouncesUnseen) { head(bucket) } else { seen };
        // Nothing was announced since `seen`, so neither the cells nor the digests behind them have changed.
        let announced = seen.announce(Step::Insert, at, free, entry);
        if bucket[0].cas(seen.0, announced.0) {
            carry_out(plane, bucket, announced);
            return Ok(Inserted::New);
        }
    }
}

/// Takes an entry out of the index. True when the index led to it.
pub fn remove(plane: &Plane, digest: Digest, entry: u64) -> Result<bool> {
    ask(plane, digest);
    loop {
        let place = find_bucket(plane, digest);
        let bucket = place.bucket;
        let Some(seen) = settled(plane, &place)? else { continue };
        let Some((at, cell)) = cells(bucket).find(|(_, cell)| cell.entry() == Some(entry)) else {
            if head(bucket) == seen {
                return Ok(false);
            }
            continue;
        };
        let announced = seen.announce(Step::Remove, at, cell, entry);
        if bucket[0].cas(seen.0, announced.0) {
            carry_out(plane, bucket, announced);
            return Ok(true);
        }
    }
}

/// The head of an active bucket with nothing announced, after helping; `None` when another bucket is in charge.
fn settled(plane: &Plane, place: &Place<'_>) -> Result<Option<Head>> {
    loop {
        let seen = head(place.bucket);
        match (seen.kind(), seen.step()) {
            (BucketKind::Active, Step::Rest) => return Ok(Some(seen)),
            (BucketKind::Active, _) => carry_out(plane, place.bucket, seen),
            (BucketKind::Splitting, _) => split(plane, place, seen)?,
            _ => return Ok(None),
        }
    }
}

/// Carries out what a head announces. Any number of processes may, at any time later.
fn carry_out(plane: &Plane, bucket: Bucket<'_>, announced: Head) {
    let word = cell_word(bucket, announced.cell());
    let present = Cell(word.load(Ordering::SeqCst));
    let entry = announced.entry();
    let digest = if entry < plane.entry_count() { plane.entry(entry).digest() } else { Digest(0, 0) };
    // The digest and the cell were read while the announcement stood, if it still stands now: the fence keeps the
    // reads above from being answered later than the one below.
    fence(Ordering::Acquire);
    if head(bucket) != announced && !broken::is(Twin::HelperTrusts) {
        return;
    }
    if present.sequence() != announced.sequence() & 0xffff {
        let next = match announced.step() {
            Step::Insert => Cell::new(entry, digest, announced.sequence()),
            _ => Cell::empty(announced.sequence()),
        };
        word.cas(present.0, next.0);
    }
    bucket[0].cas(announced.0, announced.rested(BucketKind::Active).0);
}

/// The numbers of the two buckets into which one splits.
fn children(place: &Place<'_>) -> [u64; 2] {
    let Place { level, number, .. } = *place;
    let index = number - (1 << level);
    [index, index + (1 << level)].map(|index| (2 << level) + index)
}

/// Copies the cells of a frozen bucket to its children and turns it into a signpost.
fn split(plane: &Plane, place: &Place<'_>, frozen: Head) -> Result<()> {
    let Place { level, number, bucket } = *place;
    let children = children(place);
    for child in children {
        back(plane, child)?;
    }
    let [low, high] = children.map(|child| (plane.bucket(child), plane.hints(child)));
    for (at, cell) in cells(bucket) {
        let Some(entry) = cell.entry().filter(|entry| *entry < plane.entry_count()) else { continue };
        let digest = plane.entry(entry).digest();
        // While the bucket is frozen its entries keep their digests; later nothing here may be believed.
        fence(Ordering::Acquire);
        if head(bucket) != frozen {
            return Ok(());
        }
        let (child, hints) = if digest.0 >> level & 1 == 0 { low } else { high };
        // Whose it is does not matter much: a hint may be wrong.
        hint::copy(cell_word(plane.hints(number), at), cell_word(hints, at));
        // A virgin cell is zero. One that was ever used is not: a late helper changes nothing.
        cell_word(child, at).cas(0, Cell::new(entry, digest, 1).0);
    }
    for (child, _) in [low, high] {
        child[0].cas(0, Head(BucketKind::Active as u64 | 1 << 8).0);
    }
    bucket[0].cas(frozen.0, frozen.rested(BucketKind::Split).0);
    Ok(())
}

/// Looks at every cell: calls `wrong` with bucket and cell where one leads to an entry that does not belong there.
pub fn check(plane: &Plane, mut wrong: impl FnMut(u64, u64)) {
    let backed = (1 << LEVEL_FIRST..2 << LEVEL_LAST).step_by(64).filter(|number| is_backed(plane, *number));
    for number in backed.flat_map(|first| first..first + 64) {
        let bucket = plane.bucket(number);
        if !matches!(head(bucket).kind(), BucketKind::Active | BucketKind::Splitting) {
            continue;
        }
        let level = number.ilog2();
        for (_, cell) in cells(bucket) {
            let Some(entry) = cell.entry() else { continue };
            let belongs = entry < plane.entry_count() && {
                let (digest, state) = (plane.entry(entry).digest(), plane.entry(entry).state());
                state.kind() != Kind::Free && tag(digest) == cell.tag() && bucket_number(level, digest) == number
            };
            if !belongs && matches!(head(bucket).kind(), BucketKind::Active | BucketKind::Splitting) {
                wrong(number, cell.0);
            }
        }
    }
}
