//! Bits that the disk turns: what a reader, a rebuild and the hand make of them.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use sessile_core::{Budget, Sessions};

use crate::ground::{Ground, control_of, key, payload, read, sound, ttl};

/// Writes into the file of the log, at an offset from the first place where it has `content`.
fn damage(ground: &Ground, content: &[u8], offset: i64, with: &[u8]) {
    let data = std::fs::read(ground.path().join("data")).unwrap();
    let at = data.windows(content.len()).position(|window| window == content).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(ground.path().join("data")).unwrap();
    file.write_all_at(with, (at as i64 + offset) as u64).unwrap();
}

/// Synced, and known to be so: the next calls write down what is on the disk.
fn settle(sessions: &Sessions) {
    sessions.sync().unwrap();
    (0..200).for_each(|_| drop(sessions.touch(&key(0), ttl(600))));
}

fn remake(ground: &Ground, sessions: Sessions) -> Sessions {
    drop(sessions);
    std::fs::remove_dir_all(control_of(&ground.path())).unwrap();
    ground.open()
}

fn kind(sessions: &Sessions, number: usize) -> Option<&'static str> {
    sessions.peek(&key(number)).err().map(|error| error.kind().code())
}

/// A rebuild once took a record with a bad checksum for one that is not there, and the record
/// before it for the session.
#[test]
fn a_damaged_record_is_corrupt_and_no_other_is() {
    let ground = Ground::new();
    let mut sessions = ground.open();
    for first in [100, 0] {
        for number in 0..50 {
            let lease = sessions.begin(&key(number), Duration::ZERO).unwrap().lease;
            lease.commit(&payload(number, 1_000 - first), ttl(600)).unwrap();
        }
    }
    settle(&sessions);
    damage(&ground, &payload(7, 1_000), 500, b"!");
    for _ in 0..2 {
        assert_eq!(kind(&sessions, 7), Some("corrupt"));
        assert_eq!(sessions.verify(&mut |_| ()).unwrap().problems.len(), 1);
        for number in (0..50).filter(|number| *number != 7) {
            assert!(read(&sessions, &key(number)) == Some(payload(number, 1_000)), "{number}");
        }
        sessions = remake(&ground, sessions);
    }
    assert_eq!(sessions.begin(&key(7), Duration::ZERO).unwrap_err().kind().code(), "corrupt");
    assert_eq!(sessions.create(&key(7), b"", ttl(600)).unwrap_err().kind().code(), "corrupt");
    sessions.destroy(&key(7)).unwrap();
    let sessions = ground.rebuild(sessions);
    assert!(read(&sessions, &key(7)).is_none(), "destroyed, and the record before it is back");
    sessions.create(&key(7), b"new", ttl(600)).unwrap();
}

#[test]
fn a_damaged_record_goes_when_all_that_is_known_of_its_session_has_expired() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(7), &payload(7, 1_000), ttl(600)).unwrap();
    settle(&sessions);
    // Its header: an expiry, too, cannot be believed then.
    damage(&ground, &payload(7, 1_000), -64 + 24, &[0; 8]);
    let sessions = remake(&ground, sessions);
    assert_eq!(kind(&sessions, 7), Some("corrupt"));
    ground.clock.advance(Duration::from_secs(700));
    for _ in 0..3 {
        sessions.sweep(Budget::default()).unwrap();
    }
    assert_eq!(kind(&sessions, 7), None);
    sound(&sessions);
}

#[test]
fn a_large_record_with_a_damaged_chunk_is_corrupt() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(7), b"before", ttl(600)).unwrap();
    let lease = sessions.begin(&key(7), Duration::ZERO).unwrap().lease;
    lease.commit(&payload(7, 200_000), ttl(600)).unwrap();
    settle(&sessions);
    damage(&ground, &payload(7, 1_000), 500, b"!");
    let sessions = remake(&ground, sessions);
    assert_eq!(kind(&sessions, 7), Some("corrupt"));
    sessions.destroy(&key(7)).unwrap();
    sound(&sessions);
}

/// The half of a tombstone that says whose it is, and that it is one, has a check of its own.
#[test]
fn a_damaged_tombstone_still_counts() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(7), &payload(7, 1_000), ttl(600)).unwrap();
    let before = std::fs::read(ground.path().join("data")).unwrap();
    sessions.destroy(&key(7)).unwrap();
    let after = std::fs::read(ground.path().join("data")).unwrap();
    let changed = (0..after.len()).rfind(|at| before.get(*at) != after.get(*at)).unwrap();
    let header = changed as u64 / 128 * 128 + 64;
    let file = std::fs::OpenOptions::new().write(true).open(ground.path().join("data")).unwrap();
    file.write_all_at(&[0x55; 8], header + 8).unwrap();
    let sessions = ground.rebuild(sessions);
    assert!(read(&sessions, &key(7)).is_none());
}

/// The hand, on its way over the entries, once gave up its round at a damaged one: what expired
/// beside it stayed.
#[test]
fn a_damaged_line_does_not_stop_expiry() {
    let ground = Ground::new();
    let sessions = ground.open();
    for number in 0..8 {
        sessions.create(&key(number), &payload(number, 1_000), ttl(60)).unwrap();
    }
    (0..8).for_each(|number| damage(&ground, &payload(number, 1_000), -128 + 8, &[0x55; 8]));
    sessions.create(&key(8), b"stays", ttl(6_000)).unwrap();
    for number in 9..40 {
        sessions.create(&key(number), b"goes", ttl(60)).unwrap();
    }
    ground.clock.advance(Duration::from_secs(61));
    for _ in 0..4_096 {
        sessions.touch(&key(8), ttl(6_000)).unwrap();
    }
    let backlog = crate::ground::detail(&sessions, "expiry_backlog");
    assert_eq!(backlog, 0, "entries are due and stay so");
}
