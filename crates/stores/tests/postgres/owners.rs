//! Tables from before owners: they get the column when they are opened, keep their sessions, and
//! stay good for programs that do not know it.

use std::time::Duration;

use sessile_core::{Cursor, ErrorKind, Filter, Key, Owner, Sessions};

use sessile_stores::Context;

use crate::setup::{Private, WAIT, key, ttl};

/// As a version without owners made it.
const BEFORE: &str = "CREATE TABLE sessile (
        number  bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        lock    bigint   NOT NULL, version bigint NOT NULL, created bigint NOT NULL,
        written bigint   NOT NULL, expires bigint NOT NULL, ends bigint, due bigint NOT NULL,
        mark    bigint   NOT NULL, writer bigint NOT NULL, kind smallint NOT NULL,
        bin     text     COLLATE \"C\" NOT NULL,
        id      text     COLLATE \"C\" NOT NULL,
        target  text     COLLATE \"C\",
        payload bytea,
        UNIQUE (id, bin)
    ) WITH (fillfactor = 70);
    ALTER TABLE sessile ALTER COLUMN payload SET STORAGE EXTERNAL;
    CREATE INDEX sessile_due ON sessile (due, number);
    CREATE SEQUENCE sessile_fence;
    CREATE TABLE sessile_about (version integer NOT NULL);
    INSERT INTO sessile_about SELECT 1";
/// A session in it, of 2040.
const SESSION: &str =
    "INSERT INTO sessile (bin, id, lock, kind, version, created, written, expires,
        due, writer, mark, payload)
    VALUES ('session', 'old', 1, 0, 3, 1, 2, 2208988800000, 2208988800000, 0, 0, 'cart')";

fn of_before() -> Option<Private> {
    let private = Private::start()?;
    private.sql(BEFORE);
    private.sql(SESSION);
    // The role of a site often does not own its tables.
    private.sql(
        "CREATE ROLE shop LOGIN;
        GRANT SELECT, INSERT, UPDATE, DELETE ON sessile TO shop;
        GRANT SELECT ON sessile_about TO shop; GRANT ALL ON sessile_fence TO shop",
    );
    Some(private)
}

fn of_the_shop(private: &Private) -> Sessions {
    let url = private.url().replace("user=postgres", "user=shop");
    sessile_stores::open(&url, &Context::default()).unwrap()
}

fn payload_of(store: &Sessions, id: &str) -> Option<Vec<u8>> {
    store.peek(&key(id)).unwrap().map(|record| record.payload)
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
    let store = private.open();
    assert_eq!(payload_of(&store, "old").unwrap(), b"cart");
    assert!(store.capabilities().owners);
    own(&store, "old");
    own(&store, "new");
    assert_eq!(owned(&store), [key("new"), key("old")]);
    serve(&store, "a");
    assert_eq!(store.revoke(owner(), Some(&key("old"))).unwrap(), 1);
    let schema = private.number("SELECT version FROM sessile_about");
    assert_eq!(schema, 1, "earlier programs take it for theirs");
    // It is only slower without its index, which an administrator adds to a large table.
    private.sql("DROP INDEX sessile_owner");
    own(&store, "new");
    assert_eq!(owned(&store), [key("new"), key("old")]);
}

#[test]
fn a_role_that_may_not_alter_the_table_has_sessions_without_owners() {
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
}

#[test]
fn many_that_open_a_table_from_before_owners_at_once_add_one_column() {
    let Some(private) = of_before() else { return };
    std::thread::scope(|scope| {
        for number in 0..8 {
            let private = &private;
            scope.spawn(move || {
                let store = private.open();
                serve(&store, &format!("s{number}"));
                assert!(store.capabilities().owners);
            });
        }
    });
    assert_eq!(payload_of(&private.open(), "old").unwrap(), b"cart");
}

/// What is opened by the shop's role works as a program that knows no owners: no statement of it
/// names the column.
#[test]
fn workers_that_know_no_owners_go_on_beside_new_ones() {
    let Some(private) = of_before() else { return };
    let before = of_the_shop(&private);
    (0..20).for_each(|number| serve(&before, &format!("b{number}")));
    let held = before.begin(&key("old"), WAIT).unwrap();
    let store = private.open();
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
