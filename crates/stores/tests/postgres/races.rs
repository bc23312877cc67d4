//! What a race between two statements of the server must not lose.

use std::time::Duration;

use sessile_core::Sessions;

use crate::pretence::Pretence;
use crate::setup::{Private, WAIT, key, ttl, until};

/// The locks of sessions that are held.
const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";

/// What a regeneration does, and slowly: the record has its new id, and nothing leads there yet.
fn regeneration(old: &str, new: &str) -> String {
    format!(
        "BEGIN; UPDATE sessile SET id = '{new}' WHERE id = '{old}'; SELECT pg_sleep(2);
         INSERT INTO sessile (id, bin, lock, kind, version, created, written, expires, due, \
         writer, mark, target)
         SELECT '{old}', bin, 0, 2, 0, created, created, expires, due, 0, 0, '{new}' FROM sessile \
         WHERE id = '{new}';
         COMMIT"
    )
}

/// Does something while the server sleeps in the middle of these statements; whether it still did
/// when that began. On a machine that is busy with something else it may be over before anybody
/// sees it.
fn amid<T>(private: &Private, statements: &str, run: impl FnOnce() -> T) -> (bool, T) {
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    std::thread::scope(|scope| {
        let sleeping = scope.spawn(|| private.sql(statements));
        until("the server sleeps", || private.number(asleep) == 1 || sleeping.is_finished());
        let in_time = !sleeping.is_finished(); // then it was seen to sleep
        (in_time, run())
    })
}

#[test]
fn a_log_out_that_waits_for_a_regeneration_finds_the_session_under_its_new_id() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    let races = |round: u32| {
        let (old, new) = (format!("old-{round}"), format!("new-{round}"));
        store.create(&key(&old), b"cart", ttl()).unwrap();
        let (in_time, destroyed) =
            amid(&private, &regeneration(&old, &new), || store.destroy(&key(&old)));
        destroyed.unwrap();
        for id in [new, old] {
            assert!(store.peek(&key(&id)).unwrap().is_none(), "{id} is alive");
        }
        in_time
    };
    assert!((0..8).any(races), "eight regenerations were over before the log-out");
}

#[test]
fn a_lock_that_was_granted_at_the_moment_of_the_time_out_is_given_back() {
    let Some(private) = Private::start() else { return };
    let (pretence, _proxy, url) = Pretence::before(&private);
    let store = sessile_stores::open(&url, &sessile_stores::Context::default()).unwrap();
    // So that its statements are prepared.
    store.begin(&key("a"), WAIT).unwrap().lease.commit(b"x", ttl()).unwrap();
    pretence.say_too_late();
    let error = store.begin(&key("a"), WAIT).unwrap_err();
    assert_eq!(error.kind().code(), "lock-timeout", "{error:?}");
    let granted = private.open().begin(&key("a"), Duration::ZERO);
    assert!(granted.is_ok(), "the connection that gave up has the lock: {:?}", granted.err());
}

/// A part of a regeneration that the server refused left the parts before it in place: the lease
/// did not know its record.
#[test]
fn a_regeneration_that_is_refused_in_the_middle_or_at_its_end_has_not_happened() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    let refusals = [
        (
            "ALTER TABLE sessile ADD CONSTRAINT no_alias CHECK (kind <> 2)",
            "ALTER TABLE sessile \
                                                                           DROP CONSTRAINT \
                                                                           no_alias",
        ),
        (
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION \
             ''no''; END';
             CREATE CONSTRAINT TRIGGER no_alias AFTER INSERT ON sessile INITIALLY DEFERRED FOR \
             EACH ROW EXECUTE FUNCTION refuse()",
            "DROP TRIGGER no_alias ON sessile",
        ),
    ];
    for (number, (refuse, allow)) in refusals.into_iter().enumerate() {
        let (old, new) = (key(&format!("old{number}")), key(&format!("new{number}")));
        store.create(&old, b"cart", ttl()).unwrap();
        let mut begun = store.begin(&old, WAIT).unwrap();
        private.sql(refuse);
        begun.lease.regenerate(&new, WAIT).unwrap_err();
        private.sql(allow);
        assert!(store.peek(&new).unwrap().is_none(), "refusal {number}");
        store.create(&new, b"free", ttl()).expect("neither taken nor locked");
        begun.lease.commit(b"cart 2", ttl()).expect("the lease is good under the old id");
        assert_eq!(store.peek(&old).unwrap().unwrap().payload, b"cart 2");
    }
}

/// What only the end of the transaction refuses is refused: the answer to the statement itself was
/// a yes.
#[test]
fn a_commit_that_is_refused_at_its_end_is_an_error_and_keeps_the_old_payload() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    store.create(&key("a"), b"old", ttl()).unwrap();
    let lease = store.begin(&key("a"), WAIT).unwrap().lease;
    private.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION \
         ''no''; END';
         CREATE CONSTRAINT TRIGGER no_more AFTER UPDATE ON sessile INITIALLY DEFERRED FOR EACH ROW \
         EXECUTE FUNCTION refuse()",
    );
    let error = lease.commit(b"new", ttl()).unwrap_err();
    assert_eq!(error.kind().code(), "io");
    assert!(format!("{error:#}").contains("P0001"), "what the server said: {error:#}");
    private.sql("DROP TRIGGER no_more ON sessile");
    let begun = store.begin(&key("a"), Duration::ZERO).expect("the lock is free");
    assert_eq!(begun.record.unwrap().payload, b"old");
}

/// A store whose server may say nothing for a second, which is more than a busy one needs.
fn impatient(private: &Private) -> Sessions {
    let url = format!("{}&response_timeout_ms=1000", private.url());
    sessile_stores::open(&url, &sessile_stores::Context::default()).unwrap()
}

/// A commit that waited for a row was called stale, that is not stored, and was stored a moment
/// later.
#[test]
fn a_commit_that_is_late_is_told_as_it_ends() {
    let Some(private) = Private::start() else { return };
    let store = impatient(&private);
    let is_late = |round: &u32| {
        let (id, new) = (format!("late-{round}"), format!("new {round}"));
        store.create(&key(&id), b"old", ttl()).unwrap();
        let lease = store.begin(&key(&id), WAIT).unwrap().lease;
        let lock = format!(
            "BEGIN; SELECT FROM sessile WHERE id = '{id}' FOR UPDATE; SELECT pg_sleep(2.5); COMMIT"
        );
        let (in_time, told) = amid(&private, &lock, || lease.commit(new.as_bytes(), ttl()));
        until("the server has ended it", || private.number(LOCKS) == 0);
        let stored = store.peek(&key(&id)).unwrap().unwrap().payload == new.as_bytes();
        assert_eq!(told.is_ok(), stored, "{told:?}");
        in_time
    };
    // Three that are late, or as many as there are of eight.
    assert!(
        (0..8).filter(is_late).take(3).count() > 0,
        "eight times the row was free again before the commit"
    );
}

/// The server has carried it out and waits for a standby; so long nobody can see it.
#[test]
fn a_commit_that_waits_for_a_standby_is_in_doubt_and_not_refused() {
    let Some(private) = Private::start() else { return };
    let store = impatient(&private);
    store.create(&key("a"), b"old", ttl()).unwrap();
    let lease = store.begin(&key("a"), WAIT).unwrap().lease;
    let standby = |name: &str| {
        private.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
        private.sql("SELECT pg_reload_conf()");
        until("the setting is taken", || {
            private.sql("SHOW synchronous_standby_names").concat() == name
        });
    };
    standby("nobody");
    let told = lease.commit(b"new", ttl()).map_err(|error| error.kind().code());
    standby("");
    until("the server has ended it", || private.number(LOCKS) == 0);
    assert_eq!(store.peek(&key("a")).unwrap().unwrap().payload, b"new");
    assert_eq!(told, Err("unreachable"));
}
