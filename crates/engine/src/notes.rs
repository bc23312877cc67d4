//! Notes in the log: that a session was destroyed, that a touch has moved an expiry. No entry leads to them.
//!
//! Invariant: a tombstone is written before the state says destroyed, and kept until everything else about its digest
//! has expired; a touch that moves an expiry back, or far, is on its way to the disk before it is acknowledged.

use sessile_core::{Result, Timestamp};

use crate::disklog::{self, Line, Log, Origin, Says, Text, granted, grid_ms, is_valid};
use crate::index;
use crate::lane::{Claim, Lane, is_being_noted};
use crate::plane::{Digest, Entry, Plane};
use crate::record::{Header, PLAIN, Snapshot};
use crate::reserve::For;
use crate::segment;
use crate::sync::Ordering;
use crate::words::{Kind, Override, State};

/// How far from the present expiry, in sixteenths of the time to live, a note may be that still counts.
const NOTE_PARTS: u64 = 3;

/// A touch that is about to be made.
pub struct Touch<'a> {
    pub before: &'a Snapshot,
    pub expires: Timestamp,
    pub ends: Option<Timestamp>,
    pub now: Timestamp,
}

/// The lane is in use and names the note until the caller is done with it, so that compaction leaves it alone.
fn write(lane: &Lane<'_>, log: &Log, (says, purpose): (Says, For), origin: Origin, head: &Header) -> Result<Claim> {
    lane.process.appender.note(lane, log, &Text { says, origin, head, rest: &[] }, purpose)
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
    write(lane, log, (Says::Tombstone, For::Tombstone), origin, &head)?;
    Ok(origin.longest)
}

/// Writes a touch if it crosses a line of the grid, moves the expiry back, or sets another end. Returns the note.
///
/// # Errors
///
/// `Full` or `Io`.
pub fn log_touch(lane: &Lane<'_>, entry: &Entry<'_>, touch: &Touch<'_>) -> Result<Option<Claim>> {
    let plane = lane.plane;
    let Some(log) = &plane.log else { return Ok(None) };
    let Touch { before, expires, ends, now } = *touch;
    let grid = grid_ms(now, expires);
    let back = expires < before.expires;
    if !back && ends == before.ends && expires.as_ms() / grid == before.expires.as_ms() / grid {
        return Ok(None);
    }
    lane.intend(entry.number, None);
    if back {
        // What the disk may have for it is later than what it will say now.
        let later = granted(before.header.written, before.expires).as_ms();
        entry.due().raise(later);
        plane.due(entry.number).raise(later);
    }
    let Some(line) = Line::read(plane, before.state.location()) else { return Ok(None) };
    let order = entry.fence().add(1) + 1;
    let longest = line.origin.longest.max(granted(now, expires));
    let origin = Origin { fence: order, longest, ..line.origin };
    let head = Header { written: now, expires, ends, payload_bytes: 0, form: PLAIN, ..before.header };
    write(lane, log, (Says::Touch, For::Touch), origin, &head).map(Some)
}

/// Looks at a note in a segment that is being emptied: writes it again if it still says something, and frees it. False
/// when whoever writes it is not done with it.
///
/// # Errors
///
/// `Full` or `Io`; then the note stays.
pub fn move_note(lane: &Lane<'_>, old: Claim, purpose: For) -> Result<bool> {
    let plane = lane.plane;
    if is_being_noted(plane, old.stamp) {
        return Ok(false);
    }
    if let (Some(log), Some((line, head))) = (&plane.log, read(plane, old))
        && is_valid(log, line, &head, old.location, &[])
        && let Some((number, origin, head)) = present(plane, line, head)
    {
        lane.intend(number, None);
        write(lane, log, (line.says, purpose), origin, &head)?;
    }
    segment::free(plane, old);
    Ok(true)
}

/// Whether a note is still worth its place: it has something to say, or someone is writing it.
pub fn says_something(plane: &Plane, note: Claim) -> bool {
    is_being_noted(plane, note.stamp)
        || read(plane, note).is_some_and(|(line, head)| present(plane, line, head).is_some())
}

fn read(plane: &Plane, note: Claim) -> Option<(Line, Header)> {
    let head = Header::read(plane, note.location).filter(|head| head.stamp == note.stamp)?;
    Some((Line::read(plane, note.location)?, head))
}

/// What a note has to say today; `None` when that is nothing.
fn present(plane: &Plane, line: Line, head: Header) -> Option<(u64, Origin, Header)> {
    let entry = entry_of(plane, line.origin.digest)?;
    let state = entry.state();
    match line.says {
        Says::Tombstone if state.kind() == Kind::Destroyed => {
            let longest = line.origin.longest.max(state.forgotten_at());
            Some((entry.number, Origin { longest, ..line.origin }, Header { expires: longest, ..head }))
        }
        Says::Touch if state.has_record() => {
            let record = Line::read(plane, state.location())?;
            let touched = Override(entry.touched().load(Ordering::Relaxed)).applies_to(state)?;
            let part = grid_ms(head.written, head.expires);
            // A rebuild has added one part, and touches within a cell, perhaps of a longer time to live, are not logged.
            let about = touched.as_ms().abs_diff(head.expires.as_ms()) <= NOTE_PARTS * part;
            let same = record.origin.digest == line.origin.digest && record.origin.sequence == line.origin.sequence;
            (same && about).then_some((entry.number, line.origin, Header { expires: touched, ..head }))
        }
        _ => None,
    }
}

fn entry_of(plane: &Plane, digest: Digest) -> Option<Entry<'_>> {
    index::find(plane, digest).map(|number| plane.entry(number)).filter(|entry| entry.digest() == digest)
}
