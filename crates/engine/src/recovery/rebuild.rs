//! Rebuild: control plane, index and entries of a store on a disk, made anew from its log.
//!
//! Invariant: it runs while no process is attached, and a repetition gives the same result.
//! docs/engine.md, "On a disk".

use std::cmp::Reverse;
use std::collections::HashMap;

use sessile_core::{Result, Timestamp};

use crate::{memory::*, storage::*};

struct FoundRecord {
    line: LogLine,
    header: RecordHeader,
    location: Location,
    target: Option<KeyDigest>,
    chunks: Vec<SlotClaim>,
}

impl FoundRecord {
    fn new(record: &ParsedRecord<'_>) -> FoundRecord {
        let ParsedRecord { line, header, location, .. } = *record;
        let is_alias = line.kind == RecordKind::Regenerated;
        let target = is_alias.then(|| alias_of(record.body())).flatten();
        let chunks = if header.form == CHUNKED { listed(record.body()) } else { Vec::new() };
        let target = target.map(|(target, _)| target);
        FoundRecord { line, header, location, target, chunks }
    }

    fn digest(&self) -> KeyDigest {
        self.line.lineage.digest
    }

    /// Of two records of a digest, the later one has the greater rank.
    fn rank(&self) -> (u64, bool, u64) {
        let lineage = self.line.lineage;
        (lineage.sequence, self.line.kind == RecordKind::Tombstone, lineage.fence)
    }

    fn is_of_chunks(&self) -> bool {
        self.line.kind == RecordKind::Chunk || self.header.form == CHUNKED
    }
}

#[derive(Default)]
struct LogScan {
    found: Vec<FoundRecord>,
    chunks: HashMap<u64, u64>,
    latest: u64,
}

impl Plane {
    pub fn rebuild(&self, log: &DiskLog) -> Result<()> {
        let start = Instant::now();
        let mut scan = LogScan::read(self, log)?;
        scan.sort(self.segment_count());
        let now = self.now();
        let mut sessions = 0;
        for group in scan.found.chunk_by(|a, b| a.digest() == b.digest()) {
            sessions += u64::from(self.rebuild_entry(log, &scan, group, sessions, now)?);
        }
        self.header(header::FENCE_FLOOR).raise(scan.latest);
        if !scan.found.is_empty() {
            // The writers may have died before the next sync.
            self.header(header::DIRTY_SINCE).store(now.as_ms().max(1), SeqCst);
            let segments = self.segment_count();
            let took = start.elapsed();
            log::info!(
                "the control plane was rebuilt: {sessions} entries from {segments} segments in \
                 {took:.1?}"
            );
        }
        Ok(())
    }

    fn add_segments(&self, count: u64) -> Result<()> {
        while self.segment_count() < count {
            self.add_segment()?;
        }
        Ok(())
    }

    /// Makes the entry of one digest, from all its records, latest first. False when it has none.
    fn rebuild_entry(
        &self,
        log: &DiskLog,
        scan: &LogScan,
        group: &[FoundRecord],
        number: u64,
        now: Timestamp,
    ) -> Result<bool> {
        let counts =
            |found: &&FoundRecord| found.line.kind != RecordKind::Touch && scan.is_whole(found);
        let Some(winner) = group.iter().find(counts) else { return Ok(false) };
        // Notes of a touch count by their fence.
        let touch = group
            .iter()
            .filter(|found| found.line.kind == RecordKind::Touch)
            .filter(|found| found.line.lineage.sequence == winner.line.lineage.sequence)
            .max_by_key(|found| found.line.lineage.fence);
        let longest = winner.line.lineage.longest;
        for loser in group {
            let location = loser.location;
            if location == winner.location || touch.is_some_and(|touch| touch.location == location)
            {
                continue;
            }
            // A record that was never published, misses something, or was overruled, and would
            // outlive the winner.
            let outranks = loser.line.kind != RecordKind::Touch && loser.rank() > winner.rank();
            if outranks || loser.line.lineage.longest > longest {
                log.file.write(&[0; 8], location.offset() - LOG_LINE_BYTES)?;
            }
        }
        if winner.line.kind == RecordKind::Tombstone {
            if longest <= now {
                return Ok(false);
            }
            self.take_entry(winner, number, EntryState(0).tombstone(longest), longest)?;
            self.set_stamp_of(winner);
            return Ok(true);
        }
        let head = touch.map_or(winner.header, |touch| touch.header).head;
        let expires = granted(head.written, head.expires);
        let expires = head.ends.map_or(expires, |ends| ends.min(expires));
        if expires.max(longest) <= now {
            return Ok(false);
        }
        let is_alias = winner.line.kind == RecordKind::Regenerated;
        let kind = if is_alias { EntryKind::Regenerated } else { EntryKind::Live };
        let state = EntryState(0).next(kind, winner.location);
        self.take_entry(winner, number, state, expires)?;
        let entry = self.entry(number);
        entry.touched().store(Override::new(expires, state).0, Relaxed);
        if let Some(ends) = head.ends.filter(|_| head.ends != winner.header.head.ends) {
            entry.ends().store(Override::new(ends, state).0, Relaxed);
        }
        if let Some(touch) = touch {
            self.set_stamp_of(touch);
            // The next touch counts by a greater one.
            entry.fence().raise(touch.line.lineage.fence);
        }
        for chunk in &winner.chunks {
            self.set_stamp(*chunk, slots(LOG) / 4);
        }
        self.set_stamp_of(winner);
        Ok(true)
    }

    fn take_entry(
        &self,
        of: &FoundRecord,
        number: u64,
        state: EntryState,
        due: Timestamp,
    ) -> Result<()> {
        if number >= self.entry_count() {
            self.back_block(number / ENTRIES_OF_BLOCK)?;
        }
        let entry = self.entry(number);
        let lineage = of.line.lineage;
        entry.set_digest(lineage.digest);
        entry.state_word().store(state.0, Relaxed);
        entry.fence().store(lineage.sequence.max(lineage.fence), Relaxed);
        entry.set_due(self, due);
        entry.set_used(self);
        self.insert_entry(lineage.digest, number)?;
        entry.store_hint(self, of.location, of.header.payload_bytes);
        Ok(())
    }

    fn set_stamp_of(&self, found: &FoundRecord) {
        let stamp = found.header.stamp;
        debug_assert_eq!(
            found.line.kind.is_note(),
            is_note(stamp),
            "notes have stamps of their own"
        );
        self.set_stamp(SlotClaim { location: found.location, stamp }, found.line.granules);
    }

    fn set_stamp(&self, claim: SlotClaim, granules: u64) {
        let (segment, granule) =
            (claim.location.segment(), claim.location.within() / GRANULE_BYTES);
        self.stamp(segment, granule).store(claim.stamp, Relaxed);
        if granules > 1 && granule + 1 < SLOTS_MAX {
            self.stamp(segment, granule + 1).store(length_mark(granules), Relaxed);
        }
    }
}

fn listed(list: &[u8]) -> Vec<SlotClaim> {
    let (words, _) = list.as_chunks::<8>();
    let (items, _) = words.as_chunks::<2>();
    let item = |[location, stamp]: &[[u8; 8]; 2]| {
        let location = Location(u64::from_le_bytes(*location).checked_sub(1)?);
        Some(SlotClaim { location, stamp: u64::from_le_bytes(*stamp) })
    };
    items.iter().filter_map(item).collect()
}

impl LogScan {
    fn read(plane: &Plane, log: &DiskLog) -> Result<LogScan> {
        let mut scan = LogScan::default();
        let mut bytes = vec![0; SEGMENT_BYTES as usize];
        let length = log.file.length()?;
        let count = length.div_ceil(SEGMENT_BYTES);
        if !length.is_multiple_of(SEGMENT_BYTES) {
            // Whole segments: bytes mapped beyond the end of a file cannot be touched.
            log.file.allocate((count - 1) * SEGMENT_BYTES, SEGMENT_BYTES)?;
        }
        for segment in 0..count {
            log.file.read(&mut bytes, segment * SEGMENT_BYTES)?;
            let mut records: Vec<FoundRecord> = parse_segment(log, &bytes, segment)
                .map(|record| FoundRecord::new(&record))
                .collect();
            let generations = records.iter().map(|found| found.line.generation);
            let Some(generation) = generations.max() else { continue };
            plane.add_segments(segment + 1)?;
            records.retain(|found| found.line.generation == generation);
            plane.stamps.back(segment * STAMPS_BYTES, STAMPS_BYTES)?;
            let of_chunks = records.iter().any(FoundRecord::is_of_chunks);
            let class = if of_chunks { LOG_CHUNKS } else { LOG };
            let state = SegmentState::rebuilt(SegmentUse::Open, class, generation);
            let words = plane.segment(segment);
            words.state.store(state.0, SeqCst);
            words.appended.store(SLOTS_MAX, Relaxed);
            records.into_iter().for_each(|found| scan.add(plane, found));
        }
        if !plane.ends_in_reserve(log, count) {
            plane.add_segments(count)?;
        }
        Ok(scan)
    }

    fn add(&mut self, plane: &Plane, found: FoundRecord) {
        plane.skip_stamp(found.header.stamp);
        self.latest = self.latest.max(found.line.lineage.sequence).max(found.line.lineage.fence);
        if found.line.kind == RecordKind::Chunk {
            self.chunks.insert(found.location.0, found.header.stamp);
        } else {
            self.found.push(found);
        }
    }

    /// By digest, and latest first. Of two copies of a moved record, the one whose segment has more
    /// records without a copy comes first: so a segment that was emptied has none after the
    /// rebuild, and counts for the reserve.
    fn sort(&mut self, segments: u64) {
        self.found.sort_unstable_by_key(|found| (found.digest(), Reverse(found.rank())));
        let mut only = vec![0_u32; segments as usize];
        let same = |a: &FoundRecord, b: &FoundRecord| a.digest() == b.digest();
        for group in self.found.chunk_by(same) {
            if let [latest, rest @ ..] = group
                && rest.first().is_none_or(|next| next.rank() < latest.rank())
                && let Some(count) = only.get_mut(latest.location.segment() as usize)
            {
                *count += 1;
            }
        }
        let only = |found: &FoundRecord| only.get(found.location.segment() as usize).copied();
        for group in self.found.chunk_by_mut(same).filter(|group| group.len() > 1) {
            group.sort_by_key(|found| Reverse((found.rank(), only(found))));
        }
    }

    fn is_whole(&self, found: &FoundRecord) -> bool {
        let is_there = |chunk: &SlotClaim| self.chunks.get(&chunk.location.0) == Some(&chunk.stamp);
        let pieces = if found.header.form == CHUNKED {
            found.header.stored_bytes() / LISTED_BYTES
        } else {
            0
        };
        let leads_somewhere = found.target.is_none_or(|target| {
            self.found.binary_search_by_key(&target, FoundRecord::digest).is_ok()
        });
        found.chunks.len() as u64 == pieces && found.chunks.iter().all(is_there) && leads_somewhere
    }
}
