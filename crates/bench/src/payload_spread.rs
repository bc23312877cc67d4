//! How payload sizes differ between sessions.
//!
//! The size of a session follows from the seed and its number, so every reader knows what to
//! expect. The log-normal spread is shaped like real session stores: many small sessions and a long
//! tail with most of the bytes. A profile is the spread of a real store, exported by
//! `sessile analyze`.

use serde::{Deserialize, Serialize};
use sessile_scan::Profile;

use crate::defaults::PAYLOAD_BYTES_MAX;
use crate::payload::PAYLOAD_BYTES_MIN;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PayloadSpread {
    #[default]
    Fixed,
    /// That of the workload `shop`: median 1 KiB, mean about 3 KB, cut at 1 MiB, which one of
    /// 500,000 sessions reaches.
    LogNormal,
    /// As in a scanned store, within the limits of payloads.
    Profile(Box<Profile>),
}

const MEDIAN_BYTES: f64 = 1_024.0;
/// Standard deviation of the logarithm.
const SIGMA: f64 = 1.5;
pub(crate) const TAIL_BYTES_MAX: usize = 1 << 20;

impl PayloadSpread {
    pub const fn name(&self) -> &'static str {
        match self {
            PayloadSpread::Fixed => "fixed",
            PayloadSpread::LogNormal => "lognormal",
            PayloadSpread::Profile(_) => "profile",
        }
    }

    /// Sizes of the sessions `0..count`; empty if fixed.
    pub(crate) fn sizes(&self, seed: u64, count: usize) -> Vec<u32> {
        match self {
            PayloadSpread::Fixed => Vec::new(),
            PayloadSpread::LogNormal => {
                (0..count).map(|session| log_normal(seed, session as u64)).collect()
            }
            PayloadSpread::Profile(profile) => {
                (0..count).map(|session| drawn(profile, seed, session as u64)).collect()
            }
        }
    }

    pub(crate) fn mean(&self, seed: u64, count: usize, fixed: usize) -> usize {
        let sizes = self.sizes(seed, count);
        if sizes.is_empty() {
            return fixed;
        }
        let total: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
        usize::try_from(total / sizes.len() as u64).unwrap_or(fixed)
    }

    pub(crate) fn largest(&self, fixed: usize) -> usize {
        match self {
            PayloadSpread::Fixed => fixed,
            PayloadSpread::LogNormal => TAIL_BYTES_MAX,
            PayloadSpread::Profile(profile) => within_limits(profile.largest()),
        }
    }
}

fn drawn(profile: &Profile, seed: u64, session: u64) -> u32 {
    let mut random = random_of(seed, session);
    u32::try_from(within_limits(profile.size_at(random.f64(), random.f64()))).unwrap_or(u32::MAX)
}

fn within_limits(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX).clamp(PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX)
}

fn random_of(seed: u64, session: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed ^ session.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The Box-Muller transform.
fn log_normal(seed: u64, session: u64) -> u32 {
    let mut random = random_of(seed, session);
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt(); // 1 - f64() is never 0
    let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
    let bytes = MEDIAN_BYTES * (SIGMA * normal).exp();
    bytes.clamp(PAYLOAD_BYTES_MIN as f64, TAIL_BYTES_MAX as f64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_drawn_from_within_what_a_payload_may_be() {
        let buckets = r#"{"from_bytes":0,"below_bytes":1,"entries":900,"bytes":0},
            {"from_bytes":2048,"below_bytes":2560,"entries":90,"bytes":200000},
            {"from_bytes":1073741824,"below_bytes":1342177280,"entries":10,"bytes":12000000000}"#;
        let none = r#"{"buckets":[],"unknown":1000}"#;
        let text = format!(
            r#"{{"schema":1,"sizes_are":"payload","entries":1000,"bytes":12000200000,
            "sizes":[{buckets}],"age":{none},"idle":{none}}}"#
        );
        let spread = PayloadSpread::Profile(Box::new(Profile::parse(&text).unwrap()));
        let sizes = spread.sizes(1, 100_000);
        assert_eq!(sizes, spread.sizes(1, 100_000), "the same for all workers");
        let share =
            |from: u32, to: u32| sizes.iter().filter(|size| (from..=to).contains(*size)).count();
        assert!((89_000..91_000).contains(&share(32, 32)), "{}", share(32, 32));
        assert!((8_500..9_500).contains(&share(2_048, 2_559)), "{}", share(2_048, 2_559));
        assert_eq!(share(64 << 20, 64 << 20), 100_000 - share(32, 32) - share(2_048, 2_559));
        assert_eq!(spread.largest(0), 64 << 20);
    }

    #[test]
    fn the_log_normal_spread_has_its_median_mean_and_tail() {
        let mut sizes = PayloadSpread::LogNormal.sizes(1, 200_000);
        assert_eq!(sizes, PayloadSpread::LogNormal.sizes(1, 200_000), "the same for all workers");
        assert_ne!(sizes[..100], PayloadSpread::LogNormal.sizes(2, 100)[..]);
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        assert!((1_000..1_050).contains(&median), "{median}");
        let mean = PayloadSpread::LogNormal.mean(1, 200_000, 0);
        assert!((2_900..3_400).contains(&mean), "{mean}");
        assert!(sizes[sizes.len() - 1] > 300_000 && sizes[0] == 32, "{:?}", sizes.last());
    }
}
