//! What goes over the wire and into the table: round trips, transactions, locks, pages, log lines.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sessile_core::{Clock, Key, Sessions, Timestamp, Ttl};
use sessile_stores::Context;

use crate::pretence::{Numbers, Pretence};
use crate::setup::{Private, WAIT, key, ttl, until};

fn open(url: &str) -> Sessions {
    sessile_stores::open(url, &Context::default()).unwrap()
}

/// All operations, so that every statement is prepared on both connections.
fn warm_up(store: &Sessions) {
    for round in 0..2 {
        let (first, second) = (key(&format!("w{round}")), key(&format!("x{round}")));
        store.begin(&first, WAIT).unwrap().lease.commit(b"x", ttl()).unwrap();
        let mut begun = store.begin(&first, WAIT).unwrap();
        begun.lease.touch(ttl()).unwrap();
        begun.lease.regenerate(&second, Duration::ZERO).unwrap();
        begun.lease.commit(b"x", ttl()).unwrap();
        store.peek(&second).unwrap();
        store.create(&key(&format!("y{round}")), b"x", ttl()).unwrap();
        store.touch(&second, ttl()).unwrap();
        store.begin(&second, Duration::ZERO).unwrap().lease.release().unwrap();
        store.destroy(&second).unwrap();
    }
}

#[test]
fn a_locked_request_is_two_round_trips_and_everything_else_one() {
    let Some(private) = Private::start() else { return };
    let (pretence, proxy, url) = Pretence::before(&private);
    let store = open(&url);
    warm_up(&store);
    let a = key("a");
    assert_eq!(proxy.trips(|| store.create(&a, b"x", ttl()).unwrap()).0, 1, "create");
    assert_eq!(proxy.trips(|| store.peek(&a).unwrap()).0, 1, "peek");
    assert_eq!(proxy.trips(|| store.touch(&a, ttl()).unwrap()).0, 1, "touch");
    for wait in [WAIT, Duration::ZERO] {
        let (trips, begun) = proxy.trips(|| store.begin(&a, wait).unwrap());
        assert_eq!(trips, 1, "begin");
        assert_eq!(proxy.trips(|| begun.lease.commit(&[7; 4_000], ttl()).unwrap()).0, 1, "commit");
    }
    let (answers, begun) = pretence.answers(|| store.begin(&a, WAIT).unwrap());
    assert_eq!(answers, 1, "a begin is one transaction");
    assert_eq!(
        pretence.answers(|| begun.lease.commit(b"x", ttl()).unwrap()).0,
        1,
        "and so is a commit"
    );
    let new = store.begin(&key("new"), WAIT).unwrap();
    assert_eq!(proxy.trips(|| new.lease.commit(b"x", ttl()).unwrap()).0, 1, "commit of a new one");
    let mut begun = store.begin(&a, WAIT).unwrap();
    assert_eq!(
        proxy.trips(|| begun.lease.regenerate(&key("b"), Duration::ZERO).unwrap()).0,
        3,
        "regenerate"
    );
    assert_eq!(proxy.trips(|| begun.lease.release().unwrap()).0, 1, "release");
    assert_eq!(proxy.trips(|| store.destroy(&key("b")).unwrap()).0, 1, "destroy");
}

#[test]
fn while_the_application_works_no_transaction_is_open_and_afterwards_no_lock_is_held() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    let ours = "FROM pg_stat_activity WHERE application_name LIKE 'sessile %'";
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    let mut begun = store.begin(&key("a"), WAIT).unwrap();
    begun.lease.regenerate(&key("b"), Duration::ZERO).unwrap();
    assert_eq!(private.sql(&format!("SELECT DISTINCT state {ours}")), ["idle"]);
    assert_eq!(private.number(&format!("SELECT count(*) {ours} AND xact_start IS NOT NULL")), 0);
    assert_eq!(private.number(locks), 1);
    begun.lease.commit(b"x", ttl()).unwrap();
    assert_eq!(private.number(locks), 0);
    store.begin(&key("b"), WAIT).unwrap().lease.release().unwrap();
    drop(store.begin(&key("b"), WAIT).unwrap());
    let refused = store.begin(&key("b"), WAIT).unwrap();
    store.destroy(&key("b")).unwrap();
    refused.lease.commit(b"late", ttl()).unwrap_err();
    store.create(&key("c"), b"x", ttl()).unwrap();
    assert_eq!(private.number(locks), 0);
}

/// The expiry moves with each commit. Were it indexed itself, each commit would write to every
/// index.
#[test]
fn commits_and_touches_leave_the_indexes_alone() {
    let Some(private) = Private::start() else { return };
    let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
    let store = private.open_at(clock.clone());
    store.create(&key("a"), &[1; 1_500], ttl()).unwrap();
    for _ in 0..200 {
        clock.advance(Duration::from_secs(1));
        store.begin(&key("a"), WAIT).unwrap().lease.commit(&[2; 1_500], ttl()).unwrap();
        store.touch(&key("a"), ttl()).unwrap();
    }
    drop(store); // its server processes report their counts when they end
    let counts = "SELECT n_tup_upd || ' ' || n_tup_hot_upd FROM pg_stat_user_tables WHERE relname \
                  = 'sessile'";
    let count = || -> Vec<u64> {
        private.sql(counts)[0].split(' ').map(|count| count.parse().unwrap()).collect()
    };
    until("the counts are reported", || count()[0] >= 400);
    assert!(count()[1] >= 360, "{:?}: updates, and those that touched no index", count());
}

#[test]
fn a_shorter_life_is_swept_in_time_and_a_longer_one_filed_anew() {
    let Some(private) = Private::start() else { return };
    let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
    let store = private.open_at(clock.clone());
    let seconds = |seconds| Ttl::sliding(Duration::from_secs(seconds)).unwrap();
    for id in ["committed", "touched", "longer"] {
        store.create(&key(id), b"1", seconds(3_000)).unwrap();
    }
    store.begin(&key("committed"), WAIT).unwrap().lease.commit(b"2", seconds(10)).unwrap();
    store.touch(&key("touched"), seconds(10)).unwrap();
    store.begin(&key("longer"), WAIT).unwrap().lease.commit(b"2", seconds(6_000)).unwrap();
    clock.advance(Duration::from_secs(10));
    let swept = store.sweep(Default::default()).unwrap();
    assert_eq!((swept.examined, swept.removed), (2, 2));
    clock.advance(Duration::from_secs(2_990));
    assert_eq!(
        store.sweep(Default::default()).unwrap().examined,
        1,
        "due when it would have expired at first"
    );
    assert_eq!(store.sweep(Default::default()).unwrap().examined, 0, "filed under its true expiry");
    assert!(store.peek(&key("longer")).unwrap().is_some());
}

/// A server one of whose processes was killed ends all others and recovers, but names the time of
/// its start as before, by which the store knew that the last numbers may be lost.
#[test]
fn fences_grow_over_a_crash_of_one_process_that_lost_the_last_ones() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    let fence = || store.begin(&key("a"), WAIT).unwrap().lease.fence();
    let last = (0..100).map(|_| fence()).max().unwrap();
    let start = private.sql("SELECT pg_postmaster_start_time()");
    let of_the_store = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sessile %'";
    let pid = i32::try_from(private.number(of_the_store)).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    until("its end is noticed", || !Path::new(&format!("/proc/{pid}")).exists());
    let opens = || sessile_stores::open(&private.url(), &Context::default()).is_ok();
    until("the server is back", opens);
    assert_eq!(private.sql("SELECT pg_postmaster_start_time()"), start);
    // As if nothing of the sequence had reached the disk.
    private.sql("SELECT setval('sessile_fence', 1)");
    assert!(fence() > last);
    // As if the clock had been set back since: another connection leaves the sequence as it is.
    private.sql("SELECT setval('sessile_fence', 1::bigint << 62)");
    assert_eq!(private.open().begin(&key("a"), WAIT).unwrap().lease.fence(), (1 << 62) + 1);
}

/// Two connections looked at the sequence, and the slower one set it back to its own time, below
/// numbers that were drawn meanwhile.
#[test]
fn fences_grow_while_several_connections_lift_the_sequence() {
    let Some(private) = Private::start() else { return };
    drop(private.open());
    // The first to lift is slow at it.
    private.sql(
        "CREATE SCHEMA slow; CREATE SEQUENCE slow.calls;
        CREATE FUNCTION slow.setval(regclass, bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('slow.calls') = 1 THEN PERFORM pg_sleep(1); END IF;
            RETURN pg_catalog.setval($1, $2);
        END $$;
        ALTER ROLE postgres SET search_path = slow, pg_catalog, public;
        SELECT pg_catalog.setval('sessile_fence', 1)",
    );
    let open = || {
        let url = format!("{}&schema=public", private.url());
        sessile_stores::open(&url, &Context::default()).unwrap()
    };
    let fence = |store: &Sessions| store.begin(&key("a"), WAIT).unwrap().lease.fence();
    std::thread::scope(|scope| {
        let slow = scope.spawn(open);
        let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        until("the first lifts", || private.number(asleep) > 0);
        let drawn = fence(&open());
        let slow = slow.join().unwrap();
        let next = fence(&slow);
        assert!(next > drawn, "{next} after {drawn}");
    });
}

#[test]
fn a_proxy_that_pools_transactions_is_refused() {
    let Some(private) = Private::start() else { return };
    let (pretence, _proxy, url) = Pretence::before(&private);
    pretence.number(Numbers::Same);
    let error = sessile_stores::open(&url, &Context::default()).unwrap_err();
    assert_eq!(error.kind().code(), "incompatible", "{error:?}");
    // One that was not found out: no lease is granted, and no lock stays behind.
    pretence.number(Numbers::Wrong);
    let store = open(&url);
    assert_eq!(store.begin(&key("a"), WAIT).unwrap_err().kind().code(), "incompatible");
    until("no lock is left", || {
        private.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
    });
}

/// The client crate logs each statement with its values, and the server quotes keys that are taken.
#[test]
fn no_log_line_and_no_error_has_an_id_or_a_payload() {
    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    struct Listener;
    impl log::Log for Listener {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &log::Record<'_>) {
            HEARD.lock().unwrap().push(record.args().to_string());
        }
        fn flush(&self) {}
    }
    let Some(private) = Private::start() else { return };
    log::set_logger(&Listener).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let store = private.open();
    let secret = Key::session("HuShHuSh0123").unwrap();
    let payload = b"HuShHuSh in a cart";
    store.create(&secret, payload, ttl()).unwrap();
    store.begin(&secret, WAIT).unwrap().lease.commit(payload, ttl()).unwrap();
    private.sql("ALTER TABLE sessile ADD CONSTRAINT no_more CHECK (version < 3)");
    let error = store.begin(&secret, WAIT).unwrap().lease.commit(payload, ttl()).unwrap_err();
    assert_eq!(store.peek(&secret).unwrap().unwrap().head.version, 2);
    store.destroy(&secret).unwrap();
    let heard = HEARD.lock().unwrap();
    assert!(
        heard.iter().any(|line| line.contains("executing statement")),
        "the crate logs in another way now"
    );
    // Of a save that the server refuses an operator wants to know how large it was, although that
    // was not the reason.
    let told = format!(
        "cannot commit session {} (18 bytes, limit {} bytes): ",
        secret.tag(),
        store.limits().payload_bytes_max
    );
    assert!(heard.iter().any(|line| line.contains(&told)), "no line with {told:?}");
    let bytes = format!("{:?}", &payload[..8]).trim_matches(['[', ']']).to_owned();
    let said = heard
        .iter()
        .chain(std::iter::once(&format!("{error:#} {error:?}")))
        .cloned()
        .collect::<Vec<_>>();
    for line in said.iter().filter(|line| !line.contains("HuShHuSh in a")) {
        assert!(!line.contains("HuSh") && !line.contains(&bytes), "{line}");
    }
    assert!(!said.iter().any(|line| line.contains("HuSh")), "{said:?}");
}
