//! Ids of sessions, made before the timed part.

use sessile_core::{Key, Result};

/// The ids of the sessions `0..count`: 32 hexadecimal digits each, as PHP and most frameworks make them.
///
/// # Errors
///
/// None in practice: the ids are well-formed by construction.
pub(crate) fn keys(seed: u64, count: usize) -> Result<Vec<Key>> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5e55_1a1d);
    std::iter::repeat_with(|| Key::session(&format!("{:032x}", random.u128(..)))).take(count).collect()
}
