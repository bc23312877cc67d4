//! What a race between two statements of the server must not lose.

use crate::setup::{Private, key, ttl, until};

/// What a regeneration does, and slowly: the record has its new id, and nothing leads there yet.
const REGENERATION: &str = "BEGIN; UPDATE sessile SET id = 'new' WHERE id = 'old'; SELECT pg_sleep(1);
    INSERT INTO sessile (id, bin, lock, kind, version, created, written, expires, due, writer, mark, target)
    SELECT 'old', bin, 0, 2, 0, created, created, expires, due, 0, 0, 'new' FROM sessile WHERE id = 'new'; COMMIT";

#[test]
fn a_log_out_that_waits_for_a_regeneration_finds_the_session_under_its_new_id() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    store.create(&key("old"), b"cart", ttl()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| private.sql(REGENERATION));
        let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        until("the regeneration is half done", || private.number(asleep) == 1);
        store.destroy(&key("old")).unwrap();
    });
    for id in ["new", "old"] {
        assert!(store.peek(&key(id)).unwrap().is_none(), "{id} is alive");
    }
}
