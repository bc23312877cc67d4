//! `sessile copy` from one store to another.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod started;

use std::time::Duration;

use sessile_core::{Clock, Key, Owner, Record, Sessions, Ttl};
use sessile_stores::Context;
use started::{sessile, stderr, stdout};

struct Pair {
    dir: tempfile::TempDir,
    old: Sessions,
}

impl Pair {
    /// An old store with 250 sessions of different lives.
    fn filled() -> Pair {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let url = format!("files:{}/old shop", dir.path().display());
        let old = sessile_stores::open(&url, &Context::default()).unwrap();
        for number in 0..250 {
            let ttl = Ttl::sliding(Duration::from_secs(1_000 + number)).unwrap();
            let ttl = ttl.within(Duration::from_secs(9_000)).unwrap();
            old.create(&key(number), &number.to_le_bytes(), ttl).unwrap();
        }
        Pair { dir, old }
    }

    fn urls(&self) -> [String; 2] {
        let dir = self.dir.path().display();
        [format!("files:{dir}/old shop"), format!("sqlite:{dir}/new shop+1.sqlite")]
    }

    fn new_store(&self) -> Sessions {
        sessile_stores::open(&self.urls()[1], &Context::default()).unwrap()
    }

    /// `sessile copy OLD NEW` and more.
    fn copy(&self, more: &[&str]) -> (i32, String, String) {
        let [old, new] = &self.urls();
        let output = sessile(&[&["copy", old, new], more].concat());
        let told = format!("{}{}", stdout(&output), stderr(&output));
        assert!(!told.contains("secret"), "an id: {told}");
        (output.status.code().unwrap(), stdout(&output), stderr(&output))
    }
}

fn key(number: u64) -> Key {
    Key::session(&format!("secret{number}")).unwrap()
}

fn life(record: &Record) -> [u64; 3] {
    let head = record.head;
    [head.created, head.expires, head.ends.unwrap()].map(|moment| moment.as_ms() / 1_000)
}

#[test]
fn all_sessions_are_copied_with_their_lives_and_a_repetition_copies_nothing() {
    let pair = Pair::filled();
    let (code, told, why) = pair.copy(&["--pause", "0"]);
    assert_eq!((code, told.as_str()), (0, "250 sessions copied\n"), "{why}");
    let new = pair.new_store();
    for number in 0..250 {
        let copied = new.peek(&key(number)).unwrap().unwrap();
        let old = pair.old.peek(&key(number)).unwrap().unwrap();
        assert_eq!(copied.payload, old.payload);
        let (copied, old) = (life(&copied), life(&old));
        let near = copied.iter().zip(old).all(|(copied, old)| copied.abs_diff(old) <= 1);
        assert!(near, "{copied:?} and {old:?}");
    }
    let (code, told, _) = pair.copy(&["--pause", "0"]);
    assert_eq!((code, told.as_str()), (0, "0 sessions copied\n250 sessions there already\n"));
}

#[test]
fn the_session_that_was_written_later_wins() {
    let pair = Pair::filled();
    pair.copy(&["--pause", "0"]);
    std::thread::sleep(Duration::from_millis(5));
    let hour = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
    let write = |store: &Sessions, number| {
        let begun = store.begin(&key(number), Duration::from_secs(5)).unwrap();
        begun.lease.commit(b"later", hour).unwrap();
    };
    write(&pair.old, 1);
    let new = pair.new_store();
    write(&new, 2);
    let (code, told, _) = pair.copy(&["--pause", "0"]);
    let expected = "0 sessions copied\n1 session replaced\n248 sessions there already\n\
                    1 session newer in the new store\n";
    assert_eq!((code, told.as_str()), (0, expected));
    for number in [1, 2] {
        assert_eq!(new.peek(&key(number)).unwrap().unwrap().payload, b"later");
    }
}

#[test]
fn owners_are_copied_changed_and_taken_away() {
    let pair = Pair::filled();
    pair.copy(&["--pause", "0"]);
    let own = |store: &Sessions, number, owner: Option<&[u8]>| {
        std::thread::sleep(Duration::from_millis(5));
        let mut begun = store.begin(&key(number), Duration::from_secs(5)).unwrap();
        begun.lease.set_owner(owner.map(|name| Owner::new(name).unwrap())).unwrap();
        let head = begun.record.unwrap().head;
        let rest = Ttl::rest_of(&head, Clock::system().now()).unwrap();
        begun.lease.commit(&number.to_le_bytes(), rest).unwrap();
    };
    let new = pair.new_store();
    let owner_of = |number| new.peek(&key(number)).unwrap().unwrap().head.owner;
    // Nothing else of them changes.
    for (owner, number) in [(Some(&b"17"[..]), 1), (Some(b"18"), 1), (None, 1), (Some(b"17"), 2)] {
        own(&pair.old, number, owner);
        let (code, told, why) = pair.copy(&["--verify", "--pause", "0"]);
        assert_eq!(code, 1, "{told}{why}");
        assert!(told.contains("1 session older in the new store"), "{told}");
        let (code, told, _) = pair.copy(&["--pause", "0"]);
        assert!(code == 0 && told.contains("1 session replaced"), "{told}");
        assert_eq!(owner_of(number), owner.map(|name| Owner::new(name).unwrap()));
    }
    // What was changed in the new store later stays.
    own(&new, 2, Some(b"19"));
    let (_, told, _) = pair.copy(&["--pause", "0"]);
    assert!(told.contains("1 session newer in the new store"), "{told}");
    assert_eq!(owner_of(2), Owner::new(b"19").ok());
}

/// As root: a file of another user ended each repetition at the same place.
#[test]
fn a_session_of_another_user_is_told_and_the_others_are_copied() {
    let pair = Pair::filled();
    let files = std::process::Command::new("find")
        .args([&*pair.dir.path().join("old shop").display().to_string(), "-size", "+0"])
        .args(["-path", "*session*", "-type", "f"])
        .output();
    let found = String::from_utf8(files.unwrap().stdout).unwrap();
    let path = found.lines().next().unwrap();
    if std::os::unix::fs::chown(path, Some(65_534), None).is_err() {
        eprintln!("skipped: needs root");
        return;
    }
    for expected in ["249 sessions copied", "249 sessions there already"] {
        let (code, told, why) = pair.copy(&["--pause", "0"]);
        assert_eq!(code, 1, "{told} {why}");
        assert!(told.contains(expected), "{told}");
        assert!(told.contains("1 session not copied: denied"), "{told}");
    }
}

#[test]
fn a_copy_says_that_the_new_store_keeps_no_owners() {
    let pair = Pair::filled();
    let old = &pair.urls()[0];
    let php = format!("files:{}/php?php=1", pair.dir.path().display());
    std::fs::create_dir(pair.dir.path().join("php")).unwrap();
    let output = sessile(&["copy", old, &php, "--pause", "0"]);
    assert!(stderr(&output).contains("Owners of sessions are not copied"), "{}", stderr(&output));
    assert!(pair.copy(&["--pause", "0"]).2.is_empty());
}

/// A visitor logged out after the switch, or all sessions had been moved to the old store: the
/// command said so, and exit code 0 said that all was done.
#[test]
fn a_session_that_has_ended_in_the_new_store_is_not_copied_again_and_told() {
    let pair = Pair::filled();
    pair.copy(&["--pause", "0"]);
    let new = pair.new_store();
    new.destroy(&key(9)).unwrap();
    for more in [&["--pause", "0"][..], &["--verify", "--pause", "0"]] {
        let (code, told, why) = pair.copy(more);
        assert_eq!(code, 1);
        assert!(told.contains("1 session left in the old store: ended in the new one"), "{told}");
        assert!(why.contains("from where only `copy --move` takes them back"), "{why}");
    }
    assert!(new.peek(&key(9)).unwrap().is_none());
}

#[test]
fn a_dry_run_and_a_comparison_change_nothing_and_tell_what_is_missing() {
    let pair = Pair::filled();
    let (code, _, why) = pair.copy(&["--dry-run"]);
    assert_eq!(code, 3, "no store is created: {why}");
    let new = pair.new_store();
    let (code, told, _) = pair.copy(&["--dry-run", "--pause", "0"]);
    assert_eq!((code, told.as_str()), (0, "250 sessions to copy\n"));
    let (code, told, why) = pair.copy(&["--verify", "--pause", "0"]);
    assert_eq!((code, told.as_str()), (1, "250 sessions missing\n"), "{why}");
    assert_eq!(new.stat().unwrap().sessions, 0);
    pair.copy(&["--pause", "0"]);
    let (code, told, _) = pair.copy(&["--verify", "--pause", "0"]);
    assert_eq!((code, told.as_str()), (0, "250 sessions equal\n"));
}

#[test]
fn a_move_leaves_nothing_behind_and_tells_what_is_in_use() {
    let pair = Pair::filled();
    let held = pair.old.begin(&key(7), Duration::ZERO).unwrap();
    let (code, told, why) = pair.copy(&["--move", "--pause", "0"]);
    let expected = "249 sessions moved\n1 session not copied: lock-timeout\n";
    assert_eq!((code, told.as_str()), (1, expected), "{why}");
    drop(held);
    let (code, told, _) = pair.copy(&["--move", "--pause", "0", "--json"]);
    assert_eq!(code, 0);
    assert!(told.contains("\"moved\": 1"), "{told}");
    assert_eq!(pair.old.stat().unwrap().sessions, 0);
    assert_eq!(pair.new_store().stat().unwrap().sessions, 250);
}

#[test]
fn a_store_that_keeps_no_ids_is_refused_with_a_way_out() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let url = format!("sessile:{}/old", dir.path().display());
    drop(sessile_stores::open(&url, &Context::default()).unwrap());
    let new = format!("files:{}/new", dir.path().display());
    let output = sessile(&["copy", &url, &new]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("migrate:?from=URL&to=URL"), "{}", stderr(&output));
    assert!(!dir.path().join("new").exists(), "a refused copy makes no store");
}
