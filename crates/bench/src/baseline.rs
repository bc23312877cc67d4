//! Measures two builds of the program in the same rounds.
//!
//! Between two separate results the machine often drifts by more than the 10 % that a user looks
//! for. So each contender gets a counterpart, whose workers are processes of the other program.
//! Both take turns with the same choices, one directly after the other, and become two results with
//! paired rounds.
//!
//! Invariant: no result contains the counterpart's mark.

use std::io;
use std::process::Command;
use std::time::Duration;

use sessile_results::{Environment, LeftOut, Report, Row, UsageError};

use crate::interruption::listen;
use crate::options::{Experiment, Options};
use crate::program_output::output_within;
use crate::reference;
use crate::run::RunError;
use crate::selection::{Choice, ContenderSource, Selection};
use crate::worker::process::Launch;

/// Ends the variant of a counterpart. A user's variant contains no space.
const COUNTERPART_MARK: &str = " of the other program";
/// Default rounds, and seconds of a sample. Disturbances average out over many short samples.
pub const ROUNDS_AND_SECONDS: (usize, f64) = (200, 0.1);
/// Fewer, because `ops` keeps created sessions to the end.
const ROUNDS_AND_SECONDS_OF_OPS: (usize, f64) = (60, 0.05);
/// Default. Each setup fills, verifies and removes them.
const SESSIONS: usize = 10_000;

/// Asking all servers for versions takes a second, several on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) fn is_counterpart(variant: &str) -> bool {
    variant.ends_with(COUNTERPART_MARK)
}

pub(crate) fn without_mark(variant: &str) -> &str {
    variant.strip_suffix(COUNTERPART_MARK).unwrap_or(variant)
}

impl Choice {
    #[doc(hidden)]
    #[must_use]
    pub fn into_counterpart(self) -> Choice {
        Choice { variant: format!("{}{COUNTERPART_MARK}", self.variant), ..self }
    }
}

pub(crate) fn with_defaults(options: &Options, experiment: Experiment) -> Options {
    let (rounds, seconds) =
        if experiment == Experiment::Ops { ROUNDS_AND_SECONDS_OF_OPS } else { ROUNDS_AND_SECONDS };
    let sessions = (!options.quick).then(|| vec![SESSIONS]);
    Options {
        rounds: options.rounds.or(Some(rounds)),
        seconds: options.seconds.or(Some(seconds)),
        sessions: options.sessions.clone().or(sessions),
        ..options.clone()
    }
}

/// Each program makes its stores anew.
pub(crate) fn check_stores(selection: &Selection) -> Result<(), UsageError> {
    let mut choices = selection.choices.iter();
    match choices.find(|choice| matches!(choice.target, ContenderSource::Url(..))) {
        None => Ok(()),
        Some(choice) => {
            let title = choice.title();
            Err(UsageError(format!(
                "--baseline measures private stores, which each program makes anew; leave {title} \
                 out"
            )))
        }
    }
}

/// Reference rows have no counterpart and stand in both results.
pub(crate) fn with_counterparts(selection: Selection) -> Selection {
    let with_twin = |choice: Choice| {
        let twin = (!matches!(choice.target, ContenderSource::Reference(_)))
            .then(|| choice.clone().into_counterpart());
        [Some(choice), twin].into_iter().flatten()
    };
    Selection { choices: selection.choices.into_iter().flat_map(with_twin).collect(), ..selection }
}

const NO_ANSWER: &str = "it does not answer `bench environment` as sessile does; give the program \
                         of another build";

/// Also checks that the other program is ours and built the same way.
pub(crate) fn environment_of(other: &Launch) -> Result<Environment, RunError> {
    let shown = other.program.display();
    let refused = |why: String| RunError::Usage(UsageError(format!("--baseline {shown}: {why}")));
    let mut question = Command::new(&other.program);
    listen(Duration::ZERO); // a terminal's signals do not reach the other program
    let said = output_within(question.args(["bench", "environment"]), ANSWER_TIMEOUT);
    let said = said.map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => RunError::Interrupted,
        io::ErrorKind::TimedOut => refused(format!(
            "it has not answered `bench environment` within {} s; give the program of another \
             build of sessile",
            ANSWER_TIMEOUT.as_secs()
        )),
        io::ErrorKind::FileTooLarge => refused(NO_ANSWER.to_owned()),
        _ => refused(format!("it cannot be started: {error}")),
    })?;
    let environment: Environment =
        serde_json::from_slice(&said.stdout).map_err(|_| refused(NO_ANSWER.to_owned()))?;
    let (build, this) = (environment.build.as_str(), crate::environment::build_of_this_program());
    if build != this {
        return Err(refused(format!(
            "it is a {build} build and this is a {this} build, which is a difference in itself"
        )));
    }
    Ok(environment)
}

/// Stores that were left out before counterparts were added are left out of both programs.
pub(crate) fn split_report(
    both: Report,
    environment: Environment,
    left_out_of_both: &[LeftOut],
) -> (Report, Report) {
    let mut new = both;
    new.settings.baseline = Some(format!("{:016x}", fastrand::u64(..)));
    let mut old = Report { environment, ..new.clone() };
    new.results.retain(|row| !is_counterpart(&row.subject.variant));
    new.left_out.retain(|left| !is_counterpart(&left.variant));
    // A store whose counterpart failed has nothing to be compared with.
    let is_reference = |store: &str| reference::by_name(store).is_some();
    let of_both: Vec<Row> =
        new.results.iter().filter(|row| row.subject.is_reference()).cloned().collect();
    old.results.retain(|row| is_counterpart(&row.subject.variant));
    old.results.extend(of_both);
    old.left_out.retain(|left| {
        is_counterpart(&left.variant)
            || is_reference(&left.store)
            || left_out_of_both.contains(left)
    });
    old.results
        .iter_mut()
        .for_each(|row| row.subject.variant = without_mark(&row.subject.variant).to_owned());
    old.left_out.iter_mut().for_each(|left| left.variant = without_mark(&left.variant).to_owned());
    for report in [&mut old, &mut new] {
        report.warnings = sessile_results::warnings::warnings_for(report);
    }
    (old, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessile_results::Subject;

    fn left_out(store: &str, variant: &str, reason: &str) -> LeftOut {
        LeftOut {
            store: store.into(),
            variant: variant.into(),
            workers: None,
            reason: reason.into(),
        }
    }

    /// Another variant of the store that had a row hid an entry of both, and what neither program
    /// had room for was there twice.
    #[test]
    fn each_result_lists_what_was_left_out_of_it_once() {
        let twin = |variant: &str| format!("{variant}{COUNTERPART_MARK}");
        let of_both =
            [left_out("redis", "tcp", "no server"), left_out("mysql", "default", "no server")];
        let of_one = [
            left_out("sqlite", "disk", "no room"),
            left_out("sqlite", &twin("disk"), "no room"),
            left_out("files", &twin("default"), "too slow"),
            left_out("memory", "default", "too slow"),
            left_out("null", "default", "one process"),
        ];
        let row = |store: &str, variant: &str| Row {
            subject: Subject { store: store.into(), variant: variant.into(), ..Subject::default() },
            ..Row::default()
        };
        let rows = [("redis", "default"), ("files", "default"), ("sqlite", "default")];
        let both = Report {
            results: rows
                .iter()
                .flat_map(|(store, it)| [row(store, it), row(store, &twin(it))])
                .collect(),
            left_out: of_both.iter().chain(&of_one).cloned().collect(),
            ..Report::default()
        };
        let (old, new) = split_report(both, Environment::default(), &of_both);
        let titles =
            |report: &Report| report.left_out.iter().map(LeftOut::title).collect::<Vec<String>>();
        assert_eq!(titles(&new), ["redis#tcp", "mysql", "sqlite#disk", "memory", "null"]);
        assert_eq!(titles(&old), ["redis#tcp", "mysql", "sqlite#disk", "files", "null"]);
    }
}
