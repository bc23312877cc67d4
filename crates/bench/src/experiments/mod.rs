//! The experiments: one file each. To add one, write its file, give it a name in [`Experiment`] and a line
//! in [`run`].
//!
//! This file owns what they share: contenders are made real, get their crews and are filled; what goes
//! wrong with one of them becomes its rows, and the others go on.

mod contention;
mod cycle;
mod gc;
mod ops;
mod progress;
mod throughput;

use crate::options::{Experiment, Settings};
use crate::redact;
use crate::report::Row;
use crate::run::{RunError, interrupted};
use crate::selection::{Choice, LeftOut, Selection};
use crate::setup::Stage;
use crate::worker::crew::{Crew, Launch};
use crate::worker::protocol::{Failure, Opening, Range, Request};
use progress::Progress;

/// A run in progress.
pub(crate) struct Bench {
    pub settings: Settings,
    launch: Launch,
    choices: Vec<Choice>,
    progress: Progress,
    pub rows: Vec<Row>,
    pub left_out: Vec<LeftOut>,
}

/// A contender that is ready to be measured. The crew goes before the stage.
struct Member {
    choice: Choice,
    crew: Crew,
    stage: Stage,
    workers: usize,
    bytes_per_session: u64,
    /// How long filling took.
    fill_ns: u64,
    /// Commits that the store has acknowledged so far.
    commits: u64,
    /// Sessions that samples have created, beside those that were filled in.
    created: Vec<std::ops::Range<usize>>,
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), RunError> {
    match bench.settings.experiment {
        Experiment::Ops => ops::run(bench),
        Experiment::Cycle => cycle::run(bench),
        Experiment::Contention => contention::run(bench),
        Experiment::Gc => gc::run(bench),
    }
}

impl Bench {
    pub(crate) fn new(settings: Settings, launch: Launch, selection: Selection) -> Bench {
        Bench {
            settings,
            launch,
            choices: selection.choices,
            progress: Progress::new(),
            rows: Vec::new(),
            left_out: selection.left_out,
        }
    }

    /// Leaves out what the experiment cannot use, with the reason.
    fn keep_choices(&mut self, reason: impl Fn(&Choice) -> Option<String>) {
        let left_out = &mut self.left_out;
        self.choices.retain(|choice| match reason(choice) {
            None => true,
            Some(reason) => {
                let (store, variant) = (choice.store.to_owned(), choice.variant.clone());
                left_out.push(LeftOut { store, variant, workers: None, reason });
                false
            }
        });
    }

    /// Makes a contender real, starts its workers and fills it; `ids` is for sessions to come.
    fn enlist(&self, choice: &Choice, workers: usize, sessions: usize, ids: usize) -> Result<Member, Failure> {
        let settings = &self.settings;
        let title = choice.title();
        self.progress.say(&format!("{title}: start"));
        // There is no stage yet that knows what must be hidden, and a server's log is full of places.
        let failed = |message: String| Failure { code: "start".to_owned(), message: redact::paths(&message) };
        let stage = Stage::set(choice, settings.durability).map_err(failed)?;
        let hide = |failure: Failure| Failure { message: stage.redact(&failure.message), ..failure };
        let opening = Opening {
            what: stage.what.clone(),
            worker: 0,
            seed: stage.seed(settings.seed),
            ids,
            payload_bytes: settings.payload_bytes,
        };
        let mut crew = Crew::start(&self.launch, &opening, workers).map_err(hide)?;
        let empty = stage.bytes().or_else(|| crew.resident_bytes());
        self.progress.say(&format!("{title}: fill in {sessions} sessions"));
        let all = Range { from: 0, to: sessions, step: 1, expire_at_ns: None };
        let filled = crew.share(workers, all, Request::Fill).map_err(hide)?;
        if let Some(message) = filled.first_error {
            let message =
                stage.redact(&format!("{} of {sessions} sessions cannot be created: {message}", filled.errors));
            return Err(Failure { code: "fill".to_owned(), message });
        }
        let full = stage.bytes().or_else(|| crew.resident_bytes());
        let grown = full.unwrap_or(0).saturating_sub(empty.unwrap_or(0));
        let bytes_per_session = grown / sessions.max(1) as u64;
        let fill_ns = filled.elapsed_ns;
        let (choice, created) = (choice.clone(), Vec::new());
        Ok(Member { choice, crew, stage, workers, bytes_per_session, fill_ns, commits: 0, created })
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
            durability: choice.durability.to_owned(),
            kind: if choice.over_socket { "socket" } else { "embedded" }.to_owned(),
            ..Row::default()
        }
    }

    fn failed_row(&self, choice: &Choice, op: &str, workers: usize, sessions: usize, failure: &Failure) -> Row {
        let failed = Some(failure.message.clone());
        Row { failed, ..self.row(choice, op, workers, sessions) }
    }
}

impl Member {
    /// Acknowledged commits that are not in the store, and sessions that are no longer what they must be.
    fn verify(&mut self, sessions: usize) -> Result<Verified, Failure> {
        let all = Range { from: 0, to: sessions, step: 1, expire_at_ns: None };
        let done = self.crew.share(self.workers, all, Request::Verify)?;
        Ok(Verified {
            lost: self.commits.saturating_sub(done.counters),
            misses: done.misses,
            errors: done.errors,
            first_error: done.first_error.map(|message| self.stage.redact(&message)),
        })
    }

    /// Looks for the sessions that samples have created. `lost` and the counters are about changes, not these.
    fn verify_created(&mut self) -> Result<Verified, Failure> {
        let mut total = Verified::default();
        for created in self.created.clone() {
            let range = Range { from: created.start, to: created.end, step: 1, expire_at_ns: None };
            let done = self.crew.share(self.workers, range, Request::Verify)?;
            total.misses += done.misses;
            total.errors += done.errors;
            total.first_error = total.first_error.or(done.first_error.map(|message| self.stage.redact(&message)));
        }
        Ok(total)
    }

    /// Removes what was created in a store that is not ours; private ones go as a whole.
    fn clean_up(&mut self, sessions: usize) {
        if !self.stage.is_foreign() {
            return;
        }
        for range in std::iter::once(0..sessions).chain(self.created.clone()) {
            let range = Range { from: range.start, to: range.end, step: 1, expire_at_ns: None };
            let remain = match self.crew.share(self.workers, range, Request::Destroy) {
                Ok(done) => done.first_error,
                Err(failure) => Some(failure.message),
            };
            if let Some(why) = remain {
                let why = self.stage.redact(&why);
                log::warn!("{}: sessions of the benchmark remain: {why}", self.choice.title());
            }
        }
    }
}

/// What the final look at all sessions found.
#[derive(Default)]
struct Verified {
    lost: u64,
    misses: u64,
    errors: u64,
    first_error: Option<String>,
}

impl Verified {
    fn put_on(self, row: &mut Row) {
        row.lost += self.lost;
        row.misses += self.misses;
        row.errors += self.errors;
        row.first_error = row.first_error.take().or(self.first_error);
    }
}

/// An end in order, so that everything is removed on the way out.
fn go_on() -> Result<(), RunError> {
    if interrupted() { Err(RunError::Interrupted) } else { Ok(()) }
}
