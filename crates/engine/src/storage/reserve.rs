//! The reserve of the log: segments with room on the disk that commits do not use, so that a log-
//! out succeeds on a full disk, and compaction has somewhere to move to. DESIGN.md, "On a
//! disk".

use std::time::Duration;

use sessile_core::{ErrorKind, Result};

use super::segment::SegmentUse;
use crate::{memory::*, table::*};

/// The reserve: so many segments, and one part of all. When tombstones have used that up, about one
/// part of the others is free for compaction to gain.
const RESERVE: u64 = 4;
const RESERVE_PART: u64 = 64;
const ALLOCATE: u64 = 16;
/// Segments below the limit that are left to the control plane.
const SLACK: u64 = 2;

/// How long a call that has met a full log makes room, and one that writes a tombstone.
pub const ROOM_TIME_MAX: Duration = Duration::from_millis(50);
const ROOM_TIME_MAX_TOMBSTONE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ClaimPurpose {
    Commit,
    Touch,
    /// Several half-done moves could use up all room and free none.
    Move,
    /// Without it no session could log out.
    Tombstone,
    /// A move when nothing else is left, by one process at a time.
    Room,
}

impl ClaimPurpose {
    /// What it leaves to those below.
    fn leaves(self, reserve: u64) -> u64 {
        match self {
            ClaimPurpose::Commit => reserve,
            ClaimPurpose::Touch | ClaimPurpose::Move => reserve / 2,
            ClaimPurpose::Tombstone => (reserve / 4).max(1),
            ClaimPurpose::Room => 0,
        }
    }

    pub fn room_time_max(self) -> Duration {
        if self == ClaimPurpose::Tombstone { ROOM_TIME_MAX_TOMBSTONE } else { ROOM_TIME_MAX }
    }
}

impl Plane {
    fn reserve(&self) -> u64 {
        RESERVE + self.segment_count() / RESERVE_PART
    }

    /// Whether more than `least` segments are without a use: room behind the last segment, or
    /// emptied.
    fn has_more_than(&self, ahead: u64, least: u64) -> bool {
        ahead > least || ahead + self.emptied(least + 1 - ahead) > least
    }

    /// Whether the segments left after one was taken are those that this purpose leaves to others.
    pub fn leaves_enough(&self, log: &DiskLog, purpose: ClaimPurpose) -> Result<bool> {
        let (ahead, least) = (self.segments_ahead(log)?, purpose.leaves(self.reserve()));
        Ok(least == 0 || self.has_more_than(ahead, least - 1))
    }

    /// Whether at most the reserve is left without a use. Then claims from it share a segment.
    pub fn is_reserve_touched(&self, log: &DiskLog) -> Result<bool> {
        Ok(!self.has_more_than(self.segments_ahead(log)?, self.reserve()))
    }

    /// Emptied segments that are kept for what is missing behind the last one.
    pub fn missing_reserve(&self) -> u64 {
        let ahead = self.log.as_ref().and_then(|log| self.segments_ahead(log).ok());
        self.reserve().saturating_sub(ahead.unwrap_or(0))
    }

    pub fn ends_in_reserve(&self, log: &DiskLog, length: u64) -> bool {
        let last = self.segment_count();
        let behind = length.saturating_sub(last);
        behind > 0
            && behind <= self.reserve() + ALLOCATE
            && log.file.allocate(last * SEGMENT_BYTES, behind * SEGMENT_BYTES).is_ok()
    }

    pub fn segments_ahead(&self, log: &DiskLog) -> Result<u64> {
        Ok((log.file.length()? / SEGMENT_BYTES).saturating_sub(self.segment_count()))
    }

    /// Also those that wait for a sync: a process that needs one can sync.
    fn emptied(&self, most: u64) -> u64 {
        let emptied = self
            .latest_first()
            .filter(|segment| self.segment_state(*segment).usage() == SegmentUse::Emptied);
        emptied.take(most as usize).count() as u64
    }

    /// All segments, back from where compaction is: there it has just emptied some.
    pub fn latest_first(&self) -> impl Iterator<Item = u64> {
        let count = self.segment_count();
        let last = self.header(header::COMPACTION).load(Relaxed) % count.max(1);
        (0..count).map(move |step| (last + count - step) % count)
    }
}

impl AttachedProcess {
    pub fn has_room(&self, plane: &Plane, log: &DiskLog, purpose: ClaimPurpose) -> Result<bool> {
        let least = purpose.leaves(plane.reserve());
        let mut ahead = plane.segments_ahead(log)?;
        while ahead <= least {
            match self.grow_log(plane, log, purpose)? {
                0 => return Ok(plane.has_more_than(ahead, least)),
                more => ahead += more,
            }
        }
        Ok(true)
    }

    /// Makes room for several segments while the limit is far, else for one. Returns for how many.
    fn grow_log(&self, plane: &Plane, log: &DiskLog, purpose: ClaimPurpose) -> Result<u64> {
        let start = thread_cpu();
        let first = (log.file.length()? / SEGMENT_BYTES).max(plane.segment_count());
        let slack = if purpose == ClaimPurpose::Commit { SLACK } else { 0 };
        for (more, distance) in [(ALLOCATE, 4 * ALLOCATE), (1, 1 + slack)] {
            if !plane.may_grow(distance * SEGMENT_BYTES) || first + more > plane.segments_max() {
                continue;
            }
            match log.file.allocate(first * SEGMENT_BYTES, more * SEGMENT_BYTES) {
                Ok(()) => {
                    self.count_cpu(plane, process_word::GROWTH_NS_MOST, start);
                    return Ok(more);
                }
                Err(error) if *error.kind() == ErrorKind::Full => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }
}
