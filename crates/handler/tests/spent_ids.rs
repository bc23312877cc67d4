//! Ids whose grace is over: each use is counted, once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sessile_core::{Clock, Counter, Key, Ttl};
use sessile_handler::{Access, Concurrency, Format, OnConflict, Request, Rules};
use sessile_stores::Context;

/// A request that merges looks before it takes the lock, and strict mode looks for the holder of an
/// id without a session: both counted one use twice.
#[test]
fn each_use_of_a_spent_id_is_counted_once() {
    let sessions = sessile_stores::open("memory:", &Context::default()).unwrap();
    let [old, new] = ["old", "new"].map(|id| Key::session(id).unwrap());
    sessions.create(&old, b"a|i:1;", Ttl::sliding(Duration::from_secs(60)).unwrap()).unwrap();
    let mut log_in = sessions.begin(&old, Duration::ZERO).unwrap().lease;
    log_in.regenerate(&new, Duration::ZERO).unwrap();
    let merge = Concurrency::Merge { format: Some(Format::Php), on_conflict: OnConflict::LastWins };
    for concurrency in [Concurrency::Exclusive, merge] {
        for access in [Access::Locked, Access::Unlocked] {
            let rules = Rules { concurrency, ..Rules::default() };
            let mut request = Request::new(Clock::system(), || 1, rules);
            let before = sessions.count(Counter::SpentIds);
            assert!(!request.validate(&sessions, "old", access));
            assert_eq!(sessions.count(Counter::SpentIds), before + 1, "{concurrency:?} {access:?}");
            assert!(request.open(&sessions, "old", access).unwrap().payload.is_empty());
            assert_eq!(sessions.count(Counter::SpentIds), before + 2, "{concurrency:?} {access:?}");
        }
    }
}
