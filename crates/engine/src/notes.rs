//! Notes in the log: that a session was destroyed, that a touch has moved an expiry. No entry leads to them.
//!
//! Invariant: a tombstone is written before the state says destroyed, and kept until everything else about its digest
//! has expired; a touch that moves an expiry back, or far, is on its way to the disk before it is acknowledged.

use sessile_core::{Result, Timestamp};

use crate::disklog::{self, Line, Log, Origin, Says, granted, grid_ms};
use crate::index;
use crate::lane::{Claim, Lane};
use crate::plane::{Digest, Entry, Plane};
use crate::record::{Header, PLAIN, Snapshot};
use crate::segment;
use crate::sync::Ordering;
use crate::words::{Kind, Override, State};

/// A touch that has succeeded in memory.
pub struct Touch<'a> {
    pub before: &'a Snapshot,
    pub expires: Timestamp,
    pub ends: Option<Timestamp>,
    pub now: Timestamp,
}

fn write(lane: &Lane<'_>, log: &Log, says: Says, origin: Origin, head: &Header) -> Result<()> {
    let claim = lane.process.appender.claim_note(lane)?;
    disklog::put(lane.plane, log, claim, says, origin, head, &[]).inspect_err(|_| {
        segment::free(lane.plane, claim);
    })
}

/// Writes that an entry is being destroyed. Returns until when that has to be remembered.
///
/// # Errors
///
/// `Full` or `Io`; then nothing may be destroyed.
pub fn log_destroy(lane: &Lane<'_>, entry: &Entry<'_>, present: State, until: Timestamp) -> Result<Timestamp> {
    let plane = lane.plane;
    let Some(log) = &plane.log else { return Ok(until) };
    let now = plane.now();
    let mut origin = disklog::origin(plane, entry, present);
    // A commit may be on its way that was begun before: it is refused, but what it has written may stay on the disk.
    let head = present.has_record().then(|| Header::read(plane, present.location())).flatten();
    let on_its_way = head.map_or(until, |head| {
        let ttl = head.expires.as_ms().saturating_sub(head.written.as_ms());
        granted(now, Timestamp::from_ms(now.as_ms().saturating_add(ttl)))
    });
    origin.longest = origin.longest.max(until).max(on_its_way);
    entry.fence().raise(origin.sequence);
    let head = Header { expires: origin.longest, ..Header::new(entry.number, 0, 0, now, now) };
    write(lane, log, Says::Tombstone, origin, &head)?;
    Ok(origin.longest)
}

/// Writes a touch if it has crossed a line of the grid, moved the expiry back, or set another end.
///
/// # Errors
///
/// `Full` or `Io`.
pub fn log_touch(lane: &Lane<'_>, entry: &Entry<'_>, touch: &Touch<'_>) -> Result<()> {
    let plane = lane.plane;
    let Some(log) = &plane.log else { return Ok(()) };
    let Touch { before, expires, ends, now } = *touch;
    let grid = grid_ms(now, expires);
    let back = expires < before.expires;
    if !back && ends == before.ends && expires.as_ms() / grid == before.expires.as_ms() / grid {
        return Ok(());
    }
    if back {
        // What the disk may have for it is later than what it will say now.
        let later = granted(before.header.written, before.expires).as_ms();
        entry.due().raise(later);
        plane.due(entry.number).raise(later);
    }
    let Some(line) = Line::read(plane, before.state.location()) else { return Ok(()) };
    let order = entry.fence().add(1) + 1;
    let longest = line.origin.longest.max(granted(now, expires));
    let origin = Origin { fence: order, longest, ..line.origin };
    let head = Header { written: now, expires, ends, payload_bytes: 0, form: PLAIN, ..before.header };
    write(lane, log, Says::Touch, origin, &head)
}

/// Looks at a note in a segment that is being emptied: writes it again if it still says something, and frees it.
///
/// # Errors
///
/// `Full` or `Io`; then the note stays.
pub fn move_note(lane: &Lane<'_>, old: Claim) -> Result<()> {
    let plane = lane.plane;
    if let (Some(log), Some(line)) = (&plane.log, Line::read(plane, old.location))
        && let Some(head) = Header::read(plane, old.location).filter(|head| head.stamp == old.stamp)
        && let Some((origin, head)) = present(plane, line, head)
    {
        write(lane, log, line.says, origin, &head)?;
    }
    segment::free(plane, old);
    Ok(())
}

/// What a note has to say today; `None` when that is nothing.
fn present(plane: &Plane, line: Line, head: Header) -> Option<(Origin, Header)> {
    let entry = entry_of(plane, line.origin.digest)?;
    let state = entry.state();
    match line.says {
        Says::Tombstone if state.kind() == Kind::Destroyed => {
            let longest = line.origin.longest.max(state.forgotten_at());
            Some((Origin { longest, ..line.origin }, Header { expires: longest, ..head }))
        }
        Says::Touch if state.has_record() => {
            let record = Line::read(plane, state.location())?;
            let touched = Override(entry.touched().load(Ordering::Relaxed)).applies_to(state)?;
            let part = grid_ms(head.written, head.expires);
            let about = touched.as_ms().abs_diff(head.expires.as_ms()) <= part;
            let same = record.origin.digest == line.origin.digest && record.origin.sequence == line.origin.sequence;
            (same && about).then_some((line.origin, Header { expires: touched, ..head }))
        }
        _ => None,
    }
}

fn entry_of(plane: &Plane, digest: Digest) -> Option<Entry<'_>> {
    index::find(plane, digest).map(|number| plane.entry(number)).filter(|entry| entry.digest() == digest)
}
