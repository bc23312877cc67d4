//! Durability of the log: when what was written is brought to the disk, and by whom.
//!
//! Invariants: the time of the oldest unsynced write is noted after the write and taken away before a sync begins,
//! so it may be too early and never too late; a sync counts as done only if it ended well and nothing failed before
//! it that was not written again. docs/engine.md, "On a disk".

use std::sync::Mutex;
use std::time::Duration;

use sessile_core::{Error, ErrorKind, Result, Timestamp};

use crate::class::{is_log, slots};
use crate::disklog::{LINE_BYTES, Log, parse};
use crate::kernel_aio::Begun;
use crate::layout::{GRANULE_BYTES, SEGMENT_BYTES, header};
use crate::lock::{Locked, lock, try_lock, unlock};
use crate::plane::Plane;
use crate::process::Process;
use crate::segment::{Use, is_claim, location, state};
use crate::staging;
use crate::sync::{Ordering, fence};

/// After so many intervals a sync whose end nobody has noticed is done once more.
const FORGOTTEN: u64 = 10;
/// How long an explicit sync waits for one that is under way.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The same for who writes from a stage.
const STAGES_WAIT_MAX: Duration = Duration::from_secs(10);
/// The same where a call of an application begins a sync that is overdue.
const PATIENCE: Duration = Duration::from_millis(20);

/// Notes that something was written.
pub fn note_write(plane: &Plane) {
    // Who takes the time away looks at the stages after that: it sees what was put there, or we see that it is gone.
    fence(Ordering::SeqCst);
    let since = plane.header(header::DIRTY_SINCE);
    if since.load(Ordering::SeqCst) == 0 {
        since.cas(0, plane.now().as_ms().max(1));
    }
}

/// Lets the disk begin with a part of the log. Not while a sync is under way: the kernel would hold the caller back until the
/// sync has had its turn, for milliseconds (writeback throttling); what is left out is for the next sync.
pub fn begin_write_back(plane: &Plane, log: &Log, offset: u64, bytes: u64) {
    if log.interval_ms > 0 && plane.header(header::SYNCING_SINCE).load(Ordering::Relaxed) == 0 {
        log.file.begin_write_back(offset, bytes);
    }
}

/// The oldest write that is not known to be on the disk.
pub fn dirty_since(plane: &Plane) -> Option<Timestamp> {
    let words = [header::SYNCING_SINCE, header::DIRTY_SINCE].map(|word| plane.header(word).load(Ordering::Relaxed));
    words.into_iter().filter(|since| *since != 0).min().map(Timestamp::from_ms)
}

/// A sync that this process has begun and that the kernel carries out.
#[derive(Default)]
pub struct UnderWay(Mutex<Option<Round>>);

/// One sync: its number, and the oldest write that it covers (0: none was noted).
#[derive(Clone, Copy)]
struct Round {
    number: u64,
    oldest: u64,
}

/// Notices the end of the sync under way, and begins one if the interval is over. Never waits for the disk, unless the
/// kernel offers nothing else.
pub fn sync_if_due(plane: &Plane, me: &Process, now: Timestamp) {
    let Some(log) = plane.log.as_ref().filter(|log| log.interval_ms > 0) else { return };
    let Ok(mut under_way) = me.under_way.0.try_lock() else { return };
    if let Some(round) = *under_way {
        let Some(result) = log.file.end_of_sync() else { return };
        *under_way = None;
        complain(end(plane, round, result));
    }
    let age = |word| match plane.header(word).load(Ordering::Relaxed) {
        0 => 0,
        since => now.as_ms().saturating_sub(since),
    };
    // Whoever has begun a sync and never came back has not noticed its end, or has died with it.
    let dirty = age(header::DIRTY_SINCE);
    if dirty >= log.interval_ms || age(header::SYNCING_SINCE) >= log.interval_ms * FORGOTTEN {
        let overdue = dirty >= 2 * log.interval_ms;
        *under_way = begin_or_do(plane, me, log, if overdue { PATIENCE } else { Duration::ZERO });
    }
}

/// Begins a sync before its time, unless this process has one under way.
pub fn sync_early(plane: &Plane, me: &Process) {
    let (Some(log), Ok(mut under_way)) = (&plane.log, me.under_way.0.try_lock()) else { return };
    if under_way.is_none() {
        *under_way = begin_or_do(plane, me, log, PATIENCE);
    }
}

fn begin_or_do(plane: &Plane, me: &Process, log: &Log, patience: Duration) -> Option<Round> {
    let failed = || plane.header(header::SYNC_FAILED).load(Ordering::SeqCst) != 0;
    let mut drawn = None;
    if !failed() {
        // Most of it before a number is drawn: with each number whoever appends leaves its page.
        let emptied = staging::write_all(plane, me, patience).and_then(|emptied| {
            let round = emptied.then(|| begin(plane));
            drawn = round;
            round.map_or(Ok(false), |round| empty_stages(plane, me, round, PATIENCE))
        });
        match emptied {
            Ok(true) => {}
            // Somebody writes from a stage at this moment: a later call tries again.
            Ok(false) => return None,
            Err(error) => {
                complain(Err(error));
                return None;
            }
        }
        // Once more: one that was noted meanwhile has a number below ours, and is not made good by this sync.
        if !failed() && log.file.begin_sync() == Begun::UnderWay {
            return drawn;
        }
    }
    // What writes everything again is alone, or it might write over what others have put there since.
    let word = plane.header(header::SYNC_LOCK);
    let mine = try_lock(plane, me, word)?;
    complain(finish_here(plane, me, log, drawn.unwrap_or_else(|| begin(plane))));
    unlock(word, mine);
    None
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
    let synced = finish_here(plane, me, log, begin(plane));
    unlock(word, mine);
    synced
}

fn complain(synced: Result<()>) {
    if let Err(error) = synced {
        log::error!("sessions of the last seconds may be lost if the power fails now: {error:#}");
    }
}

/// What is written from now on belongs to the next sync.
fn begin(plane: &Plane) -> Round {
    let since = plane.header(header::DIRTY_SINCE);
    let number = plane.header(header::SYNCS_BEGUN).add(1) + 1;
    let oldest = since.load(Ordering::SeqCst);
    if oldest != 0 {
        plane.header(header::SYNCING_SINCE).store(oldest, Ordering::SeqCst);
        since.cas(oldest, 0);
    }
    Round { number, oldest }
}

/// Brings what is in the stages to the file. False when somebody does not let go of one: then it is as if the sync had
/// not begun.
fn empty_stages(plane: &Plane, me: &Process, round: Round, wait_max: Duration) -> Result<bool> {
    match staging::write_all(plane, me, wait_max) {
        Ok(false) if round.oldest != 0 => {
            plane.header(header::DIRTY_SINCE).store(round.oldest, Ordering::SeqCst);
            plane.header(header::SYNCING_SINCE).cas(round.oldest, 0);
            Ok(false)
        }
        Err(error) => end(plane, round, Err(error)).map(|()| true),
        emptied => emptied,
    }
}

fn finish_here(plane: &Plane, me: &Process, log: &Log, round: Round) -> Result<()> {
    if !empty_stages(plane, me, round, STAGES_WAIT_MAX)? {
        return Err(staging::busy());
    }
    let attempt = || {
        if plane.header(header::SYNC_FAILED).load(Ordering::SeqCst) != 0 {
            write_again(plane, log)?;
        }
        log.file.sync()
    };
    end(plane, round, attempt())
}

/// Notes how a sync has ended.
fn end(plane: &Plane, round: Round, result: Result<()>) -> Result<()> {
    let Round { number, oldest } = round;
    let (failed, syncing) = (plane.header(header::SYNC_FAILED), plane.header(header::SYNCING_SINCE));
    match result {
        Ok(()) => {
            // One that began before a failure may end well after it: what has failed was not written again then.
            let seen = failed.load(Ordering::SeqCst);
            if seen < number && (seen == 0 || failed.cas(seen, 0)) {
                plane.header(header::SYNCS_DONE).raise(number);
            }
            syncing.cas(oldest, 0);
            Ok(())
        }
        Err(error) => {
            failed.raise(plane.header(header::SYNCS_BEGUN).load(Ordering::SeqCst));
            let now = plane.now().as_ms().max(1);
            plane.header(header::DIRTY_SINCE).store(if oldest == 0 { now } else { oldest }, Ordering::SeqCst);
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
            let stamp = plane.stamp(segment, granule).load(Ordering::SeqCst);
            if !is_claim(stamp) {
                continue;
            }
            let place = location(segment, seen.class(), granule);
            let at = (granule * GRANULE_BYTES) as usize;
            // What an earlier generation has left there is not what the stamp stands for, which may be in a stage still.
            if let Some((_, header, length)) = bytes.get(at..).and_then(|bytes| parse(log, bytes, place))
                && header.stamp == stamp
                && let Some(record) = bytes.get(at..at + length)
            {
                log.file.write(record, place.offset() - LINE_BYTES)?;
            }
        }
    }
    Ok(())
}
