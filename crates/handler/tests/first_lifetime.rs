//! What a first lifetime saves where robots visit, as in the workload `bots` of the benchmark: six
//! of ten sessions have one request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sessile_core::{Clock, Key, Sessions, Stat, Timestamp};
use sessile_handler::{Access, Concurrency, Format, OnConflict, Request, Rules, Save, Saved};

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

/// Django, Python and Node save a new session without opening it, some of them twice.
#[test]
fn a_session_that_was_never_opened_has_a_first_lifetime_too_also_under_a_new_id() {
    let clock = Clock::manual(Timestamp::from_ms(1_000_000));
    let context = sessile_stores::Context { clock: clock.clone() };
    let sessions = sessile_stores::open("memory:", &context).unwrap();
    let first_lifetime = Some(Duration::from_secs(60));
    let merge = Concurrency::Merge { format: Some(Format::Php), on_conflict: OnConflict::LastWins };
    for concurrency in [Concurrency::Exclusive, merge] {
        let rules = Rules { first_lifetime, touch_unlocked: true, concurrency, ..Rules::default() };
        let mut request = Request::new(clock.clone(), || 1, rules);
        let save = |request: &mut Request, id, changed| {
            let payload = Some(&b"a|i:1;"[..]);
            let save = Save { payload, changed, empty: false, headers_open: true };
            request.save(&sessions, id, save).unwrap()
        };
        assert!(matches!(save(&mut request, "robot", true), Saved::Stored));
        request.reopen(&sessions, "robot", b"a|i:1;").unwrap();
        assert!(matches!(save(&mut request, "robot", false), Saved::Touched));
        request.close(&sessions, true);
        // What it only reads is no second use.
        request.open(&sessions, "robot", Access::Unlocked).unwrap();
        request.loaded();
        request.close(&sessions, true);
        request.open(&sessions, "robot", Access::Locked).unwrap();
        request.loaded();
        save(&mut request, "robot", false);
        request.close(&sessions, true);
        request.open(&sessions, "robot", Access::Locked).unwrap();
        request.loaded();
        request.regenerate(&sessions, "robot", "moved", false).unwrap();
        save(&mut request, "moved", true);
        request.end();
        clock.advance(Duration::from_secs(61));
        let moved = Key::session("moved").unwrap();
        assert!(sessions.peek(&moved).unwrap().is_none(), "{concurrency:?}");
        sessions.destroy(&moved).unwrap();
        clock.advance(Duration::from_secs(100_000));
    }
}

#[test]
fn six_robots_of_ten_visitors_leave_less_than_half_of_the_sessions() {
    let (all, few) = (stored(None), stored(Some(Duration::from_secs(60))));
    // Robots live for 60 s in place of 1,440, the others for 1,470.
    let others = 4 * 147 - 1; // the last second of one has just ended
    assert_eq!((all.sessions, few.sessions), (6 * 144 + others, 6 * 6 + others));
    assert!(few.payload_bytes * 2 < all.payload_bytes, "{few:?} {all:?}");
}

/// The story: a session that was to be kept for a month was opened once more in the same request,
/// by a framework that applies its settings again, and lived 24 minutes.
#[test]
fn the_lifetime_of_a_session_holds_to_the_end_of_the_request() {
    let clock = Clock::manual(Timestamp::from_ms(1_000_000));
    let context = sessile_stores::Context { clock: clock.clone() };
    let sessions = sessile_stores::open("memory:", &context).unwrap();
    let mut request = Request::new(clock, || 1, Rules::default());
    let lives = |request: &mut Request, id| {
        request.set_rules(Rules::default());
        request.open(&sessions, id, Access::Locked).unwrap();
        request.loaded();
        let save = Save { payload: Some(b"a"), changed: true, empty: false, headers_open: true };
        request.save(&sessions, id, save).unwrap();
        let head = sessions.peek(&Key::session(id).unwrap()).unwrap().unwrap().head;
        head.expires.as_ms() / 1_000 - 1_000
    };
    let open = |request: &mut Request| {
        request.open(&sessions, "one", Access::Locked).unwrap();
        request.loaded();
        request.set_idle(Duration::from_secs(9_000));
    };
    open(&mut request);
    assert_eq!(["one", "other", "one"].map(|id| lives(&mut request, id)), [9_000, 1_440, 9_000]);
    open(&mut request);
    request.regenerate(&sessions, "one", "moved", false).unwrap();
    assert_eq!(["moved", "one"].map(|id| lives(&mut request, id)), [9_000, 1_440]);
    // A session that is created under the id of an ended one is another session.
    request.destroy(&sessions, "moved").unwrap();
    assert_eq!(lives(&mut request, "moved"), 1_440);
    open(&mut request);
    request.end();
    assert_eq!(lives(&mut request, "one"), 1_440);
}
