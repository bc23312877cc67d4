//! One operation, again and again: what `cycle`, `ops` and `scale` share.
//!
//! In each round every combination of contender, operation and number of workers gets one sample, in an order
//! that is drawn anew from the seed, so that a slow minute of the machine hits all of them.

use crate::experiments::{Bench, Member, go_on};
use crate::histogram::Latencies;
use crate::options::Experiment;
use crate::report::{CpuUs, LatencyUs, RoundSample, Row};
use crate::run::RunError;
use crate::selection::{Choice, LeftOut};
use crate::worker::WorkerMemory;
use crate::worker::protocol::{Action, Failure, Plan, Sampled};

/// One operation that is measured.
#[derive(Clone, Copy)]
pub(super) struct Op {
    pub name: &'static str,
    pub action: Action,
}

/// One combination, and what its samples gave.
struct Cell {
    member: usize,
    op: Op,
    workers: usize,
    samples: Vec<RoundSample>,
    latencies: Latencies,
    totals: Sampled,
    server_cpu_us: f64,
    memory: Option<WorkerMemory>,
    failed: Option<Failure>,
}

/// The name of the operation whose sessions are looked for at the end.
pub(super) const CREATE: &str = "create";
/// Ids that are prepared for a second of creating. A faster store ends its sample early.
const FRESH_PER_SECOND: f64 = 60_000.0;

/// Measures these contenders beside each other, with as many sessions as the settings say.
pub(super) fn run(bench: &mut Bench, choices: &[Choice], ops: &[Op]) -> Result<(), RunError> {
    let creates = ops.iter().any(|op| op.action == Action::Create);
    let fresh = if creates { fresh_ids(bench) } else { 0 };
    let (mut members, mut cells) = (Vec::new(), Vec::new());
    bench.progress.expect_more(choices.len());
    for choice in choices {
        go_on()?;
        let workers = usable_workers(bench, choice);
        let Some(most) = workers.iter().copied().max() else { continue };
        let ops = ops.iter().filter(|op| choice.creates || op.action != Action::Create);
        let combinations: Vec<(Op, usize)> =
            ops.flat_map(|op| workers.iter().map(move |workers| (*op, *workers))).collect();
        let ids = bench.settings.sessions + if choice.creates { fresh } else { 0 };
        match bench.enlist(choice, most, bench.settings.sessions, ids) {
            Ok(member) => {
                let member_number = members.len();
                cells.extend(combinations.into_iter().map(|(op, workers)| Cell::new(member_number, op, workers)));
                members.push(member);
            }
            Err(failure) => {
                for (op, workers) in combinations {
                    let row = bench.failed_row(choice, op.name, workers, bench.settings.sessions, &failure);
                    bench.rows.push(row);
                }
            }
        }
        bench.progress.step();
    }
    measure(bench, &mut members, &mut cells)?;
    finish(bench, members, cells)
}

/// The numbers of workers that a contender can be used by; the others are left out with the reason.
fn usable_workers(bench: &mut Bench, choice: &Choice) -> Vec<usize> {
    let (usable, not): (Vec<usize>, Vec<usize>) =
        bench.settings.workers.iter().partition(|workers| choice.shared_by_processes || **workers == 1);
    bench.left_out.extend(not.into_iter().map(|workers| LeftOut {
        store: choice.store.to_owned(),
        variant: choice.variant.clone(),
        workers: Some(workers),
        reason: "it lives in one process and cannot be shared by several".to_owned(),
    }));
    usable
}

fn fresh_ids(bench: &Bench) -> usize {
    let settings = &bench.settings;
    let samples = settings.rounds * settings.workers.len();
    fresh_ids_of_sample(bench) * samples
}

fn fresh_ids_of_sample(bench: &Bench) -> usize {
    (bench.settings.seconds * FRESH_PER_SECOND) as usize + 1_000
}

fn measure(bench: &Bench, members: &mut [Member], cells: &mut [Cell]) -> Result<(), RunError> {
    let settings = &bench.settings;
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut used_ids: Vec<usize> = vec![settings.sessions; members.len()];
    bench.progress.expect_more(settings.rounds * cells.len());
    for _ in 0..settings.rounds {
        let mut order: Vec<usize> = (0..cells.len()).collect();
        random.shuffle(&mut order);
        for number in order {
            go_on()?;
            let seed = random.u64(..);
            let Some(cell) = cells.get_mut(number).filter(|cell| cell.failed.is_none()) else { continue };
            let (Some(member), Some(used)) = (members.get_mut(cell.member), used_ids.get_mut(cell.member)) else {
                continue;
            };
            bench.progress.say(&format!("{} {} with {} workers", member.choice.title(), cell.op.name, cell.workers));
            cell.sample(bench, member, used, seed);
            bench.progress.step();
        }
    }
    Ok(())
}

/// Sums up the counters of each contender, and turns the cells into rows.
fn finish(bench: &mut Bench, mut members: Vec<Member>, cells: Vec<Cell>) -> Result<(), RunError> {
    for member in &mut members {
        member.weigh(bench.settings.sessions);
    }
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for cell in cells {
        if let Some(member) = members.get(cell.member) {
            let member_number = cell.member;
            rows.push((member_number, cell.into_row(bench, member)));
        }
    }
    for (number, member) in members.iter_mut().enumerate() {
        go_on()?;
        bench.progress.say(&format!("{}: verify", member.choice.title()));
        let verified = member.verify(bench.settings.sessions);
        // Races show at the highest number of workers; of those rows the last one is the one that changes.
        let own = rows.iter_mut().filter(|(of, _)| *of == number).map(|(_, row)| row);
        let Some(row) = own.max_by_key(|row| row.workers) else { continue };
        match verified {
            Ok(verified) => verified.put_on(row),
            Err(failure) => row.failed = row.failed.take().or(Some(failure.message)),
        }
        let created = member.verify_created();
        let own = rows.iter_mut().filter(|(of, row)| *of == number && row.op == CREATE).map(|(_, row)| row);
        if let Some(row) = own.max_by_key(|row| row.workers) {
            match created {
                Ok(verified) => verified.put_on(row),
                Err(failure) => row.failed = row.failed.take().or(Some(failure.message)),
            }
        }
        member.clean_up(bench.settings.sessions);
    }
    bench.rows.extend(rows.into_iter().map(|(_, row)| row));
    Ok(())
}

impl Cell {
    fn new(member: usize, op: Op, workers: usize) -> Cell {
        Cell {
            member,
            op,
            workers,
            samples: Vec::new(),
            latencies: Latencies::new(),
            totals: Sampled::default(),
            server_cpu_us: 0.0,
            memory: None,
            failed: None,
        }
    }

    fn sample(&mut self, bench: &Bench, member: &mut Member, used_ids: &mut usize, seed: u64) {
        let settings = &bench.settings;
        let fresh = if self.op.action == Action::Create { fresh_ids_of_sample(bench) / self.workers } else { 0 };
        let plans: Vec<Plan> = (0..self.workers)
            .map(|worker| Plan {
                sessions: 0..settings.sessions,
                fresh: *used_ids + worker * fresh..*used_ids + (worker + 1) * fresh,
                // Creating is warm from the filling; a warm-up would use up the ids.
                warm_up_ns: if fresh > 0 { 0 } else { (settings.warm_up_seconds * 1e9) as u64 },
                measure_ns: (settings.seconds * 1e9) as u64,
                seed: seed.wrapping_add(worker as u64),
                rate: settings.rate,
                ..Plan::of(self.op.action)
            })
            .collect();
        let fresh_of: Vec<std::ops::Range<usize>> = plans.iter().map(|plan| plan.fresh.clone()).collect();
        *used_ids += fresh * self.workers;
        let stage = &member.stage;
        match member.crew.sample(&plans, || stage.server_cpu()) {
            Ok((samples, before, after)) => {
                self.server_cpu_us += after.saturating_sub(before).as_secs_f64() * 1e6;
                member.commits += samples.iter().map(|sample| sample.commits).sum::<u64>();
                let created = fresh_of.iter().zip(&samples).map(|(ids, sample)| ids.start..ids.start + sample.created);
                member.created.extend(created.filter(|ids| !ids.is_empty()));
                self.add(samples);
            }
            Err(failure) => self.failed = Some(failure),
        }
        if settings.experiment == Experiment::Scale {
            self.memory = Some(member.memory(self.workers));
        }
    }

    fn add(&mut self, samples: Vec<Sampled>) {
        let elapsed_ns = samples.iter().map(|sample| sample.elapsed_ns).max().unwrap_or(0);
        let operations: u64 = samples.iter().map(|sample| sample.operations).sum();
        let mut latencies = Latencies::new();
        for sample in samples {
            self.totals.operations += sample.operations;
            self.totals.errors += sample.errors;
            self.totals.misses += sample.misses;
            self.totals.cpu_us += sample.cpu_us;
            if self.totals.first_error.is_none() {
                self.totals.first_error = sample.first_error;
            }
            match Latencies::from_text(&sample.latency) {
                Some(of_worker) => latencies.add(&of_worker),
                None => self.totals.errors += 1,
            }
        }
        self.samples.push(RoundSample::of(operations, elapsed_ns, &latencies));
        self.latencies.add(&latencies);
    }

    fn into_row(self, bench: &Bench, member: &Member) -> Row {
        let row = bench.row(&member.choice, self.op.name, self.workers, bench.settings.sessions);
        let operations = self.totals.operations.max(1) as f64;
        let failed = self.failed.map(|failure| failure.message);
        let nothing = (self.totals.operations == 0).then(|| "no operation succeeded".to_owned());
        Row {
            rounds: self.samples.len(),
            ops_per_second: RoundSample::spread(&self.samples),
            samples: self.samples,
            latency_us: LatencyUs::of(&self.latencies),
            operations: self.totals.operations,
            errors: self.totals.errors,
            misses: self.totals.misses,
            first_error: self.totals.first_error.map(|message| member.stage.redact(&message)),
            failed: failed.or(nothing).map(|message| member.stage.redact(&message)),
            cpu_us_per_op: CpuUs {
                client: self.totals.cpu_us as f64 / operations,
                server: self.server_cpu_us / operations,
            },
            bytes_per_session: member.bytes_per_session,
            memory: self.memory,
            ..row
        }
    }
}
