//! The table "Round trips" of crates/stores/design/mysql.md, counted.

use std::time::Duration;

use sessile_core::{Budget, Clock, Filter, Timestamp};
use sessile_stores::Context;

use crate::setup::{Private, WAIT, key, open, ttl};

#[test]
fn a_locked_request_is_two_round_trips_and_the_rest_is_as_documented() {
    let Some(private) = Private::start() else { return };
    let proxy = private.proxy();
    let store = open(&proxy.url(&private.url(""))).unwrap();
    let (create, ()) = proxy.trips(|| store.create(&key("a"), b"one", ttl()).unwrap());
    let (begin, begun) = proxy.trips(|| store.begin(&key("a"), WAIT).unwrap());
    let (commit, ()) = proxy.trips(|| begun.lease.commit(b"two", ttl()).unwrap());
    assert_eq!((begin, commit), (1, 1), "begin and commit");
    let (begin, begun) = proxy.trips(|| store.begin(&key("new"), WAIT).unwrap());
    let (commit, ()) = proxy.trips(|| begun.lease.commit(&vec![b'x'; 65_536], ttl()).unwrap());
    assert_eq!((begin, commit), (1, 1), "begin and commit of a new session, with the largest text");
    let (peek, _) = proxy.trips(|| store.peek(&key("a")).unwrap());
    let (touch, ()) = proxy.trips(|| store.touch(&key("a"), ttl()).unwrap());
    let mut begun = store.begin(&key("a"), WAIT).unwrap();
    let (touch_held, ()) = proxy.trips(|| begun.lease.touch(ttl()).unwrap());
    let (release, ()) = proxy.trips(|| begun.lease.release().unwrap());
    let (list, _) = proxy.trips(|| store.list(None, &Filter::default()).unwrap());
    let (destroy, ()) = proxy.trips(|| store.destroy(&key("a")).unwrap());
    assert_eq!([create, peek, touch, touch_held, release, list, destroy], [2, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn large_payloads_regenerations_aliases_and_sweeps_take_as_many_as_documented() {
    let Some(private) = Private::start() else { return };
    let proxy = private.proxy();
    let clock = Clock::manual(Timestamp::from_ms(1_000_000));
    let store =
        sessile_stores::open(&proxy.url(&private.url("")), &Context { clock: clock.clone() })
            .unwrap();
    let large = vec![b'x'; 65_537];
    store.create(&key("a"), b"one", ttl()).unwrap();
    let commit = || {
        proxy.trips(|| store.begin(&key("a"), WAIT).unwrap().lease.commit(&large, ttl()).unwrap()).0
    };
    assert_eq!([commit(), commit()], [1 + 3, 1 + 2], "with the preparation, and without");
    let mut begun = store.begin(&key("a"), WAIT).unwrap();
    let (regenerate, ()) =
        proxy.trips(|| begun.lease.regenerate(&key("b"), Duration::from_secs(60)).unwrap());
    let (commit, ()) = proxy.trips(|| begun.lease.commit(b"two", ttl()).unwrap());
    let (begin, begun) = proxy.trips(|| store.begin(&key("a"), WAIT).unwrap());
    drop(begun.lease);
    let (peek, _) = proxy.trips(|| store.peek(&key("a")).unwrap());
    let (touch, ()) = proxy.trips(|| store.touch(&key("a"), ttl()).unwrap());
    assert_eq!([regenerate, commit, begin, peek, touch], [4, 1, 2, 2, 3]);
    clock.advance(Duration::from_secs(1_440));
    let budget = Budget { records_max: 100, time_max: WAIT };
    let (sweep, swept) = proxy.trips(|| store.sweep(budget).unwrap());
    assert_eq!((sweep, swept.removed), (3, 1));
}

/// Its row is not locked while it is sent, so it is read by a statement of its own.
#[test]
fn a_large_session_on_a_connection_that_has_prepared_takes_one_more() {
    let Some(private) = Private::start() else { return };
    let proxy = private.proxy();
    let store = open(&proxy.url(&private.url(""))).unwrap();
    store.create(&key("large"), &vec![b'x'; (16 << 10) + 1], ttl()).unwrap();
    store.create(&key("a"), &vec![b'x'; 16 << 10], ttl()).unwrap();
    let trips = |id: &str| proxy.trips(|| drop(store.begin(&key(id), WAIT).unwrap())).0;
    for _ in 0..10 {
        trips("a");
    }
    assert_eq!(
        [trips("a"), trips("large"), trips("large"), trips("a")],
        [2, 2 + 2, 2 + 1, 2],
        "begin and release"
    );
}

#[test]
fn a_waiter_sleeps_on_the_server_and_asks_once() {
    let Some(private) = Private::start() else { return };
    let proxy = private.proxy();
    let (holder, waiter) = (private.open(""), open(&proxy.url(&private.url(""))).unwrap());
    let begun = holder.begin(&key("a"), WAIT).unwrap();
    let trips = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| proxy.trips(|| waiter.begin(&key("a"), WAIT).unwrap()).0);
        until_waiting(&private);
        begun.lease.commit(b"x", ttl()).unwrap();
        waiting.join().unwrap()
    });
    assert_eq!(trips, 1);
    let begun = holder.begin(&key("a"), WAIT).unwrap();
    let (trips, refused) = proxy.trips(|| waiter.begin(&key("a"), Duration::from_millis(50)));
    assert!(refused.is_err());
    assert!((2..=3).contains(&trips), "{trips}: the wait, perhaps a last try, and who holds it");
    drop(begun);
}

fn until_waiting(private: &Private) {
    crate::setup::until("it waits", || private.waiters() == 1);
}
