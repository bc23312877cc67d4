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
    let why = match done {
        Ok(Ok(())) => return sessile_code::SESSILE_OK,
        Ok(Err(failure)) => sessile_error::of(&failure),
        Err(_) => {
            let text = "a defect of Sessile stopped this operation; please report it with the lines before";
            sessile_error::new(sessile_code::SESSILE_PANIC, text)
        }
    };
    let code = why.code;
    if !error.is_null() {
        // SAFETY: the caller's promise; what was there is memory without a value.
        unsafe { error.write(why) };
    }
    code
}

/// What a caller that passed a null pointer is told.
pub(crate) fn missing(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{what} is a null pointer"))
}
