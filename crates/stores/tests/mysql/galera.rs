//! A cluster of two nodes that both take changes.
//!
//! The second node has more weight: it goes on alone when it loses the first, and the first one
//! does not. The first one gets its data from the second by rsync, as Debian's server can.

use std::path::Path;
use std::sync::Barrier;

use mysql::prelude::Queryable;
use sessile_core::{Begun, Durability, ErrorKind};

use crate::setup::support::counting::{check_nothing_is_lost, count};
use crate::setup::support::server::free_port;
use crate::setup::{Private, WAIT, key, open, payload_of, ttl, until};

/// Of Debian's `galera-4`, which comes with MariaDB.
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

struct Cluster {
    nodes: [Private; 2],
    ports: [u16; 2],
}

impl Cluster {
    fn start(durability: Durability) -> Option<Cluster> {
        if !Path::new(PROVIDER).exists() {
            assert!(std::env::var_os("CI").is_none(), "galera-4 is not installed");
            eprintln!("SKIPPED: galera-4 is not installed");
            return None;
        }
        let (ports, group) = ([free_port(), free_port()], [free_port(), free_port()]);
        let start = |at: usize, extra: &[&str]| {
            let words = [
                format!("--port={}", ports[at]),
                format!("--wsrep-provider={PROVIDER}"),
                format!("--wsrep-cluster-address=gcomm://127.0.0.1:{}", group[1]),
                format!("--wsrep-node-address=127.0.0.1:{}", group[at]),
                format!("--wsrep-node-name=node{at}"),
                format!("--wsrep-sst-receive-address=127.0.0.1:{}", free_port()),
                format!(
                    "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{};ist.recv_addr=\
                     127.0.0.1:{};gcache.size=16M;pc.weight={}",
                    group[at],
                    free_port(),
                    at + 1
                ),
            ];
            let always = [
                "--skip-networking=0",
                "--bind-address=127.0.0.1",
                "--binlog-format=ROW",
                "--innodb-autoinc-lock-mode=2",
                "--wsrep-on=ON",
                "--wsrep-sst-method=rsync",
            ];
            let words = words.iter().map(String::as_str).chain(always).chain(extra.iter().copied());
            Private::start_durable(durability, &words.collect::<Vec<_>>())
        };
        let second = start(1, &["--wsrep-new-cluster"])?;
        let first = start(0, &[])?;
        let cluster = Cluster { nodes: [first, second], ports };
        cluster.until_whole();
        cluster.nodes[1].run("CREATE USER shop@localhost IDENTIFIED BY ''");
        cluster.nodes[1].run("GRANT ALL ON test.* TO shop@localhost");
        Some(cluster)
    }

    fn until_whole(&self) {
        for node in &self.nodes {
            until("both nodes are in step", || {
                node.connect().is_ok()
                    && node.status("wsrep_cluster_size") == "2"
                    && node.status("wsrep_local_state") == "4"
                    && node.status("wsrep_ready") == "ON"
            });
        }
    }

    fn url(&self) -> String {
        let [first, second] = self.ports;
        format!("mysql://shop@127.0.0.1:{first},127.0.0.1:{second}/test?response_timeout_ms=20000")
    }

    /// As workers that do not agree on one node.
    fn url_of(&self, node: usize) -> String {
        format!("mysql://shop@127.0.0.1:{}/test?response_timeout_ms=20000", self.ports[node])
    }

    /// The first node loses the second, which goes on alone.
    fn isolate_first(&self) {
        self.nodes[0].run("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'");
        let [first, second] =
            [0, 1].map(|at| move || self.nodes[at].status("wsrep_cluster_status"));
        until("the first node knows", || first() != "Primary");
        until("the second goes on", || {
            second() == "Primary" && self.nodes[1].status("wsrep_cluster_size") == "1"
        });
    }

    fn connections(&self) -> [u64; 2] {
        let count = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'shop'";
        [0, 1].map(|node| self.nodes[node].number(count))
    }
}

#[test]
fn all_workers_use_the_first_node_and_come_back_to_it() {
    let Some(mut cluster) = Cluster::start(Durability::Commit) else { return };
    let (store, url) = (open(&cluster.url()).unwrap(), cluster.url());
    let save = |payload: &[u8]| {
        store.begin(&key("a"), WAIT).unwrap().lease.commit(payload, ttl()).unwrap();
    };
    save(b"one");
    assert_eq!(cluster.connections(), [1, 0]);
    cluster.nodes[0].server.stop();
    save(b"two");
    assert_eq!(payload_of(&open(&url).unwrap(), "a").unwrap(), b"two");
    cluster.nodes[0].server.restart().unwrap();
    cluster.until_whole();
    until("the first node is used again", || {
        assert_eq!(payload_of(&store, "a").unwrap(), b"two");
        cluster.connections() == [1, 0]
    });
}

/// It answers each statement with the error 1047, also after it has committed one of the same
/// message: what becomes of its leases is in doubt.
#[test]
fn a_node_that_has_lost_its_cluster_is_passed_over_and_its_leases_are_in_doubt() {
    let Some(cluster) = Cluster::start(Durability::Commit) else { return };
    let store = open(&cluster.url()).unwrap();
    store.create(&key("a"), b"before", ttl()).unwrap();
    let held = store.begin(&key("a"), WAIT).unwrap();
    cluster.isolate_first();
    let next = store.begin(&key("a"), WAIT).unwrap();
    next.lease.commit(b"after", ttl()).unwrap();
    let late = held.lease.commit(b"late", ttl()).unwrap_err();
    assert_eq!(*late.kind(), ErrorKind::Unreachable, "{late:#}");
    assert_eq!(payload_of(&store, "a").unwrap(), b"after");
    let alone = open(&cluster.url_of(0)).unwrap_err();
    assert!(*alone.kind() == ErrorKind::Unreachable && alone.to_string().contains("cluster"));
}

/// What a node has committed before it refused the rest was told as refused.
#[test]
fn no_increment_is_lost_or_made_twice_when_a_node_loses_its_cluster_under_load() {
    let Some(cluster) = Cluster::start(Durability::Second) else { return };
    let counted = count(&[cluster.url()], |check_work_is_left| {
        cluster.isolate_first();
        check_work_is_left();
    });
    check_nothing_is_lost(&open(&cluster.url()).unwrap(), &counted);
}

/// A node applies later what another one has acknowledged: visitors would see the cart of before.
#[test]
fn a_connection_to_another_node_sees_what_was_acknowledged_before() {
    let Some(cluster) = Cluster::start(Durability::Commit) else { return };
    let writer = open(&cluster.url_of(1)).unwrap();
    writer.create(&key("a"), b"before", ttl()).unwrap();
    drop(open(&cluster.url()).unwrap());
    let mut behind = cluster.nodes[0].raw();
    behind.query_drop("FLUSH TABLES WITH READ LOCK").unwrap();
    writer.begin(&key("a"), WAIT).unwrap().lease.commit(b"after", ttl()).unwrap();
    let url = cluster.url();
    let reader = std::thread::spawn(move || payload_of(&open(&url).unwrap(), "a"));
    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'shop' AND \
                   INFO = 'SELECT 1'";
    until("the reader waits", || reader.is_finished() || cluster.nodes[0].number(waiting) == 1);
    behind.query_drop("UNLOCK TABLES").unwrap();
    assert_eq!(reader.join().unwrap().unwrap(), b"after");
}

/// Named locks are known to one node only, so both get it.
#[test]
fn of_two_holders_at_two_nodes_only_one_saves() {
    for durability in [Durability::Second, Durability::Commit] {
        let Some(cluster) = Cluster::start(durability) else { return };
        let stores = [0, 1].map(|node| open(&cluster.url_of(node)).unwrap());
        let mut winners = 0;
        for round in 0..30 {
            // New sessions, then old ones.
            let id = key(&format!("s{}", round % 10));
            let held = [0, 1].map(|node| stores[node].begin(&id, WAIT).unwrap());
            let barrier = Barrier::new(2);
            let saved = std::thread::scope(|scope| {
                let save = |(node, begun): (usize, Begun)| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        let payload = format!("{round} of {node}");
                        begun.lease.commit(payload.as_bytes(), ttl()).map(|()| payload)
                    })
                };
                let workers: Vec<_> = held.into_iter().enumerate().map(save).collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
            });
            let kinds = saved.iter().filter_map(|saved| saved.as_ref().err());
            kinds.for_each(|error| assert_eq!(*error.kind(), ErrorKind::Stale, "{error:#}"));
            let saved: Vec<String> = saved.into_iter().flatten().collect();
            assert!(saved.len() <= 1, "round {round}: {saved:?}");
            winners += saved.len();
            let wanted = saved.first();
            for store in &stores {
                until("both nodes have it", || {
                    let stored = payload_of(store, &format!("s{}", round % 10));
                    wanted.is_none_or(|wanted| stored.as_deref() == Some(wanted.as_bytes()))
                });
            }
        }
        assert!(winners >= 15, "{winners} of 30 rounds");
    }
}

#[test]
fn workers_at_two_nodes_lose_no_acknowledged_commit() {
    let Some(cluster) = Cluster::start(Durability::Second) else { return };
    let counted = count(&[cluster.url_of(0), cluster.url_of(1)], |_| ());
    check_nothing_is_lost(&open(&cluster.url()).unwrap(), &counted);
}
