//! `sessile bench all`: every experiment in order, with shorter settings.
//!
//! Invariant: an experiment that fails, or a signal, loses nothing that was measured before. Files
//! are written by the caller, who is told after each experiment.

mod expected;
mod plan;
mod presets;
mod summary;

use sessile_core::Durability;

use crate::collection::{PartState, SeriesPart};
use crate::experiment::Experiment;
use crate::experiments::rebuild;
use crate::options::{Options, UsageError};
use crate::perl;
use crate::php;
use crate::run;
use crate::selection;
use plan::PlannedPart;
pub(crate) use plan::SeriesPosition;
pub use plan::{FinishedPart, SeriesPlan};
use presets::SeriesEntry;
pub use summary::SeriesSummary;

#[derive(Clone, Debug)]
pub struct SeriesOptions {
    /// Contenders; each experiment takes those it knows. Empty for all.
    pub stores: Vec<String>,
    /// Only these experiments; empty for all.
    pub only: Vec<Experiment>,
    pub skip: Vec<Experiment>,
    pub seed: u64,
    /// The short form, about ten minutes.
    pub quick: bool,
    pub durability: Durability,
    pub command: Vec<String>,
}

impl SeriesOptions {
    /// Fails when the options make no sense or nothing can be measured.
    pub fn plan(&self) -> Result<SeriesPlan, UsageError> {
        run::refuse_debug_build()?;
        self.check_words()?;
        let mut plan = SeriesPlan { steps: Vec::new(), parts: Vec::new() };
        let asked = |it: &&SeriesEntry| self.only.is_empty() || self.only.contains(&it.experiment);
        for entry in
            presets::ORDER.iter().filter(asked).filter(|it| !self.skip.contains(&it.experiment))
        {
            let (state, reason) = match self.step(entry, plan.parts.len()) {
                Ok(step) => {
                    plan.steps.push(step);
                    (PartState::NotStarted, None)
                }
                Err(UsageError(reason)) => (PartState::LeftOut, Some(reason)),
            };
            let (experiment, flags) =
                (entry.experiment.name().to_owned(), entry.flags().to_owned());
            plan.parts.push(SeriesPart { experiment, flags, state, reason });
        }
        if plan.steps.is_empty() {
            let reason =
                |part: &SeriesPart| Some(format!("{}: {}", part.title(), part.reason.as_ref()?));
            let reasons: Vec<String> = plan.parts.iter().filter_map(reason).collect();
            let why = if reasons.is_empty() {
                "--skip names every experiment".to_owned()
            } else {
                reasons.join("; ")
            };
            return Err(UsageError(format!("nothing is left to measure: {why}")));
        }
        Ok(plan)
    }

    fn step(&self, entry: &SeriesEntry, part: usize) -> Result<PlannedPart, UsageError> {
        let stores = self.words_for(entry.experiment);
        if stores.is_empty() && !self.stores.is_empty() {
            return Err(UsageError("none of --stores is a contender of it".to_owned()));
        }
        let options = self.options(entry, stores);
        let (settings, selection) = run::resolve(entry.experiment, &options)?;
        let expected = expected::time(&settings, &selection.choices);
        Ok(PlannedPart { experiment: entry.experiment, options, expected, part })
    }

    fn options(&self, entry: &SeriesEntry, stores: Vec<String>) -> Options {
        let own = presets::overrides(entry, self.quick);
        Options {
            stores,
            workers: own.workers.map(<[usize]>::to_vec),
            sessions: own.sessions.map(<[usize]>::to_vec),
            seconds: own.seconds,
            rounds: own.rounds,
            rate: entry.rate(),
            as_published: entry.as_published(),
            fill_max: own.fill_max,
            seed: self.seed,
            quick: self.quick,
            durability: self.durability,
            command: self.command.clone(),
            ..Options::default()
        }
    }

    /// The given names that the experiment knows.
    fn words_for(&self, experiment: Experiment) -> Vec<String> {
        self.stores
            .iter()
            .filter(|word| is_known(word, experiment, self.durability))
            .cloned()
            .collect()
    }

    fn check_words(&self) -> Result<(), UsageError> {
        let nobody =
            |word: &&String| !Experiment::ALL.iter().any(|it| is_known(word, *it, self.durability));
        match self.stores.iter().find(nobody) {
            // The error lists the known names.
            Some(word) => {
                selection::select(std::slice::from_ref(word), Experiment::Cycle, self.durability)
                    .map(|_| ())
            }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::requirements::{Requirement, requirements};

    fn series(quick: bool) -> SeriesOptions {
        SeriesOptions {
            stores: Vec::new(),
            only: Vec::new(),
            skip: Vec::new(),
            seed: 1,
            quick,
            durability: Durability::None,
            command: Vec::new(),
        }
    }

    /// On two processors, with what is installed here; none where a program is missing that the
    /// experiment cannot do without.
    fn expected_time(entry: &SeriesEntry, options: &Options) -> Option<Duration> {
        let name = entry.experiment.name();
        let (mut settings, selection) = match run::resolve(entry.experiment, options) {
            Ok(prepared) => prepared,
            Err(UsageError(why)) => {
                let wants = |need: &Requirement| {
                    !need.present && need.wanted_by.iter().any(|by| by.starts_with(name))
                };
                assert!(
                    requirements().iter().any(wants) && std::env::var_os("CI").is_none(),
                    "{name}: {why}"
                );
                println!("skipped: {name}: {why}");
                return None;
            }
        };
        if entry.experiment == Experiment::Scale {
            settings.workers = vec![1, 2];
        }
        let time = expected::time(&settings, &selection.choices);
        println!("{name} {} {:.0} s", entry.flags(), time.as_secs_f64());
        assert!(time > Duration::ZERO, "{name} takes no time at all");
        Some(time)
    }

    #[test]
    fn the_presets_keep_their_budget() {
        for (quick, minutes_max) in [(true, 10), (false, 84)] {
            let series = series(quick);
            let all: Duration = presets::ORDER
                .iter()
                .filter_map(|it| expected_time(it, &series.options(it, vec![])))
                .sum();
            println!("all: {:.0} s, quick: {quick}", all.as_secs_f64());
            assert!(
                all > Duration::from_secs(60) && all <= Duration::from_secs(minutes_max * 60),
                "{all:?}"
            );
        }
    }

    /// Each was said to take less than a minute, which most of them do not with all servers
    /// installed.
    #[test]
    fn a_quick_preset_alone_takes_four_minutes_at_most() {
        for entry in presets::ORDER.iter().filter(|it| it.flags().is_empty()) {
            let of_all = series(true).options(entry, vec![]);
            let alone =
                Options { workers: None, sessions: None, seconds: None, rounds: None, ..of_all };
            let Some(time) = expected_time(entry, &alone) else { continue };
            assert!(time <= Duration::from_secs(240), "{}: {time:?}", entry.experiment.name());
        }
    }

    #[test]
    fn every_experiment_has_its_place() {
        let titles: Vec<(&str, &str)> =
            presets::ORDER.iter().map(|it| (it.experiment.name(), it.flags())).collect();
        let count = |title| titles.iter().filter(|other| **other == title).count();
        assert!(
            Experiment::ALL.iter().all(|experiment| count((experiment.name(), "")) == 1),
            "{titles:?}"
        );
        assert!(titles.iter().all(|title| count(*title) == 1), "{titles:?}");
    }

    #[test]
    fn each_experiment_takes_the_words_that_it_knows_and_a_word_that_none_knows_is_refused() {
        let words = |words: &[&str]| SeriesOptions {
            stores: words.iter().map(|it| (*it).to_owned()).collect(),
            ..series(true)
        };
        let mixed = words(&["memory", "phpredis#lock", "sessile"]);
        assert_eq!(mixed.words_for(Experiment::Cycle), ["memory", "sessile"]);
        assert_eq!(mixed.words_for(Experiment::Lifecycle), ["phpredis#lock", "sessile"]);
        assert!(mixed.check_words().is_ok());
        let why = words(&["memory", "mongo"]).check_words().unwrap_err().0;
        assert!(why.contains("mongo") && why.contains("known"), "{why}");
        let cycle = presets::ORDER.iter().find(|it| it.experiment == Experiment::Cycle).unwrap();
        let why = words(&["phpredis"]).step(cycle, 0).unwrap_err().0;
        assert!(why.contains("none of --stores"), "{why}");
    }
}
