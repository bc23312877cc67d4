//! Saves under an id that the request has not opened, and settings out of range.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sessile_core::{Clock, Key, Sessions};
use sessile_handler::{Access, Request, Rules, Save, Saved};
use sessile_stores::Context;

fn saved(request: &mut Request, sessions: &Sessions, id: &str, text: &str) -> Saved {
    let payload = Some(text.as_bytes());
    let save = Save { payload, changed: true, empty: false, headers_open: true };
    request.save(sessions, id, save).unwrap()
}

/// A session under `new`, which was under `old` before.
fn moved(rules: &Rules) -> (Sessions, Request) {
    let sessions = sessile_stores::open("memory:", &Context::default()).unwrap();
    let mut request = Request::new(Clock::system(), || 1, *rules);
    for text in ["cart", "user"] {
        request.open(&sessions, "old", Access::Locked).unwrap();
        request.loaded();
        if text == "user" {
            assert!(request.leave_id(&sessions, "old", true).unwrap());
            request.open(&sessions, "new", Access::Locked).unwrap();
            request.loaded();
        }
        let id = if text == "user" { "new" } else { "old" };
        assert!(matches!(saved(&mut request, &sessions, id, text), Saved::Stored));
    }
    (sessions, request)
}

/// The store leads from the old id to the new one. So the save was stored under the new id, also
/// after a log-out.
#[test]
fn a_save_under_an_old_id_that_is_not_open_reaches_no_session() {
    let (sessions, mut request) = moved(&Rules::default());
    assert!(matches!(saved(&mut request, &sessions, "old", "mine"), Saved::Replaced(_)));
    let new = Key::session("new").unwrap();
    assert_eq!(sessions.peek(&new).unwrap().unwrap().payload, b"user");
    request.destroy(&sessions, "new").unwrap();
    assert!(!matches!(saved(&mut request, &sessions, "old", "mine"), Saved::Stored));
    assert_eq!(sessions.peek(&new).unwrap(), None, "a destroyed session is back");
}

/// A log-in failed with such a grace.
#[test]
fn a_grace_beyond_the_limit_is_the_limit() {
    moved(&Rules { grace: Duration::from_secs(3_600), ..Rules::default() });
}
