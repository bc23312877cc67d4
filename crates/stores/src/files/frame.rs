//! The bytes of a session file in the store's own mode.
//!
//! ```text
//!   0        7 8     9     16       24       32       40       48       56       64    68    72
//!   +--------+-+-----+-----+--------+--------+--------+--------+--------+--------+-----+-----+----
//!   |sessile |f|kind |0 hi |version |created |written |ends    |expires |payload |pay- |head-|pay-
//!   |        | |     |     |        |ms      |ms      |ms or 0 |ms or 0 |bytes   |load |er   |load
//!   |        | |     |     |        |        |        |        |        |        |sum  |sum  |
//!   +--------+-+-----+-----+--------+--------+--------+--------+--------+--------+-----+-----+----
//! ```
//!
//! * All numbers are little-endian.
//! * A session with an owner has format 3. The first 64 bits of the owner are the upper quarters of
//!   version, created, written and expires, its last 32 those of ends and of the payload's bytes.
//! * The payload sum is XXH3-64: its low half stands before the payload, its high half (`hi`) in
//!   bytes 12 to 16. The header sum is the low half of the XXH3-64 of bytes 0 to 68.
//! * A session expires at `expires`. The file's modification time repeats it, so that a sweep needs
//!   only stat. Where the field is 0 (tombstones, aliases, sessions of format 1) the modification
//!   time is the expiry.
//! * A session's file is filled up to a page with zeros: room for the next payload.
//! * `f` is the format of this file. Sessions have 2 or 3; those of 1 end with the payload, have no
//!   `hi`, and are still read. Tombstones and aliases have 1.
//!
//! Invariant: decoded bytes are bytes that this module encoded. It opens nothing.

use sessile_core::{Error, ErrorKind, Head, Owner, Result, Stored, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use super::words::{is_sealed, moment, ms, seal, words};

pub const HEADER_BYTES: usize = 72;
/// The smallest file of a session, and the largest that is overwritten in place: the unit in which
/// Linux copies a write on every machine.
pub const PAGE_BYTES: usize = 4_096;
const MAGIC: u64 = u64::from_le_bytes(*b"sessile\0");
/// That of sessions with an owner: to programs that would lose it the file is of a newer version.
const FORMAT: u64 = 3;
const QUARTER_SHIFT: u32 = 48;
const BELOW_QUARTER: u64 = (1 << QUARTER_SHIFT) - 1;
const LOW_HALF: u64 = 0xffff_ffff;

/// The header of a file; the default is that of a placeholder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub format: u64,
    /// The target of an alias is the payload.
    pub stored: Stored<()>,
    /// Whether the header repeats the expiry. If not, it is the modification time alone.
    pub has_expiry: bool,
    pub written: Timestamp,
    pub payload_bytes: u64,
    pub payload_sum: u64,
}

impl Header {
    pub fn new<K>(stored: &Stored<K>, payload: &[u8], now: Timestamp) -> Header {
        let live = stored.head().is_some();
        Header {
            format: match stored.head() {
                Some(head) if head.owner.is_some() => 3,
                Some(_) => 2,
                None => 1,
            },
            stored: retarget(stored, || Ok(())).unwrap_or_default(),
            has_expiry: live,
            written: now,
            payload_bytes: payload.len() as u64,
            payload_sum: xxh3_64(payload),
        }
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let (kind, version, created, ends, expires) = match self.stored {
            Stored::Live(head) => {
                let expires = Some(head.expires).filter(|_| self.has_expiry);
                (1, head.version, head.created.as_ms(), head.ends, expires)
            }
            Stored::Alias { grace_ends, .. } => (3, 0, 0, Some(grace_ends), None),
            _ => (2, 0, 0, None, None),
        };
        let high = if self.format >= 2 { self.payload_sum & !LOW_HALF } else { 0 };
        let owner = self.stored.head().and_then(|head| head.owner);
        let (first, last) = owner.map_or((0, 0), Owner::to_parts);
        let beside = |word: u64, part: u64, at: u32| match owner {
            Some(_) => word & BELOW_QUARTER | part >> (16 * at) << QUARTER_SHIFT,
            None => word,
        };
        seal(&[
            MAGIC | self.format << 56,
            kind | high,
            beside(version, first, 0),
            beside(created, first, 1),
            beside(self.written.as_ms(), first, 2),
            beside(ms(ends), last.into(), 0),
            beside(ms(expires), first, 3),
            beside(self.payload_bytes, last.into(), 1),
            self.payload_sum,
        ])
    }

    /// The header of a file with this modification time. `Corrupt` for bytes of another program,
    /// `Incompatible` for those of a newer version.
    pub fn decode(bytes: &[u8; HEADER_BYTES], mtime: Timestamp) -> Result<Header> {
        let [magic, kind, version, created, written, ends, expires, payload_bytes, sums] =
            words(bytes).unwrap_or_default();
        if magic << 8 != MAGIC << 8 {
            return Err(corrupt("the session file was not written by this store"));
        }
        let format = magic >> 56;
        if format > FORMAT {
            let why = format!(
                "a newer version of Sessile wrote this session: format {format}, this version \
                 knows {FORMAT}"
            );
            return Err(Error::new(ErrorKind::Incompatible, why).advice("use the newer program"));
        }
        if !is_sealed(bytes) {
            return Err(corrupt("the header of the session file is damaged"));
        }
        let quarters = |words: [u64; 4]| {
            words.iter().rev().fold(0, |joined, word| joined << 16 | word >> QUARTER_SHIFT)
        };
        let owner = Owner::from_parts(
            quarters([version, created, written, expires]),
            quarters([ends, payload_bytes, 0, 0]) as u32,
        )
        .filter(|_| format >= 3);
        let below = if owner.is_some() { BELOW_QUARTER } else { u64::MAX };
        let [version, created, written, expires, ends, payload_bytes] =
            [version, created, written, expires, ends, payload_bytes].map(|word| word & below);
        let [created, written] = [created, written].map(Timestamp::from_ms);
        let (ends, expires) = (moment(ends), moment(expires));
        let stored = match kind & 0xff {
            1 => {
                let expires = expires.unwrap_or(mtime);
                Stored::Live(Head { version, created, written, expires, ends, owner })
            }
            2 => Stored::Tombstone { mark: 0, forget: mtime },
            3 => Stored::Alias { target: (), grace_ends: ends.unwrap_or_default(), forget: mtime },
            _ => return Err(corrupt("the session file is of an unknown kind")),
        };
        let (has_expiry, payload_sum) = (expires.is_some(), kind & !LOW_HALF | sums & LOW_HALF);
        Ok(Header { format, stored, has_expiry, written, payload_bytes, payload_sum })
    }

    pub fn end(&self) -> usize {
        usize::try_from(self.payload_bytes).unwrap_or(usize::MAX).saturating_add(HEADER_BYTES)
    }

    /// Whether a file of this size is whole.
    pub fn fits(&self, file_bytes: u64) -> bool {
        let least = if self.format >= 2 { PAGE_BYTES } else { 0 };
        usize::try_from(file_bytes).is_ok_and(|file_bytes| file_bytes == self.end().max(least))
    }

    /// Cuts the filling off. `Corrupt` if the bytes are not this header's payload followed by
    /// zeros.
    pub fn unfill(&self, payload: &mut Vec<u8>) -> Result<()> {
        if !self.fits((HEADER_BYTES + payload.len()) as u64) {
            return Err(outgrown());
        }
        let end = self.end() - HEADER_BYTES;
        // `all` would look at one byte after the other.
        if payload.iter().skip(end).fold(0, |any, byte| any | byte) != 0 {
            return Err(corrupt("the session file is damaged behind its payload"));
        }
        payload.truncate(end);
        let compared = if self.format >= 2 { u64::MAX } else { LOW_HALF };
        if (xxh3_64(payload) ^ self.payload_sum) & compared != 0 {
            return Err(corrupt("the payload of the session file is damaged"));
        }
        Ok(())
    }
}

/// The same state, with another name of the target.
pub fn retarget<K, L>(stored: &Stored<K>, target: impl FnOnce() -> Result<L>) -> Result<Stored<L>> {
    Ok(match *stored {
        Stored::Nothing => Stored::Nothing,
        Stored::Live(head) => Stored::Live(head),
        Stored::Tombstone { mark, forget } => Stored::Tombstone { mark, forget },
        Stored::Alias { grace_ends, forget, .. } => {
            Stored::Alias { target: target()?, grace_ends, forget }
        }
    })
}

pub fn corrupt(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, why)
        .advice("the file is left as it is; destroy the session to remove it")
}

pub fn outgrown() -> Error {
    corrupt("the session file is truncated or has grown")
}

const _: () = assert!(HEADER_BYTES == 8 + 8 + 6 * 8 + 4 + 4);

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Timestamp = Timestamp::from_ms(9);

    fn header(payload: &[u8]) -> Header {
        let [created, written, expires] = [1, 2, 4].map(Timestamp::from_ms);
        let ends = Some(Timestamp::from_ms(3));
        let head = Head { version: 7, created, written, expires, ends, owner: None };
        Header::new(&Stored::<()>::Live(head), payload, written)
    }

    #[test]
    fn every_flipped_bit_of_a_file_is_noticed() {
        let payload = b"cart: 1 book";
        let header = header(payload);
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes, LATER).unwrap(), header);
        for bit in 0..HEADER_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&damaged, LATER).is_err(), "bit {bit}");
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

    /// What the version before wrote, byte for byte; its sum has half the length, and nothing
    /// follows the payload.
    #[test]
    fn a_session_of_format_1_is_read_and_its_damage_noticed() {
        let payload = b"cart: 1 book";
        let bytes = Header { format: 1, has_expiry: false, ..header(payload) }.encode();
        assert_eq!((bytes[7], &bytes[9..16]), (1, &[0; 7][..]));
        let header = Header::decode(&bytes, LATER).unwrap();
        let head = header.stored.head().unwrap();
        assert_eq!((head.version, head.expires, header.has_expiry), (7, LATER, false));
        assert!(header.fits(84) && !header.fits(4_096));
        header.unfill(&mut payload.to_vec()).unwrap();
        assert!(header.unfill(&mut b"cart: 2 book".to_vec()).is_err());
        assert_eq!(header.encode(), bytes, "a touch leaves it what it is");
    }

    #[test]
    fn an_owner_lies_beside_the_numbers_of_a_header() {
        for owner in [Owner::new(b"17").ok(), Owner::from_parts(u64::MAX, u32::MAX)] {
            let mut owned = header(b"cart");
            owned.stored = Stored::Live(Head { owner, ..owned.stored.head().unwrap() });
            owned.format = 3;
            let bytes = owned.encode();
            assert_eq!(Header::decode(&bytes, LATER).unwrap(), owned);
            assert_eq!(Header::new(&owned.stored, b"cart", owned.written), owned);
        }
        assert_eq!(header(b"cart").encode()[7], 2, "without an owner nothing has changed");
    }

    /// Half of a sum would let one in four thousand million mixed payloads pass.
    #[test]
    fn both_halves_of_the_payloads_sum_are_compared() {
        let header = header(&[7; PAGE_BYTES]);
        for bit in 0..64 {
            let other = Header { payload_sum: header.payload_sum ^ 1 << bit, ..header };
            let other = Header::decode(&other.encode(), LATER).unwrap();
            assert!(other.unfill(&mut vec![7; PAGE_BYTES]).is_err(), "bit {bit}");
        }
    }
}
