//! The bytes of a data item: a fixed header, then the payload.
//!
//! ```text
//! offset 0       8     9      10       18        26        34        42        50     58
//!        | check | 'S' | kind | writer | version | created | written | expires | ends | payload ...
//! bytes    8       1     1      8        8         8         8         8         8
//! ```
//!
//! Numbers are little-endian; moments are milliseconds since 1970, 0 in `ends` means none. `check` covers everything
//! after it. `writer` is the random mark of whoever wrote last, kept by a touch. By `kind`:
//!
//! * `L`, a live record. `ends` is its absolute end.
//! * `P`, pending: the first half of a regeneration. The payload begins with the length (two bytes) and text of the old
//!   id; it is a record if, and only if, that id's item is an alias to this one.
//! * `A`, an alias: regenerated. The payload is the new id, `expires` the end of the grace, `ends` when it is forgotten.
//! * `D`, a tombstone: destroyed. `version` is the CAS number of the item whose destruction it tells of.
//!
//! An item without bytes holds the place of a session that somebody has begun and that is not there. Bytes from the
//! server are untrusted and checked here.

use sessile_core::{Record, Result, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use crate::key_value::corrupt;

const MAGIC: u8 = b'S';
const CHECK_BYTES: usize = 8;
/// Length of the header.
pub(super) const HEADER_BYTES: usize = 58;

/// Who wrote an item last.
pub(super) type Writer = [u8; 8];

/// What a data item holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Live,
    Pending,
    Alias,
    Tombstone,
}

impl Kind {
    /// Its byte, which is the item's client flags as well, so that a look without the value tells it.
    pub(super) const fn byte(self) -> u8 {
        match self {
            Kind::Live => b'L',
            Kind::Pending => b'P',
            Kind::Alias => b'A',
            Kind::Tombstone => b'D',
        }
    }

    const fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            b'L' => Some(Kind::Live),
            b'P' => Some(Kind::Pending),
            b'A' => Some(Kind::Alias),
            b'D' => Some(Kind::Tombstone),
            _ => None,
        }
    }
}

/// The decoded header of a data item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) writer: Writer,
    pub(super) version: u64,
    pub(super) created: Timestamp,
    pub(super) written: Timestamp,
    pub(super) expires: Timestamp,
    pub(super) ends: Option<Timestamp>,
}

impl Header {
    /// A header of this kind with nothing in it but who writes.
    pub(super) fn new(kind: Kind, writer: Writer) -> Header {
        let zero = Timestamp::ZERO;
        Header { kind, writer, version: 0, created: zero, written: zero, expires: zero, ends: None }
    }

    /// The item with this header.
    pub(super) fn encode(&self, payload: &[u8]) -> Vec<u8> {
        let mut value = Vec::with_capacity(HEADER_BYTES + payload.len());
        value.extend_from_slice(&[0; CHECK_BYTES]);
        value.extend_from_slice(&[MAGIC, self.kind.byte()]);
        value.extend_from_slice(&self.writer);
        for number in [
            self.version,
            self.created.as_ms(),
            self.written.as_ms(),
            self.expires.as_ms(),
            self.ends.map_or(0, Timestamp::as_ms),
        ] {
            value.extend_from_slice(&number.to_le_bytes());
        }
        value.extend_from_slice(payload);
        let check = check_of(&value).to_le_bytes();
        value.iter_mut().zip(check).for_each(|(slot, byte)| *slot = byte);
        value
    }

    fn read(value: &[u8]) -> Option<Header> {
        let number = |at: usize| value.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let moment = |at: usize| number(at).map(Timestamp::from_ms);
        if *value.get(8)? != MAGIC || number(0)? != check_of(value) {
            return None;
        }
        Some(Header {
            kind: kind_of(value)?,
            writer: writer_of(value)?,
            version: number(18)?,
            created: moment(26)?,
            written: moment(34)?,
            expires: moment(42)?,
            ends: moment(50).map(|ends| (ends != Timestamp::ZERO).then_some(ends))?,
        })
    }

    /// The record of a live header.
    pub(super) fn record(&self, payload: Vec<u8>) -> Record {
        let Header { version, created, written, expires, ends, .. } = *self;
        Record { payload, version, created, written, expires, ends }
    }
}

/// The kind of an item whose check is of no interest yet.
pub(super) fn kind_of(value: &[u8]) -> Option<Kind> {
    Kind::from_byte(*value.get(9)?)
}

/// The writer of an item whose check is of no interest yet.
pub(super) fn writer_of(value: &[u8]) -> Option<Writer> {
    value.get(10..18)?.try_into().ok()
}

/// Splits an item into header and payload.
///
/// # Errors
///
/// `Corrupt` when the bytes are not what was written.
pub(super) fn open(mut value: Vec<u8>) -> Result<(Header, Vec<u8>)> {
    let header = Header::read(&value).ok_or_else(corrupt)?;
    value.drain(..HEADER_BYTES);
    Ok((header, value))
}

/// The payload of a pending record: the old id before it.
pub(super) fn pend(old_id: &str, payload: &[u8]) -> Vec<u8> {
    // Ids are far shorter than this type can say.
    let length = u16::try_from(old_id.len()).unwrap_or(u16::MAX).to_le_bytes();
    [&length, old_id.as_bytes(), payload].concat()
}

/// The old id and the payload of a pending record.
pub(super) fn unpend(mut payload: Vec<u8>) -> Option<(String, Vec<u8>)> {
    let length = usize::from(u16::from_le_bytes(payload.get(..2)?.try_into().ok()?));
    let id = std::str::from_utf8(payload.get(2..2 + length)?).ok()?.to_owned();
    payload.drain(..2 + length);
    Some((id, payload))
}

fn check_of(value: &[u8]) -> u64 {
    xxh3_64(value.get(CHECK_BYTES..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            version: 3,
            created: Timestamp::from_ms(7),
            written: Timestamp::from_ms(8),
            expires: Timestamp::from_ms(900),
            ends: Some(Timestamp::from_ms(1_000)),
            ..Header::new(Kind::Live, *b"writer-1")
        }
    }

    #[test]
    fn an_item_reads_back_as_it_was_written() {
        assert_eq!(open(sample().encode(b"cart")).unwrap(), (sample(), b"cart".to_vec()));
        let pending = Header { kind: Kind::Pending, ..sample() }.encode(&pend("old", b"cart"));
        let (header, payload) = open(pending).unwrap();
        assert_eq!((header.kind, unpend(payload)), (Kind::Pending, Some(("old".into(), b"cart".to_vec()))));
    }

    #[test]
    fn every_changed_byte_is_noticed_and_no_length_panics() {
        let value = sample().encode(b"cart");
        for at in 0..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1;
            assert_eq!(open(changed).unwrap_err().kind().code(), "corrupt");
            assert!(open(value[..at].to_vec()).is_err());
        }
        for hostile in [b"".as_slice(), b"\x01", b"\xff\xffabc", b"\x02\x00a", b"\x02\x00\xff\xff"] {
            assert_eq!(unpend(hostile.to_vec()), None);
        }
    }
}
