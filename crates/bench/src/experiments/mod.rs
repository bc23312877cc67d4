//! The experiments: one file each. To add one, write its file, give it a name in [`Experiment`] and a line
//! in [`run`].
//!
//! This file owns what they share: contenders are made real, get their crews and are filled; what goes
//! wrong with one of them becomes its rows, and the others go on.

mod contention;
mod cycle;
mod expiry;
pub(crate) mod faults;
mod gc;
pub(crate) mod lifecycle;
mod load;
mod member;
mod ops;
mod oversize;
pub(crate) mod perl;
mod phase;
pub(crate) mod rebuild;
mod scale;
pub(crate) mod setups;
mod tally;
mod throughput;
mod verification;

use std::collections::{BTreeMap, HashMap};

pub(crate) use contention::CLOSED_LOOP;

use crate::against;
use crate::all::Position;
use crate::interruption::interrupted;
use crate::options::{Experiment, Settings};
use crate::progress::Progress;
use crate::report::Row;
use crate::run::RunError;
use crate::selection::{Choice, LeftOut, Selection};
use crate::worker::Remains;
use crate::worker::process::Launch;
use crate::worker::protocol::Failure;
use member::Member;

/// A run in progress.
pub(crate) struct Bench {
    pub settings: Settings,
    launch: Launch,
    /// The program whose processes the workers of twins are; without one they are of this.
    pub other: Option<Launch>,
    choices: Vec<Choice>,
    progress: Progress,
    pub rows: Vec<Row>,
    /// So many rows were measured and verified to the end; those after them are lost if a signal comes.
    pub whole: usize,
    pub left_out: Vec<LeftOut>,
    /// How long filling took when it was last done, in nanoseconds a session, by the title of the contender.
    fill_ns: HashMap<String, f64>,
    /// Versions of programs that only this experiment uses.
    pub programs: BTreeMap<String, String>,
    /// The last field: what an error leaves is removed when the progress line is gone.
    pub remains: Remains,
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), RunError> {
    match bench.settings.experiment {
        Experiment::Ops => ops::run(bench),
        Experiment::Cycle => cycle::run(bench),
        Experiment::Contention => contention::run(bench),
        Experiment::Gc => gc::run(bench),
        Experiment::Scale => scale::run(bench),
        Experiment::Expiry => expiry::run(bench),
        Experiment::Lifecycle => lifecycle::run(bench),
        Experiment::Perl => perl::run(bench),
        Experiment::Oversize => oversize::run(bench),
        Experiment::Faults => faults::run(bench),
        Experiment::Rebuild => rebuild::run(bench),
    }?;
    bench.rows_are_whole()
}

impl Bench {
    pub(crate) fn new(settings: Settings, launch: Launch, selection: Selection, position: Option<Position>) -> Bench {
        Bench {
            settings,
            launch,
            other: None,
            choices: selection.choices,
            progress: Progress::new(position),
            rows: Vec::new(),
            whole: 0,
            left_out: selection.left_out,
            fill_ns: HashMap::new(),
            programs: BTreeMap::new(),
            remains: Remains::default(),
        }
    }

    /// Whose processes its workers are.
    fn launch_of(&self, choice: &Choice) -> &Launch {
        self.other.as_ref().filter(|_| against::is_twin(&choice.variant)).unwrap_or(&self.launch)
    }

    /// Leaves out what the experiment cannot use, with the reason.
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

    /// All rows so far were measured and verified to the end, unless a signal came, which may have spoilt the last steps.
    fn rows_are_whole(&mut self) -> Result<(), RunError> {
        go_on()?;
        self.keep_rows();
        Ok(())
    }

    /// All rows so far were verified, and are of whole rounds.
    fn keep_rows(&mut self) {
        self.whole = self.rows.len();
    }

    /// A row of this contender with everything but figures.
    fn row(&self, choice: &Choice, op: &str, workers: usize, sessions: usize) -> Row {
        Row {
            experiment: self.settings.experiment.name().to_owned(),
            store: choice.store.to_owned(),
            url: choice.shown_url.clone(),
            variant: choice.variant.clone(),
            op: op.to_owned(),
            workers,
            sessions,
            payload_bytes: self.settings.payload_bytes,
            payload_spread: self.settings.spread.name().to_owned(),
            durability: choice.durability.to_owned(),
            workload: self.settings.workload.map(|workload| workload.name().to_owned()),
            kind: if choice.over_socket { "socket" } else { "embedded" }.to_owned(),
            ..Row::default()
        }
    }

    fn failed_row(&self, choice: &Choice, op: &str, workers: usize, sessions: usize, failure: &Failure) -> Row {
        let failed = Some(failure.message.clone());
        Row { failed, ..self.row(choice, op, workers, sessions) }
    }
}

/// Where rows of a contender stand, also if it did not come up.
fn place(choices: &[Choice], row: &Row) -> Option<usize> {
    choices.iter().position(|it| (it.store, &it.variant) == (row.store.as_str(), &row.variant))
}

/// An end in order, so that everything is removed on the way out.
fn go_on() -> Result<(), RunError> {
    if interrupted() { Err(RunError::Interrupted) } else { Ok(()) }
}
