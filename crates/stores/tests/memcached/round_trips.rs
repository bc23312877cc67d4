//! How often an operation goes to the server, counted on the wire; and what a lost answer does.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use sessile_core::Sessions;

use crate::proxy::{self, Passing};
use crate::setup::{Private, WAIT, key, open, payload_of, socket_in, ttl};

fn through_a_proxy() -> Option<(Private, Arc<Passing>, Sessions)> {
    let private = Private::start(&[])?;
    let (passing, at) = (Passing::new(), socket_in(&private.kept));
    proxy::start(at.clone(), private.server.socket(), &passing);
    let store = open(&at, "").unwrap();
    Some((private, passing, store))
}

#[test]
fn a_locked_request_is_two_round_trips_and_a_peek_is_one() {
    let Some((_private, passing, store)) = through_a_proxy() else { return };
    let a = key("a");
    let (trips, begun) = passing.count(|| store.begin(&a, WAIT).unwrap());
    assert_eq!(trips, 1, "begin of a session that is not there");
    assert_eq!(passing.count(|| begun.lease.commit(&[7; 1_500], ttl()).unwrap()).0, 1, "commit");
    let (trips, begun) = passing.count(|| store.begin(&a, WAIT).unwrap());
    assert_eq!((trips, begun.record.unwrap().payload.len()), (1, 1_500), "begin of one that is");
    assert_eq!(passing.count(|| begun.lease.commit(&[8; 1_500], ttl()).unwrap()).0, 1, "commit");
    assert_eq!(passing.count(|| store.peek(&a).unwrap()).0, 1, "peek");
    let begun = store.begin(&a, WAIT).unwrap();
    assert_eq!(passing.count(|| begun.lease.release().unwrap()).0, 1, "release");
    assert_eq!(passing.count(|| store.create(&key("b"), b"x", ttl()).unwrap()).0, 1, "create");
    assert_eq!(passing.count(|| store.touch(&a, ttl()).unwrap()).0, 2, "touch");
    let mut begun = store.begin(&a, WAIT).unwrap();
    assert_eq!(passing.count(|| begun.lease.touch(ttl()).unwrap()).0, 2, "touch with a lease");
    let renamed = passing.count(|| begun.lease.regenerate(&key("c"), Duration::ZERO).unwrap()).0;
    assert!(renamed <= 7, "regenerate took {renamed}");
    begun.lease.commit(b"x", ttl()).unwrap();
    assert_eq!(passing.count(|| store.destroy(&key("c")).unwrap()).0, 2, "destroy");
    let held = store.begin(&a, WAIT).unwrap();
    assert_eq!(
        passing.count(|| store.begin(&a, Duration::ZERO).unwrap_err()).0,
        1,
        "begin of one that is taken"
    );
    drop(held);
}

/// The server has done it, and nobody was told: the operation must neither fail nor happen twice.
#[test]
fn an_operation_whose_answer_is_lost_is_recognised_when_it_is_sent_again() {
    let Some((private, passing, store)) = through_a_proxy() else { return };
    let direct = private.open();
    let lose = || passing.lose_next.store(true, SeqCst);
    lose();
    store.create(&key("a"), b"1", ttl()).unwrap();
    lose();
    let begun = store.begin(&key("a"), Duration::ZERO).expect("it knows its own lock by the token");
    assert_eq!(begun.record.unwrap().payload, b"1");
    lose();
    begun.lease.commit(b"2", ttl()).unwrap();
    assert_eq!(
        direct.peek(&key("a")).unwrap().map(|record| (record.payload, record.head.version)),
        Some((b"2".to_vec(), 2))
    );
    let mut begun = direct.begin(&key("a"), Duration::ZERO).expect("the lock is free");
    begun.lease.touch(ttl()).unwrap();
    begun.lease.release().unwrap();
    let begun = store.begin(&key("a"), WAIT).unwrap();
    lose();
    begun.lease.release().unwrap();
    lose();
    store.destroy(&key("a")).unwrap();
    assert_eq!(payload_of(&direct, "a"), None);
    drop(direct.begin(&key("a"), Duration::ZERO).expect("the lock is free"));
}
