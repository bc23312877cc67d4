//! What a first lifetime saves where robots visit: `sessile bench --workload bots` has nine of ten
//! sessions with one request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sessile_core::{Clock, Sessions, Stat, Timestamp};
use sessile_handler::{Access, Request, Rules, Save, Saved};

const SECONDS: u64 = 7_200;
const SECOND_VISIT_AFTER: u64 = 30;

fn visit(sessions: &Sessions, request: &mut Request, visitor: u64) {
    let id = format!("visitor{visitor}");
    request.open(sessions, &id, Access::Locked).unwrap();
    request.loaded();
    let save = Save { payload: Some(b"page"), changed: true, empty: false, headers_open: true };
    assert!(matches!(request.save(sessions, &id, save).unwrap(), Saved::Stored));
    request.end();
}

/// A site to which a visitor comes each second; nine of ten are robots, and the others come back.
fn stored(first_lifetime: Option<Duration>) -> Stat {
    let clock = Clock::manual(Timestamp::from_ms(1_000_000));
    let context = sessile_stores::Context { clock: clock.clone() };
    let sessions = sessile_stores::open("memory:", &context).unwrap();
    let rules = Rules { first_lifetime, ..Rules::default() };
    let mut request = Request::new(clock.clone(), || 1, rules);
    for second in 0..SECONDS {
        visit(&sessions, &mut request, second);
        if let Some(earlier) = second.checked_sub(SECOND_VISIT_AFTER).filter(|it| it % 10 == 0) {
            visit(&sessions, &mut request, earlier);
        }
        clock.advance(Duration::from_secs(1));
    }
    sessions.stat().unwrap()
}

#[test]
fn nine_robots_of_ten_visitors_leave_a_seventh_of_the_sessions() {
    let (all, few) = (stored(None), stored(Some(Duration::from_secs(60))));
    // Visitors of 24 minutes; and robots of one, visitors of 24 minutes.
    assert_eq!((all.sessions, few.sessions), (1_442, 200));
    assert!(few.payload_bytes * 7 < all.payload_bytes, "{few:?} {all:?}");
}
