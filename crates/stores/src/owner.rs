//! Who owns a lock that is a key on a server: a random token, and a note for those who wait.
//!
//! Invariant: owning a lock is knowing its token; the note (process, host, since when) is only shown. Not here: the
//! other bytes of a lock, which each store lays out for itself.

use sessile_core::{Error, ErrorKind, Holder, Result, Timestamp};

use crate::host;

/// The secret of an owner: 128 random bits.
pub(crate) type Token = [u8; 16];

/// A new random token. From the kernel, so that parent and child never draw the same.
pub(crate) fn new_token() -> Result<Token> {
    let mut token = Token::default();
    getrandom::fill(&mut token)
        .map_err(|error| Error::new(ErrorKind::Io, "the kernel gives no random bytes").source(error))?;
    Ok(token)
}

/// Refuses a lease that another process took: this one was forked from it, and inherited the lease.
pub(crate) fn check_process(owner: u32) -> Result<()> {
    if owner == std::process::id() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Stale, "the lease belongs to the process that this one was forked from")
        .advice("begin anew in the child"))
}

/// The note: process id (4 bytes), since (8 bytes), host (0 to 64 bytes).
pub(crate) fn holder_bytes(since: Timestamp) -> Vec<u8> {
    let mut bytes = std::process::id().to_le_bytes().to_vec();
    bytes.extend_from_slice(&since.as_ms().to_le_bytes());
    bytes.extend_from_slice(host::name().as_bytes());
    bytes
}

/// Who holds a lock, as far as its note says. Anyone may have written it: nothing is assumed.
pub(crate) fn holder(note: &[u8]) -> Holder {
    let pid = note.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let since = note.get(4..12).and_then(|bytes| bytes.try_into().ok());
    let name = note.get(12..).filter(|name| !name.is_empty() && name.len() <= host::NAME_BYTES_MAX);
    let name = name.filter(|name| name.iter().all(u8::is_ascii_graphic)).map(String::from_utf8_lossy);
    Holder {
        pid,
        host: name.map(std::borrow::Cow::into_owned),
        since: since.map(|bytes| Timestamp::from_ms(u64::from_le_bytes(bytes))),
    }
}
