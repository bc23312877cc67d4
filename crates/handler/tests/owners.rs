//! The owner of a session, as a request sets it: with its save, under a new id too, and only once.

#![allow(clippy::unwrap_used, reason = "tests")]

use sessile_core::{Clock, Key, Owner, Sessions};
use sessile_handler::{Access, Request, Rules, Save, Saved};

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
