//! Leases: the right to change one session.

use std::time::Duration;

use sessile_core::{Lease, Result};

use crate::call::{call, missing};
use crate::error::{sessile_code, sessile_error};
use crate::types::{sessile_bytes, sessile_key, sessile_ttl};

/// A held session lock. Freed by `sessile_lease_commit` and `sessile_lease_release`, whatever they return.
pub struct sessile_lease(Lease);

impl sessile_lease {
    pub(crate) fn of(lease: Lease) -> *mut sessile_lease {
        Box::into_raw(Box::new(sessile_lease(lease)))
    }
}

/// The lease itself: the caller has none any more.
///
/// # Safety
///
/// `lease` is null or was returned by `sessile_begin`, is not freed, and is not used again.
unsafe fn taken(lease: *mut sessile_lease) -> Result<Lease> {
    if lease.is_null() {
        return Err(missing("the lease"));
    }
    // SAFETY: the caller's promise: made by `Box::into_raw`, and freed once.
    Ok(unsafe { Box::from_raw(lease) }.0)
}

/// # Safety
///
/// `lease` is null or was returned by `sessile_begin`, is not freed, and nobody else uses it during the call.
unsafe fn borrowed<'a>(lease: *mut sessile_lease) -> Result<&'a mut Lease> {
    // SAFETY: the caller's promise.
    unsafe { lease.as_mut() }.map(|lease| &mut lease.0).ok_or_else(|| missing("the lease"))
}

/// Stores the payload and gives the lock back. After a failure nothing was stored, and the lock is given back, too.
///
/// # Safety
///
/// `lease` was returned by `sessile_begin`, is not freed, and is not used again; `payload` is memory of the caller;
/// `error` is null or has room for a `sessile_error`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_lease_commit(
    lease: *mut sessile_lease,
    payload: sessile_bytes,
    ttl: sessile_ttl,
    error: *mut sessile_error,
) -> sessile_code {
    let commit = || {
        // SAFETY: the caller's promises.
        let (lease, payload) = unsafe { (taken(lease)?, payload.get()) };
        lease.commit(payload, ttl.get()?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, commit) }
}

/// Moves the expiry and keeps the lock.
///
/// # Safety
///
/// As for `sessile_lease_commit`, but the lease stays good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_lease_touch(
    lease: *mut sessile_lease,
    ttl: sessile_ttl,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || borrowed(lease)?.touch(ttl.get()?)) }
}

/// Gives the session a new id, which the lease follows. The old id leads to it for as long as the grace.
///
/// # Safety
///
/// As for `sessile_lease_commit`, but the lease stays good; `new_key` is memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_lease_regenerate(
    lease: *mut sessile_lease,
    new_key: sessile_key,
    grace_ms: u64,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || borrowed(lease)?.regenerate(&new_key.get()?, Duration::from_millis(grace_ms))) }
}

/// Gives the lock back and stores nothing.
///
/// # Safety
///
/// As for `sessile_lease_commit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_lease_release(lease: *mut sessile_lease, error: *mut sessile_error) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || taken(lease)?.release()) }
}
