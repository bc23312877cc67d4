//! Session ids, made before the timed part.

use sessile_core::{Key, Result};

/// The ids of the sessions `0..count`: 32 hexadecimal digits, as PHP makes them.
pub(crate) fn keys(seed: u64, count: usize) -> Result<Vec<Key>> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5e55_1a1d);
    std::iter::repeat_with(|| Key::session(&format!("{:032x}", random.u128(..))))
        .take(count)
        .collect()
}
