//! Figures of each round, which comparisons of results use.
//!
//! A row shows their median and range. Latency distributions are in the histogram over all rounds.

use serde::{Deserialize, Serialize};

use crate::histogram::Latencies;
use crate::statistics::Spread;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundSample {
    /// Operations a second.
    pub ops_per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// The number of earlier setups. Rounds of one setup share memory and processes.
    #[serde(default, skip_serializing_if = "is_first")]
    pub setup: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn is_first(setup: &usize) -> bool {
    *setup == 0
}

impl RoundSample {
    pub fn new(operations: u64, elapsed_ns: u64, latencies: &Latencies) -> RoundSample {
        let ops_per_second =
            if elapsed_ns > 0 { operations as f64 * 1e9 / elapsed_ns as f64 } else { 0.0 };
        RoundSample {
            ops_per_second,
            p50_us: latencies.us(0.5),
            p99_us: latencies.us(0.99),
            setup: 0,
        }
    }

    pub fn spread(samples: &[RoundSample]) -> Spread {
        Spread::of(&samples.iter().map(|sample| sample.ops_per_second).collect::<Vec<f64>>())
    }
}
