//! The samples of one combination, in whole rounds.
//!
//! Invariant: figures of a round that a signal cut off are dropped; its errors are kept.

use std::time::Duration;

use sessile_results::histogram::Latencies;
use sessile_results::{CpuUs, LatencyUs, RoundSample, Row};

use crate::experiments::ReadyContender;
use crate::worker::process::INTERRUPTED;
use crate::worker::protocol::{ContenderFailure, SampleResult};

pub(super) struct SampleTotals {
    current: RoundTotals,
    whole_rounds: RoundTotals,
    errors: u64,
    misses: u64,
    first_error: Option<String>,
    failed: Option<ContenderFailure>,
}

#[derive(Clone)]
struct RoundTotals {
    samples: Vec<RoundSample>,
    latencies: Latencies,
    operations: u64,
    cpu_us: u64,
    server_cpu: Duration,
}

impl SampleTotals {
    pub(super) fn new() -> SampleTotals {
        let current = RoundTotals {
            samples: Vec::new(),
            latencies: Latencies::new(),
            operations: 0,
            cpu_us: 0,
            server_cpu: Duration::ZERO,
        };
        SampleTotals {
            whole_rounds: current.clone(),
            current,
            errors: 0,
            misses: 0,
            first_error: None,
            failed: None,
        }
    }

    /// Samples of all workers. `setup` counts the setups before this one.
    pub(super) fn add(&mut self, samples: Vec<SampleResult>, server_cpu: Duration, setup: usize) {
        let elapsed_ns = samples.iter().map(|sample| sample.elapsed_ns).max().unwrap_or(0);
        let operations: u64 = samples.iter().map(|sample| sample.operations).sum();
        let mut latencies = Latencies::new();
        for sample in samples {
            self.errors += sample.errors;
            self.misses += sample.misses;
            self.first_error = self.first_error.take().or(sample.first_error);
            self.current.cpu_us += sample.cpu_us;
            match Latencies::from_text(&sample.latency) {
                Some(of_worker) => latencies.add(&of_worker),
                None => self.errors += 1,
            }
        }
        self.current.operations += operations;
        self.current.server_cpu += server_cpu;
        let sample = RoundSample::new(operations, elapsed_ns, &latencies);
        self.current.samples.push(RoundSample { setup, ..sample });
        self.current.latencies.add(&latencies);
    }

    /// Takes no further samples.
    pub(super) fn fail(&mut self, failure: ContenderFailure) {
        if failure.code != INTERRUPTED {
            self.failed = Some(failure);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub(super) fn keep_round(&mut self) {
        self.whole_rounds = self.current.clone();
    }

    pub(super) fn into_row(self, row: Row, contender: &ReadyContender) -> Row {
        let RoundTotals { samples, latencies, operations, cpu_us, server_cpu } = self.whole_rounds;
        let each = |us: f64| us / operations.max(1) as f64;
        let nothing = (operations == 0).then(|| "no operation succeeded".to_owned());
        let failed = self.failed.map(|failure| failure.message).or(nothing);
        Row {
            rounds: samples.len(),
            ops_per_second: RoundSample::spread(&samples),
            samples,
            latency_us: LatencyUs::new(&latencies),
            operations,
            errors: self.errors,
            misses: self.misses,
            first_error: self.first_error.map(|message| contender.deployment.redact(&message)),
            failed: failed.map(|message| contender.deployment.redact(&message)),
            cpu_us_per_op: CpuUs {
                client: each(cpu_us as f64),
                server: each(server_cpu.as_secs_f64() * 1e6),
            },
            bytes_per_session: contender.bytes_per_session,
            ..row
        }
    }
}
