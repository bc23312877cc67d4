//! Tables from before owners: they get the column when they are opened, keep their sessions, and
//! stay good for programs that do not know it.

use std::time::Duration;

use mysql::prelude::Queryable;
use sessile_core::{Clock, Cursor, ErrorKind, Filter, Key, Owner, Sessions, Timestamp, Ttl};
use sessile_stores::Context;

use crate::setup::{Private, WAIT, key, payload_of, ttl};

/// As a version without owners made it.
const BEFORE: &str = "CREATE TABLE site.sessile_session (
    bin     VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id      VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    kind    TINYINT NOT NULL, version BIGINT NOT NULL, created BIGINT NOT NULL,
    written BIGINT NOT NULL, expires BIGINT NOT NULL, ends BIGINT NULL, due BIGINT NOT NULL,
    mark    BIGINT NOT NULL, bytes BIGINT NOT NULL,
    target  VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NULL,
    payload LONGBLOB NULL,
    PRIMARY KEY (bin, id), KEY due (due)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'sessions of sessile, schema 1'";
/// A session in it, of 2040.
const SESSION: &str =
    "INSERT INTO site.sessile_session (kind, version, created, written, expires, ends,
    due, mark, target, bytes, payload, bin, id)
    VALUES (0, 3, 1, 2, 2208988800000, NULL, 2208988800000, 0, NULL, 4, 'cart', 'session', 'old')";

fn of_before() -> Option<Private> {
    let private = Private::start()?;
    // In `test` everybody may do everything.
    private.run("CREATE DATABASE site");
    private.run(BEFORE);
    private.run(SESSION);
    // A user of a site often has no right to alter its tables.
    private.run("CREATE USER shop@localhost IDENTIFIED BY ''");
    private.run("GRANT SELECT, INSERT, UPDATE, DELETE ON site.* TO shop@localhost");
    Some(private)
}

fn open_as(private: &Private, user: &str) -> Sessions {
    open_as_at(private, user, Clock::system())
}

fn open_as_at(private: &Private, user: &str, clock: Clock) -> Sessions {
    let url = private.url("").replace("database=test", "database=site");
    let url = url.replace("user=root", &format!("user={user}"));
    sessile_stores::open(&url, &Context { clock }).unwrap()
}

fn of_the_shop(private: &Private) -> Sessions {
    open_as(private, "shop")
}

fn owner() -> Owner {
    Owner::new(b"17").unwrap()
}

fn own(store: &Sessions, id: &str) {
    let mut begun = store.begin(&key(id), WAIT).unwrap();
    begun.lease.set_owner(Some(owner())).unwrap();
    begun.lease.commit(b"owned", ttl()).unwrap();
}

fn owned(store: &Sessions) -> Vec<Key> {
    store.sessions_of(owner()).unwrap().into_iter().map(|entry| entry.key).collect()
}

/// Everything that a request may do, with small and large payloads.
fn serve(store: &Sessions, id: &str) {
    let other = key(&format!("{id}x"));
    store.create(&key(id), b"created", ttl()).unwrap();
    for bytes in [10, 10_000, 70_000] {
        let payload = vec![b'x'; bytes];
        store.begin(&key(id), WAIT).unwrap().lease.commit(&payload, ttl()).unwrap();
        assert_eq!(payload_of(store, id).unwrap(), payload);
        assert_eq!(store.begin(&key(id), WAIT).unwrap().record.unwrap().payload, payload);
    }
    store.touch(&key(id), ttl()).unwrap();
    let mut begun = store.begin(&key(id), WAIT).unwrap();
    begun.lease.regenerate(&other, Duration::from_secs(30)).unwrap();
    begun.lease.commit(b"moved", ttl()).unwrap();
    assert_eq!(payload_of(store, id).unwrap(), b"moved");
    assert!(store.list(None::<&Cursor>, &Filter::default()).unwrap().entries.len() >= 2);
    store.destroy(&key(id)).unwrap();
    assert!(store.peek(&other).unwrap().is_none());
    store.begin(&other, WAIT).unwrap().lease.commit(b"anew", ttl()).unwrap();
    store.destroy(&other).unwrap();
}

#[test]
fn a_table_from_before_owners_keeps_its_sessions_and_gets_owners() {
    let Some(private) = of_before() else { return };
    let store = open_as(&private, "root");
    assert_eq!(payload_of(&store, "old").unwrap(), b"cart");
    assert!(store.capabilities().owners);
    own(&store, "old");
    own(&store, "new");
    assert_eq!(owned(&store), [key("new"), key("old")]);
    serve(&store, "a");
    assert_eq!(store.revoke(owner(), Some(&key("old"))).unwrap(), 1);
    let schema = "SELECT COUNT(*) FROM information_schema.TABLES
        WHERE TABLE_NAME = 'sessile_session' AND TABLE_COMMENT = 'sessions of sessile, schema 1'";
    assert_eq!(private.number(schema), 1, "earlier programs take it for theirs");
}

#[test]
fn a_user_who_may_not_alter_the_table_has_sessions_without_owners() {
    let Some(private) = of_before() else { return };
    let store = of_the_shop(&private);
    assert!(!store.capabilities().owners);
    assert_eq!(payload_of(&store, "old").unwrap(), b"cart");
    serve(&store, "a");
    let mut begun = store.begin(&key("old"), WAIT).unwrap();
    let refused = begun.lease.set_owner(Some(owner())).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Unsupported);
    begun.lease.commit(b"goes on", ttl()).unwrap();
    assert_eq!(store.sessions_of(owner()).unwrap_err().kind(), &ErrorKind::Unsupported);
    let refused = store.destroy_owned(&key("old"), owner()).unwrap_err();
    assert_eq!(refused.kind(), &ErrorKind::Unsupported);
}

#[test]
fn many_that_open_a_table_from_before_owners_at_once_add_one_column() {
    let Some(private) = of_before() else { return };
    std::thread::scope(|scope| {
        for number in 0..8 {
            let private = &private;
            scope.spawn(move || {
                let store = open_as(private, "root");
                serve(&store, &format!("s{number}"));
                assert!(store.capabilities().owners);
            });
        }
    });
    assert_eq!(payload_of(&open_as(&private, "root"), "old").unwrap(), b"cart");
}

/// What is opened by the shop's user works as a program that knows no owners: no statement of it
/// names the column.
#[test]
fn workers_that_know_no_owners_go_on_beside_new_ones() {
    let Some(private) = of_before() else { return };
    let before = of_the_shop(&private);
    // From the ninth begin on statements are prepared.
    (0..20).for_each(|number| serve(&before, &format!("b{number}")));
    let held = before.begin(&key("old"), WAIT).unwrap();
    let store = open_as(&private, "root");
    assert!(store.capabilities().owners, "nobody who holds a session keeps the column away");
    held.lease.commit(b"cart", ttl()).unwrap();
    own(&store, "old");
    own(&store, "b");
    (0..20).for_each(|number| serve(&before, &format!("c{number}")));
    // Its commits keep the owner, and its log-outs count.
    before.begin(&key("old"), WAIT).unwrap().lease.commit(b"more", ttl()).unwrap();
    assert_eq!(owned(&store), [key("b"), key("old")]);
    before.destroy(&key("b")).unwrap();
    assert_eq!(owned(&store), [key("old")]);
    // The next one that it starts finds the column.
    assert!(of_the_shop(&private).capabilities().owners);
}

/// The story: a visitor logs out through a worker that knows no owners, and another one begins anew
/// there under the same id. The row still had the owner of the first, so to end the sessions of the
/// first user ended that of the second.
#[test]
fn a_session_that_an_old_worker_begins_anew_has_no_owner_of_the_one_before() {
    let Some(private) = of_before() else { return };
    let clock = Clock::manual(Timestamp::from_ms(1_800_000_000_000));
    let before = open_as_at(&private, "shop", clock.clone());
    let store = open_as_at(&private, "root", clock.clone());
    own(&store, "a");
    own(&store, "b");
    clock.advance(Duration::from_secs(1));
    // Under the id of a tombstone, and of a record that has expired.
    before.destroy(&key("a")).unwrap();
    let begin_anew = |id: &str| {
        let begun = before.begin(&key(id), WAIT).unwrap();
        assert!(begun.record.is_none());
        begun.lease.commit(b"of another", ttl()).unwrap();
        assert_eq!(store.peek(&key(id)).unwrap().unwrap().head.owner, None);
    };
    begin_anew("a");
    assert_eq!(owned(&store), [key("b")]);
    let short = Ttl::sliding(Duration::from_secs(1)).unwrap();
    before.touch(&key("b"), short).unwrap();
    clock.advance(Duration::from_secs(2));
    begin_anew("b");
    assert_eq!(store.revoke(owner(), None).unwrap(), 0);
    assert!(!store.destroy_owned(&key("a"), owner()).unwrap());
    assert_eq!(payload_of(&store, "a").unwrap(), b"of another");
    assert_eq!(payload_of(&store, "b").unwrap(), b"of another");
}

#[test]
fn a_worker_that_was_started_before_the_columns_finds_them_later() {
    let Some(private) = of_before() else { return };
    let clock = Clock::manual(Timestamp::from_ms(1_800_000_000_000));
    let before = open_as_at(&private, "shop", clock.clone());
    (0..20).for_each(|number| serve(&before, &format!("b{number}")));
    let store = open_as_at(&private, "root", clock.clone());
    // The first has the connection of all that was done before.
    let mut old = before.begin(&key("old"), WAIT).unwrap();
    let mut new = before.begin(&key("new"), WAIT).unwrap();
    assert!(!before.capabilities().owners);
    clock.advance(Duration::from_secs(61));
    // Leases from before it looked set owners, too.
    new.lease.set_owner(Some(owner())).unwrap();
    new.lease.commit(b"owned", ttl()).unwrap();
    old.lease.set_owner(Some(owner())).unwrap();
    old.lease.commit(b"owned", ttl()).unwrap();
    (0..20).for_each(|number| serve(&before, &format!("c{number}")));
    own(&before, "more");
    for sessions in [&before, &store] {
        assert_eq!(owned(sessions), [key("more"), key("new"), key("old")]);
    }
    for _ in 0..20 {
        let begun = before.begin(&key("old"), WAIT).unwrap();
        assert_eq!(begun.lease.owner(), Some(owner()), "each statement names the columns");
    }
    assert_eq!(before.revoke(owner(), None).unwrap(), 3);
}

/// The story: a dump kept the table for longer than a worker waits for an answer. The time of the
/// whole opening was over when the columns were given up, and the site did not start.
#[test]
fn a_table_that_somebody_keeps_is_opened_without_owners() {
    let Some(private) = of_before() else { return };
    let url = private.url("&response_timeout_ms=600").replace("database=test", "database=site");
    let mut dump = private.raw();
    dump.query_drop("START TRANSACTION").unwrap();
    dump.query_drop("SELECT * FROM site.sessile_session").unwrap();
    let clock = Clock::manual(Timestamp::from_ms(1_800_000_000_000));
    let store = sessile_stores::open(&url, &Context { clock: clock.clone() }).unwrap();
    assert!(!store.capabilities().owners);
    assert_eq!(payload_of(&store, "old").unwrap(), b"cart");
    drop(dump);
    assert!(open_as(&private, "root").capabilities().owners);
    clock.advance(Duration::from_secs(61));
    assert!(store.capabilities().owners);
}
