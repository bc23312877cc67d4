//! `sessile bench cycle --baseline PROGRAM`: compares two programs in the same rounds.

use std::path::Path;

use sessile_bench::Options;
use sessile_bench::worker::Launch;
use sessile_results::{Collection, Experiment, Report};

use crate::arguments::WORKER_VERB;
use crate::command_result::{CommandFailure, CommandResult};
use crate::{bench, compare, result_file, terminal};

pub struct Baseline<'a> {
    pub program: &'a Path,
    /// Where its result is written.
    pub json: Option<&'a Path>,
}

/// Measures both programs, writes the result files, shows the comparison and judges by it.
pub fn run(
    experiment: Experiment,
    options: &Options,
    launch: &Launch,
    outputs: [Option<&Path>; 3],
    baseline: &Baseline<'_>,
) -> CommandResult {
    let is_taken =
        |path| outputs.into_iter().flatten().any(|other| result_file::is_same(path, other));
    if baseline.json.is_some_and(|path| is_taken(path) || bench::is_stdout(path)) {
        return Err(CommandFailure::usage("--export-baseline needs a file of its own"));
    }
    bench::check_outputs([baseline.json, None, None], &[baseline.program])?;
    let its = Launch { program: baseline.program.to_owned(), arguments: vec![WORKER_VERB.into()] };
    let (old, new) = sessile_bench::run_with_baseline(experiment, options, launch, &its)
        .map_err(bench::failure)?;
    let written = [
        baseline.json.map_or(Ok(()), |path| bench::write_json(&old, path)),
        bench::show(&new, outputs),
    ];
    let is_shown = !outputs.into_iter().flatten().any(bench::is_stdout);
    CommandFailure::join(written.into_iter().chain([judge(old, new, is_shown)]))
}

fn judge(old: Report, new: Report, is_shown: bool) -> CommandResult {
    let of_new = bench::judge(&new);
    match sessile_results::compare::compare(&Collection::from(old), &Collection::from(new)) {
        Ok(comparison) => {
            let shown = if is_shown { terminal::print(&format!("\n{comparison}")) } else { Ok(()) };
            CommandFailure::join([of_new, shown, compare::judge(&comparison)])
        }
        Err(error) => CommandFailure::join([
            of_new,
            Err(CommandFailure::usage(format!("nothing can be compared: {error}"))),
        ]),
    }
}
