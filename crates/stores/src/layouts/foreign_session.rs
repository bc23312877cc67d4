//! A session of another program, whole, for a copy of it in one of our stores.
//!
//! Invariant: the payload is what the same program reads and writes over Sessile, which is not
//! always what it keeps in its own storage. Not here: where the sessions are, and how they are
//! walked through.

use sessile_core::{Error, ErrorKind, OwnerChange, Result, Timestamp};

/// A session of another program.
///
/// Without `Debug`, which would print the payload.
pub struct ForeignSession {
    /// The payload of the copy.
    pub payload: Vec<u8>,
    /// Whether the other program keeps no content for it.
    pub is_empty: bool,
    /// The owner of the copy; `Keep` if the other program notes no user.
    pub owner: OwnerChange,
    /// When it was last used, or at least written, if known.
    pub used: Option<Timestamp>,
    /// The expiry; `None` if there is none.
    pub expires: Option<Timestamp>,
}

/// The error of a storage whose sessions can be looked at, but not copied.
pub(super) fn not_copied(why: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unsupported, why)
}

/// The answer of a walk that reads no contents.
pub(super) fn reads_no_contents() -> Result<()> {
    Err(not_copied("the sessions of this storage are counted, and not copied").advice(
        "copy PHP's own files from files:DIRECTORY?php=1; other visitors begin a new session",
    ))
}
