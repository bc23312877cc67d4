//! Where this process appends to the log: one segment for each of its two classes.
//!
//! Invariants: a process appends only to segments whose lock it holds, so claiming is advancing; what is claimed is
//! counted as appended before it is claimed, so whoever takes the segment over goes on behind it; a record in one piece
//! is put into the stage under the same mutex, so what lies before it is complete. docs/engine.md, "On a disk".

use std::sync::{Mutex, MutexGuard, PoisonError};

use sessile_core::Result;

use crate::class::{LOG, LOG_CHUNKS, slots};
use crate::disklog::{LINE_BYTES, Log, Text, granules};
use crate::flush;
use crate::lane::{Claim, Lane};
use crate::layout::{GRANULE_BYTES, PAGE_BYTES, SEGMENT_BYTES, SEGMENTS_MAX, SLOTS_MAX, STAMPS_BYTES, header};
use crate::lock::{try_lock, unlock};
use crate::plane::Plane;
use crate::process::{Process, slot, thread_cpu};
use crate::segment::{SegmentState, Use, add_segment, full, length_mark, location, note_stamp};
use crate::staging;
use crate::sync::Ordering;
use crate::words::Lock;
use crate::writing::discard;

/// Headers of segments looked at in one search for a free one.
const SEARCH_MAX: u64 = 512;
/// Segments for which room on the disk is made at a time.
const ALLOCATE: u64 = 16;
/// When this part of the segments, and some, are empty and wait for a sync, it comes early; with three times as many,
/// the writer waits for it.
const WAITING_PART: u64 = 4;
const WAITING_LEAST: u64 = 32;
/// The disk is asked to begin with so many bytes at a time.
const PORTION: u64 = 64 << 10;
/// Segments that only a move may claim: as long as there are some, compaction can always go on.
const RESERVE: u64 = 4;

/// A segment that this process appends to.
struct Here {
    segment: u64,
    next: u64,
    lock: Lock,
    /// How many syncs had begun when something was last appended.
    syncs: u64,
    /// The disk was asked to begin with what lies before this granule.
    begun: u64,
    stage: Option<u64>,
}

impl Here {
    fn new(plane: &Plane, segment: u64, next: u64, lock: Lock) -> Here {
        let syncs = plane.header(header::SYNCS_BEGUN).load(Ordering::Relaxed);
        Here { segment, next, lock, syncs, begun: next, stage: None }
    }

    /// A page that the kernel may be writing to the disk is left alone: a write to it would wait for that.
    fn leave_page(&mut self, plane: &Plane) {
        let syncs = plane.header(header::SYNCS_BEGUN).load(Ordering::Relaxed);
        if self.syncs != syncs {
            self.syncs = syncs;
            self.next = self.next.next_multiple_of(PAGE_BYTES / GRANULE_BYTES);
        }
    }

    /// Ends to append here.
    fn close(self, plane: &Plane, me: &Process) {
        // While someone else has the stage's lock it stays: the next sync takes it away.
        staging::give_up(plane, me, self.segment);
        unlock(plane.segment(self.segment).1, self.lock);
    }
}

impl Here {
    /// Lets the disk begin with what was appended, a portion at a time and whole pages of it: a sync that finds the pages of
    /// a whole interval keeps the disk, and the processor that it was begun on, busy for milliseconds.
    fn begin_write_back(&mut self, plane: &Plane) {
        // What is in a stage is begun with when it is brought to the file.
        let direct = self.stage.is_none();
        let Some(log) = plane.log.as_ref().filter(|log| direct && log.interval_ms > 0) else { return };
        let bytes = (self.next - self.begun) * GRANULE_BYTES;
        if bytes >= PORTION {
            let whole = bytes - bytes % PAGE_BYTES;
            flush::begin_write_back(plane, log, self.segment * SEGMENT_BYTES + self.begun * GRANULE_BYTES, whole);
            self.begun += whole / GRANULE_BYTES;
        }
    }
}

/// Both of them.
#[derive(Default)]
pub struct Appender([Mutex<Option<Here>>; 2]);

/// Who claims.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    Commit,
    /// A move or a note, without which nothing could ever become free.
    Upkeep,
}

impl Appender {
    fn own(&self, class: u64) -> Result<MutexGuard<'_, Option<Here>>> {
        let own = self.0.get((class - LOG) as usize).ok_or_else(full)?;
        Ok(own.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Claims the next granules for chunks or a list of them. `announce` writes the claim down before it is made.
    ///
    /// # Errors
    ///
    /// `Full`.
    pub fn claim(&self, lane: &Lane<'_>, granules: u64, purpose: For, announce: impl Fn(Claim)) -> Result<Claim> {
        let mut own = self.own(LOG_CHUNKS)?;
        advance(&mut own, lane, LOG_CHUNKS, (granules, lane.stamp()), purpose, announce).map(|(claim, _)| claim)
    }

    /// Appends a record in one piece. `announce` writes the claim down before it is made.
    ///
    /// # Errors
    ///
    /// `Full`, or those of the file; what was claimed is free again.
    pub fn append(
        &self,
        lane: &Lane<'_>,
        log: &Log,
        text: &Text<'_>,
        purpose: For,
        announce: impl Fn(Claim),
    ) -> Result<Claim> {
        let granules = granules(text.head.stored_bytes());
        self.put(lane, log, text, (granules, lane.stamp()), purpose, announce)
    }

    /// Appends a note, which nothing leads to.
    ///
    /// # Errors
    ///
    /// As of `append`.
    pub fn note(&self, lane: &Lane<'_>, log: &Log, text: &Text<'_>) -> Result<Claim> {
        let announce = |note| lane.about_to_claim_chunk(note);
        self.put(lane, log, text, (1, note_stamp(lane.stamp())), For::Upkeep, announce)
    }

    fn put(
        &self,
        lane: &Lane<'_>,
        log: &Log,
        text: &Text<'_>,
        size: (u64, u64),
        purpose: For,
        announce: impl Fn(Claim),
    ) -> Result<Claim> {
        let plane = lane.plane;
        let mut own = self.own(LOG)?;
        let (claim, Behind { next, stage }) = advance(&mut own, lane, LOG, size, purpose, announce)?;
        let record = text.record(plane, log, claim);
        let Some((stage, stages)) = stage.zip(log.stages.as_ref()) else {
            drop(own);
            record.write(log).inspect_err(|_| discard(lane, claim))?;
            flush::note_write(plane);
            return Ok(claim);
        };
        staging::put(stages, stage, &record, next);
        flush::note_write(plane);
        staging::write_out(plane, lane.process, stage).inspect_err(|_| discard(lane, claim))?;
        Ok(claim)
    }

    /// Gives the segments back, for whoever needs room next.
    pub fn leave(&self, plane: &Plane, me: &Process) {
        for (class, own) in (LOG..).zip(&self.0) {
            if let Some(at) = own.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let (segment, next) = (at.segment, at.next);
                at.close(plane, me);
                if next < SLOTS_MAX / 2 {
                    plane.header(header::PARTIAL + (class - LOG) * 8).store(segment + 1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// The granule behind a claim, and the stage of its segment.
struct Behind {
    next: u64,
    stage: Option<u64>,
}

/// Claims granules in the segment that this process has, or in another one.
fn advance(
    here: &mut Option<Here>,
    lane: &Lane<'_>,
    class: u64,
    (granules, stamp): (u64, u64),
    purpose: For,
    announce: impl Fn(Claim),
) -> Result<(Claim, Behind)> {
    let (plane, me) = (lane.plane, lane.process);
    if let Some(at) = here.as_mut() {
        at.leave_page(plane);
        at.begin_write_back(plane);
    }
    loop {
        if let Some(filled) = here.take_if(|at| at.next + granules > slots(class)) {
            filled.close(plane, me);
        }
        let at = match here {
            Some(at) => at,
            None => here.insert(open_one(plane, me, class, purpose)?),
        };
        let first = at.next;
        at.next += granules;
        let claim = Claim { location: location(at.segment, class, first), stamp };
        announce(claim);
        plane.log_segment(at.segment).1.store(at.next, Ordering::Release);
        if granules > 1 {
            plane.stamp(at.segment, first + 1).store(length_mark(granules), Ordering::Relaxed);
        }
        if plane.stamp(at.segment, first).cas(0, stamp) {
            return Ok((claim, Behind { next: at.next, stage: at.stage }));
        }
    }
}

/// A segment to append to: what another process has left, an emptied one, a new one.
fn open_one(plane: &Plane, me: &Process, class: u64, purpose: For) -> Result<Here> {
    if let Some(left) = left_by_another(plane, me, class) {
        return Ok(left);
    }
    let start = thread_cpu();
    let count = plane.segment_count();
    // Behind the one that compaction has come to: there it has just emptied some.
    let last = plane.header(header::COMPACTION).load(Ordering::Relaxed) % count.max(1);
    let mut waiting = 0;
    let behind = count.min(SEARCH_MAX);
    // Then on in a circle that all go on with: what was emptied and not taken lies anywhere.
    let (more, cursor) = ((count - behind).min(SEARCH_MAX), plane.header(header::CURSORS + class * 8));
    let circle = (0..more).map(|_| cursor.add(1) % count);
    for segment in (0..behind).map(|step| (last + count - step) % count).chain(circle) {
        if let Some(here) = prepare(plane, me, segment, class, purpose)? {
            return Ok(here);
        }
        let emptied = SegmentState(plane.segment(segment).0.load(Ordering::SeqCst)).usage() == Use::Emptied;
        waiting += u64::from(emptied);
    }
    let searched = behind + more;
    if waiting >= WAITING_LEAST * 2 + searched / WAITING_PART * 3 {
        // The disk does not keep up: whoever writes waits for it, or the log would grow without bound.
        flush::sync(plane, me)?;
    } else if waiting >= WAITING_LEAST + searched / WAITING_PART {
        // Much is written between two syncs: rather a sync more than twice the room.
        flush::sync_early(plane, me);
    }
    let opened = loop {
        may_use(plane, plane.segment_count(), purpose)?;
        if let Some(here) = prepare(plane, me, add_segment(plane)?, class, purpose)? {
            break here;
        }
    };
    me.count_cpu(plane, slot::GROWTH_NS_MOST, start);
    Ok(opened)
}

/// Whether a segment without a use may get one. What was allocated ahead at the end of the file is counted already.
fn may_use(plane: &Plane, segment: u64, purpose: For) -> Result<()> {
    let never_used = segment >= plane.segment_count() || plane.segment(segment).0.load(Ordering::SeqCst) == 0;
    let length = plane.log.as_ref().map_or(Ok(0), |log| log.file.length())?;
    if never_used && length >= (segment + 1) * SEGMENT_BYTES {
        return Ok(());
    }
    let reserve = if purpose == For::Commit { RESERVE } else { 0 };
    if plane.occupied() + (1 + reserve) * SEGMENT_BYTES > plane.bytes_max() { Err(full()) } else { Ok(()) }
}

fn left_by_another(plane: &Plane, me: &Process, class: u64) -> Option<Here> {
    let hint = plane.header(header::PARTIAL + (class - LOG) * 8);
    let left = hint.load(Ordering::Relaxed);
    let segment = left.checked_sub(1).filter(|segment| *segment < plane.segment_count())?;
    if !hint.cas(left, 0) {
        return None;
    }
    let (word, lock) = plane.segment(segment);
    let mine = try_lock(plane, me, lock)?;
    let seen = SegmentState(word.load(Ordering::SeqCst));
    let next = plane.log_segment(segment).1.load(Ordering::Acquire);
    let open = seen.usage() == Use::Open && seen.class() == class && next < SLOTS_MAX;
    // Who has left it may not have come to that.
    if open && staging::give_up(plane, me, segment) {
        return Some(Here::new(plane, segment, next, mine));
    }
    unlock(lock, mine);
    None
}

/// Makes a segment one to append to, and keeps its lock; `None` when it is of use to someone.
fn prepare(plane: &Plane, me: &Process, segment: u64, class: u64, purpose: For) -> Result<Option<Here>> {
    let usable = |state: SegmentState| match state.usage() {
        Use::Unbacked => true,
        Use::Emptied => is_reusable(plane, segment),
        _ => false,
    };
    let (word, lock) = plane.segment(segment);
    if !usable(SegmentState(word.load(Ordering::SeqCst))) {
        return Ok(None);
    }
    let Some(mine) = try_lock(plane, me, lock) else { return Ok(None) };
    let seen = SegmentState(word.load(Ordering::SeqCst));
    let free = usable(seen) && staging::give_up(plane, me, segment);
    let prepared = if free { back(plane, segment, seen, purpose).map(|()| true) } else { Ok(false) };
    if !matches!(prepared, Ok(true)) {
        unlock(lock, mine);
        return prepared.map(|_| None);
    }
    (0..SLOTS_MAX).for_each(|granule| plane.stamp(segment, granule).store(0, Ordering::Relaxed));
    plane.log_segment(segment).1.store(0, Ordering::Relaxed);
    word.cas(seen.0, seen.next(Use::Open, class).0);
    let stage = if class == LOG { staging::take(plane, me, segment) } else { None };
    Ok(Some(Here { stage, ..Here::new(plane, segment, 0, mine) }))
}

fn back(plane: &Plane, segment: u64, seen: SegmentState, purpose: For) -> Result<()> {
    let Some(log) = &plane.log else { return Err(full()) };
    if seen.usage() == Use::Emptied {
        return Ok(());
    }
    plane.stamps.back(segment * STAMPS_BYTES, STAMPS_BYTES)?;
    may_use(plane, segment, purpose)?;
    let (offset, least) = (segment * SEGMENT_BYTES, SEGMENT_BYTES);
    let ahead = ALLOCATE.min(SEGMENTS_MAX - segment) * SEGMENT_BYTES;
    // At the end of the file for some at a time, as long as the limit is far; what is behind gets its own.
    let at_end = segment.is_multiple_of(ALLOCATE) && segment + 1 == plane.segment_count();
    let far = plane.occupied() + (4 * ALLOCATE) * SEGMENT_BYTES < plane.bytes_max();
    if at_end && far && log.file.allocate(offset, ahead).is_ok() {
        return Ok(());
    }
    log.file.allocate(offset, least)
}

/// Whether what replaced the records of an emptied segment is on the disk.
pub fn is_reusable(plane: &Plane, segment: u64) -> bool {
    let emptied = plane.log_segment(segment).0.load(Ordering::SeqCst);
    plane.header(header::SYNCED).load(Ordering::Relaxed) == 0
        || plane.header(header::SYNCS_DONE).load(Ordering::SeqCst) > emptied
}

/// Fewer granules than this cannot hold a line and a header.
const _: () = assert!(GRANULE_BYTES == LINE_BYTES + crate::record::HEADER_BYTES, "a note fills one granule");
