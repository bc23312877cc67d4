//! The matrix store x case, legible in a terminal: cases are rows, stores are columns.

use std::fmt::Write;

use crate::case::Case;
use crate::suite::{Column, Verdict};

/// How often each verdict was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sentences that hold.
    pub passed: usize,
    /// Sentences that do not.
    pub failed: usize,
    /// Sentences that could not be tried.
    pub skipped: usize,
    /// Sentences that are not about the store.
    pub not_applicable: usize,
}

/// Counts the verdicts.
pub fn totals(columns: &[Column]) -> Totals {
    let mut totals = Totals::default();
    for verdict in columns.iter().flat_map(|column| &column.verdicts) {
        match verdict {
            Verdict::Passed(_) => totals.passed += 1,
            Verdict::Failed(_) => totals.failed += 1,
            Verdict::Skipped(_) => totals.skipped += 1,
            Verdict::NotApplicable(_) => totals.not_applicable += 1,
        }
    }
    totals
}

/// Draws the matrix.
pub fn draw(cases: &[Case], columns: &[Column]) -> String {
    let mut text = String::new();
    let wide = cases.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let heads: Vec<(&Column, usize)> = columns.iter().map(|column| (column, column.subject.len().max(4))).collect();
    let _ = write!(text, "{:wide$}", "");
    for (column, width) in &heads {
        let _ = write!(text, "  {:^width$}", column.subject);
    }
    text.push('\n');
    for (row, case) in cases.iter().enumerate() {
        let _ = write!(text, "{:.<wide$}", format!("{} ", case.name));
        for (column, width) in &heads {
            let _ = write!(text, "  {:^width$}", column.verdicts.get(row).map_or("", cell));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "(- is not applicable, skip is not tried)");
    text
}

/// The failures, one a line with its reason.
pub fn failures(cases: &[Case], columns: &[Column]) -> Vec<String> {
    let of = |column: &Column| -> Vec<String> {
        let failed = cases.iter().zip(&column.verdicts).filter_map(|(case, verdict)| match verdict {
            Verdict::Failed(why) => Some(format!("{}: {}: {why}", column.subject, case.name)),
            _ => None,
        });
        failed.collect()
    };
    columns.iter().flat_map(of).collect()
}

/// What was skipped, by store and reason, with the number of cases.
pub fn skips(columns: &[Column]) -> Vec<String> {
    let of = |column: &Column| {
        let mut reasons = column.verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Skipped(reason) => Some(reason),
            _ => None,
        });
        let reason = reasons.next()?;
        Some(format!("{}: {} cases skipped: {reason}", column.subject, reasons.count() + 1))
    };
    columns.iter().filter_map(of).collect()
}

/// The word for a verdict.
pub fn cell(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Passed(_) => "ok",
        Verdict::Failed(_) => "FAIL",
        Verdict::NotApplicable(_) => "-",
        Verdict::Skipped(_) => "skip",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_counted_and_named() {
        let skipped = Verdict::Skipped("no server".into());
        let column = Column { subject: "redis".into(), verdicts: vec![skipped.clone(), skipped] };
        assert_eq!(totals(std::slice::from_ref(&column)).skipped, 2);
        assert_eq!(skips(&[column]), ["redis: 2 cases skipped: no server"]);
    }
}
