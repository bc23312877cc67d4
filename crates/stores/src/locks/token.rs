//! The owner of a lock that is a key on a server: a random token, a note for waiters, and how long
//! the lock lives.
//!
//! Invariant: a process owns a lock if it knows the token; the note (process, host, since when) is
//! only shown. Each store lays out the rest of its locks.

use std::time::Duration;

use sessile_core::{Holder, Limits, Result, Timestamp};

use crate::locks::host;
use crate::random;
use crate::registry::{OptionHelp, option};
use crate::store_url::StoreUrl;

pub type Token = [u8; 16];

pub fn new_token() -> Result<Token> {
    random::bytes()
}

/// The mark that a token leaves in what it writes: its first bytes.
pub fn mark(token: &Token) -> u64 {
    u128::from_le_bytes(*token) as u64
}

/// The note: process id (4 bytes), since (8 bytes), host (0 to 64 bytes).
pub fn holder_bytes(since: Timestamp) -> Vec<u8> {
    let mut bytes = std::process::id().to_le_bytes().to_vec();
    bytes.extend_from_slice(&since.as_ms().to_le_bytes());
    bytes.extend_from_slice(host::name().as_bytes());
    bytes
}

/// The note may be foreign.
pub fn holder(note: &[u8]) -> Holder {
    let pid = note.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let since = note.get(4..12).and_then(|bytes| bytes.try_into().ok());
    let name = note.get(12..).filter(|name| !name.is_empty() && name.len() <= host::NAME_BYTES_MAX);
    let name =
        name.filter(|name| name.iter().all(u8::is_ascii_graphic)).map(String::from_utf8_lossy);
    Holder {
        pid,
        host: name.map(std::borrow::Cow::into_owned),
        since: since.map(|bytes| Timestamp::from_ms(u64::from_le_bytes(bytes))),
    }
}

pub const LOCK_TTL_MS: OptionHelp =
    option("lock_ttl_ms", "a lock whose holder died is free after this (default 60000)");

pub fn lock_ttl(url: &StoreUrl) -> Result<Duration> {
    let hour_ms = u64::try_from(Limits::TOMBSTONE_TTL.as_millis()).unwrap_or(u64::MAX);
    url.number("lock_ttl_ms", 60_000, 10..=hour_ms).map(Duration::from_millis)
}
