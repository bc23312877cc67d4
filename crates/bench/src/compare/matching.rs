//! Matches the rows of two results.
//!
//! Refuses to compare different questions (rate, round trip, churn); differences of machine or
//! versions are only noted.

use super::estimate::{Estimate, ROUNDS_MIN};
use super::runs::{self, RunPair};
use super::yardstick::RowDifference;
use super::{NotCompared, NotComparedReason, RowName, RunNotCompared};
use crate::collection::Collection;
use crate::experiments::CLOSED_LOOP;
use crate::naming;
use crate::reference;
use crate::report::{Report, RoundSample, Row, comparability_notes};

/// Experiments without rounds: only rows that became bad are reported.
const WITHOUT_ROUNDS: [&str; 3] = ["gc", "oversize", "faults"];

pub(super) const MEASURED_ONCE: &str =
    "measured once, not in rounds, so two results of it cannot be compared";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    OpsPerSecond,
    P50,
    P99,
}

#[derive(Clone, Debug)]
pub(super) struct RowPair {
    pub name: RowName,
    pub socket: bool,
    pub measure: Measure,
    pub old: Estimate,
    pub new: Estimate,
    /// NEW minus OLD, from the differences of paired rounds.
    pub together: Option<Estimate>,
    /// Number of setups used; 0: rounds.
    pub setups: usize,
}

#[derive(Default)]
pub(super) struct MatchedRows {
    pub pairs: Vec<RowPair>,
    pub not_compared: Vec<NotCompared>,
    pub runs_not_compared: Vec<RunNotCompared>,
    pub measured_once: Vec<String>,
    pub notes: Vec<String>,
}

impl Measure {
    pub(super) fn name(self) -> &'static str {
        match self {
            Measure::OpsPerSecond => "ops_per_second",
            Measure::P50 => "p50_us",
            Measure::P99 => "p99_us",
        }
    }

    /// 1 if larger is faster, else -1.
    pub(super) fn sign(self) -> f64 {
        if self == Measure::OpsPerSecond { 1.0 } else { -1.0 }
    }

    fn of(self, sample: &RoundSample) -> f64 {
        match self {
            Measure::OpsPerSecond => sample.ops_per_second,
            Measure::P50 => sample.p50_us,
            Measure::P99 => sample.p99_us,
        }
    }
}

impl RowPair {
    /// How much faster NEW is.
    pub(super) fn speed(&self) -> Estimate {
        let difference = self.together.unwrap_or_else(|| self.new.minus(self.old));
        Estimate { mean: self.measure.sign() * difference.mean, ..difference }
    }

    pub(super) fn is_reference(&self) -> bool {
        reference::by_name(&self.name.store).is_some()
    }

    pub(super) fn mark(&self) -> RowDifference {
        let (store, is_reference) = (self.name.store.clone(), self.is_reference());
        RowDifference {
            store,
            socket: self.socket,
            workers: self.name.workers,
            is_reference,
            difference: self.speed(),
        }
    }
}

impl RowName {
    fn of(row: &Row, flags: &str) -> RowName {
        RowName {
            experiment: row.experiment.clone(),
            flags: flags.to_owned(),
            store: row.store.clone(),
            variant: row.variant.clone(),
            op: row.op.clone(),
            workers: row.workers,
            sessions: row.sessions,
            payload_bytes: row.payload_bytes,
            payload_spread: row.payload_spread.clone(),
            durability: row.durability.clone(),
        }
    }

    pub fn title(&self) -> String {
        naming::title(&self.store, &self.variant)
    }
}

pub(super) fn match_rows(old: &Collection, new: &Collection) -> MatchedRows {
    let (runs, alone) = runs::pair_runs(old, new);
    let (mut matched, mut compared) = (MatchedRows::default(), Vec::new());
    for run in &runs {
        match check_settings(run.old, run.new) {
            Ok(()) => {
                matched.add_rows(run);
                compared.push(run);
            }
            Err(why) => matched
                .runs_not_compared
                .push(RunNotCompared { experiment: run.title.clone(), why }),
        }
    }
    matched.runs_not_compared.extend(alone);
    matched.notes = notes(&compared);
    matched
}

impl MatchedRows {
    fn add_rows(&mut self, run: &RunPair) {
        let names = |report: &Report| {
            let flags = report.flags();
            report.results.iter().map(|row| RowName::of(row, &flags)).collect::<Vec<RowName>>()
        };
        let (old_names, new_names) = (names(run.old), names(run.new));
        for (name, row) in old_names.iter().zip(&run.old.results) {
            let other = new_names
                .iter()
                .position(|it| it == name)
                .and_then(|place| run.new.results.get(place));
            let missing = || (NotComparedReason::NotInBoth, "it is not in NEW".to_owned());
            match other.ok_or_else(missing).and_then(|other| pair_rows(name, row, other, run)) {
                Ok(pairs) => self.pairs.extend(pairs),
                Err((reason, why)) => {
                    let of_ours = reference::by_name(&name.store).is_none();
                    let broken = of_ours && !row.is_bad() && other.is_some_and(Row::is_bad);
                    self.not_compared.push(NotCompared { row: name.clone(), why, reason, broken });
                }
            }
        }
        for row in new_names.into_iter().filter(|name| !old_names.contains(name)) {
            let (reason, why) = (NotComparedReason::NotInBoth, "it is not in OLD".to_owned());
            self.not_compared.push(NotCompared { row, why, reason, broken: false });
        }
        if run.old.experiment().is_some_and(|it| WITHOUT_ROUNDS.contains(&it)) {
            self.measured_once.push(run.title.clone());
        }
    }

    pub(super) fn nothing_to_compare(&self) -> String {
        let row = self
            .not_compared
            .first()
            .map(|row| format!("{} {}: {}", row.row.title(), row.row.op, row.why));
        let once = || Some(format!("{} is {MEASURED_ONCE}", self.measured_once.first()?));
        let run =
            || self.runs_not_compared.first().map(|run| format!("{}: {}", run.experiment, run.why));
        let reason = row.or_else(once).or_else(run).map(|reason| format!("; {reason}"));
        format!(
            "no store has a row in both results that could be compared{}",
            reason.unwrap_or_default()
        )
    }
}

fn pair_rows(
    name: &RowName,
    old: &Row,
    new: &Row,
    run: &RunPair,
) -> Result<Vec<RowPair>, (NotComparedReason, String)> {
    let bad = |sides: &'static str, why: String| Err((NotComparedReason::Bad(sides), why));
    match (old.is_bad(), new.is_bad()) {
        (false, true) => return bad("NEW", format!("it is bad in NEW: {}", new.fault())),
        (true, false) => return bad("OLD", format!("it was bad in OLD: {}", old.fault())),
        (true, true) => return bad("both", "it is bad in both".to_owned()),
        (false, false) => {}
    }
    let paced = run.old.settings.rate.is_some() && name.op != CLOSED_LOOP;
    let measures: &[Measure] =
        if paced { &[Measure::P50, Measure::P99] } else { &[Measure::OpsPerSecond] };
    if WITHOUT_ROUNDS.contains(&name.experiment.as_str()) {
        return Ok(Vec::new()); // both are sound, and no more can be said
    }
    let pair = |measure: &Measure| {
        let few = |rounds: usize| {
            let experiment = &name.experiment;
            let why = format!(
                "the samples of its {rounds} rounds are too few or empty; measure {experiment} \
                 with --rounds {ROUNDS_MIN} or more, or longer --seconds"
            );
            (NotComparedReason::FewSamples, why)
        };
        let estimate = |row: &Row| {
            let samples: Vec<f64> = row.samples.iter().map(|sample| measure.of(sample)).collect();
            Estimate::from_values(&samples).ok_or_else(|| few(samples.len()))
        };
        let belong_together = run.is_one() && old.samples.len() == new.samples.len();
        let together = || {
            Estimate::from_setups(&ratios(old, new, *measure)).ok_or_else(|| few(new.samples.len()))
        };
        let together = belong_together.then(together).transpose()?;
        Ok(RowPair {
            name: name.clone(),
            socket: old.kind == "socket",
            measure: *measure,
            old: estimate(old)?,
            new: estimate(new)?,
            together: together.map(|(difference, _)| difference),
            setups: together.map_or(0, |(_, setups)| setups),
        })
    };
    measures.iter().map(pair).collect()
}

/// NEW divided by OLD for each round of each setup.
fn ratios(old: &Row, new: &Row, measure: Measure) -> Vec<Vec<f64>> {
    let rounds: Vec<(&RoundSample, &RoundSample)> = old.samples.iter().zip(&new.samples).collect();
    let setups =
        rounds.chunk_by(|one, next| (one.0.setup, one.1.setup) == (next.0.setup, next.1.setup));
    setups
        .map(|rounds| rounds.iter().map(|(old, new)| measure.of(new) / measure.of(old)).collect())
        .collect()
}

/// Refuses settings that change the question.
fn check_settings(old: &Report, new: &Report) -> Result<(), String> {
    let word = |value: Option<f64>| value.map_or("none".to_owned(), |value| value.to_string());
    let (was, is) = (&old.settings, &new.settings);
    let workload = |report: &Report| report.workload().unwrap_or("none").to_owned();
    let settings = [
        ("workload", workload(old), workload(new)),
        ("rate", word(was.rate), word(is.rate)),
        ("round trip in us", word(was.round_trip_us), word(is.round_trip_us)),
        ("churn", was.churn.to_string(), is.churn.to_string()),
        ("as published", was.as_published.to_string(), is.as_published.to_string()),
        (
            "processors kept awake",
            was.processors_awake.to_string(),
            is.processors_awake.to_string(),
        ),
    ];
    match settings.into_iter().find(|(_, old, new)| old != new) {
        None => Ok(()),
        Some((name, old, new)) => Err(format!(
            "the results answer different questions: {name} is {old} in OLD and {new} in NEW"
        )),
    }
}

fn notes(runs: &[&RunPair]) -> Vec<String> {
    let mut notes: Vec<(String, Vec<String>)> = Vec::new();
    for run in runs {
        for note in notes_of(run.old, run.new) {
            match notes.iter_mut().find(|(known, _)| *known == note) {
                Some((_, titles)) => titles.push(run.title.clone()),
                None => notes.push((note, vec![run.title.clone()])),
            }
        }
    }
    notes.into_iter().map(|(note, titles)| runs::with_titles(&titles, runs.len(), &note)).collect()
}

fn notes_of(old: &Report, new: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let (was, is) = (&old.environment, &new.environment);
    let same_machine =
        (&was.cpu, was.cores, was.memory_bytes) == (&is.cpu, is.cores, is.memory_bytes);
    if !same_machine {
        notes.push(
            "the results are of different machines: what reference rows have in common is taken \
             out, the rest stays"
                .to_owned(),
        );
    }
    notes.extend(comparability_notes(&[("OLD", old), ("NEW", new)]));
    notes
}
