//! `sessile bench compare`: the ratios of two results.

use std::path::Path;

use sessile_results::Collection;
use sessile_results::compare::{Comparison, compare};

use crate::arguments::CompareArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::terminal;

pub fn run(arguments: &CompareArguments) -> CommandResult {
    let (old, new) = (read_collection(&arguments.old)?, read_collection(&arguments.new)?);
    let comparison = compare(&old, &new)
        .map_err(|error| CommandFailure::usage(format!("bench compare: {error}")))?;
    terminal::print(&comparison.to_string())?;
    judge(&comparison)
}

/// The results in a file: of one experiment, or of `bench all`.
pub fn read_collection(path: &Path) -> Result<Collection, CommandFailure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandFailure::usage(format!(
            "{shown} cannot be read: {error}; give a file that --export-json wrote"
        ))
    })?;
    Collection::from_json(&text).map_err(|error| CommandFailure::usage(format!("{shown}: {error}")))
}

pub fn judge(comparison: &Comparison) -> CommandResult {
    let faults = comparison.faults();
    if faults.is_empty() { Ok(()) } else { Err(CommandFailure::found(faults.join("; "))) }
}
