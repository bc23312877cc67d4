//! How each call is carried out: arguments checked, panics caught, errors written down.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sessile_core::{Error, ErrorKind, Result};

use crate::error::{sessile_code, sessile_error};

/// Runs a call. What it returns is its code; why it failed goes into the error, if the caller wants it.
///
/// # Safety
///
/// `error` is null or points to memory for a `sessile_error` that only this call uses.
pub(crate) unsafe fn call(error: *mut sessile_error, run: impl FnOnce() -> Result<()>) -> sessile_code {
    // What a panic leaves half done is not used again: a lease was taken from its caller, a store checks its own state.
    let done = catch_unwind(AssertUnwindSafe(run));
    // SAFETY: the caller's promise; written before anything is read from it.
    let error = unsafe { error.as_mut() };
    match done {
        Ok(Ok(())) => sessile_code::SESSILE_OK,
        Ok(Err(failure)) => {
            let code = sessile_code::of(failure.kind());
            if let Some(error) = error {
                error.set(&failure);
            }
            code
        }
        Err(_) => {
            if let Some(error) = error {
                error.code = sessile_code::SESSILE_PANIC;
                error.set_message("a defect of Sessile stopped this operation; please report it with the lines before");
            }
            sessile_code::SESSILE_PANIC
        }
    }
}

/// What a caller that passed a null pointer is told.
pub(crate) fn missing(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{what} is a null pointer"))
}
