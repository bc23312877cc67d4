//! Collections within a request and of a whole store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sessile_core::{Clock, Key, Sessions, Timestamp, Ttl};
use sessile_handler::collect;
use sessile_stores::Context;

/// A store of 1,000 expired sessions and a live one.
fn aged(url: &str) -> Sessions {
    let clock = Clock::manual(Timestamp::from_ms(1_000_000));
    let sessions = sessile_stores::open(url, &Context { clock: clock.clone() }).unwrap();
    let ttl = Ttl::sliding(Duration::from_secs(1)).unwrap();
    for number in 0..1_000 {
        let key = Key::session(&format!("expired{number}")).unwrap();
        sessions.create(&key, b"", ttl).unwrap();
    }
    clock.advance(Duration::from_secs(60));
    sessions.create(&Key::session("lives").unwrap(), b"", ttl).unwrap();
    sessions
}

#[test]
fn a_request_collects_a_part_and_the_rest_is_collected_when_all_is_asked_for() {
    let sessions = aged("memory:");
    let part = collect(&sessions, false).unwrap();
    assert!((1..=200).contains(&part), "{part}");
    assert_eq!(collect(&sessions, true).unwrap(), 1_000 - part);
    assert!(sessions.peek(&Key::session("lives").unwrap()).unwrap().is_some());
}

/// A tenth of the requests swept the engine, and took up to 5 ms more each.
#[test]
fn a_request_collects_nothing_where_sessions_go_by_themselves() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("collect");
    let _ = std::fs::remove_dir_all(&directory);
    let sessions = aged(&format!("sessile:{}", directory.display()));
    assert_eq!(collect(&sessions, false).unwrap(), 0);
    assert!(collect(&sessions, true).unwrap() > 900);
    std::fs::remove_dir_all(&directory).unwrap();
}
