//! `sessile bench all`: every experiment in order, with shorter settings.
//!
//! Invariant: an experiment that fails, or a signal, loses nothing that was measured before. Files
//! are written by the caller, who is told after each experiment.

mod plan;
mod presets;
mod resume;
mod summary;

use sessile_core::Durability;

use crate::experiments::{languages, rebuild};
use crate::options::Options;
use crate::php;
use crate::redact;
use crate::run;
use crate::selection;
use plan::PlannedPart;
pub(crate) use plan::SeriesPosition;
pub use plan::{FinishedPart, SeriesPlan};
use presets::SeriesEntry;
use sessile_results::collection::{PartState, SeriesPart};
use sessile_results::{Experiment, UsageError};
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
        let mut plan = SeriesPlan {
            steps: Vec::new(),
            parts: Vec::new(),
            command: redact::command(&self.command),
            kept: Vec::new(),
        };
        let asked = |it: &&SeriesEntry| self.only.is_empty() || self.only.contains(&it.experiment);
        for entry in
            presets::ORDER.iter().filter(asked).filter(|it| !self.skip.contains(&it.experiment))
        {
            let Some(tier) = entry.tier(self.durability, self.quick) else { continue };
            let (state, reason) = match self.step(entry, tier, plan.parts.len()) {
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

    fn step(
        &self,
        entry: &SeriesEntry,
        tier: Durability,
        part: usize,
    ) -> Result<PlannedPart, UsageError> {
        let stores = self.words_for(entry.experiment);
        if stores.is_empty() && !self.stores.is_empty() {
            return Err(UsageError("none of --stores is a contender of it".to_owned()));
        }
        let options = Options {
            stores,
            seed: self.seed,
            quick: self.quick,
            durability: tier,
            command: self.command.clone(),
            ..presets::options(entry, self.quick)
        };
        run::resolve(entry.experiment, &options)?;
        Ok(PlannedPart { experiment: entry.experiment, options, part })
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
                let word = std::slice::from_ref(word);
                selection::select(word, Experiment::Cycle, self.durability).map(|_| ())
            }
            None => Ok(()),
        }
    }
}

fn is_known(word: &str, experiment: Experiment, durability: Durability) -> bool {
    match experiment {
        Experiment::Lifecycle => php::named(php::HANDLERS, &[word.to_owned()]).is_ok(),
        Experiment::Languages => languages::named(&[word.to_owned()]).is_ok(),
        Experiment::Rebuild => rebuild::is_known(word),
        _ => selection::is_known(word, durability),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let why = words(&["phpredis"]).step(cycle, Durability::None, 0).unwrap_err().0;
        assert!(why.contains("none of --stores"), "{why}");
    }
}
