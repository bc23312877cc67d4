//! Requests that save more than once, requests that must not wait, and requests that detect the
//! changes of others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sessile_core::{Clock, Counter, Sessions};
use sessile_handler::{Access, Concurrency, Format, OnConflict, Request, Rules, Save, Saved};

fn memory() -> Sessions {
    sessile_stores::open("memory:", &sessile_stores::Context::default()).unwrap()
}

fn request(concurrency: Concurrency) -> Request {
    let rules = Rules { lock_wait: Duration::ZERO, concurrency, ..Rules::default() };
    Request::new(Clock::system(), || 1, rules)
}

fn open(request: &mut Request, sessions: &Sessions) -> String {
    let opened = request.open(sessions, "id", Access::Locked).unwrap();
    let text = String::from_utf8(opened.payload.to_vec()).unwrap();
    request.loaded();
    text
}

fn save(request: &mut Request, sessions: &Sessions, text: &str) -> Result<bool, &'static str> {
    let payload = Some(text.as_bytes());
    let save = Save { payload, changed: true, empty: false, headers_open: true };
    let saved = request.save(sessions, "id", save);
    saved.map(|saved| matches!(saved, Saved::Stored)).map_err(|error| error.kind().code())
}

fn stored(sessions: &Sessions) -> String {
    open(&mut request(Concurrency::Detect), sessions)
}

#[test]
fn a_request_saves_twice_and_a_change_in_between_is_not_lost() {
    let sessions = memory();
    let mut a = request(Concurrency::Exclusive);
    open(&mut a, &sessions);
    assert_eq!(save(&mut a, &sessions, "one"), Ok(true));
    a.reopen(&sessions, "id", b"one").unwrap();
    assert_eq!(save(&mut a, &sessions, "two"), Ok(true));
    let mut b = request(Concurrency::Exclusive);
    assert_eq!(open(&mut b, &sessions), "two");
    assert_eq!(save(&mut b, &sessions, "theirs"), Ok(true));
    a.reopen(&sessions, "id", b"two").unwrap();
    assert_eq!(save(&mut a, &sessions, "three"), Err("stale"));
    assert_eq!(stored(&sessions), "theirs");
    a.destroy(&sessions, "id").unwrap();
    assert_eq!(a.reopen(&sessions, "id", b"two").unwrap_err().kind().code(), "destroyed");
}

#[test]
fn a_second_save_is_merged_with_a_change_in_between() {
    let sessions = memory();
    let merge = Concurrency::Merge { format: Some(Format::Json), on_conflict: OnConflict::Fail };
    let (mut a, mut b) = (request(merge), request(merge));
    open(&mut a, &sessions);
    assert_eq!(save(&mut a, &sessions, r#"{"n":1}"#), Ok(true));
    open(&mut b, &sessions);
    assert_eq!(save(&mut b, &sessions, r#"{"n":1,"b":2}"#), Ok(true));
    a.reopen(&sessions, "id", br#"{"n":1}"#).unwrap();
    assert_eq!(save(&mut a, &sessions, r#"{"n":1,"a":3}"#), Ok(true));
    assert_eq!(stored(&sessions), r#"{"n":1,"b":2,"a":3}"#);
}

#[test]
fn detection_waits_for_nobody_and_the_second_change_fails() {
    let sessions = memory();
    let mut first = request(Concurrency::Exclusive);
    open(&mut first, &sessions);
    assert_eq!(save(&mut first, &sessions, "one"), Ok(true));
    let (mut a, mut b) = (request(Concurrency::Detect), request(Concurrency::Detect));
    assert_eq!(open(&mut a, &sessions), "one");
    assert_eq!(open(&mut b, &sessions), "one");
    assert_eq!(save(&mut a, &sessions, "mine"), Ok(true));
    assert_eq!(save(&mut b, &sessions, "lost"), Err("stale"));
    assert_eq!(stored(&sessions), "mine");
}

#[test]
fn an_opening_that_must_not_wait_is_no_lock_timeout() {
    let sessions = memory();
    let (mut a, mut b) = (request(Concurrency::Exclusive), request(Concurrency::Exclusive));
    open(&mut a, &sessions);
    let busy = b.open(&sessions, "id", Access::LockedAtOnce).unwrap_err();
    assert_eq!(busy.kind().code(), "lock-timeout");
    assert_eq!(sessions.count(Counter::LockTimeouts), 0);
    assert_eq!(b.open(&sessions, "id", Access::Locked).unwrap_err().kind().code(), "lock-timeout");
    assert_eq!(sessions.count(Counter::LockTimeouts), 1);
    a.reset();
    assert!(b.open(&sessions, "id", Access::LockedAtOnce).is_ok());
}

/// The id moved, and the save after it was `Stale`: the old id was dead, and the new one was in no
/// cookie.
#[test]
fn a_new_id_is_refused_before_the_move_if_the_save_could_not_merge() {
    let merge = Concurrency::Merge { format: Some(Format::Json), on_conflict: OnConflict::Fail };
    for concurrency in [Concurrency::Exclusive, Concurrency::Detect, merge] {
        let sessions = memory();
        let (mut a, mut b) = (request(concurrency), request(concurrency));
        open(&mut a, &sessions);
        assert_eq!(save(&mut a, &sessions, r#"{"n":1}"#), Ok(true));
        open(&mut b, &sessions);
        assert_eq!(save(&mut b, &sessions, r#"{"n":1,"b":2}"#), Ok(true));
        a.reopen(&sessions, "id", br#"{"n":1}"#).unwrap();
        let left = a.leave_id(&sessions, "id", false).map_err(|error| error.kind().code());
        if concurrency == merge {
            assert_eq!(left, Ok(true));
            a.open(&sessions, "new", Access::Locked).unwrap();
        } else {
            assert_eq!(left, Err("stale"));
            assert_eq!(sessions.count(Counter::MergeConflicts), 1);
            assert!(a.is_closed());
            assert_eq!(stored(&sessions), r#"{"n":1,"b":2}"#);
        }
    }
}
