//! `sessile bench compare`: two results against each other, with an exit code for scripts.

use std::path::Path;

use sessile_bench::Collection;
use sessile_bench::compare::{Comparison, NoComparison, RowName, compare};

use crate::arguments::CompareArguments;
use crate::outcome::{Failure, Outcome};
use crate::terminal;

/// Compares, shows, and judges.
pub fn run(arguments: &CompareArguments) -> Outcome {
    let (old, new) = (read_collection(&arguments.old)?, read_collection(&arguments.new)?);
    let comparison =
        compare(&old, &new, arguments.threshold).map_err(|error| Failure::usage(format!("bench compare: {error}")))?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&comparison)
            .map_err(|error| Failure::unavailable(format!("the comparison cannot be written: {error}")))?;
        terminal::print(&format!("{text}\n"))?;
    } else {
        terminal::print(&comparison.to_string())?;
    }
    judge(&comparison, arguments.strict)
}

/// The results in a file: of one experiment, or of `bench all`.
pub fn read_collection(path: &Path) -> Result<Collection, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{shown} cannot be read: {error}; give a file that --json wrote")))?;
    Collection::from_json(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")))
}

/// A row that is slower, or bad in NEW, is a failure of the command.
pub fn judge(comparison: &Comparison, strict: bool) -> Outcome {
    let several = comparison.runs().len() > 1;
    let named = |row: &RowName| {
        let run = if several { format!("{}: ", row.run()) } else { String::new() };
        format!("{run}{} {} at {}", row.title(), row.operation(), row.workers)
    };
    let mut found: Vec<String> = Vec::new();
    let mut add = |what: &str, rows: Vec<String>| {
        if !rows.is_empty() {
            found.push(format!("{} {what}: {}", rows.len(), rows.join(", ")));
        }
    };
    let slower = comparison.slower();
    add("slower", slower.map(|row| format!("{} ({} x {:.3})", named(&row.row), row.measure, row.ratio)).collect());
    add("bad in NEW", comparison.broken().map(|row| named(&row.row)).collect());
    if strict {
        add("cannot be judged", comparison.unclear().map(|row| named(&row.row)).collect());
        let mut others: Vec<(String, Vec<String>)> = Vec::new();
        for row in comparison.not_compared.iter().filter(|row| !row.broken) {
            let what = not_compared(row.reason);
            match others.iter_mut().find(|(known, _)| *known == what) {
                Some((_, rows)) => rows.push(named(&row.row)),
                None => others.push((what, vec![named(&row.row)])),
            }
        }
        others.into_iter().for_each(|(what, rows)| add(&what, rows));
        let runs = comparison.runs_not_compared.iter();
        add("not compared at all", runs.map(|run| run.experiment.clone()).collect());
    }
    if found.is_empty() { Ok(()) } else { Err(Failure::found(found.join("; "))) }
}

/// Where both sides were to have the same rows, one that has nothing to be held against was not compared as it was asked for.
pub fn judge_missing(comparison: &Comparison) -> Outcome {
    let missing = comparison.not_compared.iter().filter(|row| !row.broken);
    let rows =
        missing.map(|row| format!("{} {} at {}: {}", row.row.title(), row.row.operation(), row.row.workers, row.why));
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() {
        Ok(())
    } else {
        Err(Failure::found(format!("{} not compared: {}", rows.len(), rows.join("; "))))
    }
}

fn not_compared(reason: NoComparison) -> String {
    match reason {
        NoComparison::NotInBoth => "not in both".to_owned(),
        NoComparison::Bad(sides) => format!("cannot be compared (bad in {sides})"),
        NoComparison::FewSamples => "cannot be compared (too few or empty samples)".to_owned(),
    }
}
