//! The bytes of a data item: a fixed header, then the payload.
//!
//! ```text
//! offset 0       8     9      10       18        26        34        42        50     58
//!        | check | 'S' | kind | writer | version | created | written | expires | ends | payload
//! bytes    8       1     1      8        8         8         8         8         8
//! ```
//!
//! Numbers are little-endian; moments are milliseconds since 1970, 0 in `ends` means none. `check`
//! covers everything after it. `writer` is the random mark of the last writer, kept by a touch. By
//! `kind`:
//!
//! * `L`, a live record. `ends` is its absolute end.
//! * `P`, pending: the first half of a regeneration. The payload begins with the length (two bytes)
//!   and text of the old id; it is a record if, and only if, that id's item is an alias to this
//!   one.
//! * `A`, an alias: regenerated. The payload is the new id, `expires` the end of the grace, `ends`
//!   when it is forgotten.
//! * `D`, a tombstone: destroyed. `version` is the CAS number of the destroyed item.
//!
//! An item without bytes holds the place of a session that was begun and is not there.

use sessile_core::{Head, Key, Result, Stored, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use super::reply::Item;
use crate::connections::key_value::{corrupt, from_header, moment, number, to_header};

const CHECK_BYTES: usize = 8;
pub const HEADER_BYTES: usize = 58;
/// Kind of an alias, and so the client flags of its item.
pub const ALIAS: u8 = b'A';
pub const PENDING: u8 = b'P';

pub fn encode(stored: &Stored, writer: u64, payload: &[u8]) -> Vec<u8> {
    let Some((kind, mut head, payload)) = to_header(stored, payload) else { return Vec::new() };
    if let Stored::Tombstone { mark, .. } = stored {
        head.version = *mark;
    }
    encode_parts(kind, writer, &head, &[payload])
}

pub fn encode_pending(head: &Head, writer: u64, old: &Key, payload: &[u8]) -> Vec<u8> {
    let old = old.id().as_bytes();
    // Ids are far shorter than this type can say.
    let length = u16::try_from(old.len()).unwrap_or(u16::MAX).to_le_bytes();
    encode_parts(PENDING, writer, head, &[&length, old, payload])
}

fn encode_parts(kind: u8, writer: u64, head: &Head, payload: &[&[u8]]) -> Vec<u8> {
    let payload_bytes: usize = payload.iter().map(|part| part.len()).sum();
    let mut value = Vec::with_capacity(HEADER_BYTES + payload_bytes);
    value.extend_from_slice(&[0; CHECK_BYTES]);
    value.extend_from_slice(&[b'S', kind]);
    let moments = [head.created, head.written, head.expires, head.ends.unwrap_or(Timestamp::ZERO)];
    for number in [writer, head.version].into_iter().chain(moments.map(Timestamp::as_ms)) {
        value.extend_from_slice(&number.to_le_bytes());
    }
    payload.iter().for_each(|part| value.extend_from_slice(part));
    let check = check_of(&value).to_le_bytes();
    value.iter_mut().zip(check).for_each(|(slot, byte)| *slot = byte);
    value
}

#[derive(Debug, PartialEq)]
pub struct Decoded {
    pub stored: Stored,
    pub payload: Vec<u8>,
    pub pending_from: Option<Key>,
}

/// `Corrupt` when the bytes are not what was written.
pub fn decode(key: &Key, mut value: Vec<u8>) -> Result<Decoded> {
    let head = decode_header(&value).ok_or_else(corrupt)?;
    let kind = kind_of(&value);
    value.drain(..HEADER_BYTES);
    let pending = kind == PENDING;
    let pending_from = pending.then(|| take_old_key(key, &mut value)).transpose()?;
    let kind = if pending { b'L' } else { kind };
    let stored = from_header(kind, head, head.version, || key.sibling(&value))?;
    Ok(Decoded { stored, payload: value, pending_from })
}

fn decode_header(value: &[u8]) -> Option<Head> {
    if value.get(CHECK_BYTES) != Some(&b'S') || number(value, 0)? != check_of(value) {
        return None;
    }
    let ends = moment(value, 50).map(|ends| Some(ends).filter(|ends| *ends != Timestamp::ZERO))?;
    let (version, created) = (number(value, 18)?, moment(value, 26)?);
    let (written, expires) = (moment(value, 34)?, moment(value, 42)?);
    Some(Head { version, created, written, expires, ends, owner: None })
}

fn take_old_key(key: &Key, payload: &mut Vec<u8>) -> Result<Key> {
    let (length, rest) = payload.split_first_chunk().ok_or_else(corrupt)?;
    let length = usize::from(u16::from_le_bytes(*length));
    let old = key.sibling(rest.get(..length).ok_or_else(corrupt)?)?;
    payload.drain(..length + 2);
    Ok(old)
}

/// The kind of an item whose check is of no interest yet; 0 without one.
pub fn kind_of(value: &[u8]) -> u8 {
    value.get(CHECK_BYTES + 1).copied().unwrap_or(0)
}

impl Item {
    /// [`decode`]; `None` without bytes, or when invalidated.
    pub fn decode(self, key: &Key) -> Result<Option<Decoded>> {
        let counts = !self.stale && !self.value.is_empty();
        counts.then(|| decode(key, self.value)).transpose()
    }

    /// The last writer of a data item, if it has a header that counts.
    pub fn writer(&self) -> Option<u64> {
        number(&self.value, 10).filter(|_| !self.stale)
    }

    /// Whether it is of this kind and has a header that counts.
    pub fn is(&self, kind: u8) -> bool {
        kind_of(&self.value) == kind && !self.stale
    }
}

fn check_of(value: &[u8]) -> u64 {
    xxh3_64(value.get(CHECK_BYTES..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sample() -> Head {
        let ms = Timestamp::from_ms;
        let (created, written, expires, ends) = (ms(7), ms(8), ms(900), Some(ms(1_000)));
        Head { version: 3, created, written, expires, ends, owner: None }
    }

    fn key(id: &str) -> Key {
        Key::session(id).unwrap()
    }

    #[test]
    fn an_item_reads_back_as_it_was_written() {
        let now = Timestamp::from_ms(5);
        let alias = Stored::alias(key("new"), Duration::ZERO, now);
        for stored in [Stored::Live(sample()), alias, Stored::tombstone(9, now)] {
            let item = Item { value: encode(&stored, 77, b"cart"), ..Item::default() };
            assert_eq!(item.writer(), Some(77));
            let read = item.decode(&key("a")).unwrap().unwrap();
            assert_eq!(read.pending_from, None);
            assert_eq!(read.stored, stored);
            assert!(stored.head().is_none() || read.payload == b"cart");
        }
        let pending = encode_pending(&sample(), 77, &key("old"), b"cart");
        let (stored, pending_from) = (Stored::Live(sample()), Some(key("old")));
        let expected = Decoded { stored, payload: b"cart".to_vec(), pending_from };
        assert_eq!(decode(&key("a"), pending).unwrap(), expected);
    }

    #[test]
    fn every_changed_byte_is_noticed_and_no_length_panics() {
        let value = encode(&Stored::Live(sample()), 77, b"cart");
        for at in 0..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1;
            assert_eq!(decode(&key("a"), changed).unwrap_err().kind().code(), "corrupt");
            assert!(decode(&key("a"), value[..at].to_vec()).is_err());
        }
        for hostile in [b"".as_slice(), b"\x01", b"\xff\xffabc", b"\x02\x00a", b"\x02\x00\xff\xff"]
        {
            let value = encode_parts(PENDING, 77, &sample(), &[hostile]);
            assert_eq!(decode(&key("a"), value).unwrap_err().kind().code(), "corrupt");
        }
    }
}
