//! Rebuild: control plane, index and entries of a store on a disk, made anew from its log.
//!
//! Invariants: it runs while nobody is attached; what it reads is believed only with a valid checksum and in the
//! latest generation of its segment; of all records of a digest the one of the highest rank counts, unless something
//! that it needs is missing. Running it again, also after a crash in it, gives the same. docs/engine.md, "On a disk".

use std::collections::HashMap;

use sessile_core::{Result, Timestamp};

use crate::class::{LOG, LOG_CHUNKS, slots};
use crate::disklog::{LINE_BYTES, Line, Log, Says, granted, parse};
use crate::hint;
use crate::index;
use crate::lane::{made_by, skip_to};
use crate::layout::{
    BLOCK_BYTES, ENTRIES_OF_BLOCK, GRANULE_BYTES, LANES, PROCESSES_MAX, SEGMENT_BYTES, SLOTS_MAX, STAMPS_BYTES, header,
};
use crate::plane::{Digest, Plane};
use crate::record::{CHUNKED, HEADER_BYTES, Header, LISTED_BYTES};
use crate::reserve;
use crate::segment::{SegmentState, Use, add_segment, full, is_note, length_mark, location};
use crate::session::alias_of;
use crate::sync::Ordering;
use crate::words::{Kind, Location, Override, State};

/// A valid record.
#[derive(Clone, Debug)]
struct Found {
    line: Line,
    head: Header,
    location: Location,
    /// Where a regenerated id leads.
    target: Option<Digest>,
    /// The chunks of a large payload.
    chunks: Vec<(Location, u64)>,
}

impl Found {
    fn digest(&self) -> Digest {
        self.line.origin.digest
    }

    /// Of two records of a digest, the later one has the greater rank.
    fn rank(&self) -> (u64, bool, u64) {
        (self.line.origin.sequence, self.line.says == Says::Tombstone, self.line.origin.fence)
    }
}

/// What was read.
#[derive(Default)]
struct Scan {
    found: Vec<Found>,
    /// Stamps of valid chunks by location.
    chunks: HashMap<u64, u64>,
    /// The greatest sequence that each lane has used.
    lanes: HashMap<(u64, u64), u64>,
    latest: u64,
}

/// Fills an empty control plane with what the log has.
///
/// # Errors
///
/// `Full` when the control plane has no room, `Io` when the log cannot be read.
pub fn rebuild(plane: &Plane, log: &Log) -> Result<()> {
    let start = std::time::Instant::now();
    let mut scan = scan(plane, log)?;
    scan.found.sort_unstable_by(|a, b| {
        let digest = |found: &Found| (found.digest().0, found.digest().1);
        digest(a).cmp(&digest(b)).then_with(|| b.rank().cmp(&a.rank()))
    });
    let now = plane.now();
    let mut sessions = 0;
    for group in scan.found.chunk_by(|a, b| a.digest() == b.digest()) {
        sessions += u64::from(settle(plane, log, &scan, group, sessions, now)?);
    }
    plane.header(header::FENCE_FLOOR).raise(scan.latest);
    for ((slot, lane), sequence) in &scan.lanes {
        skip_to(plane, *slot, *lane, *sequence);
    }
    if !scan.found.is_empty() {
        // Whoever has written this may have died before the next sync.
        plane.header(header::DIRTY_SINCE).store(now.as_ms().max(1), Ordering::SeqCst);
        let segments = plane.segment_count();
        let took = start.elapsed();
        log::info!("the control plane was rebuilt: {sessions} entries from {segments} segments in {took:.1?}");
    }
    Ok(())
}

fn scan(plane: &Plane, log: &Log) -> Result<Scan> {
    let mut scan = Scan::default();
    let mut bytes = vec![0; SEGMENT_BYTES as usize];
    let length = log.file.length()?;
    let count = length.div_ceil(SEGMENT_BYTES);
    if !length.is_multiple_of(SEGMENT_BYTES) {
        // Whole segments: what is mapped beyond the end of a file cannot be touched.
        log.file.allocate((count - 1) * SEGMENT_BYTES, SEGMENT_BYTES)?;
    }
    for segment in 0..count {
        log.file.read(&mut bytes, segment * SEGMENT_BYTES)?;
        let records = scan_segment(log, &bytes, segment);
        let Some(generation) = records.iter().map(|found| found.line.generation).max() else { continue };
        while plane.segment_count() <= segment {
            add_segment(plane)?;
        }
        let records: Vec<Found> = records.into_iter().filter(|found| found.line.generation == generation).collect();
        plane.stamps.back(segment * STAMPS_BYTES, STAMPS_BYTES)?;
        let of_chunks = |found: &Found| found.line.says == Says::Chunk || found.head.form == CHUNKED;
        let class = if records.iter().any(of_chunks) { LOG_CHUNKS } else { LOG };
        plane.segment(segment).0.store(SegmentState::rebuilt(Use::Open, class, generation).0, Ordering::SeqCst);
        plane.log_segment(segment).1.store(SLOTS_MAX, Ordering::Relaxed);
        records.into_iter().for_each(|found| scan.add(found));
    }
    if !reserve::is_behind(plane, log, count) {
        while plane.segment_count() < count {
            add_segment(plane)?;
        }
    }
    Ok(scan)
}

/// The valid records of a segment. Where there is none, the next granule is tried: a writer may have died there.
fn scan_segment(log: &Log, bytes: &[u8], segment: u64) -> Vec<Found> {
    let mut records = Vec::new();
    // Every granule: what an earlier generation has left may end where a new record begins.
    for granule in 0..slots(LOG) {
        let place = location(segment, LOG, granule);
        let start = (granule * GRANULE_BYTES) as usize;
        let rest = bytes.get(start..).unwrap_or_default();
        let Some((line, head, length)) = parse(log, rest, place) else { continue };
        let stored = rest.get((GRANULE_BYTES as usize)..length).unwrap_or_default();
        let target = if line.says == Says::Regenerated { alias_of(stored).map(|alias| alias.0) } else { None };
        let chunks = if head.form == CHUNKED { listed(stored) } else { Vec::new() };
        records.push(Found { line, head, location: place, target, chunks });
    }
    records
}

fn listed(list: &[u8]) -> Vec<(Location, u64)> {
    let (words, _) = list.as_chunks::<8>();
    let (items, _) = words.as_chunks::<2>();
    let item = |[first, second]: &[[u8; 8]; 2]| {
        let location = u64::from_le_bytes(*first).checked_sub(1)?;
        Some((Location(location), u64::from_le_bytes(*second)))
    };
    items.iter().filter_map(item).collect()
}

impl Scan {
    fn add(&mut self, found: Found) {
        let (slot, lane, sequence) = made_by(found.head.stamp);
        if slot < PROCESSES_MAX && lane < LANES {
            let last = self.lanes.entry((slot, lane)).or_default();
            *last = sequence.max(*last);
        }
        self.latest = self.latest.max(found.line.origin.sequence).max(found.line.origin.fence);
        if found.line.says == Says::Chunk {
            self.chunks.insert(found.location.0, found.head.stamp);
        } else {
            self.found.push(found);
        }
    }

    /// Whether everything is there that a record needs.
    fn is_whole(&self, found: &Found) -> bool {
        let chunk = |(location, stamp): &(Location, u64)| self.chunks.get(&location.0) == Some(stamp);
        let pieces = if found.head.form == CHUNKED { found.head.stored_bytes() / LISTED_BYTES } else { 0 };
        let leads_somewhere = found.target.is_none_or(|target| self.has(target));
        found.chunks.len() as u64 == pieces && found.chunks.iter().all(chunk) && leads_somewhere
    }

    fn has(&self, digest: Digest) -> bool {
        let wanted = (digest.0, digest.1);
        self.found.binary_search_by(|found| (found.digest().0, found.digest().1).cmp(&wanted)).is_ok()
    }
}

/// Makes the entry of one digest, from all its records, latest first. False when it has none.
fn settle(plane: &Plane, log: &Log, scan: &Scan, group: &[Found], number: u64, now: Timestamp) -> Result<bool> {
    let counts = |found: &&Found| found.line.says != Says::Touch && scan.is_whole(found);
    let Some(winner) = group.iter().find(counts) else { return Ok(false) };
    // Notes of a touch count by their fence.
    let touch = group.iter().filter(|found| found.line.says == Says::Touch);
    let touch = touch.filter(|found| found.line.origin.sequence == winner.line.origin.sequence);
    let touch = touch.max_by_key(|found| found.line.origin.fence);
    let longest = winner.line.origin.longest;
    let counts = |found: &Found| [Some(winner), touch].into_iter().flatten().any(|one| one.location == found.location);
    for loser in group.iter().filter(|loser| !counts(loser)) {
        // What was never published, misses something, or was overruled, and would outlive what counts.
        let outranks = loser.line.says != Says::Touch && loser.rank() > winner.rank();
        if outranks || loser.line.origin.longest > longest {
            log.file.write(&[0; 8], loser.location.offset() - LINE_BYTES)?;
        }
    }
    if winner.line.says == Says::Tombstone {
        if longest <= now {
            return Ok(false);
        }
        let state = State(0).tombstone(longest);
        take(plane, winner, number, state, longest)?;
        stamp(plane, winner);
        return Ok(true);
    }
    let head = touch.map_or(winner.head, |touch| touch.head);
    let expires = granted(head.written, head.expires);
    let expires = head.ends.map_or(expires, |ends| ends.min(expires));
    if expires.max(longest) <= now {
        return Ok(false);
    }
    let kind = if winner.line.says == Says::Regenerated { Kind::Regenerated } else { Kind::Live };
    let state = State(0).next(kind, winner.location);
    take(plane, winner, number, state, expires)?;
    let entry = plane.entry(number);
    entry.touched().store(Override::new(expires, state).0, Ordering::Relaxed);
    if let Some(ends) = head.ends.filter(|_| head.ends != winner.head.ends) {
        entry.ends().store(Override::new(ends, state).0, Ordering::Relaxed);
    }
    touch.into_iter().for_each(|touch| stamp(plane, touch));
    for (location, stamp) in &winner.chunks {
        set_stamp(plane, *location, *stamp, slots(LOG) / 4);
    }
    stamp(plane, winner);
    Ok(true)
}

/// Takes an entry into use, and makes the index lead to it.
fn take(plane: &Plane, of: &Found, number: u64, state: State, due: Timestamp) -> Result<()> {
    let block = number / ENTRIES_OF_BLOCK;
    if number >= plane.entry_count() {
        if plane.occupied() + BLOCK_BYTES > plane.bytes_max() {
            return Err(full());
        }
        plane.entries.back(block * BLOCK_BYTES, BLOCK_BYTES)?;
        plane.header(header::ENTRY_BLOCKS).store(block + 1, Ordering::SeqCst);
    }
    let entry = plane.entry(number);
    entry.set_digest(of.digest());
    entry.state_word().store(state.0, Ordering::Relaxed);
    entry.fence().store(of.line.origin.sequence.max(of.line.origin.fence), Ordering::Relaxed);
    crate::expiry::set_due(plane, entry, due);
    let (word, bit) = plane.used_bit(number);
    word.set(bit);
    index::insert(plane, of.digest(), number)?;
    hint::leave(plane, &entry, of.location, of.head.payload_bytes);
    Ok(())
}

fn stamp(plane: &Plane, found: &Found) {
    debug_assert_eq!(found.line.says.is_note(), is_note(found.head.stamp), "notes have stamps of their own");
    set_stamp(plane, found.location, found.head.stamp, found.line.granules);
}

fn set_stamp(plane: &Plane, location: Location, stamp: u64, granules: u64) {
    let (segment, granule) = (location.segment(), location.within() / GRANULE_BYTES);
    plane.stamp(segment, granule).store(stamp, Ordering::Relaxed);
    if granules > 1 && granule + 1 < SLOTS_MAX {
        plane.stamp(segment, granule + 1).store(length_mark(granules), Ordering::Relaxed);
    }
}

const _: () = assert!(HEADER_BYTES < GRANULE_BYTES, "a header fits into the first granule");
