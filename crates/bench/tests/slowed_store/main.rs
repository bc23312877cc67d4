//! The comparison of two results, tried on real runs: a store that was slowed on purpose is found,
//! the same store is not.
//!
//! Without arguments it is a test of seconds: five times as slow must be seen on any machine. With
//! `trials [N]` (`make compare-trials`) it is twenty times the store against itself in the same
//! rounds, and against itself slowed by a tenth, on a machine that does nothing else. This program
//! is its own worker.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod contender;

use std::process::ExitCode;

use sessile_bench::worker::{Launch, serve};
use sessile_bench::{Choice, ContenderSource, Options, baseline, run_choices_with_baseline};
use sessile_results::compare::{Comparison, Interval, Verdict, compare};
use sessile_results::{Collection, Experiment};

const WORKER: &str = "bench-worker";
/// The store, unless `SESSILE_TRIAL_STORE` names another scheme that takes a directory (`files`).
const STORE: &str = "sessile";
/// Length of a sample of a trial.
const SECONDS_OF_TRIAL: f64 = 0.05;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(WORKER) => serve(&contender::open).unwrap(),
        Some("trials") => {
            let count = std::env::args().nth(2).and_then(|count| count.parse().ok());
            return trials(count.unwrap_or(20), 0.1);
        }
        _ => {
            five_times_as_slow_is_slower_in_the_same_rounds();
            both_have_the_same_processors_in_their_turns_and_are_set_up_as_often();
        }
    }
    ExitCode::SUCCESS
}

fn five_times_as_slow_is_slower_in_the_same_rounds() {
    let mut told = Vec::new();
    for seconds in [0.03, 0.06, 0.12] {
        let (old, new) = run_with_baseline(4.0, Length { seconds, rounds: 25 }, 3);
        // A sample in which a busy machine let nothing be done is no ratio.
        let (Ok(comparison), Ok(back)) = (compare(&old, &new), compare(&new, &old)) else {
            continue;
        };
        if [&comparison, &back].iter().any(|it| it.rows.is_empty()) {
            continue;
        }
        if (verdict(&comparison), verdict(&back)) == (Verdict::Slower, Verdict::Faster) {
            return println!("test five_times_as_slow_is_slower_in_the_same_rounds ... ok");
        }
        told.push(format!("{comparison}\n{back}"));
    }
    panic!("{}", told.join("\n"));
}

/// Each worker went on where it had run before, and what neighbours did to one processor was one
/// program's for many rounds.
fn both_have_the_same_processors_in_their_turns_and_are_set_up_as_often() {
    let mut told = Vec::new();
    // A busy machine may let nothing be done in a sample, and then nothing is noted.
    for seconds in [0.02, 0.1, 0.5] {
        let dirs = [(); 2].map(|()| tempfile::tempdir_in("/dev/shm").unwrap());
        let choices = pair(&dirs, 0.0);
        let options = options(Length { seconds, rounds: 25 }, 4);
        run_choices_with_baseline(Experiment::Cycle, &options, &launch(), choices).unwrap();
        let [(of_old, old), (of_new, new)] = dirs.each_ref().map(|dir| {
            let notes = std::fs::read_to_string(dir.path().join(contender::NOTES)).unwrap();
            let mut notes: Vec<(&str, &str)> =
                notes.lines().map(|line| line.split_once(' ').unwrap()).collect();
            notes.dedup(); // a busy machine makes pauses within a sample, too
            let lists: Vec<String> = notes.iter().map(|(_, list)| (*list).to_owned()).collect();
            notes.dedup_by_key(|(worker, _)| *worker);
            (notes.len(), lists)
        });
        let is_one = |list: &String| list.parse::<usize>().is_ok();
        assert!(old.iter().chain(&new).all(is_one), "one for one worker: {old:?}, {new:?}");
        assert_eq!([of_old, of_new], [5, 5], "a worker for each setup");
        let is_alone = std::thread::available_parallelism().unwrap().get() == 1;
        if old == new && (old.len() > 1 || is_alone) {
            return println!(
                "test both_have_the_same_processors_in_their_turns_and_are_set_up_as_often ... ok"
            );
        }
        told.push(format!("{old:?}\n{new:?}"));
    }
    panic!("{}", told.join("\n"));
}

/// Prints the verdict of each trial in one line. The exit code says whether all verdicts are right.
fn trials(count: u64, part: f64) -> ExitCode {
    if cfg!(debug_assertions) {
        println!("a debug build measures its own checks; use make compare-trials");
        return ExitCode::FAILURE;
    }
    let length = Length { seconds: SECONDS_OF_TRIAL, rounds: baseline::ROUNDS_AND_SECONDS.0 };
    let mut wrong = 0;
    for trial in 1..=count {
        let [same, slowed] = [(0.0, 1), (part, 2)].map(|(part, n)| {
            let (old, new) = run_with_baseline(part, length, 10 * trial + n);
            compare(&old, &new).unwrap()
        });
        let right = verdict(&same) != Verdict::Slower && verdict(&slowed) == Verdict::Slower;
        wrong += u32::from(!right);
        let word = if right { "right" } else { "WRONG" };
        println!("trial {trial:2}: {word}; the same: {}; slowed: {}", line(&same), line(&slowed));
    }
    println!("{wrong} of {count} trials went wrong");
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn interval(comparison: &Comparison) -> Interval {
    assert_eq!(comparison.rows.len(), 1, "{comparison}");
    comparison.rows[0].interval.unwrap()
}

fn verdict(comparison: &Comparison) -> Verdict {
    interval(comparison).verdict
}

fn line(comparison: &Comparison) -> String {
    let (row, interval) = (&comparison.rows[0], interval(comparison));
    format!(
        "{:?} x {:.3} ({:.3}..{:.3}, would see {:.1} %; medians {:.3})",
        interval.verdict,
        row.ratio,
        interval.low,
        interval.high,
        interval.would_see * 100.0,
        row.new / row.old,
    )
}

#[derive(Clone, Copy)]
struct Length {
    seconds: f64,
    rounds: usize,
}

/// The store, and itself slowed by a part, in the same rounds.
fn run_with_baseline(part: f64, length: Length, seed: u64) -> (Collection, Collection) {
    let dirs = [(); 2].map(|()| tempfile::tempdir_in("/dev/shm").unwrap());
    let options = options(length, seed);
    let (old, new) =
        run_choices_with_baseline(Experiment::Cycle, &options, &launch(), pair(&dirs, part))
            .unwrap();
    (old.into(), new.into())
}

fn pair(dirs: &[tempfile::TempDir; 2], part: f64) -> Vec<Choice> {
    vec![store(0.0, &dirs[0]).into_counterpart(), store(part, &dirs[1])]
}

fn options(length: Length, seed: u64) -> Options {
    Options {
        workers: Some(vec![1]),
        sessions: Some(vec![10_000]),
        seconds: Some(length.seconds),
        rounds: Some(length.rounds),
        seed,
        quick: true,
        ..Options::default()
    }
}

fn launch() -> Launch {
    Launch { program: std::env::current_exe().unwrap(), arguments: vec![WORKER.into()] }
}

fn store(part: f64, dir: &tempfile::TempDir) -> Choice {
    let store: &'static str =
        std::env::var("SESSILE_TRIAL_STORE").unwrap_or_else(|_| STORE.to_owned()).leak();
    let name: &'static str = format!("{store}+{part}").leak();
    choice(store, ContenderSource::Test(name, dir.path().display().to_string().leak()), true)
}

fn choice(store: &'static str, target: ContenderSource, creates: bool) -> Choice {
    Choice { creates, ..Choice::new(store, "default", String::new(), target, "none") }
}
