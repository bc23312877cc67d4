//! `sessile bench`: runs an experiment and shows its result.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;

use sessile_bench::first_answer::{self, FirstAnswer};
use sessile_bench::worker::Launch;
use sessile_bench::{INTERRUPTION, Options, Profile, RunError};
use sessile_core::Durability;
use sessile_results::{Collection, Experiment, Report, Row};

use crate::arguments::{BenchArguments, ExperimentArguments, ExperimentVerb, WORKER_VERB};
use crate::bench_baseline::Baseline;
use crate::command_result::{CommandFailure, CommandResult};
use crate::{bench_all, bench_baseline, bench_setup, compare, page, result_file, terminal};

pub fn run(arguments: &BenchArguments) -> CommandResult {
    let Some(verb) = &arguments.experiment else { return first_answer(arguments.durability) };
    let (experiment, arguments): (Experiment, &dyn ExperimentArguments) = match verb {
        ExperimentVerb::Ops(arguments) => (Experiment::Ops, arguments),
        ExperimentVerb::Cycle(arguments) => (Experiment::Cycle, arguments),
        ExperimentVerb::Contention(arguments) => (Experiment::Contention, arguments),
        ExperimentVerb::Gc(arguments) => (Experiment::Gc, arguments),
        ExperimentVerb::Scale(arguments) => (Experiment::Scale, arguments),
        ExperimentVerb::Lifecycle(arguments) => (Experiment::Lifecycle, arguments),
        ExperimentVerb::Perl(arguments) => (Experiment::Languages, arguments),
        ExperimentVerb::Languages(arguments) => (Experiment::Languages, arguments),
        ExperimentVerb::Oversize(arguments) => (Experiment::Oversize, arguments),
        ExperimentVerb::Faults(arguments) => (Experiment::Faults, arguments),
        ExperimentVerb::Rebuild(arguments) => (Experiment::Rebuild, arguments),
        ExperimentVerb::All(arguments) => return bench_all::run(arguments),
        ExperimentVerb::Setup(arguments) => return bench_setup::run(arguments),
        ExperimentVerb::Compare(arguments) => return compare::run(arguments),
        ExperimentVerb::Report(arguments) => return page::run(arguments),
        ExperimentVerb::Environment => return environment(),
    };
    let run = arguments.run();
    let outputs = [&run.json, &run.markdown, &run.report].map(|path| path.as_deref());
    let baseline = arguments.baseline().and_then(|given| given.baseline.as_deref());
    let inputs = [arguments.profile(), baseline];
    check_outputs(outputs, &inputs.into_iter().flatten().collect::<Vec<&Path>>())?;
    let launch = launch()?;
    let profile = arguments.profile().map(read_profile).transpose()?;
    let mut options = Options { profile, ..arguments.options() };
    if matches!(verb, ExperimentVerb::Perl(_)) {
        options.stores = perl_alone(&options.stores)?;
    }
    if let Some(given) = arguments.baseline()
        && let Some(program) = &given.baseline
    {
        let baseline = Baseline { program, json: given.export_baseline.as_deref() };
        return bench_baseline::run(experiment, &options, &launch, outputs, &baseline);
    }
    let (report, remains) = sessile_bench::run(experiment, &options, &launch).map_err(failure)?;
    let shown = show(&report, outputs);
    drop(remains); // slow, and not part of the result
    CommandFailure::join([shown, judge(&report)])
}

/// The language of `sessile bench perl`, which has one program.
fn perl_alone(stores: &[String]) -> Result<Vec<String>, CommandFailure> {
    if stores.is_empty() {
        return Ok(vec!["perl".to_owned()]);
    }
    let why = "`bench perl` has one program; leave --stores out, or name it in `bench languages`";
    Err(CommandFailure::usage(why))
}

pub fn launch() -> Result<Launch, CommandFailure> {
    Launch::this_program(WORKER_VERB).map_err(|error| {
        CommandFailure::unavailable(format!("the program cannot find itself: {error}"))
    })
}

fn first_answer(durability: Durability) -> CommandResult {
    let options = first_answer::options(durability, command());
    let measured = sessile_bench::run(Experiment::Cycle, &options, &launch()?);
    let (report, remains) = measured.map_err(failure)?;
    let shown = terminal::print(&FirstAnswer(&report).to_string());
    drop(remains); // slow, and not part of the result
    CommandFailure::join([shown, judge(&report)])
}

/// The command line as it was given.
pub fn command() -> Vec<String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

fn environment() -> CommandResult {
    let text =
        serde_json::to_string_pretty(&sessile_bench::environment::detect(&BTreeMap::new(), &[]))
            .map_err(|error| {
                CommandFailure::unavailable(format!("this machine cannot be described: {error}"))
            })?;
    write(Path::new("-"), &format!("{text}\n"))
}

fn read_profile(path: &Path) -> Result<Profile, CommandFailure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandFailure::unavailable(format!("cannot read {}: {error}", path.display()))
    })?;
    Profile::parse(&text)
        .map_err(|why| CommandFailure::usage(format!("{} is not usable: {why}", path.display())))
}

pub fn failure(error: RunError) -> CommandFailure {
    match &error {
        RunError::Usage(_) | RunError::Nothing(_) => CommandFailure::usage(error.to_string()),
        RunError::Open(_) | RunError::Broken(_) => CommandFailure::unavailable(error.to_string()),
        RunError::Interrupted => CommandFailure::interrupted(error.to_string()),
    }
}

/// Checks before minutes of measuring that each result file can be written, and replaces none of
/// the files that are read.
pub fn check_outputs(outputs: [Option<&Path>; 3], inputs: &[&Path]) -> CommandResult {
    let named: Vec<&Path> = outputs.into_iter().flatten().collect();
    let is_read = |path: &&&Path| inputs.iter().any(|input| result_file::is_same(path, input));
    if let Some(path) = named.iter().find(is_read) {
        let why = format!("{} is read, and the result would replace it", path.display());
        return Err(CommandFailure::usage(format!("{why}; name another file")));
    }
    let is_again = |(number, path): (usize, &&Path)| {
        named.iter().skip(number + 1).any(|other| result_file::is_same(path, other))
    };
    if named.iter().enumerate().any(is_again) {
        return Err(CommandFailure::usage(
            "--export-json, --export-markdown and --report name the same file; give each its own",
        ));
    }
    for path in outputs.into_iter().flatten().filter(|path| !is_stdout(path)) {
        // Appending nothing tests the permission and keeps an existing result. An empty file made
        // by the test would look like a result if the run failed.
        let existed = path.exists();
        let opened = std::fs::File::options().append(true).create(true).open(path);
        opened.map_err(|error| unwritable(path, &error))?;
        if !existed {
            let _ = std::fs::remove_file(result_file::resolve(path));
        }
    }
    Ok(())
}

/// Writes the result files, and shows the tables unless standard output is one of the files. A
/// failed write does not stop the others.
pub fn show(report: &Report, outputs: [Option<&Path>; 3]) -> CommandResult {
    let [json, markdown, html] = outputs;
    let written = [
        json.map(|path| write_json(report, path)),
        markdown.map(|path| write(path, &report.to_markdown())),
        html.map(|path| page::write(path, &Collection::from(report.clone()))),
    ];
    let is_there = outputs.into_iter().flatten().any(is_stdout);
    let shown = (!is_there).then(|| write(Path::new("-"), &report.to_string()));
    CommandFailure::join(written.into_iter().chain([shown]).flatten())
}

pub fn write_json(report: &Report, path: &Path) -> CommandResult {
    let text = report.to_json().map_err(|error| unserializable(&error))?;
    write(path, &format!("{text}\n"))
}

/// The failure to serialize a result.
pub fn unserializable(error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::unavailable(format!("the result cannot be written: {error}"))
}

/// Writes a result to a file, as a whole or not at all, or to standard output.
pub fn write(path: &Path, text: &str) -> CommandResult {
    let written = if is_stdout(path) {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()), // as with `| head`
            written => written,
        }
    } else {
        result_file::replace(path, text)
    };
    written.map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::unavailable(format!("cannot write {}: {error}", path.display()))
}

pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails for interrupted runs and failed rows.
pub fn judge(report: &Report) -> CommandResult {
    if report.interrupted {
        let rows = report.results.len();
        let what = format!(
            "the result is incomplete: {rows} rows were measured to the end before the signal came"
        );
        return Err(CommandFailure::interrupted(format!("{INTERRUPTION}; {what}")));
    }
    let bad: Vec<String> = report.bad_rows().map(Row::in_words).collect();
    if bad.is_empty() {
        return Ok(());
    }
    let (count, all) = (bad.len(), report.results.len());
    Err(CommandFailure::measured(format!("{count} of {all} rows failed: {}", bad.join(", "))))
}
