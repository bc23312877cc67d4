//! Codes and messages of failures.

use std::ffi::{CStr, c_char};

use sessile_core::{Error, ErrorKind};

/// Size of a message, including its zero byte.
pub const SESSILE_MESSAGE_BYTES: usize = 1024;

/// The result of a call.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum sessile_code {
    /// Success.
    SESSILE_OK,
    /// The id is malformed. No store was asked.
    SESSILE_INVALID_ID,
    /// The store URL is malformed, or its scheme or an option is unknown.
    SESSILE_INVALID_URL,
    /// An argument is out of range.
    SESSILE_INVALID_ARGUMENT,
    /// The store does not have this operation.
    SESSILE_UNSUPPORTED,
    /// The id is taken.
    SESSILE_EXISTS,
    /// The record is gone: expired, swept, or lost with a restart.
    SESSILE_GONE,
    /// The session was destroyed after it was read, and stays destroyed.
    SESSILE_DESTROYED,
    /// The lease was lost, and another holder has had the lock since.
    SESSILE_STALE,
    /// The lock was not free in time; the message names its holder.
    SESSILE_LOCK_TIMEOUT,
    /// The payload exceeds the limit; the stored payload is unchanged.
    SESSILE_TOO_LARGE,
    /// The store cannot be reached.
    SESSILE_UNREACHABLE,
    /// The store refuses access: wrong password, missing permission, foreign owner.
    SESSILE_DENIED,
    /// No space left: disk, quota or the configured size.
    SESSILE_FULL,
    /// The server is out of memory.
    SESSILE_OUT_OF_MEMORY,
    /// The store dropped a live record to make room.
    SESSILE_EVICTED,
    /// Stored bytes were altered; they are left as they are.
    SESSILE_CORRUPT,
    /// The stored format is newer than this library, or foreign.
    SESSILE_INCOMPATIBLE,
    /// Any other failure of the operating system or the driver.
    SESSILE_IO,
    /// A defect of this library; please report it. The lease of the call, if any, is released.
    SESSILE_PANIC,
}

impl sessile_code {
    /// All codes, in the order of their numbers.
    pub(crate) const NAMES: [&'static CStr; 20] = [
        c"ok",
        c"invalid-id",
        c"invalid-url",
        c"invalid-argument",
        c"unsupported",
        c"exists",
        c"gone",
        c"destroyed",
        c"stale",
        c"lock-timeout",
        c"too-large",
        c"unreachable",
        c"denied",
        c"full",
        c"out-of-memory",
        c"evicted",
        c"corrupt",
        c"incompatible",
        c"io",
        c"panic",
    ];

    /// The code of a kind; `SESSILE_IO` for a kind that is newer than the codes.
    pub fn of(kind: &ErrorKind) -> sessile_code {
        use ErrorKind::*;
        use sessile_code::*;
        match kind {
            InvalidId => SESSILE_INVALID_ID,
            InvalidUrl => SESSILE_INVALID_URL,
            InvalidArgument => SESSILE_INVALID_ARGUMENT,
            Unsupported => SESSILE_UNSUPPORTED,
            Exists => SESSILE_EXISTS,
            Gone => SESSILE_GONE,
            Destroyed => SESSILE_DESTROYED,
            Stale => SESSILE_STALE,
            LockTimeout { .. } => SESSILE_LOCK_TIMEOUT,
            TooLarge { .. } => SESSILE_TOO_LARGE,
            Unreachable => SESSILE_UNREACHABLE,
            Denied => SESSILE_DENIED,
            Full => SESSILE_FULL,
            OutOfMemory => SESSILE_OUT_OF_MEMORY,
            Evicted => SESSILE_EVICTED,
            Corrupt => SESSILE_CORRUPT,
            Incompatible => SESSILE_INCOMPATIBLE,
            // A new kind needs a code that old headers have.
            _ => SESSILE_IO,
        }
    }
}

/// The name of a code, for the kinds of errors in other languages: `lock-timeout` for
/// `SESSILE_LOCK_TIMEOUT`. Null for a number that is no code. Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn sessile_code_name(code: u32) -> *const c_char {
    let name = usize::try_from(code).ok().and_then(|code| sessile_code::NAMES.get(code));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}

/// The reason of a failure: operation, store, cause, advice. Contains no session id, payload or
/// password.
#[repr(C)]
pub struct sessile_error {
    /// The code that the call returned.
    pub code: sessile_code,
    /// UTF-8 text with a zero byte at the end; truncated to fit.
    pub message: [c_char; SESSILE_MESSAGE_BYTES],
}

impl sessile_error {
    /// Includes the causes, as the log does: only they name a full disk.
    pub(crate) fn of(error: &Error) -> sessile_error {
        sessile_error::new(sessile_code::of(error.kind()), &format!("{error:#}"))
    }

    pub(crate) fn new(code: sessile_code, text: &str) -> sessile_error {
        let mut length = text.len().min(SESSILE_MESSAGE_BYTES - 1);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        let mut message = [0; SESSILE_MESSAGE_BYTES];
        let bytes = text.bytes().take(length).map(|byte| if byte == 0 { b' ' } else { byte });
        message.iter_mut().zip(bytes).for_each(|(to, from)| *to = from as c_char);
        sessile_error { code, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warning of a failed save did not mention that the disk was full.
    #[test]
    fn a_message_names_the_cause() {
        let error = Error::new(ErrorKind::Io, "the file cannot be written");
        let error = sessile_error::of(&error.source(std::io::Error::other("no space left")));
        let text: Vec<u8> =
            error.message.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        assert!(String::from_utf8_lossy(&text).contains("no space left"));
    }
}
