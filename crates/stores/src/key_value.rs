//! A session as a value under a key of a server: what the stores in Redis and in Memcached have in common.
//!
//! Invariant: what a server hands out as an id is checked before it is one. Not here: the bytes of the values and the
//! names of the keys, which each store lays out for itself; locks (owner.rs, orphans.rs).

use std::time::Duration;

use sessile_core::{Error, ErrorKind, Key, Limits, Result};

use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid};

/// Regenerated ids may lead to ids that were regenerated themselves; more steps than this are a loop.
pub(crate) const ALIAS_STEPS_MAX: usize = 16;

/// The option that [`lock_ttl`] reads.
pub(crate) const LOCK_TTL_MS: OptionHelp =
    OptionHelp { name: "lock_ttl_ms", help: "a lock whose holder died is free after this (default 60000)" };
/// The option that [`prefix`] reads.
pub(crate) const PREFIX: OptionHelp =
    OptionHelp { name: "prefix", help: "first part of every key name (default sessile)" };

/// How long the server keeps a lock whose holder does not come back.
pub(crate) fn lock_ttl(url: &StoreUrl) -> Result<Duration> {
    let hour_ms = u64::try_from(Limits::TOMBSTONE_TTL.as_millis()).unwrap_or(u64::MAX);
    url.number("lock_ttl_ms", 60_000, 10..=hour_ms).map(Duration::from_millis)
}

/// The first part of every key name.
pub(crate) fn prefix(url: &StoreUrl, bytes_max: usize) -> Result<String> {
    let prefix = url.text("prefix").unwrap_or("sessile");
    // No spaces, which end a key of Memcached; and for Redis no braces (they would move the hash tag) and no glob
    // characters (they would widen a listing).
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    if prefix.is_empty() || prefix.len() > bytes_max || !prefix.bytes().all(allowed) {
        return Err(invalid(format!("option prefix must be 1 to {bytes_max} characters of A-Z a-z 0-9 _ - . :")));
    }
    Ok(prefix.to_owned())
}

/// The longest key of Memcached, which is more than anybody has before the ids of sessions.
const FOREIGN_PREFIX_BYTES_MAX: usize = 250;

/// The first part of the keys of another program. It may be anything, and nothing.
pub(crate) fn foreign_prefix(url: &StoreUrl, default: &str) -> Result<String> {
    let prefix = url.text(PREFIX.name).unwrap_or(default);
    if prefix.len() > FOREIGN_PREFIX_BYTES_MAX {
        return Err(invalid(format!("option prefix must have at most {FOREIGN_PREFIX_BYTES_MAX} bytes")));
    }
    Ok(prefix.to_owned())
}

/// The key of the same bin with the id that an alias carries.
pub(crate) fn sibling(key: &Key, id: &[u8]) -> Option<Key> {
    Key::in_bin(key.bin().clone(), std::str::from_utf8(id).ok()?).ok()
}

/// An alias that leads back to itself cannot be made by these stores.
pub(crate) fn circle() -> Error {
    Error::new(ErrorKind::Corrupt, "the id leads in a circle").advice("destroy the session")
}

/// Bytes that the store did not write, or that changed since.
pub(crate) fn corrupt() -> Error {
    Error::new(ErrorKind::Corrupt, "the stored bytes are not what was written")
        .advice("find out who else writes keys with this prefix; destroy the session to be rid of it")
}
