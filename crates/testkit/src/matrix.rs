//! The matrix store x case, legible in a terminal: cases are rows, stores are columns.

use std::fmt::Write;

use crate::case::Case;
use crate::suite::{CaseVerdict, MatrixColumn};

pub fn count(columns: &[MatrixColumn], word: &str) -> usize {
    let verdicts = columns.iter().flat_map(|column| &column.verdicts);
    verdicts.filter(|verdict| verdict.word() == word).count()
}

pub fn draw(cases: &[Case], columns: &[MatrixColumn]) -> String {
    let wide = cases.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let mut text = format!("{:wide$}", "");
    let row = |text: &mut String, cell: &dyn Fn(&MatrixColumn) -> String| {
        for column in columns {
            let width = column.store.len().max(4);
            let _ = write!(text, "  {:^width$}", cell(column));
        }
        text.push('\n');
    };
    row(&mut text, &|column| column.store.clone());
    for (number, case) in cases.iter().enumerate() {
        let _ = write!(text, "{:.<wide$}", format!("{} ", case.name));
        row(&mut text, &|column| {
            column.verdicts.get(number).map_or("", CaseVerdict::word).to_owned()
        });
    }
    text.push_str("(- is not applicable, skip is not tried)\n");
    text
}

pub fn failures(cases: &[Case], columns: &[MatrixColumn]) -> Vec<String> {
    let mut lines = Vec::new();
    for column in columns {
        for (case, verdict) in cases.iter().zip(&column.verdicts) {
            if let CaseVerdict::Failed(why) = verdict {
                lines.push(format!("{}: {}: {why}", column.store, case.name));
            }
        }
    }
    lines
}

/// What was skipped, by store and reason, with the number of cases.
pub fn skips(columns: &[MatrixColumn]) -> Vec<String> {
    let skips_of = |column: &MatrixColumn| {
        let mut reasons = column.verdicts.iter().filter_map(|verdict| match verdict {
            CaseVerdict::Skipped(reason) => Some(reason),
            _ => None,
        });
        let reason = reasons.next()?;
        Some(format!("{}: {} cases skipped: {reason}", column.store, reasons.count() + 1))
    };
    columns.iter().filter_map(skips_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_counted_and_named() {
        let skipped = CaseVerdict::Skipped("no server".into());
        let column =
            MatrixColumn { store: "redis".into(), verdicts: vec![skipped.clone(), skipped] };
        assert_eq!(count(std::slice::from_ref(&column), "skip"), 2);
        assert_eq!(skips(&[column]), ["redis: 2 cases skipped: no server"]);
    }
}
