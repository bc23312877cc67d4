//! Runs the parts of a series in order and records their states.
//!
//! Invariant: the collection always says how far each part came, so the file of a killed run says
//! what is missing. Settings of parts are not decided here.

use std::time::{Duration, Instant};

use sessile_results::collection::{Collection, LeftOutExperiment, PartState, SeriesPart};
use sessile_results::{Experiment, Report};

use super::SeriesSummary;
use crate::interruption::interrupted;
use crate::options::Options;
use crate::run::{self, RunError};
use crate::worker::Launch;

#[derive(Debug)]
pub struct SeriesPlan {
    pub(super) steps: Vec<PlannedPart>,
    /// Including those that cannot be measured here.
    pub(super) parts: Vec<SeriesPart>,
    /// Redacted.
    pub(super) command: String,
    /// What has been measured before, of a series that is resumed.
    pub(super) kept: Vec<Report>,
}

#[derive(Debug)]
pub(super) struct PlannedPart {
    pub experiment: Experiment,
    pub options: Options,
    /// Index among all parts.
    pub part: usize,
}

#[derive(Clone, Debug)]
pub struct FinishedPart {
    /// Experiment and flags.
    pub title: String,
    pub number: usize,
    /// The number of parts.
    pub of: usize,
    pub rows: usize,
    /// Rows in which something went wrong.
    pub bad: usize,
    pub took: Duration,
    /// Why it has no row.
    pub reason: Option<String>,
    /// An interrupted part may lack rows.
    pub state: PartState,
}

#[derive(Clone, Debug)]
pub(crate) struct SeriesPosition {
    pub title: String,
    pub number: usize,
    pub of: usize,
}

impl SeriesPlan {
    pub fn experiments(&self) -> Vec<String> {
        self.steps.iter().map(|step| self.title(step)).collect()
    }

    fn before_the_first(&self) -> Collection {
        let (parts, runs) = (self.parts.clone(), self.kept.clone());
        let left_out = parts.iter().filter_map(|part| left_out(part, false)).collect();
        Collection { parts, runs, left_out, ..Collection::default() }
    }

    fn title(&self, step: &PlannedPart) -> String {
        self.parts.get(step.part).map(SeriesPart::title).unwrap_or_default()
    }

    /// Measures all parts. `seen` is called when a part begins (`None`) and when it has ended.
    pub fn run(
        self,
        launch: &Launch,
        mut seen: impl FnMut(Option<&FinishedPart>, &Collection),
    ) -> (Collection, SeriesSummary) {
        let of = self.steps.len();
        let mut collection = self.before_the_first();
        let mut ended = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            let (title, number) = (self.title(step), index + 1);
            state(&mut collection, step.part, PartState::Running, None);
            seen(None, &collection);
            let position = SeriesPosition { title: title.clone(), number, of };
            let start = Instant::now();
            let measured =
                run::run_in_series(step.experiment, &step.options, launch, Some(position));
            let took = start.elapsed();
            let (reached, reason) = match &measured {
                Ok((report, _)) if report.interrupted => (PartState::Interrupted, None),
                Ok(_) => (PartState::Done, None),
                Err(error) => without_report(error),
            };
            let (mut rows, mut bad) = (0, 0);
            let remains = measured.ok().map(|(report, remains)| {
                (rows, bad) = (report.results.len(), report.bad_rows().count());
                collection.runs.push(report);
                remains
            });
            collection.interrupted |= reached == PartState::Interrupted || interrupted();
            state(&mut collection, step.part, reached, reason.clone());
            let this = FinishedPart { title, number, of, rows, bad, took, reason, state: reached };
            seen(Some(&this), &collection);
            drop(remains); // it takes a while, and what was measured is written
            collection.interrupted |= interrupted(); // a signal ends that, too
            ended.push(this);
            if collection.interrupted {
                break;
            }
        }
        let summary = SeriesSummary::new(ended, &collection);
        (collection, summary)
    }
}

fn without_report(error: &RunError) -> (PartState, Option<String>) {
    match error {
        RunError::Interrupted => (
            PartState::Interrupted,
            Some("a signal came before a row of it was verified".to_owned()),
        ),
        RunError::Nothing(_) => (PartState::LeftOut, Some(error.to_string())),
        // The plan had already accepted the options.
        RunError::Usage(_) | RunError::Open(_) | RunError::Broken(_) => {
            (PartState::Failed, Some(error.to_string()))
        }
    }
}

fn state(collection: &mut Collection, place: usize, reached: PartState, reason: Option<String>) {
    if let Some(part) = collection.parts.get_mut(place) {
        (part.state, part.reason) = (reached, reason);
    }
    let interrupted = collection.interrupted;
    collection.left_out =
        collection.parts.iter().filter_map(|part| left_out(part, interrupted)).collect();
}

fn left_out(part: &SeriesPart, interrupted: bool) -> Option<LeftOutExperiment> {
    let said = || part.reason.clone();
    let reason = match part.state {
        PartState::Done => None,
        PartState::NotStarted if interrupted => Some("a signal came before it".to_owned()),
        PartState::NotStarted | PartState::Running => {
            Some("not measured yet when this was written".to_owned())
        }
        PartState::Failed => said().map(|why| format!("it failed: {why}")),
        PartState::Interrupted | PartState::LeftOut => said(),
    };
    reason.map(|reason| LeftOutExperiment { experiment: part.title(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_results::UsageError;

    fn collection() -> Collection {
        let part = |experiment: &str| SeriesPart {
            experiment: experiment.into(),
            flags: String::new(),
            state: PartState::NotStarted,
            reason: None,
        };
        Collection { parts: ["cycle", "perl", "gc"].map(part).to_vec(), ..Collection::default() }
    }

    fn reasons(collection: &Collection) -> Vec<(&str, &str)> {
        collection
            .left_out
            .iter()
            .map(|left| (left.experiment.as_str(), left.reason.as_str()))
            .collect()
    }

    /// A kill between two experiments left a file from which nobody could tell what had not been
    /// run.
    #[test]
    fn what_has_not_been_measured_is_named_at_any_time() {
        let mut collection = collection();
        state(&mut collection, 0, PartState::Running, None);
        let yet = "not measured yet when this was written";
        assert_eq!(reasons(&collection), [("cycle", yet), ("perl", yet), ("gc", yet)]);
        state(&mut collection, 0, PartState::Done, None);
        assert_eq!(reasons(&collection), [("perl", yet), ("gc", yet)]);
        collection.interrupted = true;
        state(&mut collection, 1, PartState::Interrupted, None);
        assert_eq!(
            reasons(&collection),
            [("gc", "a signal came before it")],
            "rows of perl are there"
        );
    }

    /// A series that was resumed when all was done named nothing that this machine lacks.
    #[test]
    fn what_was_left_out_is_named_also_when_nothing_is_left_to_measure() {
        let mut parts = collection().parts;
        parts.iter_mut().for_each(|part| part.state = PartState::Done);
        parts[1] = SeriesPart {
            state: PartState::LeftOut,
            reason: Some("perl is not installed".into()),
            ..parts[1].clone()
        };
        let plan =
            SeriesPlan { steps: Vec::new(), parts, command: String::new(), kept: Vec::new() };
        assert_eq!(reasons(&plan.before_the_first()), [("perl", "perl is not installed")]);
    }

    /// A store that could not be opened was left out, and the exit code was 0.
    #[test]
    fn what_breaks_has_failed_and_what_has_nothing_to_measure_is_left_out() {
        let lost = sessile_core::Error::new(sessile_core::ErrorKind::Io, "nobody listens");
        let usage = RunError::Usage(UsageError("the store has no such option".to_owned()));
        for error in [RunError::Open(lost), RunError::Broken("php-fpm is gone".to_owned()), usage] {
            let (reached, reason) = without_report(&error);
            assert_eq!(reached, PartState::Failed, "{error}");
            let mut collection = collection();
            state(&mut collection, 1, reached, reason);
            let why = format!("it failed: {error}");
            assert!(reasons(&collection).contains(&("perl", &why)), "{:?}", collection.left_out);
        }
        let error = RunError::Nothing("memory: it dies".to_owned());
        assert_eq!(without_report(&error), (PartState::LeftOut, Some(error.to_string())));
    }
}
