//! `contention`: the parallel requests of one page, all on one session.
//!
//! Two samples a round: `closed-loop` (each worker begins again as soon as it has committed) shows throughput
//! and fairness; `fixed-rate` (each worker arrives 50 times a second and works 0.2 ms under the lock) shows how
//! long a begin waits that found the session taken. Stores do not report that, so it is decided here, from
//! the times of all leases, by the same rule for every contender.

use crate::experiments::{Bench, Member, go_on};
use crate::histogram::Latencies;
use crate::report::{Buckets, CpuUs, LatencyUs, RoundSample, Row, Waits};
use crate::run::RunError;
use crate::selection::Choice;
use crate::worker::protocol::{Action, Failure, LeaseTimes, Plan, Sampled};

/// Work under the lock at the fixed rate: 0.2 ms, a small page.
const HOLD_NS: u64 = 200_000;
pub(crate) const CLOSED_LOOP: &str = "closed-loop";
const FIXED_RATE: &str = "fixed-rate";

/// A contender at one number of workers, in one of the two ways.
struct Cell {
    member: usize,
    workers: usize,
    fixed_rate: bool,
    samples: Vec<RoundSample>,
    latencies: Latencies,
    waits: Latencies,
    taken_waits: Latencies,
    cycles_of_workers: Vec<u64>,
    totals: Sampled,
    server_cpu_us: f64,
    failed: Option<Failure>,
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
    bench.progress.expect_more(bench.settings.rounds * cells.len());
    let mut random = fastrand::Rng::with_seed(bench.settings.seed);
    for _ in 0..bench.settings.rounds {
        random.shuffle(&mut cells);
        for cell in &mut cells {
            go_on()?;
            let seed = random.u64(..);
            if let Some(member) = members.get_mut(cell.member) {
                bench.progress.say(&format!("{} {} with {} workers", member.choice.title(), cell.op(), cell.workers));
                cell.sample(bench, member, seed);
            }
            bench.progress.step();
        }
    }
    finish(bench, members, cells);
    Ok(())
}

fn finish(bench: &mut Bench, mut members: Vec<Member>, mut cells: Vec<Cell>) {
    cells.sort_by_key(|cell| (cell.member, cell.workers, cell.fixed_rate));
    let mut rows = Vec::new();
    for cell in cells {
        if let Some(member) = members.get(cell.member) {
            rows.push((cell.member, cell.into_row(bench, member)));
        }
    }
    for (number, member) in members.iter_mut().enumerate() {
        let verified = member.verify(1);
        if let Some((_, row)) = rows.iter_mut().rfind(|(of, _)| *of == number) {
            match verified {
                Ok(verified) => verified.put_on(row),
                Err(failure) => row.failed = row.failed.take().or(Some(failure.message)),
            }
        }
        member.clean_up(1);
    }
    bench.rows.extend(rows.into_iter().map(|(_, row)| row));
}

impl Cell {
    fn new(member: usize, workers: usize, fixed_rate: bool) -> Cell {
        Cell {
            member,
            workers,
            fixed_rate,
            samples: Vec::new(),
            latencies: Latencies::new(),
            waits: Latencies::new(),
            taken_waits: Latencies::new(),
            cycles_of_workers: vec![0; workers],
            totals: Sampled::default(),
            server_cpu_us: 0.0,
            failed: None,
        }
    }

    fn op(&self) -> &'static str {
        if self.fixed_rate { FIXED_RATE } else { CLOSED_LOOP }
    }

    fn sample(&mut self, bench: &Bench, member: &mut Member, seed: u64) {
        if self.failed.is_some() {
            return;
        }
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
        match member.crew.sample(&plans, || stage.server_cpu()) {
            Ok((samples, before, after)) => {
                self.server_cpu_us += after.saturating_sub(before).as_secs_f64() * 1e6;
                member.commits += samples.iter().map(|sample| sample.commits).sum::<u64>();
                self.add(samples);
            }
            Err(failure) => self.failed = Some(failure),
        }
    }

    fn add(&mut self, samples: Vec<Sampled>) {
        let elapsed_ns = samples.iter().map(|sample| sample.elapsed_ns).max().unwrap_or(0);
        let operations: u64 = samples.iter().map(|sample| sample.operations).sum();
        let mut latencies = Latencies::new();
        let leases: Vec<Vec<LeaseTimes>> = samples.iter().map(|sample| sample.leases.clone()).collect();
        for (wait_ns, taken) in waits(&leases) {
            self.waits.record(wait_ns);
            if taken {
                self.taken_waits.record(wait_ns);
            }
        }
        for (sample, cycles) in samples.into_iter().zip(&mut self.cycles_of_workers) {
            *cycles += sample.operations;
            self.totals.operations += sample.operations;
            self.totals.errors += sample.errors;
            self.totals.misses += sample.misses;
            self.totals.cpu_us += sample.cpu_us;
            self.totals.first_error = self.totals.first_error.take().or(sample.first_error);
            if let Some(of_worker) = Latencies::from_text(&sample.latency) {
                latencies.add(&of_worker);
            }
        }
        self.samples.push(RoundSample::of(operations, elapsed_ns, &latencies));
        self.latencies.add(&latencies);
    }

    /// The lowest count of a worker as a part of the mean.
    fn fairness(&self) -> Option<f64> {
        let least = self.cycles_of_workers.iter().min()?;
        let total: u64 = self.cycles_of_workers.iter().sum();
        (total > 0).then(|| *least as f64 * self.workers as f64 / total as f64)
    }

    fn into_row(self, bench: &Bench, member: &Member) -> Row {
        let row = bench.row(&member.choice, self.op(), self.workers, 1);
        let operations = self.totals.operations.max(1) as f64;
        let waits = Waits {
            begins: self.waits.count(),
            taken: self.taken_waits.count(),
            taken_p50: self.taken_waits.us(0.5),
            taken_p99: self.taken_waits.us(0.99),
            all_p50: self.waits.us(0.5),
            all_p99: self.waits.us(0.99),
        };
        let nothing = (self.totals.operations == 0).then(|| "no operation succeeded".to_owned());
        let fairness = self.fairness();
        let failed = self.failed.map(|failure| failure.message).or(nothing);
        Row {
            rounds: self.samples.len(),
            ops_per_second: RoundSample::spread(&self.samples),
            samples: self.samples,
            latency_us: LatencyUs::of(&self.latencies),
            operations: self.totals.operations,
            errors: self.totals.errors,
            misses: self.totals.misses,
            first_error: self.totals.first_error.map(|message| member.stage.redact(&message)),
            failed: failed.map(|message| member.stage.redact(&message)),
            cpu_us_per_op: CpuUs {
                client: self.totals.cpu_us as f64 / operations,
                server: self.server_cpu_us / operations,
            },
            fairness: if self.fixed_rate { None } else { fairness },
            waits: self.fixed_rate.then_some(waits),
            histogram: self.fixed_rate.then(|| Buckets::of(&self.taken_waits)),
            ..row
        }
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
