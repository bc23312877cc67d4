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
use sessile_core::{Holder, Key, Timestamp};

use super::value::Writer;
use crate::owner::{self, Token, holder_bytes};

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

/// Who holds a lock, as far as its value says. Anyone may have written it: nothing is assumed.
pub(super) fn holder(lock: &[u8]) -> Holder {
    owner::holder(lock.get(HOLDER_AT..).unwrap_or_default())
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
