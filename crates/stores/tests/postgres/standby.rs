//! A primary and a standby that takes its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sessile_core::{Durability, ErrorKind, Sessions};
use sessile_fixtures::{Proxy, ServerOptions};
use sessile_stores::Context;

use crate::setup::support::payload_of;
use crate::setup::{Private, WAIT, key, ttl, until};

const WORKERS: usize = 4;
const INCREMENTS: usize = 250;
const SESSIONS: usize = 10;

struct Pair {
    primary: Private,
    standby: Private,
    /// Their ports: lists of hosts have no sockets.
    proxy: Proxy,
}

impl Pair {
    fn start() -> Option<Pair> {
        let options =
            || ServerOptions { durability: Durability::Commit, ..ServerOptions::default() };
        let primary = Private::start_with(options())?;
        let standby = primary.start_standby(&options());
        // From here on a commit is acknowledged when the standby has it, too.
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.sql("SELECT pg_reload_conf()");
        until("the standby is in step", || {
            primary.number("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")
                == 1
        });
        let proxy = primary.proxy();
        Some(Pair { primary, standby, proxy })
    }

    fn promote(&self) {
        assert_eq!(self.standby.sql("SELECT pg_promote()"), ["t"], "not within a minute");
    }

    /// The standby comes first, so that the order of the URL does not help.
    fn url(&self) -> String {
        let [standby, primary] = [&self.standby, &self.primary]
            .map(|private| self.proxy.port_before(private.server.socket()).unwrap());
        format!(
            "postgres://postgres@127.0.0.1:{standby},127.0.0.1:{primary}/postgres?\
             response_timeout_ms=20000"
        )
    }
}

fn open(url: &str) -> Sessions {
    sessile_stores::open(url, &Context::default()).unwrap()
}

fn number_of(payload: Option<Vec<u8>>) -> u64 {
    payload.map_or(0, |payload| u64::from_le_bytes(payload.try_into().unwrap()))
}

/// Acknowledged increments and those in doubt, by session, and fences.
type Counted = (BTreeMap<usize, u64>, BTreeMap<usize, u64>, Vec<(usize, u64)>);

fn work(url: &str, progress: &AtomicUsize) -> Counted {
    let store = open(url);
    let (mut done, mut doubt, mut fences) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
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
        fences.push((session, begun.lease.fence()));
        let number = number_of(begun.record.map(|record| record.payload));
        match begun.lease.commit(&(number + 1).to_le_bytes(), ttl()) {
            Ok(()) => {
                *done.entry(session).or_default() += 1;
                count += 1;
                progress.fetch_add(1, SeqCst);
            }
            Err(error) if *error.kind() == ErrorKind::Unreachable => {
                *doubt.entry(session).or_default() += 1;
            }
            Err(_) => {} // it was refused
        }
    }
    (done, doubt, fences)
}

#[test]
fn no_acknowledged_commit_is_lost_when_a_standby_is_promoted_under_load() {
    let Some(mut pair) = Pair::start() else { return };
    let (url, progress) = (pair.url(), AtomicUsize::new(0));
    let counted: Vec<Counted> = std::thread::scope(|scope| {
        let work = || scope.spawn(|| work(&url, &progress));
        let workers: Vec<_> = (0..WORKERS).map(|_| work()).collect();
        until("a third is done", || progress.load(SeqCst) > WORKERS * INCREMENTS / 3);
        pair.primary.server.kill();
        assert!(progress.load(SeqCst) < WORKERS * INCREMENTS, "nothing was left to do");
        pair.promote();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let (store, mut drawn) = (open(&url), BTreeSet::new());
    for session in 0..SESSIONS {
        let sum = |of: fn(&Counted) -> &BTreeMap<usize, u64>| -> u64 {
            counted.iter().filter_map(|counted| of(counted).get(&session)).sum()
        };
        let (done, doubt) = (sum(|counted| &counted.0), sum(|counted| &counted.1));
        let stored = number_of(payload_of(&store, &format!("s{session}")));
        assert!(stored >= done, "s{session}: {stored} stored of {done} acknowledged");
        assert!(stored <= done + doubt, "s{session}: {stored} of {done}, {doubt} in doubt");
    }
    let fences = counted.iter().flat_map(|counted| &counted.2);
    fences.for_each(|fence| assert!(drawn.insert(fence), "a fence twice: {fence:?}"));
}

#[test]
fn a_lease_of_a_primary_that_was_replaced_does_not_overwrite() {
    let Some(mut pair) = Pair::start() else { return };
    let store = open(&pair.url());
    store.create(&key("a"), b"before", ttl()).unwrap();
    let held = store.begin(&key("a"), WAIT).unwrap();
    pair.primary.server.kill();
    pair.promote();
    let next = store.begin(&key("a"), WAIT).unwrap();
    assert!(next.lease.fence() > held.lease.fence());
    next.lease.commit(b"after", ttl()).unwrap();
    let late = held.lease.commit(b"late", ttl()).unwrap_err();
    // It was sent on a connection that had broken: in doubt, and somebody else has had the lock.
    assert!(matches!(late.kind(), ErrorKind::Stale | ErrorKind::Unreachable), "{late:#}");
    assert!(format!("{late:#}").contains("another holder"), "{late:#}");
    assert_eq!(payload_of(&store, "a").unwrap(), b"after");
}

/// It is no standby, and was taken for the primary for ever.
#[test]
fn an_old_primary_that_only_reads_is_passed_over() {
    let Some(pair) = Pair::start() else { return };
    let store = open(&pair.url());
    store.create(&key("a"), b"before", ttl()).unwrap();
    pair.promote();
    pair.primary.sql("ALTER SYSTEM SET synchronous_standby_names = ''");
    pair.primary.sql("ALTER SYSTEM SET default_transaction_read_only = on");
    pair.primary.sql("SELECT pg_reload_conf()");
    until("the old primary only reads", || {
        pair.primary.sql("SHOW default_transaction_read_only") == ["on"]
    });
    let begun = store.begin(&key("a"), WAIT).unwrap();
    begun.lease.commit(b"after", ttl()).unwrap();
    assert_eq!(payload_of(&open(&pair.standby.url()), "a").unwrap(), b"after");
}

#[test]
fn a_standby_alone_is_refused_with_advice() {
    let Some(pair) = Pair::start() else { return };
    drop(sessile_stores::open(&pair.primary.url(), &Context::default()).unwrap());
    let told = sessile_stores::open(&pair.standby.url(), &Context::default()).unwrap_err();
    assert_eq!(*told.kind(), ErrorKind::Denied);
    assert!(format!("{told:#}").contains("name its primary"), "{told:#}");
}
