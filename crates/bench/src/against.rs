//! One program against another: both are measured in the same rounds, turn by turn.
//!
//! Two results lie minutes apart, and what a machine does to a row in minutes is often more than the tenth that somebody looks
//! for. Here each contender has a twin whose workers are processes of the other program. The two take their turns one right
//! after the other with the same choices, and become two results whose rounds belong together.
//!
//! It owns the mark of a twin, which no result shows.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::options::{Experiment, Options, UsageError};
use crate::reference;
use crate::report::{self, Environment, Report, Row};
use crate::run::RunError;
use crate::selection::{Choice, LeftOut, Selection, Target};
use crate::worker::process::Launch;

/// Behind the variant of a twin while it is measured; no variant that a user gives has a space.
const MARK: &str = " of the other program";
/// Rounds, and the length of a sample in seconds, unless told otherwise: what a machine does from one second to the next is in
/// many short samples alike, and not in a few long ones.
pub const TURNS: (usize, f64) = (200, 0.1);
/// The same of `ops`, which creates sessions in each sample and keeps them to the end.
const TURNS_OF_OPS: (usize, f64) = (60, 0.05);

/// Asking all servers of a machine for their versions takes about a second; a machine that builds programs meanwhile takes several.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// What a program says of its machine is some kilobytes; one that never stops talking is none of ours.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// What tells whether the contender is measured with the other program.
pub(crate) fn is_twin(variant: &str) -> bool {
    variant.ends_with(MARK)
}

/// The variant that a contender and its twin have in common.
pub(crate) fn common(variant: &str) -> &str {
    variant.strip_suffix(MARK).unwrap_or(variant)
}

impl Choice {
    /// It as the twin that is measured with the other program.
    #[doc(hidden)]
    #[must_use]
    pub fn into_twin(self) -> Choice {
        Choice { variant: format!("{}{MARK}", self.variant), ..self }
    }
}

/// Experiments in which contenders take turns, operation by operation.
pub(crate) fn check(experiment: Experiment) -> Result<(), UsageError> {
    if matches!(experiment, Experiment::Cycle | Experiment::Ops) {
        return Ok(());
    }
    let name = experiment.name();
    Err(UsageError(format!("--against is for cycle and ops; {name} has no turns of which two belong together")))
}

/// What the user leaves open.
pub(crate) fn complete(options: &Options, experiment: Experiment) -> Options {
    let (rounds, seconds) = if experiment == Experiment::Ops { TURNS_OF_OPS } else { TURNS };
    Options { rounds: options.rounds.or(Some(rounds)), seconds: options.seconds.or(Some(seconds)), ..options.clone() }
}

/// Each program makes its stores anew.
pub(crate) fn check_stores(selection: &Selection) -> Result<(), UsageError> {
    let mut choices = selection.choices.iter();
    match choices.find(|choice| matches!(choice.target, Target::Url(..))) {
        None => Ok(()),
        Some(choice) => {
            let title = choice.title();
            Err(UsageError(format!(
                "--against measures private stores, which each program makes anew; leave {title} out"
            )))
        }
    }
}

/// Each contender with its twin. Reference rows have none: they stand beside both.
pub(crate) fn with_twins(selection: Selection) -> Selection {
    let with_twin = |choice: Choice| {
        let twin = (!matches!(choice.target, Target::Reference(_))).then(|| choice.clone().into_twin());
        [Some(choice), twin].into_iter().flatten()
    };
    Selection { choices: selection.choices.into_iter().flat_map(with_twin).collect(), ..selection }
}

/// What the other program says of itself: that it is one of ours, and how it was built.
pub(crate) fn environment_of(other: &Launch) -> Result<Environment, RunError> {
    let shown = other.program.display();
    let refused = |why: String| RunError::Usage(UsageError(format!("--against {shown}: {why}")));
    let mut question = Command::new(&other.program);
    question.args(["bench", "environment"]);
    let said = said_by(question, ANSWER_WITHIN).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => refused(format!(
            "it has not answered `bench environment` within {} s; give the program of another build of sessile",
            ANSWER_WITHIN.as_secs()
        )),
        _ => refused(format!("it cannot be started: {error}")),
    })?;
    let environment: Environment = serde_json::from_slice(&said).map_err(|_| {
        refused("it does not answer `bench environment` as sessile does; give the program of another build".to_owned())
    })?;
    let (build, this) = (environment.build.as_str(), Environment::build_of_this_program());
    if build != this {
        return Err(refused(format!(
            "it is a {build} build and this is a {this} build, which is a difference in itself"
        )));
    }
    Ok(environment)
}

/// What a program that is told nothing says, up to a limit; it is gone then. One that has not ended what it says within a time
/// is killed, and that is an error of kind `TimedOut`.
fn said_by(mut program: Command, within: Duration) -> io::Result<Vec<u8>> {
    let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let stdout = child.stdout.take();
    let (sender, said) = mpsc::channel();
    // A process that it has started may hold the pipe open after its end: nobody waits for that.
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.map_or(Ok(0), |stdout| stdout.take(ANSWER_BYTES_MAX).read_to_end(&mut text));
        let _ = sender.send(read.map(|_| text)); // nobody listens any more when it comes too late
    });
    let said = said.recv_timeout(within);
    let _ = child.kill(); // one that has ended is as dead
    let _ = child.wait();
    said.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The result of the other program, and that of this one. What was left out before anybody had a twin is left out of both.
pub(crate) fn apart(both: Report, environment: Environment, left_out_of_both: &[LeftOut]) -> (Report, Report) {
    let mut new = both;
    new.settings.against = Some(format!("{:016x}", fastrand::u64(..)));
    let mut old = Report { environment, ..new.clone() };
    new.results.retain(|row| !is_twin(&row.variant));
    new.left_out.retain(|left| !is_twin(&left.variant));
    // Nobody has changed them. A store whose twin is missing has nothing that it could be held against.
    let is_reference = |store: &str| reference::by_name(store).is_some();
    let of_both: Vec<Row> = new.results.iter().filter(|row| is_reference(&row.store)).cloned().collect();
    old.results.retain(|row| is_twin(&row.variant));
    old.results.extend(of_both);
    old.left_out.retain(|left| is_twin(&left.variant) || is_reference(&left.store) || left_out_of_both.contains(left));
    old.results.iter_mut().for_each(|row| row.variant = common(&row.variant).to_owned());
    old.left_out.iter_mut().for_each(|left| left.variant = common(&left.variant).to_owned());
    for report in [&mut old, &mut new] {
        report.warnings = report::warnings::of(report);
    }
    (old, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(store: &str, variant: &str, reason: &str) -> LeftOut {
        LeftOut { store: store.into(), variant: variant.into(), workers: None, reason: reason.into() }
    }

    /// Another variant of the store that had a row hid an entry of both, and what neither program had room for was there twice.
    #[test]
    fn each_result_lists_what_was_left_out_of_it_once() {
        let twin = |variant: &str| format!("{variant}{MARK}");
        let of_both = [left_out("redis", "tcp", "no server"), left_out("mysql", "default", "no server")];
        let of_one = [
            left_out("sqlite", "disk", "no room"),
            left_out("sqlite", &twin("disk"), "no room"),
            left_out("files", &twin("default"), "too slow"),
            left_out("memory", "default", "too slow"),
            left_out("null", "default", "one process"),
        ];
        let row = |store: &str, variant: &str| Row { store: store.into(), variant: variant.into(), ..Row::default() };
        let rows = [("redis", "default"), ("files", "default"), ("sqlite", "default")];
        let both = Report {
            results: rows.iter().flat_map(|(store, it)| [row(store, it), row(store, &twin(it))]).collect(),
            left_out: of_both.iter().chain(&of_one).cloned().collect(),
            ..Report::default()
        };
        let (old, new) = apart(both, Environment::default(), &of_both);
        let titles = |report: &Report| report.left_out.iter().map(LeftOut::title).collect::<Vec<String>>();
        assert_eq!(titles(&new), ["redis#tcp", "mysql", "sqlite#disk", "memory", "null"]);
        assert_eq!(titles(&old), ["redis#tcp", "mysql", "sqlite#disk", "files", "null"]);
    }

    /// A program that does something else on these arguments, and does not end, was waited for without end.
    #[test]
    fn a_program_that_hangs_or_never_stops_talking_is_ended() {
        let mut sleeping = Command::new("sleep");
        sleeping.arg("60");
        let hung = said_by(sleeping, Duration::from_millis(50)).unwrap_err();
        assert_eq!(hung.kind(), io::ErrorKind::TimedOut);
        let waiting_for_input = said_by(Command::new("cat"), ANSWER_WITHIN);
        assert_eq!(waiting_for_input.unwrap(), b"");
        let endless = said_by(Command::new("yes"), ANSWER_WITHIN);
        assert_eq!(endless.unwrap().len() as u64, ANSWER_BYTES_MAX);
        // It said all, and does not end.
        let mut silent = Command::new("sh");
        silent.args(["-c", "echo said; exec sleep 60 >&-"]);
        assert_eq!(said_by(silent, ANSWER_WITHIN).unwrap(), b"said\n");
    }
}
