//! The comparison of two results, tried on real runs: a store that was slowed on purpose is found, the same store is not.
//!
//! Without arguments it is a test of seconds: twenty times as slow must be seen on any machine. With `trials` it is the
//! proof (`make compare-trials`): twenty times a run, the same again, and one of the store slowed by a tenth, on a
//! machine that does nothing else. This program is its own worker.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod contender;

use std::process::ExitCode;

use sessile_bench::compare::{Comparison, THRESHOLD, Verdict, compare};
use sessile_bench::worker::{Launch, serve};
use sessile_bench::{Choice, Collection, Experiment, Options, Target, reference, run_choices};

const WORKER: &str = "bench-worker";
/// The store, unless `SESSILE_TRIAL_STORE` names another scheme that takes a directory (`files`).
const STORE: &str = "sessile";
const REFERENCES: [&str; 3] = ["limit", "null", "lmdb"];

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(WORKER) => serve(&contender::open).unwrap(),
        Some("trials") => return trials(20, 0.1),
        _ => twenty_times_as_slow_is_slower(),
    }
    ExitCode::SUCCESS
}

fn twenty_times_as_slow_is_slower() {
    // Rounds of a machine that does something else may differ so much that nothing can be said; longer ones do less.
    let mut told = Vec::new();
    for seconds in [0.03, 0.06, 0.12] {
        let brief = |part: f64, seed: u64| run(part, Length { seconds, rounds: 9 }, seed);
        let (old, new) = (brief(0.0, 1), brief(19.0, 2));
        let comparison = compare(&old, &new, THRESHOLD).unwrap();
        let back = compare(&new, &old, THRESHOLD).unwrap();
        // A reference row that did nothing in so short a sample is no mark.
        let is_whole = comparison.yardstick.len() == REFERENCES.len();
        if is_whole && (verdict(&comparison), verdict(&back)) == (Verdict::Slower, Verdict::Faster) {
            return println!("test twenty_times_as_slow_is_slower ... ok");
        }
        told.push(format!("{comparison}\n{back}"));
    }
    panic!("{}", told.join("\n"));
}

/// What was said of the store in each trial, in one line; the exit code says whether all of it was right.
fn trials(count: u64, part: f64) -> ExitCode {
    if cfg!(debug_assertions) {
        println!("a debug build measures its own checks; use make compare-trials");
        return ExitCode::FAILURE;
    }
    let length = Length { seconds: 0.15, rounds: 25 };
    let mut wrong = 0;
    for trial in 1..=count {
        let [old, same, slowed] = [(0.0, 1), (0.0, 2), (part, 3)].map(|(part, n)| run(part, length, 10 * trial + n));
        let (same, slowed) = (compare(&old, &same, THRESHOLD).unwrap(), compare(&old, &slowed, THRESHOLD).unwrap());
        let right = verdict(&same) != Verdict::Slower && verdict(&slowed) == Verdict::Slower;
        wrong += u32::from(!right);
        let word = if right { "right" } else { "WRONG" };
        println!("trial {trial:2}: {word}; the same: {}; slowed: {}", line(&same), line(&slowed));
    }
    println!("{wrong} of {count} trials went wrong");
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn verdict(comparison: &Comparison) -> Verdict {
    assert_eq!(comparison.rows.len(), 1, "{comparison}");
    comparison.rows[0].verdict
}

fn line(comparison: &Comparison) -> String {
    let row = &comparison.rows[0];
    let marks: Vec<String> =
        comparison.yardstick.iter().map(|mark| format!("{} {:.3}", mark.row.store, mark.ratio)).collect();
    format!(
        "{:?} x {:.3} ({:.3}..{:.3}, would see {:.1} %; as measured {:.3}, {})",
        row.verdict,
        row.ratio,
        row.low,
        row.high,
        row.would_see * 100.0,
        row.new / row.old,
        marks.join(" ")
    )
}

#[derive(Clone, Copy)]
struct Length {
    seconds: f64,
    rounds: usize,
}

/// One run of the store, slowed by a part, beside the reference rows.
fn run(part: f64, length: Length, seed: u64) -> Collection {
    let store: &'static str = std::env::var("SESSILE_TRIAL_STORE").unwrap_or_else(|_| STORE.to_owned()).leak();
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let name: &'static str = format!("{store}+{part}").leak();
    let target = Target::Test(name, dir.path().display().to_string().leak());
    let mut choices = vec![choice(store, target, true)];
    choices.extend(REFERENCES.map(|name| choice(name, Target::Reference(reference::by_name(name).unwrap()), false)));
    let options = Options {
        workers: Some(vec![1]),
        sessions: Some(vec![10_000]),
        seconds: Some(length.seconds),
        rounds: Some(length.rounds),
        seed,
        quick: true,
        ..Options::default()
    };
    let launch = Launch { program: std::env::current_exe().unwrap(), arguments: vec![WORKER.into()] };
    run_choices(Experiment::Cycle, &options, &launch, choices).unwrap().into()
}

fn choice(store: &'static str, target: Target, creates: bool) -> Choice {
    Choice {
        store,
        variant: "default".to_owned(),
        shown_url: String::new(),
        target,
        over_socket: false,
        shared_by_processes: true,
        creates,
        reconnects: false,
        durability: "none",
    }
}
