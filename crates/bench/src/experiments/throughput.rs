//! One operation, again and again: the shared part of `cycle`, `ops` and `scale`.
//!
//! Each round takes one sample of every combination of contender, operation and workers, in an
//! order drawn from the seed, so that a slow minute of the machine hits all of them. Counterparts
//! are set up anew between rounds (`setups`).

use sessile_results::{LeftOut, WorkerMemory};

use crate::baseline;
use crate::experiments::sample_totals::SampleTotals;
use crate::experiments::verification::UnverifiedRow;
use crate::experiments::{Bench, ReadyContender, check_interrupted, setups, verification};
use crate::interruption::{interrupted, out_of_time};
use crate::options::{Experiment, Settings};
use crate::room;
use crate::run::RunError;
use crate::selection::Choice;
use crate::worker::protocol::{ContenderFailure, NO_ROOM, SampleAction, SamplePlan};

#[derive(Clone, Copy)]
pub(super) struct MeasuredOp {
    pub name: &'static str,
    pub action: SampleAction,
}

struct SampleSeries {
    contender: usize,
    op: MeasuredOp,
    workers: usize,
    totals: SampleTotals,
    memory: Option<WorkerMemory>,
}

struct ScheduledSample {
    series: usize,
    /// Seed of its choices.
    seed: u64,
    /// A sample of the counterpart with the same seed follows or precedes.
    has_counterpart: bool,
}

pub(super) const CREATE: &str = "create";
/// A faster store ends its sample early.
const FRESH_PER_SECOND: f64 = 60_000.0;

pub(super) fn run(
    bench: &mut Bench,
    choices: &[Choice],
    ops: &[MeasuredOp],
) -> Result<(), RunError> {
    let creates = ops.iter().any(|op| op.action.creates());
    let fresh = if creates { fresh_ids(bench) } else { 0 };
    // `scale` has checked the room by what a session took before.
    let asks = bench.settings.experiment != Experiment::Scale;
    let (mut contenders, mut all_series) = (Vec::new(), Vec::new());
    bench.progress.expect_more(choices.len());
    for choice in choices {
        check_interrupted()?;
        let workers = usable_workers(bench, choice);
        let Some(most) = workers.iter().copied().max() else { continue };
        let ops = ops.iter().filter(|op| choice.creates || !op.action.creates());
        let combinations: Vec<(MeasuredOp, usize)> =
            ops.flat_map(|op| workers.iter().map(move |workers| (*op, *workers))).collect();
        let ids = bench.settings.sessions + if choice.creates { fresh } else { 0 };
        if asks && !bench.has_room(choice, bench.settings.sessions, ids * most, None) {
            bench.progress.advance();
            continue;
        }
        match bench.set_up(choice, most, bench.settings.sessions, ids) {
            Ok(contender) => {
                bench.fill_ns = contender.fill_ns as f64 / bench.settings.sessions.max(1) as f64;
                let number = contenders.len();
                all_series.extend(
                    combinations
                        .into_iter()
                        .map(|(op, workers)| SampleSeries::new(number, op, workers)),
                );
                contenders.push(contender);
            }
            Err(failure) => {
                let sessions = bench.settings.sessions;
                for (op, workers) in combinations {
                    bench.add_failure(choice, op.name, workers, sessions, &failure);
                }
            }
        }
        bench.progress.advance();
    }
    bench.clean_up_stores(); // of a contender that failed to start
    let rounds = measure(bench, &mut contenders, &mut all_series, bench.settings.sessions + fresh);
    let sessions = bench.settings.sessions;
    contenders.iter_mut().for_each(|contender| contender.measure_space(sessions));
    let mut rows: Vec<UnverifiedRow> = Vec::new();
    for series in all_series {
        let Some(contender) = contenders.get(series.contender) else { continue };
        rows.push(series.into_row(bench, contender));
    }
    verification::verify_and_keep_rows(bench, contenders, rows, sessions, rounds)
}

fn usable_workers(bench: &mut Bench, choice: &Choice) -> Vec<usize> {
    let (usable, not): (Vec<usize>, Vec<usize>) = bench
        .settings
        .workers
        .iter()
        .partition(|workers| choice.shared_by_processes || **workers == 1);
    let why = choice.left_out("it lives in one process and cannot be shared by several");
    bench
        .left_out
        .extend(not.into_iter().map(|workers| LeftOut { workers: Some(workers), ..why.clone() }));
    usable
}

fn fresh_ids(bench: &Bench) -> usize {
    let settings = &bench.settings;
    let samples = settings.rounds * settings.workers.len();
    fresh_ids_of_sample(bench) * samples
}

fn fresh_ids_of_sample(bench: &Bench) -> usize {
    let part = bench
        .settings
        .workload
        .map_or(1.0, |workload| f64::from(workload.mix().new_session) / 100.0);
    (bench.settings.seconds * FRESH_PER_SECOND * part) as usize + 1_000
}

/// `ids` is for new setups.
fn measure(
    bench: &Bench,
    contenders: &mut [ReadyContender],
    all_series: &mut [SampleSeries],
    ids: usize,
) -> usize {
    let settings = &bench.settings;
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut next_ids = vec![settings.sessions; contenders.len()];
    let pairs = setups::paired_contenders(contenders);
    bench.progress.expect_more(settings.rounds * all_series.len());
    for round in 0..settings.rounds {
        if interrupted() {
            return round;
        }
        if setups::ends_before(round, settings.rounds) {
            let goes_on = |number: &usize| {
                all_series
                    .iter()
                    .any(|series| series.contender == *number && !series.totals.has_failed())
            };
            let mut numbers: Vec<usize> = pairs.iter().copied().filter(goes_on).collect();
            random.shuffle(&mut numbers);
            for (number, went_well) in setups::set_up_anew(bench, contenders, &numbers, ids) {
                match (went_well, next_ids.get_mut(number)) {
                    (Err(failure), _) => {
                        let goes_on = |series: &&mut SampleSeries| {
                            series.contender == number && !series.totals.has_failed()
                        };
                        let of_it = all_series.iter_mut().filter(goes_on);
                        of_it.for_each(|series| series.totals.fail(failure.clone()));
                    }
                    (Ok(()), Some(next_id)) => *next_id = settings.sessions,
                    _ => {}
                }
            }
        }
        for scheduled in round_order(contenders, all_series, &mut random) {
            if interrupted() {
                return round;
            }
            let Some(series) =
                all_series.get_mut(scheduled.series).filter(|series| !series.totals.has_failed())
            else {
                continue;
            };
            let (Some(contender), Some(next_id)) =
                (contenders.get_mut(series.contender), next_ids.get_mut(series.contender))
            else {
                continue;
            };
            bench.progress.set_message(&format!(
                "{} {} with {} workers",
                contender.choice.title(),
                series.op.name,
                series.workers
            ));
            series.sample(bench, contender, next_id, &scheduled);
            bench.progress.advance();
        }
        if out_of_time() {
            return round; // the last sample was cut off
        }
        all_series.iter_mut().for_each(|series| series.totals.keep_round());
    }
    settings.rounds
}

/// Counterparts follow each other in random order, with the same choices on the same processors.
fn round_order(
    contenders: &[ReadyContender],
    all_series: &[SampleSeries],
    random: &mut fastrand::Rng,
) -> Vec<ScheduledSample> {
    let mut groups: Vec<(_, Vec<usize>)> = Vec::new();
    for (number, series) in all_series.iter().enumerate() {
        let of = contenders
            .get(series.contender)
            .map(|it| (it.choice.store, baseline::without_mark(&it.choice.variant)));
        let question = (of, series.op.name, series.workers);
        match groups.iter_mut().find(|(it, _)| *it == question) {
            Some((_, numbers)) => numbers.push(number),
            None => groups.push((question, vec![number])),
        }
    }
    random.shuffle(&mut groups);
    let mut order = Vec::with_capacity(all_series.len());
    for (_, mut numbers) in groups {
        let seed = random.u64(..);
        random.shuffle(&mut numbers);
        let has_counterpart = numbers.len() > 1;
        order.extend(numbers.into_iter().map(|series| ScheduledSample {
            series,
            seed,
            has_counterpart,
        }));
    }
    order
}

impl SampleSeries {
    fn new(contender: usize, op: MeasuredOp, workers: usize) -> SampleSeries {
        SampleSeries { contender, op, workers, totals: SampleTotals::new(), memory: None }
    }

    fn sample(
        &mut self,
        bench: &Bench,
        contender: &mut ReadyContender,
        next_id: &mut usize,
        scheduled: &ScheduledSample,
    ) {
        let settings = &bench.settings;
        if scheduled.has_counterpart
            && let Err(failure) = contender.group.pin(self.workers, scheduled.seed)
        {
            return self.totals.fail(failure);
        }
        let wanted =
            if self.op.action.creates() { fresh_ids_of_sample(bench) / self.workers } else { 0 };
        let room = |contender: &ReadyContender| {
            room::further_sessions(&contender.choice, settings, contender.bytes_per_session)
        };
        let fresh = if wanted > 0 { wanted.min(room(contender) / self.workers) } else { 0 };
        if fresh == 0 && wanted > 0 {
            return self.totals.fail(self.no_room_failure(settings, fresh));
        }
        let plans: Vec<SamplePlan> = (0..self.workers)
            .map(|worker| SamplePlan {
                sessions: 0..settings.sessions,
                fresh: *next_id + worker * fresh..*next_id + (worker + 1) * fresh,
                // Filling has warmed up create; a warm-up would use up the ids.
                warm_up_ns: if self.op.action == SampleAction::Create {
                    0
                } else {
                    (settings.warm_up_seconds * 1e9) as u64
                },
                measure_ns: (settings.seconds * 1e9) as u64,
                seed: scheduled.seed.wrapping_add(worker as u64),
                rate: settings.rate,
                as_published: settings.as_published,
                ..SamplePlan::new(self.op.action)
            })
            .collect();
        let fresh_of: Vec<std::ops::Range<usize>> =
            plans.iter().map(|plan| plan.fresh.clone()).collect();
        *next_id += fresh * self.workers;
        match contender.sample_all(&plans, out_of_time) {
            Ok((samples, server_cpu)) => {
                let created = fresh_of
                    .iter()
                    .zip(&samples)
                    .map(|(ids, sample)| ids.start..ids.start + sample.created);
                contender.created.extend(created.filter(|ids| !ids.is_empty()));
                // The sample ended early: its length differs, and the next has even less room. A
                // failing store uses up its ids too, and its errors say why.
                let fails = samples.iter().any(|sample| sample.errors + sample.misses > 0);
                if fresh < wanted && !fails && samples.iter().any(|sample| sample.created == fresh)
                {
                    self.totals.fail(self.no_room_failure(settings, fresh));
                }
                self.totals.add(samples, server_cpu, contender.setup);
                // As published, they expire before the last round.
                if settings.as_published
                    && let Err(failure) = contender.verify_short_lived()
                {
                    self.totals.fail(failure);
                }
            }
            Err(failure) => self.totals.fail(failure),
        }
        if settings.experiment == Experiment::Scale {
            self.memory = Some(contender.memory(self.workers));
        }
    }

    fn no_room_failure(&self, settings: &Settings, fresh: usize) -> ContenderFailure {
        let (sessions, bytes) = (fresh * self.workers, settings.payload_bytes);
        let message = format!(
            "a sample of {} s makes more than the {sessions} sessions of {bytes} bytes for which \
             there is room beside what is there; \
             a shorter --duration and fewer --rounds or --stores at once need less",
            settings.seconds
        );
        ContenderFailure { code: NO_ROOM.to_owned(), message }
    }

    fn into_row(self, bench: &Bench, contender: &ReadyContender) -> UnverifiedRow {
        let row = bench.row(&contender.choice, self.op.name, self.workers, bench.settings.sessions);
        let mut row = self.totals.into_unverified_row(row, self.contender, contender);
        row.row.figures.memory = self.memory;
        row
    }
}
