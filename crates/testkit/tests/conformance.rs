//! Every case on every store of the registry, and the matrix at the end.
//!
//! Arguments: store names choose columns, any other word chooses the cases whose sentence contains it;
//! `--list` prints the cases. `SESSILE_STORES_AT_ONCE` sets how many stores run side by side (default 2).

use std::path::PathBuf;
use std::process::ExitCode;

use sessile_testkit::case::Case;
use sessile_testkit::suite::{Plan, Subject, Verdict, run};
use sessile_testkit::{cases, matrix};

fn main() -> ExitCode {
    // Options of the usual harness (--nocapture, --test-threads=1) mean nothing here.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let (mut subjects, mut chosen) = (Subject::all(), cases::all());
    let of_word = |subject: &Subject, word: &str| subject.name.split('/').next() == Some(word) || subject.name == word;
    let (stores, sentences): (Vec<&str>, Vec<&str>) =
        words.into_iter().partition(|word| subjects.iter().any(|subject| of_word(subject, word)));
    subjects.retain(|subject| stores.is_empty() || stores.iter().any(|word| of_word(subject, word)));
    chosen.retain(|case| sentences.is_empty() || sentences.iter().any(|word| case.name.contains(word)));
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    let side_by_side = std::env::var("SESSILE_STORES_AT_ONCE").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let plan = Plan { worker: worker(), cases: chosen, side_by_side, progress };
    println!("\nconformance: {} cases on {} stores", plan.cases.len(), subjects.len());
    let columns = run(&plan, &subjects);
    println!("\n{}", matrix::draw(&plan.cases, &columns));
    for failure in matrix::failures(&plan.cases, &columns) {
        println!("FAILED {failure}");
    }
    let skips = matrix::skips(&columns);
    for skip in &skips {
        println!("SKIPPED {skip}");
    }
    let totals = matrix::totals(&columns);
    let server_owed = std::env::var_os("CI").is_some() && !skips.is_empty();
    if server_owed {
        println!("CI is set: a missing server is a failure");
    }
    println!("{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.skipped);
    if totals.failed > 0 || server_owed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn worker() -> PathBuf {
    env!("CARGO_BIN_EXE_sessile-testkit-worker").into()
}

fn progress(subject: &str, case: &Case, verdict: &Verdict) {
    match verdict {
        Verdict::Passed(time) => println!("  {subject:<12} ok    {:>6} ms  {}", time.as_millis(), case.name),
        Verdict::Failed(why) => println!("  {subject:<12} FAIL             {}: {why}", case.name),
        Verdict::NotApplicable(_) | Verdict::Skipped(_) => {}
    }
}
