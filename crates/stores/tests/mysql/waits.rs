//! What a begin waits for, and what others wait for meanwhile: the lock, and no row longer than it
//! takes.

use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use sessile_core::{ErrorKind, Sessions};
use sessile_fixtures::Pace;

use crate::setup::{Private, WAIT, key, open, ttl, until};

/// More than a connection needs to take the short way.
const WARMING: usize = 10;
/// Less than any wait for a row lasts.
const AT_ONCE: Duration = Duration::from_millis(1_500);
/// More than the answers before the payload have.
const STALLED_BEHIND: usize = 64 << 10;

fn commit(store: &Sessions, id: &str, payload: &[u8]) {
    store.begin(&key(id), WAIT).unwrap().lease.commit(payload, ttl()).unwrap();
}

fn warm(store: &Sessions, id: &str) {
    (0..WARMING).for_each(|_| commit(store, id, b"old"));
}

/// Once of several times, if the machine is busy: what waits for a row does so each time.
fn at_once(what: &str, mut measure: impl FnMut() -> Duration) {
    let times: Vec<Duration> =
        (0..5).map(|_| measure()).take_while(|took| *took >= AT_ONCE).collect();
    assert!(times.len() < 5, "{what}: {times:?}");
}

/// A tool that has changed the row and not ended its transaction.
fn tool(private: &Private) -> Conn {
    let mut tool = private.raw();
    tool.query_drop("START TRANSACTION").unwrap();
    tool.query_drop("UPDATE sessile_session SET mark = mark + 1 WHERE id = 'a'").unwrap();
    tool
}

/// The holder's own commit keeps the row while its log is synced; the tool stands for it.
#[test]
fn who_does_not_get_the_lock_waits_for_no_row_and_is_told_the_holder() {
    let Some(private) = Private::start() else { return };
    let (holder, cold, warmed, new) =
        (private.open(""), private.open(""), private.open(""), private.open(""));
    warm(&warmed, "a");
    warm(&new, "a");
    // From here on by the statement that the server keeps.
    drop(new.begin(&key("b"), WAIT).unwrap());
    let begun = holder.begin(&key("a"), WAIT).unwrap();
    let tool = tool(&private);
    for (store, wait) in [(&cold, 0), (&warmed, 0), (&new, 0), (&cold, 100), (&warmed, 100)] {
        at_once("a refusal", || {
            let start = Instant::now();
            let error = store.begin(&key("a"), Duration::from_millis(wait)).unwrap_err();
            let took = start.elapsed();
            let ErrorKind::LockTimeout { holder, .. } = error.kind() else { panic!("{error:?}") };
            assert_eq!(holder.pid, Some(std::process::id()));
            took
        });
    }
    drop(tool);
    begun.lease.commit(b"new", ttl()).unwrap();
}

#[test]
fn a_row_that_others_keep_is_waited_for_as_long_as_a_lock_is_and_leaves_none_behind() {
    let Some(private) = Private::start() else { return };
    let (cold, warmed, other) = (private.open(""), private.open(""), private.open(""));
    warm(&warmed, "a");
    for store in [&cold, &warmed] {
        let kept = tool(&private);
        let error = store.begin(&key("a"), Duration::ZERO).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::LockTimeout { .. }), "{error:?}");
        std::thread::scope(|scope| {
            let start = Instant::now();
            let waiting = scope.spawn(|| store.begin(&key("a"), WAIT));
            until("the wait for the row is over once", || {
                start.elapsed() > Duration::from_millis(2_500)
            });
            drop(kept);
            waiting.join().unwrap().unwrap().lease.commit(b"new", ttl()).unwrap();
        });
        // Taken twice on one connection, a lock would still be held.
        drop(other.begin(&key("a"), Duration::ZERO).unwrap());
    }
}

/// The server sends more than the sockets take, and the reader is stopped.
#[test]
fn nobody_waits_for_who_is_slow_to_read_a_large_session() {
    let Some(private) = Private::start() else { return };
    let proxy = private.proxy();
    let large = vec![b'x'; 4 << 20];
    for way in ["cold", "warm", "new"] {
        let (reader, other) = (open(&proxy.url(&private.url(""))).unwrap(), private.open(""));
        if way != "cold" {
            warm(&reader, "small");
        }
        if way == "new" {
            drop(reader.begin(&key("b"), WAIT).unwrap());
        }
        commit(&other, way, &large);
        let touch = || {
            std::thread::scope(|scope| {
                proxy.set_pace(Pace::Held { beyond: STALLED_BEHIND });
                let reading = scope.spawn(|| {
                    reader.begin(&key(way), WAIT).map(|begun| begun.record.unwrap().payload)
                });
                let writing = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = \
                               'Writing to net'";
                until("the payload is on its way", || private.number(writing) > 0);
                let start = Instant::now();
                other.touch(&key(way), ttl()).unwrap();
                let took = start.elapsed();
                proxy.set_pace(Pace::Full);
                assert!(reading.join().unwrap().unwrap() == large, "{way}");
                took
            })
        };
        at_once(way, touch);
    }
}

/// The server does not see that who waits for the table has gone, and left it the session's lock
/// until the table was free.
#[test]
fn who_gives_up_because_of_the_table_leaves_no_connection_behind() {
    let Some(private) = Private::start() else { return };
    let (cold, warmed) =
        (private.open("&response_timeout_ms=2000"), private.open("&response_timeout_ms=2000"));
    warm(&warmed, "a");
    let mut altering = private.raw();
    altering.query_drop("LOCK TABLES sessile_session WRITE").unwrap();
    for store in [&cold, &warmed] {
        store.begin(&key("a"), Duration::from_millis(100)).map(drop).unwrap_err();
    }
    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'Waiting for \
                   table metadata lock'";
    until("nobody waits for the table", || private.number(waiting) == 0);
    altering.query_drop("UNLOCK TABLES").unwrap();
    drop(private.open("").begin(&key("a"), WAIT).unwrap());
}
