//! The experiments, one file each. A new one needs a name in [`Experiment`] and a line in [`run`].
//!
//! Invariant: a failure of one contender becomes its rows, or leaves it out where its store is not
//! at fault, while the others go on.

mod ab;
mod contention;
mod cycle;
pub(crate) mod faults;
mod gc;
pub(crate) mod languages;
pub(crate) mod lifecycle;
mod ops;
mod oversize;
mod phase;
mod ready_contender;
pub(crate) mod rebuild;
mod redis_info;
mod sample_totals;
mod scale;
pub(crate) mod setups;
mod throughput;
mod verification;
pub(crate) mod web;

use std::collections::BTreeMap;

use crate::all::SeriesPosition;
use crate::baseline;
use crate::interruption::{GiveUpCheck, interrupted};
use crate::options::{Experiment, Settings};
use crate::progress::Progress;
use crate::run::RunError;
use crate::selection::{Choice, Selection};
use crate::worker::PendingCleanup;
use crate::worker::process::Launch;
use crate::worker::protocol::ContenderFailure;
use ready_contender::ReadyContender;
use sessile_results::{LatencyUs, LeftOut, Question, Row, Subject};

pub(crate) struct Bench {
    pub settings: Settings,
    launch: Launch,
    /// The program that runs the workers of counterparts; without one they run this program.
    pub other_launch: Option<Launch>,
    pub choices: Vec<Choice>,
    progress: Progress,
    pub rows: Vec<Row>,
    /// Rows that are measured and verified; later rows are lost after a signal.
    pub verified_rows: usize,
    pub left_out: Vec<LeftOut>,
    /// Nanoseconds a session that the contender which was filled last took.
    fill_ns: f64,
    pub programs: BTreeMap<String, String>,
    /// Last field: dropped after the progress line is gone.
    pub cleanup: PendingCleanup,
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), RunError> {
    match bench.settings.experiment {
        Experiment::Ops => ops::run(bench),
        Experiment::Cycle => cycle::run(bench),
        Experiment::Contention => contention::run(bench),
        Experiment::Gc => gc::run(bench),
        Experiment::Scale => scale::run(bench),
        Experiment::Lifecycle => lifecycle::run(bench),
        Experiment::Languages => languages::run(bench),
        Experiment::Oversize => oversize::run(bench),
        Experiment::Faults => faults::run(bench),
        Experiment::Rebuild => rebuild::run(bench),
    }?;
    bench.finish_rows()
}

impl Bench {
    pub(crate) fn new(
        settings: Settings,
        launch: Launch,
        selection: Selection,
        position: Option<SeriesPosition>,
    ) -> Bench {
        Bench {
            settings,
            launch,
            other_launch: None,
            choices: selection.choices,
            progress: Progress::new(position),
            rows: Vec::new(),
            verified_rows: 0,
            left_out: selection.left_out,
            fill_ns: 0.0,
            programs: BTreeMap::new(),
            cleanup: PendingCleanup::default(),
        }
    }

    fn launch_of(&self, choice: &Choice) -> &Launch {
        self.other_launch
            .as_ref()
            .filter(|_| baseline::is_counterpart(&choice.variant))
            .unwrap_or(&self.launch)
    }

    /// Takes samples in rounds, each in a new order drawn from the seed, and calls `end_round` for
    /// each series. Returns the number of whole rounds: a signal may spoil the one that it meets.
    fn in_rounds<S>(
        &self,
        all_series: &mut [S],
        cuts_off: GiveUpCheck,
        mut sample: impl FnMut(&mut S, usize),
        mut end_round: impl FnMut(&mut S),
    ) -> usize {
        let mut random = fastrand::Rng::with_seed(self.settings.seed);
        let rounds = self.settings.rounds;
        self.progress.expect_more(rounds * all_series.len());
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..all_series.len()).collect();
            random.shuffle(&mut order);
            for number in order {
                if interrupted() {
                    return round;
                }
                if let Some(series) = all_series.get_mut(number) {
                    sample(series, round);
                }
                self.progress.advance();
            }
            if cuts_off() {
                return round;
            }
            all_series.iter_mut().for_each(&mut end_round);
        }
        rounds
    }

    fn keep_choices(&mut self, reason: impl Fn(&Choice) -> Option<String>) {
        let left_out = &mut self.left_out;
        self.choices.retain(|choice| match reason(choice) {
            None => true,
            Some(reason) => {
                left_out.push(choice.left_out(reason));
                false
            }
        });
    }

    /// Marks all rows so far as measured and verified, unless a signal may have spoilt the last
    /// steps.
    fn finish_rows(&mut self) -> Result<(), RunError> {
        check_interrupted()?;
        self.mark_rows_verified();
        Ok(())
    }

    /// Marks all rows so far as verified and made of whole rounds.
    fn mark_rows_verified(&mut self) {
        self.verified_rows = self.rows.len();
    }

    fn row(&self, choice: &Choice, op: &str, workers: usize, sessions: usize) -> Row {
        Row {
            question: Question {
                experiment: self.settings.experiment.name().to_owned(),
                op: op.to_owned(),
                workers,
                sessions,
                payload_bytes: self.settings.payload_bytes,
                payload_spread: self.settings.spread.name().to_owned(),
                durability: choice.durability.to_owned(),
                workload: self.settings.workload.map(|workload| workload.name().to_owned()),
            },
            subject: Subject {
                store: choice.store.to_owned(),
                url: choice.shown_url.clone(),
                variant: choice.variant.clone(),
                kind: if choice.over_socket { "socket" } else { "embedded" }.to_owned(),
            },
            ..Row::default()
        }
    }

    /// Adds a failed row, or leaves the contender out if its store is not at fault.
    fn add_failure(
        &mut self,
        choice: &Choice,
        op: &str,
        workers: usize,
        sessions: usize,
        failure: &ContenderFailure,
    ) {
        let why = failure.message.clone();
        if failure.is_of_store() {
            let row = self.row(choice, op, workers, sessions);
            self.rows.push(row.into_failed(why));
        } else {
            self.left_out.push(choice.left_out(why));
        }
    }
}

/// The minimum, median and maximum of a few times in nanoseconds; no other percentile.
fn latency_of_few(mut times_ns: Vec<u64>) -> LatencyUs {
    times_ns.sort_unstable();
    let us = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e3);
    LatencyUs {
        min: us(times_ns.first()),
        p50: us(times_ns.get(times_ns.len() / 2)),
        max: us(times_ns.last()),
        ..LatencyUs::default()
    }
}

/// Position of a row's contender among the choices, also if the contender failed to start.
fn choice_position(choices: &[Choice], row: &Row) -> Option<usize> {
    choices.iter().position(|it| {
        (it.store, &it.variant) == (row.subject.store.as_str(), &row.subject.variant)
    })
}

/// Fails after a signal, so that everything is removed on the way out.
fn check_interrupted() -> Result<(), RunError> {
    if interrupted() { Err(RunError::Interrupted) } else { Ok(()) }
}
