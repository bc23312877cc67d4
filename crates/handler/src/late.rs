//! The old id after a regeneration: the session as it was before, for late requests.
//!
//! An attacker who planted an id before a log-in must not be in after it, so an old id never leads
//! to the new session. But a page has other requests under way when its log-in answers, and they
//! still carry the old cookie. For the grace they see the session as it was before, and cannot
//! change it.
//!
//! The store keeps an alias from the old id to the new session for the grace, which tells here that
//! the session still lives: after a log-out the old id shows nothing. The earlier payload is a
//! record of its own, under the old id in the bin [`BIN`]. Without that record the old id shows
//! nothing, so a store that loses it is safe.

use std::time::Duration;

use sessile_core::{Bin, ErrorKind, Key, Result, Sessions, Ttl};

/// The bin of earlier payloads.
const BIN: &str = "before_regeneration";

fn key_of(old: &Key) -> Result<Key> {
    Key::in_bin(Bin::new(BIN)?, old.id())
}

/// Keeps the stored payload for late requests: what the request has changed since may be a log-in.
/// Returns whether there is one.
pub(crate) fn keep(sessions: &Sessions, old: &Key, grace: Duration) -> Result<bool> {
    let Some(record) = sessions.peek(old)? else { return Ok(false) };
    let (key, ttl) = (key_of(old)?, Ttl::sliding(grace)?);
    match sessions.create(&key, &record.payload, ttl) {
        // Left by an earlier regeneration that went wrong.
        Err(error) if *error.kind() == ErrorKind::Exists => {
            sessions.begin(&key, Duration::ZERO)?.lease.commit(&record.payload, ttl)?;
        }
        created => created?,
    }
    Ok(true)
}

/// Forgets the payload for late requests.
pub(crate) fn forget(sessions: &Sessions, old: &Key) -> Result<()> {
    sessions.destroy(&key_of(old)?)
}

/// The payload for a late request.
pub(crate) fn payload(sessions: &Sessions, old: &Key) -> Result<Option<Vec<u8>>> {
    Ok(sessions.peek(&key_of(old)?)?.map(|record| record.payload))
}
