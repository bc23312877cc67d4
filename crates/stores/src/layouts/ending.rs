//! The end of a session of ours that has moved to another program: without a tombstone, so that it
//! may come back. See decision 46.
//!
//! Invariant: the lock of the old store is held until the record has expired there by this clock. A
//! request that waits for it finds no session, unless the clock of its host is behind. Not for
//! log-outs, which leave a tombstone.

use std::time::Duration;

use sessile_core::{ErrorKind, Key, Lease, Result, Sessions};

/// A clock may have stepped back since the end.
const LOOKS_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(1);

/// Ends a session under its lease. If the store still has it, it is destroyed all the same, so that
/// it is in one store.
///
/// # Errors
///
/// Those of the store.
pub fn end_without_tombstone(from: &Sessions, lease: &mut Lease, key: &Key) -> Result<()> {
    // PHP reads a file of its own also after its end.
    if from.capabilities().foreign_writers {
        return from.destroy(key);
    }
    match lease.end() {
        Err(error) if *error.kind() == ErrorKind::Gone => return Ok(()),
        // The lock is another's by now, or the store fails: the new store counts.
        Err(_) => return from.destroy(key),
        Ok(()) => {}
    }
    for _ in 0..LOOKS_MAX {
        if from.find(key)?.record.is_none() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    from.destroy(key)
}
