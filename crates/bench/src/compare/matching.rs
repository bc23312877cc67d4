//! Which row of one result belongs to which of the other, and what stands in the way.
//!
//! It refuses what would compare different questions (a rate, a round trip, a churn of only one side), and only
//! says what may explain a difference (another machine, another version of a server).

use super::estimate::{Estimate, ROUNDS_MIN};
use super::yardstick::Mark;
use super::{NotCompared, RowName};
use crate::experiments::CLOSED_LOOP;
use crate::options::UsageError;
use crate::reference;
use crate::report::{Report, RoundSample, Row, surroundings};

/// Experiments whose rows have no samples of rounds to judge a difference by.
const WITHOUT_ROUNDS: [&str; 3] = ["gc", "oversize", "faults"];

/// What is compared of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    OpsPerSecond,
    P50,
    P99,
}

/// One row and measure that both sides have.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub name: RowName,
    pub socket: bool,
    pub measure: Measure,
    pub old: Estimate,
    pub new: Estimate,
}

/// What was found.
pub(super) struct Matched {
    pub pairs: Vec<Pair>,
    pub not_compared: Vec<NotCompared>,
    pub notes: Vec<String>,
}

impl Measure {
    /// The word in the result.
    pub(super) fn name(self) -> &'static str {
        match self {
            Measure::OpsPerSecond => "ops_per_second",
            Measure::P50 => "p50_us",
            Measure::P99 => "p99_us",
        }
    }

    /// Whether more is faster, or slower.
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

impl Pair {
    /// How much faster NEW is.
    pub(super) fn speed(&self) -> Estimate {
        let difference = self.new.less(self.old);
        Estimate { mean: self.measure.sign() * difference.mean, ..difference }
    }

    pub(super) fn is_reference(&self) -> bool {
        reference::by_name(&self.name.store).is_some()
    }

    pub(super) fn mark(&self) -> Mark {
        let (store, is_reference) = (self.name.store.clone(), self.is_reference());
        Mark { store, socket: self.socket, is_reference, difference: self.speed() }
    }
}

impl RowName {
    fn of(row: &Row) -> RowName {
        RowName {
            experiment: row.experiment.clone(),
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

    /// Name and variant as one word.
    pub fn title(&self) -> String {
        if self.variant == "default" { self.store.clone() } else { format!("{}#{}", self.store, self.variant) }
    }
}

/// Puts the rows of both sides together.
pub(super) fn pairs(old: &Report, new: &Report) -> Result<Matched, UsageError> {
    check_settings(old, new)?;
    let mut matched = Matched { pairs: Vec::new(), not_compared: Vec::new(), notes: notes(old, new) };
    for row in &old.results {
        let name = RowName::of(row);
        let other = new.results.iter().find(|other| RowName::of(other) == name);
        match other.ok_or_else(|| "it is not in NEW".to_owned()).and_then(|other| of_rows(&name, row, other, old)) {
            Ok(pairs) => matched.pairs.extend(pairs),
            Err(why) => {
                let of_ours = reference::by_name(&name.store).is_none();
                let broken = of_ours && !row.is_bad() && other.is_some_and(Row::is_bad);
                matched.not_compared.push(NotCompared { row: name, why, broken });
            }
        }
    }
    for row in &new.results {
        let name = RowName::of(row);
        if !old.results.iter().any(|other| RowName::of(other) == name) {
            matched.not_compared.push(NotCompared { row: name, why: "it is not in OLD".to_owned(), broken: false });
        }
    }
    Ok(matched)
}

fn of_rows(name: &RowName, old: &Row, new: &Row, report: &Report) -> Result<Vec<Pair>, String> {
    match (old.is_bad(), new.is_bad()) {
        (false, true) => return Err(format!("it is bad in NEW: {}", new.fault())),
        (true, false) => return Err(format!("it was bad in OLD: {}", old.fault())),
        (true, true) => return Err("it is bad in both".to_owned()),
        (false, false) => {}
    }
    let paced = report.settings.rate.is_some() && name.op != CLOSED_LOOP;
    let measures: &[Measure] = if paced { &[Measure::P50, Measure::P99] } else { &[Measure::OpsPerSecond] };
    if [old, new].iter().any(|row| row.samples.is_empty()) && WITHOUT_ROUNDS.contains(&name.experiment.as_str()) {
        let experiment = &name.experiment;
        return Err(format!("{experiment} is measured once, not in rounds, so two results of it cannot be compared"));
    }
    let pair = |measure: &Measure| {
        let estimate = |row: &Row| {
            Estimate::of(&row.samples.iter().map(|sample| measure.of(sample)).collect::<Vec<f64>>()).ok_or_else(|| {
                let rounds = row.samples.len();
                format!(
                    "the samples of its {rounds} rounds are too few or empty; measure with --rounds {ROUNDS_MIN} or more"
                )
            })
        };
        let socket = old.kind == "socket";
        Ok(Pair { name: name.clone(), socket, measure: *measure, old: estimate(old)?, new: estimate(new)? })
    };
    measures.iter().map(pair).collect()
}

/// Settings that change the question.
fn check_settings(old: &Report, new: &Report) -> Result<(), UsageError> {
    let word = |value: Option<f64>| value.map_or("none".to_owned(), |value| value.to_string());
    let (was, is) = (&old.settings, &new.settings);
    let settings = [
        ("rate", word(was.rate), word(is.rate)),
        ("round trip in us", word(was.round_trip_us), word(is.round_trip_us)),
        ("churn", was.churn.to_string(), is.churn.to_string()),
        ("as published", was.as_published.to_string(), is.as_published.to_string()),
        ("processors kept awake", was.processors_awake.to_string(), is.processors_awake.to_string()),
    ];
    match settings.into_iter().find(|(_, old, new)| old != new) {
        None => Ok(()),
        Some((name, old, new)) => {
            Err(UsageError(format!("the results answer different questions: {name} is {old} in OLD and {new} in NEW")))
        }
    }
}

/// What may explain a difference, but forbids nothing.
fn notes(old: &Report, new: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let (was, is) = (&old.environment, &new.environment);
    let same_machine = (&was.cpu, was.cores, was.memory_bytes) == (&is.cpu, is.cores, is.memory_bytes);
    if !same_machine {
        notes.push(
            "the results are of different machines: what reference rows have in common is taken out, the rest stays"
                .to_owned(),
        );
    }
    notes.extend(surroundings(&[("OLD", old), ("NEW", new)]));
    notes
}

/// Why there is no comparison at all.
pub(super) fn nothing_to_compare(not_compared: &[NotCompared]) -> String {
    let reason = not_compared.first().map(|row| format!("; {} {}: {}", row.row.title(), row.row.op, row.why));
    format!("no store has a row in both results that could be compared{}", reason.unwrap_or_default())
}
