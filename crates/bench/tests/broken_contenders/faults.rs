//! What `faults` must find out: the contender is whole until somebody is killed.

use sessile_bench::Options;
use sessile_results::Experiment;
use sessile_results::{Faults, Row};

use crate::{contender, options, report};

/// The rows of a holder that is killed, of writers, and of all at once.
fn kill(name: &'static str) -> [(Row, Faults); 3] {
    let options = Options { workers: Some(vec![2]), sessions: None, rounds: Some(4), ..options() };
    let report = report(Experiment::Faults, &[name], options);
    let ops: Vec<&str> = report.results.iter().map(|row| row.question.op.as_str()).collect();
    assert_eq!(ops, ["holder-killed", "writer-killed", "all-killed"], "{:#?}", report.results);
    let rows: Vec<(Row, Faults)> = report
        .results
        .iter()
        .map(|row| (row.clone(), row.faults.clone().unwrap_or_default()))
        .collect();
    rows.try_into().unwrap()
}

/// Again where chance or a busy machine had the last word, at most three times in all.
fn kill_until(name: &'static str, is_so: fn(&[(Row, Faults); 3]) -> bool) -> [(Row, Faults); 3] {
    (0..2).map(|_| kill(name)).find(is_so).unwrap_or_else(|| kill(name))
}

pub fn a_lock_that_ends_with_its_process_passes() {
    // A lock counts as stuck after a second, in which a busy machine may do something else;
    // whatever else there is to say of a row is said at once.
    let rows = kill_until("locked", |rows| {
        rows.iter().all(|row| !row.0.is_bad()) || !rows.iter().all(is_stuck_at_most)
    });
    for (row, faults) in &rows {
        assert!(!row.is_bad() && faults.kills > 0 && faults.acknowledged > 0, "{row:#?}");
        assert!(row.figures.latency_us.max > 0.0 || row.question.op == "writer-killed", "{row:#?}");
    }
    assert_eq!([rows[0].1.kills, rows[1].1.kills, rows[2].1.kills], [4, 4, 3]);
}

/// All that is wrong are locks that were stuck.
fn is_stuck_at_most((row, faults): &(Row, Faults)) -> bool {
    let others = Faults { stuck: 0, ..faults.clone() };
    row.outcome.failed.is_none()
        && row.outcome.misses + row.outcome.lost == 0
        && row.outcome.errors == faults.stuck
        && others.in_words().is_empty()
}

/// It acknowledges, and writes ten updates at a time.
pub fn an_update_that_dies_with_its_worker_is_counted_as_lost() {
    // By chance, its workers may all have written just when they were killed.
    for (row, faults) in
        kill_until("amnesic", |rows| rows.iter().all(|(_, faults)| faults.lost > 0))
    {
        assert!(
            faults.lost > 0 && faults.lost_beyond == faults.lost && row.outcome.lost == faults.lost,
            "{row:#?}"
        );
        assert!(
            row.is_bad() && faults.damaged + faults.failed + faults.sessions_lost == 0,
            "{row:#?}"
        );
        assert!(row.outcome.first_error.as_deref().unwrap().contains("acknowledged"), "{row:#?}");
    }
}

pub fn a_lock_that_outlives_its_holder_is_stuck() {
    let [(held, holder), (_, writers), _] = kill("sticky");
    assert_eq!((holder.stuck, holder.lost, held.outcome.errors), (4, 0, 4), "{held:#?}");
    assert!(held.outcome.first_error.as_deref().unwrap().contains("still held"), "{held:#?}");
    assert_eq!(writers.stuck, 0, "each has sessions of its own: {writers:#?}");
}

/// The first worker to open the store takes its time; two workers open the store after each kill.
pub fn what_the_first_to_open_a_store_does_for_all_is_in_the_time_of_each_kill() {
    let [.., (row, faults)] = kill("recovering");
    let recovery = contender::RECOVERY.as_secs_f64() * 1e6;
    assert_eq!(faults.kills, 3, "{row:#?}");
    assert!(
        row.figures.latency_us.min >= recovery && row.figures.latency_us.p50 >= recovery,
        "{row:#?}"
    );
}

/// It has no lock at all, so nobody waits for the holder.
pub fn two_holders_at_once_are_an_error() {
    let [(row, faults), ..] = kill("sound");
    assert!(
        faults.failed > 0 && faults.stuck == 0 && row.outcome.errors == faults.failed,
        "{row:#?}"
    );
    assert!(
        row.outcome.first_error.as_deref().unwrap().contains("while the first one held it"),
        "{row:#?}"
    );
}

pub fn a_session_that_vanishes_is_no_secret() {
    let [_, (writers, _), (row, faults)] = kill("evaporating");
    assert!(!writers.is_bad(), "{writers:#?}");
    assert!(
        faults.sessions_lost_beyond >= 2 && row.outcome.misses == faults.sessions_lost_beyond,
        "{row:#?}"
    );
    assert!(row.is_bad() && row.outcome.first_error.is_some(), "{row:#?}");
}
