//! How often an operation goes to the server, counted on the wire; and what a lost answer does.

use std::time::Duration;

use sessile_core::Sessions;
use sessile_fixtures::Proxy;

use crate::setup::{Private, WAIT, key, open, payload_of, ttl};

fn through_a_proxy() -> Option<(Private, Proxy, Sessions)> {
    let private = Private::start(&[])?;
    let proxy = Proxy::before(private.server.socket()).unwrap();
    let store = open(proxy.socket(), "").unwrap();
    Some((private, proxy, store))
}

#[test]
fn a_locked_request_is_two_round_trips_and_a_peek_is_one() {
    let Some((_private, proxy, store)) = through_a_proxy() else { return };
    let a = key("a");
    let (trips, begun) = proxy.trips(|| store.begin(&a, WAIT).unwrap());
    assert_eq!(trips, 1, "begin of a session that is not there");
    assert_eq!(proxy.trips(|| begun.lease.commit(&[7; 1_500], ttl()).unwrap()).0, 1, "commit");
    let (trips, begun) = proxy.trips(|| store.begin(&a, WAIT).unwrap());
    assert_eq!((trips, begun.record.unwrap().payload.len()), (1, 1_500), "begin of one that is");
    assert_eq!(proxy.trips(|| begun.lease.commit(&[8; 1_500], ttl()).unwrap()).0, 1, "commit");
    assert_eq!(proxy.trips(|| store.peek(&a).unwrap()).0, 1, "peek");
    let begun = store.begin(&a, WAIT).unwrap();
    assert_eq!(proxy.trips(|| begun.lease.release().unwrap()).0, 1, "release");
    assert_eq!(proxy.trips(|| store.create(&key("b"), b"x", ttl()).unwrap()).0, 1, "create");
    assert_eq!(proxy.trips(|| store.touch(&a, ttl()).unwrap()).0, 2, "touch");
    let mut begun = store.begin(&a, WAIT).unwrap();
    assert_eq!(proxy.trips(|| begun.lease.touch(ttl()).unwrap()).0, 2, "touch with a lease");
    let renamed = proxy.trips(|| begun.lease.regenerate(&key("c"), Duration::ZERO).unwrap()).0;
    assert!(renamed <= 7, "regenerate took {renamed}");
    begun.lease.commit(b"x", ttl()).unwrap();
    assert_eq!(proxy.trips(|| store.destroy(&key("c")).unwrap()).0, 2, "destroy");
    let held = store.begin(&a, WAIT).unwrap();
    assert_eq!(
        proxy.trips(|| store.begin(&a, Duration::ZERO).unwrap_err()).0,
        1,
        "begin of one that is taken"
    );
    drop(held);
}

fn lost<T>(proxy: &Proxy, run: impl FnOnce() -> T) -> T {
    let (lost, done) = proxy.losing_answer(0, || (), run);
    assert!(lost);
    done
}

/// The server has done it, and nobody was told: the operation must neither fail nor happen twice.
#[test]
fn an_operation_whose_answer_is_lost_is_recognised_when_it_is_sent_again() {
    let Some((private, proxy, store)) = through_a_proxy() else { return };
    let direct = private.open();
    lost(&proxy, || store.create(&key("a"), b"1", ttl())).unwrap();
    let begun = lost(&proxy, || store.begin(&key("a"), Duration::ZERO))
        .expect("it knows its own lock by the token");
    assert_eq!(begun.record.unwrap().payload, b"1");
    lost(&proxy, || begun.lease.commit(b"2", ttl())).unwrap();
    assert_eq!(
        direct.peek(&key("a")).unwrap().map(|record| (record.payload, record.head.version)),
        Some((b"2".to_vec(), 2))
    );
    let mut begun = direct.begin(&key("a"), Duration::ZERO).expect("the lock is free");
    begun.lease.touch(ttl()).unwrap();
    begun.lease.release().unwrap();
    let begun = store.begin(&key("a"), WAIT).unwrap();
    lost(&proxy, || begun.lease.release()).unwrap();
    lost(&proxy, || store.destroy(&key("a"))).unwrap();
    assert_eq!(payload_of(&direct, "a"), None);
    drop(direct.begin(&key("a"), Duration::ZERO).expect("the lock is free"));
}
