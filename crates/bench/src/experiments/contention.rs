//! `contention`: the parallel requests of one page, all on one session.
//!
//! `closed-loop` shows throughput and fairness. In `fixed-rate` each worker arrives 50 times a
//! second and works 0.2 ms under the lock, which shows the wait for a held session. Stores do not
//! report waits, so they come from the times of all leases.

use sessile_results::experiment::CLOSED_LOOP;
use sessile_results::histogram::Latencies;
use sessile_results::{Buckets, Figures, Waits};

use crate::experiments::sample_totals::SampleTotals;
use crate::experiments::verification::UnverifiedRow;
use crate::experiments::{Bench, ReadyContender, check_interrupted, verification};
use crate::interruption::out_of_time;
use crate::run::RunError;
use crate::selection::Choice;
use crate::worker::protocol::{LeaseTimes, SampleAction, SamplePlan, SampleResult};

/// A small page.
const HOLD_NS: u64 = 200_000;
const FIXED_RATE: &str = "fixed-rate";

struct ContentionSeries {
    contender: usize,
    workers: usize,
    fixed_rate: bool,
    totals: SampleTotals,
    waits: LockWaits,
    whole_rounds: LockWaits,
}

#[derive(Clone)]
struct LockWaits {
    waits: Latencies,
    taken_waits: Latencies,
    cycles_of_workers: Vec<u64>,
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice: &Choice| {
        (!choice.shared_by_processes)
            .then(|| "it lives in one process, so nobody contends".to_owned())
    });
    let workers = bench.settings.workers.clone();
    let most = workers.iter().copied().max().unwrap_or(1);
    let (mut contenders, mut all_series) = (Vec::new(), Vec::new());
    for choice in bench.choices.clone() {
        check_interrupted()?;
        let ways = workers.iter().flat_map(|workers| [(*workers, false), (*workers, true)]);
        match bench.set_up(&choice, most, 1, 1) {
            Ok(contender) => {
                all_series.extend(ways.map(|(workers, fixed_rate)| {
                    ContentionSeries::new(contenders.len(), workers, fixed_rate)
                }));
                contenders.push(contender);
            }
            Err(failure) => ways.for_each(|(workers, fixed_rate)| {
                let op = if fixed_rate { FIXED_RATE } else { CLOSED_LOOP };
                bench.add_failure(&choice, op, workers, 1, &failure);
            }),
        }
    }
    let rounds = measure(bench, &mut contenders, &mut all_series);
    all_series.sort_by_key(|series| (series.contender, series.workers, series.fixed_rate));
    let mut rows: Vec<UnverifiedRow> = Vec::new();
    for series in all_series {
        if let Some(contender) = contenders.get(series.contender) {
            rows.push(series.into_row(bench, contender));
        }
    }
    verification::verify_and_keep_rows(bench, contenders, rows, 1, rounds)
}

fn measure(
    bench: &Bench,
    contenders: &mut [ReadyContender],
    all_series: &mut [ContentionSeries],
) -> usize {
    let mut random = fastrand::Rng::with_seed(bench.settings.seed);
    let sample = |series: &mut ContentionSeries, _| {
        let seed = random.u64(..);
        let contender = contenders.get_mut(series.contender);
        if let Some(contender) = contender.filter(|_| !series.totals.has_failed()) {
            bench.progress.set_message(&format!(
                "{} {} with {} workers",
                contender.choice.title(),
                series.op(),
                series.workers
            ));
            series.sample(bench, contender, seed);
        }
    };
    // The sample in which a signal comes goes on to its end.
    bench.in_rounds(all_series, out_of_time, sample, ContentionSeries::keep_round)
}

impl ContentionSeries {
    fn new(contender: usize, workers: usize, fixed_rate: bool) -> ContentionSeries {
        let (waits, taken_waits) = (Latencies::new(), Latencies::new());
        let waits = LockWaits { waits, taken_waits, cycles_of_workers: vec![0; workers] };
        ContentionSeries {
            contender,
            workers,
            fixed_rate,
            totals: SampleTotals::new(),
            whole_rounds: waits.clone(),
            waits,
        }
    }

    fn keep_round(&mut self) {
        self.totals.keep_round();
        self.whole_rounds = self.waits.clone();
    }

    fn op(&self) -> &'static str {
        if self.fixed_rate { FIXED_RATE } else { CLOSED_LOOP }
    }

    fn sample(&mut self, bench: &Bench, contender: &mut ReadyContender, seed: u64) {
        let settings = &bench.settings;
        let plans: Vec<SamplePlan> = (0..self.workers)
            .map(|worker| SamplePlan {
                sessions: 0..1,
                warm_up_ns: (settings.warm_up_seconds * 1e9) as u64,
                measure_ns: (settings.seconds * 1e9) as u64,
                seed: seed.wrapping_add(worker as u64),
                rate: if self.fixed_rate { settings.rate } else { None },
                hold_ns: if self.fixed_rate { HOLD_NS } else { 0 },
                record_leases: self.fixed_rate,
                ..SamplePlan::new(SampleAction::Cycle)
            })
            .collect();
        match contender.sample_all(&plans, out_of_time) {
            Ok((samples, server_cpu)) => {
                self.waits.add(&samples);
                self.totals.add(samples, server_cpu, contender.setup);
            }
            Err(failure) => self.totals.fail(failure),
        }
    }

    fn into_row(self, bench: &Bench, contender: &ReadyContender) -> UnverifiedRow {
        let row = bench.row(&contender.choice, self.op(), self.workers, 1);
        let mut unverified = self.totals.into_unverified_row(row, self.contender, contender);
        let LockWaits { waits, taken_waits, .. } = &self.whole_rounds;
        let figures = Waits {
            begins: waits.count(),
            taken: taken_waits.count(),
            taken_p50: taken_waits.us(0.5),
            taken_p99: taken_waits.us(0.99),
            all_p50: waits.us(0.5),
            all_p99: waits.us(0.99),
        };
        unverified.row.figures = Figures {
            fairness: if self.fixed_rate { None } else { self.whole_rounds.fairness() },
            waits: self.fixed_rate.then_some(figures),
            histogram: self.fixed_rate.then(|| Buckets::from_latencies(taken_waits)),
            ..unverified.row.figures
        };
        unverified
    }
}

impl LockWaits {
    fn add(&mut self, samples: &[SampleResult]) {
        let leases: Vec<Vec<LeaseTimes>> =
            samples.iter().map(|sample| sample.leases.clone()).collect();
        for (wait_ns, taken) in begin_waits(&leases) {
            self.waits.record(wait_ns);
            if taken {
                self.taken_waits.record(wait_ns);
            }
        }
        for (sample, cycles) in samples.iter().zip(&mut self.cycles_of_workers) {
            *cycles += sample.operations;
        }
    }

    /// The lowest count of a worker as a part of the mean.
    fn fairness(&self) -> Option<f64> {
        let least = self.cycles_of_workers.iter().min()?;
        let total: u64 = self.cycles_of_workers.iter().sum();
        (total > 0).then(|| *least as f64 * self.cycles_of_workers.len() as f64 / total as f64)
    }
}

/// The wait of each begin since it was due, and whether the session was held then: granted to
/// another worker that had not yet seen its commit return.
fn begin_waits(workers: &[Vec<LeaseTimes>]) -> Vec<(u64, bool)> {
    let mut waits = Vec::new();
    for (number, leases) in workers.iter().enumerate() {
        let others: Vec<&Vec<LeaseTimes>> = workers
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != number)
            .map(|(_, leases)| leases)
            .collect();
        for lease in leases {
            let taken = others.iter().any(|other| held_at(other, lease.asked_ns));
            waits.push((lease.granted_ns.saturating_sub(lease.due_ns), taken));
        }
    }
    waits
}

/// A worker's leases are in order and do not overlap.
fn held_at(leases: &[LeaseTimes], moment: u64) -> bool {
    let after = leases.partition_point(|lease| lease.granted_ns <= moment);
    after
        .checked_sub(1)
        .and_then(|last| leases.get(last))
        .is_some_and(|lease| moment < lease.released_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(due_ns: u64, granted_ns: u64, released_ns: u64) -> LeaseTimes {
        LeaseTimes { due_ns, asked_ns: due_ns, granted_ns, released_ns }
    }

    #[test]
    fn a_begin_found_the_session_taken_if_another_worker_held_it_then() {
        let first = vec![lease(0, 10, 100), lease(500, 510, 600)];
        let second = vec![lease(50, 110, 200), lease(205, 210, 300)];
        let found = begin_waits(&[first, second]);
        assert_eq!(found, [(10, false), (10, false), (60, true), (5, false)]);
    }

    #[test]
    fn a_worker_does_not_contend_with_itself() {
        assert_eq!(
            begin_waits(&[vec![lease(0, 1, 10), lease(5, 11, 20)]]),
            [(1, false), (6, false)]
        );
    }
}
