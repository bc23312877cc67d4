//! The samples of one combination, in whole rounds, and what was found wrong with its sessions.
//!
//! Invariant: figures of a round that a signal cut off are dropped; its errors are kept.

use std::time::Duration;

use sessile_results::histogram::Latencies;
use sessile_results::{CpuUs, Figures, LatencyUs, Outcome, RoundSample, Row};

use crate::experiments::ReadyContender;
use crate::experiments::verification::UnverifiedRow;
use crate::worker::process::INTERRUPTED;
use crate::worker::protocol::{ContenderFailure, SampleResult};

/// Operations and sessions that are not as they should be.
#[derive(Default)]
pub(super) struct Findings {
    pub lost: u64,
    pub misses: u64,
    pub errors: u64,
    pub first_error: Option<String>,
}

impl Findings {
    pub(super) fn add(&mut self, other: Findings) {
        self.lost += other.lost;
        self.misses += other.misses;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    pub(super) fn add_to_row(self, row: &mut Row) {
        row.outcome.lost += self.lost;
        row.outcome.misses += self.misses;
        row.outcome.errors += self.errors;
        row.outcome.first_error = row.outcome.first_error.take().or(self.first_error);
    }
}

pub(super) struct SampleTotals {
    current: RoundTotals,
    whole_rounds: RoundTotals,
    pub findings: Findings,
    failed: Option<ContenderFailure>,
}

#[derive(Clone)]
pub(super) struct RoundTotals {
    samples: Vec<RoundSample>,
    pub latencies: Latencies,
    /// Of operations that swept.
    pub extra: Latencies,
    operations: u64,
    cpu_us: u64,
    server_cpu: Duration,
}

impl SampleTotals {
    pub(super) fn new() -> SampleTotals {
        let current = RoundTotals {
            samples: Vec::new(),
            latencies: Latencies::new(),
            extra: Latencies::new(),
            operations: 0,
            cpu_us: 0,
            server_cpu: Duration::ZERO,
        };
        let (findings, failed) = (Findings::default(), None);
        SampleTotals { whole_rounds: current.clone(), current, findings, failed }
    }

    /// Samples of all workers. `setup` counts the setups before this one.
    pub(super) fn add(&mut self, samples: Vec<SampleResult>, server_cpu: Duration, setup: usize) {
        let elapsed_ns = samples.iter().map(|sample| sample.elapsed_ns).max().unwrap_or(0);
        let operations: u64 = samples.iter().map(|sample| sample.operations).sum();
        let mut latencies = Latencies::new();
        for sample in samples {
            self.findings.add(Findings {
                lost: 0,
                misses: sample.misses,
                errors: sample.errors,
                first_error: sample.first_error,
            });
            self.current.cpu_us += sample.cpu_us;
            let texts = [
                (&mut self.current.latencies, Some(sample.latency)),
                (&mut self.current.extra, sample.latency_extra),
            ];
            for (into, text) in texts.into_iter().filter_map(|(into, text)| Some((into, text?))) {
                match Latencies::from_text(&text) {
                    Some(of_worker) => {
                        into.add(&of_worker);
                        latencies.add(&of_worker);
                    }
                    None => self.findings.errors += 1,
                }
            }
        }
        self.current.operations += operations;
        self.current.server_cpu += server_cpu;
        let sample = RoundSample::new(operations, elapsed_ns, &latencies);
        self.current.samples.push(RoundSample { setup, ..sample });
    }

    /// A sweep of milliseconds may meet no request: that is no round with the rate 0.
    pub(super) fn leave_out_empty_samples(&mut self) {
        self.current.samples.retain(|sample| sample.ops_per_second > 0.0);
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

    pub(super) fn samples(&self) -> usize {
        self.current.samples.len()
    }

    pub(super) fn keep_round(&mut self) {
        self.whole_rounds = self.current.clone();
    }

    /// The row, and what it is made of.
    pub(super) fn into_row(self, row: Row, contender: &ReadyContender) -> (Row, RoundTotals) {
        let redact = |message: String| contender.deployment.redact(&message);
        let RoundTotals { samples, operations, cpu_us, server_cpu, .. } = &self.whole_rounds;
        let each = |us: f64| us / (*operations).max(1) as f64;
        let mut all = self.whole_rounds.latencies.clone();
        all.add(&self.whole_rounds.extra);
        let mut row = Row {
            figures: Figures {
                rounds: samples.len(),
                ops_per_second: RoundSample::spread(samples),
                samples: samples.clone(),
                latency_us: LatencyUs::new(&all),
                operations: *operations,
                cpu_us_per_op: CpuUs {
                    client: each(*cpu_us as f64),
                    server: each(server_cpu.as_secs_f64() * 1e6),
                },
                bytes_per_session: contender.bytes_per_session,
                ..row.figures
            },
            outcome: Outcome {
                failed: self.failed.map(|failure| redact(failure.message)),
                ..row.outcome
            },
            ..row
        };
        let first_error = self.findings.first_error.map(redact);
        Findings { first_error, ..self.findings }.add_to_row(&mut row);
        (row, self.whole_rounds)
    }

    /// The row of this contender, which has failed if nothing was measured.
    pub(super) fn into_unverified_row(
        mut self,
        row: Row,
        number: usize,
        contender: &ReadyContender,
    ) -> UnverifiedRow {
        let obstacle = self.failed.take_if(|failure| !failure.is_of_store());
        let obstacle = obstacle.map(|failure| failure.message);
        let (mut row, _) = self.into_row(row, contender);
        let nothing = row.figures.operations == 0 && obstacle.is_none();
        let nothing = nothing.then(|| "no operation succeeded".to_owned());
        row.outcome.failed = row.outcome.failed.or(nothing);
        UnverifiedRow { contender: number, row, obstacle }
    }
}
