//! Rebuild: control plane, index and entries of a store on a disk, made anew from its log.
//!
//! Invariants: it runs while no process is attached, and a repetition gives the same result; what
//! it needs of the heap does not depend on the number of records. DESIGN.md, "Rebuild".

use std::time::{Duration, Instant};

use sessile_core::{Head, Result};

use super::election::{Election, SegmentTally};
use super::scan::{FoundRecord, read_segment};
use crate::{memory::*, storage::*};

const TOLD_EVERY: Duration = Duration::from_secs(5);

struct Rebuild<'a> {
    plane: &'a Plane,
    log: &'a DiskLog,
    election: Election<'a>,
    bytes: Vec<u8>,
    /// The greatest sequence or fence.
    latest: u64,
    records: u64,
    damaged: u64,
    /// What is read may not be on the disk.
    is_unsynced: bool,
    told: Instant,
}

impl Plane {
    /// `Io`: the disk does not take what overrules other records, which are to be taken away then.
    pub fn rebuild(&self, log: &DiskLog, of_this_boot: bool) -> Result<()> {
        let start = Instant::now();
        if of_this_boot {
            // Also punches: a segment without records begins with the first generation, which the
            // disk may still have there.
            log.file.sync()?;
        }
        let length = log.file.length()?;
        let count = length.div_ceil(SEGMENT_BYTES);
        if !length.is_multiple_of(SEGMENT_BYTES) {
            // Whole segments: bytes mapped beyond the end of a file cannot be touched.
            log.file.allocate((count - 1) * SEGMENT_BYTES, SEGMENT_BYTES)?;
        }
        let mut rebuild = Rebuild {
            plane: self,
            log,
            election: Election::new(self, count),
            bytes: vec![0; SEGMENT_BYTES as usize],
            latest: 0,
            records: 0,
            damaged: 0,
            is_unsynced: of_this_boot,
            told: start,
        };
        (0..count).try_for_each(|segment| rebuild.read(segment))?;
        if !self.ends_in_reserve(log, count) {
            self.add_segments(count)?;
        }
        rebuild.rank()?;
        rebuild.reread("settled", |tally| tally.contested, Rebuild::settle)?;
        let sessions = rebuild.finish()?;
        self.header(header::FENCE_FLOOR).raise(rebuild.latest);
        if rebuild.damaged > 0 {
            let damaged = rebuild.damaged;
            log::error!("{damaged} records of the log are damaged: run `sessile check`");
        }
        if rebuild.records > 0 {
            // The writers may have died before the next sync.
            self.header(header::DIRTY_SINCE).store(self.now().as_ms().max(1), SeqCst);
            let segments = self.segment_count();
            let took = start.elapsed();
            log::info!(
                "the control plane was rebuilt: {sessions} entries from {segments} segments in \
                 {took:.1?}"
            );
        }
        Ok(())
    }
}

impl Rebuild<'_> {
    /// The first reading of a segment: its state, the stamps of all records that were complete, and
    /// entries for them.
    fn read(&mut self, segment: u64) -> Result<()> {
        let (plane, log) = (self.plane, self.log);
        let (seal, found) = read_segment(log, &mut self.bytes, segment)?;
        let (mut records, torn): (Vec<_>, Vec<_>) = found.partition(FoundRecord::was_complete);
        let generation = records.iter().map(|found| found.line.generation).max();
        for rest in torn {
            // Else the next seal of the segment would make it a damaged record.
            if generation.is_none_or(|generation| rest.line.generation >= generation) {
                zero_line(log, rest.location)?;
            }
        }
        let Some(generation) = generation else { return Ok(()) };
        plane.add_segments(segment + 1)?;
        records.retain(|found| found.line.generation == generation);
        plane.stamps.back(segment * STAMPS_BYTES, STAMPS_BYTES)?;
        let of_chunks = records.iter().any(|found| found.is_chunk() || found.has_list());
        let class = if of_chunks { LOG_CHUNKS } else { LOG };
        let state = SegmentState::rebuilt(SegmentUse::Open, class, generation);
        let words = plane.segment(segment);
        words.state.store(state.0, SeqCst);
        words.appended.store(SLOTS_MAX, Relaxed);
        words.remember_seal(seal.granules_of(generation));
        for found in &records {
            let lineage = found.line.lineage;
            plane.skip_stamp(found.header.stamp);
            self.latest = self.latest.max(lineage.sequence).max(lineage.fence);
            self.damaged += u64::from(found.is_damaged());
            self.records += u64::from(!found.is_chunk());
            // Of a damaged chunk or touch nothing is believed.
            if !found.is_damaged() || !found.is_chunk() && !found.is_touch() {
                plane.set_stamp_of(found);
                self.election.nominate(found)?;
            }
        }
        tell(&mut self.told, "read", segment, self.election.segments.len());
        Ok(())
    }

    /// Ranks what could not be ranked before, until each alias that leads to a record is known.
    /// From the end of the log: an alias is older than what it leads to, so that one reading
    /// resolves a chain of them, however long.
    fn rank(&mut self) -> Result<()> {
        loop {
            (self.election.has_changed, self.election.dangles) = (false, false);
            self.reread(
                "ranked",
                |tally| tally.undecided,
                |rebuild, found| {
                    rebuild.election.rank(found);
                    Ok(())
                },
            )?;
            if !(self.election.has_changed && self.election.dangles) {
                return Ok(());
            }
        }
    }

    /// Reads some segments again, the last record first: the records that had been complete in the
    /// first reading and still have their stamps.
    fn reread(
        &mut self,
        done: &str,
        is_read: fn(&SegmentTally) -> bool,
        each: fn(&mut Self, &FoundRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let count = self.election.segments.len();
        for (number, segment) in (0..count).rev().enumerate() {
            if !self.election.segments.get(segment).is_some_and(is_read) {
                continue;
            }
            let (_, found) = read_segment(self.log, &mut bytes, segment as u64)?;
            let found: Vec<_> = found.filter(FoundRecord::was_complete).collect();
            for found in found.into_iter().rev() {
                let granule = found.location.within() / GRANULE_BYTES;
                let stamp = self.plane.stamp(segment as u64, granule).load(Relaxed);
                if stamp == found.header.stamp {
                    each(self, &found)?;
                }
            }
            tell(&mut self.told, done, number as u64, count);
        }
        self.bytes = bytes;
        Ok(())
    }

    fn settle(&mut self, found: &FoundRecord<'_>) -> Result<()> {
        let (plane, log) = (self.plane, self.log);
        let overruled = self.election.settle(found);
        let counts = plane.stamp_of(found.location).is_some_and(|stamp| stamp.load(Relaxed) != 0);
        if found.is_damaged() && found.is_tombstone() && counts {
            plane.repair_tombstone(log, found)?;
        }
        let Some(overruled) = overruled else { return Ok(()) };
        if self.is_unsynced {
            // The page cache may have what the disk has not, also after a sync that has failed.
            plane.write_again(log)?;
            log.file.sync()?;
            self.is_unsynced = false;
        }
        zero_line(log, overruled)
    }

    /// Returns how many entries there are.
    fn finish(&mut self) -> Result<u64> {
        let mut kept = 0;
        for number in 0..self.election.entries {
            kept += u64::from(self.election.finish_entry(number)?);
        }
        Ok(kept)
    }
}

fn zero_line(log: &DiskLog, of: Location) -> Result<()> {
    log.file.write(&[0; 8], of.offset() - LOG_LINE_BYTES)
}

fn tell(told: &mut Instant, done: &str, segment: u64, count: usize) {
    if told.elapsed() >= TOLD_EVERY {
        *told = Instant::now();
        let percent = (segment + 1) * 100 / count as u64;
        log::info!("the control plane is being rebuilt: {percent} % of the log {done}");
    }
}

impl Plane {
    /// Its line says all that its header has to say.
    fn repair_tombstone(&self, log: &DiskLog, found: &FoundRecord<'_>) -> Result<()> {
        let lineage = found.line.lineage;
        let expires = lineage.longest;
        let (created, written) = (expires, expires);
        let head = Head { version: 0, created, written, expires, ends: None, owner: None };
        let header = &RecordHeader::new(0, 0, head);
        let claim = SlotClaim { location: found.location, stamp: found.header.stamp };
        let kind = RecordKind::Tombstone;
        LogRecord { kind, lineage, header, body: &[] }.encode(self, log, claim).write(log)
    }

    fn set_stamp_of(&self, found: &FoundRecord<'_>) {
        let (stamp, granules) = (found.header.stamp, found.line.granules);
        let location = found.location;
        let (segment, granule) = (location.segment(), location.within() / GRANULE_BYTES);
        self.stamp(segment, granule).store(stamp, Relaxed);
        if granules > 1 && granule + 1 < SLOTS_MAX {
            self.stamp(segment, granule + 1).store(length_mark(granules), Relaxed);
        }
    }
}
