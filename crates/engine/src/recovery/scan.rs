//! What a rebuild finds in the log: the records of each digest, latest first.
//!
//! Invariant: a record that a power cut or the death of its writer has torn does not count; one
//! that was complete on the disk and is not any more counts as damaged. docs/engine.md, "Bit rot
//! and torn records".

use std::cmp::Reverse;
use std::collections::HashMap;

use sessile_core::Result;

use crate::{memory::*, storage::*};

pub struct FoundRecord {
    pub line: LogLine,
    /// Of a damaged record only the stamp is good, which is a new one.
    pub header: RecordHeader,
    pub location: Location,
    pub chunks: Vec<SlotClaim>,
    pub is_damaged: bool,
    /// It was complete on the disk.
    is_sealed: bool,
    target: Option<KeyDigest>,
}

impl FoundRecord {
    fn new(record: &ParsedRecord<'_>, seal: Seal) -> FoundRecord {
        let ParsedRecord { line, mut header, location, body } = *record;
        if body.is_none() {
            header.stamp = stamp_of_damaged(location, line.kind.is_note());
        }
        let is_alias = line.kind == RecordKind::Regenerated;
        let target = body.filter(|_| is_alias).and_then(alias_of).map(|(target, _)| target);
        let chunks = body.filter(|_| header.form == CHUNKED).map(listed).unwrap_or_default();
        let (is_damaged, is_sealed) = (body.is_none(), seal.covers(&line, location));
        FoundRecord { line, header, location, chunks, is_damaged, is_sealed, target }
    }

    /// Whether it is more than the torn rest of a write. A tombstone says all in its line.
    fn was_complete(&self) -> bool {
        !self.is_damaged || self.is_tombstone() || self.is_sealed || mutated(Mutation::TornCounts)
    }

    pub fn is_tombstone(&self) -> bool {
        self.line.kind == RecordKind::Tombstone
    }

    pub fn is_touch(&self) -> bool {
        self.line.kind == RecordKind::Touch
    }

    pub fn digest(&self) -> KeyDigest {
        self.line.lineage.digest
    }

    /// Of two records of a digest, the later one has the greater rank.
    pub fn rank(&self) -> (u64, bool, u64) {
        let lineage = self.line.lineage;
        (lineage.sequence, self.is_tombstone(), lineage.fence)
    }

    fn is_of_chunks(&self) -> bool {
        self.line.kind == RecordKind::Chunk || !self.is_damaged && self.header.form == CHUNKED
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

#[derive(Default)]
pub struct LogScan {
    pub found: Vec<FoundRecord>,
    chunks: HashMap<u64, u64>,
    pub latest: u64,
    damaged: u64,
}

impl LogScan {
    pub fn read(plane: &Plane, log: &DiskLog) -> Result<LogScan> {
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
            scan.add_segment(plane, log, segment, &bytes)?;
        }
        if !plane.ends_in_reserve(log, count) {
            plane.add_segments(count)?;
        }
        if scan.damaged > 0 {
            let damaged = scan.damaged;
            log::error!("{damaged} records of the log are damaged: run `sessile verify`");
        }
        scan.sort(plane.segment_count());
        Ok(scan)
    }

    fn add_segment(
        &mut self,
        plane: &Plane,
        log: &DiskLog,
        segment: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let seal = log.read_seal(segment, bytes);
        let (mut records, torn): (Vec<_>, Vec<_>) = parse_segment(log, bytes, segment)
            .map(|record| FoundRecord::new(&record, seal))
            .partition(FoundRecord::was_complete);
        let generation = records.iter().map(|found| found.line.generation).max();
        for rest in torn {
            // Else the next seal of the segment would make it a damaged record.
            if generation.is_none_or(|generation| rest.line.generation >= generation) {
                log.file.write(&[0; 8], rest.location.offset() - LOG_LINE_BYTES)?;
            }
        }
        let Some(generation) = generation else { return Ok(()) };
        plane.add_segments(segment + 1)?;
        records.retain(|found| found.line.generation == generation);
        plane.stamps.back(segment * STAMPS_BYTES, STAMPS_BYTES)?;
        let of_chunks = records.iter().any(FoundRecord::is_of_chunks);
        let class = if of_chunks { LOG_CHUNKS } else { LOG };
        let state = SegmentState::rebuilt(SegmentUse::Open, class, generation);
        let words = plane.segment(segment);
        words.state.store(state.0, SeqCst);
        words.appended.store(SLOTS_MAX, Relaxed);
        words.remember_seal(seal.granules_of(generation));
        records.into_iter().for_each(|found| self.add(plane, found));
        Ok(())
    }

    fn add(&mut self, plane: &Plane, found: FoundRecord) {
        plane.skip_stamp(found.header.stamp);
        self.latest = self.latest.max(found.line.lineage.sequence).max(found.line.lineage.fence);
        self.damaged += u64::from(found.is_damaged);
        match found.line.kind {
            RecordKind::Chunk | RecordKind::Touch if found.is_damaged => {}
            RecordKind::Chunk => drop(self.chunks.insert(found.location.0, found.header.stamp)),
            _ => self.found.push(found),
        }
    }

    /// By digest, and latest first. Of two copies of a moved record, the one whose segment has more
    /// records without a copy comes first: so a segment that was emptied has none after the
    /// rebuild, and counts for the reserve. A damaged copy comes last.
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
            group.sort_by_key(|found| Reverse((found.rank(), !found.is_damaged, only(found))));
        }
    }

    /// What an entry stands for of which this is the latest record; `None` when it does not count,
    /// because it was not complete on the disk.
    pub fn kind_of(&self, found: &FoundRecord) -> Option<EntryKind> {
        let is_there = |chunk: &SlotClaim| self.chunks.get(&chunk.location.0) == Some(&chunk.stamp);
        let pieces = if found.header.form == CHUNKED {
            found.header.stored_bytes() / LISTED_BYTES
        } else {
            0
        };
        let leads_somewhere = found.target.is_none_or(|target| {
            self.found.binary_search_by_key(&target, FoundRecord::digest).is_ok()
        });
        let is_whole = found.chunks.len() as u64 == pieces && found.chunks.iter().all(is_there);
        match found.line.kind {
            RecordKind::Touch | RecordKind::Chunk => None,
            RecordKind::Tombstone => Some(EntryKind::Destroyed),
            _ if !(found.is_sealed || is_whole && leads_somewhere) => None,
            _ if found.is_damaged || !is_whole => Some(EntryKind::Damaged),
            RecordKind::Regenerated => Some(EntryKind::Regenerated),
            RecordKind::Live => Some(EntryKind::Live),
        }
    }
}
