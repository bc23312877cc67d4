//! Durability of the log: when writes are brought to the disk, and by which process.
//!
//! Invariant: a sync counts as done only if it ended well and everything that failed before it was
//! written again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sessile_core::{Error, ErrorKind, Result, Timestamp};

use super::log_line::parse_segment;
use crate::{memory::*, table::*};

/// Who writes everything again waits for another process at it.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(60);

/// What this process has begun and the kernel carries out.
#[derive(Default)]
pub struct BackgroundSync(Mutex<Option<SyncRound>>);

/// A sync, and the oldest write that it covers (0: none was noted).
#[derive(Clone, Copy)]
struct SyncRound {
    number: u64,
    oldest: u64,
}

impl BackgroundSync {
    /// Notices the end of a sync, and begins one if the interval is over. Waits for the disk when a
    /// sync has no known end after an interval: the disk is slow, or its process has died.
    pub fn sync_if_due(&self, plane: &Plane, me: &AttachedProcess, now: Timestamp) {
        let Some(log) = plane.log.as_ref() else { return };
        let Some(interval_ms) = log.sync.interval_ms() else { return };
        let Ok(mut under_way) = self.0.try_lock() else { return };
        if let Some(round) = *under_way
            && let Some(result) = log.file.end_of_sync()
        {
            *under_way = None;
            log_failure(plane.end_round(round, result));
        }
        let age = |word| match plane.header(word).load(Relaxed) {
            0 => 0,
            // Also ahead of us, when the clock was set back.
            since => now.as_ms().abs_diff(since),
        };
        let syncs = plane.header(header::SYNCING_SINCE).load(Relaxed) != 0
            && !mutated(Mutation::TrustsStarter);
        if syncs && age(header::SYNC_BEGUN_AT) >= interval_ms {
            log_failure(me.sync_log(plane));
        } else if age(header::DIRTY_SINCE) >= interval_ms && !mutated(Mutation::NeverDue) {
            if under_way.is_none() {
                *under_way = me.begin_or_sync(plane, log);
            } else {
                // A later sync has ended before ours, and nobody else may begin the next.
                log_failure(me.sync_log(plane));
            }
        }
    }

    /// Begins a sync before its time, unless this process has one under way.
    pub fn sync_early(&self, plane: &Plane, me: &AttachedProcess) {
        let (Some(log), Ok(mut under_way)) = (&plane.log, self.0.try_lock()) else { return };
        if under_way.is_none() {
            *under_way = me.begin_or_sync(plane, log);
        }
    }
}

impl AttachedProcess {
    /// Begins a sync in the background, or syncs here where the kernel does not offer that.
    fn begin_or_sync(&self, plane: &Plane, log: &DiskLog) -> Option<SyncRound> {
        let failed = || plane.header(header::SYNC_FAILED).load(SeqCst) != 0;
        if !failed() {
            let round = plane.begin_round();
            // Once more: this sync does not make good for a failure noted meanwhile.
            if !failed() && log.file.begin_sync() == SyncStart::UnderWay {
                return Some(round);
            }
        }
        // Only one process at a time writes everything again: it might overwrite later writes.
        let _held = self.try_hold(plane, plane.header(header::SYNC_LOCK))?;
        log_failure(self.sync_here(plane, log));
        None
    }

    /// Brings what was written before the call to the disk.
    pub fn sync_log(&self, plane: &Plane) -> Result<()> {
        let Some(log) = &plane.log else { return Ok(()) };
        let failed = || plane.header(header::SYNC_FAILED).load(SeqCst) != 0;
        if !failed() {
            let round = plane.begin_round();
            // Once more: this sync does not make good for a failure noted meanwhile.
            if !failed() {
                self.sync_round(plane, log, round)?;
                if !failed() {
                    return Ok(());
                }
            }
        }
        let lock = plane.header(header::SYNC_LOCK);
        let Some(_held) = self.hold(plane, lock, SYNC_WAIT_MAX) else {
            let why = "another process does not finish syncing the store";
            return Err(
                Error::new(ErrorKind::Io, why).advice("look at that process and at the disk")
            );
        };
        self.sync_here(plane, log)
    }

    /// Alone under the lock.
    fn sync_here(&self, plane: &Plane, log: &DiskLog) -> Result<()> {
        let round = plane.begin_round();
        if plane.header(header::SYNC_FAILED).load(SeqCst) != 0
            && let Err(error) = plane.write_again(log)
        {
            return plane.end_round(round, Err(error));
        }
        self.sync_round(plane, log, round)
    }

    fn sync_round(&self, plane: &Plane, log: &DiskLog, round: SyncRound) -> Result<()> {
        let _alone = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        plane.end_round(round, log.file.sync())
    }
}

fn log_failure(synced: Result<()>) {
    if let Err(error) = synced {
        log::error!("sessions of the last seconds may be lost if the power fails now: {error:#}");
    }
}

impl Plane {
    fn begin_round(&self) -> SyncRound {
        let (dirty, syncing) =
            (self.header(header::DIRTY_SINCE), self.header(header::SYNCING_SINCE));
        let number = self.header(header::SYNCS_BEGUN).add(1) + 1;
        let oldest = dirty.load(SeqCst);
        if oldest == 0 {
            // It covers what an earlier one was begun for, whose end no process may notice.
            return SyncRound { number, oldest: syncing.load(SeqCst) };
        }
        self.header(header::SYNC_BEGUN_AT).store(self.now().as_ms(), SeqCst);
        syncing.store(oldest, SeqCst);
        dirty.cas(oldest, 0);
        SyncRound { number, oldest }
    }

    fn end_round(&self, round: SyncRound, result: Result<()>) -> Result<()> {
        let SyncRound { number, oldest } = round;
        let failed = self.header(header::SYNC_FAILED);
        let result = if mutated(Mutation::FailedSyncCounts) { Ok(()) } else { result };
        match &result {
            Ok(()) => {
                // A sync that began before a failure may end well after it: the failed writes were
                // not written again then.
                let seen = failed.load(SeqCst);
                if seen < number && (seen == 0 || failed.cas(seen, 0)) {
                    self.header(header::SYNCS_DONE).raise(number);
                }
                self.header(header::SYNCING_SINCE).cas(oldest, 0);
            }
            Err(_) => {
                failed.raise(self.header(header::SYNCS_BEGUN).load(SeqCst));
                let since = if oldest == 0 { self.now().as_ms().max(1) } else { oldest };
                self.header(header::DIRTY_SINCE).store(since, SeqCst);
            }
        }
        result
    }

    /// Writes every complete record again that is not sealed: the kernel may have dropped or call
    /// clean what it could not write. No segment is reused meanwhile.
    pub fn write_again(&self, log: &DiskLog) -> Result<()> {
        if mutated(Mutation::WritesNothingAgain) {
            return Ok(());
        }
        let mut bytes = vec![0; SEGMENT_BYTES as usize];
        for segment in 0..self.segment_count() {
            let (words, seen) = (self.segment(segment), self.segment_state(segment));
            let sealed = words.sealed_granules();
            if !is_log(seen.class()) || !seen.has_slots() || sealed >= words.appended.load(SeqCst) {
                continue;
            }
            // What nobody needs any more is not written again and may be torn on the disk, where a
            // seal would make it a damaged record: none in this use.
            words.begin_write();
            log.file.read(&mut bytes, segment * SEGMENT_BYTES)?;
            for record in parse_segment(log, &bytes, segment) {
                let granule = record.location.within() / GRANULE_BYTES;
                // Remains of an earlier generation are not what the stamp stands for.
                let stamp = self.stamp(segment, granule).load(SeqCst);
                if granule < sealed || record.body.is_none() || record.header.stamp != stamp {
                    continue;
                }
                // Not its check, which its writer may be taking away at this moment. The page is
                // written whole all the same.
                let start = granule * GRANULE_BYTES + 8;
                let end = (granule + record.line.granules) * GRANULE_BYTES;
                if let Some(bytes) = bytes.get(start as usize..end as usize) {
                    log.file.write(bytes, segment * SEGMENT_BYTES + start)?;
                }
            }
        }
        Ok(())
    }
}
