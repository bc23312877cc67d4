//! What the samples of one combination gave, in whole rounds.
//!
//! Invariant: figures are of rounds in which every combination had its sample; those of a round that a signal cut off are
//! taken back. What went wrong is never taken back.

use std::time::Duration;

use crate::experiments::Member;
use crate::histogram::Latencies;
use crate::report::{CpuUs, LatencyUs, RoundSample, Row};
use crate::worker::process::INTERRUPTED;
use crate::worker::protocol::{Failure, Sampled};

/// Figures and faults of one combination.
pub(super) struct Tally {
    figures: Figures,
    /// As they were after the last whole round.
    kept: Figures,
    errors: u64,
    misses: u64,
    first_error: Option<String>,
    failed: Option<Failure>,
}

#[derive(Clone)]
struct Figures {
    samples: Vec<RoundSample>,
    latencies: Latencies,
    operations: u64,
    cpu_us: u64,
    server_cpu: Duration,
}

impl Tally {
    pub(super) fn new() -> Tally {
        let figures = Figures {
            samples: Vec::new(),
            latencies: Latencies::new(),
            operations: 0,
            cpu_us: 0,
            server_cpu: Duration::ZERO,
        };
        Tally { kept: figures.clone(), figures, errors: 0, misses: 0, first_error: None, failed: None }
    }

    /// One sample of all workers of a member that was set up anew so many times.
    pub(super) fn add(&mut self, samples: Vec<Sampled>, server_cpu: Duration, setup: usize) {
        let elapsed_ns = samples.iter().map(|sample| sample.elapsed_ns).max().unwrap_or(0);
        let operations: u64 = samples.iter().map(|sample| sample.operations).sum();
        let mut latencies = Latencies::new();
        for sample in samples {
            self.errors += sample.errors;
            self.misses += sample.misses;
            self.first_error = self.first_error.take().or(sample.first_error);
            self.figures.cpu_us += sample.cpu_us;
            match Latencies::from_text(&sample.latency) {
                Some(of_worker) => latencies.add(&of_worker),
                None => self.errors += 1,
            }
        }
        self.figures.operations += operations;
        self.figures.server_cpu += server_cpu;
        let sample = RoundSample::of(operations, elapsed_ns, &latencies);
        self.figures.samples.push(RoundSample { setup, ..sample });
        self.figures.latencies.add(&latencies);
    }

    /// No more samples of this one.
    pub(super) fn fail(&mut self, failure: Failure) {
        if failure.code != INTERRUPTED {
            self.failed = Some(failure);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The round is whole.
    pub(super) fn keep_round(&mut self) {
        self.kept = self.figures.clone();
    }

    /// The row, of whole rounds.
    pub(super) fn into_row(self, row: Row, member: &Member) -> Row {
        let Figures { samples, latencies, operations, cpu_us, server_cpu } = self.kept;
        let each = |us: f64| us / operations.max(1) as f64;
        let nothing = (operations == 0).then(|| "no operation succeeded".to_owned());
        let failed = self.failed.map(|failure| failure.message).or(nothing);
        Row {
            rounds: samples.len(),
            ops_per_second: RoundSample::spread(&samples),
            samples,
            latency_us: LatencyUs::of(&latencies),
            operations,
            errors: self.errors,
            misses: self.misses,
            first_error: self.first_error.map(|message| member.stage.redact(&message)),
            failed: failed.map(|message| member.stage.redact(&message)),
            cpu_us_per_op: CpuUs { client: each(cpu_us as f64), server: each(server_cpu.as_secs_f64() * 1e6) },
            bytes_per_session: member.bytes_per_session,
            ..row
        }
    }
}
