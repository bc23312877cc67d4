//! One program against another: both are measured in the same rounds, turn by turn.
//!
//! Two results lie minutes apart, and what a machine does to a row in minutes is often more than the tenth that somebody looks
//! for. Here each contender has a twin whose workers are processes of the other program. The two take their turns one right
//! after the other with the same choices, and become two results whose rounds belong together.
//!
//! It owns the mark of a twin, which no result shows.

use std::process::{Command, Stdio};

use crate::options::{Experiment, Options, UsageError};
use crate::reference;
use crate::report::{self, Environment, Report, Row};
use crate::run::RunError;
use crate::selection::{Choice, Selection, Target};
use crate::worker::process::Launch;

/// Behind the variant of a twin while it is measured; no variant that a user gives has a space.
const MARK: &str = " of the other program";
/// Rounds, and the length of a sample in seconds, unless told otherwise: what a machine does from one second to the next is in
/// many short samples alike, and not in a few long ones.
pub const TURNS: (usize, f64) = (200, 0.1);
/// The same of `ops`, which creates sessions in each sample and keeps them to the end.
const TURNS_OF_OPS: (usize, f64) = (60, 0.05);

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
    let asked = Command::new(&other.program).args(["bench", "environment"]).stdin(Stdio::null()).output();
    let asked = asked.map_err(|error| refused(format!("it cannot be started: {error}")))?;
    let environment: Environment = serde_json::from_slice(&asked.stdout).map_err(|_| {
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

/// The result of the other program, and that of this one.
pub(crate) fn apart(both: Report, environment: Environment) -> (Report, Report) {
    let mut new = both;
    new.settings.against = Some(format!("{:016x}", fastrand::u64(..)));
    let mut old = Report { environment, ..new.clone() };
    new.results.retain(|row| !is_twin(&row.variant));
    new.left_out.retain(|left| !is_twin(&left.variant));
    // Nobody has changed them. A store whose twin is missing has nothing that it could be held against.
    let of_both: Vec<Row> =
        new.results.iter().filter(|row| reference::by_name(&row.store).is_some()).cloned().collect();
    old.results.retain(|row| is_twin(&row.variant));
    old.results.extend(of_both);
    old.left_out.retain(|left| is_twin(&left.variant) || !new.results.iter().any(|row| row.store == left.store));
    old.results.iter_mut().for_each(|row| row.variant = common(&row.variant).to_owned());
    old.left_out.iter_mut().for_each(|left| left.variant = common(&left.variant).to_owned());
    for report in [&mut old, &mut new] {
        report.warnings = report::warnings::of(report);
    }
    (old, new)
}
