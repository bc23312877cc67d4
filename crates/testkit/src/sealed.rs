//! Payloads that tell whether they are whole: a torn, mixed or cut one does not open.
//!
//! Layout: seed (8 bytes), then filler derived from the seed, then a 64-bit FNV-1a sum of all before it.

const SEED_BYTES: usize = 8;
const SUM_BYTES: usize = 8;

/// A payload of this size (at least 16 bytes) that carries its seed.
pub fn seal(seed: u64, size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut payload = seed.to_le_bytes().to_vec();
    payload.resize(size.max(SEED_BYTES + SUM_BYTES) - SUM_BYTES, 0);
    if let Some(filler) = payload.get_mut(SEED_BYTES..) {
        random.fill(filler);
    }
    let sum = fnv(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

/// The seed of a whole payload; `None` for anything else.
pub fn open(payload: &[u8]) -> Option<u64> {
    let (body, sum) = payload.split_last_chunk::<SUM_BYTES>()?;
    let (seed, _) = body.split_first_chunk::<SEED_BYTES>()?;
    (fnv(body) == u64::from_le_bytes(*sum)).then(|| u64::from_le_bytes(*seed))
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_of_two_payloads_does_not_open() {
        let (old, new) = (seal(1, 4_000), seal(2, 4_000));
        assert_eq!((open(&old), open(&new)), (Some(1), Some(2)));
        let mix = [&new[..2_000], &old[2_000..]].concat();
        assert_eq!(open(&mix), None);
        assert_eq!(open(&new[..3_999]), None);
        assert_eq!(open(b""), None);
    }
}
