//! Locks for stores whose storage has none that fit.

#![cfg_attr(not(feature = "default"), allow(dead_code, reason = "some stores are left out"))]

pub mod byte_lock;
pub mod host;
pub mod orphans;
pub mod process_local;
pub mod range_lock;
pub mod token;

use std::sync::{Mutex, MutexGuard, PoisonError};

use sessile_core::{Error, ErrorKind, Result};

/// Locks what no panic can leave half-changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses (`Stale`) a lease that was inherited by fork: it may be neither used nor released.
pub fn check_process(owner: u32) -> Result<()> {
    if owner == std::process::id() {
        return Ok(());
    }
    let why = "the lease belongs to the process that this one was forked from";
    Err(Error::new(ErrorKind::Stale, why).advice("begin anew in the child"))
}
