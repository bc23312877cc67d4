//! `contention`: the parallel requests of one page, all on one session.
//!
//! Two samples a round: `closed-loop` (each worker begins again as soon as it has committed) shows throughput
//! and fairness; `fixed-rate` (each worker arrives 50 times a second and works 0.2 ms under the lock) shows how
//! long a begin waits that found the session taken. Stores do not report that, so it is decided here, from
//! the times of all leases, by the same rule for every contender.

use crate::experiments::tally::Tally;
use crate::experiments::{Bench, Member, go_on, verification};
use crate::histogram::Latencies;
use crate::interruption::{interrupted, out_of_time};
use crate::report::{Buckets, Row, Waits};
use crate::run::RunError;
use crate::selection::Choice;
use crate::worker::protocol::{Action, LeaseTimes, Plan, Sampled};

/// Work under the lock at the fixed rate: 0.2 ms, a small page.
const HOLD_NS: u64 = 200_000;
pub(crate) const CLOSED_LOOP: &str = "closed-loop";
const FIXED_RATE: &str = "fixed-rate";

/// A contender at one number of workers, in one of the two ways.
struct Cell {
    member: usize,
    workers: usize,
    fixed_rate: bool,
    tally: Tally,
    waiting: Waiting,
    /// As it was after the last whole round.
    kept: Waiting,
}

/// Who got the lock how often, and how long begins waited.
#[derive(Clone)]
struct Waiting {
    waits: Latencies,
    taken_waits: Latencies,
    cycles_of_workers: Vec<u64>,
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    bench.keep_choices(|choice: &Choice| {
        (!choice.shared_by_processes).then(|| "it lives in one process, so nobody contends".to_owned())
    });
    let workers = bench.settings.workers.clone();
    let most = workers.iter().copied().max().unwrap_or(1);
    let (mut members, mut cells) = (Vec::new(), Vec::new());
    for choice in bench.choices.clone() {
        go_on()?;
        let ways = workers.iter().flat_map(|workers| [(*workers, false), (*workers, true)]);
        match bench.enlist(&choice, most, 1, 1) {
            Ok(member) => {
                cells.extend(ways.map(|(workers, fixed_rate)| Cell::new(members.len(), workers, fixed_rate)));
                members.push(member);
            }
            Err(failure) => ways.for_each(|(workers, fixed_rate)| {
                let op = if fixed_rate { FIXED_RATE } else { CLOSED_LOOP };
                let row = bench.failed_row(&choice, op, workers, 1, &failure);
                bench.rows.push(row);
            }),
        }
    }
    let rounds = measure(bench, &mut members, &mut cells);
    cells.sort_by_key(|cell| (cell.member, cell.workers, cell.fixed_rate));
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for cell in cells {
        if let Some(member) = members.get(cell.member) {
            rows.push((cell.member, cell.into_row(bench, member)));
        }
    }
    verification::finish(bench, members, rows, 1, rounds)
}

/// Takes the samples, and says how many rounds are whole.
fn measure(bench: &Bench, members: &mut [Member], cells: &mut [Cell]) -> usize {
    bench.progress.expect_more(bench.settings.rounds * cells.len());
    let mut random = fastrand::Rng::with_seed(bench.settings.seed);
    for round in 0..bench.settings.rounds {
        if interrupted() {
            return round;
        }
        random.shuffle(cells);
        for cell in cells.iter_mut() {
            if interrupted() {
                return round;
            }
            let seed = random.u64(..);
            if let Some(member) = members.get_mut(cell.member).filter(|_| !cell.tally.has_failed()) {
                bench.progress.say(&format!("{} {} with {} workers", member.choice.title(), cell.op(), cell.workers));
                cell.sample(bench, member, seed);
            }
            bench.progress.step();
        }
        if out_of_time() {
            return round; // its last sample did not come to its end
        }
        cells.iter_mut().for_each(Cell::keep_round);
    }
    bench.settings.rounds
}

impl Cell {
    fn new(member: usize, workers: usize, fixed_rate: bool) -> Cell {
        let (waits, taken_waits) = (Latencies::new(), Latencies::new());
        let waiting = Waiting { waits, taken_waits, cycles_of_workers: vec![0; workers] };
        Cell { member, workers, fixed_rate, tally: Tally::new(), kept: waiting.clone(), waiting }
    }

    fn keep_round(&mut self) {
        self.tally.keep_round();
        self.kept = self.waiting.clone();
    }

    fn op(&self) -> &'static str {
        if self.fixed_rate { FIXED_RATE } else { CLOSED_LOOP }
    }

    fn sample(&mut self, bench: &Bench, member: &mut Member, seed: u64) {
        let settings = &bench.settings;
        let plans: Vec<Plan> = (0..self.workers)
            .map(|worker| Plan {
                sessions: 0..1,
                warm_up_ns: (settings.warm_up_seconds * 1e9) as u64,
                measure_ns: (settings.seconds * 1e9) as u64,
                seed: seed.wrapping_add(worker as u64),
                rate: if self.fixed_rate { settings.rate } else { None },
                hold_ns: if self.fixed_rate { HOLD_NS } else { 0 },
                record_leases: self.fixed_rate,
                ..Plan::of(Action::Cycle)
            })
            .collect();
        let stage = &member.stage;
        match member.crew.sample(&plans, out_of_time, || stage.server_cpu()) {
            Ok((samples, before, after)) => {
                member.commits += samples.iter().map(|sample| sample.commits).sum::<u64>();
                self.waiting.add(&samples);
                self.tally.add(samples, after.saturating_sub(before), member.setup);
            }
            Err(failure) => self.tally.fail(failure),
        }
    }

    fn into_row(self, bench: &Bench, member: &Member) -> Row {
        let row = bench.row(&member.choice, self.op(), self.workers, 1);
        let row = self.tally.into_row(row, member);
        let Waiting { waits, taken_waits, .. } = &self.kept;
        let figures = Waits {
            begins: waits.count(),
            taken: taken_waits.count(),
            taken_p50: taken_waits.us(0.5),
            taken_p99: taken_waits.us(0.99),
            all_p50: waits.us(0.5),
            all_p99: waits.us(0.99),
        };
        Row {
            fairness: if self.fixed_rate { None } else { self.kept.fairness() },
            waits: self.fixed_rate.then_some(figures),
            histogram: self.fixed_rate.then(|| Buckets::of(taken_waits)),
            ..row
        }
    }
}

impl Waiting {
    fn add(&mut self, samples: &[Sampled]) {
        let leases: Vec<Vec<LeaseTimes>> = samples.iter().map(|sample| sample.leases.clone()).collect();
        for (wait_ns, taken) in waits(&leases) {
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

/// The wait of each begin, from the moment when it was due, and whether it found the session taken: whether
/// at the moment of the call another worker had been granted the lock and had not yet heard that its commit
/// was done.
fn waits(workers: &[Vec<LeaseTimes>]) -> Vec<(u64, bool)> {
    let mut waits = Vec::new();
    for (number, leases) in workers.iter().enumerate() {
        let others: Vec<&Vec<LeaseTimes>> =
            workers.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, leases)| leases).collect();
        for lease in leases {
            let taken = others.iter().any(|other| held_at(other, lease.asked_ns));
            waits.push((lease.granted_ns.saturating_sub(lease.due_ns), taken));
        }
    }
    waits
}

/// Whether a worker held its lease at a moment; its leases are in order and do not overlap.
fn held_at(leases: &[LeaseTimes], moment: u64) -> bool {
    let after = leases.partition_point(|lease| lease.granted_ns <= moment);
    after.checked_sub(1).and_then(|last| leases.get(last)).is_some_and(|lease| moment < lease.released_ns)
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
        let found = waits(&[first, second]);
        assert_eq!(found, [(10, false), (10, false), (60, true), (5, false)]);
    }

    #[test]
    fn a_worker_does_not_contend_with_itself() {
        assert_eq!(waits(&[vec![lease(0, 1, 10), lease(5, 11, 20)]]), [(1, false), (6, false)]);
    }
}
