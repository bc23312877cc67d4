//! How long updates that may be lost wait for a lock.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use sessile_core::{Clock, Key};
use sessile_handler::{Access, Request, Rules};
use sessile_stores::Context;

/// Each update of an upload's progress waited for a page that held the session.
#[test]
fn updates_wait_once_in_a_request_for_a_lock_that_is_not_free() {
    let sessions = sessile_stores::open("memory:", &Context::default()).unwrap();
    let held = sessions.begin(&Key::session("id").unwrap(), Duration::ZERO).unwrap();
    let wait = Duration::from_secs(1);
    let rules = Rules { lock_wait: wait, best_effort: true, ..Rules::default() };
    let mut upload = Request::new(Clock::system(), || 1, rules);
    for waits in [true, false] {
        for first in [true, false] {
            let start = Instant::now();
            upload.open(&sessions, "id", Access::Locked).unwrap();
            upload.close(&sessions, true);
            assert_eq!(start.elapsed() >= wait, waits && first, "{:?}", start.elapsed());
        }
        if waits {
            // The same request goes on.
            upload.reset();
        }
    }
    upload.end();
    let start = Instant::now();
    upload.open(&sessions, "id", Access::Locked).unwrap();
    assert!(start.elapsed() >= wait, "the next request waits, too: {:?}", start.elapsed());
    drop(held);
}
