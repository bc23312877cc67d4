//! What each round gave: the ground on which two results can be compared.
//!
//! The figure of a row is the median of these, and its low and high are their ends. It is no distribution of
//! latencies: that is the histogram over all rounds.

use serde::{Deserialize, Serialize};

use crate::histogram::Latencies;
use crate::statistics::Spread;

/// One sample of a row, all its workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundSample {
    /// Operations a second.
    pub ops_per_second: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// The 99th percentile in microseconds.
    pub p99_us: f64,
    /// How many times stores had been set up anew until then. Rounds of one setup have the same memory and processes in common.
    #[serde(default, skip_serializing_if = "is_first")]
    pub setup: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn is_first(setup: &usize) -> bool {
    *setup == 0
}

impl RoundSample {
    /// So many operations in that time, with these latencies.
    pub(crate) fn of(operations: u64, elapsed_ns: u64, latencies: &Latencies) -> RoundSample {
        let ops_per_second = if elapsed_ns > 0 { operations as f64 * 1e9 / elapsed_ns as f64 } else { 0.0 };
        RoundSample { ops_per_second, p50_us: latencies.us(0.5), p99_us: latencies.us(0.99), setup: 0 }
    }

    /// Median, lowest and highest of the operations a second.
    pub(crate) fn spread(samples: &[RoundSample]) -> Spread {
        Spread::of(&samples.iter().map(|sample| sample.ops_per_second).collect::<Vec<f64>>())
    }
}
