//! `sessile bench all`: every experiment. Results are written after each, so that none is lost.

use std::collections::BTreeMap;
use std::path::Path;

use sessile_bench::INTERRUPTION;
use sessile_bench::all::{FinishedPart, SeriesOptions};
use sessile_results::{Collection, PartState, SeriesPart, UsageError};

use crate::arguments::AllArguments;
use crate::bench::{check_outputs, command, is_stdout, launch, unserializable, write};
use crate::command_result::{CommandFailure, CommandResult};
use crate::{compare, page, terminal};

pub fn run(arguments: &AllArguments) -> CommandResult {
    let [json, markdown, page] =
        [&arguments.json, &arguments.markdown, &arguments.report].map(|it| it.as_deref());
    if arguments.resume && json.is_some_and(is_stdout) {
        let why = "--resume and --export-json - exclude each other; name the file of the series";
        return Err(CommandFailure::usage(why));
    }
    let outputs = ResultFiles { json, markdown, page };
    check_outputs([json, markdown, page], &[])?;
    let launch = launch()?;
    let refused = |error: UsageError| CommandFailure::usage(error.to_string());
    let mut plan = series(arguments).plan().map_err(refused)?;
    if let (true, Some(path)) = (arguments.resume, json) {
        let here = sessile_bench::environment::detect(&BTreeMap::new(), &[]);
        plan = plan.resume(compare::read_collection(path)?, &here).map_err(refused)?;
    }
    match plan.experiments().join(", ") {
        rest if rest.is_empty() => eprintln!("all experiments of the series have been measured"),
        rest => eprintln!("measuring {rest}"),
    }
    let (collection, summary) = plan.run(&launch, |ended, collection| match ended {
        None => outputs.before(collection),
        Some(ended) => outputs.after(ended, collection),
    });
    let files = outputs.write(&collection, |path| !is_stdout(path));
    let rest = outputs.write(&collection, is_stdout);
    let shown = (!outputs.any(is_stdout)).then(|| terminal::print(&format!("\n{summary}")));
    let judged = judge(&collection);
    CommandFailure::join(files.into_iter().chain(rest).chain(shown).chain([judged]))
}

fn series(arguments: &AllArguments) -> SeriesOptions {
    SeriesOptions {
        stores: arguments.stores.clone(),
        only: arguments.only.clone(),
        skip: arguments.skip.clone(),
        seed: arguments.seed,
        quick: arguments.quick,
        durability: arguments.durability,
        command: command(),
    }
}

#[derive(Clone, Copy, Default)]
struct ResultFiles<'a> {
    json: Option<&'a Path>,
    markdown: Option<&'a Path>,
    page: Option<&'a Path>,
}

impl ResultFiles<'_> {
    /// Before each experiment the JSON file gets the running and the pending experiments, in case
    /// this process is killed. Before the first row the other files are written, too: old files of
    /// another run could be mistaken for this one.
    fn before(&self, collection: &Collection) {
        let results = if collection.runs.is_empty() {
            *self
        } else {
            ResultFiles { json: self.json, ..ResultFiles::default() }
        };
        if let Err(failure) =
            CommandFailure::join(results.write(collection, |path| !is_stdout(path)))
        {
            log::warn!("{}", failure.message());
        }
    }

    /// After each experiment: prints a line and writes the results so far.
    fn after(&self, ended: &FinishedPart, collection: &Collection) {
        eprintln!("{ended}");
        // A full disk may have space again after the next experiment; the last attempt counts.
        let written = self.write(collection, |path| !is_stdout(path));
        let is_kept = self.any(is_stdout) || written.iter().any(Result::is_ok);
        if let (false, Some(report), None) = (is_kept, collection.runs.last(), &ended.reason) {
            // No file has this report.
            let _ = terminal::print(&format!("\n== {}\n{report}\n", ended.title));
        }
        if let Err(failure) = CommandFailure::join(written) {
            log::warn!("{}", failure.message());
        }
    }

    /// Writes the wanted files. A failed write does not stop the others.
    fn write(
        &self,
        collection: &Collection,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Vec<CommandResult> {
        let to_json = |path| {
            write(
                path,
                &format!("{}\n", collection.to_json().map_err(|error| unserializable(&error))?),
            )
        };
        let written = [
            self.json.filter(|path| is_wanted(path)).map(to_json),
            self.markdown
                .filter(|path| is_wanted(path))
                .map(|path| write(path, &collection.to_markdown())),
            self.page.filter(|path| is_wanted(path)).map(|path| page::write(path, collection)),
        ];
        written.into_iter().flatten().collect()
    }

    fn any(&self, is: impl Fn(&Path) -> bool) -> bool {
        [self.json, self.markdown, self.page].into_iter().flatten().any(is)
    }
}

fn judge(collection: &Collection) -> CommandResult {
    let rows: usize = collection.runs.iter().map(|report| report.results.len()).sum();
    if collection.interrupted {
        let what = format!(
            "the result is incomplete: {rows} rows were measured and verified before the signal \
             came"
        );
        return Err(CommandFailure::interrupted(format!("{INTERRUPTION}; {what}")));
    }
    let broken: Vec<String> = collection.parts.iter().filter_map(broken).collect();
    let bad: Vec<String> = collection
        .runs
        .iter()
        .flat_map(|report| report.bad_rows().map(move |row| (report, row)))
        .map(|(report, row)| format!("{}: {}", report.title_of(row), row.in_words()))
        .collect();
    if rows == 0 {
        let left =
            collection.left_out.iter().map(|left| format!("{}: {}", left.experiment, left.reason));
        return Err(CommandFailure::unavailable(format!(
            "nothing was measured: {}",
            left.collect::<Vec<String>>().join("; ")
        )));
    }
    let mut found = Vec::new();
    if !bad.is_empty() {
        found.push(format!("{} of {rows} rows failed: {}", bad.len(), bad.join(", ")));
    }
    if !broken.is_empty() {
        // An experiment without a result weighs more than a bad row, and hides none.
        found.insert(0, format!("there is no result of {}", broken.join("; ")));
        return Err(CommandFailure::unavailable(found.join("; ")));
    }
    if found.is_empty() { Ok(()) } else { Err(CommandFailure::measured(found.join("; "))) }
}

fn broken(part: &SeriesPart) -> Option<String> {
    let failed = part.state == PartState::Failed;
    failed.then(|| format!("{}: {}", part.title(), part.reason.as_deref().unwrap_or("it failed")))
}

#[cfg(test)]
mod tests {
    use sessile_results::{LeftOutExperiment, Report};

    use super::*;

    /// A run that was killed in its first experiment left the page and the figures of the previous
    /// run.
    #[test]
    fn what_lies_there_of_another_run_is_replaced_before_the_first_row_and_not_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let [json, markdown, page] =
            ["all.json", "all.md", "all.html"].map(|name| dir.path().join(name));
        let outputs =
            ResultFiles { json: Some(&json), markdown: Some(&markdown), page: Some(&page) };
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let stale = || [&markdown, &page].map(|path| std::fs::write(path, "of yesterday").unwrap());
        stale();
        let (experiment, flags, reason) =
            ("cycle".to_owned(), String::new(), "not measured yet".to_owned());
        let part = SeriesPart {
            experiment: experiment.clone(),
            flags,
            state: PartState::Running,
            reason: None,
        };
        let left_out = vec![LeftOutExperiment { experiment, reason }];
        let mut collection = Collection { parts: vec![part], left_out, ..Collection::default() };
        outputs.before(&collection);
        assert!(read(&page).contains("has not come to its end"));
        assert_eq!(read(&markdown), "- not here: cycle: not measured yet\n");

        // After the first row they are written only when an experiment ends.
        stale();
        collection.runs.push(Report { command: "sessile bench all".into(), ..Report::default() });
        outputs.before(&collection);
        assert!([&markdown, &page].into_iter().all(|path| read(path) == "of yesterday"));
        assert!(read(&json).contains("sessile bench all"));
    }
}
