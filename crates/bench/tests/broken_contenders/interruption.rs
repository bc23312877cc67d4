//! What a signal leaves of a run: rounds that were whole and could be verified, and nothing else.

use sessile_bench::Options;
use sessile_results::{Experiment, Report};

use crate::{options, report};

pub const TESTS: &[(&str, fn())] = &[
    ("an_interrupt_keeps_the_contenders_that_were_measured_to_the_end", of_contenders_in_a_row),
    ("an_interrupt_keeps_the_rounds_of_cycle_that_were_whole", of_rounds_of_cycle),
    ("an_interrupt_keeps_the_rounds_of_contention_that_were_whole", of_rounds_of_contention),
    ("an_interrupt_keeps_created_sessions_that_are_there", of_rounds_of_ops),
    ("what_was_lost_before_an_interrupt_is_told", of_lost_updates),
    ("what_cannot_be_verified_after_an_interrupt_is_left_out", of_what_cannot_be_verified),
];

/// More than fit in before `interrupting-later` has made its 150 calls, each of which takes 2 ms at
/// least.
const ROUNDS: usize = 60;
/// So short that it does not make them in the first round.
const SECONDS: f64 = 0.15;

fn interrupted(experiment: Experiment, names: &[&'static str], workers: usize) -> Report {
    let sessions = (experiment != Experiment::Contention).then(|| vec![20]);
    let options = Options {
        workers: Some(vec![workers]),
        sessions,
        rounds: Some(ROUNDS),
        seconds: Some(SECONDS),
        ..options()
    };
    let report = report(experiment, names, options);
    let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    assert_eq!(json["interrupted"], true, "{json:#}");
    assert!(report.to_string().contains("interrupted"), "{report}");
    report
}

/// All rows are of the same whole rounds.
fn check_rounds(report: &Report) {
    let rounds: Vec<usize> = report.results.iter().map(|row| row.figures.rounds).collect();
    assert!(rounds.iter().all(|it| (1..ROUNDS).contains(it) && *it == rounds[0]), "{rounds:?}");
    for row in &report.results {
        assert!(
            row.figures.samples.len() == row.figures.rounds && row.figures.operations > 0,
            "{row:#?}"
        );
    }
    assert!(
        (report.settings.confidence - (1.0 - 0.5f64.powi(rounds[0] as i32 - 1))).abs() < 1e-9,
        "{rounds:?}"
    );
}

fn of_contenders_in_a_row() {
    // Five sizes in twenty rounds: more commits than the 50 after which the second one interrupts.
    let (workers, sessions, payload_bytes, seconds) = (None, None, None, None);
    let options =
        Options { workers, sessions, payload_bytes, seconds, rounds: Some(20), ..options() };
    let report = report(Experiment::Oversize, &["sound", "interrupting", "dull"], options);
    let stores: Vec<&str> = report.results.iter().map(|row| row.subject.store.as_str()).collect();
    assert_eq!(stores, ["sound"; 5], "{:#?}", report.results);
    assert!(report.results.iter().all(|row| !row.is_bad()), "{:#?}", report.results);
    assert!(report.interrupted && report.to_string().contains("interrupted"), "{report}");
}

fn of_rounds_of_cycle() {
    // Several, so that the one that interrupts is hardly ever the last one of its round.
    let report = interrupted(
        Experiment::Cycle,
        &["sound", "slow", "locked", "unlocked", "interrupting-later"],
        1,
    );
    assert_eq!(report.results.len(), 5, "{:#?}", report.results);
    assert!(report.results.iter().all(|row| !row.is_bad()), "{:#?}", report.results);
    check_rounds(&report);
}

fn of_rounds_of_contention() {
    let report = interrupted(Experiment::Contention, &["locked", "interrupting-later"], 2);
    assert_eq!(report.results.len(), 4, "{:#?}", report.results);
    assert!(
        report.results.iter().filter(|row| row.subject.store == "locked").all(|row| !row.is_bad()),
        "{:#?}",
        report.results
    );
    check_rounds(&report);
    let waits = report
        .results
        .iter()
        .filter_map(|row| Some((row.figures.waits?.begins, row.figures.operations)));
    assert!(
        waits.clone().count() == 2
            && waits.clone().all(|(begins, operations)| begins == operations)
    );
}

fn of_rounds_of_ops() {
    let report = interrupted(Experiment::Ops, &["sound", "vain", "interrupting-later"], 1);
    assert_eq!(report.results.len(), 9, "{:#?}", report.results);
    let bad: Vec<(&str, &str)> = report
        .bad_rows()
        .map(|row| (row.subject.store.as_str(), row.question.op.as_str()))
        .collect();
    assert_eq!(bad, [("vain", "create")], "{:#?}", report.results);
}

fn of_lost_updates() {
    let report = interrupted(Experiment::Cycle, &["lazy", "interrupting-later"], 1);
    let lost: Vec<(&str, bool)> = report
        .results
        .iter()
        .map(|row| (row.subject.store.as_str(), row.outcome.lost > 0))
        .collect();
    assert_eq!(lost, [("lazy", true), ("interrupting-later", false)], "{:#?}", report.results);
}

/// It also ends at once on a second signal, which this one sends while it is verified.
fn of_what_cannot_be_verified() {
    let start = std::time::Instant::now();
    let report = interrupted(Experiment::Cycle, &["frozen", "interrupting-later"], 1);
    assert!(start.elapsed().as_secs() < 55, "it waited for the worker");
    let stores: Vec<&str> = report.results.iter().map(|row| row.subject.store.as_str()).collect();
    assert_eq!(stores, ["interrupting-later"], "{:#?}", report.results);
    let left: Vec<(&str, bool)> = report
        .left_out
        .iter()
        .map(|it| (it.store.as_str(), it.reason.contains("not verified")))
        .collect();
    assert_eq!(left, [("frozen", true)], "{:?}", report.left_out);
}
