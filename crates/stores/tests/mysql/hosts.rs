//! Two servers in one URL: a primary, and a replica that takes its place.

use std::slice;

use sessile_core::{Durability, ErrorKind, Owner, Sessions};

use crate::setup::support::counting::{check_no_fence_comes_twice, check_nothing_is_lost, count};
use crate::setup::support::server::free_port;
use crate::setup::{Private, WAIT, key, open, payload_of, ttl, until};

struct Pair {
    primary: Private,
    replica: Private,
    /// In this order.
    ports: [u16; 2],
}

impl Pair {
    fn start() -> Option<Pair> {
        let ports = [free_port(), free_port()];
        let start = |number: usize| {
            let [id, port] =
                [format!("--server-id={}", number + 1), format!("--port={}", ports[number])];
            let words = [
                &id,
                &port,
                "--skip-networking=0",
                "--bind-address=127.0.0.1",
                "--log-bin=log",
                "--log-slave-updates",
                "--rpl-semi-sync-slave-enabled=1",
                "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
                "--rpl-semi-sync-master-timeout=60000",
            ];
            Private::start_durable(Durability::Commit, &words)
        };
        let pair = Pair { primary: start(0)?, replica: start(1)?, ports };
        pair.replica.run(&format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', \
             MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
            ports[0]
        ));
        pair.replica.run("SET GLOBAL read_only = 1");
        pair.replica.run("START SLAVE");
        // From here on a commit is acknowledged when the replica has it, too.
        pair.primary.run("SET GLOBAL rpl_semi_sync_master_enabled = 1");
        until("the replica is in step", || {
            pair.primary.status("Rpl_semi_sync_master_clients") == "1"
        });
        pair.primary.run("CREATE USER shop@localhost IDENTIFIED BY ''");
        pair.primary.run("GRANT ALL ON test.* TO shop@localhost");
        pair.catch_up();
        Some(pair)
    }

    /// The replica comes first, so that the order of the URL does not help.
    fn url(&self, options: &str) -> String {
        let [primary, replica] = self.ports;
        format!("mysql://shop@127.0.0.1:{replica},127.0.0.1:{primary}/test?{options}")
    }

    /// The replica has applied what it has received.
    fn catch_up(&self) {
        until("the replica has what the primary has", || {
            let received = self.replica.slave("Gtid_IO_Pos");
            received == self.replica.text("SELECT @@gtid_slave_pos")
                && (!self.primary_lives()
                    || received == self.primary.text("SELECT @@gtid_binlog_pos"))
        });
    }

    fn primary_lives(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.primary.server.socket()).is_ok()
    }

    /// As an operator promotes a replica.
    fn promote(&self) {
        self.catch_up();
        self.replica.run("STOP SLAVE");
        self.replica.run("RESET SLAVE ALL");
        self.replica.run("SET GLOBAL read_only = 0");
    }
}

#[test]
fn no_acknowledged_commit_is_lost_when_a_primary_is_made_read_only_under_load() {
    let Some(pair) = Pair::start() else { return };
    let url = pair.url("response_timeout_ms=20000");
    let counted = count(slice::from_ref(&url), |check_work_is_left| {
        pair.primary.run("SET GLOBAL read_only = 1");
        check_work_is_left();
        pair.promote();
    });
    check_nothing_is_lost(&open(&url).unwrap(), &counted);
    check_nothing_is_lost(&pair.replica.open(""), &counted);
    check_no_fence_comes_twice(&counted);
}

#[test]
fn no_acknowledged_commit_is_lost_when_a_primary_dies_and_its_replica_had_each() {
    let Some(mut pair) = Pair::start() else { return };
    let url = pair.url("response_timeout_ms=20000");
    let counted = count(slice::from_ref(&url), |check_work_is_left| {
        pair.primary.server.kill();
        check_work_is_left();
        pair.promote();
    });
    check_nothing_is_lost(&open(&url).unwrap(), &counted);
    check_no_fence_comes_twice(&counted);
}

#[test]
fn a_lease_of_a_demoted_primary_is_stale_and_does_not_overwrite() {
    let Some(pair) = Pair::start() else { return };
    let store = open(&pair.url("")).unwrap();
    for id in ["a", "b", "c"] {
        store.create(&key(id), b"before", ttl()).unwrap();
    }
    let held = store.begin(&key("a"), WAIT).unwrap();
    let mut touched = store.begin(&key("b"), WAIT).unwrap();
    let mut moved = store.begin(&key("c"), WAIT).unwrap();
    pair.primary.run("SET GLOBAL read_only = 1");
    pair.promote();
    let next = store.begin(&key("a"), WAIT).unwrap();
    next.lease.commit(b"after", ttl()).unwrap();
    let late = held.lease.commit(b"late", ttl()).unwrap_err();
    assert_eq!(*late.kind(), ErrorKind::Stale, "{late:#}");
    assert!(format!("{late:#}").contains("takes no more changes"), "{late:#}");
    assert_eq!(*touched.lease.touch(ttl()).unwrap_err().kind(), ErrorKind::Stale);
    let late = moved.lease.regenerate(&key("d"), WAIT).unwrap_err();
    assert_eq!(*late.kind(), ErrorKind::Stale, "{late:#}");
    assert_eq!(payload_of(&pair.replica.open(""), "a").unwrap(), b"after");
}

/// A worker that only reads would have read the old primary for ever.
#[test]
fn a_demoted_primary_is_not_read_either() {
    let Some(pair) = Pair::start() else { return };
    let (reader, writer) = (open(&pair.url("")).unwrap(), open(&pair.url("")).unwrap());
    let save = |payload: &[u8]| {
        writer.begin(&key("a"), WAIT).unwrap().lease.commit(payload, ttl()).unwrap();
    };
    save(b"before");
    assert_eq!(payload_of(&reader, "a").unwrap(), b"before");
    pair.primary.run("SET GLOBAL read_only = 1");
    pair.promote();
    save(b"after");
    assert_eq!(payload_of(&reader, "a").unwrap(), b"after");
}

/// It ended the sessions that the old primary knew, and those of later log-ins lived on.
#[test]
fn a_log_out_everywhere_reaches_what_the_new_primary_has() {
    let Some(pair) = Pair::start() else { return };
    let (other, writer) = (open(&pair.url("")).unwrap(), open(&pair.url("")).unwrap());
    let owner = Owner::new(b"17").unwrap();
    let log_in = |id: &str| {
        let mut begun = writer.begin(&key(id), WAIT).unwrap();
        begun.lease.set_owner(Some(owner)).unwrap();
        begun.lease.commit(b"cart", ttl()).unwrap();
    };
    log_in("before");
    assert_eq!(other.stat().unwrap().sessions, 1, "it has a connection to the old primary");
    pair.primary.run("SET GLOBAL read_only = 1");
    pair.promote();
    log_in("after");
    assert_eq!(other.stat().unwrap().sessions, 2);
    assert_eq!(other.revoke(owner, None).unwrap(), 2);
    assert!(["before", "after"].iter().all(|id| payload_of(&writer, id).is_none()));
}

/// It would take the changes, and they would be lost when the primary is back.
#[test]
fn a_replica_that_somebody_forgot_to_make_read_only_is_passed_over() {
    let Some(mut pair) = Pair::start() else { return };
    pair.replica.run("SET GLOBAL read_only = 0");
    let saved = |store: &Sessions| store.begin(&key("a"), WAIT)?.lease.commit(b"cart", ttl());
    let store = open(&pair.url("response_timeout_ms=20000")).unwrap();
    saved(&store).unwrap();
    let connections = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'shop'";
    until("the primary alone is used", || {
        [&pair.primary, &pair.replica].map(|server| server.number(connections)) == [1, 0]
    });
    pair.catch_up();
    pair.primary.server.kill();
    let written = || pair.replica.text("SELECT @@gtid_binlog_pos");
    let before = written();
    drop(store);
    let hurried = "connect_timeout_ms=300&response_timeout_ms=1000";
    let told = open(&pair.url(hurried)).and_then(|store| store.destroy(&key("a"))).unwrap_err();
    assert_eq!(*told.kind(), ErrorKind::Unreachable, "{told:#}");
    assert_eq!(written(), before, "while the primary is dead");
    pair.promote();
    saved(&open(&pair.url("response_timeout_ms=20000")).unwrap()).unwrap();
}

#[test]
fn replicas_alone_are_refused_and_say_what_they_are() {
    let Some(pair) = Pair::start() else { return };
    let [_, port] = pair.ports;
    let url =
        format!("mysql://shop@127.0.0.1:{port},127.0.0.1:{port}/test?response_timeout_ms=3000");
    let told = open(&url).unwrap_err();
    assert!(*told.kind() == ErrorKind::Denied && told.to_string().contains("read-only"), "{told}");
    pair.replica.run("SET GLOBAL read_only = 0");
    let told = format!("{:#}", open(&url).unwrap_err());
    assert!(told.contains("it is a replica"), "{told}");
}
