//! Mistakes on purpose in what is written, synced and believed, one at a time: the laboratory finds
//! each, and nothing in the same histories without it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::fault_of;
use super::plan::Plan;
use crate::memory::{Mutation, with_mutation};

/// Histories that are tried in search of one mistake.
const HISTORIES_MAX: u64 = 100;
/// A slow machine does not try longer.
const TIME_MAX: Duration = Duration::from_secs(300);

/// The seed of a history that finds it soon. Should the engine or the laboratory have changed so
/// that it does not any more, those after it are tried.
fn first_seed(mutation: Mutation) -> u64 {
    use Mutation::*;
    match mutation {
        CheckUnseen | BinUnsynced | JoinsSyncUnderWay => 4,
        ChecksumUnseen | TornCounts | FirstTouchWins => 5,
        SealsUnsynced => 6,
        NeverDue | TrustsStarter => 7,
        SwapsBeforeSync | TombstoneAfterSwap => 23,
        FailedSyncCounts | WritesNothingAgain => 27,
        ForgetsRefused => 29,
        _ => 2,
    }
}

/// A seed with which it is found, and how long that takes.
fn hunt(mutation: Mutation) -> Option<(u64, Duration)> {
    let (start, first) = (Instant::now(), first_seed(mutation));
    (first..first + HISTORIES_MAX).take_while(|_| start.elapsed() < TIME_MAX).find_map(|seed| {
        let (began, until) = (Instant::now(), start.checked_add(TIME_MAX));
        let plan = Plan { until, mutation: Some(mutation), ..Plan::drawn(seed) };
        let found = with_mutation(mutation, || fault_of(&plan));
        let said = found?.lines().next().unwrap_or_default().to_owned();
        println!("{mutation:?}: seed {seed}, {:.0?}: {said:.120}", began.elapsed());
        Some((seed, began.elapsed()))
    })
}

#[test]
fn each_mistake_on_purpose_is_found_and_nothing_without_it() {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(mutation) = Mutation::OF_POWER_CUTS.get(next.fetch_add(1, SeqCst)) {
                    let Some((seed, took)) = hunt(*mutation) else {
                        missed.lock().unwrap().push(*mutation);
                        continue;
                    };
                    let until = Instant::now().checked_add(took * 2);
                    let honest = fault_of(&Plan { until, ..Plan::drawn(seed) });
                    assert_eq!(honest, None, "seed {seed} without a mistake");
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "the laboratory misses {missed:?}");
}
