//! Leases: the right to change one session.

use std::time::Duration;

use sessile_core::{Lease, Result};

use crate::call::{call, null_pointer};
use crate::error::{sessile_code, sessile_error};
use crate::types::{sessile_bytes, sessile_key, sessile_ttl};

/// A held session lock. Freed by `sessile_lease_commit` and `sessile_lease_release`, whatever they
/// return.
pub struct sessile_lease(Lease);

impl sessile_lease {
    pub(crate) fn of(lease: Lease) -> *mut sessile_lease {
        Box::into_raw(Box::new(sessile_lease(lease)))
    }
}

/// Takes the lease from the caller.
///
/// # Safety
///
/// `lease` is null or was returned by `sessile_begin`, is not freed, and is not used again.
unsafe fn take_lease(lease: *mut sessile_lease) -> Result<Lease> {
    if lease.is_null() {
        return Err(null_pointer("the lease"));
    }
    // SAFETY: the caller's promise: made by `Box::into_raw`, and freed once.
    Ok(unsafe { Box::from_raw(lease) }.0)
}

/// # Safety
///
/// `lease` is null or was returned by `sessile_begin`, is not freed, and is unused elsewhere during
/// the call.
unsafe fn borrow_lease<'a>(lease: *mut sessile_lease) -> Result<&'a mut Lease> {
    // SAFETY: the caller's promise.
    unsafe { lease.as_mut() }.map(|lease| &mut lease.0).ok_or_else(|| null_pointer("the lease"))
}

/// Stores the payload and releases the lock. After a failure nothing is stored, and the lock is
/// released, too. Frees the lease.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_lease_commit(
    lease: *mut sessile_lease,
    payload: sessile_bytes,
    ttl: sessile_ttl,
    error: *mut sessile_error,
) -> sessile_code {
    let commit = || {
        // SAFETY: the caller's promises.
        let (lease, payload) = unsafe { (take_lease(lease)?, payload.get()) };
        lease.commit(payload, ttl.get()?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, commit) }
}

/// Makes the commit of this lease set the owner of the session, for example the number of its user,
/// or take it away if the data of `owner` is null. `SESSILE_UNSUPPORTED` where sessions cannot have
/// owners; the lease stays good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_lease_set_owner(
    lease: *mut sessile_lease,
    owner: sessile_bytes,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || borrow_lease(lease)?.set_owner(owner.owner()?)) }
}

/// Moves the expiry and keeps the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_lease_touch(
    lease: *mut sessile_lease,
    ttl: sessile_ttl,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || borrow_lease(lease)?.touch(ttl.get()?)) }
}

/// Gives the session a new id and keeps the lock. The old id leads to the new one during the grace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_lease_regenerate(
    lease: *mut sessile_lease,
    new_key: sessile_key,
    grace_ms: u64,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe {
        call(error, || {
            borrow_lease(lease)?.regenerate(&new_key.get()?, Duration::from_millis(grace_ms))
        })
    }
}

/// Releases the lock without writing. Frees the lease.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_lease_release(
    lease: *mut sessile_lease,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || take_lease(lease)?.release()) }
}
