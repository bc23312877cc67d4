//! A forked child, which has the opened session of its parent and not the right to change it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sessile_core::{Clock, Counter, Key, Owner, Sessions};
use sessile_handler::{Access, Request, Rules, Save, Saved};
use sessile_stores::Context;

static PROCESS: AtomicU32 = AtomicU32::new(1);

fn save(request: &mut Request, sessions: &Sessions, id: &str, text: &str) -> Saved {
    let payload = Some(text.as_bytes());
    let save = Save { payload, changed: true, empty: false, headers_open: true };
    request.save(sessions, id, save).unwrap()
}

fn stored(sessions: &Sessions, id: &str) -> Option<Vec<u8>> {
    sessions.peek(&Key::session(id).unwrap()).unwrap().map(|record| record.payload)
}

/// A worker forked a child for a mail, and the child logged somebody in: PHP found no session that
/// could leave its id, and destroyed the one of the parent.
#[test]
fn a_child_that_replaces_its_id_leaves_the_session_of_its_parent() {
    let sessions = sessile_stores::open("memory:", &Context::default()).unwrap();
    let process = || PROCESS.load(Relaxed);
    for keeps in [true, false] {
        let mut request = Request::new(Clock::system(), process, Rules::default());
        request.open(&sessions, "parent", Access::Locked).unwrap();
        request.loaded();
        save(&mut request, &sessions, "parent", "cart");
        request.open(&sessions, "parent", Access::Locked).unwrap();
        request.loaded();
        PROCESS.fetch_add(1, Relaxed);
        assert!(!request.leave_id(&sessions, "another", keeps).unwrap());
        request.open(&sessions, "parent", Access::Locked).unwrap();
        request.loaded();
        PROCESS.fetch_add(1, Relaxed);
        assert!(
            request.leave_id(&sessions, "parent", keeps).unwrap(),
            "nothing is left to destroy"
        );
        assert!(request.open(&sessions, "child", Access::Locked).unwrap().payload.is_empty());
        request.loaded();
        assert!(matches!(save(&mut request, &sessions, "child", "mail"), Saved::Stored));
        assert_eq!(stored(&sessions, "parent").unwrap(), b"cart");
        assert_eq!(stored(&sessions, "child").unwrap(), b"mail");
        sessions.destroy(&Key::session("child").unwrap()).unwrap();
    }
}

/// The child took the lock for itself and stored its own state of its parent's session.
#[test]
fn a_child_does_not_open_again_what_its_parent_has_saved() {
    static PROCESS: AtomicU32 = AtomicU32::new(1);
    let sessions = sessile_stores::open("memory:", &Context::default()).unwrap();
    let mut request = Request::new(Clock::system(), || PROCESS.load(Relaxed), Rules::default());
    request.open(&sessions, "id", Access::Locked).unwrap();
    request.loaded();
    save(&mut request, &sessions, "id", "cart");
    PROCESS.store(2, Relaxed);
    let refused = request.reopen(&sessions, "id", b"cart").unwrap_err();
    assert_eq!(refused.kind().code(), "unsupported");
    PROCESS.store(1, Relaxed);
    request.reopen(&sessions, "id", b"cart").unwrap();
    assert!(matches!(save(&mut request, &sessions, "id", "more"), Saved::Stored));
}

/// The save answered that there was nothing to save, and the change was lost.
#[test]
fn a_child_is_told_that_its_changes_are_not_saved() {
    static PROCESS: AtomicU32 = AtomicU32::new(1);
    let sessions = sessile_stores::open("memory:", &Context::default()).unwrap();
    let mut request = Request::new(Clock::system(), || PROCESS.load(Relaxed), Rules::default());
    let save = |request: &mut Request, text: &str, changed| {
        let payload = Some(text.as_bytes());
        let save = Save { payload, changed, empty: false, headers_open: true };
        request.save_own(&sessions, "id", save)
    };
    request.open(&sessions, "id", Access::Locked).unwrap();
    request.loaded();
    save(&mut request, "cart", true).unwrap();
    request.open(&sessions, "id", Access::Locked).unwrap();
    request.loaded();
    PROCESS.store(2, Relaxed);
    assert!(matches!(save(&mut request, "cart", false), Ok(Saved::Nothing)), "it changed nothing");
    assert_eq!(save(&mut request, "child", true).unwrap_err().kind().code(), "unsupported");
    request.set_owner(&sessions, Some(Owner::new(b"17").unwrap())).unwrap();
    assert_eq!(save(&mut request, "cart", false).unwrap_err().kind().code(), "unsupported");
    assert_eq!(sessions.count(Counter::FailedSaves), 2);
    PROCESS.store(1, Relaxed);
    assert!(matches!(save(&mut request, "parent", true), Ok(Saved::Stored)));
    assert_eq!(stored(&sessions, "id").unwrap(), b"parent");
}
