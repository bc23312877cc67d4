//! The parts of all formats of the store: little-endian words, and a check sum (the low half of an
//! XXH3-64) at the end.

use sessile_core::Timestamp;
use xxhash_rust::xxh3::xxh3_64;

pub fn sum(bytes: &[u8]) -> u32 {
    (xxh3_64(bytes) & 0xffff_ffff) as u32
}

pub fn words<const WORDS: usize>(bytes: &[u8]) -> Option<[u64; WORDS]> {
    let (words, []) = bytes.as_chunks() else { return None };
    let words: [[u8; 8]; WORDS] = words.try_into().ok()?;
    Some(words.map(u64::from_le_bytes))
}

/// The bytes of words. The sum of all bytes before it becomes the high half of the last word.
pub fn seal<const BYTES: usize>(words: &[u64]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    if let Some((summed, own)) = bytes.split_last_chunk_mut() {
        *own = sum(summed).to_le_bytes();
    }
    bytes
}

/// Whether the last bytes are the sum of all before them.
pub fn is_sealed(bytes: &[u8]) -> bool {
    let parts = bytes.split_last_chunk();
    parts.is_some_and(|(summed, own)| sum(summed) == u32::from_le_bytes(*own))
}

/// 0 is no moment.
pub fn moment(ms: u64) -> Option<Timestamp> {
    (ms != 0).then(|| Timestamp::from_ms(ms))
}

pub fn ms(moment: Option<Timestamp>) -> u64 {
    moment.map_or(0, Timestamp::as_ms)
}
