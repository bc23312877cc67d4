//! The times of the oldest writes that are not on the disk yet.
//!
//! Invariant: the time is noted after the write and taken away before a sync begins, so it may be
//! too early and never too late.

use sessile_core::Timestamp;

use crate::memory::*;

impl Plane {
    pub fn note_unsynced(&self) {
        // Pairs with the add of SYNCS_BEGUN in `begin_round`: a sync that takes the time away
        // covers this write, or we see the time gone.
        fence(SeqCst);
        let since = self.header(header::DIRTY_SINCE);
        if since.load(SeqCst) == 0 {
            since.cas(0, self.now().as_ms().max(1));
        }
    }

    /// The oldest write that is not known to be on the disk.
    pub fn unsynced_since(&self) -> Option<Timestamp> {
        let words = [header::SYNCING_SINCE, header::DIRTY_SINCE]
            .map(|word| self.header(word).load(Relaxed));
        words.into_iter().filter(|since| *since != 0).min().map(Timestamp::from_ms)
    }

    /// Lets the disk begin with a part of the log. Not while a sync is under way: the kernel would
    /// hold the caller back for milliseconds (writeback throttling).
    pub fn hint_write_back(&self, log: &DiskLog, offset: u64, bytes: u64) {
        if log.sync != SyncMode::Never && self.header(header::SYNCING_SINCE).load(Relaxed) == 0 {
            log.file.begin_write_back(offset, bytes);
        }
    }
}
