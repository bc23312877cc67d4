//! The tier `1s`: the log reaches the disk at least once a second while there is traffic.
//!
//! `synchronous=NORMAL` syncs the log only before a checkpoint. So a writer syncs the log after its
//! session lock is free, if the last sync of this process is older than a second. Nothing runs in
//! the background: the last second of a burst waits for the next writer, a checkpoint or the kernel
//! (half a minute).

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::locks::byte_lock::monotonic_ns;

const PERIOD_NS: u64 = 1_000_000_000;

pub(super) struct EverySecond {
    log: Option<PathBuf>,
    /// By the host's monotonic clock; 0 before the first sync of this process, which its first
    /// write makes: a process that lives for less than a second syncs, too.
    last_ns: AtomicU64,
}

impl EverySecond {
    /// `None` if the log is not to be synced.
    pub fn new(log: Option<PathBuf>) -> EverySecond {
        EverySecond { log, last_ns: AtomicU64::new(0) }
    }

    /// Syncs if it is time and no other thread is doing so.
    pub fn sync_if_due(&self) {
        let Some(log) = &self.log else { return };
        // Relaxed: only one thread may replace the time, and nothing else depends on it.
        let (last, now) = (self.last_ns.load(Relaxed), monotonic_ns().unwrap_or(0));
        let is_due = now.saturating_sub(last) >= PERIOD_NS;
        if !is_due || self.last_ns.compare_exchange(last, now, Relaxed, Relaxed).is_err() {
            return;
        }
        // Safe: SQLite locks the database and the shared index, never the log, so closing this
        // descriptor drops no lock.
        if let Err(error) = File::open(log).and_then(|log| log.sync_data()) {
            log::warn!(
                "the write-ahead log could not be synced, so a power cut may lose more: {error}"
            );
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The second began when the store was opened: scripts that live for less never synced.
    #[test]
    fn the_first_write_of_a_process_syncs_and_the_next_ones_only_once_a_second() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let second = EverySecond::new(Some(log.path().to_owned()));
        second.sync_if_due();
        let first = second.last_ns.load(Relaxed);
        assert!(first > 0);
        second.sync_if_due();
        assert_eq!(second.last_ns.load(Relaxed), first);
        second.last_ns.store(first - PERIOD_NS, Relaxed);
        second.sync_if_due();
        assert!(second.last_ns.load(Relaxed) >= first);
    }
}
