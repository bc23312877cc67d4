//! Requests that still run when the absolute lifetime of their session is over.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sessile_core::{Clock, Counter, Timestamp};
use sessile_handler::{Access, Request, Rules, Save, Saved};
use sessile_stores::Context;

/// The change was lost without a log line and a count.
#[test]
fn a_change_that_comes_too_late_is_counted_and_a_visit_is_not() {
    let clock = Clock::manual(Timestamp::from_ms(1_000_000));
    let context = Context { clock: clock.clone() };
    let sessions = sessile_stores::open("memory:", &context).unwrap();
    let absolute_lifetime = Some(Duration::from_secs(100));
    for (number, (changed, failed)) in [(false, 0), (true, 1)].into_iter().enumerate() {
        let rules = Rules { absolute_lifetime, ..Rules::default() };
        let mut request = Request::new(clock.clone(), || 1, rules);
        let id = format!("id{number}");
        let mut save = |seconds, changed| {
            request.open(&sessions, &id, Access::Locked).unwrap();
            request.loaded();
            clock.advance(Duration::from_secs(seconds));
            let payload = Some(b"cart".as_slice());
            let save = Save { payload, changed, empty: false, headers_open: true };
            request.save(&sessions, &id, save).unwrap()
        };
        assert!(matches!(save(0, true), Saved::Stored));
        assert!(matches!(save(101, changed), Saved::Ended));
        assert_eq!(sessions.count(Counter::FailedSaves), failed);
    }
}
