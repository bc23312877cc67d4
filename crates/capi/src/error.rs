//! Codes and messages of failures.

use std::ffi::c_char;

use sessile_core::{Error, ErrorKind};

/// Bytes of a message, its zero byte included.
pub const SESSILE_MESSAGE_BYTES: usize = 1024;

/// What came of a call.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum sessile_code {
    /// It was done.
    SESSILE_OK,
    /// The id is malformed; it never reached a store.
    SESSILE_INVALID_ID,
    /// The store URL is malformed, or its scheme or an option is unknown.
    SESSILE_INVALID_URL,
    /// An argument lies outside its limits.
    SESSILE_INVALID_ARGUMENT,
    /// The store cannot do this by its nature.
    SESSILE_UNSUPPORTED,
    /// The id is taken.
    SESSILE_EXISTS,
    /// The record is gone: expired, swept, or lost with a restart.
    SESSILE_GONE,
    /// The session was destroyed after it was read, and stays destroyed.
    SESSILE_DESTROYED,
    /// The lease was lost, and someone else has held the lock since.
    SESSILE_STALE,
    /// The lock was not free within the wait; the message names its holder.
    SESSILE_LOCK_TIMEOUT,
    /// The payload is over the limit; the old payload is untouched.
    SESSILE_TOO_LARGE,
    /// The store cannot be reached.
    SESSILE_UNREACHABLE,
    /// The store refuses us: wrong password, missing permission, foreign owner.
    SESSILE_DENIED,
    /// No space left: disk, quota or the configured size.
    SESSILE_FULL,
    /// The server has no memory left for the write.
    SESSILE_OUT_OF_MEMORY,
    /// The store dropped a live record to make room.
    SESSILE_EVICTED,
    /// Stored bytes are not what was written; they are left as they are.
    SESSILE_CORRUPT,
    /// The stored format is newer than this library, or foreign.
    SESSILE_INCOMPATIBLE,
    /// Any other failure of the operating system or the driver.
    SESSILE_IO,
    /// A defect of this library: please report it. The lease of that call, if there was one, is given up.
    SESSILE_PANIC,
}

impl sessile_code {
    pub(crate) fn of(kind: &ErrorKind) -> sessile_code {
        match kind {
            ErrorKind::InvalidId => sessile_code::SESSILE_INVALID_ID,
            ErrorKind::InvalidUrl => sessile_code::SESSILE_INVALID_URL,
            ErrorKind::InvalidArgument => sessile_code::SESSILE_INVALID_ARGUMENT,
            ErrorKind::Unsupported => sessile_code::SESSILE_UNSUPPORTED,
            ErrorKind::Exists => sessile_code::SESSILE_EXISTS,
            ErrorKind::Gone => sessile_code::SESSILE_GONE,
            ErrorKind::Destroyed => sessile_code::SESSILE_DESTROYED,
            ErrorKind::Stale => sessile_code::SESSILE_STALE,
            ErrorKind::LockTimeout { .. } => sessile_code::SESSILE_LOCK_TIMEOUT,
            ErrorKind::TooLarge { .. } => sessile_code::SESSILE_TOO_LARGE,
            ErrorKind::Unreachable => sessile_code::SESSILE_UNREACHABLE,
            ErrorKind::Denied => sessile_code::SESSILE_DENIED,
            ErrorKind::Full => sessile_code::SESSILE_FULL,
            ErrorKind::OutOfMemory => sessile_code::SESSILE_OUT_OF_MEMORY,
            ErrorKind::Evicted => sessile_code::SESSILE_EVICTED,
            ErrorKind::Corrupt => sessile_code::SESSILE_CORRUPT,
            ErrorKind::Incompatible => sessile_code::SESSILE_INCOMPATIBLE,
            // The kinds may grow: an older header must still have a name for a new one.
            _ => sessile_code::SESSILE_IO,
        }
    }
}

/// Why a call failed: what failed, on which store, why, and what to do. No session id, payload or password is in it.
#[repr(C)]
pub struct sessile_error {
    /// The code that the call returned.
    pub code: sessile_code,
    /// UTF-8 that ends with a zero byte; cut if it is longer.
    pub message: [c_char; SESSILE_MESSAGE_BYTES],
}

impl sessile_error {
    /// With its causes: the log line of the same failure has them, and a full disk is named by them only.
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

    /// The warning of a failed save said that the store failed, and not that its disk was full.
    #[test]
    fn a_message_names_the_cause() {
        let error = Error::new(ErrorKind::Io, "the file cannot be written");
        let error = sessile_error::of(&error.source(std::io::Error::other("no space left")));
        let text: Vec<u8> = error.message.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        assert!(String::from_utf8_lossy(&text).contains("no space left"));
    }
}
