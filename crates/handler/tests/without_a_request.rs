//! Sessions that are read and stored by those who have no request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sessile_core::{Clock, Counter, ErrorKind, Key, Sessions, Ttl};
use sessile_handler::{Access, Concurrency, Request, Rules, Saved, look};
use sessile_stores::Context;

fn stored(payload: &[u8]) -> (Sessions, Key) {
    let sessions = sessile_stores::open("memory:", &Context::default()).unwrap();
    let key = Key::session("id").unwrap();
    sessions.create(&key, payload, Ttl::sliding(Duration::from_secs(60)).unwrap()).unwrap();
    (sessions, key)
}

#[test]
fn an_id_from_before_a_log_in_does_not_show_what_came_after_it() {
    let (sessions, old) = stored(b"visitor");
    let new = Key::session("new").unwrap();
    assert_eq!(look(&sessions, &old).unwrap().unwrap().payload, b"visitor");
    let mut log_in = sessions.begin(&old, Duration::ZERO).unwrap().lease;
    log_in.regenerate(&new, Duration::from_secs(30)).unwrap();
    log_in.commit(b"user", Ttl::sliding(Duration::from_secs(60)).unwrap()).unwrap();
    assert!(look(&sessions, &old).unwrap().is_none());
    assert_eq!(look(&sessions, &new).unwrap().unwrap().payload, b"user");
    let mut again = sessions.begin(&new, Duration::ZERO).unwrap().lease;
    again.regenerate(&Key::session("newest").unwrap(), Duration::ZERO).unwrap();
    assert!(look(&sessions, &new).unwrap().is_none());
    assert_eq!(sessions.count(Counter::SpentIds), 1, "one look under an id without a grace");
}

#[test]
fn a_store_of_another_base_is_stale_and_one_without_a_base_replaces() {
    let (sessions, key) = stored(b"one");
    let rules = Rules { concurrency: Concurrency::Detect, ..Rules::default() };
    let store = |base: Option<&[u8]>, payload: &[u8]| {
        let mut request = Request::new(Clock::system(), || 1, rules);
        request.store(&sessions, "id", base, Access::Locked, payload)
    };
    assert!(matches!(store(Some(b"one"), b"two").unwrap(), Saved::Stored));
    assert_eq!(*store(Some(b"one"), b"three").unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(look(&sessions, &key).unwrap().unwrap().payload, b"two");
    assert!(matches!(store(None, b"four").unwrap(), Saved::Stored));
    assert_eq!(look(&sessions, &key).unwrap().unwrap().payload, b"four");
    sessions.destroy(&key).unwrap();
    assert_eq!(*store(Some(b"four"), b"five").unwrap_err().kind(), ErrorKind::Destroyed);
}
