//! The comparison as text: a table for each experiment, and what cannot be concluded.

use std::fmt;

use super::{ComparedRow, Comparison, Measure, THRESHOLD, Verdict};
use crate::grouping::grouped;
use crate::number::figure;
use crate::table::{ResultTable, TableCell, right, text};

/// Rows named for one reason.
const NAMED_MAX: usize = 12;

impl Comparison {
    fn table(&self, run: &str) -> ResultTable {
        let mut heads = vec!["store", "op", "figure", "old", "new", "new/old"];
        if self.same_rounds {
            heads.extend(["interval", "would see", ""]);
        }
        let mut table = ResultTable::new("", heads);
        self.rows.iter().filter(|row| row.run == run).for_each(|row| table.row(cells(row)));
        table
    }

    fn write_not_compared(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.not_compared.iter().map(|row| (&row.why, row.what.as_str()));
        let reasons = grouped(places);
        reasons.into_iter().try_for_each(|(why, places)| {
            let more = places.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named: Vec<&str> = places.into_iter().take(NAMED_MAX).collect();
            writeln!(f, "not compared: {}{more}: {why}", named.join(", "))
        })
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<&str> = self.rows.iter().map(|row| row.run.as_str()).collect();
        runs.dedup();
        for run in &runs {
            if runs.len() > 1 {
                writeln!(f, "== {run}")?;
            }
            writeln!(f, "{}", self.table(run))?;
        }
        self.write_not_compared(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        if self.same_rounds {
            writeln!(
                f,
                "Measured in the same rounds. All intervals hold together with 99 %, each from \
                 stores that were set up several times.\n\
                 `would see`: the smallest slowdown that is reported in 19 of 20 cases."
            )
        } else {
            writeln!(
                f,
                "These ratios contain what the machine did between the two results, often a tenth \
                 or more;\nwhich part it is they cannot tell. To know whether a program is \
                 slower, measure both\nin the same rounds: --baseline."
            )
        }
    }
}

impl ComparedRow {
    pub fn title(&self) -> String {
        format!("{}: {}", self.run, self.place.join(" "))
    }
}

impl Measure {
    pub fn name(self) -> &'static str {
        match self {
            Measure::OpsPerSecond => "per s",
            Measure::P50 => "p50 us",
            Measure::P99 => "p99 us",
        }
    }
}

fn cells(row: &ComparedRow) -> Vec<TableCell> {
    let mut cells: Vec<TableCell> = row.place.iter().map(text).collect();
    cells.push(text(row.measure.name()));
    let ratio = format!("{:.3}", row.ratio);
    cells.extend([figure(row.old), figure(row.new), ratio].map(right));
    if let Some(interval) = row.interval {
        cells.push(right(format!("{:.2}..{:.2}", interval.low, interval.high)));
        // Rounded up, so that sensitivity is not overstated.
        cells.push(right(format!("{:.0} %", (interval.would_see * 100.0).ceil())));
        cells.push(text(verdict_text(interval.verdict)));
    }
    cells
}

fn verdict_text(verdict: Verdict) -> String {
    match verdict {
        Verdict::Slower => "SLOWER".to_owned(),
        Verdict::Faster => "faster".to_owned(),
        Verdict::Within => format!("within {:.0} %", THRESHOLD * 100.0),
        Verdict::Unclear => "cannot tell".to_owned(),
    }
}
