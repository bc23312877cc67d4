//! How large the payloads of different sessions are.
//!
//! A session has one size for good, which follows from the seed and its number: whoever reads it knows what must be
//! there. The log-normal spread has the shape that real session stores have: many small ones, and a long tail
//! that holds most of the bytes.

use serde::{Deserialize, Serialize};

use crate::payload::PAYLOAD_BYTES_MIN;

/// A distribution of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spread {
    /// All of the size that was asked for.
    #[default]
    Fixed,
    /// Median 1 KiB, mean about 3 KB, cut at 1 MiB, which about one session in 500,000 reaches.
    LogNormal,
}

const MEDIAN_BYTES: f64 = 1_024.0;
/// Standard deviation of the logarithm.
const SIGMA: f64 = 1.5;
/// Largest payload of the log-normal spread.
pub(crate) const TAIL_BYTES_MAX: usize = 1 << 20;

impl Spread {
    /// The word in `--spread` and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Spread::Fixed => "fixed",
            Spread::LogNormal => "lognormal",
        }
    }

    /// The spread of this name.
    pub fn from_name(name: &str) -> Option<Spread> {
        [Spread::Fixed, Spread::LogNormal].into_iter().find(|spread| spread.name() == name)
    }

    /// Sizes of the sessions `0..count`, for a spread in which they differ.
    pub(crate) fn sizes(self, seed: u64, count: usize) -> Vec<u32> {
        match self {
            Spread::Fixed => Vec::new(),
            Spread::LogNormal => (0..count).map(|session| log_normal(seed, session as u64)).collect(),
        }
    }

    /// Mean size of the sessions `0..count`.
    pub(crate) fn mean(self, seed: u64, count: usize, fixed: usize) -> usize {
        let sizes = self.sizes(seed, count);
        if sizes.is_empty() {
            return fixed;
        }
        let total: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
        usize::try_from(total / sizes.len() as u64).unwrap_or(fixed)
    }

    /// The largest size that can occur.
    pub(crate) fn largest(self, fixed: usize) -> usize {
        match self {
            Spread::Fixed => fixed,
            Spread::LogNormal => TAIL_BYTES_MAX,
        }
    }
}

/// The Box-Muller transform of two numbers that follow from seed and session.
fn log_normal(seed: u64, session: u64) -> u32 {
    let mut random = fastrand::Rng::with_seed(seed ^ session.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt(); // 1 - f64() is never 0
    let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
    let bytes = MEDIAN_BYTES * (SIGMA * normal).exp();
    bytes.clamp(PAYLOAD_BYTES_MIN as f64, TAIL_BYTES_MAX as f64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_normal_spread_has_its_median_mean_and_tail() {
        let mut sizes = Spread::LogNormal.sizes(1, 200_000);
        assert_eq!(sizes, Spread::LogNormal.sizes(1, 200_000), "the same for all workers");
        assert_ne!(sizes[..100], Spread::LogNormal.sizes(2, 100)[..]);
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        assert!((1_000..1_050).contains(&median), "{median}");
        let mean = Spread::LogNormal.mean(1, 200_000, 0);
        assert!((2_900..3_400).contains(&mean), "{mean}");
        assert!(sizes[sizes.len() - 1] > 300_000 && sizes[0] == 32, "{:?}", sizes.last());
    }
}
