//! The bytes of a session file in the store's own mode.
//!
//! ```text
//!   0        7 8     9     16       24       32       40       48       56       64    68    72
//!   +--------+-+-----+-----+--------+--------+--------+--------+--------+--------+-----+-----+--------
//!   |sessile |f|kind |0 hi |version |created |written |ends    |expires |payload |pay- |head-|payload
//!   |        | |     |     |        |ms      |ms      |ms or 0 |ms or 0 |bytes   |load |er   |...
//!   |        | |     |     |        |        |        |        |        |        |sum  |sum  |
//!   +--------+-+-----+-----+--------+--------+--------+--------+--------+--------+-----+-----+--------
//! ```
//!
//! All numbers little-endian. The payload's sum is its XXH3-64: the low half stands before the payload, the high
//! half (`hi`) in bytes 12 to 16. The header's sum is the low half of that of bytes 0 to 68. The expiry of a session
//! is `expires`; the file's modification time repeats it, so that a sweep needs only stat (and is the expiry where
//! the field is 0: of tombstones, of aliases, of sessions of format 1). The file of a session is filled up to a page
//! with zeros, so that the next payload has room in it.
//!
//! `f` is the format of this one file. Sessions have 2; those of 1 end with the payload, have no `hi`, and are read
//! as well. Tombstones and aliases have 1 still: they have not changed, and programs that know no other read them.
//!
//! This module owns one invariant: bytes that it decodes are bytes that it encoded. It opens nothing.

use sessile_core::{Error, ErrorKind, Result, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 72;
/// The smallest size of a session's file, and the largest that is overwritten in place: the unit in which the
/// kernel copies a write, on every machine that Linux runs on.
pub const PAGE_BYTES: usize = 4_096;
const MAGIC: &[u8; 7] = b"sessile";
/// The newest format that this program reads.
const FORMAT: u8 = 2;

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
    pub format: u8,
    pub kind: Kind,
    pub version: u64,
    pub created: Timestamp,
    pub written: Timestamp,
    pub ends: Option<Timestamp>,
    pub expires: Option<Timestamp>,
    pub payload_bytes: u64,
    pub payload_sum: u64,
}

impl Header {
    pub fn new(kind: Kind, payload: &[u8]) -> Header {
        Header {
            format: if kind == Kind::Live { 2 } else { 1 },
            kind,
            version: 0,
            created: Timestamp::ZERO,
            written: Timestamp::ZERO,
            ends: None,
            expires: None,
            payload_bytes: payload.len() as u64,
            payload_sum: xxh3_64(payload),
        }
    }

    /// The header of a session whose payload is written now.
    pub fn live(
        payload: &[u8],
        version: u64,
        created: Timestamp,
        written: Timestamp,
        expires: Timestamp,
        ends: Option<Timestamp>,
    ) -> Header {
        Header { version, created, written, ends, expires: Some(expires), ..Header::new(Kind::Live, payload) }
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let kind = match self.kind {
            Kind::Live => 1,
            Kind::Destroyed => 2,
            Kind::Regenerated => 3,
        };
        let high = if self.format >= 2 { high_half(self.payload_sum) } else { 0 };
        let ms = |moment: Option<Timestamp>| moment.map_or(0, Timestamp::as_ms);
        let (created, written) = (self.created.as_ms(), self.written.as_ms());
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[self.format, kind, 0, 0, 0]);
        bytes.extend_from_slice(&high.to_le_bytes());
        for number in [self.version, created, written, ms(self.ends), ms(self.expires), self.payload_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&low_half(self.payload_sum).to_le_bytes());
        let header_sum = low_half(xxh3_64(&bytes));
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
        let header_sum = low_half(number(bytes, 68, 4));
        if bytes.get(..68).is_none_or(|summed| low_half(xxh3_64(summed)) != header_sum) {
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
            format,
            kind,
            version: number(bytes, 16, 8),
            created: Timestamp::from_ms(number(bytes, 24, 8)),
            written: Timestamp::from_ms(number(bytes, 32, 8)),
            ends: moment(40),
            expires: moment(48),
            payload_bytes: number(bytes, 56, 8),
            payload_sum: number(bytes, 12, 4) << 32 | number(bytes, 64, 4),
        })
    }

    /// Where the payload ends in the file.
    pub fn end(&self) -> usize {
        usize::try_from(self.payload_bytes).unwrap_or(usize::MAX).saturating_add(HEADER_BYTES)
    }

    /// Whether a file of this size is whole: filled up to a page, or as long as the payload demands.
    pub fn fits(&self, file_bytes: u64) -> bool {
        let least = if self.format >= 2 { PAGE_BYTES } else { 0 };
        usize::try_from(file_bytes).is_ok_and(|file_bytes| file_bytes == self.end().max(least))
    }

    /// Takes the payload out of what follows the header in its file.
    ///
    /// # Errors
    ///
    /// `Corrupt` when these are not the bytes that the header was made for, followed by nothing but zeros.
    pub fn unfill(&self, payload: &mut Vec<u8>) -> Result<()> {
        if !self.fits((HEADER_BYTES + payload.len()) as u64) {
            return Err(corrupt("the session file is truncated or has grown"));
        }
        let filling = payload.get(self.end().saturating_sub(HEADER_BYTES)..).unwrap_or_default();
        // Not `all`, which would look at one byte after the other.
        if filling.iter().fold(0, |any, byte| any | byte) != 0 {
            return Err(corrupt("the session file is damaged behind its payload"));
        }
        payload.truncate(self.end().saturating_sub(HEADER_BYTES));
        let found = xxh3_64(payload);
        let compared = if self.format >= 2 { u64::MAX } else { u64::from(u32::MAX) };
        if (found ^ self.payload_sum) & compared != 0 {
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

fn low_half(sum: u64) -> u32 {
    (sum & 0xffff_ffff) as u32
}

fn high_half(sum: u64) -> u32 {
    (sum >> 32) as u32
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
        let filled = |text: &[u8]| [text, &[0; PAGE_BYTES][HEADER_BYTES + text.len()..]].concat();
        let mut whole = filled(payload);
        header.unfill(&mut whole).unwrap();
        assert_eq!(whole, payload);
        let mut file = filled(payload);
        for byte in 0..file.len() {
            file[byte] ^= 1;
            assert!(header.unfill(&mut file.clone()).is_err(), "byte {byte}");
            file[byte] ^= 1;
        }
        assert!(header.unfill(&mut file[1..].to_vec()).is_err());
        assert!(header.unfill(&mut payload.to_vec()).is_err());
    }

    /// What the version before wrote, byte for byte; its sum has half the length, and nothing follows the payload.
    #[test]
    fn a_session_of_format_1_is_read_and_its_damage_noticed() {
        let payload = b"cart: 1 book";
        let bytes = Header { format: 1, version: 7, ..Header::new(Kind::Live, payload) }.encode();
        assert_eq!((bytes[7], &bytes[9..16]), (1, &[0; 7][..]));
        let header = Header::decode(&bytes).unwrap();
        assert_eq!((header.version, header.expires, header.fits(84), header.fits(4_096)), (7, None, true, false));
        header.unfill(&mut payload.to_vec()).unwrap();
        assert!(header.unfill(&mut b"cart: 2 book".to_vec()).is_err());
        assert_eq!(header.encode(), bytes, "a touch leaves it what it is");
    }

    /// Half of a sum would let one in four thousand million mixed payloads pass.
    #[test]
    fn both_halves_of_the_payloads_sum_are_compared() {
        let header = Header::new(Kind::Live, &[7; PAGE_BYTES]);
        for bit in 0..64 {
            let other = Header { payload_sum: header.payload_sum ^ 1 << bit, ..header };
            let other = Header::decode(&other.encode()).unwrap();
            assert!(other.unfill(&mut vec![7; PAGE_BYTES]).is_err(), "bit {bit}");
        }
    }
}
