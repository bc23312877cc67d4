//! One operation, again and again: what `cycle`, `ops` and `scale` share.
//!
//! In each round every combination of contender, operation and number of workers gets one sample, in an order
//! that is drawn anew from the seed, so that a slow minute of the machine hits all of them. What is held against each other is set up
//! anew between some of them (`setups`). After a signal the rounds that
//! were whole by then are verified and kept.

use crate::against;
use crate::capacity::Filling;
use crate::experiments::member::TOO_SLOW;
use crate::experiments::tally::Tally;
use crate::experiments::{Bench, Member, go_on, setups, verification};
use crate::growth::Growth;
use crate::interruption::{interrupted, out_of_time};
use crate::options::{Experiment, Settings};
use crate::report::Row;
use crate::run::RunError;
use crate::selection::{Choice, LeftOut};
use crate::worker::WorkerMemory;
use crate::worker::protocol::{Action, Failure, Plan};

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
    tally: Tally,
    memory: Option<WorkerMemory>,
}

/// Whose sample is next.
struct Turn {
    cell: usize,
    /// What its choices are drawn from.
    seed: u64,
    /// Another turn of the same seed, of the other program, is compared with this one.
    is_held_against: bool,
}

/// What samples make of a member.
struct Making {
    /// The first id that no sample had.
    next: usize,
    growth: Growth,
}

/// The name of the operation whose sessions are looked for at the end.
pub(super) const CREATE: &str = "create";
/// Ids that are prepared for a second of creating. A faster store ends its sample early.
const FRESH_PER_SECOND: f64 = 60_000.0;

/// Measures these contenders beside each other, with as many sessions as the settings say.
pub(super) fn run(bench: &mut Bench, choices: &[Choice], ops: &[Op]) -> Result<(), RunError> {
    let creates = ops.iter().any(|op| op.action.creates());
    let fresh = if creates { fresh_ids(bench) } else { 0 };
    // `scale` has asked for all of them together, and knows what their sessions took before.
    let asks = bench.settings.experiment != Experiment::Scale;
    let (mut members, mut cells) = (Vec::new(), Vec::new());
    bench.progress.expect_more(choices.len());
    for choice in choices {
        go_on()?;
        let workers = usable_workers(bench, choice);
        let Some(most) = workers.iter().copied().max() else { continue };
        let ops = ops.iter().filter(|op| choice.creates || !op.action.creates());
        let combinations: Vec<(Op, usize)> =
            ops.flat_map(|op| workers.iter().map(move |workers| (*op, *workers))).collect();
        let ids = bench.settings.sessions + if choice.creates { fresh } else { 0 };
        let filling = Filling { sessions: bench.settings.sessions, ids, workers: most };
        if asks && !bench.has_room(choice, filling) {
            bench.progress.step();
            continue;
        }
        match bench.enlist(choice, most, bench.settings.sessions, ids) {
            Ok(member) => {
                bench.fill_ns.insert(choice.title(), member.fill_ns as f64 / bench.settings.sessions.max(1) as f64);
                let member_number = members.len();
                cells.extend(combinations.into_iter().map(|(op, workers)| Cell::new(member_number, op, workers)));
                members.push(member);
            }
            // It could be filled, and there was no time for that: nothing went wrong.
            Err(failure) if failure.code == TOO_SLOW => bench.left_out.push(choice.left_out(failure.message)),
            Err(failure) => {
                for (op, workers) in combinations {
                    let row = bench.failed_row(choice, op.name, workers, bench.settings.sessions, &failure);
                    bench.rows.push(row);
                }
            }
        }
        bench.progress.step();
    }
    bench.remove_remains(); // of a contender that did not come up
    let rounds = measure(bench, &mut members, &mut cells, bench.settings.sessions + fresh);
    let sessions = bench.settings.sessions;
    members.iter_mut().for_each(|member| member.weigh(sessions));
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for cell in cells {
        let Some(member) = members.get(cell.member) else { continue };
        rows.push((cell.member, cell.into_row(bench, member)));
    }
    verification::finish(bench, members, rows, sessions, rounds)
}

/// The numbers of workers that a contender can be used by; the others are left out with the reason.
fn usable_workers(bench: &mut Bench, choice: &Choice) -> Vec<usize> {
    let (usable, not): (Vec<usize>, Vec<usize>) =
        bench.settings.workers.iter().partition(|workers| choice.shared_by_processes || **workers == 1);
    let why = choice.left_out("it lives in one process and cannot be shared by several");
    bench.left_out.extend(not.into_iter().map(|workers| LeftOut { workers: Some(workers), ..why.clone() }));
    usable
}

fn fresh_ids(bench: &Bench) -> usize {
    let settings = &bench.settings;
    let samples = settings.rounds * settings.workers.len();
    fresh_ids_of_sample(bench) * samples
}

fn fresh_ids_of_sample(bench: &Bench) -> usize {
    let part = bench.settings.workload.map_or(1.0, |workload| f64::from(workload.mix().first) / 100.0);
    (bench.settings.seconds * FRESH_PER_SECOND * part) as usize + 1_000
}

/// Takes the samples, and says how many rounds are whole. `ids` is for what is set up anew.
fn measure(bench: &Bench, members: &mut [Member], cells: &mut [Cell], ids: usize) -> usize {
    let settings = &bench.settings;
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut makings: Vec<Making> = members.iter().map(|member| Making::of(member, settings)).collect();
    let pairs = setups::pairs(members);
    bench.progress.expect_more(settings.rounds * cells.len());
    for round in 0..settings.rounds {
        if interrupted() {
            return round;
        }
        if setups::ends_before(round, settings.rounds) {
            let goes_on = |number: &usize| cells.iter().any(|cell| cell.member == *number && !cell.tally.has_failed());
            let mut numbers: Vec<usize> = pairs.iter().copied().filter(goes_on).collect();
            random.shuffle(&mut numbers);
            for (number, went_well) in setups::set_up_anew(bench, members, &numbers, ids) {
                match (went_well, members.get(number), makings.get_mut(number)) {
                    (Err(failure), _, _) => {
                        let goes_on = |cell: &&mut Cell| cell.member == number && !cell.tally.has_failed();
                        let of_it = cells.iter_mut().filter(goes_on);
                        of_it.for_each(|cell| cell.tally.fail(failure.clone()));
                    }
                    (Ok(()), Some(member), Some(making)) => *making = Making::of(member, settings),
                    _ => {}
                }
            }
        }
        for turn in turns(members, cells, &mut random) {
            if interrupted() {
                return round;
            }
            let Some(cell) = cells.get_mut(turn.cell).filter(|cell| !cell.tally.has_failed()) else { continue };
            let (Some(member), Some(making)) = (members.get_mut(cell.member), makings.get_mut(cell.member)) else {
                continue;
            };
            bench.progress.say(&format!("{} {} with {} workers", member.choice.title(), cell.op.name, cell.workers));
            cell.sample(bench, member, making, &turn);
            bench.progress.step();
        }
        if out_of_time() {
            return round; // its last sample did not come to its end
        }
        cells.iter_mut().for_each(|cell| cell.tally.keep_round());
    }
    settings.rounds
}

/// The order of a round, drawn anew. What is held against each other comes next to each other, in either order, and makes the
/// same choices on the same processors.
fn turns(members: &[Member], cells: &[Cell], random: &mut fastrand::Rng) -> Vec<Turn> {
    let mut together: Vec<(_, Vec<usize>)> = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let of = members.get(cell.member).map(|it| (it.choice.store, against::common(&it.choice.variant)));
        let question = (of, cell.op.name, cell.workers);
        match together.iter_mut().find(|(it, _)| *it == question) {
            Some((_, numbers)) => numbers.push(number),
            None => together.push((question, vec![number])),
        }
    }
    random.shuffle(&mut together);
    let mut turns = Vec::with_capacity(cells.len());
    for (_, mut numbers) in together {
        let seed = random.u64(..);
        random.shuffle(&mut numbers);
        let is_held_against = numbers.len() > 1;
        turns.extend(numbers.into_iter().map(|cell| Turn { cell, seed, is_held_against }));
    }
    turns
}

impl Making {
    fn of(member: &Member, settings: &Settings) -> Making {
        let seen = Some(member.bytes_per_session).filter(|bytes| *bytes > 0);
        Making { next: settings.sessions, growth: Growth::from_now(&member.choice, settings, seen) }
    }
}

impl Cell {
    fn new(member: usize, op: Op, workers: usize) -> Cell {
        Cell { member, op, workers, tally: Tally::new(), memory: None }
    }

    fn sample(&mut self, bench: &Bench, member: &mut Member, making: &mut Making, turn: &Turn) {
        let settings = &bench.settings;
        if turn.is_held_against
            && let Err(failure) = member.crew.place(self.workers, turn.seed)
        {
            return self.tally.fail(failure);
        }
        let wanted = if self.op.action.creates() { fresh_ids_of_sample(bench) / self.workers } else { 0 };
        let fresh = if wanted > 0 { wanted.min(making.growth.sessions() / self.workers) } else { 0 };
        if fresh == 0 && wanted > 0 {
            return self.tally.fail(self.no_room(settings, fresh));
        }
        let plans: Vec<Plan> = (0..self.workers)
            .map(|worker| Plan {
                sessions: 0..settings.sessions,
                fresh: making.next + worker * fresh..making.next + (worker + 1) * fresh,
                // Creating is warm from the filling; a warm-up would use up the ids.
                warm_up_ns: if self.op.action == Action::Create { 0 } else { (settings.warm_up_seconds * 1e9) as u64 },
                measure_ns: (settings.seconds * 1e9) as u64,
                seed: turn.seed.wrapping_add(worker as u64),
                rate: settings.rate,
                as_published: settings.as_published,
                ..Plan::of(self.op.action)
            })
            .collect();
        let fresh_of: Vec<std::ops::Range<usize>> = plans.iter().map(|plan| plan.fresh.clone()).collect();
        making.next += fresh * self.workers;
        let stage = &member.stage;
        match member.crew.sample(&plans, out_of_time, || stage.server_cpu()) {
            Ok((samples, before, after)) => {
                member.commits += samples.iter().map(|sample| sample.commits).sum::<u64>();
                let created = fresh_of.iter().zip(&samples).map(|(ids, sample)| ids.start..ids.start + sample.created);
                member.created.extend(created.filter(|ids| !ids.is_empty()));
                // What it measured until then was another length of a sample, and the next one has less room yet. Who only
                // fails uses up its ids, too, and its errors say why.
                let fails = samples.iter().any(|sample| sample.errors + sample.misses > 0);
                if fresh < wanted && !fails && samples.iter().any(|sample| sample.created == fresh) {
                    self.tally.fail(self.no_room(settings, fresh));
                }
                self.tally.add(samples, after.saturating_sub(before), member.setup);
                // As published they are gone before the last round.
                if settings.as_published
                    && let Err(failure) = member.verify_short_lived()
                {
                    self.tally.fail(failure);
                }
            }
            Err(failure) => self.tally.fail(failure),
        }
        if settings.experiment == Experiment::Scale {
            self.memory = Some(member.memory(self.workers));
        }
    }

    fn no_room(&self, settings: &Settings, fresh: usize) -> Failure {
        let (sessions, bytes) = (fresh * self.workers, settings.payload_bytes);
        let message = format!(
            "a sample of {} s makes more than the {sessions} sessions of {bytes} bytes for which there is room beside what is there; \
             fewer --seconds, --rounds or --stores at once need less",
            settings.seconds
        );
        Failure { code: "no-room".to_owned(), message }
    }

    fn into_row(self, bench: &Bench, member: &Member) -> Row {
        let row = bench.row(&member.choice, self.op.name, self.workers, bench.settings.sessions);
        Row { memory: self.memory, ..self.tally.into_row(row, member) }
    }
}
