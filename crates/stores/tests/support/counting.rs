//! Workers that count in sessions while a server is replaced by another one.
//!
//! Invariant: what each worker was told is kept apart from what is stored, and the two are compared
//! afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Sessions};
use sessile_stores::Context;

use super::{key, payload_of, ttl};

const WAIT: Duration = Duration::from_secs(60);
const WORKERS: usize = 4;
const INCREMENTS: usize = 250;
const SESSIONS: usize = 10;

/// What a worker was told.
#[derive(Default)]
pub struct Counted {
    /// Acknowledged increments, by session.
    done: BTreeMap<usize, u64>,
    doubt: BTreeMap<usize, u64>,
    /// Sessions and fences.
    fences: Vec<(usize, u64)>,
}

/// Counts in all workers, of which each opens the next of the URLs. When they have done a third,
/// `disturb` is called. It calls its argument while they cannot go on, which checks that there is
/// work left.
pub fn count(urls: &[String], disturb: impl FnOnce(&dyn Fn())) -> Vec<Counted> {
    let progress = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let progress = &progress;
        let urls = urls.iter().cycle().take(WORKERS);
        let workers: Vec<_> = urls.map(|url| scope.spawn(move || work(url, progress))).collect();
        super::patience::until("a third is done", || {
            progress.load(SeqCst) > WORKERS * INCREMENTS / 3
        });
        disturb(&|| {
            assert!(progress.load(SeqCst) < WORKERS * INCREMENTS, "nothing was left to do");
        });
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    })
}

fn work(url: &str, progress: &AtomicUsize) -> Counted {
    let store = sessile_stores::open(url, &Context::default()).unwrap();
    let mut counted = Counted::default();
    let mut count = 0;
    let start = Instant::now();
    while count < INCREMENTS {
        let session = fastrand::usize(..SESSIONS);
        let begun = match store.begin(&key(&format!("s{session}")), WAIT) {
            Ok(begun) => begun,
            Err(error) => {
                assert!(start.elapsed() < WAIT * 3, "{error:#}");
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        counted.fences.push((session, begun.lease.fence()));
        let number = number_of(begun.record.map(|record| record.payload));
        match begun.lease.commit(&(number + 1).to_le_bytes(), ttl()) {
            Ok(()) => {
                *counted.done.entry(session).or_default() += 1;
                count += 1;
                progress.fetch_add(1, SeqCst);
            }
            Err(error) if *error.kind() == ErrorKind::Unreachable => {
                *counted.doubt.entry(session).or_default() += 1;
            }
            Err(_) => {} // it was refused
        }
    }
    counted
}

fn number_of(payload: Option<Vec<u8>>) -> u64 {
    payload.map_or(0, |payload| u64::from_le_bytes(payload.try_into().unwrap()))
}

/// Everything acknowledged is stored, and nothing beyond what was in doubt.
pub fn check_nothing_is_lost(store: &Sessions, counted: &[Counted]) {
    for session in 0..SESSIONS {
        let sum = |of: fn(&Counted) -> &BTreeMap<usize, u64>| -> u64 {
            counted.iter().filter_map(|counted| of(counted).get(&session)).sum()
        };
        let (done, doubt) = (sum(|counted| &counted.done), sum(|counted| &counted.doubt));
        let stored = number_of(payload_of(store, &format!("s{session}")));
        assert!(stored >= done, "s{session}: {stored} stored of {done} acknowledged");
        assert!(stored <= done + doubt, "s{session}: {stored} of {done}, {doubt} in doubt");
    }
}

pub fn check_no_fence_comes_twice(counted: &[Counted]) {
    let (fences, mut drawn) = (counted.iter().flat_map(|counted| &counted.fences), BTreeSet::new());
    fences.for_each(|fence| assert!(drawn.insert(fence), "a fence twice: {fence:?}"));
}
