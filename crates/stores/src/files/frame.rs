//! The bytes of a session file in the store's own mode.
//!
//! ```text
//!   0        7 8     9     16       24       32       40       48       56       64    68    72
//!   +--------+-+-----+-----+--------+--------+--------+--------+--------+--------+-----+-----+--------
//!   |sessile |1|kind |zero |version |created |written |ends    |expires |payload |pay- |head-|payload
//!   |        | |     |     |        |ms      |ms      |ms or 0 |ms or 0 |bytes   |load |er   |...
//!   |        | |     |     |        |        |        |        |        |        |sum  |sum  |
//!   +--------+-+-----+-----+--------+--------+--------+--------+--------+--------+-----+-----+--------
//! ```
//!
//! All numbers little-endian. The sums are the low halves of XXH3-64: of the payload, and of bytes 0 to 68. The
//! expiry is the file's modification time, so that a touch is one system call and a sweep needs only stat; the
//! field `expires` is 0 unless a touch moved the absolute end, and then overrides it (see own.rs, `touch_file`). This module owns one invariant: bytes that it decodes are bytes that it encoded. It opens nothing.

use sessile_core::{Error, ErrorKind, Result, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 72;
const MAGIC: &[u8; 7] = b"sessile";
/// The format that this program writes, and the newest it reads.
pub const FORMAT: u8 = 1;

/// What a file stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A session.
    Live,
    /// A destroyed session. The modification time says when to forget it.
    Destroyed,
    /// A regenerated id: the payload is the new one, `ends` the end of the grace.
    Regenerated,
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub version: u64,
    pub created: Timestamp,
    pub written: Timestamp,
    pub ends: Option<Timestamp>,
    pub expires: Option<Timestamp>,
    pub payload_bytes: u64,
    pub payload_sum: u32,
}

impl Header {
    pub fn new(kind: Kind, payload: &[u8]) -> Header {
        Header {
            kind,
            version: 0,
            created: Timestamp::ZERO,
            written: Timestamp::ZERO,
            ends: None,
            expires: None,
            payload_bytes: payload.len() as u64,
            payload_sum: sum(payload),
        }
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let kind = match self.kind {
            Kind::Live => 1,
            Kind::Destroyed => 2,
            Kind::Regenerated => 3,
        };
        let ms = |moment: Option<Timestamp>| moment.map_or(0, Timestamp::as_ms);
        let (created, written) = (self.created.as_ms(), self.written.as_ms());
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[FORMAT, kind, 0, 0, 0, 0, 0, 0, 0]);
        for number in [self.version, created, written, ms(self.ends), ms(self.expires), self.payload_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.payload_sum.to_le_bytes());
        let header_sum = sum(&bytes);
        bytes.extend_from_slice(&header_sum.to_le_bytes());
        let mut header = [0; HEADER_BYTES];
        header.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        header
    }

    /// # Errors
    ///
    /// `Corrupt` for bytes that are not ours, `Incompatible` for those of a newer program.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header> {
        if !bytes.starts_with(MAGIC) {
            return Err(corrupt("the session file was not written by this store"));
        }
        let format = bytes.get(7).copied().unwrap_or(0);
        if format > FORMAT {
            let why = format!("the session file has format {format}, this program knows {FORMAT}");
            return Err(Error::new(ErrorKind::Incompatible, why).advice("use the newer program"));
        }
        let header_sum = u32::try_from(number(bytes, 68, 4)).unwrap_or(0);
        if bytes.get(..68).is_none_or(|summed| sum(summed) != header_sum) {
            return Err(corrupt("the header of the session file is damaged"));
        }
        let kind = match bytes.get(8) {
            Some(1) => Kind::Live,
            Some(2) => Kind::Destroyed,
            Some(3) => Kind::Regenerated,
            _ => return Err(corrupt("the session file is of an unknown kind")),
        };
        let moment = |at| Some(number(bytes, at, 8)).filter(|ms| *ms != 0).map(Timestamp::from_ms);
        Ok(Header {
            kind,
            version: number(bytes, 16, 8),
            created: Timestamp::from_ms(number(bytes, 24, 8)),
            written: Timestamp::from_ms(number(bytes, 32, 8)),
            ends: moment(40),
            expires: moment(48),
            payload_bytes: number(bytes, 56, 8),
            payload_sum: u32::try_from(number(bytes, 64, 4)).unwrap_or(0),
        })
    }

    /// # Errors
    ///
    /// `Corrupt` when these are not the bytes that the header was made for.
    pub fn check(&self, payload: &[u8]) -> Result<()> {
        if payload.len() as u64 != self.payload_bytes {
            return Err(corrupt("the session file is truncated or has grown"));
        }
        if sum(payload) != self.payload_sum {
            return Err(corrupt("the payload of the session file is damaged"));
        }
        Ok(())
    }
}

/// The error for bytes that cannot be trusted.
pub fn corrupt(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, why).advice("the file is left as it is; destroy the session to remove it")
}

fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let field = bytes.get(at..at + width).unwrap_or_default();
    field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn sum(bytes: &[u8]) -> u32 {
    (xxh3_64(bytes) & 0xffff_ffff) as u32
}

const _: () = assert!(HEADER_BYTES == 8 + 8 + 6 * 8 + 4 + 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_file_is_noticed() {
        let payload = b"cart: 1 book";
        let header = Header {
            version: 7,
            created: Timestamp::from_ms(1),
            written: Timestamp::from_ms(2),
            ends: Some(Timestamp::from_ms(3)),
            ..Header::new(Kind::Live, payload)
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        for bit in 0..HEADER_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&damaged).is_err(), "bit {bit}");
        }
        assert!(header.check(b"cart: 2 book").is_err());
        assert!(header.check(b"cart: 1 boo").is_err());
    }
}
