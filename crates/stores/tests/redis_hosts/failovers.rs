//! `make failovers`: primaries are killed while eight workers count, and the sums are compared with
//! what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sessile_core::ErrorKind;

use crate::setup::{WAIT, failing_cluster, key, number_of, open, payload_of, ttl};

const WORKERS: usize = 8;
const INCREMENTS: usize = 2_000;
const SESSIONS: usize = 50;
const KILLS: usize = 3;
const LOCK_TTL: Duration = Duration::from_secs(5);

struct Outcome {
    acknowledged: u64,
    stored: u64,
    in_doubt: u64,
    lost: u64,
    fences_twice: u64,
    longest: Duration,
    took: Duration,
}

/// Acknowledged increments of each session, those in doubt, fences, and the longest cycle.
type Counted = (BTreeMap<String, u64>, BTreeMap<String, u64>, Vec<(String, u64)>, Duration);

fn work(url: &str) -> Counted {
    let store = open(url);
    let (mut done, mut doubt, mut fences) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut longest = Duration::ZERO;
    let (mut last, mut count) = (BTreeMap::new(), 0);
    while count < INCREMENTS {
        let id = format!("s{}", fastrand::usize(..SESSIONS));
        let start = Instant::now();
        let Ok(begun) = store.begin(&key(&id), WAIT) else {
            longest = longest.max(start.elapsed());
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let fence = begun.lease.fence();
        // Also of a lease that never commits.
        fences.push((id.clone(), fence));
        let before = last.insert(id.clone(), fence).unwrap_or(0);
        assert!(fence > before, "{id}: {before}, then {fence}");
        let number = number_of(begun.record.map(|record| record.payload));
        match begun.lease.commit(&(number + 1).to_le_bytes(), ttl()) {
            Ok(()) => {
                *done.entry(id).or_default() += 1;
                count += 1;
                // The load lasts for all of the kills.
                std::thread::sleep(Duration::from_millis(fastrand::u64(..15)));
            }
            Err(error) if *error.kind() == ErrorKind::Unreachable => {
                *doubt.entry(id).or_default() += 1;
            }
            Err(_) => {} // it was refused
        }
        longest = longest.max(start.elapsed());
    }
    (done, doubt, fences, longest)
}

fn run(options: &str) -> Option<Outcome> {
    let mut cluster = failing_cluster()?;
    let ttl = LOCK_TTL.as_millis();
    let url = format!("{}?response_timeout_ms=10000&lock_ttl_ms={ttl}{options}", cluster.url());
    let start = Instant::now();
    let counted: Vec<Counted> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| work(&url))).collect();
        for _ in 0..KILLS {
            std::thread::sleep(Duration::from_secs(2));
            let primaries = cluster.primaries();
            let victim = primaries[fastrand::usize(..primaries.len())];
            cluster.hosts[victim].server.kill();
            std::thread::sleep(Duration::from_secs(3)); // its replica takes over
            cluster.hosts[victim].server.restart().unwrap();
            cluster.wait_until_whole().unwrap();
        }
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let took = start.elapsed();
    let store = open(&url);
    let mut outcome = Outcome {
        acknowledged: 0,
        stored: 0,
        in_doubt: 0,
        lost: 0,
        fences_twice: 0,
        longest: Duration::ZERO,
        took,
    };
    let mut fences = BTreeSet::new();
    for (_, _, drawn, longest) in &counted {
        outcome.longest = outcome.longest.max(*longest);
        let twice = drawn.iter().filter(|fence| !fences.insert((*fence).clone())).count();
        outcome.fences_twice += twice as u64;
    }
    for session in 0..SESSIONS {
        let id = format!("s{session}");
        let sum = |of: fn(&Counted) -> &BTreeMap<String, u64>| -> u64 {
            counted.iter().filter_map(|counted| of(counted).get(&id)).sum()
        };
        let (done, doubt) = (sum(|counted| &counted.0), sum(|counted| &counted.1));
        let stored = number_of(payload_of(&store, &id));
        assert!(stored <= done + doubt, "{id}: {stored} stored of {done} and {doubt} in doubt");
        outcome.acknowledged += done;
        outcome.in_doubt += doubt;
        outcome.stored += stored;
        outcome.lost += done.saturating_sub(stored);
    }
    Some(outcome)
}

fn report(name: &str, outcome: &Outcome) {
    let Outcome { acknowledged, stored, in_doubt, lost, fences_twice, longest, took } = outcome;
    println!(
        "{name}: {acknowledged} acknowledged, {stored} stored, {in_doubt} failed or in doubt, at \
         least {lost} lost, {fences_twice} fences twice, longest cycle {longest:?}, {took:?}"
    );
}

#[test]
#[ignore = "takes minutes: make failovers"]
fn no_acknowledged_increment_is_lost_with_min_replicas() {
    for round in 1..=5 {
        let Some(outcome) = run("&min_replicas=1") else { return };
        report(&format!("min_replicas=1, run {round}"), &outcome);
        assert_eq!((outcome.lost, outcome.fences_twice), (0, 0));
        // What waits longest has waited for a lock of a dead holder and for a failover.
        assert!(outcome.longest < LOCK_TTL + Duration::from_secs(20), "{:?}", outcome.longest);
    }
}

#[test]
#[ignore = "takes minutes: make failovers"]
fn without_min_replicas_the_loss_is_told() {
    for round in 1..=2 {
        let Some(outcome) = run("") else { return };
        report(&format!("min_replicas=0, run {round}"), &outcome);
        assert_eq!(outcome.fences_twice, 0);
    }
}
