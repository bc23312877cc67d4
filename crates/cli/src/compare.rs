//! `sessile bench compare`: compares two results, with an exit code for scripts.

use std::path::Path;

use sessile_bench::Collection;
use sessile_bench::compare::{Comparison, NotComparedReason, RowName, compare};

use crate::arguments::CompareArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::terminal;

pub fn run(arguments: &CompareArguments) -> CommandResult {
    let (old, new) = (read_collection(&arguments.old)?, read_collection(&arguments.new)?);
    let comparison = compare(&old, &new, arguments.threshold)
        .map_err(|error| CommandFailure::usage(format!("bench compare: {error}")))?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&comparison).map_err(|error| {
            CommandFailure::unavailable(format!("the comparison cannot be written: {error}"))
        })?;
        terminal::print(&format!("{text}\n"))?;
    } else {
        terminal::print(&comparison.to_string())?;
    }
    judge(&comparison, arguments.strict)
}

/// The results in a file: of one experiment, or of `bench all`.
pub fn read_collection(path: &Path) -> Result<Collection, CommandFailure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandFailure::usage(format!(
            "{shown} cannot be read: {error}; give a file that --json wrote"
        ))
    })?;
    Collection::from_json(&text).map_err(|error| CommandFailure::usage(format!("{shown}: {error}")))
}

/// Fails for rows that are slower, or bad in NEW.
pub fn judge(comparison: &Comparison, strict: bool) -> CommandResult {
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
    add(
        "slower",
        slower
            .map(|row| format!("{} ({} x {:.3})", named(&row.row), row.measure, row.ratio))
            .collect(),
    );
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
    if found.is_empty() { Ok(()) } else { Err(CommandFailure::found(found.join("; "))) }
}

/// Fails for rows without a counterpart, where both sides should have the same rows.
pub fn judge_missing(comparison: &Comparison) -> CommandResult {
    let missing = comparison.not_compared.iter().filter(|row| !row.broken);
    let rows = missing.map(|row| {
        format!("{} {} at {}: {}", row.row.title(), row.row.operation(), row.row.workers, row.why)
    });
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() {
        Ok(())
    } else {
        Err(CommandFailure::found(format!("{} not compared: {}", rows.len(), rows.join("; "))))
    }
}

fn not_compared(reason: NotComparedReason) -> String {
    match reason {
        NotComparedReason::NotInBoth => "not in both".to_owned(),
        NotComparedReason::Bad(sides) => format!("cannot be compared (bad in {sides})"),
        NotComparedReason::FewSamples => "cannot be compared (too few or empty samples)".to_owned(),
    }
}
