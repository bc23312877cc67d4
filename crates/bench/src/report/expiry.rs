//! The verdict and table of `expiry`: do expired sessions make the tail latency of a stream worse?

use std::fmt;

use comfy_table::Cell;
use serde::{Deserialize, Serialize};

use crate::histogram::Latencies;
use crate::report::Report;
use crate::report::markdown::write_section;
use crate::report::table::{new_table, right_aligned, three_digits, widen};

/// A tail within this factor of the baseline's is called the same.
const SAME: f64 = 1.2;

/// A stream with expired sessions compared with streams without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExpiryVerdict {
    /// Calls that met an expired session.
    pub met: u64,
    /// From the start of the call: the store's time.
    pub from_call: TailComparison,
    /// From the moment the call was due: what a visitor waits.
    pub from_due: TailComparison,
}

/// p99.9 of three streams, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TailComparison {
    /// The stream with expired sessions.
    pub expired: f64,
    pub baseline_a: f64,
    pub baseline_b: f64,
    /// Expired over both baselines together.
    pub ratio: f64,
    /// Whether the ratio is at most 1.2, or one of the baselines was as slow.
    pub same: bool,
}

impl TailComparison {
    pub(crate) fn new(expired: &Latencies, a: &Latencies, b: &Latencies) -> TailComparison {
        let mut both = a.clone();
        both.add(b);
        let [expired, baseline_a, baseline_b, both] =
            [expired, a, b, &both].map(|latencies| latencies.us(0.999));
        let ratio = if both > 0.0 { expired / both } else { 0.0 };
        let same = ratio <= SAME || expired <= baseline_a.max(baseline_b);
        TailComparison { expired, baseline_a, baseline_b, ratio, same }
    }

    fn words(&self) -> String {
        match self {
            TailComparison { same: false, .. } => "slower".to_owned(),
            TailComparison { ratio, .. } if *ratio <= SAME => format!("within {SAME}"),
            TailComparison { .. } => "within the spread".to_owned(),
        }
    }
}

impl Report {
    pub(super) fn expiry(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdicts: Vec<_> =
            self.results.iter().filter_map(|row| Some((row, row.expiry?))).collect();
        if verdicts.is_empty() {
            return Ok(());
        }
        let header = [
            "store",
            "tier",
            "met",
            "p99.9 from",
            "expired us",
            "baseline a us",
            "baseline b us",
            "ratio",
            "verdict",
        ];
        let mut table = new_table(&header);
        widen(&mut table, &header, &["store", "p99.9 from", "verdict"]);
        for (row, verdict) in verdicts {
            for (from, end) in [("the call", verdict.from_call), ("when due", verdict.from_due)] {
                table.add_row(vec![
                    Cell::new(row.shown_title()),
                    Cell::new(&row.durability),
                    right_aligned(verdict.met),
                    Cell::new(from),
                    right_aligned(three_digits(end.expired)),
                    right_aligned(three_digits(end.baseline_a)),
                    right_aligned(three_digits(end.baseline_b)),
                    right_aligned(format!("{:.2}", end.ratio)),
                    Cell::new(end.words()),
                ]);
            }
        }
        write_section(
            f,
            "The slow end of a stream that meets expired sessions, and of two in which they never \
             were",
            &table,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 fast calls, and some that are slow.
    fn latencies(slow: &[u64]) -> Latencies {
        let mut latencies = Latencies::new();
        (0..1_000).for_each(|_| latencies.record(10_000));
        slow.iter().for_each(|us| latencies.record(us * 1_000));
        latencies
    }

    #[test]
    fn a_slow_end_that_the_baselines_do_not_have_is_told() {
        let (calm, slow) = (latencies(&[11; 5]), latencies(&[900; 5]));
        let end = TailComparison::new(&slow, &calm, &calm);
        assert!(!end.same && end.ratio > 50.0, "{end:?}");
        let end = TailComparison::new(&calm, &calm, &calm);
        assert!(end.same && (end.ratio - 1.0).abs() < 0.01, "{end:?}");
    }

    #[test]
    fn a_slow_end_that_one_baseline_has_too_proves_nothing() {
        let end = TailComparison::new(
            &latencies(&[900; 5]),
            &latencies(&[11; 5]),
            &latencies(&[1_000; 2]),
        );
        assert!(end.same && end.expired < 950.0, "{end:?}");
    }
}
