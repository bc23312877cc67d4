//! Compares two results: which rows became slower by more than the noise.
//!
//! Invariant: a row is called not slower only if a slowdown of twice the threshold would have been
//! seen. bench/METHODOLOGY.md explains the statistics. Nothing is measured here.

mod estimate;
mod matching;
mod runs;
mod scatter;
mod show;
mod yardstick;

use serde::Serialize;

pub use self::yardstick::DriftBasis;
use crate::collection::Collection;
use crate::options::UsageError;
pub(crate) use estimate::are_apart;
use estimate::student;
use matching::RowPair;
use yardstick::{DriftEstimate, RowDifference};

/// Probability that all intervals contain the truth, if rows vary between runs as assumed.
const CONFIDENCE: f64 = 0.99;
/// Probability that a slowdown of size `would_see` is reported.
const POWER: f64 = 0.95;
/// Default for the smallest slowdown that counts.
pub const THRESHOLD: f64 = 0.05;

/// The comparison. Its JSON form is a promise.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub schema: u32,
    /// Smallest slowdown that counts: 0.05 is 5 %.
    pub threshold: f64,
    /// Probability that all intervals contain the truth, if no row varies between runs by more than
    /// its `apart`.
    pub confidence: f64,
    pub rows: Vec<ComparedRow>,
    /// The rows that show the machine's drift.
    pub yardstick: Vec<YardstickRow>,
    pub not_compared: Vec<NotCompared>,
    pub runs_not_compared: Vec<RunNotCompared>,
    /// Experiments without rounds: only rows that became bad are reported.
    pub measured_once: Vec<String>,
    pub notes: Vec<String>,
}

/// One measure of a row.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    #[serde(flatten)]
    pub row: RowName,
    /// `ops_per_second`, `p50_us` or `p99_us`.
    pub measure: &'static str,
    /// Mean of OLD's rounds.
    pub old: f64,
    /// Mean of NEW's rounds.
    pub new: f64,
    /// NEW divided by OLD, without the machine's drift.
    pub ratio: f64,
    /// Lower end of the interval of the ratio.
    pub low: f64,
    pub high: f64,
    /// The smallest slowdown that is reported with 95 % probability, as a fraction.
    pub would_see: f64,
    pub basis: DriftBasis,
    /// Number of rows or stores it comes from.
    pub yardstick_rows: usize,
    /// Whether those reference rows have as many workers as this row.
    pub yardstick_same_workers: bool,
    /// Standard deviation of a row between runs that the interval allows for, beyond its rounds: an
    /// assumption, corrected by the yardstick. 0 if several setups show it.
    pub apart: f64,
    /// Number of setups that the interval comes from; 0: rounds.
    pub setups: usize,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RowName {
    pub experiment: String,
    /// Flags of the experiment's form (`--as-published`). Left out when empty.
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

#[derive(Clone, Debug, Serialize)]
pub struct YardstickRow {
    #[serde(flatten)]
    pub row: RowName,
    pub measure: &'static str,
    /// NEW divided by OLD as measured.
    pub ratio: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    #[serde(flatten)]
    pub row: RowName,
    pub why: String,
    #[serde(skip)]
    pub reason: NotComparedReason,
    /// Whether a store's row was sound in OLD and is bad in NEW.
    pub broken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotComparedReason {
    /// Only one result has it.
    NotInBoth,
    /// It is bad in this result.
    Bad(&'static str),
    FewSamples,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunNotCompared {
    /// Experiment with flags.
    pub experiment: String,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Slower by the threshold and more than the noise.
    Slower,
    /// Faster by the threshold and more than the noise.
    Faster,
    /// Within the threshold; a slowdown of twice the threshold would have been seen.
    Within,
    /// These runs cannot tell.
    Unclear,
}

/// Compares two results row by row. `threshold`: the smallest slowdown that counts, as a fraction.
/// Fails when no store has a row in both, or the settings differ.
pub fn compare(
    old: &Collection,
    new: &Collection,
    threshold: f64,
) -> Result<Comparison, UsageError> {
    let matched = matching::match_rows(old, new);
    let (references, judged): (Vec<&RowPair>, Vec<&RowPair>) =
        matched.pairs.iter().partition(|pair| pair.is_reference());
    if judged.is_empty() && matched.not_compared.iter().all(|row| !row.broken) {
        return Err(UsageError(matched.nothing_to_compare()));
    }
    // All intervals hold together: each gets its share of the error, on either side.
    let tail = (1.0 - CONFIDENCE) / (2.0 * judged.len().max(1) as f64);
    let rows: Vec<ComparedRow> =
        judged.iter().map(|pair| judge_pair(pair, &matched.pairs, threshold, tail)).collect();
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

fn judge_pair(pair: &RowPair, all: &[RowPair], threshold: f64, tail: f64) -> ComparedRow {
    // The machine drifts during `bench all`, so each experiment has its own yardstick.
    let beside =
        |other: &&RowPair| other.measure == pair.measure && other.name.is_of_run(&pair.name);
    let marks: Vec<RowDifference> = all.iter().filter(beside).map(RowPair::mark).collect();
    let machine = match pair.together {
        Some(_) => DriftEstimate::of_same_rounds(pair.setups > 0),
        None => DriftEstimate::for_row(&pair.name.store, pair.socket, pair.name.workers, &marks),
    };
    let found = pair.speed().minus(machine.drift).minus(machine.run_variance);
    let reach = student(1.0 - tail, found.freedom) * found.error();
    let least = -(1.0 - threshold).ln();
    // A slowdown is reported when its estimate exceeds both; the estimate varies by its error.
    let would_see = reach.max(least) + student(POWER, found.freedom) * found.error();
    let verdict = match found.mean {
        mean if mean <= -least && mean + reach < 0.0 => Verdict::Slower,
        mean if mean >= least && mean - reach > 0.0 => Verdict::Faster,
        mean if mean.abs() < least && 1.0 - (-would_see).exp() <= 2.0 * threshold => {
            Verdict::Within
        }
        _ => Verdict::Unclear,
    };
    // A larger latency is slower.
    let sign = pair.measure.sign();
    let [low, high] = [found.mean - reach, found.mean + reach].map(|speed| (sign * speed).exp());
    ComparedRow {
        row: pair.name.clone(),
        measure: pair.measure.name(),
        old: pair.old.mean.exp(),
        new: pair.new.mean.exp(),
        ratio: (sign * found.mean).exp(),
        low: low.min(high),
        high: low.max(high),
        would_see: 1.0 - (-would_see).exp(),
        basis: machine.basis,
        yardstick_rows: machine.sources,
        yardstick_same_workers: machine.same_workers,
        apart: machine.apart(),
        setups: pair.setups,
        verdict,
    }
}

impl RowName {
    /// Experiment with flags.
    pub fn run(&self) -> String {
        [self.experiment.as_str(), self.flags.as_str()].join(" ").trim_end().to_owned()
    }

    fn is_of_run(&self, other: &RowName) -> bool {
        (&self.experiment, &self.flags) == (&other.experiment, &other.flags)
    }
}

impl Comparison {
    pub fn runs(&self) -> Vec<String> {
        let rows = self.rows.iter().map(|row| &row.row);
        distinct(rows.chain(self.not_compared.iter().map(|row| &row.row)).map(RowName::run))
    }

    pub fn slower(&self) -> impl Iterator<Item = &ComparedRow> {
        self.of(Verdict::Slower)
    }

    pub fn unclear(&self) -> impl Iterator<Item = &ComparedRow> {
        self.of(Verdict::Unclear)
    }

    pub fn broken(&self) -> impl Iterator<Item = &NotCompared> {
        self.not_compared.iter().filter(|row| row.broken)
    }

    fn of(&self, verdict: Verdict) -> impl Iterator<Item = &ComparedRow> {
        self.rows.iter().filter(move |row| row.verdict == verdict)
    }
}

fn distinct(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for word in words {
        if !known.contains(&word) {
            known.push(word);
        }
    }
    known
}
