//! `all`: every experiment, one after the other, with settings of its own.
//!
//! Invariant: one experiment that cannot run, or a signal, costs nothing of what was measured before it. Not here: what is
//! written where; whoever watches is told after each experiment.

mod expected;
mod presets;
mod summary;

use std::time::{Duration, Instant};

use sessile_core::Durability;

use crate::collection::{Collection, LeftOutExperiment};
use crate::experiment::Experiment;
use crate::experiments::rebuild;
use crate::interruption::interrupted;
use crate::options::{Options, UsageError};
use crate::perl;
use crate::php;
use crate::run::{self, RunError};
use crate::selection;
use crate::worker::Launch;
pub use summary::Summary;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Series {
    /// Stores, variants, reference rows, URLs, handlers of PHP and keepers of Perl; each experiment takes those that it knows. Empty for all.
    pub stores: Vec<String>,
    /// Only these experiments; empty for all.
    pub only: Vec<Experiment>,
    /// Not these.
    pub skip: Vec<Experiment>,
    /// Seed of ids, payloads, choices and order.
    pub seed: u64,
    /// Shorter samples, fewer sessions: about ten minutes.
    pub quick: bool,
    /// The tier.
    pub durability: Durability,
    /// The command line, for the results.
    pub command: Vec<String>,
}

/// What will be measured, and what will not.
#[derive(Debug)]
pub struct Plan {
    parts: Vec<Part>,
    left_out: Vec<LeftOutExperiment>,
}

#[derive(Debug)]
struct Part {
    experiment: Experiment,
    options: Options,
    expected: Duration,
}

/// One experiment that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its name.
    pub experiment: &'static str,
    /// Which one it is of how many.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// Rows that it gave.
    pub rows: usize,
    /// Rows in which something went wrong.
    pub bad: usize,
    /// How long it took.
    pub took: Duration,
    /// Why there is no row, if so.
    pub reason: Option<String>,
}

/// Where a series is, for its progress line.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub experiment: &'static str,
    pub number: usize,
    pub of: usize,
    /// From the beginning of this experiment to the end of all.
    pub left: Duration,
}

impl Series {
    /// What would be measured here.
    ///
    /// # Errors
    ///
    /// When the options make no sense, or nothing at all can be measured.
    pub fn plan(&self) -> Result<Plan, UsageError> {
        run::refuse_debug_build()?;
        self.check_words()?;
        let mut plan = Plan { parts: Vec::new(), left_out: Vec::new() };
        let asked = |it: &&Experiment| self.only.is_empty() || self.only.contains(it);
        for experiment in presets::ORDER.iter().filter(asked).filter(|it| !self.skip.contains(it)) {
            match self.part(*experiment) {
                Ok(part) => plan.parts.push(part),
                Err(UsageError(reason)) => {
                    plan.left_out.push(LeftOutExperiment { experiment: experiment.name().to_owned(), reason });
                }
            }
        }
        if plan.parts.is_empty() {
            let reasons: Vec<String> =
                plan.left_out.iter().map(|left| format!("{}: {}", left.experiment, left.reason)).collect();
            let why = if reasons.is_empty() { "--skip names every experiment".to_owned() } else { reasons.join("; ") };
            return Err(UsageError(format!("nothing is left to measure: {why}")));
        }
        Ok(plan)
    }

    fn part(&self, experiment: Experiment) -> Result<Part, UsageError> {
        let stores = self.words_for(experiment);
        if stores.is_empty() && !self.stores.is_empty() {
            return Err(UsageError("none of --stores is a contender of it".to_owned()));
        }
        let options = self.options(experiment, stores);
        let (settings, selection) = run::prepare(experiment, &options)?;
        let expected = expected::time(&settings, &selection.choices);
        Ok(Part { experiment, options, expected })
    }

    fn options(&self, experiment: Experiment, stores: Vec<String>) -> Options {
        let own = presets::of(experiment, self.quick);
        Options {
            stores,
            workers: None,
            sessions: own.sessions.map(<[usize]>::to_vec),
            payload_bytes: None,
            seconds: own.seconds,
            rounds: own.rounds,
            rate: None,
            let_sleep: false,
            round_trip_ms: None,
            churn: None,
            as_published: false,
            ops: None,
            spreads: None,
            seed: self.seed,
            quick: self.quick,
            durability: self.durability,
            command: self.command.clone(),
        }
    }

    /// What an experiment knows of the words that were given.
    fn words_for(&self, experiment: Experiment) -> Vec<String> {
        self.stores.iter().filter(|word| is_known(word, experiment, self.durability)).cloned().collect()
    }

    /// A word that no experiment knows is a mistake.
    fn check_words(&self) -> Result<(), UsageError> {
        let nobody = |word: &&String| !presets::ORDER.iter().any(|it| is_known(word, *it, self.durability));
        match self.stores.iter().find(nobody) {
            // It says what there is.
            Some(word) => selection::select(std::slice::from_ref(word), Experiment::Cycle, self.durability).map(|_| ()),
            None => Ok(()),
        }
    }
}

fn is_known(word: &str, experiment: Experiment, durability: Durability) -> bool {
    match experiment {
        Experiment::Lifecycle => php::named(&[word.to_owned()]).is_ok(),
        Experiment::Perl => perl::named(&[word.to_owned()]).is_ok(),
        Experiment::Rebuild => rebuild::is_known(word),
        _ => selection::is_known(word, durability),
    }
}

impl Plan {
    /// The names of the experiments, in their order.
    pub fn experiments(&self) -> Vec<&'static str> {
        self.parts.iter().map(|part| part.experiment.name()).collect()
    }

    /// About how long it will take on a machine of two processors.
    pub fn expected(&self) -> Duration {
        self.parts.iter().map(|part| part.expected).sum()
    }

    /// Measures. `seen` is told of each experiment that ends, with all that is there so far.
    pub fn run(self, launch: &Launch, mut seen: impl FnMut(&Ended, &Collection)) -> (Collection, Summary) {
        let of = self.parts.len();
        let mut collection = Collection { left_out: self.left_out, ..Collection::default() };
        let mut pace = expected::Pace::new();
        let mut ended = Vec::new();
        let mut left: Duration = self.parts.iter().map(|part| part.expected).sum();
        let later = |parts: &[Part]| -> Vec<LeftOutExperiment> {
            let reason =
                if interrupted() { "a signal came before it" } else { "not measured yet when this was written" };
            let names = parts.iter().map(|part| part.experiment.name().to_owned());
            names.map(|experiment| LeftOutExperiment { experiment, reason: reason.to_owned() }).collect()
        };
        for (index, part) in self.parts.iter().enumerate() {
            let experiment = part.experiment.name();
            let position = Position { experiment, number: index + 1, of, left: pace.applied_to(left) };
            let start = Instant::now();
            let measured = run::run_at(part.experiment, &part.options, launch, Some(position));
            let took = start.elapsed();
            pace.took(part.expected, took);
            left = left.saturating_sub(part.expected);
            let mut this = Ended { experiment, number: index + 1, of, rows: 0, bad: 0, took, reason: None };
            match measured {
                Ok(report) => {
                    (this.rows, this.bad) = (report.results.len(), report.bad_rows().count());
                    collection.interrupted |= report.interrupted;
                    collection.runs.push(report);
                }
                Err(error) => {
                    let reason = match error {
                        RunError::Interrupted => "a signal came before a row of it was verified".to_owned(),
                        error => error.to_string(),
                    };
                    collection
                        .left_out
                        .push(LeftOutExperiment { experiment: experiment.to_owned(), reason: reason.clone() });
                    this.reason = Some(reason);
                }
            }
            collection.interrupted |= interrupted();
            let others = collection.left_out.len();
            collection.left_out.extend(later(self.parts.get(index + 1..).unwrap_or_default()));
            seen(&this, &collection);
            ended.push(this);
            if collection.interrupted {
                break;
            }
            collection.left_out.truncate(others);
        }
        let summary = Summary::of(ended, &collection);
        (collection, summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(quick: bool) -> Series {
        Series {
            stores: Vec::new(),
            only: Vec::new(),
            skip: Vec::new(),
            seed: 1,
            quick,
            durability: Durability::None,
            command: Vec::new(),
        }
    }

    /// On two processors, with what is installed here.
    #[test]
    fn the_presets_keep_their_budget() {
        for (quick, minutes_max) in [(true, 10), (false, 90)] {
            let mut all = Duration::ZERO;
            for experiment in presets::ORDER {
                let Ok((mut settings, selection)) =
                    run::prepare(*experiment, &series(quick).options(*experiment, vec![]))
                else {
                    continue; // what it needs is not installed
                };
                if *experiment == Experiment::Scale {
                    settings.workers = vec![1, 2];
                }
                let time = expected::time(&settings, &selection.choices);
                println!("{} {:.0} s", experiment.name(), time.as_secs_f64());
                all += time;
            }
            assert!(all > Duration::from_secs(60) && all <= Duration::from_secs(minutes_max * 60), "{all:?}");
        }
    }

    #[test]
    fn every_experiment_has_its_place() {
        let count = |experiment| presets::ORDER.iter().filter(|it| **it == experiment).count();
        assert!(Experiment::ALL.iter().all(|experiment| count(*experiment) == 1));
    }

    #[test]
    fn each_experiment_takes_the_words_that_it_knows_and_a_word_that_none_knows_is_refused() {
        let words =
            |words: &[&str]| Series { stores: words.iter().map(|it| (*it).to_owned()).collect(), ..series(true) };
        let mixed = words(&["memory", "phpredis#lock", "sessile"]);
        assert_eq!(mixed.words_for(Experiment::Cycle), ["memory", "sessile"]);
        assert_eq!(mixed.words_for(Experiment::Lifecycle), ["phpredis#lock", "sessile"]);
        assert!(mixed.check_words().is_ok());
        let why = words(&["memory", "mongo"]).check_words().unwrap_err().0;
        assert!(why.contains("mongo") && why.contains("known"), "{why}");
        let why = words(&["phpredis"]).part(Experiment::Cycle).unwrap_err().0;
        assert!(why.contains("none of --stores"), "{why}");
    }
}
