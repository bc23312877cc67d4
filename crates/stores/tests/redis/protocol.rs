//! The protocol seen from outside: round trips, contents of keys, lapsed leases, lost answers.

use std::time::Duration;

use sessile_core::{Absence, Clock, ErrorKind, Filter, Timestamp};

use crate::setup::{Private, WAIT, key, ttl, until};

#[test]
fn a_locked_request_is_two_round_trips() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    let cycle = || store.begin(&key("a"), WAIT).unwrap().lease.commit(b"cart", ttl()).unwrap();
    cycle(); // teaches the server the scripts
    let _: () = redis::cmd("CONFIG").arg("RESETSTAT").query(&mut private.raw()).unwrap();
    for _ in 0..10 {
        cycle();
    }
    // One write to begin, one to commit; each ends a read of the server's event loop, so the order
    // shows there.
    let commands = private.commands();
    for other in ["evalsha", "eval", "script|load", "ping", "blpop", "rpush", "lpop", "setrange"] {
        assert_eq!(commands.get(other), None, "{other}");
    }
    let called = |name: &str| commands.get(name).copied().unwrap_or(0);
    let begun = ["unwatch", "set", "watch", "get", "incr"].map(called);
    assert_eq!((begun, ["multi", "del", "exec"].map(called)), ([10, 20, 10, 20, 10], [10, 10, 10]));
}

/// A connection that watched for one lease must not let a later one fail, or pass: its next begin
/// starts anew.
#[test]
fn a_lease_given_back_leaves_nothing_watched() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    store.begin(&key("a"), WAIT).unwrap().lease.release().unwrap();
    store.destroy(&key("a")).unwrap();
    let _: () = redis::cmd("CONFIG").arg("RESETSTAT").query(&mut private.raw()).unwrap();
    store.begin(&key("b"), WAIT).unwrap().lease.commit(b"cart", ttl()).unwrap();
    assert_eq!(
        private.commands().get("evalsha"),
        None,
        "the commit had to fall back to the script"
    );
}

/// Each of these happens between the read and the EXEC of a commit, and each must make it fail or
/// start over.
#[test]
fn whatever_happens_to_a_watched_session_is_noticed_by_the_commit() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    let other = private.open("");
    let created = |id: &str| {
        store.create(&key(id), b"old", ttl()).unwrap();
        store.begin(&key(id), WAIT).unwrap().lease
    };
    let lease = created("destroyed");
    other.destroy(&key("destroyed")).unwrap();
    assert_eq!(lease.commit(b"late", ttl()).unwrap_err().kind(), &ErrorKind::Destroyed);
    assert!(store.peek(&key("destroyed")).unwrap().is_none());

    let lease = created("again");
    other.destroy(&key("again")).unwrap();
    other.create(&key("again"), b"new", ttl()).unwrap();
    assert!(lease.commit(b"late", ttl()).is_err());
    assert_eq!(store.peek(&key("again")).unwrap().unwrap().payload, b"new");

    let lease = created("touched");
    let longer = ttl().within(Duration::from_secs(9_000)).unwrap();
    other.touch(&key("touched"), longer).unwrap();
    lease.commit(b"mine", ttl()).unwrap();
    let record = store.peek(&key("touched")).unwrap().unwrap();
    assert_eq!((record.payload.as_slice(), record.head.ends.is_some()), (b"mine".as_slice(), true));

    let mut lease = created("moved");
    lease.regenerate(&key("moved2"), Duration::ZERO).unwrap();
    lease.commit(b"mine", ttl()).unwrap();
    assert_eq!(store.peek(&key("moved2")).unwrap().unwrap().payload, b"mine");
    assert!(store.peek(&key("moved")).unwrap().is_none());

    let lease = created("waited");
    std::thread::scope(|scope| {
        let waiter =
            scope.spawn(|| other.begin(&key("waited"), WAIT).unwrap().record.unwrap().payload);
        until("the waiter blocks", || private.commands().contains_key("blpop"));
        lease.commit(b"mine", ttl()).unwrap();
        assert_eq!(waiter.join().unwrap(), b"mine");
    });
}

#[test]
fn the_whole_life_of_a_session() {
    let Some(private) = Private::start() else { return };
    let store = private.open("");
    let begun = store.begin(&key("a"), WAIT).unwrap();
    assert!(begun.record.is_none() && begun.absence == Absence::Unknown);
    let first_fence = begun.lease.fence();
    begun.lease.commit(b"one", ttl()).unwrap();
    assert_eq!(store.create(&key("a"), b"x", ttl()).unwrap_err().kind(), &ErrorKind::Exists);

    let mut begun = store.begin(&key("a"), WAIT).unwrap();
    assert!(begun.lease.fence() > first_fence);
    assert_eq!(
        begun.record.as_ref().map(|record| record.payload.as_slice()),
        Some(b"one".as_slice())
    );
    begun.lease.touch(ttl()).unwrap();
    begun.lease.regenerate(&key("b"), Duration::from_secs(60)).unwrap();
    begun.lease.commit(b"two", ttl()).unwrap();
    assert_eq!(
        store.peek(&key("a")).unwrap().unwrap().payload,
        b"two",
        "the old id leads on during the grace"
    );
    let begun = store.begin(&key("a"), WAIT).unwrap();
    assert_eq!((begun.lease.key(), begun.record.unwrap().head.version), (&key("b"), 2));
    begun.lease.release().unwrap();
    store.touch(&key("a"), ttl()).unwrap();

    let page = store.list(None, &Filter::default()).unwrap();
    assert_eq!((page.entries.len(), page.next), (1, None));
    let stat = store.stat().unwrap();
    assert_eq!((stat.sessions, stat.payload_bytes, stat.complete), (1, 3, true));

    let late = store.begin(&key("b"), WAIT).unwrap();
    store.destroy(&key("a")).unwrap();
    assert!(
        store.peek(&key("b")).unwrap().is_none(),
        "destroying the old id destroys what it leads to"
    );
    assert_eq!(late.lease.commit(b"three", ttl()).unwrap_err().kind(), &ErrorKind::Destroyed);
    assert_eq!(store.begin(&key("b"), WAIT).unwrap().absence, Absence::Destroyed);
    assert_eq!(store.touch(&key("b"), ttl()).unwrap_err().kind(), &ErrorKind::Gone);
    store.create(&key("b"), b"anew", ttl()).unwrap();
}

#[test]
fn expiry_follows_our_clock_to_the_millisecond_although_redis_still_has_the_bytes() {
    let Some(private) = Private::start() else { return };
    let clock = Clock::manual(Timestamp::from_ms(1_000_000));
    let store = private.open_at("", clock.clone());
    store.create(&key("a"), b"x", ttl()).unwrap();
    clock.advance(Duration::from_millis(1_440_000 - 1));
    assert!(store.peek(&key("a")).unwrap().is_some());
    clock.advance(Duration::from_millis(1));
    assert!(store.peek(&key("a")).unwrap().is_none());
    assert_eq!(store.stat().unwrap().expired, 1);
    let begun = store.begin(&key("a"), WAIT).unwrap();
    assert!(begun.record.is_none());
    begun.lease.commit(b"y", ttl()).unwrap();
    assert_eq!(store.peek(&key("a")).unwrap().unwrap().head.version, 1);
}

#[test]
fn a_lapsed_lease_commits_without_a_successor_and_is_stale_with_one() {
    let Some(private) = Private::start() else { return };
    let store = private.open("lock_ttl_ms=50");
    let lapsed = |id: &str| {
        let begun = store.begin(&key(id), WAIT).unwrap();
        let name = format!("sessile:l:{{session/{id}}}");
        until("the lock lapses", || {
            !redis::cmd("EXISTS").arg(&name).query::<bool>(&mut private.raw()).unwrap()
        });
        begun.lease
    };
    lapsed("a").commit(b"1", ttl()).unwrap();
    lapsed("a").commit(b"2", ttl()).unwrap();

    let late = lapsed("a");
    store.begin(&key("a"), WAIT).unwrap().lease.commit(b"3", ttl()).unwrap();
    assert_eq!(late.commit(b"lost", ttl()).unwrap_err().kind(), &ErrorKind::Stale);

    // A successor that only looked has held the lock, too.
    let late = lapsed("a");
    store.begin(&key("a"), WAIT).unwrap().lease.release().unwrap();
    assert_eq!(late.commit(b"lost", ttl()).unwrap_err().kind(), &ErrorKind::Stale);

    let mut late = lapsed("a");
    store.destroy(&key("a")).unwrap();
    assert_eq!(late.touch(ttl()).unwrap_err().kind(), &ErrorKind::Destroyed);
    assert_eq!(
        late.regenerate(&key("b"), Duration::ZERO).unwrap_err().kind(),
        &ErrorKind::Destroyed
    );
    assert_eq!(late.commit(b"back", ttl()).unwrap_err().kind(), &ErrorKind::Destroyed);
    assert!(store.peek(&key("a")).unwrap().is_none());

    let late = lapsed("new");
    store.create(&key("new"), b"theirs", ttl()).unwrap();
    assert_eq!(late.commit(b"ours", ttl()).unwrap_err().kind(), &ErrorKind::Stale);
}

/// With hashed ids a lease that came over an alias knows only the digest of its id, so the common
/// check for "the new id is the old one" cannot see it. The script took the lease's own lock for
/// its own earlier work and said yes.
#[test]
fn a_hashed_session_cannot_be_regenerated_onto_itself() {
    let Some(private) = Private::start() else { return };
    let store = private.open("ids=hashed");
    store.create(&key("old"), b"cart", ttl()).unwrap();
    let grace = Duration::from_secs(60);
    store.begin(&key("old"), WAIT).unwrap().lease.regenerate(&key("new"), grace).unwrap();
    let mut begun = store.begin(&key("old"), WAIT).unwrap();
    assert_eq!(begun.lease.regenerate(&key("new"), grace).unwrap_err().kind(), &ErrorKind::Exists);
    begun.lease.commit(b"cart 2", ttl()).unwrap();
    assert_eq!(store.peek(&key("new")).unwrap().unwrap().payload, b"cart 2");
}
