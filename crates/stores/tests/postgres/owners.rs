//! Tables from before owners: they get the column when they are opened, keep their sessions, and
//! stay good for programs that do not know it.

use std::time::Duration;

use sessile_core::{Clock, Cursor, ErrorKind, Filter, Key, Owner, Sessions, Timestamp, Ttl};

use sessile_stores::Context;

use crate::setup::{Private, WAIT, key, ttl, until};

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
    of_the_shop_at(private, Clock::system())
}

fn of_the_shop_at(private: &Private, clock: Clock) -> Sessions {
    let url = private.url().replace("user=postgres", "user=shop");
    sessile_stores::open(&url, &Context { clock }).unwrap()
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

/// The story: a visitor logs out through a worker that knows no owners, and another one begins anew
/// there under the same id. The row still had the owner of the first, so to end the sessions of the
/// first user ended that of the second.
#[test]
fn a_session_that_an_old_worker_begins_anew_has_no_owner_of_the_one_before() {
    let Some(private) = of_before() else { return };
    let clock = Clock::manual(Timestamp::from_ms(1_800_000_000_000));
    let before = of_the_shop_at(&private, clock.clone());
    let store = private.open_at(clock.clone());
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
    let before = of_the_shop_at(&private, clock.clone());
    (0..20).for_each(|number| serve(&before, &format!("b{number}")));
    let store = private.open_at(clock.clone());
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

/// A worker that waits 600 ms for an answer.
fn hasty(private: &Private) -> Sessions {
    let url = format!("{}&response_timeout_ms=600", private.url());
    sessile_stores::open(&url, &Context { clock: Clock::system() }).unwrap()
}

/// The story: many workers opened the table at once. One added the columns and went on to the
/// index, which kept the others from the table, and for a minute they took it for one without
/// owners.
#[test]
fn columns_that_another_worker_has_added_meanwhile_are_seen() {
    let Some(private) = of_before() else { return };
    let is_indexed = "(SELECT count(*) FROM pg_locks WHERE relation = 'sessile'::regclass
        AND mode = 'ShareLock' AND granted) = 1";
    // The worker comes to its change of the table when another one is at the index.
    private.sql(&format!(
        "CREATE FUNCTION come_late() RETURNS event_trigger LANGUAGE plpgsql AS $$
            BEGIN
                FOR i IN 1..10000 LOOP
                    EXIT WHEN current_setting('application_name') NOT LIKE 'sessile %';
                    EXIT WHEN {is_indexed};
                    PERFORM pg_sleep(0.001);
                END LOOP;
            END $$;
        CREATE EVENT TRIGGER come_late ON ddl_command_start WHEN TAG IN ('ALTER TABLE')
            EXECUTE FUNCTION come_late()"
    ));
    std::thread::scope(|scope| {
        let opens = scope.spawn(|| private.open().capabilities().owners);
        let comes = "SELECT count(*) FROM pg_stat_activity
            WHERE application_name LIKE 'sessile %' AND query LIKE '%ADD COLUMN%'";
        until("the worker has looked at the table", || private.number(comes) == 1);
        private.sql(
            "ALTER TABLE sessile ADD COLUMN owner text COLLATE \"C\",
                ADD COLUMN owner_created bigint",
        );
        private.sql("BEGIN; LOCK TABLE sessile IN SHARE MODE; SELECT pg_sleep(2); COMMIT");
        assert!(opens.join().unwrap());
    });
}

/// The story: the table was cold and its volume slow. The time of the whole opening was over before
/// the index was made, and the site did not start.
#[test]
fn a_table_whose_index_takes_long_is_opened_with_owners() {
    let Some(private) = of_before() else { return };
    private.sql(
        "CREATE FUNCTION dawdle() RETURNS event_trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM pg_sleep(2); END';
        CREATE EVENT TRIGGER dawdle ON ddl_command_end WHEN TAG IN ('CREATE INDEX')
            EXECUTE FUNCTION dawdle()",
    );
    let store = hasty(&private);
    assert!(store.capabilities().owners);
    assert_eq!(payload_of(&store, "old").unwrap(), b"cart");
    let index = "SELECT count(*) FROM pg_indexes WHERE indexname = 'sessile_owner'";
    assert_eq!(private.number(index), 0);
    until("the server goes on with the index", || private.number(index) == 1);
    own(&store, "old");
    assert_eq!(owned(&store), [key("old")]);
}

#[test]
fn a_table_that_somebody_keeps_is_opened_without_owners() {
    let Some(private) = of_before() else { return };
    let clock = Clock::manual(Timestamp::from_ms(1_800_000_000_000));
    let store = std::thread::scope(|scope| {
        let dump = "BEGIN; LOCK TABLE sessile IN ACCESS SHARE MODE; SELECT pg_sleep(2); COMMIT";
        scope.spawn(|| private.sql(dump));
        let kept = "SELECT count(*) FROM pg_locks WHERE relation = 'sessile'::regclass";
        until("the table is kept", || private.number(kept) == 1);
        let store = private.open_at(clock.clone());
        assert!(!store.capabilities().owners);
        assert_eq!(payload_of(&store, "old").unwrap(), b"cart");
        store
    });
    assert!(private.open().capabilities().owners);
    clock.advance(Duration::from_secs(61));
    assert!(store.capabilities().owners);
}

/// The story: the change of the table waited for a standby that was away, and the opening with it.
/// Nobody would have reached the table meanwhile.
#[test]
fn a_table_is_brought_up_to_date_while_the_standby_is_away() {
    let Some(private) = of_before() else { return };
    private.sql("ALTER SYSTEM SET synchronous_standby_names = 'away'");
    private.sql("SELECT pg_reload_conf()");
    let is_set = "SELECT count(*) FROM pg_settings
        WHERE name = 'synchronous_standby_names' AND setting = 'away'";
    until("the standby is awaited", || private.number(is_set) == 1);
    let store = hasty(&private);
    assert!(store.capabilities().owners);
    assert_eq!(payload_of(&store, "old").unwrap(), b"cart");
}
