//! When the log on a disk is synced.

use std::time::Duration;

/// When the log of a store on a disk is synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncMode {
    /// Nothing written survives a power cut for sure.
    Never,
    /// While there is traffic, no byte stays unsynced for longer.
    Interval(Duration),
    /// A change waits for its sync.
    EachChange,
}

impl SyncMode {
    /// How old the oldest unsynced byte may become.
    pub fn interval_ms(self) -> Option<u64> {
        match self {
            SyncMode::Never => None,
            SyncMode::Interval(interval) => u64::try_from(interval.as_millis()).ok(),
            // For what no change waits for: moves, and what processes with another mode write.
            SyncMode::EachChange => Some(1_000),
        }
    }
}
