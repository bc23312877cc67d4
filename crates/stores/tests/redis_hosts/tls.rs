//! Clusters and sentinels whose servers speak TLS, to clients and to each other.

use std::path::Path;
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Sessions};
use sessile_fixtures::{RedisCluster, RedisHost, RedisSentinels};
use sessile_stores::Context;
use tempfile::TempDir;

use crate::cluster::{owner, slot_of};
use crate::setup::support::{certificate, server};
use crate::setup::{
    Alone, CALM_MS, FAILOVER_MS, WAIT, increment, key, number_of, open, or_skip, payload_of, ttl,
};

/// What the servers show, for clients that ask for these names. `None` without openssl.
fn certificate_for(names: &str) -> Option<TempDir> {
    let dir = tempfile::tempdir().unwrap();
    certificate::make(dir.path(), names).then_some(dir)
}

/// The servers also have a port without TLS, of which a client that speaks TLS must not hear.
fn cluster(certificate: &Path) -> Option<Alone<RedisCluster>> {
    let start = |_, words: &[&str]| {
        let plain = server::free_port().to_string();
        let own = ["--tls-cluster", "yes", "--port", &plain];
        RedisHost::start_tls(certificate, &[words, &own].concat())
    };
    or_skip(|| RedisCluster::start_each(3, CALM_MS, start))
}

/// The URL of servers, over TLS, that trusts the certificate of this directory.
fn encrypted(url: &str, trusted: &Path) -> String {
    let url = url.replacen("redis+", "rediss+", 1);
    format!("{url}?tls_ca_file={}", trusted.join("cert.pem").display())
}

fn refused(url: &str) -> sessile_core::Error {
    let start = Instant::now();
    let error = sessile_stores::open(url, &Context::default()).expect_err("it was let in");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    error
}

fn assert_distrusts(url: &str) {
    let error = refused(url);
    assert_eq!(error.kind(), &ErrorKind::Denied, "{error:#}");
    let told = format!("{error:#}");
    assert!(told.contains("certificates are not accepted"), "{told}");
    assert!(told.contains("tls_ca_file"), "{told}");
}

/// From the begin of a session to its end, on all servers.
fn lives(store: &Sessions) {
    for number in 0..30 {
        let (old, new) = (format!("old{number}"), format!("new{number}"));
        increment(store, &old).unwrap();
        let mut begun = store.begin(&key(&old), WAIT).unwrap();
        begun.lease.regenerate(&key(&new), Duration::from_secs(30)).unwrap();
        begun.lease.commit(b"logged in", ttl()).unwrap();
        for id in [&old, &new] {
            assert_eq!(payload_of(store, id).unwrap(), b"logged in", "{id}");
        }
        store.destroy(&key(&new)).unwrap();
        assert_eq!((payload_of(store, &old), payload_of(store, &new)), (None, None));
    }
}

#[test]
fn a_cluster_is_served_over_tls() {
    let Some(shown) = certificate_for("DNS:localhost,IP:127.0.0.1") else { return };
    let Some(other) = certificate_for("DNS:localhost,IP:127.0.0.1") else { return };
    let Some(cluster) = cluster(shown.path()) else { return };
    let store = open(&encrypted(&cluster.url(), shown.path()));
    lives(&store);
    // The servers lead to each other's port of TLS, also after a slot has moved.
    increment(&store, "a").unwrap();
    let slot = slot_of(&cluster.hosts[0], "a");
    let from = owner(&cluster, &slot);
    cluster.move_slot(&slot, from, (from + 1) % 3).unwrap();
    increment(&store, "a").unwrap();
    assert_eq!(number_of(payload_of(&store, "a")), 2);
    assert_eq!(owner(&cluster, &slot), (from + 1) % 3);
    assert_distrusts(&encrypted(&cluster.url(), other.path()));
    // Not one of the system's authorities.
    assert_distrusts(&cluster.url().replacen("redis+", "rediss+", 1));
    // Without TLS on a port that wants it.
    let error = refused(&format!("{}?response_timeout_ms=1000", cluster.url()));
    assert_eq!(error.kind(), &ErrorKind::Unreachable, "{error:#}");
}

/// The URL names hosts as the certificate does; the servers tell each other's addresses.
#[test]
fn the_certificate_must_have_the_names_that_the_cluster_tells() {
    let Some(shown) = certificate_for("DNS:localhost") else { return };
    let Some(cluster) = cluster(shown.path()) else { return };
    let url = encrypted(&cluster.url().replace("127.0.0.1", "localhost"), shown.path());
    let error = refused(&url);
    assert_eq!(error.kind(), &ErrorKind::Denied, "{error:#}");
    assert!(format!("{error:#}").contains("does not have its name"), "{error:#}");
    for host in &cluster.hosts {
        host.command(&["CONFIG", "SET", "cluster-announce-hostname", "localhost"]).unwrap();
        host.command(&["CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"]).unwrap();
    }
    crate::setup::until("all servers know the names", || {
        let told = cluster.hosts.iter().map(|host| host.command(&["CLUSTER", "SLOTS"]).unwrap());
        told.into_iter().all(|told| told.matches("localhost").count() >= 6)
    });
    lives(&open(&url));
}

#[test]
fn a_primary_behind_sentinels_is_found_over_tls_before_and_after_a_failover() {
    let Some(shown) = certificate_for("DNS:localhost,IP:127.0.0.1") else { return };
    let Some(other) = certificate_for("DNS:localhost,IP:127.0.0.1") else { return };
    let start = || RedisSentinels::start_tls(FAILOVER_MS, shown.path());
    let Some(mut set) = or_skip(start) else { return };
    let url = encrypted(&set.url(), shown.path());
    let store = open(&format!("{url}&response_timeout_ms=30000"));
    lives(&store);
    increment(&store, "a").unwrap();
    assert_distrusts(&encrypted(&set.url(), other.path()));
    let error = refused(&format!("{}?response_timeout_ms=1000", set.url()));
    assert_eq!(error.kind(), &ErrorKind::Unreachable, "{error:#}");
    let primary = set.primary().unwrap();
    set.hosts[primary].command(&["WAIT", "1", "2000"]).unwrap();
    set.hosts[primary].server.kill();
    increment(&store, "a").unwrap();
    assert_eq!(number_of(payload_of(&store, "a")), 2);
}
