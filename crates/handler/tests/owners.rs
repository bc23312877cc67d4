//! The owner of a session, as a request sets it: with its save, under a new id too, and only once.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use sessile_core::{Clock, Counter, Key, Owner, Sessions};
use sessile_handler::{
    Access, Concurrency, Format, OnConflict, OnLockTimeout, Request, Rules, Save, Saved,
};

fn store() -> (Sessions, Request) {
    let context = sessile_stores::Context { clock: Clock::system() };
    let sessions = sessile_stores::open("memory:", &context).unwrap();
    (sessions, Request::new(Clock::system(), std::process::id, Rules::default()))
}

fn save(request: &mut Request, sessions: &Sessions, id: &str, changed: bool) -> Saved {
    let payload = Some(&b"cart"[..]);
    let save = Save { payload, changed, empty: false, headers_open: true };
    request.save(sessions, id, save).unwrap()
}

fn open(request: &mut Request, sessions: &Sessions, id: &str) {
    request.open(sessions, id, Access::Locked).unwrap();
    request.loaded();
}

fn owner_of(sessions: &Sessions, id: &str) -> Option<Owner> {
    sessions.peek(&Key::session(id).unwrap()).unwrap().unwrap().head.owner
}

#[test]
fn a_log_in_sets_the_owner_under_the_new_id_and_later_requests_keep_it() {
    let (sessions, mut request) = store();
    let owner = Owner::new(b"17").ok();
    open(&mut request, &sessions, "old");
    save(&mut request, &sessions, "old", true);
    open(&mut request, &sessions, "old");
    request.set_owner(&sessions, owner).unwrap();
    assert!(request.leave_id(&sessions, "old", false).unwrap());
    request.open(&sessions, "new", Access::Locked).unwrap();
    request.loaded();
    // The payload is as it was: the owner alone is a change.
    assert!(matches!(save(&mut request, &sessions, "new", false), Saved::Stored));
    assert_eq!(owner_of(&sessions, "new"), owner);
    open(&mut request, &sessions, "new");
    assert!(matches!(save(&mut request, &sessions, "new", true), Saved::Stored));
    assert_eq!(owner_of(&sessions, "new"), owner);
}

#[test]
fn the_owner_that_a_session_has_is_no_change() {
    let (sessions, mut request) = store();
    let owner = Owner::new(b"17").ok();
    for saved in [true, false] {
        open(&mut request, &sessions, "one");
        request.set_owner(&sessions, owner).unwrap();
        let is_stored = matches!(save(&mut request, &sessions, "one", false), Saved::Stored);
        assert_eq!(is_stored, saved, "the second one is a touch");
    }
    open(&mut request, &sessions, "one");
    request.set_owner(&sessions, None).unwrap();
    save(&mut request, &sessions, "one", false);
    assert_eq!(owner_of(&sessions, "one"), None);
}

#[test]
fn a_request_that_gives_its_session_up_sets_no_owner_of_the_next_one() {
    let (sessions, mut request) = store();
    open(&mut request, &sessions, "one");
    request.set_owner(&sessions, Owner::new(b"17").ok()).unwrap();
    request.close(&sessions, true);
    open(&mut request, &sessions, "two");
    save(&mut request, &sessions, "two", true);
    assert_eq!(owner_of(&sessions, "two"), None);
    assert_eq!(sessions.revoke(Owner::new(b"17").unwrap(), None).unwrap(), 0);
}

/// `session_reset()` of PHP: the session is opened anew, and what was not saved is given up.
#[test]
fn a_session_that_is_opened_anew_gets_no_owner_that_was_not_saved() {
    let (sessions, mut request) = store();
    open(&mut request, &sessions, "one");
    request.set_owner(&sessions, Owner::new(b"17").ok()).unwrap();
    open(&mut request, &sessions, "one");
    save(&mut request, &sessions, "one", true);
    assert_eq!(owner_of(&sessions, "one"), None);
}

/// The next session of a request may be that of another user, for example of an administrator who
/// looks at a site as one of its visitors.
#[test]
fn an_owner_that_was_saved_or_refused_is_not_that_of_the_next_session() {
    let (sessions, mut request) = store();
    let owner = Owner::new(b"17").ok();
    // A save under an id that was not opened.
    open(&mut request, &sessions, "one");
    request.set_owner(&sessions, owner).unwrap();
    save(&mut request, &sessions, "fresh", true);
    assert_eq!(owner_of(&sessions, "fresh"), owner);
    save(&mut request, &sessions, "another", true);
    assert_eq!(owner_of(&sessions, "another"), None);
    // A save that is refused.
    open(&mut request, &sessions, "one");
    request.set_owner(&sessions, owner).unwrap();
    let save_nothing = Save { payload: None, changed: true, empty: false, headers_open: true };
    request.save(&sessions, "one", save_nothing).unwrap_err();
    open(&mut request, &sessions, "two");
    save(&mut request, &sessions, "two", true);
    assert_eq!(owner_of(&sessions, "two"), None);
}

#[test]
fn an_owner_that_is_set_before_the_new_id_goes_with_it() {
    let (sessions, mut request) = store();
    let owner = Owner::new(b"17").ok();
    open(&mut request, &sessions, "old");
    request.set_owner(&sessions, owner).unwrap();
    save(&mut request, &sessions, "old", true);
    open(&mut request, &sessions, "old");
    assert!(request.leave_id(&sessions, "old", true).unwrap());
    request.set_owner(&sessions, Owner::new(b"18").ok()).unwrap();
    assert!(request.pause());
    request.open(&sessions, "new", Access::Locked).unwrap();
    request.loaded();
    save(&mut request, &sessions, "new", true);
    assert_eq!(owner_of(&sessions, "new"), Owner::new(b"18").ok(), "set before the new id");
}

const MERGE: Concurrency =
    Concurrency::Merge { format: Some(Format::Json), on_conflict: OnConflict::LastWins };

/// A session of the owner 17, and what a request with these rules makes of it.
fn owned(rules: Rules) -> (Sessions, Request, Option<Owner>) {
    let (sessions, mut first) = store();
    let owner = Owner::new(b"17").ok();
    open(&mut first, &sessions, "one");
    first.set_owner(&sessions, owner).unwrap();
    save_json(&mut first, &sessions, "{}");
    let rules = Rules { lock_wait: Duration::ZERO, ..rules };
    (sessions, Request::new(Clock::system(), std::process::id, rules), owner)
}

fn save_json(request: &mut Request, sessions: &Sessions, json: &str) -> Saved {
    let payload = Some(json.as_bytes());
    let save = Save { payload, changed: json != "{}", empty: false, headers_open: true };
    request.save(sessions, "one", save).unwrap()
}

/// The story: the manual says to set the owner in each request of a user who is logged in. Requests
/// that only read then waited for the lock, or failed.
#[test]
fn the_owner_that_was_read_without_a_lock_is_no_change() {
    let detect = Concurrency::Detect;
    for concurrency in [MERGE, detect] {
        let (sessions, mut request, owner) = owned(Rules { concurrency, ..Rules::default() });
        open(&mut request, &sessions, "one");
        let _held = sessions.begin(&Key::session("one").unwrap(), Duration::ZERO).unwrap();
        request.set_owner(&sessions, owner).unwrap();
        assert!(matches!(save_json(&mut request, &sessions, "{}"), Saved::Touched));
    }
    let on_lock_timeout = OnLockTimeout::ReadUnlocked;
    let (sessions, mut request, owner) = owned(Rules { on_lock_timeout, ..Rules::default() });
    let _held = sessions.begin(&Key::session("one").unwrap(), Duration::ZERO).unwrap();
    open(&mut request, &sessions, "one");
    request.set_owner(&sessions, owner).unwrap();
    assert!(matches!(save_json(&mut request, &sessions, "{}"), Saved::Nothing));
    assert_eq!(sessions.count(Counter::FailedSaves), 0);
}

#[test]
fn a_late_request_fails_only_if_it_wants_another_owner() {
    let (sessions, mut request, owner) = owned(Rules { concurrency: MERGE, ..Rules::default() });
    open(&mut request, &sessions, "one");
    assert!(request.leave_id(&sessions, "one", true).unwrap());
    request.open(&sessions, "two", Access::Locked).unwrap();
    request.end();
    let other = Owner::new(b"18").ok();
    for (wanted, failed) in [(owner, 0), (None, 0), (other, 1)] {
        open(&mut request, &sessions, "one");
        request.set_owner(&sessions, wanted).unwrap();
        let saved = save_json(&mut request, &sessions, "{}");
        assert_eq!(matches!(saved, Saved::Replaced(_)), failed == 1, "{saved:?}");
        assert_eq!(sessions.count(Counter::FailedSaves), failed);
    }
    assert_eq!(owner_of(&sessions, "two"), owner);
}

#[test]
fn a_request_that_only_repeats_its_owner_does_not_undo_the_change_of_another_one() {
    let (sessions, mut request, owner) = owned(Rules { concurrency: MERGE, ..Rules::default() });
    open(&mut request, &sessions, "one");
    let (_, mut log_in) = store();
    open(&mut log_in, &sessions, "one");
    log_in.set_owner(&sessions, Owner::new(b"18").ok()).unwrap();
    save_json(&mut log_in, &sessions, r#"{"user":18}"#);
    request.set_owner(&sessions, owner).unwrap();
    assert!(matches!(save_json(&mut request, &sessions, r#"{"cart":1}"#), Saved::Stored));
    assert_eq!(owner_of(&sessions, "one"), Owner::new(b"18").ok());
    // One that changes it takes the lock.
    open(&mut request, &sessions, "one");
    request.set_owner(&sessions, owner).unwrap();
    assert!(matches!(save_json(&mut request, &sessions, r#"{"cart":2}"#), Saved::Stored));
    assert_eq!(owner_of(&sessions, "one"), owner);
}

#[test]
fn an_owner_that_a_failed_save_did_not_set_waits_only_for_the_same_session_again() {
    let (sessions, mut request) = store();
    let owner = Owner::new(b"17").ok();
    let save_nothing = Save { payload: None, changed: true, empty: false, headers_open: true };
    for reopens in [false, true] {
        open(&mut request, &sessions, "one");
        request.set_owner(&sessions, owner).unwrap();
        request.save(&sessions, "one", save_nothing).unwrap_err();
        if reopens {
            request.reopen(&sessions, "one", b"").unwrap();
            save(&mut request, &sessions, "one", true);
            assert_eq!(owner_of(&sessions, "one"), owner);
        } else {
            save(&mut request, &sessions, "unopened", true);
            assert_eq!(owner_of(&sessions, "unopened"), None);
        }
        request.end();
    }
}

/// The story: the save of one session failed, and the same request opened another one again, which
/// got the owner of the first.
#[test]
fn an_owner_that_a_failed_save_did_not_set_is_none_of_another_session() {
    let (sessions, mut request) = store();
    let owner = Owner::new(b"17").ok();
    open(&mut request, &sessions, "other");
    save(&mut request, &sessions, "other", true);
    open(&mut request, &sessions, "one");
    request.set_owner(&sessions, owner).unwrap();
    let save_nothing = Save { payload: None, changed: true, empty: false, headers_open: true };
    request.save(&sessions, "one", save_nothing).unwrap_err();
    for (id, expected) in [("other", None), ("one", owner)] {
        request.reopen(&sessions, id, b"cart").unwrap();
        save(&mut request, &sessions, id, true);
        assert_eq!(owner_of(&sessions, id), expected);
    }
}

/// A log-out everywhere missed a session: the owner of a save that had failed came back after the
/// log-in of another user.
#[test]
fn an_owner_that_waits_for_its_session_never_replaces_a_newer_one() {
    let [first, second] = [b"17", b"18"].map(|name| Owner::new(name).ok());
    let fail = |request: &mut Request, sessions: &Sessions| {
        request.set_owner(sessions, first).unwrap();
        let nothing = Save { payload: None, changed: true, empty: false, headers_open: true };
        request.save(sessions, "one", nothing).unwrap_err();
    };
    // It is set before the session is opened again.
    let (sessions, mut request) = store();
    open(&mut request, &sessions, "one");
    save(&mut request, &sessions, "one", true);
    open(&mut request, &sessions, "one");
    fail(&mut request, &sessions);
    request.set_owner(&sessions, second).unwrap();
    request.reopen(&sessions, "one", b"cart").unwrap();
    save(&mut request, &sessions, "one", false);
    assert_eq!(owner_of(&sessions, "one"), second);
    // It is saved without opening the session again.
    let (sessions, mut request) = store();
    open(&mut request, &sessions, "one");
    fail(&mut request, &sessions);
    request.set_owner(&sessions, second).unwrap();
    save(&mut request, &sessions, "one", true);
    request.reopen(&sessions, "one", b"cart").unwrap();
    save(&mut request, &sessions, "one", true);
    assert_eq!(owner_of(&sessions, "one"), second);
}

/// The story: the account of a visitor who had just logged in was locked. The session was stored by
/// its request after the revocation, and lived on.
#[test]
fn a_revocation_ends_the_open_session_that_is_about_to_get_the_owner() {
    let owner = Owner::new(b"17").unwrap();
    for concurrency in [Concurrency::Exclusive, MERGE] {
        for stored in [false, true] {
            let (sessions, mut first) = store();
            if stored {
                open(&mut first, &sessions, "one");
                save_json(&mut first, &sessions, "{}");
            }
            let rules = Rules { concurrency, ..Rules::default() };
            let mut request = Request::new(Clock::system(), std::process::id, rules);
            open(&mut request, &sessions, "one");
            request.set_owner(&sessions, Some(owner)).unwrap();
            assert_eq!(request.revoke(&sessions, Owner::new(b"18").unwrap()).unwrap(), 0);
            assert_eq!([(), ()].map(|()| request.revoke(&sessions, owner).unwrap()), [1, 0]);
            let saved = save_json(&mut request, &sessions, r#"{"user":17}"#);
            assert!(matches!(saved, Saved::LoggedOut(_)), "{saved:?}");
            assert!(sessions.peek(&Key::session("one").unwrap()).unwrap().is_none());
        }
    }
    // It has the owner already, and is counted once.
    let (sessions, mut request, owned_by) = owned(Rules::default());
    open(&mut request, &sessions, "one");
    request.set_owner(&sessions, owned_by).unwrap();
    assert_eq!(request.revoke(&sessions, owner).unwrap(), 1);
}
