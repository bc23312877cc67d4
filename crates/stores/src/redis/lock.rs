//! Locks: the bytes of a lock key, and what a lease remembers.
//!
//! ```text
//! offset 0       1       17      18    22      30
//!        | state | token | marks | pid | since | host ...
//! bytes    1       16      1       4     8       0 to 64
//! ```
//!
//! `state` is `L` (held) or `R` (reserved for the waiter that pops `token` from the wait list; nothing follows
//! the marks then). `token` is random, 128 bits, one for each begin: owning a lock means knowing its token.
//! `marks` is `0` when nobody waits, up to `3` when someone does or lately did.

use std::time::Instant;

use redis::Connection;
use sessile_core::{Error, ErrorKind, Holder, Key, Result, Timestamp};

use super::value::Writer;
use crate::host;

/// The secret of an owner.
pub(super) type Token = [u8; 16];

const HOLDER_AT: usize = 18;

/// What the store remembers while a lease lives.
pub(super) struct Held {
    pub(super) key: Key,
    pub(super) token: Token,
    pub(super) fence: u64,
    /// The process that took it: a forked child must leave it alone.
    pub(super) pid: u32,
    pub(super) taken: Instant,
    pub(super) since: Timestamp,
    /// The stamp of what was stored at begin, empty for nothing.
    pub(super) read: Vec<u8>,
    /// What the next version goes on from; `None` when there was no live record.
    pub(super) base: Option<Base>,
    /// The connection that has watched lock and record since before they were read, if they were free.
    pub(super) watching: Option<Connection>,
}

/// What a commit keeps of the record that was read.
#[derive(Clone, Copy)]
pub(super) struct Base {
    pub(super) version: u64,
    pub(super) created: Timestamp,
    pub(super) ends: Option<Timestamp>,
}

impl Held {
    /// The mark that this lease leaves in what it writes.
    pub(super) fn writer(&self) -> Writer {
        writer(&self.token)
    }

    /// The bytes of a lock that this lease holds.
    pub(super) fn lock_value(&self) -> Vec<u8> {
        held_value(&self.token, &holder_bytes(self.since))
    }
}

/// The bytes of a lock that is held and for which nobody waits.
pub(super) fn held_value(token: &Token, holder: &[u8]) -> Vec<u8> {
    [b"L", token.as_slice(), b"0", holder].concat()
}

/// The mark of a token in the data that it writes.
pub(super) fn writer(token: &Token) -> Writer {
    let [a, b, c, d, e, f, g, h, ..] = *token;
    [a, b, c, d, e, f, g, h]
}

/// A new random token. From the kernel, so that parent and child never draw the same.
pub(super) fn new_token() -> Result<Token> {
    let mut token = Token::default();
    getrandom::fill(&mut token)
        .map_err(|error| Error::new(ErrorKind::Io, "the kernel gives no random bytes").source(error))?;
    Ok(token)
}

/// The tail of a lock value: who we are and since when.
pub(super) fn holder_bytes(since: Timestamp) -> Vec<u8> {
    let mut bytes = std::process::id().to_le_bytes().to_vec();
    bytes.extend_from_slice(&since.as_ms().to_le_bytes());
    bytes.extend_from_slice(host::name().as_bytes());
    bytes
}

/// Who holds a lock, as far as its value says. Anyone may have written it: nothing is assumed.
pub(super) fn holder(lock: &[u8]) -> Holder {
    let pid = lock.get(HOLDER_AT..HOLDER_AT + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let since = lock.get(HOLDER_AT + 4..HOLDER_AT + 12).and_then(|bytes| bytes.try_into().ok());
    let name = lock.get(HOLDER_AT + 12..).filter(|name| !name.is_empty() && name.len() <= host::NAME_BYTES_MAX);
    let name = name.filter(|name| name.iter().all(u8::is_ascii_graphic)).map(String::from_utf8_lossy);
    Holder {
        pid,
        host: name.map(std::borrow::Cow::into_owned),
        since: since.map(|bytes| Timestamp::from_ms(u64::from_le_bytes(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_its_holder() {
        let held = Held {
            key: Key::session("a").unwrap(),
            token: [7; 16],
            fence: 42,
            pid: 1,
            taken: Instant::now(),
            since: Timestamp::from_ms(99),
            read: Vec::new(),
            base: None,
            watching: None,
        };
        let value = held.lock_value();
        let shown = holder(&value);
        assert_eq!((shown.pid, shown.since), (Some(std::process::id()), Some(Timestamp::from_ms(99))));
        for length in 0..value.len() {
            holder(&value[..length]); // must not panic
        }
    }
}
