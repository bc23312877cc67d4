//! Where this process appends to the log: one segment for each of its two classes.
//!
//! Invariants: a process appends only to segments whose lock it holds, so claiming is advancing; what is claimed is
//! counted as appended before it is claimed, so whoever takes the segment over goes on behind it; a record in one piece
//! is put into the stage under the same mutex, so what lies before it is complete. docs/engine.md, "On a disk".

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sessile_core::{ErrorKind, Result};

use crate::class::{LOG, LOG_CHUNKS, slots};
use crate::disklog::{LINE_BYTES, Log, Text, granules};
use crate::flush;
use crate::lane::{Claim, Lane};
use crate::layout::{GRANULE_BYTES, PAGE_BYTES, SEGMENT_BYTES, SLOTS_MAX, STAMPS_BYTES, header};
use crate::lock::{Locked, lock, try_lock, unlock};
use crate::plane::Plane;
use crate::process::{Process, slot, thread_cpu};
use crate::reserve::{self, For};
use crate::segment::{SegmentState, Use, add_segment, full, length_mark, location, note_stamp, state};
use crate::staging;
use crate::sync::Ordering;
use crate::words::Lock;
use crate::writing::discard;

/// Headers of segments looked at in one search for a free one.
const SEARCH_MAX: u64 = 512;
/// When this part of the segments, and some, are empty and wait for a sync, it comes early; with three times as many,
/// the writer waits for it.
const WAITING_PART: u64 = 4;
const WAITING_LEAST: u64 = 32;
/// The disk is asked to begin with so many bytes at a time.
const PORTION: u64 = 64 << 10;
/// How long one waits for another who claims from a segment of the reserve.
const SHARED_MAX: Duration = Duration::from_millis(20);

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
    /// It is of the reserve: all who may claim from that share it, one claim at a time.
    shared: bool,
}

impl Here {
    fn new(plane: &Plane, segment: u64, next: u64, lock: Lock) -> Here {
        let syncs = plane.header(header::SYNCS_BEGUN).load(Ordering::Relaxed);
        Here { segment, next, lock, syncs, begun: next, stage: None, shared: false }
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
    /// Gives up a segment to which nothing was appended: what was in it before may be overwritten as it might before.
    fn put_back(self, plane: &Plane, me: &Process) {
        let (word, syncs) = (plane.segment(self.segment).0, plane.header(header::SYNCS_DONE).load(Ordering::SeqCst));
        let seen = SegmentState(word.load(Ordering::SeqCst));
        plane.log_segment(self.segment).0.store(syncs.saturating_sub(1), Ordering::SeqCst);
        word.cas(seen.0, seen.next(Use::Emptied, seen.class()).0);
        self.close(plane, me);
    }

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
    pub fn note(&self, lane: &Lane<'_>, log: &Log, text: &Text<'_>, purpose: For) -> Result<Claim> {
        let announce = |note| lane.about_to_claim_chunk(note);
        self.put(lane, log, text, (1, note_stamp(lane.stamp())), purpose, announce)
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
        // Not before: the record says the generation of the segment, which stays as it is while that is held.
        if let Some(shared) = own.take_if(|at| at.shared && purpose != For::Room) {
            shared.close(plane, lane.process);
        }
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

    /// Lets all who may share it have the segment that room was made into.
    pub fn share(&self, plane: &Plane, me: &Process) {
        let Ok(mut own) = self.own(LOG) else { return };
        if let Some(at) = own.take_if(|at| at.shared) {
            plane.header(header::SHARED).store(at.segment + 1, Ordering::Relaxed);
            at.close(plane, me);
        }
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
    if let Some(shared) = here.take_if(|at| at.shared && purpose != For::Room) {
        shared.close(plane, me); // another thread makes room
    }
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
            None => here.insert(open_one(plane, me, class, granules, purpose)?),
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

/// A segment to append to: what another process has left, what all share, an emptied one, a new one.
fn open_one(plane: &Plane, me: &Process, class: u64, granules: u64, purpose: For) -> Result<Here> {
    if let Some(left) = left_by_another(plane, me, class) {
        return Ok(left);
    }
    let log = plane.log.as_ref().ok_or_else(full)?;
    if matches!(purpose, For::Tombstone | For::Room)
        && let Some(shared) = shared(plane, me, granules)
    {
        return Ok(shared);
    }
    if !reserve::has_room(plane, me, log, purpose)? {
        return Err(full());
    }
    let shares = purpose != For::Commit && reserve::is_touched(plane, log)?;
    if shares && let Some(shared) = shared(plane, me, granules) {
        return Ok(shared);
    }
    let opened = take_one(plane, me, log, class, shares)?;
    // Several may have seen the last one that they may take.
    if reserve::is_left(plane, log, purpose)? {
        return Ok(opened);
    }
    opened.put_back(plane, me);
    Err(full())
}

/// The next segment without a use.
fn take_one(plane: &Plane, me: &Process, log: &Log, class: u64, shares: bool) -> Result<Here> {
    let start = thread_cpu();
    let mut search = Search { plane, me, class, shares, no_room: false, waiting: 0 };
    let count = plane.segment_count();
    // Behind the one that compaction has come to: there it has just emptied some.
    let last = plane.header(header::COMPACTION).load(Ordering::Relaxed) % count.max(1);
    let behind = count.min(SEARCH_MAX);
    // Then on in a circle that all go on with: what was emptied and not taken lies anywhere.
    let (more, cursor) = ((count - behind).min(SEARCH_MAX), plane.header(header::CURSORS + class * 8));
    let circle = (0..more).map(|_| cursor.add(1) % count);
    if let Some(here) = search.first_of((0..behind).map(|step| (last + count - step) % count).chain(circle))? {
        return Ok(here);
    }
    let (waiting, searched) = (search.waiting, behind + more);
    if waiting >= WAITING_LEAST * 2 + searched / WAITING_PART * 3 {
        // The disk does not keep up: whoever writes waits for it, or the log would grow without bound.
        flush::sync(plane, me)?;
    } else if waiting >= WAITING_LEAST + searched / WAITING_PART {
        // Much is written between two syncs: rather a sync more than twice the room.
        flush::sync_early(plane, me);
    }
    while reserve::ahead(plane, log)? > 0 {
        if let Some(here) = prepare(plane, me, add_segment(plane)?, class, shares)? {
            me.count_cpu(plane, slot::GROWTH_NS_MOST, start);
            return Ok(here);
        }
    }
    // The log cannot grow: once over all.
    let rest = if count > searched { 0..count } else { 0..0 };
    search.first_of(rest)?.ok_or_else(full)
}

/// A search for a segment without a use.
struct Search<'a> {
    plane: &'a Plane,
    me: &'a Process,
    class: u64,
    shares: bool,
    /// The file system, or the limit, has none for another segment.
    no_room: bool,
    /// Segments met that were emptied and could not be had, usually because they wait for a sync.
    waiting: u64,
}

impl Search<'_> {
    fn first_of(&mut self, segments: impl Iterator<Item = u64>) -> Result<Option<Here>> {
        let Search { plane, me, class, shares, .. } = *self;
        for segment in segments {
            let usage = state(plane, segment).usage();
            if usage == Use::Unbacked && self.no_room {
                continue;
            }
            match prepare(plane, me, segment, class, shares) {
                Ok(Some(here)) => return Ok(Some(here)),
                Ok(None) => self.waiting += u64::from(usage == Use::Emptied),
                // Then only one that has its room still will do.
                Err(error) if *error.kind() == ErrorKind::Full => self.no_room = true,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Whether a segment without a use may get one. What was allocated ahead at the end of the file is counted already.
fn may_use(plane: &Plane, segment: u64) -> Result<()> {
    let never_used = segment >= plane.segment_count() || plane.segment(segment).0.load(Ordering::SeqCst) == 0;
    let length = plane.log.as_ref().map_or(Ok(0), |log| log.file.length())?;
    if never_used && length >= (segment + 1) * SEGMENT_BYTES {
        return Ok(());
    }
    if plane.occupied() + SEGMENT_BYTES > plane.bytes_max() { Err(full()) } else { Ok(()) }
}

/// The segment of the reserve that all share, if it has room for so much.
fn shared(plane: &Plane, me: &Process, granules: u64) -> Option<Here> {
    let segment = shared_segment(plane)?;
    // Who has it is done in a moment; who was stopped keeps it from nobody.
    let Locked::Ours(mine) = lock(plane, me, plane.segment(segment).1, SHARED_MAX, || true) else { return None };
    let here = go_on(plane, me, segment, LOG, mine)?;
    if here.next + granules > SLOTS_MAX {
        here.close(plane, me);
        return None;
    }
    Some(Here { shared: true, ..here })
}

/// The segment of the reserve that notes and moves share, which compaction leaves alone.
pub fn shared_segment(plane: &Plane) -> Option<u64> {
    let segment = plane.header(header::SHARED).load(Ordering::Relaxed).checked_sub(1)?;
    let full = segment >= plane.segment_count() || plane.log_segment(segment).1.load(Ordering::Acquire) >= SLOTS_MAX;
    (!full).then_some(segment)
}

fn left_by_another(plane: &Plane, me: &Process, class: u64) -> Option<Here> {
    let hint = plane.header(header::PARTIAL + (class - LOG) * 8);
    let left = hint.load(Ordering::Relaxed);
    let segment = left.checked_sub(1).filter(|segment| *segment < plane.segment_count())?;
    if !hint.cas(left, 0) {
        return None;
    }
    let mine = try_lock(plane, me, plane.segment(segment).1)?;
    go_on(plane, me, segment, class, mine)
}

/// Goes on behind what was appended to a segment whose lock is `mine`. It is given back when that cannot be.
fn go_on(plane: &Plane, me: &Process, segment: u64, class: u64, mine: Lock) -> Option<Here> {
    let (word, lock) = plane.segment(segment);
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
fn prepare(plane: &Plane, me: &Process, segment: u64, class: u64, shared: bool) -> Result<Option<Here>> {
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
    let prepared = if free { back(plane, segment, seen).map(|()| true) } else { Ok(false) };
    if !matches!(prepared, Ok(true)) {
        unlock(lock, mine);
        return prepared.map(|_| None);
    }
    (0..SLOTS_MAX).for_each(|granule| plane.stamp(segment, granule).store(0, Ordering::Relaxed));
    plane.log_segment(segment).1.store(0, Ordering::Relaxed);
    word.cas(seen.0, seen.next(Use::Open, class).0);
    if shared {
        plane.header(header::SHARED).store(segment + 1, Ordering::Relaxed);
    }
    let stage = if class == LOG && !shared { staging::take(plane, me, segment) } else { None };
    Ok(Some(Here { stage, shared, ..Here::new(plane, segment, 0, mine) }))
}

fn back(plane: &Plane, segment: u64, seen: SegmentState) -> Result<()> {
    let Some(log) = &plane.log else { return Err(full()) };
    if seen.usage() == Use::Emptied {
        return Ok(());
    }
    plane.stamps.back(segment * STAMPS_BYTES, STAMPS_BYTES)?;
    may_use(plane, segment)?;
    log.file.allocate(segment * SEGMENT_BYTES, SEGMENT_BYTES)
}

/// Whether what replaced the records of an emptied segment is on the disk.
pub fn is_reusable(plane: &Plane, segment: u64) -> bool {
    let emptied = plane.log_segment(segment).0.load(Ordering::SeqCst);
    plane.header(header::SYNCED).load(Ordering::Relaxed) == 0
        || plane.header(header::SYNCS_DONE).load(Ordering::SeqCst) > emptied
}

/// Fewer granules than this cannot hold a line and a header.
const _: () = assert!(GRANULE_BYTES == LINE_BYTES + crate::record::HEADER_BYTES, "a note fills one granule");
