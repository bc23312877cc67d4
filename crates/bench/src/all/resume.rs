//! Goes on with a series that a signal ended.
//!
//! Invariant: what another program, machine or command measured is refused, because rows of one
//! file are compared with each other.

use sessile_results::collection::{Collection, PartState, SeriesPart};
use sessile_results::{Environment, Report, UsageError};

use super::SeriesPlan;

impl SeriesPlan {
    /// Keeps the parts that have been measured to their end, and measures the others.
    pub fn resume(
        mut self,
        earlier: Collection,
        here: &Environment,
    ) -> Result<SeriesPlan, UsageError> {
        let titles = |parts: &[SeriesPart]| {
            parts.iter().map(SeriesPart::title).collect::<Vec<String>>().join(", ")
        };
        if earlier.parts.is_empty() {
            return Err(refused("the file has the result of one experiment, and of no series"));
        }
        let (asked, found) = (titles(&self.parts), titles(&earlier.parts));
        if asked != found {
            return Err(refused(&format!(
                "the file has {found}, and the command asks for {asked}"
            )));
        }
        // Results do not keep hosts and directories, so another store would look like the same.
        if names_store_by_url(&self.command) {
            return Err(refused("the command names a store of yours by its URL"));
        }
        if here.commit.ends_with(CHANGED) {
            return Err(refused("two builds of changed files cannot be told apart"));
        }
        let whole: Vec<Report> = earlier.runs.into_iter().filter(|run| !run.interrupted).collect();
        for run in &whole {
            if run.command.replace(RESUME, "") != self.command.replace(RESUME, "") {
                return Err(refused(&format!("the file is of `{}`", run.command)));
            }
            let there = &run.environment;
            if let Some((what, then, now)) = difference(there, here) {
                return Err(refused(&format!("{what} was `{then}` and is `{now}`")));
            }
        }
        let done = |part: &SeriesPart| part.state == PartState::Done;
        if earlier.parts.iter().filter(|part| done(part)).count() != whole.len() {
            return Err(refused("a result of a part that is done is missing in the file"));
        }
        self.steps.retain(|step| !earlier.parts.get(step.part).is_some_and(done));
        for (part, before) in self.parts.iter_mut().zip(earlier.parts) {
            if done(&before) {
                *part = before;
            }
        }
        self.kept = whole;
        Ok(self)
    }
}

/// The only word in which the commands may differ.
const RESUME: &str = " --resume";

/// How the commit ends of a program that was built from changed files.
const CHANGED: &str = ", changed";

/// Whether it has a URL, of which results keep no host and sometimes only the scheme.
fn names_store_by_url(command: &str) -> bool {
    let stores =
        |rest: &str| rest.trim_start_matches(['=', ' ']).split(' ').next().map(str::to_owned);
    command.contains('<')
        || command.split("--stores").skip(1).filter_map(stores).any(|names| names.contains(':'))
}

fn refused(why: &str) -> UsageError {
    UsageError(format!("--resume cannot go on: {why}; without --resume the series begins anew"))
}

/// The first that differs, there and here. Each part names its own servers and their versions.
fn difference(there: &Environment, here: &Environment) -> Option<(String, String, String)> {
    let of_program =
        [("version", &there.sessile, &here.sessile), ("commit", &there.commit, &here.commit)];
    let mut of_program = of_program.into_iter().filter(|(_, there, here)| there != here);
    let other = of_program
        .next()
        .map(|(what, there, here)| (format!("the {what}"), there.clone(), here.clone()));
    other.or_else(|| there.differences(here).into_iter().next())
}

#[cfg(test)]
mod tests {
    use sessile_results::Experiment;

    use super::*;
    use crate::all::plan::PlannedPart;
    use crate::options::Options;

    const COMMAND: &str = "sessile bench all --export-json all.json";

    fn part(experiment: Experiment, state: PartState) -> SeriesPart {
        let experiment = experiment.name().to_owned();
        SeriesPart { experiment, flags: String::new(), state, reason: None }
    }

    fn plan() -> SeriesPlan {
        let experiments = [Experiment::Cycle, Experiment::Ops, Experiment::Gc];
        let step = |(part, experiment): (usize, &Experiment)| PlannedPart {
            experiment: *experiment,
            options: Options::default(),
            part,
        };
        SeriesPlan {
            steps: experiments.iter().enumerate().map(step).collect(),
            parts: experiments.map(|it| part(it, PartState::NotStarted)).to_vec(),
            command: format!("{COMMAND} --resume"),
            kept: Vec::new(),
        }
    }

    /// `cycle` is done; `ops` was interrupted, and some of its rows are there.
    fn interrupted() -> Collection {
        let run =
            |interrupted| Report { command: COMMAND.to_owned(), interrupted, ..Report::default() };
        Collection {
            interrupted: true,
            runs: vec![run(false), run(true)],
            parts: vec![
                part(Experiment::Cycle, PartState::Done),
                part(Experiment::Ops, PartState::Interrupted),
                part(Experiment::Gc, PartState::NotStarted),
            ],
            ..Collection::default()
        }
    }

    #[test]
    fn what_is_done_is_kept_and_what_was_interrupted_is_measured_anew() {
        let plan = plan().resume(interrupted(), &Environment::default()).unwrap();
        assert_eq!(plan.kept.len(), 1, "only the rows of `cycle`");
        assert_eq!(plan.experiments(), ["ops", "gc"]);
        let states: Vec<PartState> = plan.parts.iter().map(|part| part.state).collect();
        assert_eq!(states, [PartState::Done, PartState::NotStarted, PartState::NotStarted]);
    }

    #[test]
    fn what_cannot_be_compared_with_the_rest_is_refused() {
        let here = Environment { commit: "3f2".to_owned(), ..Environment::default() };
        fn told(earlier: Collection, here: &Environment) -> String {
            plan().resume(earlier, here).unwrap_err().0
        }
        let why = told(interrupted(), &here);
        assert!(why.contains("the commit was `` and is `3f2`"), "{why}");

        let mut quick = interrupted();
        quick.runs[0].command = "sessile bench all --quick --export-json all.json".to_owned();
        let why = told(quick, &Environment::default());
        assert!(why.contains("of `sessile bench all --quick"), "{why}");

        let mut fewer = interrupted();
        fewer.parts.pop();
        let why = told(fewer, &Environment::default());
        assert!(
            why.contains("the file has cycle, ops, and the command asks for cycle, ops, gc"),
            "{why}"
        );

        let why = told(Collection::from(Report::default()), &Environment::default());
        assert!(why.contains("the result of one experiment"), "{why}");

        for stores in ["--stores redis<host>", "--stores=memory:,redis", "--stores memory:"] {
            let mut named = plan();
            named.command = format!("sessile bench all {stores} --export-json all.json");
            let why = named.resume(interrupted(), &Environment::default()).unwrap_err().0;
            assert!(why.contains("by its URL"), "{why}");
        }
        let changed = Environment { commit: "3f2, changed".to_owned(), ..Environment::default() };
        let mut by_changed = interrupted();
        by_changed.runs[0].environment = changed.clone();
        let why = told(by_changed, &changed);
        assert!(why.contains("changed files"), "{why}");

        let mut lacking = interrupted();
        lacking.runs.remove(0);
        let why = told(lacking, &Environment::default());
        assert!(why.contains("a result of a part that is done is missing"), "{why}");
    }
}
