//! What a first lifetime saves where robots visit, as in the workload `bots` of the benchmark: six
//! of ten sessions have one request.

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

/// A site to which a visitor comes each second; six of ten are robots, and the others come back.
fn stored(first_lifetime: Option<Duration>) -> Stat {
    let clock = Clock::manual(Timestamp::from_ms(1_000_000));
    let context = sessile_stores::Context { clock: clock.clone() };
    let sessions = sessile_stores::open("memory:", &context).unwrap();
    let rules = Rules { first_lifetime, ..Rules::default() };
    let mut request = Request::new(clock.clone(), || 1, rules);
    for second in 0..SECONDS {
        visit(&sessions, &mut request, second);
        if let Some(earlier) = second.checked_sub(SECOND_VISIT_AFTER).filter(|it| it % 10 < 4) {
            visit(&sessions, &mut request, earlier);
        }
        clock.advance(Duration::from_secs(1));
    }
    sessions.stat().unwrap()
}

#[test]
fn six_robots_of_ten_visitors_leave_less_than_half_of_the_sessions() {
    let (all, few) = (stored(None), stored(Some(Duration::from_secs(60))));
    // Robots live for 60 s in place of 1,440, the others for 1,470.
    let others = 4 * 147;
    assert_eq!((all.sessions, few.sessions), (6 * 144 + others, 6 * 6 + others));
    assert!(few.payload_bytes * 2 < all.payload_bytes, "{few:?} {all:?}");
}
