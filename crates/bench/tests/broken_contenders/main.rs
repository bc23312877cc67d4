//! A benchmark is also a test: contenders that are broken in one way each, which the harness must
//! find out.
//!
//! This program is its own worker, as the command is: started with `bench-worker` it serves.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod contender;
mod faults;
mod interruption;
mod setups;

use std::fs;
use std::process::Command;

use contender::open;
use sessile_bench::reference::AfterDeath;
use sessile_bench::worker::{Launch, serve};
use sessile_bench::{Choice, ContenderSource, Options, run_choices};
use sessile_results::{ContentAfterSave, Row, SaveOutcome};
use sessile_results::{CycleOp, Experiment, Report, Workload};

macro_rules! named {
    ($($test:path),* $(,)?) => { &[$((stringify!($test), $test as fn())),*] };
}

const WORKER: &str = "bench-worker";
const ALONE: &str = "alone";

/// Tests by name.
const TESTS: &[(&str, fn())] = named![
    updates_lost_without_a_lock_are_counted,
    no_update_is_lost_with_a_lock,
    a_forgotten_session_is_a_miss,
    a_foreign_payload_is_an_error,
    a_commit_that_writes_nothing_is_lost,
    a_create_that_stores_nothing_is_a_miss,
    a_foreign_payload_is_an_error_to_a_peek_too,
    at_a_fixed_rate_latency_counts_from_the_moment_that_was_due,
    space_is_what_the_files_take_at_the_end,
    each_size_is_verified_and_weighed,
    the_requests_of_a_workload_are_verified,
    who_is_filled_too_slowly_is_left_out_from_there_on,
    a_large_save_is_believed_only_if_it_is_there_afterwards,
    a_worker_that_dies_fails_its_row_and_no_other,
    a_store_that_is_gone_is_asked_no_more_while_it_is_filled,
    faults::a_lock_that_ends_with_its_process_passes,
    faults::an_update_that_dies_with_its_worker_is_counted_as_lost,
    faults::a_lock_that_outlives_its_holder_is_stuck,
    faults::what_the_first_to_open_a_store_does_for_all_is_in_the_time_of_each_kill,
    setups::what_the_first_of_several_setups_lost_is_told,
    setups::what_the_first_of_several_setups_did_not_create_is_told,
    setups::a_setup_that_fails_fails_its_row,
    faults::two_holders_at_once_are_an_error,
    faults::a_session_that_vanishes_is_no_secret,
];

fn main() {
    if std::env::args().nth(1).as_deref() == Some(WORKER) {
        serve(&open).unwrap();
        return;
    }
    if let Some(alone) =
        std::env::args().nth(1).filter(|word| word == ALONE).and_then(|_| std::env::args().nth(2))
    {
        interruption::TESTS.iter().filter(|(name, _)| *name == alone).for_each(|(_, test)| test());
        return;
    }
    // As of any program of tests: a part of a name chooses among them.
    let chosen = std::env::args().nth(1).filter(|word| !word.starts_with('-'));
    let is_chosen = |name: &str| chosen.as_ref().is_none_or(|it| name.contains(it));
    for (name, test) in TESTS.iter().copied().filter(|(name, _)| is_chosen(name)) {
        test();
        println!("test {name} ... ok");
    }
    // Each in a program of its own, which from then on has had its signal.
    for (name, _) in interruption::TESTS.iter().filter(|(name, _)| is_chosen(name)) {
        let status =
            Command::new(std::env::current_exe().unwrap()).args([ALONE, name]).status().unwrap();
        assert!(status.success(), "{name}: {status}");
        println!("test {name} ... ok");
    }
}

fn updates_lost_without_a_lock_are_counted() {
    // Nothing is lost while the machine is so busy that one worker works at a time.
    let lost = || {
        measure(Experiment::Contention, &["unlocked"], &[4]).iter().any(|row| row.outcome.lost > 0)
    };
    assert!((0..5).any(|_| lost()), "not one of five times");
}

fn no_update_is_lost_with_a_lock() {
    let rows = measure(Experiment::Contention, &["locked"], &[4]);
    assert!(rows.iter().all(|row| !row.is_bad() && row.figures.operations > 0), "{rows:#?}");
}

fn a_forgotten_session_is_a_miss() {
    let rows = measure(Experiment::Cycle, &["forgetful"], &[1]);
    assert!(rows[0].outcome.misses > 0 && rows[0].outcome.errors == 0, "{rows:#?}");
}

fn a_foreign_payload_is_an_error() {
    let rows = measure(Experiment::Cycle, &["confused"], &[1]);
    assert!(rows[0].outcome.errors > 0, "{rows:#?}");
    assert!(rows[0].outcome.first_error.as_deref().unwrap().contains("not what was written"));
}

fn a_commit_that_writes_nothing_is_lost() {
    let rows = measure(Experiment::Cycle, &["lazy"], &[1]);
    assert!(rows[0].outcome.lost > 0 && rows[0].outcome.errors == 0, "{rows:#?}");
}

fn a_create_that_stores_nothing_is_a_miss() {
    let rows = measure(Experiment::Ops, &["vain", "sound"], &[1]);
    let bad: Vec<(&str, &str)> = rows
        .iter()
        .filter(|row| row.outcome.misses > 0)
        .map(|row| (row.subject.store.as_str(), row.question.op.as_str()))
        .collect();
    assert_eq!(bad, [("vain", "create")], "{rows:#?}");
}

/// What `dull` acknowledges it does not store, and what `grudging` refuses it does.
fn a_large_save_is_believed_only_if_it_is_there_afterwards() {
    let nothing = Options { sessions: None, payload_bytes: None, seconds: None, ..options() };
    let rows = report(Experiment::Oversize, &["dull", "grudging", "sound"], nothing).results;
    let of = |store| rows.iter().filter(move |row| row.subject.store == store);
    let outcome = |row: &Row| {
        row.oversize.as_ref().map(|oversize| (oversize.outcome, oversize.after, oversize.silent))
    };
    assert!(
        of("dull")
            .all(|row| outcome(row) == Some((SaveOutcome::Lost, ContentAfterSave::Old, true))
                && row.outcome.lost == 2),
        "{rows:#?}"
    );
    let contradicted = Some((SaveOutcome::Contradicted, ContentAfterSave::New, false));
    assert!(
        of("grudging").all(|row| outcome(row) == contradicted && row.outcome.errors == 2),
        "{rows:#?}"
    );
    let sound = of("sound")
        .all(|row| outcome(row).is_some_and(|it| it.0 == SaveOutcome::Stored) && !row.is_bad());
    assert!(sound && of("sound").count() == 5, "{rows:#?}");
}

fn a_worker_that_dies_fails_its_row_and_no_other() {
    let rows = measure(Experiment::Cycle, &["dying", "sound"], &[1]);
    assert!(
        rows[0].outcome.failed.as_deref().unwrap().contains("ended during the measurement"),
        "{rows:#?}"
    );
    assert!(!rows[1].is_bad() && rows[1].figures.operations > 0, "{rows:#?}");
}

/// Each session of a piece was tried, and each try took as long as a client waits for a server.
/// Then one call that met SQLite's lock failed a row.
fn a_store_that_is_gone_is_asked_no_more_while_it_is_filled() {
    let rows = measure(Experiment::Cycle, &["unreachable", "full", "hesitant"], &[1]);
    let why = |row: &Row| row.outcome.failed.clone().unwrap_or_default();
    let [gone, full, hesitant] = rows.as_slice() else { panic!("{rows:#?}") };
    assert!(
        why(gone).starts_with("filling it was given up after 5 of 20 sessions: no to 5"),
        "{rows:#?}"
    );
    assert!(why(full).starts_with("1 of 20 sessions cannot be created: no to 5"), "{rows:#?}");
    assert!(!hesitant.is_bad() && hesitant.figures.operations > 0, "{rows:#?}");
}

fn a_foreign_payload_is_an_error_to_a_peek_too() {
    let ops = Some(vec![CycleOp::Cycle, CycleOp::Peek]);
    let rows = report(Experiment::Cycle, &["confused"], Options { ops, ..options() }).results;
    let bad: Vec<&str> = rows
        .iter()
        .filter(|row| row.outcome.errors > 0)
        .map(|row| row.question.op.as_str())
        .collect();
    assert_eq!(bad, ["cycle", "peek"], "{rows:#?}");
}

/// A cycle takes 2 ms and is due every 0.5 ms: whoever measured from the call would report 2 ms.
fn at_a_fixed_rate_latency_counts_from_the_moment_that_was_due() {
    let report = report(Experiment::Cycle, &["slow"], Options { rate: Some(2_000.0), ..options() });
    assert!(report.results[0].figures.latency_us.p50 > 10_000.0, "{:#?}", report.results);
    assert!(
        report.warnings.iter().any(|warning| warning.contains("did not keep up")),
        "{:?}",
        report.warnings
    );
}

fn space_is_what_the_files_take_at_the_end() {
    let rows = measure(Experiment::Cycle, &["wasteful", "sound"], &[1]);
    // 200 bytes in a block each; the wasteful one keeps 64 KiB more of each session that was
    // changed, be they few.
    assert!(rows[1].figures.bytes_per_session >= 512, "{rows:#?}");
    assert!(
        rows[0].figures.bytes_per_session >= 2 * rows[1].figures.bytes_per_session,
        "{rows:#?}"
    );
}

fn each_size_is_verified_and_weighed() {
    let (sessions, workers, fill_max) = (Some(vec![40, 10]), Some(vec![2, 1]), Some(600.0));
    let options = Options { sessions, workers, fill_max, ..options() };
    // What so few sessions add to a process can fit into what it had: then it is weighed again.
    let measured = || report(Experiment::Scale, &["locked", "forgetful"], options.clone()).results;
    let weighs = |row: &Row| row.subject.store != "locked" || row.figures.bytes_per_session > 0;
    let mut runs = (0..3).map(|_| measured());
    let whole = runs.find(|rows| rows.iter().all(weighs));
    let rows = whole.unwrap_or_else(|| panic!("in each of three runs a row weighed nothing"));
    let (good, bad): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.subject.store == "locked");
    assert_eq!((good.len(), bad.len()), (4, 4), "two sizes, one and two workers");
    for row in good {
        assert!(
            !row.is_bad() && row.figures.operations > 0 && row.figures.bytes_per_session > 0,
            "{row:#?}"
        );
        let memory = row.figures.memory.unwrap();
        assert!(
            memory.page_tables > 0 && memory.proportional > 0 && memory.prepared > 0,
            "{row:#?}"
        );
    }
    assert!(
        bad.iter().filter(|row| row.question.workers == 2).all(|row| row.outcome.misses > 0),
        "{bad:#?}"
    );
}

/// `hollow` keeps nothing that was begun under an id from 100 on: the sessions of robots, which
/// nobody asks for again.
fn the_requests_of_a_workload_are_verified() {
    let options = |workload| {
        let (sessions, payload_bytes) = (Some(vec![100]), None);
        Options { workload: Some(workload), sessions, payload_bytes, ..options() }
    };
    let rows = report(Experiment::Cycle, &["hollow", "locked"], options(Workload::Bots)).results;
    assert!(
        rows[0].outcome.misses > 0 && rows[0].outcome.errors == 0 && rows[0].outcome.lost == 0,
        "{rows:#?}"
    );
    assert!(!rows[1].is_bad() && rows[1].figures.operations > 0, "{rows:#?}");
    let facts = |row: &Row| {
        (row.question.op.clone(), row.question.workload.clone(), row.question.payload_bytes)
    };
    assert_eq!(facts(&rows[1]), ("request".to_owned(), Some("bots".to_owned()), 500));
    // Touches and changes look at what they get.
    let names = ["confused", "locked", "lazy"];
    let rows = report(Experiment::Cycle, &names, options(Workload::Shop)).results;
    assert!(
        rows[0].outcome.errors > 0 && !rows[1].is_bad() && rows[2].outcome.lost > 0,
        "{rows:#?}"
    );
    assert_eq!(rows[1].question.payload_spread, "lognormal");
}

/// 20 ms a session: 10 take 0.2 s and are tried, 100 would take twice what they may. From 60 on
/// even the first size is given up.
fn who_is_filled_too_slowly_is_left_out_from_there_on() {
    for (sizes, rows_of_slow) in [([10, 100, 200], 1), ([60, 100, 200], 0)] {
        let options = Options { sessions: Some(sizes.to_vec()), fill_max: Some(1.0), ..options() };
        let report = report(Experiment::Scale, &["sluggish", "sound"], options);
        let rows =
            |store: &str| report.results.iter().filter(|row| row.subject.store == store).count();
        // On a busy machine the sound one may be too slow at the larger sizes, too.
        assert!(rows("sluggish") == rows_of_slow && rows("sound") > 0, "{:#?}", report.results);
        assert!(report.bad_rows().next().is_none(), "{:#?}", report.results);
        let of_slow = report.left_out.iter().filter(|left| left.store == "sluggish");
        let reasons: Vec<&str> = of_slow.map(|left| left.reason.as_str()).collect();
        let first = sizes[rows_of_slow];
        assert!(
            reasons.len() == 1
                && reasons[0].contains(&format!("not with {first} sessions of 200 bytes")),
            "{reasons:?}"
        );
        let rate: f64 =
            reasons[0].split(" at ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((1.0..=50.0).contains(&rate), "{reasons:?}");
    }
}

fn measure(experiment: Experiment, names: &[&'static str], workers: &[usize]) -> Vec<Row> {
    let sessions = (experiment != Experiment::Contention).then(|| vec![20]);
    report(experiment, names, Options { workers: Some(workers.to_vec()), sessions, ..options() })
        .results
}

fn options() -> Options {
    Options {
        workers: Some(vec![1]),
        sessions: Some(vec![20]),
        payload_bytes: Some(200),
        seconds: Some(0.3),
        rounds: Some(2),
        seed: 3,
        quick: true,
        ..Options::default()
    }
}

fn report(experiment: Experiment, names: &[&'static str], options: Options) -> Report {
    let dirs: Vec<tempfile::TempDir> = names.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    let choices = names.iter().zip(&dirs).map(|(name, dir)| chosen(name, dir));
    let report = run_choices(experiment, &options, &launch(), choices.collect()).unwrap();
    check_shape(&report);
    report
}

fn launch() -> Launch {
    Launch { program: std::env::current_exe().unwrap(), arguments: vec![WORKER.into()] }
}

fn chosen(name: &'static str, dir: &tempfile::TempDir) -> Choice {
    let target = ContenderSource::Test(name, dir.path().display().to_string().leak());
    let after_death = AfterDeath::Freed;
    Choice { after_death, ..Choice::new(name, "default", String::new(), target, "none") }
}

/// The fields that bench/EXPERIMENTS.md promises, in every row.
fn check_shape(report: &Report) {
    let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    assert_eq!(json["schema"], 1);
    assert!(
        json["environment"]["cpu"].is_string()
            && json["command"].is_string()
            && json["seed"].is_u64()
    );
    let text = report.to_json().unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(host.trim().len() < 5 || !text.contains(host.trim()), "the result names the host");
    assert!(!text.contains("/tmp/"), "the result names a directory");
    for row in json["results"].as_array().unwrap() {
        for field in ["experiment", "store", "url", "variant", "op", "durability"] {
            assert!(row[field].is_string(), "{field}: {row}");
        }
        for field in [
            "workers",
            "sessions",
            "payload_bytes",
            "rounds",
            "errors",
            "misses",
            "lost",
            "bytes_per_session",
        ] {
            assert!(row[field].is_u64(), "{field}: {row}");
        }
        for (field, parts) in [
            ("ops_per_second", &["median", "low", "high"][..]),
            ("latency_us", &["min", "p50", "p90", "p99", "p999", "max"]),
            ("cpu_us_per_op", &["client", "server"]),
        ] {
            assert!(parts.iter().all(|part| row[field][part].is_number()), "{field}: {row}");
        }
        assert!(row["failed"].is_null() || row["failed"].is_string());
    }
}
