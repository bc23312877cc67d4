//! The reserve of the log: segments that have their room on the disk and that commits do not use, so that on a full disk
//! somebody can still log out, and compaction has somewhere to move to.
//!
//! Invariants: a commit opens a segment only while more than the reserve is left without a use; a tombstone only while
//! there is one more for who makes room, and one process does that at a time; so what is left without a use never shrinks for
//! good, except by tombstones, and a tombstone takes no more than what it buries. docs/engine.md, "On a disk".

use std::time::Duration;

use sessile_core::{ErrorKind, Result};

use crate::disklog::Log;
use crate::layout::{SEGMENT_BYTES, header};
use crate::plane::Plane;
use crate::process::{Process, slot, thread_cpu};
use crate::segment::{Use, state};
use crate::sync::Ordering;

/// So many segments, and one part of all: when tombstones have used that up, about one part of the others is free, and
/// compaction finds something to gain.
const RESERVE: u64 = 4;
const RESERVE_PART: u64 = 64;
/// Segments for which room on the disk is made at a time.
const ALLOCATE: u64 = 16;
/// So many segments below the limit are left to the control plane.
const SLACK: u64 = 2;

/// How long a call makes room that has met a full log; and one that should not be refused, which may gain little at a time.
pub const ROOM_TIME_MAX: Duration = Duration::from_millis(50);
const ROOM_TIME_MAX_TOMBSTONE: Duration = Duration::from_secs(2);

/// Who claims.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    Commit,
    Touch,
    /// A move of compaction beside other work. Several that are half done could use up all there is, and free nothing.
    Move,
    /// Without it nobody could log out.
    Tombstone,
    /// A move where there is nothing else left: one process at a time, so that what it has begun it can end.
    Room,
}

impl For {
    /// How much of the reserve it leaves to those below.
    pub fn leaves(self, reserve: u64) -> u64 {
        match self {
            For::Commit => reserve,
            For::Touch | For::Move => reserve / 2,
            For::Tombstone => (reserve / 4).max(1),
            For::Room => 0,
        }
    }

    /// How long a call makes room for it.
    pub fn room_time_max(self) -> Duration {
        if self == For::Tombstone { ROOM_TIME_MAX_TOMBSTONE } else { ROOM_TIME_MAX }
    }
}

/// Segments that are kept.
pub fn reserve(plane: &Plane) -> u64 {
    RESERVE + plane.segment_count() / RESERVE_PART
}

/// Whether there is a segment without a use for this purpose. Room behind the last segment is made if need be.
///
/// # Errors
///
/// `Io`.
pub fn has_room(plane: &Plane, me: &Process, log: &Log, purpose: For) -> Result<bool> {
    let least = purpose.leaves(reserve(plane));
    let mut ahead = ahead(plane, log)?;
    while ahead <= least {
        match grow(plane, me, log, purpose)? {
            0 => return Ok(ahead + emptied(plane, least + 1 - ahead) > least),
            more => ahead += more,
        }
    }
    Ok(true)
}

/// Whether what is left after one was taken is what this purpose leaves to others.
///
/// # Errors
///
/// `Io`.
pub fn is_left(plane: &Plane, log: &Log, purpose: For) -> Result<bool> {
    let (ahead, least) = (ahead(plane, log)?, purpose.leaves(reserve(plane)));
    Ok(ahead >= least || ahead + emptied(plane, least - ahead) >= least)
}

/// Whether less than the reserve is left without a use, or just that. Then what is claimed of it is shared.
///
/// # Errors
///
/// `Io`.
pub fn is_touched(plane: &Plane, log: &Log) -> Result<bool> {
    let (ahead, reserve) = (ahead(plane, log)?, reserve(plane));
    Ok(ahead <= reserve && ahead + emptied(plane, reserve + 1 - ahead) <= reserve)
}

/// How many emptied segments stand in for what is missing behind the last one, and are not given back.
pub fn missing(plane: &Plane) -> u64 {
    let ahead = plane.log.as_ref().and_then(|log| ahead(plane, log).ok());
    reserve(plane).saturating_sub(ahead.unwrap_or(0))
}

/// Whether what a file of so many segments has behind the last one with records is about a reserve and has its room.
pub fn is_behind(plane: &Plane, log: &Log, length: u64) -> bool {
    let last = plane.segment_count();
    let behind = length.saturating_sub(last);
    behind > 0
        && behind <= reserve(plane) + ALLOCATE
        && log.file.allocate(last * SEGMENT_BYTES, behind * SEGMENT_BYTES).is_ok()
}

/// Segments that have room behind the last one.
///
/// # Errors
///
/// `Io`.
pub fn ahead(plane: &Plane, log: &Log) -> Result<u64> {
    Ok((log.file.length()? / SEGMENT_BYTES).saturating_sub(plane.segment_count()))
}

/// Emptied segments, at most so many. Also those that wait for a sync: who needs one can have it.
fn emptied(plane: &Plane, most: u64) -> u64 {
    let count = plane.segment_count();
    // Behind the one that compaction has come to: there it has just emptied some.
    let last = plane.header(header::COMPACTION).load(Ordering::Relaxed) % count.max(1);
    let all = (0..count).map(|step| (last + count - step) % count);
    all.filter(|segment| state(plane, *segment).usage() == Use::Emptied).take(most as usize).count() as u64
}

/// Makes room for segments at the end of the file: some at a time as long as the limit is far, else for one. Returns for
/// how many.
fn grow(plane: &Plane, me: &Process, log: &Log, purpose: For) -> Result<u64> {
    let start = thread_cpu();
    let first = (log.file.length()? / SEGMENT_BYTES).max(plane.segment_count());
    let occupied = plane.occupied();
    let slack = if purpose == For::Commit { SLACK } else { 0 };
    for (more, distance) in [(ALLOCATE, 4 * ALLOCATE), (1, 1 + slack)] {
        if occupied + distance * SEGMENT_BYTES > plane.bytes_max() || first + more > plane.segments_max() {
            continue;
        }
        match log.file.allocate(first * SEGMENT_BYTES, more * SEGMENT_BYTES) {
            Ok(()) => {
                me.count_cpu(plane, slot::GROWTH_NS_MOST, start);
                return Ok(more);
            }
            Err(error) if *error.kind() == ErrorKind::Full => {}
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}
