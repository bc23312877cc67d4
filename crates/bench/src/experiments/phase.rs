//! A phase of `gc`: samples of one worker, one in each round, that become one row with its
//! histogram.
//!
//! Single calls are timed beside background work, so contenders do not take turns.

use std::ops::Range;
use std::time::Duration;

use sessile_results::{Buckets, Figures, Modes, Removal, Row};

use crate::experiments::ReadyContender;
use crate::experiments::sample_totals::SampleTotals;
use crate::interruption::interrupted;
use crate::monotonic::wait_until;
use crate::worker::protocol::{SamplePlan, WorkerResult};

pub(super) struct Phase {
    pub op: &'static str,
    pub totals: SampleTotals,
    removal: Option<Removal>,
}

impl Phase {
    pub(super) fn new(op: &'static str) -> Phase {
        Phase { op, totals: SampleTotals::new(), removal: None }
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
        self.totals.leave_out_empty_samples();
        self.totals.keep_round();
        let (row, totals) = self.totals.into_row(row, contender);
        let (mut all, extra) = (totals.latencies, totals.extra);
        let modes = (extra.count() > 0).then(|| Modes::new(&all, &extra));
        all.add(&extra);
        let histogram = Some(Buckets::from_latencies(&all));
        Row { figures: Figures { histogram, modes, ..row.figures }, removal: self.removal, ..row }
    }
}

impl ReadyContender {
    /// Requests of the first worker, which go on until `end_requests`; and the CPU time of the
    /// server until now.
    pub(super) fn begin_requests(&mut self, plan: SamplePlan) -> WorkerResult<Duration> {
        let start_ns = self.group.begin_sample(&[plan], interrupted)?;
        wait_until(start_ns);
        Ok(self.deployment.server_cpu())
    }

    /// Adds a sample with the requests that were due within this time.
    pub(super) fn end_requests(
        &mut self,
        phase: &mut Phase,
        before: Duration,
        counted: Range<u64>,
    ) -> WorkerResult<()> {
        let server_cpu = self.deployment.server_cpu().saturating_sub(before);
        let sample = self.group.end_sample(counted)?;
        self.commits += sample.commits;
        phase.totals.add(vec![sample], server_cpu, self.setup);
        Ok(())
    }

    /// Adds one sample of the first worker.
    pub(super) fn sample(&mut self, phase: &mut Phase, plan: SamplePlan) -> WorkerResult<()> {
        let samples = self.sample_all(&[plan], interrupted)?;
        phase.totals.add(samples.0, samples.1, self.setup);
        Ok(())
    }
}
