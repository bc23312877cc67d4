//! The bytes of lock keys and of data keys.
//!
//! A lock:
//!
//! ```text
//! offset 0       1       17      18    22      30
//!        | state | token | marks | pid | since | host ...
//! bytes    1       16      1       4     8       0 to 64
//! ```
//!
//! * `state`: `L`, held, or `R`, reserved for the waiter that pops `token` from the wait list, so
//!   that a releaser that begins again at once cannot overtake it. A reservation ends after `marks`
//!   and lasts 200 ms: a round trip. If the woken waiter died, the others lose this much.
//! * `token`: 128 random bits for each begin. Owning a lock means knowing its token.
//! * `marks`: `0` without waiters, up to `3` when there are waiters or lately were.
//!
//! A record, a tombstone or an alias: a fixed header, then the payload.
//!
//! ```text
//! offset 0     1      2        10     18        26      34        42        50        58
//!        | 'S' | kind | writer | ends | expires | check | version | created | written | payload
//! bytes    1     1      8        8      8         8       8         8         8
//! ```
//!
//! Numbers are little-endian; moments are milliseconds since 1970, 0 in `ends` means none.
//!
//! * `kind`: `L`, a live record; `O`, one with an owner, whose 12 bytes precede the payload; `D`, a
//!   tombstone (destroyed), whose `ends` is when it is forgotten; `A`, an alias (regenerated): its
//!   payload is the new id, `expires` the end of the grace, and `ends` when it is forgotten.
//! * `writer`: the random mark of the last writer, the first bytes of its token. It is only
//!   compared for equality, so nothing depends on a counter surviving.
//! * `check`: of everything after it. A touch or a release rewrites what stands before it in place.
//!
//! `kind`, `writer` and `ends` (bytes 1 to 17) are the *stamp* that a lease remembers. The scripts
//! know these offsets, too. Bytes from the server are untrusted and checked here.

use sessile_core::{Head, Holder, Key, Owner, Result, Stored, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use crate::connections::key_value::{corrupt, from_header, moment, number, to_header};
use crate::locks::token::{self, Token, holder_bytes};

const CHECKED_FROM: usize = 34;
pub const HEADER_BYTES: usize = 58;
/// With an owner.
pub const HEAD_BYTES: usize = HEADER_BYTES + Owner::BYTES;
const OWNED: u8 = b'O';
const STAMP_BYTES: usize = 17;

/// Where the payload of a record begins.
pub fn payload_from(head: Option<&Head>) -> usize {
    if head.is_some_and(|head| head.owner.is_some()) { HEAD_BYTES } else { HEADER_BYTES }
}

pub fn encode(stored: &Stored, token: &Token, payload: &[u8]) -> Vec<u8> {
    let Some((kind, head, payload)) = to_header(stored, payload) else { return Vec::new() };
    let moments = [head.created, head.written].map(|moment| moment.as_ms().to_le_bytes());
    let owner = head.owner.map(Owner::to_bytes);
    let kind = if owner.is_some() { OWNED } else { kind };
    let owner = owner.as_ref().map_or(&[][..], |owner| owner.as_slice());
    let checked = [&head.version.to_le_bytes(), moments.as_flattened(), owner, payload].concat();
    let mut value = Vec::with_capacity(CHECKED_FROM + checked.len());
    value.extend_from_slice(&[b'S', kind]);
    let ends = head.ends.map_or(0, Timestamp::as_ms);
    for number in [token::mark(token), ends, head.expires.as_ms(), xxh3_64(&checked)] {
        value.extend_from_slice(&number.to_le_bytes());
    }
    value.extend_from_slice(&checked);
    value
}

/// What a data key holds, and the payload of a record. `Corrupt` for bytes that are not ours.
pub fn decode(key: &Key, value: Option<Vec<u8>>) -> Result<(Stored, Vec<u8>)> {
    let Some(mut value) = value else { return Ok((Stored::Nothing, Vec::new())) };
    let check = xxh3_64(value.get(CHECKED_FROM..).unwrap_or_default());
    if number(&value, CHECKED_FROM - 8) != Some(check) {
        return Err(corrupt());
    }
    let stored = decode_header(&value, |id| key.sibling(id))?;
    let head = stored.head();
    value.drain(..payload_from(head.as_ref()));
    Ok((stored, value))
}

/// What a data key holds by its first [`HEAD_BYTES`], which are not checked against the rest.
/// `target` makes something of the rest of an alias.
pub fn decode_header<K>(
    value: &[u8],
    target: impl FnOnce(&[u8]) -> Result<K>,
) -> Result<Stored<K>> {
    let read = || {
        let ends =
            moment(value, 10).map(|ends| Some(ends).filter(|ends| *ends != Timestamp::ZERO))?;
        let (version, created) = (number(value, 34)?, moment(value, 42)?);
        let (written, expires) = (moment(value, 50)?, moment(value, 18)?);
        let kind = *value.get(1).filter(|_| value.first() == Some(&b'S'))?;
        let owner = || {
            let (owner, _) = value.get(HEADER_BYTES..)?.split_first_chunk()?;
            Owner::from_bytes(*owner)
        };
        let (kind, owner) = if kind == OWNED { (b'L', Some(owner()?)) } else { (kind, None) };
        Some((kind, Head { version, created, written, expires, ends, owner }, number(value, 2)?))
    };
    let (kind, head, mark) = read().ok_or_else(corrupt)?;
    from_header(kind, head, mark, || target(value.get(HEADER_BYTES..).unwrap_or_default()))
}

pub fn leads_on(value: Option<&[u8]>, now: Timestamp) -> bool {
    let stored = value.and_then(|value| decode_header(value, |_| Ok(())).ok());
    stored.is_some_and(|stored| stored.leads_to(now).is_some())
}

pub fn stamp(value: Option<&[u8]>) -> Vec<u8> {
    value.and_then(|value| value.get(1..=STAMP_BYTES)).unwrap_or_default().to_vec()
}

pub fn ends_of_stamp(stamp: &[u8]) -> Option<Timestamp> {
    number(stamp, 9).filter(|ends| *ends != 0).map(Timestamp::from_ms)
}

pub fn held_value(token: &Token, since: Timestamp) -> Vec<u8> {
    [b"L", token.as_slice(), b"0", &holder_bytes(since)].concat()
}

/// The bytes may be foreign.
pub fn holder(lock: &[u8]) -> Holder {
    token::holder(lock.get(18..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = *b"writer-1........";

    fn live() -> Stored {
        let ms = Timestamp::from_ms;
        let (created, written, expires, ends) = (ms(7), ms(8), ms(900), Some(ms(1_000)));
        Stored::Live(Head { version: 3, created, written, expires, ends, owner: None })
    }

    #[test]
    fn a_value_reads_back_as_it_was_written() {
        let (key, now) = (Key::session("a").unwrap(), Timestamp::from_ms(5));
        let alias = Stored::alias(Key::session("b").unwrap(), std::time::Duration::ZERO, now);
        let owner = Owner::new(b"17").ok();
        let owned = Stored::Live(Head { owner, ..live().head().unwrap() });
        for stored in
            [live(), owned, Stored::tombstone(token::mark(&TOKEN), now), alias, Stored::Nothing]
        {
            let value = encode(&stored, &TOKEN, b"cart");
            let read = decode(&key, Some(value.clone()).filter(|value| !value.is_empty())).unwrap();
            assert_eq!(read.0, stored);
            assert!(stored.head().is_none() || read.1 == b"cart");
        }
        let stamp = stamp(Some(&encode(&live(), &TOKEN, b"")));
        assert_eq!(stamp.len(), STAMP_BYTES);
        assert_eq!(ends_of_stamp(&stamp), Some(Timestamp::from_ms(1_000)));
    }

    #[test]
    fn a_changed_byte_behind_the_check_is_noticed_and_no_length_panics() {
        let key = Key::session("a").unwrap();
        let value = encode(&live(), &TOKEN, b"cart");
        for at in CHECKED_FROM..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1;
            assert_eq!(decode(&key, Some(changed)).unwrap_err().kind().code(), "corrupt");
        }
        for length in 0..value.len() {
            assert!(decode(&key, Some(value[..length].to_vec())).is_err());
        }
    }

    /// Another version would change the first byte, or have kinds that this one does not know.
    #[test]
    fn a_value_of_another_version_is_refused_and_not_misread() {
        let key = Key::session("a").unwrap();
        for (at, byte) in [(0, b'T'), (0, b's'), (1, b'X'), (1, 0)] {
            let mut value = encode(&live(), &TOKEN, b"cart");
            value[at] = byte;
            assert_eq!(decode(&key, Some(value)).unwrap_err().kind().code(), "corrupt");
        }
    }

    #[test]
    fn a_lock_names_its_holder() {
        let since = Timestamp::from_ms(99);
        let value = held_value(&[7; 16], since);
        let shown = holder(&value);
        assert_eq!((shown.pid, shown.since), (Some(std::process::id()), Some(since)));
        for length in 0..value.len() {
            holder(&value[..length]); // must not panic
        }
    }
}
