//! The end of a session of ours that has moved to another program: without a tombstone, so that it
//! may come back. See decision 46.
//!
//! Invariant: the lock of the old store is held until the record has expired there by this clock. A
//! request that waits for it finds no session. Not for log-outs, which leave a tombstone.

use sessile_core::{ErrorKind, Key, Lease, Result, Sessions, Ttl};

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
    match lease.touch(Ttl::ENDED) {
        Err(error) if *error.kind() == ErrorKind::Gone => return Ok(()),
        // The lock is another's by now, who must not save: the new store counts.
        Err(_) => return from.destroy(key),
        Ok(()) => {}
    }
    if from.find(key)?.record.is_none() { Ok(()) } else { from.destroy(key) }
}
