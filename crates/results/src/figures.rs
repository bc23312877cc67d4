//! The figures of a row: rates, latencies, processor time and memory.

use serde::{Deserialize, Serialize};

use crate::histogram::Latencies;
use crate::statistics::Spread;
use crate::{RoundSample, WorkerMemory};

/// The figures of a contender.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    pub rounds: usize,
    /// Operations a second of all workers.
    pub ops_per_second: Spread,
    /// The rounds, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<RoundSample>,
    /// Latency over all rounds and workers.
    pub latency_us: LatencyUs,
    pub operations: u64,
    /// CPU time of an operation.
    pub cpu_us_per_op: CpuUs,
    /// Space of a session: files and shared memory, or growth of a server's or worker's memory. In
    /// `cycle` and `ops` at the end of the run; 0 if unknown.
    pub bytes_per_session: u64,
    /// Memory of the row's workers after the last sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<WorkerMemory>,
    /// The lowest cycle count of a worker over the mean: 1 is fair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// Latency counts, with the same bounds in all rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Buckets>,
    /// Whether sweeping requests are a second mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Modes>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyUs {
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUs {
    /// Of the workers.
    pub client: f64,
    /// Of the server. 0 if there is none, if its process was not measured (`rebuild`, the user's
    /// store), or if it used less than the kernel counts; see [`CpuUs::of_server`].
    pub server: f64,
}

/// Waits of begins, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Begins that were recorded.
    pub begins: u64,
    /// Begins that found the session locked.
    pub taken: u64,
    pub taken_p50: f64,
    pub taken_p99: f64,
    pub all_p50: f64,
    pub all_p99: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// Upper bounds in microseconds.
    pub bounds_us: Vec<u64>,
    /// Counts; the last one is above all bounds.
    pub counts: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    /// Median without, in microseconds.
    pub plain_p50: f64,
    /// Median with.
    pub sweeping_p50: f64,
    pub sweeping: u64,
    /// 90th percentile with.
    pub sweeping_p90: f64,
    /// 2 if a tenth of the sweeping requests took more than four times the others' 99th percentile.
    pub modes: u32,
}

impl Modes {
    /// With fewer sessions a sweep may not stand out, so one mode proves nothing.
    pub const SESSIONS_MIN: usize = 50_000;

    pub fn new(plain: &Latencies, sweeping: &Latencies) -> Modes {
        let (plain_p50, sweeping_p50) = (plain.us(0.5), sweeping.us(0.5));
        let sweeping_p90 = sweeping.us(0.9);
        let modes = if sweeping_p90 > 4.0 * plain.us(0.99) { 2 } else { 1 };
        Modes { plain_p50, sweeping_p50, sweeping_p90, sweeping: sweeping.count(), modes }
    }
}

impl CpuUs {
    /// The server's time, if known.
    pub fn of_server(&self) -> Option<f64> {
        Some(self.server).filter(|us| *us > 0.0)
    }
}

impl Buckets {
    /// 1-2-5 steps from 1 us to 10 s.
    const BOUNDS_US: [u64; 22] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
        200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
    ];

    pub fn from_latencies(latencies: &Latencies) -> Buckets {
        let bounds_us = Buckets::BOUNDS_US;
        Buckets { bounds_us: bounds_us.to_vec(), counts: latencies.between(&bounds_us) }
    }
}

impl LatencyUs {
    pub fn new(latencies: &Latencies) -> LatencyUs {
        LatencyUs {
            min: latencies.min_us(),
            p50: latencies.us(0.5),
            p90: latencies.us(0.9),
            p99: latencies.us(0.99),
            p999: latencies.us(0.999),
            max: latencies.max_us(),
        }
    }
}
