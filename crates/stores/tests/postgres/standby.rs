//! A primary and a standby that takes its place.

use std::slice;

use sessile_core::{Durability, ErrorKind, Sessions};
use sessile_fixtures::{Proxy, ServerOptions};
use sessile_stores::Context;

use crate::setup::support::counting::{check_no_fence_comes_twice, check_nothing_is_lost, count};
use crate::setup::support::payload_of;
use crate::setup::{Private, WAIT, key, ttl, until};

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

#[test]
fn no_acknowledged_commit_is_lost_when_a_standby_is_promoted_under_load() {
    let Some(mut pair) = Pair::start() else { return };
    let url = pair.url();
    let counted = count(slice::from_ref(&url), |check_work_is_left| {
        pair.primary.server.kill();
        check_work_is_left();
        pair.promote();
    });
    check_nothing_is_lost(&open(&url), &counted);
    check_no_fence_comes_twice(&counted);
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
