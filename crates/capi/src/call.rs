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
    match done {
        Ok(Ok(())) => sessile_code::SESSILE_OK,
        // SAFETY: the caller's promise.
        Ok(Err(failure)) => unsafe { fail(error, Some(failure)) },
        // SAFETY: the caller's promise.
        Err(_) => unsafe { fail(error, None) },
    }
}

/// Writes the reason of a failure, which is a panic if there is none.
///
/// # Safety
///
/// As for [`call`].
#[cold]
unsafe fn fail(error: *mut sessile_error, failure: Option<Error>) -> sessile_code {
    let why = failure.as_ref().map_or_else(
        || {
            let text = "a defect of Sessile stopped this operation; please report it with what \
                        the log says of it";
            sessile_error::new(sessile_code::SESSILE_PANIC, text)
        },
        sessile_error::of,
    );
    let code = why.code;
    if !error.is_null() {
        // SAFETY: the caller's promise; the memory has no value to drop.
        unsafe { error.write(why) };
    }
    code
}

/// Runs a call without an error of its own. Returns the default after a failure.
pub(crate) fn ask<T: Default>(run: impl FnOnce() -> Result<T>) -> T {
    let mut answer = T::default();
    let asked = || {
        answer = run()?;
        Ok(())
    };
    // SAFETY: without an error to write to.
    let _ = unsafe { call(std::ptr::null_mut(), asked) };
    answer
}

/// Null does nothing.
///
/// # Safety
///
/// `pointer` is null or was made by `Box::into_raw`, and is freed once.
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        ask(|| {
            // SAFETY: the caller's promise; not null.
            drop(unsafe { Box::from_raw(pointer) });
            Ok(())
        });
    }
}

/// The error for a null pointer.
pub(crate) fn null_pointer(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{what} is a null pointer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::{sessile_log_next, sessile_log_start};

    /// Its text and its place were on the standard error output only, which servers drop.
    #[test]
    fn a_panic_becomes_a_code_and_the_log_says_where_it_was() {
        assert!(sessile_log_start() && !sessile_log_start());
        let mut error = sessile_error::new(sessile_code::SESSILE_OK, "");
        // SAFETY: the error is this test's.
        let code = unsafe { call(&mut error, || panic!("the answer\nis 41")) };
        assert_eq!(code, sessile_code::SESSILE_PANIC);
        let mut logged = Vec::new();
        let mut message = std::mem::MaybeUninit::uninit();
        // SAFETY: there is room for a message, which is there after an answer of true.
        while unsafe { sessile_log_next(message.as_mut_ptr()) } {
            // SAFETY: as above; the text ends with a zero byte.
            let text = unsafe { std::ffi::CStr::from_ptr((*message.as_ptr()).text.as_ptr()) };
            logged.push(text.to_string_lossy().into_owned());
        }
        let [line] = logged.as_slice() else { panic!("{logged:?}") };
        assert!(line.contains("src/call.rs:") && line.ends_with("the answer is 41"), "{line}");
    }
}
