//! A phase of `gc`: successive samples of one worker, in rounds, that become one row with its
//! histogram.
//!
//! Single calls are timed beside background work, so contenders do not take turns.

use std::ops::Range;
use std::time::Duration;

use sessile_results::histogram::Latencies;
use sessile_results::statistics::Spread;
use sessile_results::{Buckets, CpuUs, LatencyUs, Modes, Removal, RoundSample, Row};

use crate::experiments::ReadyContender;
use crate::interruption::interrupted;
use crate::monotonic::wait_until;
use crate::worker::protocol::{ContenderFailure, SamplePlan, SampleResult};

/// A sample, and the CPU time of the server meanwhile.
pub(super) type TimedSample = (SampleResult, Duration);

pub(super) struct PhaseSamples {
    pub op: &'static str,
    latencies: Latencies,
    /// Of the round that has not ended, with its operations and time.
    round: (Latencies, u64, u64),
    rounds: Vec<RoundSample>,
    removal: Option<Removal>,
    extra: Latencies,
    pub totals: SampleResult,
    pub samples: u64,
    server_cpu: Duration,
}

impl PhaseSamples {
    pub(super) fn new(op: &'static str) -> PhaseSamples {
        PhaseSamples {
            op,
            latencies: Latencies::new(),
            round: (Latencies::new(), 0, 0),
            rounds: Vec::new(),
            removal: None,
            extra: Latencies::new(),
            totals: SampleResult::default(),
            samples: 0,
            server_cpu: Duration::ZERO,
        }
    }

    pub(super) fn add(&mut self, (sample, server_cpu): TimedSample) {
        self.samples += 1;
        self.server_cpu += server_cpu;
        self.totals.operations += sample.operations;
        self.totals.errors += sample.errors;
        self.totals.misses += sample.misses;
        self.totals.cpu_us += sample.cpu_us;
        self.totals.first_error = self.totals.first_error.take().or(sample.first_error);
        self.round.1 += sample.operations;
        self.round.2 += sample.elapsed_ns;
        for (into, text) in
            [(&mut self.latencies, Some(sample.latency)), (&mut self.extra, sample.latency_extra)]
        {
            if let Some(latencies) = text.as_deref().and_then(Latencies::from_text) {
                into.add(&latencies);
                self.round.0.add(&latencies);
            }
        }
    }

    /// A round in which nothing was timed has no figures.
    pub(super) fn end_round(&mut self) {
        let (latencies, operations, elapsed_ns) =
            std::mem::replace(&mut self.round, (Latencies::new(), 0, 0));
        let LatencyUs { p50, p99, .. } = LatencyUs::new(&latencies);
        if operations > 0 {
            let ops_per_second = operations as f64 * 1e9 / elapsed_ns.max(1) as f64;
            self.rounds.push(RoundSample { ops_per_second, p50_us: p50, p99_us: p99, setup: 0 });
        }
    }

    /// Adds up the rounds; of the longest calls the longest counts.
    pub(super) fn add_removal(&mut self, round: Removal) {
        let Some(all) = &mut self.removal else {
            self.removal = Some(round);
            return;
        };
        all.removed = all.removed.zip(round.removed).map(|(all, round)| all + round);
        all.seconds += round.seconds;
        all.cpu_seconds = all.cpu_seconds.zip(round.cpu_seconds).map(|(all, round)| all + round);
        all.longest_call_us =
            all.longest_call_us.zip(round.longest_call_us).map(|(all, round)| all.max(round));
    }

    pub(super) fn into_row(mut self, row: Row, contender: &ReadyContender) -> Row {
        self.end_round();
        let modes = (self.extra.count() > 0).then(|| Modes::new(&self.latencies, &self.extra));
        let mut all = self.latencies;
        all.add(&self.extra);
        let operations = self.totals.operations.max(1) as f64;
        let rates: Vec<f64> = self.rounds.iter().map(|round| round.ops_per_second).collect();
        Row {
            rounds: self.rounds.len(),
            ops_per_second: Spread::of(&rates),
            samples: self.rounds,
            latency_us: LatencyUs::new(&all),
            operations: self.totals.operations,
            errors: self.totals.errors,
            misses: self.totals.misses,
            first_error: self
                .totals
                .first_error
                .map(|message| contender.deployment.redact(&message)),
            cpu_us_per_op: CpuUs {
                client: self.totals.cpu_us as f64 / operations,
                server: self.server_cpu.as_secs_f64() * 1e6 / operations,
            },
            bytes_per_session: contender.bytes_per_session,
            histogram: Some(Buckets::from_latencies(&all)),
            removal: self.removal,
            modes,
            ..row
        }
    }
}

impl ReadyContender {
    /// Requests of the first worker, which go on until `end_requests`; and the CPU time of the
    /// server until now.
    pub(super) fn begin_requests(
        &mut self,
        plan: SamplePlan,
    ) -> Result<Duration, ContenderFailure> {
        let start_ns = self.group.begin_sample(&[plan], interrupted)?;
        wait_until(start_ns);
        Ok(self.deployment.server_cpu())
    }

    /// Only requests count that were due within this time.
    pub(super) fn end_requests(
        &mut self,
        before: Duration,
        counted: Range<u64>,
    ) -> Result<TimedSample, ContenderFailure> {
        let server_cpu = self.deployment.server_cpu().saturating_sub(before);
        let sample = self.group.end_sample(counted)?;
        self.commits += sample.commits;
        Ok((sample, server_cpu))
    }

    /// One sample of the first worker, with the CPU time of the server meanwhile.
    pub(super) fn timed(&mut self, plan: SamplePlan) -> Result<TimedSample, ContenderFailure> {
        let deployment = &self.deployment;
        let (mut samples, before, after) =
            self.group.sample(&[plan], interrupted, || deployment.server_cpu())?;
        let sample = samples.drain(..).next().unwrap_or_default();
        self.commits += sample.commits;
        Ok((sample, after.saturating_sub(before)))
    }
}
