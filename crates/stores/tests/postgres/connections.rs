//! Connections that break, run out, or are cut: what was acknowledged stays, and a lease without
//! its lock is refused.

use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Result, Sessions};
use sessile_fixtures::{Proxy, ServerOptions};
use sessile_stores::Context;

use crate::setup::{Private, WAIT, key, ttl, until};

fn code<T>(result: Result<T>) -> &'static str {
    result.map_or_else(|error| error.kind().code(), |_| "ok")
}

fn payload(store: &Sessions, id: &str) -> Option<Vec<u8>> {
    store.peek(&key(id)).unwrap().map(|record| record.payload)
}

#[test]
fn a_lease_whose_connection_was_cut_is_refused_and_nothing_is_lost() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    for id in ["alone", "followed", "destroyed", "removed"] {
        store.create(&key(id), b"old", ttl()).unwrap();
    }
    let begin = |id: &str| store.begin(&key(id), WAIT).unwrap().lease;
    let (alone, followed, destroyed, removed) =
        (begin("alone"), begin("followed"), begin("destroyed"), begin("removed"));
    let fresh = begin("fresh");
    private.cut();
    let successor = store
        .begin(&key("followed"), Duration::ZERO)
        .expect("the lock is free with its connection");
    assert_eq!(code(followed.commit(b"late", ttl())), "stale", "while the successor works");
    successor.lease.commit(b"new", ttl()).unwrap();
    store.destroy(&key("destroyed")).unwrap();
    private.sql("DELETE FROM sessile WHERE id = 'removed'");
    assert_eq!(code(alone.commit(b"late", ttl())), "stale");
    assert_eq!(code(destroyed.commit(b"late", ttl())), "destroyed");
    assert_eq!(code(removed.commit(b"late", ttl())), "gone");
    assert_eq!(code(fresh.commit(b"late", ttl())), "stale");
    assert_eq!(payload(&store, "alone"), Some(b"old".to_vec()));
    assert_eq!(payload(&store, "followed"), Some(b"new".to_vec()));
    assert_eq!(
        (payload(&store, "destroyed"), payload(&store, "removed"), payload(&store, "fresh")),
        (None, None, None)
    );
}

#[test]
fn idle_connections_that_were_cut_cost_a_retry_and_nothing_else() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    store.create(&key("a"), b"1", ttl()).unwrap();
    let operations: [(&str, &dyn Fn() -> Result<()>); 6] = [
        ("peek", &|| store.peek(&key("a")).map(drop)),
        ("begin", &|| store.begin(&key("a"), WAIT).and_then(|begun| begun.lease.release())),
        ("create", &|| store.create(&key("b"), b"1", ttl())),
        ("touch", &|| store.touch(&key("a"), ttl())),
        ("stat", &|| store.stat().map(drop)),
        ("destroy", &|| store.destroy(&key("a"))),
    ];
    for (name, operation) in operations {
        private.cut();
        assert_eq!(code(operation()), "ok", "{name}");
    }
    assert_eq!(payload(&store, "a"), None);
}

fn lost<T>(proxy: &Proxy, run: impl FnOnce() -> T) -> T {
    let (lost, done) = proxy.losing_answer(0, || (), run);
    assert!(lost);
    done
}

#[test]
fn what_the_server_did_before_its_answer_was_lost_is_recognised() {
    let Some(private) = Private::start() else { return };
    let proxy = private.proxy();
    let store = sessile_stores::open(&proxy.url(&private.url()), &Context::default()).unwrap();
    // A connection on which the statements are prepared: what is lost is the answer to the
    // statement itself.
    let warm = || {
        for id in ["warm", "warm", "warmer"] {
            store.begin(&key(id), WAIT).unwrap().lease.commit(b"1", ttl()).unwrap();
            store.destroy(&key("warmer")).unwrap();
        }
        store.create(&key("warmer"), b"1", ttl()).unwrap();
        store.destroy(&key("warmer")).unwrap();
    };
    warm();
    lost(&proxy, || store.create(&key("a"), b"1", ttl())).unwrap();
    assert_eq!(code(store.create(&key("a"), b"2", ttl())), "exists", "that of somebody else");
    for (id, version) in [("a", 2), ("new", 1)] {
        warm();
        let begun = store.begin(&key(id), WAIT).unwrap();
        let committed = lost(&proxy, || begun.lease.commit(b"2", ttl()));
        assert_eq!(code(committed), "ok", "{id}");
        let record = store.peek(&key(id)).unwrap().unwrap();
        assert_eq!((record.head.version, record.payload.as_slice()), (version, &b"2"[..]), "{id}");
    }
    warm();
    lost(&proxy, || store.destroy(&key("a"))).unwrap();
    assert_eq!(payload(&store, "a"), None);
}

#[test]
fn a_waiter_survives_the_loss_of_its_connection() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    let begun = store.begin(&key("a"), WAIT).unwrap();
    let waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    std::thread::scope(|scope| {
        let waiter =
            scope.spawn(|| store.begin(&key("a"), WAIT).map(|begun| begun.record.is_some()));
        until("it waits", || private.number(&format!("SELECT count(*) {waiting}")) == 1);
        private.sql(&format!("SELECT pg_terminate_backend(pid, 60000) {waiting}"));
        until("it waits again", || private.number(&format!("SELECT count(*) {waiting}")) == 1);
        begun.lease.commit(b"x", ttl()).unwrap();
        assert!(waiter.join().unwrap().unwrap());
    });
}

#[test]
fn a_server_without_a_free_connection_says_what_to_do_and_recovers() {
    let options = ["-c", "max_connections=7", "-c", "max_wal_senders=0"];
    let options =
        ServerOptions { extra: options.map(Into::into).to_vec(), ..ServerOptions::default() };
    let Some(private) = Private::start_with(options) else { return };
    let store = private.open();
    store.create(&key("a"), b"old", ttl()).unwrap();
    let mut leases = Vec::new();
    let error = loop {
        match store.begin(&key(&format!("lease{}", leases.len())), WAIT) {
            Ok(begun) => leases.push(begun.lease),
            Err(error) => break error,
        }
    };
    assert_eq!(leases.len(), 7, "one connection each");
    assert_eq!(error.kind(), &ErrorKind::Unreachable);
    assert!(error.to_string().contains("max_connections"), "{error}");
    // Who has a lease can commit it, and that makes room.
    leases.pop().unwrap().commit(b"x", ttl()).unwrap();
    assert_eq!(payload(&store, "a"), Some(b"old".to_vec()));
    leases.into_iter().for_each(|lease| lease.commit(b"x", ttl()).unwrap());
    assert_eq!(store.stat().unwrap().sessions, 8);
}

#[test]
fn a_restart_in_the_middle_is_told_or_not_noticed() {
    let options =
        ServerOptions { durability: sessile_core::Durability::Commit, ..ServerOptions::default() };
    let Some(mut private) = Private::start_with(options) else { return };
    let store = private.open();
    store.create(&key("a"), b"old", ttl()).unwrap();
    let held = store.begin(&key("a"), WAIT).unwrap();
    private.server.restart().unwrap();
    assert_eq!(code(held.lease.commit(b"late", ttl())), "stale");
    store.begin(&key("a"), WAIT).unwrap().lease.commit(b"new", ttl()).unwrap();
    private.server.kill();
    let start = Instant::now();
    assert_eq!(code(store.peek(&key("a"))), "unreachable");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    std::thread::scope(|scope| {
        let early = scope.spawn(|| {
            loop {
                // It comes while the server recovers: "starting up" is worth a retry, too.
                match store.peek(&key("a")) {
                    Ok(record) => return record,
                    Err(error) => assert_eq!(error.kind(), &ErrorKind::Unreachable, "{error:?}"),
                }
            }
        });
        private.server.restart().unwrap();
        assert_eq!(early.join().unwrap().unwrap().payload, b"new");
    });
}

/// A connect to a unix socket waited for ever when the queue of a server that hangs was full.
#[test]
fn a_server_that_hangs_with_a_full_queue_is_unreachable_in_time() {
    let options = [
        "-c",
        "max_connections=5",
        "-c",
        "max_wal_senders=0",
        "-c",
        "superuser_reserved_connections=0",
    ];
    let options =
        ServerOptions { extra: options.map(Into::into).to_vec(), ..ServerOptions::default() };
    let Some(private) = Private::start_with(options) else { return };
    private.server.freeze();
    // Those who come until one finds no room any more.
    let mut queue = Vec::new();
    loop {
        let (connected, told) = std::sync::mpsc::channel();
        let socket = private.server.socket().to_owned();
        std::thread::spawn(move || connected.send(std::os::unix::net::UnixStream::connect(socket)));
        match told.recv_timeout(Duration::from_millis(500)) {
            Ok(stream) => queue.push(stream.unwrap()),
            Err(_) => break,
        }
    }
    let (done, told) = std::sync::mpsc::channel();
    let url = format!("{}&connect_timeout_ms=100&response_timeout_ms=100", private.url());
    std::thread::spawn(move || done.send(sessile_stores::open(&url, &Context::default()).err()));
    let told = told.recv_timeout(WAIT);
    private.server.thaw();
    let error = told.expect("it waits for ever").expect("nobody answers");
    assert_eq!(error.kind(), &ErrorKind::Unreachable, "{error:?}");
}

/// What one worker saw of its increments.
#[derive(Default)]
struct Tally {
    acknowledged: u64,
    /// The server could not be asked any more whether it had stored them.
    in_doubt: u64,
    errors: u64,
}

fn increment(store: &Sessions, tally: &mut Tally) {
    let Ok(begun) = store.begin(&key("sum"), WAIT) else {
        tally.errors += 1;
        return;
    };
    let sum: u64 = begun
        .record
        .map_or(0, |record| String::from_utf8(record.payload).unwrap().parse().unwrap());
    match begun.lease.commit((sum + 1).to_string().as_bytes(), ttl()) {
        Ok(()) => tally.acknowledged += 1,
        Err(error) if *error.kind() == ErrorKind::Unreachable => tally.in_doubt += 1,
        Err(_) => tally.errors += 1,
    }
}

#[test]
fn no_acknowledged_increment_is_lost_when_the_server_is_killed_in_the_middle() {
    survives_kills(250);
}

#[test]
#[ignore = "takes minutes; `make storm` runs it"]
fn none_of_16000_acknowledged_increments_is_lost_when_the_server_is_killed() {
    survives_kills(2_000);
}

fn survives_kills(each: u64) {
    const WORKERS: usize = 8;
    let options =
        ServerOptions { durability: sessile_core::Durability::Commit, ..ServerOptions::default() };
    let Some(mut private) = Private::start_with(options) else { return };
    private.open();
    let url = private.url();
    let made = std::sync::atomic::AtomicU64::new(0);
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let work = || {
            let (store, mut tally) =
                (sessile_stores::open(&url, &Context::default()).unwrap(), Tally::default());
            while tally.acknowledged < each {
                increment(&store, &mut tally);
                made.fetch_max(tally.acknowledged, std::sync::atomic::Ordering::Relaxed);
            }
            tally
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        for share in 1..4 {
            until("they are well on their way", || {
                made.load(std::sync::atomic::Ordering::Relaxed) >= share * each / 5
            });
            private.server.kill();
            private.server.restart().unwrap();
        }
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let total = |count: fn(&Tally) -> u64| tallies.iter().map(count).sum::<u64>();
    let (acknowledged, in_doubt) =
        (total(|tally| tally.acknowledged), total(|tally| tally.in_doubt));
    let sum = payload(&private.open(), "sum").unwrap();
    let sum: u64 = String::from_utf8(sum).unwrap().parse().unwrap();
    assert!(
        acknowledged <= sum && sum <= acknowledged + in_doubt,
        "{acknowledged} + {in_doubt} in doubt, stored {sum}"
    );
    assert!(total(|tally| tally.errors) + in_doubt > 0, "nobody noticed three kills");
}
