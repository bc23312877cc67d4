//! Group commit, the durability tier `commit`: a change counts only after a sync that began after
//! its record was written. One process syncs for all that wait, and the others sleep.
//!
//! Invariant: the leader word is odd while a process leads, and never has the same value twice.
//! Syncing at the same time as another leader is safe, so a slow or dead one is simply replaced.

use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Result};

use crate::{memory::*, table::*};

/// A leader that takes longer may be stopped or dead; another process syncs then.
const LEADER_TIME_MAX: Duration = Duration::from_millis(50);

impl AttachedProcess {
    /// Returns when what this process has written before the call is on the disk, if the store was
    /// opened with the tier `commit`.
    ///
    /// Error: `Io` when a sync that would have covered it has failed.
    pub fn await_sync(&self, plane: &Plane) -> Result<()> {
        let Some(log) = plane.log.as_ref().filter(|log| log.sync == SyncMode::EachChange) else {
            return Ok(());
        };
        // Pairs with the add of SYNCS_BEGUN in `begin_round`: a sync with this number or a later
        // one begins after the write.
        fence(SeqCst);
        let covering = plane.header(header::SYNCS_BEGUN).load(SeqCst) + 1;
        let leader = plane.header(header::SYNC_LEADER);
        loop {
            if plane.header(header::SYNCS_DONE).load(SeqCst) >= covering {
                return Ok(());
            }
            if plane.header(header::SYNC_FAILED).load(SeqCst) >= covering {
                return Err(not_synced());
            }
            let seen = leader.load(SeqCst);
            let mine = if seen & 1 == 0 { seen + 1 } else { seen + 2 };
            let is_free = seen & 1 == 0 || !is_led_on(leader, seen);
            if is_free && leader.cas(seen, mine) {
                let synced = self.lead_sync(plane, log);
                leader.cas(mine, mine + 1);
                futex_wake(leader, u32::MAX >> 1);
                synced?;
            }
        }
    }

    fn lead_sync(&self, plane: &Plane, log: &DiskLog) -> Result<()> {
        let failed = || plane.header(header::SYNC_FAILED).load(SeqCst) != 0;
        if !failed() {
            let round = plane.begin_round();
            // Once more: this sync does not make good for a failure noted meanwhile.
            if !failed() {
                return plane.end_round(round, log.file.sync());
            }
        }
        self.sync_log(plane)
    }
}

/// Sleeps until the leader is done. False when it has not been for too long.
fn is_led_on(leader: &Word, seen: u64) -> bool {
    let start = Instant::now();
    loop {
        let left = LEADER_TIME_MAX.saturating_sub(start.elapsed());
        if leader.load(SeqCst) != seen {
            return true;
        }
        if left.is_zero() {
            return false;
        }
        futex_wait(leader, seen as u32, left);
    }
}

fn not_synced() -> Error {
    Error::new(ErrorKind::Io, "the log cannot be synced; the change was not made")
        .advice("look at the kernel's log for errors of the disk")
}
