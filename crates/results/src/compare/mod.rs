//! Compares two results row by row.
//!
//! Two programs measured in the same rounds (`--baseline`) get intervals and verdicts. Of two files
//! only ratios are shown, because nothing in them tells a slower machine from a slower store.
//! bench/METHODOLOGY.md explains the statistics. Nothing is measured here.

mod estimate;
mod matching;
mod show;

use crate::UsageError;
use crate::collection::Collection;
use crate::{LatencyUs, RoundSample, Row};
pub use estimate::{
    Estimate, ROUNDS_FOR_INTERVAL, ROUNDS_OF_SETUP, are_apart, are_apart_in_pairs, student,
};

/// Probability that all intervals contain the truth.
const CONFIDENCE: f64 = 0.99;
/// Probability that a slowdown of size `would_see` is reported.
const POWER: f64 = 0.95;
/// The smallest slowdown that counts.
pub const THRESHOLD: f64 = 0.05;

#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Whether any run was measured in the same rounds.
    pub same_rounds: bool,
    pub rows: Vec<ComparedRow>,
    pub not_compared: Vec<NotCompared>,
    pub notes: Vec<String>,
}

/// One measure of a row.
#[derive(Clone, Debug)]
pub struct ComparedRow {
    /// Experiment with flags.
    pub run: String,
    /// Title and operation, with workers.
    pub place: [String; 2],
    pub measure: Measure,
    pub old: f64,
    pub new: f64,
    /// NEW divided by OLD.
    pub ratio: f64,
    /// NEW minus OLD as logarithms, from setups of the same rounds, and their number.
    difference: Option<(Estimate, usize)>,
    /// `None` of two files, and of too few setups.
    pub interval: Option<Interval>,
}

#[derive(Clone, Copy, Debug)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    /// The smallest slowdown that is reported with 95 % probability, as a fraction.
    pub would_see: f64,
    /// Number of setups that it comes from.
    pub setups: usize,
    pub verdict: Verdict,
}

/// A row, or an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCompared {
    pub what: String,
    pub why: String,
    /// Whether a store's row was sound in OLD and is bad in NEW.
    pub broken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Slower by the threshold and more than the noise.
    Slower,
    /// Faster by the threshold and more than the noise.
    Faster,
    /// Within the threshold; a slowdown of twice the threshold would have been seen.
    Within,
    /// These rounds cannot tell.
    Unclear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    OpsPerSecond,
    P50,
    P99,
}

impl Measure {
    /// 1 if larger is faster, else -1.
    fn sign(self) -> f64 {
        if self == Measure::OpsPerSecond { 1.0 } else { -1.0 }
    }

    fn of_row(self, row: &Row) -> f64 {
        let LatencyUs { p50, p99, .. } = row.figures.latency_us;
        self.of(&RoundSample {
            ops_per_second: row.figures.ops_per_second.median,
            p50_us: p50,
            p99_us: p99,
            setup: 0,
        })
    }

    fn of(self, sample: &RoundSample) -> f64 {
        match self {
            Measure::OpsPerSecond => sample.ops_per_second,
            Measure::P50 => sample.p50_us,
            Measure::P99 => sample.p99_us,
        }
    }
}

/// Fails when no row is in both results.
pub fn compare(old: &Collection, new: &Collection) -> Result<Comparison, UsageError> {
    let mut found = matching::match_rows(old, new);
    let judged = found.rows.iter().filter(|row| row.difference.is_some()).count();
    // All intervals hold together: each gets its share of the error, on either side.
    let tail = (1.0 - CONFIDENCE) / (2.0 * judged.max(1) as f64);
    for row in &mut found.rows {
        let sign = row.measure.sign();
        row.interval = row.difference.map(|(it, setups)| judge(it, setups, sign, tail));
    }
    if found.rows.is_empty() && found.not_compared.iter().all(|row| !row.broken) {
        let reason = found.not_compared.first().map(|row| format!("; {}: {}", row.what, row.why));
        return Err(UsageError(format!(
            "no row is in both results that could be compared{}",
            reason.unwrap_or_default()
        )));
    }
    Ok(found)
}

/// `sign`: 1 if larger is faster, else -1.
fn judge(found: Estimate, setups: usize, sign: f64, tail: f64) -> Interval {
    let reach = student(1.0 - tail, found.freedom) * found.error();
    let least = -(1.0 - THRESHOLD).ln();
    // A slowdown is reported when its estimate exceeds both; the estimate varies by its error.
    let would_see = reach.max(least) + student(POWER, found.freedom) * found.error();
    let would_see = 1.0 - (-would_see).exp();
    let verdict = match sign * found.mean {
        speed if speed <= -least && speed + reach < 0.0 => Verdict::Slower,
        speed if speed >= least && speed - reach > 0.0 => Verdict::Faster,
        speed if speed.abs() < least && would_see <= 2.0 * THRESHOLD => Verdict::Within,
        _ => Verdict::Unclear,
    };
    let [low, high] = [found.mean - reach, found.mean + reach].map(f64::exp);
    Interval { low, high, would_see, setups, verdict }
}

impl Comparison {
    pub fn slower(&self) -> impl Iterator<Item = &ComparedRow> {
        let is = |row: &&ComparedRow| {
            row.interval.is_some_and(|interval| interval.verdict == Verdict::Slower)
        };
        self.rows.iter().filter(is)
    }

    /// What fails a comparison: slower rows, and rows that became bad. Of two programs in the same
    /// rounds also whatever has no counterpart.
    pub fn faults(&self) -> Vec<String> {
        let slower = self.slower().map(|row| {
            format!("{} is slower ({} x {:.3})", row.title(), row.measure.name(), row.ratio)
        });
        let broken = self.not_compared.iter().filter(|row| row.broken || self.same_rounds);
        slower.chain(broken.map(|row| format!("{}: {}", row.what, row.why))).collect()
    }
}
