//! The verdict of `expiry`, and its table: is a stream that meets expired sessions slower at its slow end?

use std::fmt;

use comfy_table::Cell;
use serde::{Deserialize, Serialize};

use crate::histogram::Latencies;
use crate::report::Report;
use crate::report::markdown::section;
use crate::report::table::{empty, figure, keep_whole, right};

/// A slow end within this factor of the baseline's is called the same.
const SAME: f64 = 1.2;

/// How a stream with expired sessions compares with the same stream without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExpiryVerdict {
    /// Calls that met an expired session.
    pub met: u64,
    /// Of the calls themselves: what the store does.
    pub from_call: SlowEnd,
    /// From the moment when a call was due: what a visitor waits, also behind others, and for the machine.
    pub from_due: SlowEnd,
}

/// p99.9 of the three streams, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowEnd {
    /// Of the stream that met expired sessions.
    pub expired: f64,
    /// Of the first baseline.
    pub baseline_a: f64,
    /// Of the second baseline.
    pub baseline_b: f64,
    /// With expired sessions over both baselines together.
    pub ratio: f64,
    /// Whether the ratio is at most 1.2, or one of the baselines was as slow: then nothing is to be seen.
    pub same: bool,
}

impl SlowEnd {
    pub(crate) fn of(expired: &Latencies, a: &Latencies, b: &Latencies) -> SlowEnd {
        let mut both = a.clone();
        both.add(b);
        let [expired, baseline_a, baseline_b, both] = [expired, a, b, &both].map(|latencies| latencies.us(0.999));
        let ratio = if both > 0.0 { expired / both } else { 0.0 };
        let same = ratio <= SAME || expired <= baseline_a.max(baseline_b);
        SlowEnd { expired, baseline_a, baseline_b, ratio, same }
    }

    fn words(&self) -> String {
        match self {
            SlowEnd { same: false, .. } => "slower".to_owned(),
            SlowEnd { ratio, .. } if *ratio <= SAME => format!("within {SAME}"),
            SlowEnd { .. } => "within the spread".to_owned(),
        }
    }
}

impl Report {
    pub(super) fn expiry(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdicts: Vec<_> = self.results.iter().filter_map(|row| Some((row, row.expiry?))).collect();
        if verdicts.is_empty() {
            return Ok(());
        }
        let header =
            ["store", "tier", "met", "p99.9 from", "expired us", "baseline a us", "baseline b us", "ratio", "verdict"];
        let mut table = empty(&header);
        keep_whole(&mut table, &header, &["store", "p99.9 from", "verdict"]);
        for (row, verdict) in verdicts {
            for (from, end) in [("the call", verdict.from_call), ("when due", verdict.from_due)] {
                table.add_row(vec![
                    Cell::new(row.shown_title()),
                    Cell::new(&row.durability),
                    right(verdict.met),
                    Cell::new(from),
                    right(figure(end.expired)),
                    right(figure(end.baseline_a)),
                    right(figure(end.baseline_b)),
                    right(format!("{:.2}", end.ratio)),
                    Cell::new(end.words()),
                ]);
            }
        }
        section(f, "The slow end of a stream that meets expired sessions, and of two in which they never were", &table)
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
        let end = SlowEnd::of(&slow, &calm, &calm);
        assert!(!end.same && end.ratio > 50.0, "{end:?}");
        let end = SlowEnd::of(&calm, &calm, &calm);
        assert!(end.same && (end.ratio - 1.0).abs() < 0.01, "{end:?}");
    }

    #[test]
    fn a_slow_end_that_one_baseline_has_too_proves_nothing() {
        let end = SlowEnd::of(&latencies(&[900; 5]), &latencies(&[11; 5]), &latencies(&[1_000; 2]));
        assert!(end.same && end.expired < 950.0, "{end:?}");
    }
}
