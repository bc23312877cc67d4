//! Every case on every store of the registry, and the matrix at the end.
//!
//! Arguments: store names choose columns, any other word chooses the cases whose sentence contains
//! it; `--list` prints the cases. Sets of several servers are tested only if they are named: `make
//! failovers` does. `SESSILE_STORES_AT_ONCE` sets how many stores run side by side
//! (default 2).

use std::path::PathBuf;
use std::process::ExitCode;

use sessile_testkit::Case;
use sessile_testkit::suite::{CaseVerdict, StoreUnderTest, SuiteOptions, run};
use sessile_testkit::{cases, matrix};

/// Minutes each. `crates/stores/tests/redis_hosts` has the quick tests of them.
const ONLY_IF_NAMED: &[&str] = &["redis/cluster", "redis/sentinel"];

fn main() -> ExitCode {
    // Options of the usual harness (--nocapture, --test-threads=1) mean nothing here.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let (mut tested, mut chosen) = (StoreUnderTest::all(), cases::all());
    let of_word = |store: &StoreUnderTest, word: &str| {
        store.name.split('/').next() == Some(word) || store.name == word
    };
    let (stores, sentences): (Vec<&str>, Vec<&str>) =
        words.into_iter().partition(|word| tested.iter().any(|store| of_word(store, word)));
    let is_chosen = |store: &StoreUnderTest| match stores.as_slice() {
        [] => !ONLY_IF_NAMED.contains(&store.name.as_str()),
        words => words.iter().any(|word| of_word(store, word)),
    };
    tested.retain(is_chosen);
    chosen.retain(|case| {
        sentences.is_empty() || sentences.iter().any(|word| case.name.contains(word))
    });
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    let side_by_side =
        std::env::var("SESSILE_STORES_AT_ONCE").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let options = SuiteOptions { worker: worker(), cases: chosen, side_by_side, progress };
    println!("\nconformance: {} cases on {} stores", options.cases.len(), tested.len());
    let columns = run(&options, &tested);
    println!("\n{}", matrix::draw(&options.cases, &columns));
    for failure in matrix::failures(&options.cases, &columns) {
        println!("FAILED {failure}");
    }
    let skips = matrix::skips(&columns);
    for skip in &skips {
        println!("SKIPPED {skip}");
    }
    let [passed, failed, skipped] =
        ["ok", "FAIL", "skip"].map(|word| matrix::count(&columns, word));
    let server_owed = std::env::var_os("CI").is_some() && !skips.is_empty();
    if server_owed {
        println!("CI is set: a missing server is a failure");
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 || server_owed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn worker() -> PathBuf {
    env!("CARGO_BIN_EXE_sessile-testkit-worker").into()
}

fn progress(store: &str, case: &Case, verdict: &CaseVerdict) {
    match verdict {
        CaseVerdict::Passed(time) => {
            println!("  {store:<12} ok    {:>6} ms  {}", time.as_millis(), case.name)
        }
        CaseVerdict::Failed(why) => println!("  {store:<12} FAIL             {}: {why}", case.name),
        CaseVerdict::NotApplicable(_) | CaseVerdict::Skipped(_) => {}
    }
}
