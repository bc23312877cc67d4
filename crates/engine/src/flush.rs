//! Durability of the log: when what was written is brought to the disk, and by whom.
//!
//! Invariants: the time of the oldest unsynced write is noted after the write and taken away before a sync begins,
//! so it may be too early and never too late; a sync counts as done only if it ended well and nothing failed before
//! it that was not written again. docs/engine.md, "On a disk".

use std::time::Duration;

use sessile_core::{Error, ErrorKind, Result, Timestamp};

use crate::class::{is_log, slots};
use crate::disklog::{LINE_BYTES, Log, parse};
use crate::layout::{GRANULE_BYTES, SEGMENT_BYTES, header};
use crate::lock::{Locked, lock, try_lock, unlock};
use crate::plane::Plane;
use crate::process::Process;
use crate::segment::{Use, is_claim, location, state};
use crate::sync::Ordering;

/// How long an explicit sync waits for one that is under way.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Notes that something was written.
pub fn note_write(plane: &Plane) {
    let since = plane.header(header::DIRTY_SINCE);
    if since.load(Ordering::SeqCst) == 0 {
        since.cas(0, plane.now().as_ms().max(1));
    }
}

/// The oldest write that is not on the disk.
pub fn dirty_since(plane: &Plane) -> Option<Timestamp> {
    let since = plane.header(header::DIRTY_SINCE).load(Ordering::Relaxed);
    (since != 0).then_some(Timestamp::from_ms(since))
}

/// Syncs if the interval is over and nobody else is at it.
pub fn sync_if_due(plane: &Plane, me: &Process, now: Timestamp) {
    let interval_ms = plane.log.as_ref().map_or(0, |log| log.interval_ms);
    let age = |since: Timestamp| now.as_ms().saturating_sub(since.as_ms());
    let due = interval_ms > 0 && dirty_since(plane).is_some_and(|since| age(since) >= interval_ms);
    if !due {
        return;
    }
    sync_unless_busy(plane, me);
}

/// Syncs unless someone is at it; true when that ended well.
pub fn sync_unless_busy(plane: &Plane, me: &Process) -> bool {
    let Some(log) = &plane.log else { return false };
    let word = plane.header(header::SYNC_LOCK);
    let Some(mine) = try_lock(plane, me, word) else { return false };
    let synced = sync_locked(plane, log);
    unlock(word, mine);
    if let Err(error) = &synced {
        log::error!("sessions of the last seconds may be lost if the power fails now: {error:#}");
    }
    synced.is_ok()
}

/// Brings everything to the disk that was written before the call.
///
/// # Errors
///
/// `Io`.
pub fn sync(plane: &Plane, me: &Process) -> Result<()> {
    let Some(log) = &plane.log else { return Ok(()) };
    let word = plane.header(header::SYNC_LOCK);
    let Locked::Ours(mine) = lock(plane, me, word, WAIT_MAX, || true) else {
        let error = Error::new(ErrorKind::Io, "another process is syncing the store and does not come to an end");
        return Err(error.advice("look at that process and at the disk"));
    };
    let synced = sync_locked(plane, log);
    unlock(word, mine);
    synced
}

fn sync_locked(plane: &Plane, log: &Log) -> Result<()> {
    let (since, failed) = (plane.header(header::DIRTY_SINCE), plane.header(header::SYNC_FAILED));
    let number = plane.header(header::SYNCS_BEGUN).add(1) + 1;
    let oldest = since.load(Ordering::SeqCst);
    if oldest != 0 {
        since.cas(oldest, 0);
    }
    let attempt = || {
        if failed.load(Ordering::SeqCst) != 0 {
            write_again(plane, log)?;
        }
        log.file.sync()
    };
    match attempt() {
        Ok(()) => {
            failed.store(0, Ordering::SeqCst);
            plane.header(header::SYNCS_DONE).raise(number);
            Ok(())
        }
        Err(error) => {
            failed.store(1, Ordering::SeqCst);
            if oldest != 0 {
                since.store(oldest, Ordering::SeqCst);
            }
            Err(error)
        }
    }
}

/// Writes every record again that is complete. The kernel may have dropped what it could not bring to the disk, or
/// say that it is there; while no sync has ended well no segment is reused, so records stay what they are.
fn write_again(plane: &Plane, log: &Log) -> Result<()> {
    let mut bytes = vec![0; SEGMENT_BYTES as usize];
    for segment in 0..plane.segment_count() {
        let seen = state(plane, segment);
        if !is_log(seen.class()) || matches!(seen.usage(), Use::Unbacked | Use::Emptied) {
            continue;
        }
        log.file.read(&mut bytes, segment * SEGMENT_BYTES)?;
        for granule in 0..slots(seen.class()) {
            if !is_claim(plane.stamp(segment, granule).load(Ordering::SeqCst)) {
                continue;
            }
            let place = location(segment, seen.class(), granule);
            let at = (granule * GRANULE_BYTES) as usize;
            if let Some((_, _, length)) = bytes.get(at..).and_then(|bytes| parse(log, bytes, place))
                && let Some(record) = bytes.get(at..at + length)
            {
                log.file.write(record, place.offset() - LINE_BYTES)?;
            }
        }
    }
    Ok(())
}
