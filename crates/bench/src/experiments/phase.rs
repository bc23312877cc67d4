//! A phase of `gc`: successive samples of one worker that become one row with its histogram.
//!
//! Single calls are timed beside background work, so contenders do not take turns.

use std::time::Duration;

use crate::experiments::ReadyContender;
use crate::histogram::Latencies;
use crate::interruption::interrupted;
use crate::report::{Buckets, CpuUs, LatencyUs, Modes, Removal, Row};
use crate::statistics::Spread;
use crate::worker::protocol::{ContenderFailure, SamplePlan, SampleResult};

pub(super) struct PhaseSamples {
    pub op: &'static str,
    pub latencies: Latencies,
    extra: Latencies,
    pub totals: SampleResult,
    pub samples: u64,
    elapsed_ns: u64,
    server_cpu: Duration,
}

impl PhaseSamples {
    pub(super) fn new(op: &'static str) -> PhaseSamples {
        PhaseSamples {
            op,
            latencies: Latencies::new(),
            extra: Latencies::new(),
            totals: SampleResult::default(),
            samples: 0,
            elapsed_ns: 0,
            server_cpu: Duration::ZERO,
        }
    }

    pub(super) fn add(&mut self, (sample, server_cpu): (SampleResult, Duration)) {
        self.samples += 1;
        self.elapsed_ns += sample.elapsed_ns;
        self.server_cpu += server_cpu;
        self.totals.operations += sample.operations;
        self.totals.errors += sample.errors;
        self.totals.misses += sample.misses;
        self.totals.cpu_us += sample.cpu_us;
        self.totals.first_error = self.totals.first_error.take().or(sample.first_error);
        for (into, text) in
            [(&mut self.latencies, Some(sample.latency)), (&mut self.extra, sample.latency_extra)]
        {
            if let Some(latencies) = text.as_deref().and_then(Latencies::from_text) {
                into.add(&latencies);
            }
        }
    }

    pub(super) fn into_row(
        self,
        row: Row,
        contender: &ReadyContender,
        removal: Option<Removal>,
    ) -> Row {
        let modes = (self.extra.count() > 0).then(|| Modes::new(&self.latencies, &self.extra));
        let mut all = self.latencies;
        all.add(&self.extra);
        let operations = self.totals.operations.max(1) as f64;
        let per_second = self.totals.operations as f64 * 1e9 / self.elapsed_ns.max(1) as f64;
        Row {
            rounds: 1,
            ops_per_second: Spread::of(&[per_second]),
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
            removal,
            modes,
            ..row
        }
    }
}

impl ReadyContender {
    /// One sample of the first worker, with the CPU time of the server meanwhile.
    pub(super) fn timed(
        &mut self,
        plan: SamplePlan,
    ) -> Result<(SampleResult, Duration), ContenderFailure> {
        let deployment = &self.deployment;
        let (mut samples, before, after) =
            self.group.sample(&[plan], interrupted, || deployment.server_cpu())?;
        let sample = samples.drain(..).next().unwrap_or_default();
        self.commits += sample.commits;
        Ok((sample, after.saturating_sub(before)))
    }
}
