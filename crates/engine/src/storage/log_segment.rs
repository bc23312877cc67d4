//! Segments of the log: how a process gets one to append to, and how its room is given back.
//!
//! Invariants: a process appends only to segments whose lock it holds; a segment is used again only
//! after its replaced records are synced.

use std::cell::Cell;
use std::time::Duration;

use sessile_core::{ErrorKind, Result};

use super::flush::BackgroundSync;
use super::reserve::ClaimPurpose;
use super::segment::{SegmentState, SegmentUse};
use crate::{memory::*, table::*};

const SEARCH_MAX: u64 = 512;
/// When this part of the searched segments, and some, wait for a sync, it comes early; with three
/// times as many, the writer waits for it.
const WAITING_PART: u64 = 4;
const WAITING_LEAST: u64 = 32;
pub const WRITE_BACK_PORTION: u64 = 64 << 10;
const SHARED_WAIT_MAX: Duration = Duration::from_millis(20);

pub struct OpenSegment {
    pub segment: u64,
    pub next: u64,
    lock: LockWord,
    /// How many syncs had begun at the last append.
    syncs: u64,
    /// The disk was asked to begin with the granules before this one.
    begun: u64,
    /// Of the reserve, and shared: each process keeps it for one claim.
    pub shared: bool,
}

impl OpenSegment {
    fn new(plane: &Plane, segment: u64, next: u64, lock: LockWord) -> OpenSegment {
        let syncs = plane.header(header::SYNCS_BEGUN).load(Relaxed);
        OpenSegment { segment, next, lock, syncs, begun: next, shared: false }
    }

    /// Leaves a page that the kernel may be writing to the disk: a write would wait for that.
    pub fn leave_page(&mut self, plane: &Plane) {
        let syncs = plane.header(header::SYNCS_BEGUN).load(Relaxed);
        if self.syncs != syncs {
            self.syncs = syncs;
            self.next = self.next.next_multiple_of(PAGE_BYTES / GRANULE_BYTES);
        }
    }

    pub fn close(mut self, plane: &Plane) {
        self.begin_write_back(plane, PAGE_BYTES);
        plane.segment(self.segment).lock.unlock(self.lock);
    }

    /// Nothing was appended: the earlier content may be overwritten as before.
    fn put_back(self, plane: &Plane) {
        let words = plane.segment(self.segment);
        let syncs = plane.header(header::SYNCS_DONE).load(SeqCst);
        let seen = SegmentState(words.state.load(SeqCst));
        words.syncs.store(syncs.saturating_sub(1), SeqCst);
        words.state.cas(seen.0, seen.next(SegmentUse::Emptied, seen.class()).0);
        self.close(plane);
    }

    /// Lets the disk begin with whole pages, from so many bytes on: a sync of the pages of a whole
    /// interval keeps the disk and this processor busy for milliseconds.
    pub fn begin_write_back(&mut self, plane: &Plane, bytes_min: u64) {
        let Some(log) = plane.log.as_ref().filter(|log| log.sync != SyncMode::Never) else {
            return;
        };
        let bytes = (self.next - self.begun) * GRANULE_BYTES;
        if bytes >= bytes_min {
            let whole = bytes - bytes % PAGE_BYTES;
            let offset = self.segment * SEGMENT_BYTES + self.begun * GRANULE_BYTES;
            plane.hint_write_back(log, offset, whole);
            self.begun += whole / GRANULE_BYTES;
        }
    }
}

#[derive(Clone, Copy)]
pub struct SegmentRequest<'a> {
    pub plane: &'a Plane,
    pub me: &'a AttachedProcess,
    pub background_sync: &'a BackgroundSync,
    pub class: u64,
    pub granules: u64,
    pub purpose: ClaimPurpose,
}

impl SegmentRequest<'_> {
    /// A segment that another process has left, the shared one, an emptied one, or a new one.
    pub fn open(self) -> Result<OpenSegment> {
        let SegmentRequest { plane, me, purpose, .. } = self;
        if let Some(left) = self.left_by_another() {
            return Ok(left);
        }
        let log = plane.log.as_ref().ok_or_else(full)?;
        if matches!(purpose, ClaimPurpose::Tombstone | ClaimPurpose::Room)
            && let Some(shared) = self.shared()
        {
            return Ok(shared);
        }
        if !me.has_room(plane, log, purpose)? {
            return Err(full());
        }
        let shares = purpose != ClaimPurpose::Commit && plane.is_reserve_touched(log)?;
        if shares && let Some(shared) = self.shared() {
            return Ok(shared);
        }
        let opened = self.take_unused(shares)?;
        // Several processes may have seen the last one that they may take.
        if plane.leaves_enough(log, purpose)? {
            return Ok(opened);
        }
        opened.put_back(plane);
        Err(full())
    }

    fn left_by_another(self) -> Option<OpenSegment> {
        let SegmentRequest { plane, me, class, .. } = self;
        let hint = plane.header(header::PARTIAL + (class - LOG) * 8);
        let left = hint.load(Relaxed);
        let segment = left.checked_sub(1).filter(|segment| *segment < plane.segment_count())?;
        if !hint.cas(left, 0) {
            return None;
        }
        let mine = me.try_lock(plane, plane.segment(segment).lock)?;
        me.go_on(plane, segment, class, mine)
    }

    fn shared(self) -> Option<OpenSegment> {
        let SegmentRequest { plane, me, granules, .. } = self;
        let segment = plane.shared_segment()?;
        // Its holder is done in a moment; a stopped holder costs the others one wait.
        let lock = plane.segment(segment).lock;
        let LockAttempt::Acquired(mine) = me.lock_within(plane, lock, SHARED_WAIT_MAX, || true)
        else {
            return None;
        };
        let open = me.go_on(plane, segment, LOG, mine)?;
        if open.next + granules > SLOTS_MAX {
            open.close(plane);
            return None;
        }
        Some(OpenSegment { shared: true, ..open })
    }

    fn take_unused(self, shares: bool) -> Result<OpenSegment> {
        let SegmentRequest { plane, me, class, .. } = self;
        let start = thread_cpu();
        // Without room for another segment; emptied ones that wait for a sync.
        let (no_room, waiting) = (Cell::new(false), Cell::new(0));
        let first_of = |segments: &mut dyn Iterator<Item = u64>| {
            for segment in segments {
                let usage = plane.segment_state(segment).usage();
                if usage == SegmentUse::Unbacked && no_room.get() {
                    continue;
                }
                match me.prepare(plane, segment, class, shares) {
                    Ok(None) if usage == SegmentUse::Emptied => waiting.set(waiting.get() + 1),
                    Ok(None) => {}
                    // From now on only a segment that still has its room will do.
                    Err(error) if *error.kind() == ErrorKind::Full => no_room.set(true),
                    found => return found,
                }
            }
            Ok(None)
        };
        let count = plane.segment_count();
        let latest = count.min(SEARCH_MAX);
        // Then on in a shared circle: emptied segments lie anywhere.
        let more = (count - latest).min(SEARCH_MAX);
        let cursor = plane.header(header::CURSORS + class * 8);
        let circle = (0..more).map(|_| cursor.add(1) % count);
        let mut nearest = plane.latest_first().take(latest as usize).chain(circle);
        if let Some(open) = first_of(&mut nearest)? {
            return Ok(open);
        }
        let (waiting, searched) = (waiting.get(), latest + more);
        if waiting >= WAITING_LEAST * 2 + searched / WAITING_PART * 3 {
            // The disk does not keep up, and the log must not grow without bound.
            me.sync_log(plane)?;
        } else if waiting >= WAITING_LEAST + searched / WAITING_PART {
            // Much is written between two syncs: rather a sync more than twice the room.
            self.background_sync.sync_early(plane, me);
        }
        let log = plane.log.as_ref().ok_or_else(full)?;
        while plane.segments_ahead(log)? > 0 {
            if let Some(open) = me.prepare(plane, plane.add_segment()?, class, shares)? {
                me.count_cpu(plane, process_word::GROWTH_NS_MOST, start);
                return Ok(open);
            }
        }
        // The log cannot grow: once over all segments.
        let mut rest = if count > searched { 0..count } else { 0..0 };
        first_of(&mut rest)?.ok_or_else(full)
    }
}

impl Plane {
    /// The segment of the reserve that notes and moves share; compaction leaves it alone.
    pub fn shared_segment(&self) -> Option<u64> {
        let segment = self.header(header::SHARED).load(Relaxed).checked_sub(1)?;
        let full = segment >= self.segment_count()
            || self.segment(segment).appended.load(Acquire) >= SLOTS_MAX;
        (!full).then_some(segment)
    }

    /// Whether the records that replaced those of an emptied segment are on the disk.
    fn is_reusable(&self, segment: u64) -> bool {
        let emptied = self.segment(segment).syncs.load(SeqCst);
        let done = self.header(header::SYNCS_DONE).load(SeqCst);
        self.header(header::SYNCED).load(Relaxed) == 0
            || done + u64::from(mutated(Mutation::ReusesUnsynced)) > emptied
    }

    /// Gives a segment without a use its room, which an emptied one still has.
    fn back_segment(&self, segment: u64, seen: SegmentState) -> Result<()> {
        let Some(log) = &self.log else { return Err(full()) };
        if seen.usage() == SegmentUse::Emptied {
            return Ok(());
        }
        self.stamps.back(segment * STAMPS_BYTES, STAMPS_BYTES)?;
        // Room that was allocated ahead at the end of the file is counted already.
        let never_used = segment >= self.segment_count() || seen.0 == 0;
        let counted = never_used && log.file.length()? >= (segment + 1) * SEGMENT_BYTES;
        if !counted && !self.may_grow(SEGMENT_BYTES) {
            return Err(full());
        }
        log.file.allocate(segment * SEGMENT_BYTES, SEGMENT_BYTES)
    }
}

impl AttachedProcess {
    /// Goes on behind the last append, under the lock `mine`, or gives that back.
    fn go_on(
        &self,
        plane: &Plane,
        segment: u64,
        class: u64,
        mine: LockWord,
    ) -> Option<OpenSegment> {
        let words = plane.segment(segment);
        let seen = SegmentState(words.state.load(SeqCst));
        let next = words.appended.load(Acquire);
        if seen.is_open_for(class) && next < SLOTS_MAX {
            return Some(OpenSegment::new(plane, segment, next, mine));
        }
        words.lock.unlock(mine);
        None
    }

    /// Keeps the lock; `None` when the segment has a use.
    fn prepare(
        &self,
        plane: &Plane,
        segment: u64,
        class: u64,
        shared: bool,
    ) -> Result<Option<OpenSegment>> {
        let usable = |state: SegmentState| match state.usage() {
            SegmentUse::Unbacked => true,
            SegmentUse::Emptied => plane.is_reusable(segment),
            _ => false,
        };
        let words = plane.segment(segment);
        if !usable(SegmentState(words.state.load(SeqCst))) {
            return Ok(None);
        }
        let Some(mine) = self.try_lock(plane, words.lock) else { return Ok(None) };
        let seen = SegmentState(words.state.load(SeqCst));
        let backed =
            if usable(seen) { plane.back_segment(segment, seen).map(|()| true) } else { Ok(false) };
        if !matches!(backed, Ok(true)) {
            words.lock.unlock(mine);
            return backed.map(|_| None);
        }
        (0..SLOTS_MAX).for_each(|granule| plane.stamp(segment, granule).store(0, Relaxed));
        for word in [words.appended, words.writing, words.sealed] {
            word.store(0, Relaxed);
        }
        words.state.cas(seen.0, seen.next(SegmentUse::Open, class).0);
        if shared {
            plane.header(header::SHARED).store(segment + 1, Relaxed);
        }
        Ok(Some(OpenSegment { shared, ..OpenSegment::new(plane, segment, 0, mine) }))
    }

    pub fn give_back(&self, plane: &Plane, segment: u64) {
        let Some(log) = &plane.log else { return };
        self.under_segment_lock(plane, segment, |word, seen| {
            if seen.usage() == SegmentUse::Emptied && plane.is_reusable(segment) {
                // First the state: an emptied segment without its room would be written into.
                word.cas(seen.0, seen.next(SegmentUse::Unbacked, seen.class()).0);
                log.file.punch(segment * SEGMENT_BYTES, SEGMENT_BYTES);
            }
        });
    }
}
