//! `?ids=hashed`: the store sees a digest instead of the id, so that a stolen dump logs nobody in.
//!
//! A session id has at least 128 random bits, so a plain SHA-256 cannot be searched and needs no
//! secret that all workers share. The digest covers the bin, so that equal ids of two bins cannot
//! be matched.

use sessile_core::Key;
use sha2::{Digest, Sha256};

/// The key of a hashed id: 64 hexadecimal digits in the same bin.
pub fn digest(key: &Key) -> Key {
    let hash =
        Sha256::new().chain_update("sessile id\0").chain_update(key.bin().name()).chain_update([0]);
    let id = hash.chain_update(key.id()).finalize().iter().fold(
        String::with_capacity(64),
        |mut hex, byte| {
            let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
            hex.push(digit(byte >> 4));
            hex.push(digit(byte & 15));
            hex
        },
    );
    // Hexadecimal digits are well-formed in every bin: this never falls back.
    Key::in_bin(key.bin().clone(), &id).unwrap_or_else(|_| key.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sessile_core::{Bin, Clock, Filter, Key, Ttl};

    use super::*;
    use crate::{Context, open};

    #[test]
    fn the_store_holds_a_digest_and_answers_to_the_id() {
        let sessions = open("memory:?ids=hashed", &Context { clock: Clock::system() }).unwrap();
        let (key, new) =
            (Key::session("0123456789abcdef").unwrap(), Key::session("fedcba9876543210").unwrap());
        let ttl = Ttl::sliding(Duration::from_secs(60)).unwrap();
        sessions.create(&key, b"cart", ttl).unwrap();
        let mut begun = sessions.begin(&key, Duration::ZERO).unwrap();
        begun.lease.regenerate(&new, Duration::from_secs(5)).unwrap();
        begun.lease.commit(b"cart 2", ttl).unwrap();
        assert_eq!(sessions.peek(&key).unwrap().unwrap().payload, b"cart 2");
        let entries = sessions.list(None, &Filter::default()).unwrap().entries;
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].key, digest(&new));
        assert_ne!(entries[0].key.id(), new.id());
    }

    #[test]
    fn equal_ids_of_two_bins_have_different_digests() {
        let cache = Key::in_bin(Bin::new("cache").unwrap(), "abc").unwrap();
        assert_ne!(digest(&cache).id(), digest(&Key::session("abc").unwrap()).id());
    }
}
