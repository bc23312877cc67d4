//! Payloads that describe themselves: whose session, which write, how long, and a sum over all of it.
//!
//! Layout, all little-endian words of 8 bytes: magic, session number, token of the write, version counter,
//! length of the whole, filler derived from the token, sum. Bytes of two writes, or of another session, never
//! pass for one.

use sessile_core::Record;

const MAGIC: u64 = 0x7365_7373_5f73_746d;
const HEAD_BYTES: usize = 40;
const SUM_BYTES: usize = 8;
/// The shortest payload that describes itself.
pub const BYTES_MIN: usize = HEAD_BYTES + SUM_BYTES;

/// What a read returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No record.
    Missing,
    /// A record with an empty payload, which cannot say whose it is.
    Empty,
    /// A whole payload.
    Sealed { id: u64, token: u64, counter: u64 },
    /// Bytes that nobody wrote.
    Torn { bytes: u64 },
}

/// A payload of this size, at least [`BYTES_MIN`].
pub fn seal(id: u64, token: u64, counter: u64, bytes: usize) -> Vec<u8> {
    let bytes = bytes.max(BYTES_MIN);
    let mut payload = Vec::with_capacity(bytes);
    for word in [MAGIC, id, token, counter, bytes as u64] {
        payload.extend_from_slice(&word.to_le_bytes());
    }
    let mut filler = fastrand::Rng::with_seed(token);
    payload.resize(bytes - SUM_BYTES, 0);
    if let Some(rest) = payload.get_mut(HEAD_BYTES..) {
        filler.fill(rest);
    }
    let sum = sum(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

/// What a record holds.
pub fn content(record: Option<&Record>) -> Content {
    let Some(record) = record else { return Content::Missing };
    if record.payload.is_empty() {
        return Content::Empty;
    }
    open(&record.payload).unwrap_or(Content::Torn { bytes: record.payload.len() as u64 })
}

fn open(payload: &[u8]) -> Option<Content> {
    let (body, stored) = payload.split_last_chunk::<SUM_BYTES>()?;
    let mut words = body.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    let [magic, id, token, counter, length] =
        [words.next()?, words.next()?, words.next()?, words.next()?, words.next()?];
    let whole = magic == MAGIC && length == payload.len() as u64 && sum(body) == u64::from_le_bytes(*stored);
    whole.then_some(Content::Sealed { id, token, counter })
}

/// Multiply and rotate over words: not against attackers, but against cuts, mixes and zeroed pages.
fn sum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    });
    words.fold(bytes.len() as u64, mix)
}

impl Content {
    /// One word for a line.
    pub fn word(&self) -> String {
        match self {
            Content::Missing => "none".into(),
            Content::Empty => "empty".into(),
            Content::Sealed { id, token, counter } => format!("{id}:{token}:{counter}"),
            Content::Torn { bytes } => format!("torn:{bytes}"),
        }
    }

    /// From that word.
    pub fn from_word(word: &str) -> Option<Content> {
        let parts: Vec<&str> = word.split(':').collect();
        Some(match parts.as_slice() {
            ["none"] => Content::Missing,
            ["empty"] => Content::Empty,
            ["torn", bytes] => Content::Torn { bytes: bytes.parse().ok()? },
            [id, token, counter] => {
                Content::Sealed { id: id.parse().ok()?, token: token.parse().ok()?, counter: counter.parse().ok()? }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_a_mix_and_a_zeroed_page_do_not_open() {
        let (old, new) = (seal(1, 2, 3, 20_000), seal(1, 3, 4, 20_000));
        assert_eq!(open(&old), Some(Content::Sealed { id: 1, token: 2, counter: 3 }));
        assert!(open(&seal(1, 2, 3, 0)).is_some());
        assert_eq!(open(&[&new[..10_000], &old[10_000..]].concat()), None);
        assert_eq!(open(&new[..19_992]), None);
        let mut zeroed = new.clone();
        zeroed[4_096..8_192].fill(0);
        assert_eq!(open(&zeroed), None);
        assert_eq!(open(&[0; 100]), None);
    }
}
