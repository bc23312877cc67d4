//! Runs a call: catches panics and writes the error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sessile_core::{Error, ErrorKind, Result};

use crate::error::{sessile_code, sessile_error};

/// Runs a call and returns its code. Writes the reason of a failure to `error`.
///
/// # Safety
///
/// `error` is null or points to memory for a `sessile_error` that only this call uses.
pub(crate) unsafe fn call(
    error: *mut sessile_error,
    run: impl FnOnce() -> Result<()>,
) -> sessile_code {
    // After a panic nothing half-done is used: the lease was taken, and stores check their state.
    let done = catch_unwind(AssertUnwindSafe(run));
    let why = match done {
        Ok(Ok(())) => return sessile_code::SESSILE_OK,
        Ok(Err(failure)) => sessile_error::of(&failure),
        Err(_) => {
            let text = "a defect of Sessile stopped this operation; please report it with the \
                        lines before";
            sessile_error::new(sessile_code::SESSILE_PANIC, text)
        }
    };
    let code = why.code;
    if !error.is_null() {
        // SAFETY: the caller's promise; the memory has no value to drop.
        unsafe { error.write(why) };
    }
    code
}

/// The error for a null pointer.
pub(crate) fn null_pointer(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{what} is a null pointer"))
}
