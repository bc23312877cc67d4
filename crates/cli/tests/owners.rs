//! `sessile sessions`: the sessions of one user.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod started;

use std::time::Duration;

use sessile_core::{Key, Owner, Sessions, Ttl};
use sessile_stores::Context;
use started::{sessile, stderr, stdout};

fn filled(url: &str) -> Sessions {
    let store = sessile_stores::open(url, &Context::default()).unwrap();
    let ttl = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
    for (id, owner) in [("secret1", "17"), ("secret2", "17"), ("secret3", "18"), ("secret4", "")] {
        let key = Key::session(id).unwrap();
        let mut begun = store.begin(&key, Duration::from_secs(5)).unwrap();
        begun.lease.set_owner(Owner::new(owner.as_bytes()).ok()).unwrap();
        begun.lease.commit(b"cart", ttl).unwrap();
    }
    store
}

/// The code, what was told, and why.
fn run(url: &str, more: &[&str]) -> (i32, String, String) {
    let output = sessile(&[&["sessions", url, "--owner", "17"], more].concat());
    let (told, why) = (stdout(&output), stderr(&output));
    assert!(!told.contains("secret") && !why.contains("secret"), "an id: {told}{why}");
    (output.status.code().unwrap(), told, why)
}

#[test]
fn the_sessions_of_a_user_are_listed_and_ended_and_no_other() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    for name in ["files", "sqlite", "sessile"] {
        let url = format!("{name}:{}/{name}", dir.path().display());
        let store = filled(&url);
        let (code, told, why) = run(&url, &[]);
        assert_eq!(code, 0, "{why}");
        assert!(told.starts_with("2 sessions\n"), "{told}");
        assert_eq!(told.lines().filter(|line| line.contains("expires in")).count(), 2, "{told}");
        let (_, json, _) = run(&url, &["--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["sessions"].as_array().unwrap().len(), 2);
        let (code, _, why) = run(&url, &["--revoke"]);
        assert!(code != 0 && why.contains("--yes"), "nobody is there to be asked: {why}");
        assert_eq!(store.stat().unwrap().sessions, 4);
        let (code, told, why) = run(&url, &["--revoke", "--yes"]);
        assert_eq!((code, told.as_str()), (0, "2 sessions ended\n"), "{why}");
        let (_, told, _) = run(&url, &[]);
        assert_eq!(told, "0 sessions\n");
        assert_eq!(store.stat().unwrap().sessions, 2);
    }
}

#[test]
fn a_store_without_owners_says_so() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let url = format!("files:{}?php=1", dir.path().display());
    let (code, _, why) = run(&url, &[]);
    assert!(code != 0 && why.contains("keeps no owners"), "{why}");
}
