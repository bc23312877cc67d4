//! A session moves when it is used, whole, once, and back again if need be.

use std::time::Duration;

use sessile_core::{Absence, Detail, ErrorKind, Owner, Sessions, Ttl};
use sessile_stores::Context;
use sessile_stores::copy::{self, Compared};

use crate::setup::support::server;
use crate::setup::{Pair, WAIT, key, payload_of, ttl};

fn is_refused<T>(result: sessile_core::Result<T>, code: &str) -> bool {
    result.is_err_and(|error| error.kind().code() == code)
}

#[test]
fn a_session_moves_at_its_first_request_with_its_creation_and_its_ends() {
    let pair = Pair::new();
    let [old, new, both] = pair.stores();
    let lived = ttl().within(Duration::from_secs(9_000)).unwrap();
    old.create(&key("a"), b"cart", lived).unwrap();
    let before = old.peek(&key("a")).unwrap().unwrap().head;
    pair.clock.advance(Duration::from_secs(100));
    assert_eq!(both.peek(&key("a")).unwrap().unwrap().payload, b"cart");
    assert!(new.peek(&key("a")).unwrap().is_none(), "a look moves nothing");

    let begun = both.begin(&key("a"), WAIT).unwrap();
    assert!(!begun.moved);
    let head = begun.record.unwrap().head;
    let life = |head: sessile_core::Head| (head.created, head.expires, head.ends);
    assert_eq!(life(head), life(before));
    assert!(old.peek(&key("a")).unwrap().is_none());
    begun.lease.commit(b"two carts", ttl()).unwrap();
    assert_eq!(payload_of(&new, "a").unwrap(), b"two carts");
    let head = new.peek(&key("a")).unwrap().unwrap().head;
    assert_eq!((head.created, head.ends), (before.created, before.ends));
}

#[test]
fn a_new_session_is_in_the_new_store_only() {
    let pair = Pair::new();
    let [old, new, both] = pair.stores();
    both.create(&key("a"), b"1", ttl()).unwrap();
    both.begin(&key("b"), WAIT).unwrap().lease.commit(b"2", ttl()).unwrap();
    assert_eq!(old.stat().unwrap().sessions, 0);
    assert_eq!(new.stat().unwrap().sessions, 2);
}

#[test]
fn a_session_of_the_old_store_takes_its_id() {
    let pair = Pair::new();
    let [old, _, both] = pair.stores();
    old.create(&key("a"), b"1", ttl()).unwrap();
    assert!(is_refused(both.create(&key("a"), b"x", ttl()), "exists"));
    let mut lease = both.begin(&key("b"), WAIT).unwrap().lease;
    assert!(is_refused(lease.regenerate(&key("a"), Duration::ZERO), "exists"));
    assert_eq!(payload_of(&both, "a").unwrap(), b"1");
}

#[test]
fn a_log_out_ends_a_session_in_both_stores() {
    let pair = Pair::new();
    let [old, new, both] = pair.stores();
    old.create(&key("a"), b"1", ttl()).unwrap();
    both.destroy(&key("a")).unwrap();
    assert!(both.begin(&key("a"), WAIT).unwrap().record.is_none());
    // A process died between the two halves of a move.
    old.create(&key("b"), b"1", ttl()).unwrap();
    new.create(&key("b"), b"2", ttl()).unwrap();
    assert_eq!(payload_of(&both, "b").unwrap(), b"2", "the new store counts");
    both.destroy(&key("b")).unwrap();
    assert!(both.peek(&key("b")).unwrap().is_none());
}

/// A request has moved the session and holds it; its commit after the log-out would bring it back.
#[test]
fn a_commit_after_a_log_out_is_refused() {
    let pair = Pair::new();
    let [old, _, both] = pair.stores();
    old.create(&key("a"), b"1", ttl()).unwrap();
    let begun = both.begin(&key("a"), WAIT).unwrap();
    both.destroy(&key("a")).unwrap();
    assert!(is_refused(begun.lease.commit(b"2", ttl()), "destroyed"));
    assert!(both.peek(&key("a")).unwrap().is_none());
}

#[test]
fn a_touch_reaches_a_session_in_either_store() {
    let pair = Pair::new();
    let [old, new, both] = pair.stores();
    let short = Ttl::sliding(Duration::from_secs(10)).unwrap();
    old.create(&key("a"), b"1", short).unwrap();
    new.create(&key("b"), b"2", short).unwrap();
    for id in ["a", "b"] {
        both.touch(&key(id), ttl()).unwrap();
    }
    assert!(is_refused(both.touch(&key("c"), ttl()), "gone"));
    pair.clock.advance(Duration::from_secs(100));
    for id in ["a", "b"] {
        both.begin(&key(id), WAIT).unwrap().record.unwrap();
    }
}

#[test]
fn a_request_waits_for_the_holder_in_the_old_store() {
    let pair = Pair::new();
    let [old, _, both] = pair.stores();
    old.create(&key("a"), b"1", ttl()).unwrap();
    let held = old.begin(&key("a"), WAIT).unwrap();
    let refused = both.begin(&key("a"), Duration::from_millis(10)).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::LockTimeout { .. }), "{refused}");
    held.lease.commit(b"2", ttl()).unwrap();
    assert_eq!(both.begin(&key("a"), WAIT).unwrap().record.unwrap().payload, b"2");
}

#[test]
fn an_id_within_its_grace_leads_on_and_the_session_moves() {
    let pair = Pair::new();
    let [old, new, both] = pair.stores();
    old.create(&key("a"), b"1", ttl()).unwrap();
    let mut lease = old.begin(&key("a"), WAIT).unwrap().lease;
    lease.regenerate(&key("b"), Duration::from_secs(30)).unwrap();
    drop(lease);
    let begun = both.begin(&key("a"), WAIT).unwrap();
    assert!(begun.moved);
    assert_eq!(begun.lease.key(), &key("b"));
    begun.lease.commit(b"2", ttl()).unwrap();
    assert_eq!(payload_of(&new, "b").unwrap(), b"2");
}

/// The log-in of a worker with the old URL gave the session a new id while a request with the old
/// id waited. The move must not bring the log-in to the old id, which may have been planted.
#[test]
fn a_session_that_gets_a_new_id_while_its_move_waits_moves_under_that() {
    let pair = Pair::new();
    let [old, new, both] = pair.stores();
    old.create(&key("a"), b"cart", ttl()).unwrap();
    let mut holder = old.begin(&key("a"), WAIT).unwrap().lease;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| both.begin(&key("a"), WAIT).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        holder.regenerate(&key("b"), Duration::from_secs(30)).unwrap();
        holder.commit(b"log-in", ttl()).unwrap();
        let begun = waiting.join().unwrap();
        assert!(begun.moved);
        assert_eq!(begun.lease.key(), &key("b"));
    });
    assert!(new.find(&key("a")).unwrap().record.is_none());
    assert_eq!(payload_of(&new, "b").unwrap(), b"log-in");
}

/// A process died between the two halves of a move; then the visitor logged in, and out.
#[test]
fn what_an_interrupted_move_left_is_no_session_under_a_replaced_id() {
    let pair = Pair::new();
    let [old, _, both] = pair.stores();
    for grace in [Duration::ZERO, Duration::from_secs(30)] {
        both.create(&key("a"), b"1", ttl()).unwrap();
        old.create(&key("a"), b"1", ttl()).unwrap();
        let mut lease = both.begin(&key("a"), WAIT).unwrap().lease;
        lease.regenerate(&key("b"), grace).unwrap();
        lease.commit(b"2", ttl()).unwrap();
        both.destroy(&key("b")).unwrap();
        assert!(both.peek(&key("a")).unwrap().is_none());
        assert!(both.begin(&key("a"), WAIT).unwrap().record.is_none());
        pair.clock.advance(Duration::from_secs(8_000));
    }
}

#[test]
fn a_log_out_with_an_id_within_its_grace_ends_the_session_that_has_moved() {
    let pair = Pair::new();
    let [old, _, both] = pair.stores();
    old.create(&key("a"), b"1", ttl()).unwrap();
    let mut lease = old.begin(&key("a"), WAIT).unwrap().lease;
    lease.regenerate(&key("b"), Duration::from_secs(30)).unwrap();
    drop(lease);
    drop(both.begin(&key("b"), WAIT).unwrap());
    let begun = both.begin(&key("a"), WAIT).unwrap();
    assert!(begun.moved && begun.record.is_some());
    drop(begun);
    assert_eq!(payload_of(&both, "a").unwrap(), b"1");
    assert!(is_refused(both.create(&key("a"), b"x", ttl()), "exists"));
    both.destroy(&key("a")).unwrap();
    assert!(both.peek(&key("b")).unwrap().is_none());
}

/// A page of a listing had the id; then its visitor logged in and got another one. The copy went to
/// the old id, which may have been planted.
#[test]
fn a_copy_of_an_id_that_was_replaced_copies_nothing() {
    let pair = Pair::new();
    let [old, new, _] = pair.stores();
    old.create(&key("a"), b"1", ttl()).unwrap();
    let mut lease = old.begin(&key("a"), WAIT).unwrap().lease;
    lease.regenerate(&key("b"), Duration::from_secs(30)).unwrap();
    lease.commit(b"log-in", ttl()).unwrap();
    let clock = pair.clock.clone();
    let copies = copy::Pair { from: old, to: new.clone(), clock };
    assert_eq!(copies.copy(&key("a")).unwrap(), Compared::Ended);
    assert!(new.find(&key("a")).unwrap().record.is_none());
    assert_eq!(copies.copy(&key("b")).unwrap(), Compared::Missing);
    new.destroy(&key("b")).unwrap();
    assert_eq!(copies.copy(&key("b")).unwrap(), Compared::EndedInNew, "it was logged out there");
    assert_eq!(copies.compare(&key("b")).unwrap(), Compared::EndedInNew);
    assert!(new.find(&key("b")).unwrap().record.is_none());
}

/// The copy waited for the session in the new store while a request saved in the old one: it wrote
/// what it had read before, later than that save, so that each repetition took it for newer.
#[test]
fn a_save_while_a_copy_waits_is_copied_too() {
    let pair = Pair::new();
    let [old, new, _] = pair.stores();
    old.create(&key("a"), b"1", ttl()).unwrap();
    let copies = copy::Pair { from: old.clone(), to: new.clone(), clock: pair.clock.clone() };
    let held = new.begin(&key("a"), WAIT).unwrap().lease;
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| copies.copy(&key("a")));
        std::thread::sleep(Duration::from_millis(200));
        let lease = old.begin(&key("a"), WAIT).unwrap().lease;
        lease.commit(b"2", ttl()).unwrap();
        held.release().unwrap();
        assert_eq!(copying.join().unwrap().unwrap(), Compared::Missing);
    });
    assert_eq!(payload_of(&new, "a").unwrap(), b"2");
    assert_eq!(copies.copy(&key("a")).unwrap(), Compared::Same);
}

/// A worker with the URL turned round gave the session a new id, and it moved on under that. A look
/// with the old id, which may have been planted, has to tell that it leads on.
#[test]
fn a_look_with_a_replaced_id_tells_where_it_led() {
    let pair = Pair::new();
    let [old, new, there] = pair.stores();
    new.create(&key("a"), b"1", ttl()).unwrap();
    let mut lease = new.begin(&key("a"), WAIT).unwrap().lease;
    lease.regenerate(&key("b"), Duration::from_secs(30)).unwrap();
    drop(lease);
    // The other way.
    new.destroy(&key("b")).unwrap();
    old.create(&key("b"), b"log-in", ttl()).unwrap();
    let found = there.find(&key("a")).unwrap();
    assert!(found.record.is_none() || found.moved_to == Some(key("b")), "{found:?}");
}

/// The engine tells a digest of the id to which an alias leads.
#[test]
fn an_id_within_its_grace_in_a_store_of_digests_reads_as_replaced() {
    let pair = Pair::new();
    let urls = [pair.url("sessile:", "engine"), pair.new_url()];
    let [old, new] = urls.each_ref().map(|url| pair.open(url));
    let both = pair.open(&format!("migrate:?from={}&to={}", urls[0], urls[1]));
    old.create(&key("a"), b"1", ttl()).unwrap();
    let mut lease = old.begin(&key("a"), WAIT).unwrap().lease;
    lease.regenerate(&key("b"), Duration::from_secs(30)).unwrap();
    drop(lease);
    let begun = both.begin(&key("a"), WAIT).unwrap();
    assert_eq!((begun.record, begun.moved, begun.absence), (None, false, Absence::Regenerated));
    drop(begun.lease);
    assert_eq!(both.begin(&key("b"), WAIT).unwrap().record.unwrap().payload, b"1");
    assert_eq!(new.stat().unwrap().sessions, 1);
}

#[test]
fn a_log_out_reaches_the_new_store_when_the_old_one_fails() {
    let pair = Pair::new();
    let Some(mut server) = server::start("redis-server", &pair.dir, &Default::default()) else {
        return;
    };
    let url = format!("redis+unix:{}", server.socket().display());
    let [new, both] = [pair.new_url(), format!("migrate:?from={url}&to={}", pair.new_url())]
        .map(|url| pair.open(&url));
    server.kill();
    new.create(&key("a"), b"1", ttl()).unwrap();
    assert_eq!(both.begin(&key("a"), WAIT).unwrap().record.unwrap().payload, b"1");
    assert!(is_refused(both.begin(&key("b"), WAIT), "unreachable"));
    assert!(is_refused(both.destroy(&key("a")), "unreachable"));
    assert!(new.peek(&key("a")).unwrap().is_none());
}

/// The new store knows the session as destroyed: it moved away from there before.
#[test]
fn the_way_back_is_the_url_turned_round() {
    let pair = Pair::new();
    let [old, new, there] = pair.stores();
    let back = pair.open(&format!("migrate:?from={}&to={}", pair.new_url(), pair.old_url()));
    old.create(&key("a"), b"1", ttl()).unwrap();
    for (payload, store) in [(b"2", &there), (b"3", &back), (b"4", &there)] {
        let begun = store.begin(&key("a"), WAIT).unwrap();
        assert!(begun.record.is_some());
        begun.lease.commit(payload, ttl()).unwrap();
    }
    assert!(payload_of(&old, "a").is_none());
    assert_eq!(payload_of(&new, "a").unwrap(), b"4");
}

#[test]
fn a_listing_and_a_count_have_both_and_tell_what_is_left() {
    let pair = Pair::new();
    let [old, _, both] = pair.stores();
    for id in ["a", "b"] {
        old.create(&key(id), b"1", ttl()).unwrap();
    }
    both.create(&key("c"), b"1", ttl()).unwrap();
    drop(both.begin(&key("a"), WAIT).unwrap());
    assert_eq!(both.stat().unwrap().sessions, 3);
    let left = both.details().unwrap().into_iter().find(|(name, _)| *name == "left_in_old_store");
    assert_eq!(left.unwrap().1, Detail::Count(1));
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let page = both.list(cursor.as_ref(), &sessile_core::Filter::default()).unwrap();
        listed.extend(page.entries.into_iter().map(|entry| entry.key.id().to_owned()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    listed.sort();
    assert_eq!(listed, ["a", "b", "c"]);
}

#[test]
fn a_url_without_two_stores_says_what_is_missing() {
    for (url, word) in [
        ("migrate:", "needs an old and a new store"),
        ("migrate:?from=memory:", "needs an old and a new store"),
        ("migrate:/x?from=memory:&to=files:/dev/shm/x", "no path"),
        ("migrate:?from=memory:&to=memory:", "are the same"),
        ("migrate:?from=memory:&to=nonsense:", "option to"),
        ("migrate:?from=redis://shop:s3cret@host:notaport/&to=memory:", "option from"),
    ] {
        let error = sessile_stores::open(url, &Context::default()).map(drop).unwrap_err();
        let told = format!("{error:#}");
        assert_eq!(error.kind().code(), "invalid-url", "{url}: {told}");
        assert!(told.contains(word) && !told.contains("s3cret"), "{url}: {told}");
    }
}

#[test]
fn a_session_moves_with_its_owner_and_those_of_an_owner_end_in_both_stores() {
    let pair = Pair::new();
    let [old, new, both] = pair.stores();
    let [owner, other] = [b"17", b"18"].map(|name| Owner::new(name).unwrap());
    let own = |store: &Sessions, id: &str, owner| {
        let mut begun = store.begin(&key(id), WAIT).unwrap();
        begun.lease.set_owner(Some(owner)).unwrap();
        begun.lease.commit(b"cart", ttl()).unwrap();
    };
    ["moves", "stays", "changes"].iter().for_each(|id| own(&old, id, owner));
    both.begin(&key("moves"), WAIT).unwrap().lease.release().unwrap();
    own(&both, "changes", other);
    own(&both, "new", owner);
    assert_eq!(new.peek(&key("moves")).unwrap().unwrap().head.owner, Some(owner));
    assert_eq!(both.sessions_of(owner).unwrap().len(), 3);
    assert_eq!(both.revoke(owner, Some(&key("new"))).unwrap(), 2);
    for id in ["moves", "stays"] {
        assert!(both.peek(&key(id)).unwrap().is_none(), "{id}");
    }
    for id in ["changes", "new"] {
        assert!(both.peek(&key(id)).unwrap().is_some(), "{id}");
    }
    assert_eq!(old.stat().unwrap().sessions, 0);
}

/// The story: the engine shows digests with a secret of its own, and the old store's was not asked
/// for. A log-out everywhere else ended the session of the visitor who asked for it.
#[test]
fn a_session_that_has_not_moved_is_spared_in_a_store_of_digests() {
    let owner = Owner::new(b"17").unwrap();
    let own = |store: &Sessions, id: &str| {
        let mut begun = store.begin(&key(id), WAIT).unwrap();
        begun.lease.set_owner(Some(owner)).unwrap();
        begun.lease.commit(b"cart", ttl()).unwrap();
    };
    for schemes in [["sessile:", "sqlite:"], ["sessile:", "sessile:"], ["sqlite:", "sessile:"]] {
        let pair = Pair::new();
        let [from, to] = [pair.url(schemes[0], "from"), pair.url(schemes[1], "to")];
        let [old, both] =
            [&from, &format!("migrate:?from={from}&to={to}")].map(|url| pair.open(url));
        ["this", "late", "else", "moves"].iter().for_each(|id| own(&old, id));
        let mut late = old.begin(&key("late"), WAIT).unwrap().lease;
        late.regenerate(&key("new"), Duration::from_secs(30)).unwrap();
        drop(late);
        both.begin(&key("moves"), WAIT).unwrap().lease.release().unwrap();
        assert_eq!(both.revoke(owner, Some(&key("this"))).unwrap(), 3, "{schemes:?}");
        assert_eq!(payload_of(&both, "this").unwrap(), b"cart", "{schemes:?}");
        // By an id within its grace, and after the move.
        own(&old, "old");
        let mut late = old.begin(&key("old"), WAIT).unwrap().lease;
        late.regenerate(&key("newer"), Duration::from_secs(30)).unwrap();
        drop(late);
        assert_eq!(both.revoke(owner, Some(&key("old"))).unwrap(), 1, "{schemes:?}");
        assert_eq!(payload_of(&both, "newer").unwrap(), b"cart", "{schemes:?}");
        both.begin(&key("newer"), WAIT).unwrap().lease.release().unwrap();
        assert_eq!(both.revoke(owner, Some(&key("newer"))).unwrap(), 0, "{schemes:?}");
    }
}

/// An interrupted move leaves a session in both stores, and another user may log in meanwhile.
#[test]
fn what_an_interrupted_move_left_does_not_end_the_session_of_another_user() {
    let pair = Pair::new();
    let [old, new, both] = pair.stores();
    let [owner, other] = [b"17", b"18"].map(|name| Owner::new(name).unwrap());
    for (store, owner) in [(&old, owner), (&new, other)] {
        let mut begun = store.begin(&key("a"), WAIT).unwrap();
        begun.lease.set_owner(Some(owner)).unwrap();
        begun.lease.commit(b"cart", ttl()).unwrap();
    }
    assert_eq!(both.revoke(owner, None).unwrap(), 1, "what was left");
    assert_eq!(both.peek(&key("a")).unwrap().unwrap().head.owner, Some(other));
}

/// The story: a request had read the session in the old store and committed it to the new one after
/// the revocation had returned. A plain log-out voids such a commit. Where the old store lists
/// digests the move looks at it again (`moving.rs`).
#[test]
fn a_revocation_voids_the_commit_of_a_move_that_is_under_way() {
    let owner = Owner::new(b"17").unwrap();
    for [old_url, new_url] in
        [["files:", "sqlite:"], ["sqlite:", "sessile:"], ["sqlite:", "files:"]]
    {
        let pair = Pair::new();
        let [from, to] = [pair.url(old_url, "from"), pair.url(new_url, "to")];
        let [old, new, both] =
            [&from, &to, &format!("migrate:?from={from}&to={to}")].map(|url| pair.open(url));
        let mut begun = old.begin(&key("a"), WAIT).unwrap();
        begun.lease.set_owner(Some(owner)).unwrap();
        begun.lease.commit(b"cart", ttl()).unwrap();
        // What a move does.
        let mut moves = new.begin(&key("a"), WAIT).unwrap();
        moves.lease.set_owner(Some(owner)).unwrap();
        assert_eq!(both.revoke(owner, None).unwrap(), 1, "{old_url} {new_url}");
        let committed = moves.lease.commit(b"cart", ttl());
        assert!(is_refused(committed, "destroyed"), "{old_url} {new_url}");
        assert!(both.peek(&key("a")).unwrap().is_none(), "{old_url} {new_url}");
    }
}

/// A timer with `sessile sync` failed for the whole move, and synced nothing.
#[test]
fn the_new_store_is_synced_beside_an_old_one_that_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("migrate:?from=memory:&to=sessile:{}", dir.path().join("e").display());
    let store = sessile_stores::open(&url, &Context::default()).unwrap();
    store.sync().unwrap();
}
