//! The tier `1s`: the log reaches the disk at least once a second while there is traffic.
//!
//! `synchronous=NORMAL` syncs the log only before a checkpoint; between two of them the kernel decides, which
//! can take half a minute. So whoever has written, and finds that the last sync of this process is older than
//! a second, syncs the log after its session lock is free. Nothing runs in the background: what the last
//! second of a burst wrote waits for the next writer, a checkpoint or the kernel.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_secs(1);

/// Syncs a write-ahead log at most once a second.
pub(super) struct EverySecond {
    log: PathBuf,
    last: Mutex<Instant>,
}

impl EverySecond {
    pub fn new(log: PathBuf) -> EverySecond {
        EverySecond { log, last: Mutex::new(Instant::now()) }
    }

    /// Syncs if it is time and no other thread is doing so.
    pub fn sync_if_due(&self) {
        let Ok(mut last) = self.last.try_lock() else { return };
        if last.elapsed() < PERIOD {
            return;
        }
        *last = Instant::now();
        drop(last);
        // A descriptor of our own is safe here: SQLite locks the database and the shared index, never the log,
        // so that closing it drops no lock.
        if let Err(error) = File::open(&self.log).and_then(|log| log.sync_data()) {
            log::warn!("the write-ahead log could not be synced, so a power cut may lose more: {error}");
        }
    }
}
