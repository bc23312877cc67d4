//! The bytes of a data key: a fixed header, then the payload.
//!
//! ```text
//! offset 0     1     2        10     18       26     34       42       50       58
//!        | 'S' | kind | writer | ends | expires | check | version | created | written | payload ...
//! bytes    1     1      8        8      8         8       8         8         8
//! ```
//!
//! Numbers are little-endian; moments are milliseconds since 1970, 0 in `ends` means none. `kind` is `L` (a
//! live record), `D` (a tombstone: destroyed) or `A` (an alias: regenerated; the payload is the new id).
//! `writer` is the random mark of whoever wrote last: it is only ever compared for equality, so nothing
//! depends on a counter surviving. `kind`, `writer` and `ends` together are the *stamp* that a lease remembers.
//! `check` covers everything after it; what stands before it is what a touch or a release rewrites in place.
//!
//! The scripts know these offsets too: they address `kind` to `ends` as bytes 1 to 17 and a touch rewrites
//! bytes 10 to 25. Bytes from the server are untrusted and checked here.

use sessile_core::{Record, Result, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use crate::key_value::corrupt;

const MAGIC: u8 = b'S';
const CHECKED_FROM: usize = 34;
/// Length of the header.
pub(super) const HEADER_BYTES: usize = 58;
/// Length of a stamp.
pub(super) const STAMP_BYTES: usize = 17;

/// Who wrote a value last.
pub(super) type Writer = [u8; 8];

/// What a data key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Live,
    Tombstone,
    Alias,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Kind::Live => b'L',
            Kind::Tombstone => b'D',
            Kind::Alias => b'A',
        }
    }

    const fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            b'L' => Some(Kind::Live),
            b'D' => Some(Kind::Tombstone),
            b'A' => Some(Kind::Alias),
            _ => None,
        }
    }
}

/// The decoded header of a data key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) writer: Writer,
    /// Live: the absolute end. Tombstone and alias: when it may be forgotten.
    pub(super) ends: Option<Timestamp>,
    /// Live: the expiry. Alias: the end of the grace.
    pub(super) expires: Timestamp,
    pub(super) check: u64,
    pub(super) version: u64,
    pub(super) created: Timestamp,
    pub(super) written: Timestamp,
}

impl Header {
    /// The header of a live record, an alias or a tombstone that is about to be written.
    pub(super) fn new(kind: Kind, writer: Writer, expires: Timestamp, ends: Option<Timestamp>) -> Header {
        let zero = Timestamp::ZERO;
        Header { kind, writer, ends, expires, check: 0, version: 0, created: zero, written: zero }
    }

    /// Decodes the first [`HEADER_BYTES`] of a value.
    pub(super) fn decode(value: &[u8]) -> Result<Header> {
        Header::read(value).ok_or_else(corrupt)
    }

    fn read(value: &[u8]) -> Option<Header> {
        let number = |at: usize| value.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let moment = |at: usize| number(at).map(Timestamp::from_ms);
        if *value.first()? != MAGIC {
            return None;
        }
        Some(Header {
            kind: Kind::from_byte(*value.get(1)?)?,
            writer: value.get(2..10)?.try_into().ok()?,
            ends: moment(10).map(|ends| (ends != Timestamp::ZERO).then_some(ends))?,
            expires: moment(18)?,
            check: number(26)?,
            version: number(34)?,
            created: moment(42)?,
            written: moment(50)?,
        })
    }

    /// The value with this header: the payload behind it, the check filled in.
    pub(super) fn encode(&self, payload: &[u8]) -> Vec<u8> {
        let mut value = Vec::with_capacity(HEADER_BYTES + payload.len());
        value.extend_from_slice(&[MAGIC, self.kind.byte()]);
        value.extend_from_slice(&self.writer);
        for number in [
            self.ends.map_or(0, Timestamp::as_ms),
            self.expires.as_ms(),
            0,
            self.version,
            self.created.as_ms(),
            self.written.as_ms(),
        ] {
            value.extend_from_slice(&number.to_le_bytes());
        }
        value.extend_from_slice(payload);
        let check = check_of(&value).to_le_bytes();
        for (slot, byte) in value.iter_mut().skip(CHECKED_FROM - check.len()).zip(check) {
            *slot = byte;
        }
        value
    }
}

/// Splits a whole value into header and payload.
///
/// # Errors
///
/// `Corrupt` when the bytes are not what was written.
pub(super) fn open(mut value: Vec<u8>) -> Result<(Header, Vec<u8>)> {
    let header = Header::decode(&value)?;
    if check_of(&value) != header.check {
        return Err(corrupt());
    }
    value.drain(..HEADER_BYTES);
    Ok((header, value))
}

/// The stamp of a value, empty for none.
pub(super) fn stamp_of(value: &[u8]) -> Vec<u8> {
    value.get(1..=STAMP_BYTES).unwrap_or_default().to_vec()
}

/// The absolute end that a stamp carries.
pub(super) fn ends_of_stamp(stamp: &[u8]) -> Option<Timestamp> {
    let ends = stamp.get(9..STAMP_BYTES)?.try_into().ok().map(u64::from_le_bytes)?;
    (ends != 0).then(|| Timestamp::from_ms(ends))
}

/// The record of a live header.
pub(super) fn record(header: &Header, payload: Vec<u8>) -> Record {
    Record {
        payload,
        version: header.version,
        created: header.created,
        written: header.written,
        expires: header.expires,
        ends: header.ends,
    }
}

fn check_of(value: &[u8]) -> u64 {
    xxh3_64(value.get(CHECKED_FROM..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            version: 3,
            created: Timestamp::from_ms(7),
            written: Timestamp::from_ms(8),
            ..Header::new(Kind::Live, *b"writer-1", Timestamp::from_ms(900), Some(Timestamp::from_ms(1_000)))
        }
    }

    #[test]
    fn a_value_reads_back_as_it_was_written() {
        let (header, payload) = open(sample().encode(b"cart")).unwrap();
        assert_eq!((header.check, payload.as_slice()), (header.check, b"cart".as_slice()));
        assert_eq!(Header { check: 0, ..header }, sample());
        let value = sample().encode(b"");
        assert_eq!(ends_of_stamp(&stamp_of(&value)), Some(Timestamp::from_ms(1_000)));
    }

    #[test]
    fn a_changed_byte_behind_the_check_is_noticed_and_no_length_panics() {
        let value = sample().encode(b"cart");
        for at in CHECKED_FROM..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1;
            assert_eq!(open(changed).unwrap_err().kind().code(), "corrupt");
        }
        for length in 0..value.len() {
            assert!(open(value[..length].to_vec()).is_err());
        }
    }
}
