//! `--report` and `sessile bench report`: results as one HTML page.

use std::path::{Path, PathBuf};

use sessile_results::Collection;
use sessile_stores::registry::STORES;

use crate::arguments::PageArguments;
use crate::command_result::CommandResult;
use crate::{bench, compare};

pub fn run(arguments: &PageArguments) -> CommandResult {
    let inputs: Vec<&Path> = arguments.results.iter().map(PathBuf::as_path).collect();
    bench::check_outputs([Some(&arguments.output), None, None], &inputs)?;
    let mut results = Collection::default();
    for path in &arguments.results {
        let Collection { runs, left_out, interrupted, parts, .. } = compare::read_collection(path)?;
        results.runs.extend(runs);
        results.left_out.extend(left_out);
        results.parts.extend(parts);
        results.interrupted |= interrupted;
    }
    write(&arguments.output, &results)
}

pub fn write(path: &Path, results: &Collection) -> CommandResult {
    bench::write(path, &sessile_report::html(results, STORES))
}
