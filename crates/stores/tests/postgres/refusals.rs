//! A server that refuses one of our statements, or knows none of them any more: no lock stays
//! behind, and no connection that is of no use.

use std::time::Duration;

use sessile_core::{ErrorKind, Holder, Sessions};
use sessile_stores::Context;

use crate::pretence::Pretence;
use crate::setup::{Private, WAIT, key, ttl, until};

/// A store whose user can be denied functions, which a superuser cannot.
fn of_a_role(private: &Private) -> Sessions {
    private.sql("CREATE ROLE shop LOGIN; GRANT CREATE ON SCHEMA public TO shop");
    let url =
        format!("postgres+unix:{}?user=shop&database=postgres", private.server.socket().display());
    sessile_stores::open(&url, &Context::default()).unwrap()
}

fn locks(private: &Private) -> i64 {
    private.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
}

#[test]
fn a_begin_that_cannot_give_up_its_lock_ends_its_connection() {
    let Some(private) = Private::start() else { return };
    let store = of_a_role(&private);
    store.create(&key("a"), b"x", ttl()).unwrap();
    private.sql(
        "UPDATE sessile SET payload = NULL; REVOKE EXECUTE ON FUNCTION \
                 pg_advisory_unlock_all() FROM public",
    );
    assert_eq!(store.begin(&key("a"), WAIT).unwrap_err().kind(), &ErrorKind::Corrupt);
    until("the lock is free", || locks(&private) == 0);
}

#[test]
fn a_regeneration_that_cannot_give_up_the_other_lock_ends_its_connection_with_the_lease() {
    let Some(private) = Private::start() else { return };
    let store = of_a_role(&private);
    store.create(&key("taken"), b"x", ttl()).unwrap();
    for (new, moves) in [("taken", false), ("new", true)] {
        store.create(&key("old"), b"x", ttl()).unwrap();
        let mut lease = store.begin(&key("old"), WAIT).unwrap().lease;
        private.sql("REVOKE EXECUTE ON FUNCTION pg_advisory_unlock(bigint) FROM public");
        assert_eq!(lease.regenerate(&key(new), Duration::ZERO).is_ok(), moves, "{new}");
        private.sql("GRANT EXECUTE ON FUNCTION pg_advisory_unlock(bigint) TO public");
        assert_eq!(locks(&private), 2, "{new}");
        lease.commit(b"y", ttl()).unwrap();
        until("both locks are free", || locks(&private) == 0);
        store.destroy(&key("old")).unwrap();
    }
    assert_eq!(store.peek(&key("new")).unwrap().unwrap().payload, b"y");
}

#[test]
fn a_time_out_is_told_even_if_the_server_does_not_say_who_holds_the_lock() {
    let Some(private) = Private::start() else { return };
    let store = of_a_role(&private);
    let _held = store.begin(&key("a"), WAIT).unwrap();
    private.sql("REVOKE SELECT ON pg_stat_activity FROM public");
    let error = store.begin(&key("a"), Duration::from_millis(5)).unwrap_err();
    let ErrorKind::LockTimeout { holder, .. } = error.kind() else { panic!("{error:?}") };
    assert_eq!(holder, &Holder::default());
}

/// A connection whose statements were gone served one request after the other, and each was
/// refused. So did one to a primary that was demoted.
#[test]
fn connections_whose_statements_were_reset_or_whose_server_was_demoted_are_replaced() {
    let Some(private) = Private::start() else { return };
    let (pretence, _proxy, url) = Pretence::before(&private);
    let store = sessile_stores::open(&url, &Context::default()).unwrap();
    store.create(&key("a"), b"x", ttl()).unwrap();
    for code in [b"26000", b"42P05", b"08P01", b"25P04", b"25006"] {
        let name = String::from_utf8_lossy(code);
        store.peek(&key("a")).unwrap();
        pretence.refuse_on_all_connections(*code);
        assert!(
            store.peek(&key("a")).unwrap_or_else(|error| panic!("{name}: {error:?}")).is_some()
        );
        pretence.refuse_on_all_connections(*code);
        let begun =
            store.begin(&key("a"), WAIT).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        begun.lease.release().unwrap();
    }
    until("no lock is held", || locks(&private) == 0);
}
