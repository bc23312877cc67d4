//! The short way of a connection that is used again and again: one prepared statement each for
//! begin and commit, the second of which gives the lock up before its transaction has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use sessile_core::{Absence, Durability, ErrorKind, Sessions, Ttl};
use sessile_fixtures::{Proxy, Tamper};

use crate::setup::{Private, WAIT, key, open, payload_of, ttl, until};

/// More than a connection needs to take the short way.
const WARMING: usize = 10;

fn commit(store: &Sessions, id: &str, payload: &[u8]) {
    store.begin(&key(id), WAIT).unwrap().lease.commit(payload, ttl()).unwrap();
}

/// A commit here may sleep for seconds, and then waits for a disk that may be busy.
fn patient(private: &Private) -> Sessions {
    private.open("&response_timeout_ms=60000")
}

fn warmed(private: &Private) -> Sessions {
    let store = patient(private);
    store.create(&key("a"), b"old", ttl()).unwrap();
    (0..WARMING).for_each(|_| commit(&store, "a", b"old"));
    store
}

/// While a trigger sleeps, the statement has the row to itself.
fn slow_commits(private: &Private) {
    drop(private.open("")); // which makes the table
    private.run(
        "CREATE TRIGGER slow BEFORE UPDATE ON sessile_session FOR EACH ROW
         IF NEW.payload = 'slow' THEN SET NEW.mark = OLD.mark + SLEEP(3) * 0; END IF",
    );
}

fn sleeping(private: &Private) -> u64 {
    private.number("SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'")
}

#[test]
fn a_connection_that_is_used_again_and_again_prepares_two_statements_once() {
    let Some(private) = Private::start() else { return };
    let proxy = private.proxy();
    let store = open(&proxy.url(&private.url(""))).unwrap();
    store.create(&key("a"), b"old", ttl()).unwrap();
    let cycle = || proxy.trips(|| commit(&store, "a", b"x")).0;
    let trips: Vec<u64> = (0..20).map(|_| cycle()).collect();
    assert_eq!((trips[0], trips[19]), (2, 2));
    assert_eq!(trips.iter().sum::<u64>(), 20 * 2 + 2, "{trips:?}");
    // What is not there, or not free, costs one more, once.
    let new = |id: &str| proxy.trips(|| drop(store.begin(&key(id), WAIT).unwrap())).0;
    assert_eq!([new("b"), new("c")], [3, 2], "begin and release");
}

/// A begin that read without a lock of its own would get the payload of before, and its commit
/// would be refused.
#[test]
fn who_gets_the_lock_before_the_commit_has_ended_reads_what_is_committed() {
    let Some(private) = Private::start() else { return };
    slow_commits(&private);
    let (store, fresh, warm) = (warmed(&private), private.open(""), private.open(""));
    (0..WARMING).for_each(|_| commit(&warm, "a", b"old"));
    for other in [&fresh, &warm] {
        let begun = store.begin(&key("a"), WAIT).unwrap();
        std::thread::scope(|scope| {
            let committing = scope.spawn(|| begun.lease.commit(b"slow", ttl()));
            until("it commits", || sleeping(&private) > 0);
            let next = other.begin(&key("a"), WAIT).unwrap();
            assert_eq!(next.record.unwrap().payload, b"slow");
            committing.join().unwrap().unwrap();
            next.lease.commit(b"next", ttl()).unwrap();
        });
        assert_eq!(payload_of(&store, "a").unwrap(), b"next");
    }
}

/// It has given its lock up by then. Trying again would take the row from under the next holder.
#[test]
fn a_commit_that_is_ended_half_way_changes_nothing_and_does_not_disturb_the_next_holder() {
    let Some(private) = Private::start() else { return };
    slow_commits(&private);
    let store = warmed(&private);
    for command in ["KILL QUERY", "KILL"] {
        let begun = store.begin(&key("a"), WAIT).unwrap();
        let next = std::thread::scope(|scope| {
            let committing = scope.spawn(|| begun.lease.commit(b"slow", ttl()));
            until("it commits", || sleeping(&private) > 0);
            private.run(&format!("{command} {}", sleeping(&private)));
            let next = private.open("").begin(&key("a"), WAIT).unwrap();
            assert!(committing.join().unwrap().is_err(), "{command}");
            next
        });
        assert_eq!(next.record.unwrap().payload, b"old", "{command}");
        next.lease.commit(b"old", ttl()).unwrap();
        (0..WARMING).for_each(|_| commit(&store, "a", b"old"));
    }
}

/// The trigger stands for a proxy that shares connections, or an operator's RELEASE_ALL_LOCKS().
#[test]
fn a_commit_without_its_lock_is_refused_also_when_nobody_has_followed() {
    let Some(private) = Private::start() else { return };
    let (cold, warm) = (private.open(""), warmed(&private));
    private.run(
        "CREATE TRIGGER rob BEFORE UPDATE ON sessile_session FOR EACH ROW
         IF NEW.version = OLD.version THEN SET NEW.mark = OLD.mark + RELEASE_ALL_LOCKS() * 0; END \
         IF",
    );
    for (store, payload) in
        [(&cold, vec![b'x'; 9]), (&cold, vec![b'x'; 70_000]), (&warm, vec![b'x'; 9])]
    {
        let mut lease = store.begin(&key("a"), WAIT).unwrap().lease;
        lease.touch(ttl()).unwrap();
        let error = lease.commit(&payload, ttl()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Stale, "{error:?}");
        assert_eq!(payload_of(store, "a").unwrap(), b"old");
    }
}

/// The server lets go of a row before the log is on the disk: there, the lock must outlast the
/// statement.
#[test]
fn where_commits_are_durable_the_lock_is_given_up_when_they_are() {
    let Some(private) = Private::start_at(Durability::Commit) else { return };
    slow_commits(&private);
    for value in [1, 3] {
        private.run(&format!("SET GLOBAL innodb_flush_log_at_trx_commit = {value}"));
        lock_outlasts_the_commit(&private);
    }
}

fn lock_outlasts_the_commit(private: &Private) {
    let (store, other) = (patient(private), patient(private));
    (0..WARMING).for_each(|_| commit(&store, "a", b"old"));
    let begun = store.begin(&key("a"), WAIT).unwrap();
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| begun.lease.commit(b"slow", ttl()));
        until("it commits", || sleeping(private) > 0);
        let start = Instant::now();
        let refused = other.begin(&key("a"), Duration::ZERO).map(|_| start.elapsed());
        assert!(matches!(refused.unwrap_err().kind(), ErrorKind::LockTimeout { .. }));
        committing.join().unwrap().unwrap();
    });
    drop(other.begin(&key("a"), Duration::ZERO).unwrap());
}

/// Who waits must not have the table open: the change of the table would wait for it, the commit
/// for the change of the table, and the server would end the commit to get out of it.
#[test]
fn the_table_can_be_altered_while_a_session_is_held_and_waited_for() {
    let Some(private) = Private::start() else { return };
    let (holder, waiter) = (warmed(&private), private.open(""));
    (0..WARMING).for_each(|_| commit(&waiter, "a", b"old"));
    let begun = holder.begin(&key("a"), WAIT).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| waiter.begin(&key("a"), WAIT).map(|begun| begun.record.unwrap().payload));
        until("it waits", || private.waiters() == 1);
        let mut raw = private.raw();
        raw.query_drop("SET lock_wait_timeout = 30").unwrap();
        raw.query_drop("ALTER TABLE sessile_session ADD COLUMN note INT, ALGORITHM = COPY")
            .unwrap();
        begun.lease.commit(b"new", ttl()).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), b"new");
    });
}

#[test]
fn a_server_that_prepares_no_statements_serves_all_the_same() {
    let Some(private) = Private::start_with(&["--max-prepared-stmt-count=0"]) else { return };
    let store = warmed(&private);
    (0..2 * WARMING).for_each(|_| commit(&store, "a", b"x"));
    assert_eq!(payload_of(&store, "a").unwrap(), b"x");
}

/// The statement that the server keeps gives a row also where there is none, and what it gives is
/// what a plain read does.
#[test]
fn new_sessions_tombstones_and_aliases_read_alike_by_every_way() {
    let Some(private) = Private::start() else { return };
    let (warm, cold) = (warmed(&private), private.open(""));
    for (store, n) in [(&warm, "w"), (&cold, "c")] {
        let id = |name: &str| key(&format!("{name}{n}"));
        let begun = store.begin(&id("new"), WAIT).unwrap();
        assert!(begun.record.is_none() && begun.absence == Absence::Unknown);
        begun.lease.commit(b"new", ttl()).unwrap();
        let mut begun = store.begin(&id("new"), WAIT).unwrap();
        assert_eq!(begun.record.as_ref().unwrap().payload, b"new");
        begun.lease.regenerate(&id("moved"), Duration::from_secs(60)).unwrap();
        begun.lease.commit(b"moved", ttl()).unwrap();
        let begun = store.begin(&id("new"), WAIT).unwrap();
        assert_eq!(
            (begun.record.unwrap().payload, begun.lease.key()),
            (b"moved".to_vec(), &id("moved"))
        );
        begun.lease.release().unwrap();
        store.destroy(&id("moved")).unwrap();
        let begun = store.begin(&id("moved"), WAIT).unwrap();
        assert_eq!((begun.record, begun.absence), (None, Absence::Destroyed));
        begun.lease.release().unwrap();
    }
}

/// The statement of the short way would insert where there is nothing to replace.
#[test]
fn a_commit_whose_row_has_gone_leaves_none_behind() {
    let Some(private) = Private::start() else { return };
    let store = warmed(&private);
    let begun = store.begin(&key("a"), WAIT).unwrap();
    private.run("DELETE FROM sessile_session");
    let error = begun.lease.commit(b"late", ttl()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Gone, "{error:?}");
    assert_eq!(private.number("SELECT COUNT(*) FROM sessile_session"), 0);
    // Nor does one whose row has become another, and the lock is free again each time.
    store.create(&key("a"), b"old", ttl()).unwrap();
    let begun = store.begin(&key("a"), WAIT).unwrap();
    store.destroy(&key("a")).unwrap();
    assert_eq!(begun.lease.commit(b"late", ttl()).unwrap_err().kind(), &ErrorKind::Destroyed);
    assert_eq!(private.number("SELECT COUNT(*) FROM sessile_session WHERE kind = 0"), 0);
    assert_eq!(
        private.open("").begin(&key("a"), Duration::ZERO).unwrap().absence,
        Absence::Destroyed
    );
}

/// `due` may not be later than the expiry, or a sweep would not find the row in time.
#[test]
fn a_commit_that_shortens_the_life_of_a_session_moves_what_a_sweep_goes_by() {
    let Some(private) = Private::start() else { return };
    let store = warmed(&private);
    let short = Ttl::sliding(Duration::from_secs(5)).unwrap();
    store.begin(&key("a"), WAIT).unwrap().lease.commit(b"x", short).unwrap();
    assert_eq!(private.number("SELECT due <= expires FROM sessile_session"), 1);
    commit(&store, "a", b"y");
    assert_eq!(payload_of(&store, "a").unwrap(), b"y");
    assert_eq!(private.number("SELECT due < expires FROM sessile_session"), 1);
}

/// Says that the server does not know the next prepared statements that it is asked to execute.
struct Refusals(Arc<AtomicU64>);

impl Tamper for Refusals {
    fn refuse(&self, _connection: u64, packet: &[u8]) -> Option<Vec<u8>> {
        let one_less = |count: u64| count.checked_sub(1);
        // COM_STMT_EXECUTE, behind length and number.
        (packet.get(4) == Some(&0x17)).then_some(())?;
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).ok()?;
        Some(b"\x0d\0\0\x01\xff\xdb\x04#HY000gone".to_vec()) // 1243
    }
}

/// A proxy may forget a statement, or send it to another server than the one that has prepared it.
#[test]
fn statements_that_the_server_does_not_know_are_prepared_anew_or_go_as_text() {
    let Some(private) = Private::start() else { return };
    let left = Arc::new(AtomicU64::new(0));
    let refuse = |count| left.store(count, Ordering::SeqCst);
    let refusals = Refusals(Arc::clone(&left));
    let proxy = Proxy::tampering(private.server.socket(), refusals).unwrap();
    for refused in [1, u64::MAX] {
        let store = open(&proxy.url(&private.url(""))).unwrap();
        for id in ["a", "a"] {
            (0..2 * WARMING).for_each(|_| commit(&store, id, b"old"));
            refuse(refused); // the begin
            let begun = store.begin(&key(id), WAIT).unwrap();
            refuse(refused); // the commit
            begun.lease.commit(b"new", ttl()).unwrap();
            refuse(0);
            assert_eq!(
                private.open("").begin(&key(id), Duration::ZERO).unwrap().record.unwrap().payload,
                b"new"
            );
        }
    }
}

/// The server has taken the lock before it sees that it cannot bring the statement up to date:
/// taken once more, it would outlast the lease. A view stands for a table whose definition changes
/// too fast.
#[test]
fn a_lock_that_was_had_when_its_statement_was_refused_is_not_taken_twice() {
    let Some(private) = Private::start() else { return };
    let store = warmed(&private);
    // From here on by the statement that the server keeps.
    drop(store.begin(&key("new"), WAIT).unwrap());
    private.run("CREATE TABLE refusals (n INT NOT NULL) ENGINE = MyISAM AS SELECT 1 AS n");
    private.run(
        "CREATE FUNCTION refuse() RETURNS INT BEGIN
         IF (SELECT n FROM refusals) > 0 THEN
             UPDATE refusals SET n = n - 1; SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1615;
         END IF; RETURN 0; END",
    );
    private.run("RENAME TABLE sessile_session TO kept");
    private.run("CREATE VIEW sessile_session AS SELECT * FROM kept WHERE refuse() = 0");
    let begun = store.begin(&key("a"), WAIT).unwrap();
    assert_eq!(
        (begun.record.unwrap().payload, private.number("SELECT n FROM refusals")),
        (b"old".to_vec(), 0)
    );
    begun.lease.release().unwrap();
    private.run("DROP VIEW sessile_session");
    private.run("RENAME TABLE kept TO sessile_session");
    drop(private.open("").begin(&key("a"), Duration::ZERO).unwrap());
}
