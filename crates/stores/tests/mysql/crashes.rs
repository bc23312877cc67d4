//! The server is killed while everybody writes: what was acknowledged is there, and nothing else
//! but what was in doubt.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sessile_core::{Durability, Sessions};

use crate::setup::{Private, WAIT, key, open, payload_of, ttl};

const WORKERS: u64 = 8;
/// Of each worker: in `make test`, and in `make storm`.
const FEW: u64 = 100;
const MANY: u64 = 2_000;
const KILLS: u64 = 2;
/// Far beyond what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Default)]
struct Tally {
    acknowledged: AtomicU64,
    /// Commits that ended with an error: done or not.
    in_doubt: AtomicU64,
    done: AtomicU64,
}

fn number(payload: &[u8]) -> u64 {
    std::str::from_utf8(payload).unwrap().parse().unwrap()
}

/// Increments until as many were acknowledged as it owes.
fn increment(store: &Sessions, tally: &Tally, mut owed: u64) {
    let deadline = Instant::now() + PATIENCE;
    while owed > 0 {
        assert!(Instant::now() < deadline, "{owed} are still owed");
        let Ok(begun) = store.begin(&key("counter"), WAIT) else { continue };
        let next = number(&begun.record.expect("the session is there").payload) + 1;
        match begun.lease.commit(next.to_string().as_bytes(), ttl()) {
            Ok(()) => {
                tally.acknowledged.fetch_add(1, Ordering::SeqCst);
                owed -= 1;
            }
            Err(_) => drop(tally.in_doubt.fetch_add(1, Ordering::SeqCst)),
        }
    }
    tally.done.fetch_add(1, Ordering::SeqCst);
}

fn survives(durability: Durability, increments: u64) {
    let Some(mut private) = Private::start_at(durability) else { return };
    private.open("").create(&key("counter"), b"0", ttl()).unwrap();
    let (url, tally) = (private.url(""), Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| increment(&open(&url).unwrap(), &tally, increments));
        }
        for kill in 1..=KILLS {
            let due = WORKERS * increments * kill / (KILLS + 1);
            let deadline = Instant::now() + PATIENCE;
            while tally.acknowledged.load(Ordering::SeqCst) < due && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(tally.done.load(Ordering::SeqCst) < WORKERS, "nobody is left to be disturbed");
            private.server.kill();
            private.server.restart().unwrap();
        }
    });
    let (acknowledged, in_doubt) = (tally.acknowledged.into_inner(), tally.in_doubt.into_inner());
    let count = number(&payload_of(&private.open(""), "counter").unwrap());
    assert_eq!(acknowledged, WORKERS * increments);
    assert!(
        (acknowledged..=acknowledged + in_doubt).contains(&count),
        "{count}: {acknowledged} + {in_doubt} in doubt"
    );
    assert!(in_doubt <= WORKERS * KILLS, "{in_doubt} commits failed in {KILLS} crashes");
}

#[test]
fn no_acknowledged_increment_is_lost_when_the_server_is_killed_and_commits_are_durable() {
    survives(Durability::Commit, FEW);
}

#[test]
#[ignore = "takes minutes; `make storm` runs it"]
fn none_of_16000_acknowledged_increments_is_lost_when_the_server_is_killed() {
    survives(Durability::Commit, MANY);
    survives(Durability::Second, MANY);
}

/// Written at each commit: enough for a crash of the server, not for a power cut. The lock is given
/// up earlier there.
#[test]
fn no_acknowledged_increment_is_lost_when_the_server_is_killed_and_commits_are_written() {
    survives(Durability::Second, FEW);
}
