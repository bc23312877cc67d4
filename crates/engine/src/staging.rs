//! Stages: mapped copies of the segments that processes are appending to, on a disk.
//!
//! A system call for each record would cost as much as all the rest of a commit. So a process puts its
//! records into a stage, where everybody reads them, and brings them to the file many at a time.
//!
//! Invariants: bytes of a stage below `complete` never change while the stage belongs to its segment; they are in the
//! file before the segment's stage word goes away; whoever brings them there holds the stage's lock, so that a stage
//! that was given to another segment is never mistaken for this one. docs/engine.md, "Stages".

use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Result};

use crate::broken::{self, Twin};
use crate::disklog::{Log, RECORD_HEAD_BYTES, Record};
use crate::flush;
use crate::layout::{GRANULE_BYTES, PAGE_BYTES, SEGMENT_BYTES, STAGES, STAGES_AT};
use crate::lock::{Locked, lock, try_lock, unlock};
use crate::map::{LINE_BYTES, Region};
use crate::plane::Plane;
use crate::process::{Process, was_recovered};
use crate::segment::state;
use crate::sync::{Ordering, Word, fence};
use crate::words::Lock;

/// So many bytes are brought to the file at a time, and the disk is asked to begin with them.
const PORTION: u64 = if cfg!(sessile_model) { 4 * GRANULE_BYTES } else { 64 << 10 };
/// All stages together are at most this part of what the store may occupy.
const PART: u64 = 16;
/// Who has the lock of a stage writes a portion; more than this is a disk in trouble, or a process that was stopped.
const LOCK_MAX: Duration = Duration::from_millis(100);

/// The line of words that describes a stage.
struct Words<'a> {
    lock: &'a Word,
    /// The segment that it belongs to, + 1; 0: none. Changed under the lock.
    segment: &'a Word,
    /// Granules from the beginning that are complete. Changed by the holder of the segment's lock.
    complete: &'a Word,
    /// Granules from the beginning that are in the file. Changed under the lock.
    written: &'a Word,
}

fn words(stages: &Region, stage: u64) -> Words<'_> {
    let [lock, segment, complete, written, ..] = stages.line(stage * LINE_BYTES);
    Words { lock, segment, complete, written }
}

/// Where the bytes of a stage lie.
pub(crate) fn place(stage: u64) -> u64 {
    STAGES_AT + stage * SEGMENT_BYTES
}

/// Where the word of a stage lies that says which segment it belongs to.
pub(crate) fn segment_at(stage: u64) -> usize {
    (stage * LINE_BYTES) as usize + 8
}

/// The word of a segment that names its stage: stage + 1, and the generation so that it never repeats.
fn name(plane: &Plane, segment: u64, stage: u64) -> u64 {
    state(plane, segment).generation() << 16 | (stage + 1)
}

fn named(word: u64) -> Option<u64> {
    (word & 0xffff).checked_sub(1).filter(|stage| *stage < STAGES)
}

fn stages(plane: &Plane) -> Option<&Region> {
    plane.log.as_ref()?.stages.as_ref()
}

fn both(plane: &Plane) -> Option<(&Log, &Region)> {
    let log = plane.log.as_ref()?;
    Some((log, log.stages.as_ref()?))
}

/// Reads bytes of the data wherever they are: in memory, in the file, or in a stage. `read` is called again when the
/// stage was given up meanwhile; what it returned before is then worth nothing.
#[inline]
pub fn read_at<T>(plane: &Plane, offset: u64, mut read: impl FnMut(&Region, u64) -> T) -> T {
    let Some(stages) = stages(plane) else { return read(&plane.data, offset) };
    let word = plane.stage_of(offset / SEGMENT_BYTES);
    loop {
        // Acquire: what was in the stage is in the file when the word has gone.
        let seen = word.load(Ordering::Acquire);
        let Some(stage) = named(seen) else { return read(&plane.data, offset) };
        let got = read(stages, place(stage) + offset % SEGMENT_BYTES);
        // Pairs with the fence in `take`: who saw bytes of the stage's next segment sees the word changed.
        fence(Ordering::Acquire);
        if word.load(Ordering::Relaxed) == seen || broken::is(Twin::ReadsStageOnce) {
            return got;
        }
    }
}

/// Gives a segment that was just opened, whose lock the caller holds, a stage; none when there is none free.
pub fn take(plane: &Plane, me: &Process, segment: u64) -> Option<u64> {
    let stages = stages(plane)?;
    let count = (plane.bytes_max() / PART / SEGMENT_BYTES).min(STAGES);
    let free = |stage: &u64| words(stages, *stage).segment.load(Ordering::Relaxed) == 0;
    if !(0..count).any(|stage| free(&stage)) {
        (0..count).for_each(|stage| tidy(plane, me, stage));
    }
    for stage in (0..count).filter(free) {
        let at = words(stages, stage);
        let Some(mine) = try_lock(plane, me, at.lock) else { continue };
        // No room for it is no reason to fail: then each record goes to the file at once.
        let taken = free(&stage) && stages.back(place(stage), SEGMENT_BYTES).is_ok();
        if taken {
            at.complete.store(0, Ordering::Relaxed);
            at.written.store(0, Ordering::Relaxed);
            at.segment.store(segment + 1, Ordering::SeqCst);
            // Before the first byte: pairs with the fence in `read_at`.
            fence(Ordering::Release);
            plane.stage_of(segment).store(name(plane, segment, stage), Ordering::SeqCst);
        }
        unlock(at.lock, mine);
        if taken {
            return Some(stage);
        }
    }
    None
}

/// Puts a record into the stage of a segment whose lock the caller holds; `next` is the granule behind it.
pub fn put(stages: &Region, stage: u64, record: &Record<'_>, next: u64) {
    let at = place(stage) + record.offset % SEGMENT_BYTES;
    stages.write(at, record.head.as_flattened());
    stages.write(at + RECORD_HEAD_BYTES, record.rest);
    words(stages, stage).complete.store(next, Ordering::Release);
}

/// Brings what is complete to the file, if it is much. Does nothing while someone else is at it.
///
/// # Errors
///
/// Those of the file; then it is tried again with the next portion, and by the next sync.
pub fn write_out(plane: &Plane, me: &Process, stage: u64) -> Result<()> {
    let Some(stages) = stages(plane) else { return Ok(()) };
    let at = words(stages, stage);
    let waiting = at.complete.load(Ordering::Relaxed).saturating_sub(at.written.load(Ordering::Relaxed));
    if waiting * GRANULE_BYTES < PORTION {
        return Ok(());
    }
    let Some(mine) = try_lock(plane, me, at.lock) else { return Ok(()) };
    let written = write_under(plane, stage, mine, false);
    unlock(at.lock, mine);
    written
}

/// The same for whoever has the lock of the stage, however little it is; `last`: nobody writes there after this.
fn write_under(plane: &Plane, stage: u64, _held: Lock, last: bool) -> Result<()> {
    let Some((log, stages)) = both(plane) else { return Ok(()) };
    let at = words(stages, stage);
    let Some(segment) = at.segment.load(Ordering::SeqCst).checked_sub(1) else { return Ok(()) };
    let (from, to) = (at.written.load(Ordering::Relaxed), at.complete.load(Ordering::Acquire));
    let (from, to) = (from * GRANULE_BYTES, (to * GRANULE_BYTES).min(SEGMENT_BYTES));
    if from >= to {
        return Ok(());
    }
    let mut bytes = Vec::new();
    stages.read(place(stage) + from, (to - from) as usize, &mut bytes);
    log.file.write(&bytes, segment * SEGMENT_BYTES + from)?;
    at.written.store(to / GRANULE_BYTES, Ordering::Release);
    // What is not begun with here is for the sync: many pages would keep it, and this processor, busy for a while, and the
    // last page of each segment, each on its own, too. But a page that is still written to would go to the disk twice.
    if last || to - from >= PORTION {
        let (first, end) =
            (from - from % PAGE_BYTES, if last { to.next_multiple_of(PAGE_BYTES) } else { to - to % PAGE_BYTES });
        flush::begin_write_back(plane, log, segment * SEGMENT_BYTES + first, end - first);
    }
    Ok(())
}

/// Zeroes the first word of a record that was given up. True when it is to be zeroed in the file, too.
pub fn invalidate(plane: &Plane, me: &Process, offset: u64) -> bool {
    let Some(stages) = stages(plane) else { return plane.log.is_some() };
    let (word, within) = (plane.stage_of(offset / SEGMENT_BYTES), offset % SEGMENT_BYTES);
    let Some(stage) = named(word.load(Ordering::SeqCst)) else { return true };
    let at = words(stages, stage);
    let Locked::Ours(mine) = lock(plane, me, at.lock, LOCK_MAX, || true) else { return true };
    let staged = named(word.load(Ordering::SeqCst)) == Some(stage);
    if staged {
        stages.word(place(stage) + within).store(0, Ordering::Relaxed);
    }
    let written = at.written.load(Ordering::Relaxed) * GRANULE_BYTES > within;
    unlock(at.lock, mine);
    written || !staged
}

/// Takes the stage of a segment away after bringing the rest of it to the file. False, and nothing happens, while someone
/// else is writing from it or the file takes no more. The caller holds the segment's lock.
pub fn give_up(plane: &Plane, me: &Process, segment: u64) -> bool {
    let Some(stages) = stages(plane) else { return true };
    let word = plane.stage_of(segment);
    let Some(stage) = named(word.load(Ordering::SeqCst)) else { return true };
    let at = words(stages, stage);
    let Some(mine) = try_lock(plane, me, at.lock) else { return false };
    let ours = at.segment.load(Ordering::SeqCst) == segment + 1;
    if broken::is(Twin::GivesUpUnwritten) {
        word.store(0, Ordering::SeqCst);
    }
    let written = if ours { write_under(plane, stage, mine, true) } else { Ok(()) };
    if let Err(error) = &written {
        log::error!("sessions of the last moments are not on the disk: {error:#}");
    } else {
        word.store(0, Ordering::SeqCst);
        if ours {
            at.segment.store(0, Ordering::SeqCst);
        }
    }
    unlock(at.lock, mine);
    written.is_ok()
}

/// Brings what is complete in all stages to the file, before a sync of it. False when one of them is being written by
/// someone who does not come to an end.
///
/// # Errors
///
/// Those of the file.
pub fn write_all(plane: &Plane, me: &Process, wait_max: Duration) -> Result<bool> {
    let Some(stages) = stages(plane) else { return Ok(true) };
    let (start, mut all) = (Instant::now(), true);
    for stage in 0..STAGES {
        let at = words(stages, stage);
        if at.segment.load(Ordering::SeqCst) == 0 {
            continue;
        }
        let left = wait_max.saturating_sub(start.elapsed());
        let Locked::Ours(mine) = lock(plane, me, at.lock, left, || true) else {
            all = false;
            continue;
        };
        let written = write_under(plane, stage, mine, false);
        unlock(at.lock, mine);
        written?;
        tidy(plane, me, stage);
    }
    Ok(all)
}

/// Takes a stage away from a segment that nobody appends to any more, or that does not know of it.
fn tidy(plane: &Plane, me: &Process, stage: u64) {
    let Some(stages) = stages(plane) else { return };
    let at = words(stages, stage);
    let Some(segment) = at.segment.load(Ordering::SeqCst).checked_sub(1) else { return };
    if segment >= plane.segment_count() {
        return;
    }
    let lock = plane.segment(segment).1;
    // Of who is not known to be dead: to find that out takes system calls.
    if Lock(lock.load(Ordering::SeqCst)).owner().is_some_and(|owner| !was_recovered(plane, owner)) {
        return;
    }
    let Some(mine) = try_lock(plane, me, lock) else { return };
    if named(plane.stage_of(segment).load(Ordering::SeqCst)) == Some(stage) {
        give_up(plane, me, segment);
    } else if let Some(taken) = try_lock(plane, me, at.lock) {
        // Its taker was killed before the segment knew of it, or its giver before it was free.
        at.segment.cas(segment + 1, 0);
        unlock(at.lock, taken);
    }
    unlock(lock, mine);
}

/// Where the last stage ends that belongs to a segment.
pub fn end(stages: &Region) -> u64 {
    let taken = |stage: &u64| words(stages, *stage).segment.load(Ordering::SeqCst) != 0;
    (0..STAGES).rev().find(taken).map_or(0, |last| place(last + 1))
}

/// The lock of a stage.
#[cfg(test)]
pub fn lock_of(plane: &Plane, stage: u64) -> Option<&Word> {
    stages(plane).map(|stages| words(stages, stage).lock)
}

/// Whether a segment names a stage that is its own, for `verify`.
pub fn belongs(plane: &Plane, segment: u64) -> bool {
    let Some(stages) = stages(plane) else { return true };
    let word = plane.stage_of(segment).load(Ordering::SeqCst);
    if word == 0 {
        return true;
    }
    let Some(stage) = named(word) else { return false };
    let at = words(stages, stage);
    let (written, complete) = (at.written.load(Ordering::SeqCst), at.complete.load(Ordering::SeqCst));
    let belongs = at.segment.load(Ordering::SeqCst) == segment + 1 && written <= complete;
    belongs || plane.stage_of(segment).load(Ordering::SeqCst) != word
}

/// What a sync says when somebody does not let go of a stage.
pub fn busy() -> Error {
    Error::new(ErrorKind::Io, "another process is writing sessions to the disk and does not come to an end")
        .advice("look at that process and at the disk")
}
