//! The owner of a session: the user to whom it belongs, as stores know it.
//!
//! An application names its users; a store keeps a digest of 96 bits of that name. Invariant: the
//! digest is the same in every store, so that a session can move from one to another with its
//! owner. Not here: how a store finds the sessions of an owner.
//!
//! The digest has no key. It keeps names out of dumps and backups; numbers and names that can be
//! guessed can be tried. It is long enough that nobody finds a name with the digest of another one:
//! among a million users that takes 2^76 tries.

use std::fmt;
use std::num::NonZeroU64;

use crate::{Error, ErrorKind, Limits, Result};

/// No secret: it tells this digest of a name from any other.
const PURPOSE: &[u8; 32] = b"sessile: the owner of a session.";

/// The digest of the name of an owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    high: NonZeroU64,
    low: u32,
}

impl Owner {
    /// The bytes of a stored owner.
    pub const BYTES: usize = 12;

    /// The owner with this name, for example the number of the user: 1 to
    /// [`Limits::OWNER_BYTES_MAX`] bytes of any kind.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an empty name and a longer one.
    pub fn new(name: &[u8]) -> Result<Owner> {
        if name.is_empty() || name.len() > Limits::OWNER_BYTES_MAX {
            let why = format!("an owner has 1 to {} bytes", Limits::OWNER_BYTES_MAX);
            return Err(Error::new(ErrorKind::InvalidArgument, why)
                .advice("take the number of the user, or a digest of a longer name"));
        }
        let digest = blake3::keyed_hash(PURPOSE, name);
        let mut bytes = [0; Owner::BYTES];
        bytes.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
        // No name with a digest that begins with 64 zeros is known.
        Ok(Owner::from_bytes(bytes).unwrap_or(Owner { high: NonZeroU64::MIN, low: 0 }))
    }

    /// The owner with this digest; `None` for one that no name has.
    pub fn from_bytes(bytes: [u8; Owner::BYTES]) -> Option<Owner> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Owner::from_parts(high, u32::from_be_bytes([i, j, k, l]))
    }

    /// The digest.
    pub fn to_bytes(self) -> [u8; Owner::BYTES] {
        let [a, b, c, d, e, f, g, h] = self.high.get().to_be_bytes();
        let [i, j, k, l] = self.low.to_be_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// The owner with these first 64 and last 32 bits.
    #[inline]
    pub fn from_parts(high: u64, low: u32) -> Option<Owner> {
        Some(Owner { high: NonZeroU64::new(high)?, low })
    }

    /// The first 64 bits of the digest and the last 32.
    #[inline]
    pub fn to_parts(self) -> (u64, u32) {
        (self.high.get(), self.low)
    }

    /// The digest in 24 hexadecimal digits.
    pub fn to_hex(self) -> String {
        format!("{:016x}{:08x}", self.high, self.low)
    }

    /// The owner with this digest in hexadecimal digits.
    pub fn from_hex(hex: &str) -> Option<Owner> {
        let digits = hex.len() == Owner::BYTES * 2 && hex.bytes().all(|it| it.is_ascii_hexdigit());
        let (high, low) = hex.split_at_checked(16).filter(|_| digits)?;
        Owner::from_parts(u64::from_str_radix(high, 16).ok()?, u32::from_str_radix(low, 16).ok()?)
    }
}

// Half of the digest would be enough to try names.
impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_digest_that_every_store_keeps_alike() {
        let owner = Owner::new(b"17").unwrap();
        assert_eq!(owner, Owner::new(b"17").unwrap());
        assert_ne!(owner, Owner::new(b"18").unwrap());
        assert_eq!(owner.to_hex(), "eabe82088493586bd3330738", "stored sessions name it");
        assert_eq!(Owner::from_bytes(owner.to_bytes()), Some(owner));
        assert_eq!(Owner::from_hex(&owner.to_hex()), Some(owner));
        let (high, low) = owner.to_parts();
        assert_eq!(Owner::from_parts(high, low), Some(owner));
    }

    #[test]
    fn what_is_no_digest_is_no_owner() {
        for hex in ["", "eabe", "eabe82088493586bd333073g", "+abe82088493586bd3330738", "\u{e9}"] {
            assert_eq!(Owner::from_hex(hex), None, "{hex}");
        }
        assert_eq!(Owner::from_bytes([0; Owner::BYTES]), None, "no owner");
    }

    #[test]
    fn an_empty_name_and_a_long_one_are_refused() {
        for name in [vec![], vec![b'x'; 256]] {
            assert_eq!(Owner::new(&name).unwrap_err().kind().code(), "invalid-argument");
        }
        assert!(Owner::new(&[0xff; 255]).is_ok());
    }

    #[test]
    fn debug_shows_nothing_of_it() {
        assert_eq!(format!("{:?}", Owner::new(b"17").unwrap()), "Owner(..)");
    }
}
