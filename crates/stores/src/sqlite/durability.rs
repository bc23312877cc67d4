//! The tier `1s`: the log reaches the disk at least once a second while there is traffic.
//!
//! `synchronous=NORMAL` syncs the log only before a checkpoint. So a writer syncs the log after its
//! session lock is free, if the last sync of this process is older than a second. Nothing runs in
//! the background: the last second of a burst waits for the next writer, a checkpoint or the kernel
//! (half a minute).

use std::fs::File;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_secs(1);

pub(super) struct EverySecond {
    log: Option<PathBuf>,
    last: Mutex<Instant>,
}

impl EverySecond {
    /// `None` if the log is not to be synced.
    pub fn new(log: Option<PathBuf>) -> EverySecond {
        EverySecond { log, last: Mutex::new(Instant::now()) }
    }

    /// Syncs if it is time and no other thread is doing so.
    pub fn sync_if_due(&self) {
        let Some(log) = &self.log else { return };
        let Ok(mut last) = self.last.try_lock() else { return };
        if last.elapsed() < PERIOD {
            return;
        }
        *last = Instant::now();
        drop(last);
        // Safe: SQLite locks the database and the shared index, never the log, so closing this
        // descriptor drops no lock.
        if let Err(error) = File::open(log).and_then(|log| log.sync_data()) {
            log::warn!(
                "the write-ahead log could not be synced, so a power cut may lose more: {error}"
            );
        }
    }
}
