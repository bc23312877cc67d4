//! Payloads that describe themselves: a torn, mixed or cut one does not open.
//!
//! Layout, all little-endian words of 8 bytes: magic, session number, token of the write, version
//! counter, length of the whole, filler derived from the token, sum. Bytes of two writes, or of
//! another session, never pass for one.

use serde::{Deserialize, Serialize};

const MAGIC: u64 = 0x7365_7373_5f73_746d;
const HEAD_BYTES: usize = 40;
const SUM_BYTES: usize = 8;
pub const BYTES_MIN: usize = HEAD_BYTES + SUM_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    pub session: u64,
    pub token: u64,
    /// The version that the record was to get.
    pub counter: u64,
}

impl Seal {
    pub fn payload(self, bytes: usize) -> Vec<u8> {
        let bytes = bytes.max(BYTES_MIN);
        let mut payload = Vec::with_capacity(bytes);
        for word in [MAGIC, self.session, self.token, self.counter, bytes as u64] {
            payload.extend_from_slice(&word.to_le_bytes());
        }
        payload.resize(bytes - SUM_BYTES, 0);
        if let Some(rest) = payload.get_mut(HEAD_BYTES..) {
            fastrand::Rng::with_seed(self.token).fill(rest);
        }
        let sum = sum(&payload);
        payload.extend_from_slice(&sum.to_le_bytes());
        payload
    }

    pub fn open(payload: &[u8]) -> Option<Seal> {
        let (body, stored) = payload.split_last_chunk::<SUM_BYTES>()?;
        let mut words =
            body.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let [magic, session, token, counter, length] =
            [words.next()?, words.next()?, words.next()?, words.next()?, words.next()?];
        let whole = magic == MAGIC
            && length == payload.len() as u64
            && sum(body) == u64::from_le_bytes(*stored);
        whole.then_some(Seal { session, token, counter })
    }
}

pub fn seal(token: u64, bytes: usize) -> Vec<u8> {
    Seal { session: 0, token, counter: 0 }.payload(bytes)
}

pub fn token_of(payload: &[u8]) -> Option<u64> {
    Seal::open(payload).map(|seal| seal.token)
}

/// Multiply and rotate over words: not against attackers, but against cuts, mixes and zeroed pages.
fn sum(bytes: &[u8]) -> u64 {
    let mix =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    });
    words.fold(bytes.len() as u64, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_a_mix_and_a_zeroed_page_do_not_open() {
        let write = Seal { session: 1, token: 2, counter: 3 };
        let (old, new) = (write.payload(20_000), Seal { token: 3, ..write }.payload(20_000));
        assert_eq!(Seal::open(&old), Some(write));
        assert_eq!((token_of(&seal(5, 1_003)), seal(5, 1_003).len()), (Some(5), 1_003));
        assert!(Seal::open(&write.payload(0)).is_some());
        assert_eq!(Seal::open(&[&new[..10_000], &old[10_000..]].concat()), None);
        assert_eq!(Seal::open(&new[..19_992]), None);
        let mut zeroed = new.clone();
        zeroed[4_096..8_192].fill(0);
        assert_eq!(Seal::open(&zeroed), None);
        assert_eq!(Seal::open(&[0; 100]), None);
        assert_eq!(Seal::open(b""), None);
    }
}
