//! Group commit, the durability tier `commit`: a change counts only after a sync that began after
//! its record was written. One process syncs for all that wait, and the others sleep.
//!
//! Invariant: the leader word is odd while a process leads, and never has the same value twice.
//! Syncing at the same time as another leader is safe, so a slow or dead one is simply replaced.

use std::time::Duration;

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
        if !plane.log.as_ref().is_some_and(|log| log.sync == SyncMode::EachChange) {
            return Ok(());
        }
        // Pairs with the add of SYNCS_BEGUN in `begin_round`: a sync with this number or a later
        // one begins after the write.
        fence(SeqCst);
        let covering = plane.header(header::SYNCS_BEGUN).load(SeqCst) + 1;
        let failed = plane.header(header::SYNC_FAILED);
        let failed_before = failed.load(SeqCst);
        let leader = plane.header(header::SYNC_LEADER);
        // The leader that this process waits for, and since when.
        let mut watched = (0, Instant::now());
        loop {
            // First: the sync after a failure does not know what became of our pages in it.
            let failure = failed.load(SeqCst);
            if failure >= covering || failure != 0 && failure != failed_before {
                return Err(not_synced());
            }
            let done = plane.header(header::SYNCS_DONE).load(SeqCst);
            if done + u64::from(mutated(Mutation::JoinsSyncUnderWay)) >= covering {
                return Ok(());
            }
            let seen = leader.load(SeqCst);
            let is_led = seen & 1 == 1;
            if is_led && seen != watched.0 {
                watched = (seen, Instant::now());
            }
            let left = LEADER_TIME_MAX.saturating_sub(watched.1.elapsed());
            if is_led && !left.is_zero() {
                futex_wait(leader, seen as u32, left);
                continue;
            }
            let mine = if is_led { seen + 2 } else { seen + 1 };
            if leader.cas(seen, mine) {
                let synced = self.sync_log(plane);
                leader.cas(mine, mine + 1);
                futex_wake(leader, u32::MAX >> 1);
                synced?;
            }
        }
    }
}

pub const CHECK_DISK: &str = "look at the kernel's log for errors of the disk";

fn not_synced() -> Error {
    Error::new(ErrorKind::Io, "the log cannot be synced; the change was not made")
        .advice(CHECK_DISK)
}
