//! Two results of the same experiments against each other: which rows have become slower by more than the noise.
//!
//! It owns one invariant: "not slower" is never said of a row in which a slowdown of twice the threshold could
//! have gone unseen. bench/METHODOLOGY.md has the statistics in words. It measures nothing.

mod estimate;
mod matching;
mod runs;
mod scatter;
mod show;
mod yardstick;

use serde::Serialize;

pub use self::yardstick::Basis;
use crate::collection::Collection;
use crate::options::UsageError;
use estimate::student;
use matching::Pair;
use yardstick::{Machine, Mark};

/// Chance that all intervals together contain the truth, if rows vary from run to run by no more than is assumed.
const CONFIDENCE: f64 = 0.99;
/// Chance with which a slowdown of the size that a row "would see" is reported.
const POWER: f64 = 0.95;
/// Smallest slowdown that counts, unless told otherwise.
pub const THRESHOLD: f64 = 0.05;

/// The comparison. Its JSON form is a promise, as that of a report is.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Version of this shape.
    pub schema: u32,
    /// Smallest slowdown that counts, as a part: 0.05 is 5 %.
    pub threshold: f64,
    /// Chance that all intervals together contain the truth, if no row varies from run to run by more than its `apart`.
    pub confidence: f64,
    /// One entry for each row and measure that both results have.
    pub rows: Vec<Compared>,
    /// The rows that the machine's drift was taken from.
    pub yardstick: Vec<YardstickRow>,
    /// Rows that cannot be compared, and why.
    pub not_compared: Vec<NotCompared>,
    /// Experiments, and forms of them, of which no row can be compared, and why: those that only one side has, for example.
    pub runs_not_compared: Vec<RunNotCompared>,
    /// Experiments that are measured once, not in rounds: of their rows only those that have become bad are told.
    pub measured_once: Vec<String>,
    /// What the reader should know before believing it.
    pub notes: Vec<String>,
}

/// One row and one measure of it.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Which row.
    #[serde(flatten)]
    pub row: RowName,
    /// `ops_per_second`, `p50_us` or `p99_us`.
    pub measure: &'static str,
    /// Mean of the rounds in OLD.
    pub old: f64,
    /// Mean of the rounds in NEW.
    pub new: f64,
    /// NEW by OLD, after the machine's drift was taken out.
    pub ratio: f64,
    /// The interval of the ratio.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The smallest slowdown that would have been reported with a chance of 95 %, as a part.
    pub would_see: f64,
    /// What it is measured against.
    pub basis: Basis,
    /// Rows or stores that this is taken from.
    pub yardstick_rows: usize,
    /// Whether those rows have as many workers as this one, where they are reference rows.
    pub yardstick_same_workers: bool,
    /// By how much a row may vary from run to run beyond what its rounds show (a standard deviation, as a part) for the
    /// interval to be right: an assumption, corrected by the yardstick. 0 where several setups show it.
    pub apart: f64,
    /// So many setups in the same rounds the interval is taken from; 0 where it is taken from the rounds.
    pub setups: usize,
    /// What follows.
    pub verdict: Verdict,
}

/// What identifies a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[allow(missing_docs, reason = "the fields are those of a row of a report")]
pub struct RowName {
    pub experiment: String,
    /// Those that make it another form of its experiment: `--as-published`. Left out when there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub flags: String,
    pub store: String,
    pub variant: String,
    pub op: String,
    pub workers: usize,
    pub sessions: usize,
    pub payload_bytes: usize,
    pub payload_spread: String,
    pub durability: String,
}

/// A row of the yardstick.
#[derive(Clone, Debug, Serialize)]
pub struct YardstickRow {
    /// Which row.
    #[serde(flatten)]
    pub row: RowName,
    /// The measure.
    pub measure: &'static str,
    /// NEW by OLD as measured.
    pub ratio: f64,
}

/// A row that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    /// Which row.
    #[serde(flatten)]
    pub row: RowName,
    /// Why.
    pub why: String,
    /// Why, in a word or two.
    #[serde(skip)]
    pub reason: NoComparison,
    /// A store's row that was sound in OLD and has failures, misses or lost updates in NEW.
    pub broken: bool,
}

/// The kinds of reasons for which a row cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoComparison {
    /// Only one of the two results has it.
    NotInBoth,
    /// Something went wrong in it.
    Bad(&'static str),
    /// Its samples are too few, or empty.
    FewSamples,
}

/// An experiment, or a form of it, that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunNotCompared {
    /// Its name, with the flags that make it another form.
    pub experiment: String,
    /// Why.
    pub why: String,
}

/// What follows from the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Slower by at least the threshold, and by more than the noise.
    Slower,
    /// Faster by at least the threshold, and by more than the noise.
    Faster,
    /// Within the threshold, and a slowdown of twice the threshold would have been seen.
    Within,
    /// This pair of runs cannot tell.
    Unclear,
}

/// Compares two results, each of one experiment or of several: what is an experiment in both, row by row. `threshold` is the
/// smallest slowdown that counts, as a part.
///
/// # Errors
///
/// When no store has a row in both: nothing is an experiment in both, or the settings differ.
pub fn compare(old: &Collection, new: &Collection, threshold: f64) -> Result<Comparison, UsageError> {
    let matched = matching::matched(old, new);
    let (references, judged): (Vec<&Pair>, Vec<&Pair>) = matched.pairs.iter().partition(|pair| pair.is_reference());
    if judged.is_empty() && matched.not_compared.iter().all(|row| !row.broken) {
        return Err(UsageError(matched.nothing_to_compare()));
    }
    // All intervals of all experiments hold together: each may fail its part of the chance, in either direction.
    let tail = (1.0 - CONFIDENCE) / (2.0 * judged.len().max(1) as f64);
    let rows: Vec<Compared> = judged.iter().map(|pair| judge(pair, &matched.pairs, threshold, tail)).collect();
    let yardstick = references.iter().map(|pair| YardstickRow {
        row: pair.name.clone(),
        measure: pair.measure.name(),
        ratio: (pair.new.mean - pair.old.mean).exp(),
    });
    let mut comparison = Comparison {
        schema: 1,
        threshold,
        confidence: CONFIDENCE,
        rows,
        yardstick: yardstick.collect(),
        not_compared: matched.not_compared,
        runs_not_compared: matched.runs_not_compared,
        measured_once: matched.measured_once,
        notes: matched.notes,
    };
    comparison.add_notes();
    comparison.notes.extend(scatter::notes(&judged, &comparison.rows, comparison.runs().len()));
    Ok(comparison)
}

fn judge(pair: &Pair, all: &[Pair], threshold: f64, tail: f64) -> Compared {
    // The machine drifts while `bench all` runs: each experiment has a yardstick of its own.
    let beside = |other: &&Pair| other.measure == pair.measure && other.name.is_of_run(&pair.name);
    let marks: Vec<Mark> = all.iter().filter(beside).map(Pair::mark).collect();
    let machine = match pair.together {
        Some(_) => Machine::of_same_rounds(pair.setups > 0),
        None => Machine::for_row(&pair.name.store, pair.socket, pair.name.workers, &marks),
    };
    let found = pair.speed().less(machine.drift).less(machine.fortune);
    let reach = student(1.0 - tail, found.freedom) * found.error();
    let least = -(1.0 - threshold).ln();
    // A slowdown is reported once its estimate is beyond both; it varies around the truth by its error.
    let would_see = reach.max(least) + student(POWER, found.freedom) * found.error();
    let verdict = match found.mean {
        mean if mean <= -least && mean + reach < 0.0 => Verdict::Slower,
        mean if mean >= least && mean - reach > 0.0 => Verdict::Faster,
        mean if mean.abs() < least && 1.0 - (-would_see).exp() <= 2.0 * threshold => Verdict::Within,
        _ => Verdict::Unclear,
    };
    // Of a latency the larger is the slower.
    let sign = pair.measure.sign();
    let [low, high] = [found.mean - reach, found.mean + reach].map(|speed| (sign * speed).exp());
    Compared {
        row: pair.name.clone(),
        measure: pair.measure.name(),
        old: pair.old.mean.exp(),
        new: pair.new.mean.exp(),
        ratio: (sign * found.mean).exp(),
        low: low.min(high),
        high: low.max(high),
        would_see: 1.0 - (-would_see).exp(),
        basis: machine.basis,
        yardstick_rows: machine.voices,
        yardstick_same_workers: machine.same_workers,
        apart: machine.apart(),
        setups: pair.setups,
        verdict,
    }
}

impl RowName {
    /// Its experiment, with the flags that make it another form.
    pub fn run(&self) -> String {
        [self.experiment.as_str(), self.flags.as_str()].join(" ").trim_end().to_owned()
    }

    fn is_of_run(&self, other: &RowName) -> bool {
        (&self.experiment, &self.flags) == (&other.experiment, &other.flags)
    }
}

impl Comparison {
    /// The experiments, and forms of them, that there are rows of, in their order.
    pub fn runs(&self) -> Vec<String> {
        let rows = self.rows.iter().map(|row| &row.row);
        distinct(rows.chain(self.not_compared.iter().map(|row| &row.row)).map(RowName::run))
    }

    /// The rows that became slower.
    pub fn slower(&self) -> impl Iterator<Item = &Compared> {
        self.of(Verdict::Slower)
    }

    /// The rows of which this pair of runs cannot tell.
    pub fn unclear(&self) -> impl Iterator<Item = &Compared> {
        self.of(Verdict::Unclear)
    }

    /// The stores' rows that were sound in OLD and are bad in NEW.
    pub fn broken(&self) -> impl Iterator<Item = &NotCompared> {
        self.not_compared.iter().filter(|row| row.broken)
    }

    fn of(&self, verdict: Verdict) -> impl Iterator<Item = &Compared> {
        self.rows.iter().filter(move |row| row.verdict == verdict)
    }
}

/// Each of some words once, in their order.
fn distinct(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for word in words {
        if !known.contains(&word) {
            known.push(word);
        }
    }
    known
}
