//! Stages: mapped copies of the segments that processes are appending to, on a disk.
//!
//! Invariants: bytes below `complete` never change while the stage belongs to its segment; they are
//! in the file before the segment's stage word goes away; they are brought there under the stage's
//! lock. docs/engine.md, "Stages".

use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Result};

use super::log_line::{EncodedRecord, RECORD_HEAD_BYTES};
use crate::{memory::*, table::*};

const STAGE_PORTION: u64 = if cfg!(sessile_model) { 4 * GRANULE_BYTES } else { 64 << 10 };
/// All stages together are at most this part of what the store may occupy.
const STAGES_PART: u64 = 16;
/// A longer wait is a disk in trouble, or a stopped process.
const LOCK_MAX: Duration = Duration::from_millis(100);

struct StageWords<'a> {
    lock: &'a Word,
    /// The segment that it belongs to, + 1; 0: none. Changed under the lock.
    segment: &'a Word,
    /// Granules from the beginning that are complete. Changed by the holder of the segment's lock.
    complete: &'a Word,
    /// Granules from the beginning that are in the file. Changed under the lock.
    written: &'a Word,
}

impl StageWords<'_> {
    fn owner(&self) -> Option<u64> {
        self.segment.load(SeqCst).checked_sub(1)
    }
}

fn stage_words(stages: &Region, stage: u64) -> StageWords<'_> {
    let [lock, segment, complete, written, ..] = stages.line(stage * CACHE_LINE_BYTES);
    StageWords { lock, segment, complete, written }
}

pub fn stage_offset(stage: u64) -> u64 {
    STAGES_AT + stage * SEGMENT_BYTES
}

pub fn stage_segment_at(stage: u64) -> usize {
    (stage * CACHE_LINE_BYTES) as usize + 8
}

impl Plane {
    /// The word that names a stage has the generation, so that it never repeats.
    fn stage_name(&self, segment: u64, stage: u64) -> u64 {
        self.segment_state(segment).generation() << 16 | (stage + 1)
    }

    fn stages(&self) -> Option<&Region> {
        self.log.as_ref()?.stages.as_ref()
    }

    fn stage(&self, stage: u64) -> Option<StageWords<'_>> {
        self.stages().map(|stages| stage_words(stages, stage))
    }

    /// Reads bytes of the data in memory, in the file, or in a stage. `read` is called again when
    /// the stage was given up meanwhile.
    #[inline(always)] // in memory it is one comparison
    pub fn read_at<T>(&self, offset: u64, mut read: impl FnMut(&Region, u64) -> T) -> T {
        let Some(stages) = self.stages() else { return read(&self.data, offset) };
        let word = self.segment(offset / SEGMENT_BYTES).stage;
        loop {
            // Acquire: when the word has gone, the bytes of the stage are in the file.
            let seen = word.load(Acquire);
            let Some(stage) = named_stage(seen) else { return read(&self.data, offset) };
            let got = read(stages, stage_offset(stage) + offset % SEGMENT_BYTES);
            // Pairs with the fence in `take_stage`: a reader that saw bytes of the stage's next
            // segment sees the word changed.
            fence(Acquire);
            if word.load(Relaxed) == seen || mutated(Mutation::ReadsStageOnce) {
                return got;
            }
        }
    }

    /// Under the lock of the stage; `last`: none is added later.
    fn write_under(&self, stage: u64, _held: &LockGuard<'_>, last: bool) -> Result<()> {
        let (Some(log), Some(stages)) = (&self.log, self.stages()) else { return Ok(()) };
        let words = stage_words(stages, stage);
        let Some(segment) = words.owner() else { return Ok(()) };
        let from = words.written.load(Relaxed) * GRANULE_BYTES;
        let to = (words.complete.load(Acquire) * GRANULE_BYTES).min(SEGMENT_BYTES);
        if from >= to {
            return Ok(());
        }
        let mut bytes = Vec::new();
        stages.read(stage_offset(stage) + from, (to - from) as usize, &mut bytes);
        log.file.write(&bytes, segment * SEGMENT_BYTES + from)?;
        words.written.store(to / GRANULE_BYTES, Release);
        // The next sync would be busy with many pages, or the last page of each segment; but a page
        // that is still written to would go to the disk twice.
        if last || to - from >= STAGE_PORTION {
            let first = from - from % PAGE_BYTES;
            let end = if last { to.next_multiple_of(PAGE_BYTES) } else { to - to % PAGE_BYTES };
            self.hint_write_back(log, segment * SEGMENT_BYTES + first, end - first);
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn stage_lock(&self, stage: u64) -> Option<&Word> {
        self.stage(stage).map(|words| words.lock)
    }

    /// Whether a segment names no stage, or one that is its own.
    pub fn has_own_stage(&self, segment: u64) -> bool {
        let name = self.segment(segment).stage;
        let word = name.load(SeqCst);
        if word == 0 {
            return true;
        }
        let stage = named_stage(word).and_then(|stage| self.stage(stage));
        let Some(words) = stage else { return false };
        let written = words.written.load(SeqCst);
        let complete = words.complete.load(SeqCst);
        let own = words.owner() == Some(segment) && written <= complete;
        own || name.load(SeqCst) != word
    }
}

fn named_stage(word: u64) -> Option<u64> {
    (word & 0xffff).checked_sub(1).filter(|stage| *stage < STAGES)
}

impl AttachedProcess {
    pub fn take_stage(&self, plane: &Plane, segment: u64) -> Option<u64> {
        let stages = plane.stages()?;
        let count = (plane.bytes_max() / STAGES_PART / SEGMENT_BYTES).min(STAGES);
        let free = |stage: &u64| stage_words(stages, *stage).segment.load(Relaxed) == 0;
        if !(0..count).any(|stage| free(&stage)) {
            (0..count).for_each(|stage| self.tidy(plane, stage));
        }
        for stage in (0..count).filter(free) {
            let words = stage_words(stages, stage);
            let Some(_held) = self.try_hold(plane, words.lock) else { continue };
            // Without room for it each record goes to the file at once: no reason to fail.
            if free(&stage) && stages.back(stage_offset(stage), SEGMENT_BYTES).is_ok() {
                words.complete.store(0, Relaxed);
                words.written.store(0, Relaxed);
                words.segment.store(segment + 1, SeqCst);
                // Before the first byte: pairs with the fence in `read_at`.
                fence(Release);
                let name = plane.stage_name(segment, stage);
                plane.segment(segment).stage.store(name, SeqCst);
                return Some(stage);
            }
        }
        None
    }

    /// Brings a portion to the file, unless another process is at it.
    pub fn write_portion(&self, plane: &Plane, stage: u64) -> Result<()> {
        let Some(words) = plane.stage(stage) else { return Ok(()) };
        let written = words.written.load(Relaxed);
        let waiting = words.complete.load(Relaxed).saturating_sub(written);
        if waiting * GRANULE_BYTES < STAGE_PORTION {
            return Ok(());
        }
        let Some(held) = self.try_hold(plane, words.lock) else { return Ok(()) };
        plane.write_under(stage, &held, false)
    }

    /// Zeroes the magic of an unpublished record: no rebuild counts it.
    pub fn invalidate(&self, plane: &Plane, location: Location) {
        let Some(log) = plane.log.as_ref().filter(|_| location.within() >= LOG_LINE_BYTES) else {
            return;
        };
        let offset = location.offset() - LOG_LINE_BYTES;
        if self.invalidate_in_stage(plane, offset)
            && let Err(error) = log.file.write(&[0; 8], offset)
        {
            log::warn!("a record that was given up cannot be marked so: {error:#}");
        }
    }

    /// True when the file has to be changed, too.
    fn invalidate_in_stage(&self, plane: &Plane, offset: u64) -> bool {
        let Some(stages) = plane.stages() else { return true };
        let (word, within) = (plane.segment(offset / SEGMENT_BYTES).stage, offset % SEGMENT_BYTES);
        let Some(stage) = named_stage(word.load(SeqCst)) else { return true };
        let words = stage_words(stages, stage);
        let Some(_held) = self.hold(plane, words.lock, LOCK_MAX) else { return true };
        let staged = named_stage(word.load(SeqCst)) == Some(stage);
        if staged {
            stages.word(stage_offset(stage) + within).store(0, Relaxed);
        }
        words.written.load(Relaxed) * GRANULE_BYTES > within || !staged
    }

    /// Brings the rest of a stage to the file and takes it away. False while another process writes
    /// from it or the file takes no more. The caller holds the segment's lock.
    pub fn give_up_stage(&self, plane: &Plane, segment: u64) -> bool {
        let word = plane.segment(segment).stage;
        let Some(stage) = named_stage(word.load(SeqCst)) else { return true };
        let Some(words) = plane.stage(stage) else { return true };
        let Some(held) = self.try_hold(plane, words.lock) else { return false };
        let ours = words.owner() == Some(segment);
        if mutated(Mutation::GivesUpUnwritten) {
            word.store(0, SeqCst);
        }
        let written = if ours { plane.write_under(stage, &held, true) } else { Ok(()) };
        if let Err(error) = &written {
            log::error!("sessions of the last moments are not on the disk: {error:#}");
        } else {
            word.store(0, SeqCst);
            if ours {
                words.segment.store(0, SeqCst);
            }
        }
        written.is_ok()
    }

    /// Before a sync. False when another process keeps a stage.
    pub fn write_all_stages(&self, plane: &Plane, wait_max: Duration) -> Result<bool> {
        let Some(stages) = plane.stages() else { return Ok(true) };
        let (start, mut all) = (Instant::now(), true);
        for stage in 0..STAGES {
            let words = stage_words(stages, stage);
            if words.owner().is_none() {
                continue;
            }
            let left = wait_max.saturating_sub(start.elapsed());
            if let Some(held) = self.hold(plane, words.lock, left) {
                plane.write_under(stage, &held, false)?;
                drop(held);
                self.tidy(plane, stage);
            } else {
                all = false;
            }
        }
        Ok(all)
    }

    /// From a segment that no process appends to, or that does not name it.
    fn tidy(&self, plane: &Plane, stage: u64) {
        let Some(words) = plane.stage(stage) else { return };
        let Some(segment) = words.owner().filter(|segment| *segment < plane.segment_count()) else {
            return;
        };
        let lock = plane.segment(segment).lock;
        // Whether the owner is dead is not asked here: that takes system calls.
        let owner = LockWord(lock.load(SeqCst)).owner();
        if owner.is_some_and(|owner| !plane.was_recovered(owner)) {
            return;
        }
        let Some(_held) = self.try_hold(plane, lock) else { return };
        if named_stage(plane.segment(segment).stage.load(SeqCst)) == Some(stage) {
            self.give_up_stage(plane, segment);
        } else if let Some(_taken) = self.try_hold(plane, words.lock) {
            // A process was killed between naming the segment here and the stage there, or back.
            words.segment.cas(segment + 1, 0);
        }
    }
}

/// The caller holds the segment's lock; `next` is the granule after the record.
pub fn put_in_stage(stages: &Region, stage: u64, record: &EncodedRecord<'_>, next: u64) {
    let at = stage_offset(stage) + record.offset % SEGMENT_BYTES;
    stages.write(at, record.head.as_flattened());
    stages.write(at + RECORD_HEAD_BYTES, record.body);
    stage_words(stages, stage).complete.store(next, Release);
}

pub fn stages_end(stages: &Region) -> u64 {
    let taken = |stage: &u64| stage_words(stages, *stage).owner().is_some();
    (0..STAGES).rev().find(taken).map_or(0, |last| stage_offset(last + 1))
}

pub fn stage_is_busy() -> Error {
    let why = "another process does not finish writing sessions to the disk";
    Error::new(ErrorKind::Io, why).advice("look at that process and at the disk")
}
