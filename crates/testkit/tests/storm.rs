//! A short storm over every store whose locks end with their process, and over broken ones, which
//! must fail it.
//!
//! `make storm` runs the long one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Mutex, PoisonError};

use sessile_testkit::StoreFault;
use sessile_testkit::storm::{self, StormOptions, StormReport, StormTarget};

/// Storms measure times: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn storm(target: &StormTarget, seconds: f64) -> StormReport {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let options = StormOptions {
        program: env!("CARGO_BIN_EXE_sessile-storm").into(),
        seconds,
        seed: fastrand::u64(..),
        processes: 6,
        kills_per_second: 15.0,
        stops_per_second: 10.0,
        // A lock that is stuck is stuck for seconds; 200 ms are for machines that do nothing else.
        stuck_ms_max: 1_000,
    };
    let report = storm::run(&options, target)
        .unwrap_or_else(|failure| panic!("{}: {failure:?}", target.name));
    println!("{report}\n");
    report
}

#[test]
fn a_short_storm_passes_over_every_store_whose_locks_end_with_their_process() {
    let fixtures = StormTarget::fixtures();
    assert!(!fixtures.is_empty(), "no store is tried");
    for fixture in fixtures {
        let report = storm(&StormTarget::parse(&fixture).unwrap(), 3.0);
        assert_eq!(report.exit_code(), 0, "{report}");
        assert_eq!(report.json()["passed"], true);
    }
}

/// What each fault must be called. A storm that passes a broken store proves nothing about a good
/// one.
#[test]
fn a_storm_over_a_broken_store_names_the_promise_that_is_broken() {
    let faults = [
        (StoreFault::LostWrite, "an acknowledged write is lost"),
        (StoreFault::StealsFromLiving, "two held the lock at once"),
        (StoreFault::LockOutlivesHolder, "the lock of a dead holder was stuck"),
        (StoreFault::ResurrectedByCommit, "a destroyed session is back"),
        (StoreFault::TornByCrash, "torn bytes"),
        (StoreFault::LostUpdates, "the fence 1 does not grow"),
    ];
    for (fault, words) in faults {
        // Chance decides how soon a fault shows; a second is usually enough, on a busy machine a
        // few are.
        let named = (1..=8).any(|seconds| {
            let report =
                storm(&StormTarget::broken(fault, "files#shm").unwrap(), f64::from(seconds));
            let told = report.json()["told"].to_string().contains(words);
            assert!(!told || report.exit_code() == 1, "{} passes", fault.name());
            told
        });
        assert!(named, "{}: {words:?} is never told", fault.name());
    }
}

/// With one lock for all sessions, a holder that is stopped stalls every other process.
#[test]
fn one_stopped_process_stalls_the_sessions_of_others_on_a_broken_store_only() {
    let share = |target: &StormTarget| {
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let program = env!("CARGO_BIN_EXE_sessile-storm").as_ref();
        let result = storm::stop_one(program, target, 4, 0.4, 6).unwrap();
        println!("{result}\n");
        (result.json()["during_stops"]["share_below_10_ms"].as_f64().unwrap(), result.exit_code())
    };
    let (stalled, code) = share(&StormTarget::broken(StoreFault::GlobalLock, "files#shm").unwrap());
    assert!(stalled < 0.9 && code == 1, "{stalled}, {code}");
    // The bar of 99.9 % is for a machine that does nothing else.
    // The best of several, since one that is busy has whole windows in which everybody is late.
    let mut shares = (0..6).map(|_| share(&StormTarget::parse("files#shm").unwrap()).0);
    let best = shares.by_ref().find(|share| *share > 0.95);
    assert!(best.is_some(), "six times at most 95 % of the cycles were in time");
}

#[test]
fn a_storm_in_which_nothing_happens_is_void() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let options = StormOptions {
        program: env!("CARGO_BIN_EXE_sessile-storm").into(),
        seconds: 0.5,
        seed: 1,
        processes: 2,
        kills_per_second: 0.0,
        stops_per_second: 0.0,
        stuck_ms_max: 1_000,
    };
    let report = storm::run(&options, &StormTarget::parse("files#shm").unwrap()).unwrap();
    assert_eq!((report.problems(), report.exit_code()), (0, 4), "{report}");
}
