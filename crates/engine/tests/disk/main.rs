//! The engine on a disk: what a rebuild finds, what a damaged or copied directory does, how the log
//! stays small.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are not recognised as tests"
)]

mod damage;
mod ground;

use std::collections::HashMap;
use std::time::Duration;

use sessile_core::{Bin, Budget, Key, Owner, Sessions};
use sessile_engine::{EngineOptions, SyncMode, open};

use self::ground::{Ground, START, WAIT, control_of, detail, key, payload, read, sound, ttl};

#[test]
fn payloads_of_every_kind_of_size_survive_a_rebuild() {
    let ground = Ground::new();
    let sessions = ground.open();
    let sizes = [0, 1, 63, 64, 65, 1_500, 65_407, 65_408, 65_409, 200_001, 32 << 20];
    for (number, bytes) in sizes.into_iter().enumerate() {
        sessions.create(&key(number), &payload(number, bytes), ttl(600)).unwrap();
    }
    let sessions = ground.rebuild(sessions);
    for (number, bytes) in sizes.into_iter().enumerate() {
        let record = sessions.peek(&key(number)).unwrap().unwrap();
        assert!(record.payload == payload(number, bytes), "{bytes} bytes differ");
        assert_eq!(record.head.version, 1);
        assert_eq!(record.head.created, START);
    }
}

#[test]
fn the_latest_of_many_records_is_the_one_that_survives() {
    let ground = Ground::new();
    let mut sessions = ground.open();
    for round in 0..4 {
        for number in 0..200 {
            let lease = sessions.begin(&key(number), WAIT).unwrap().lease;
            lease.commit(&payload(number + round, 700 + round * 100), ttl(600)).unwrap();
        }
        sessions = ground.rebuild(sessions);
        for number in 0..200 {
            let record = sessions.peek(&key(number)).unwrap().unwrap();
            assert!(record.payload == payload(number + round, 700 + round * 100));
            assert_eq!(record.head.version, round as u64 + 1);
        }
    }
}

#[test]
fn a_destroyed_session_stays_destroyed() {
    let ground = Ground::new();
    let sessions = ground.open();
    for number in 0..100 {
        sessions.create(&key(number), b"cart", ttl(86_400)).unwrap();
    }
    let lease = sessions.begin(&key(3), WAIT).unwrap().lease;
    for number in 0..100 {
        sessions.destroy(&key(number)).unwrap();
    }
    lease.commit(b"too late", ttl(86_400)).unwrap_err();
    let sessions = ground.rebuild(sessions);
    assert!((0..100).all(|number| read(&sessions, &key(number)).is_none()));
    // Long after the time for which others remember a log-out, but before the records on the disk
    // expire.
    ground.clock.advance(Duration::from_secs(7_200));
    for _ in 0..100 {
        sessions.sweep(Budget::default()).unwrap();
    }
    let sessions = ground.rebuild(sessions);
    assert!((0..100).all(|number| read(&sessions, &key(number)).is_none()));
    sessions.create(&key(5), b"new", ttl(60)).unwrap();
    let sessions = ground.rebuild(sessions);
    assert_eq!(read(&sessions, &key(5)).unwrap(), b"new");
    // The new one expires soon; what was destroyed before it must not come up again.
    ground.clock.advance(Duration::from_secs(600));
    for _ in 0..100 {
        sessions.sweep(Budget::default()).unwrap();
    }
    let sessions = ground.rebuild(sessions);
    assert!(read(&sessions, &key(5)).is_none());
}

#[test]
fn a_shorter_time_to_live_is_not_undone_by_what_was_written_before() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"long", ttl(86_400)).unwrap();
    sessions.create(&key(2), b"long", ttl(86_400)).unwrap();
    sessions.create(&key(3), b"touched", ttl(60)).unwrap();
    neighbours(&sessions);
    for _ in 0..3 {
        let lease = sessions.begin(&key(1), WAIT).unwrap().lease;
        lease.commit(b"short", ttl(60)).unwrap();
    }
    sessions.touch(&key(2), ttl(60)).unwrap();
    sessions.touch(&key(3), ttl(86_400)).unwrap();
    sessions.touch(&key(3), ttl(60)).unwrap();
    let mut sessions = sessions;
    for _ in 0..3 {
        ground.clock.advance(Duration::from_secs(600));
        for _ in 0..100 {
            sessions.sweep(Budget::default()).unwrap();
        }
        // Other sessions come and go, so that segments are emptied.
        for number in 100..400 {
            sessions.create(&key(number), &payload(number, 3_000), ttl(60)).unwrap();
        }
        sessions.sync().unwrap();
        for _ in 0..100 {
            sessions.sweep(Budget::default()).unwrap();
        }
        sessions.sync().unwrap();
        for number in 100..400 {
            sessions.destroy(&key(number)).unwrap();
            sessions.create(&key(number), &payload(number, 3_000), ttl(60)).unwrap();
        }
        sessions = ground.rebuild(sessions);
        assert!((1..4).all(|number| read(&sessions, &key(number)).is_none()));
    }
}

/// Empties the segments of what does not stay, and uses them again.
fn go_round(sessions: &Sessions) {
    for _ in 0..4 {
        for number in 100..400 {
            sessions.destroy(&key(number)).unwrap();
            sessions.create(&key(number), &payload(number, 3_000), ttl(60)).unwrap();
        }
        for _ in 0..100 {
            sessions.sweep(Budget::default()).unwrap();
        }
        sessions.sync().unwrap();
    }
}

/// Sessions that stay, so that the segment of what was written before them does too; then some that
/// do not, so that what comes next lies in a segment that is emptied.
fn neighbours(sessions: &Sessions) {
    for number in 1_000..1_200 {
        sessions.create(&key(number), &payload(number, 1_200), ttl(864_000)).unwrap();
    }
    passing(sessions, 2_000);
}

fn passing(sessions: &Sessions, first: usize) {
    for number in first..first + 200 {
        sessions.create(&key(number), &payload(number, 1_200), ttl(60)).unwrap();
    }
}

#[test]
fn a_session_that_was_touched_back_and_destroyed_stays_destroyed() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"cart", ttl(600)).unwrap();
    sessions.touch(&key(1), ttl(86_400)).unwrap();
    neighbours(&sessions);
    sessions.touch(&key(1), ttl(300)).unwrap();
    sessions.destroy(&key(1)).unwrap();
    passing(&sessions, 3_000);
    ground.clock.advance(Duration::from_secs(8_000));
    go_round(&sessions);
    let sessions = ground.rebuild(sessions);
    assert!(read(&sessions, &key(1)).is_none());
}

/// A rebuild that ran while the clock was hours ahead once forgot the tombstones that had expired
/// by that clock, and nothing else: with the clock set right the session was back.
#[test]
fn a_clock_that_was_ahead_during_a_rebuild_brings_no_destroyed_session_back() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"cart", ttl(6_000)).unwrap();
    neighbours(&sessions);
    sessions.destroy(&key(1)).unwrap();
    passing(&sessions, 3_000);
    ground.clock.advance(Duration::from_secs(10_800));
    let sessions = ground.rebuild(sessions);
    go_round(&sessions);
    ground.clock.set(START.plus(Duration::from_secs(60)));
    let sessions = ground.rebuild(sessions);
    assert!(read(&sessions, &key(1)).is_none());
}

/// The hand once forgot tombstones that had expired by a clock three hours ahead: with the clock
/// set right, and after a reboot, the destroyed session was back.
#[test]
fn a_clock_that_was_ahead_for_a_while_brings_no_destroyed_session_back() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"cart", ttl(6_000)).unwrap();
    neighbours(&sessions);
    sessions.destroy(&key(1)).unwrap();
    passing(&sessions, 3_000);
    let hours = Duration::from_secs(10_800);
    ground.clock.set(START.plus(hours));
    for _ in 0..3 {
        go_round(&sessions);
        ground.clock.advance(Duration::from_secs(60));
    }
    ground.clock.set(ground.clock.now().minus(hours));
    let sessions = ground.rebuild(sessions);
    assert!(read(&sessions, &key(1)).is_none());
}

/// Tombstones must not pile up behind a clock that was behind when the machine started.
#[test]
fn a_clock_that_was_set_forward_for_good_forgets_tombstones_after_two_days() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"cart", ttl(6_000)).unwrap();
    sessions.destroy(&key(1)).unwrap();
    ground.clock.set(START.plus(Duration::from_secs(400 * 86_400)));
    let tombstones = || detail(&sessions, "destroyed_remembered");
    let before = tombstones();
    assert!(before > 0, "a destroyed session leaves one");
    for _ in 0..3 {
        go_round(&sessions);
        ground.clock.advance(Duration::from_secs(86_400));
    }
    go_round(&sessions);
    assert_eq!(tombstones(), 0);
}

#[test]
fn an_old_id_is_not_valid_again_when_the_new_one_has_expired() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"login", ttl(86_400)).unwrap();
    neighbours(&sessions);
    sessions.begin(&key(1), WAIT).unwrap().lease.commit(b"shorter", ttl(60)).unwrap();
    let mut lease = sessions.begin(&key(1), WAIT).unwrap().lease;
    lease.regenerate(&key(2), Duration::from_secs(30)).unwrap();
    lease.commit(b"logged in", ttl(60)).unwrap();
    passing(&sessions, 3_000);
    let mut sessions = sessions;
    for _ in 0..3 {
        ground.clock.advance(Duration::from_secs(1_500));
        go_round(&sessions);
        sessions = ground.rebuild(sessions);
        assert!(read(&sessions, &key(1)).is_none() && read(&sessions, &key(2)).is_none());
    }
}

#[test]
fn touches_and_absolute_ends_survive() {
    let ground = Ground::new();
    let sessions = ground.open();
    let bounded = ttl(600).within(Duration::from_secs(3_000)).unwrap();
    sessions.create(&key(1), b"touched", ttl(600)).unwrap();
    sessions.create(&key(2), b"bounded", bounded).unwrap();
    for _ in 0..20 {
        ground.clock.advance(Duration::from_secs(60));
        sessions.touch(&key(1), ttl(600)).unwrap();
        sessions.touch(&key(2), bounded).unwrap();
    }
    let before = [1, 2].map(|number| sessions.peek(&key(number)).unwrap().unwrap());
    let sessions = ground.rebuild(sessions);
    for (number, before) in [1, 2].into_iter().zip(before) {
        let after = sessions.peek(&key(number)).unwrap().unwrap();
        assert!(after.head.expires >= before.head.expires, "nothing expires earlier than promised");
        let grant = after.head.expires.as_ms() - before.head.expires.as_ms();
        assert!(grant <= 2 * 600_000 / 16, "{grant} ms more than promised");
        assert_eq!(after.head.ends, before.head.ends);
    }
    ground.clock.advance(Duration::from_secs(1_801));
    assert!(read(&sessions, &key(2)).is_none(), "the absolute end is never extended");
}

#[test]
fn a_regenerated_id_leads_to_the_new_one_after_a_rebuild() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"login", ttl(600)).unwrap();
    let mut lease = sessions.begin(&key(1), WAIT).unwrap().lease;
    lease.regenerate(&key(2), Duration::from_secs(60)).unwrap();
    lease.commit(b"logged in", ttl(600)).unwrap();
    let sessions = ground.rebuild(sessions);
    assert_eq!(read(&sessions, &key(1)).unwrap(), b"logged in");
    assert_eq!(read(&sessions, &key(2)).unwrap(), b"logged in");
    ground.clock.advance(Duration::from_secs(61));
    assert!(read(&sessions, &key(1)).is_none());
}

#[test]
fn a_rebuild_finds_the_sessions_of_each_owner_again() {
    let ground = Ground::new();
    let sessions = ground.open();
    let owners = [b"17", b"18"].map(|name| Owner::new(name).unwrap());
    let own = |number: usize, owner: Option<Owner>| {
        let mut lease = sessions.begin(&key(number), WAIT).unwrap().lease;
        lease.set_owner(owner).unwrap();
        lease.commit(&payload(number, 300), ttl(600)).unwrap();
    };
    (0..10).for_each(|number| own(number, Some(owners[number % 2])));
    own(0, Some(owners[1]));
    own(1, None);
    // Its later records have the owner, too, and so has the one under the new id.
    sessions.begin(&key(3), WAIT).unwrap().lease.commit(b"later", ttl(600)).unwrap();
    let mut lease = sessions.begin(&key(5), WAIT).unwrap().lease;
    lease.regenerate(&key(50), Duration::from_secs(60)).unwrap();
    lease.release().unwrap();
    let sessions = ground.rebuild(sessions);
    sound(&sessions);
    for (owner, numbers) in [(owners[0], &[2, 4, 6, 8][..]), (owners[1], &[0, 3, 7, 9, 50])] {
        let mut wanted: Vec<Key> =
            numbers.iter().map(|number| sessions.listed_key(&key(*number))).collect();
        wanted.sort();
        let listed = sessions.sessions_of(owner).unwrap();
        assert!(listed.iter().all(|entry| entry.head.owner == Some(owner)));
        assert_eq!(listed.into_iter().map(|entry| entry.key).collect::<Vec<_>>(), wanted);
    }
    assert_eq!(sessions.revoke(owners[1], Some(&key(50))).unwrap(), 4);
    let sessions = ground.rebuild(sessions);
    assert_eq!(sessions.sessions_of(owners[1]).unwrap().len(), 1);
    assert!(read(&sessions, &key(50)).is_some() && read(&sessions, &key(3)).is_none());
}

#[test]
fn bins_keep_their_names() {
    let ground = Ground::new();
    let sessions = ground.open();
    let cache = Key::in_bin(Bin::new("cache").unwrap(), "menu").unwrap();
    let forms = Key::in_bin(Bin::new("forms").unwrap(), "menu").unwrap();
    sessions.create(&cache, b"cache", ttl(600)).unwrap();
    sessions.create(&forms, b"forms", ttl(600)).unwrap();
    let sessions = ground.rebuild(sessions);
    assert_eq!(read(&sessions, &cache).unwrap(), b"cache");
    let listed = sessions.list(None, &sessile_core::Filter::default()).unwrap();
    let mut bins: Vec<_> =
        listed.entries.iter().map(|entry| entry.key.bin().name().to_owned()).collect();
    bins.sort();
    assert_eq!(bins, ["cache", "forms"]);
}

#[test]
fn a_log_that_is_rewritten_again_and_again_stays_small_and_right() {
    let ground = Ground::new();
    let mut sessions = ground
        .open_with(&EngineOptions { sync: Some(SyncMode::Never), ..EngineOptions::default() });
    let mut expected = HashMap::new();
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for round in 0..4 {
        for write in 0..20_000 {
            // What was emptied is used again after a sync. A slow disk would be let fall behind by
            // some 24 MiB.
            if write % 1_000 == 0 {
                sessions.sync().unwrap();
            }
            let number = next(1_000) as usize;
            let bytes = 200 + next(3_000) as usize;
            if next(50) == 0 {
                sessions.destroy(&key(number)).unwrap();
                expected.remove(&number);
                continue;
            }
            let lease = sessions.begin(&key(number), WAIT).unwrap().lease;
            lease.commit(&payload(number + bytes, bytes), ttl(600)).unwrap();
            expected.insert(number, bytes);
        }
        let live: usize = expected.values().sum();
        let occupied = detail(&sessions, "data_file");
        assert!(
            occupied < 3 * live as u64 + (28 << 20),
            "{occupied} bytes for {live} in round {round}"
        );
        sessions = ground.rebuild(sessions);
        for number in 0..1_000 {
            let expected = expected.get(&number).map(|bytes| payload(number + bytes, *bytes));
            assert!(read(&sessions, &key(number)) == expected, "session {number} in round {round}");
        }
    }
}

#[test]
fn a_log_of_nothing_but_touches_stays_small_and_right() {
    // 250,000 notes of 128 bytes are 32 MB. What was emptied is used again after a sync.
    touches_stay_small_and_right(250, Some(10), 12 << 20);
}

/// 500,000 notes are 64 MB. A disk that is slow is let fall behind by some 24 MiB before who writes
/// waits for it.
#[test]
fn a_log_of_nothing_but_touches_stays_small_if_nobody_syncs_it() {
    touches_stay_small_and_right(500, None, (12 + 24) << 20);
}

/// Each touch here crosses a line of the grid and is noted; only the last one of each session has
/// something to say.
fn touches_stay_small_and_right(rounds: usize, synced_every: Option<usize>, occupied_max: u64) {
    let ground = Ground::new();
    let sessions = ground
        .open_with(&EngineOptions { sync: Some(SyncMode::Never), ..EngineOptions::default() });
    for number in 0..1_000 {
        sessions.create(&key(number), &payload(number, 200), ttl(600)).unwrap();
    }
    for round in 0..rounds {
        if synced_every.is_some_and(|every| round % every == 0) {
            sessions.sync().unwrap();
        }
        ground.clock.advance(Duration::from_secs(60));
        for number in 0..1_000 {
            sessions.touch(&key(number), ttl(600)).unwrap();
        }
    }
    let occupied = detail(&sessions, "data_file");
    println!("{occupied} bytes");
    assert!(occupied < occupied_max, "{occupied} bytes");
    let sessions = ground.rebuild(sessions);
    ground.clock.advance(Duration::from_secs(590));
    assert!((0..1_000).all(|number| read(&sessions, &key(number)) == Some(payload(number, 200))));
    ground.clock.advance(Duration::from_secs(60));
    assert!((0..1_000).all(|number| read(&sessions, &key(number)).is_none()));
}

#[test]
fn a_record_forged_inside_a_payload_is_not_believed() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"administrator", ttl(600)).unwrap();
    sessions.sync().unwrap();
    // What lies on the disk for session 1, as the payload of session 2, at every place where a
    // record could begin.
    let data = std::fs::read(ground.path().join("data")).unwrap();
    let record = &data[..256];
    assert!(record.windows(13).any(|window| window == b"administrator"));
    sessions.create(&key(2), &record.repeat(40), ttl(600)).unwrap();
    sessions.destroy(&key(1)).unwrap();
    let sessions = ground.rebuild(sessions);
    assert!(read(&sessions, &key(1)).is_none());
    assert_eq!(read(&sessions, &key(2)).unwrap(), record.repeat(40));
}

#[test]
fn a_full_log_refuses_and_keeps_every_session() {
    let ground = Ground::new();
    let sessions =
        ground.open_with(&EngineOptions { size_bytes_max: 8 << 20, ..EngineOptions::default() });
    let mut count = 0;
    let error = loop {
        match sessions.create(&key(count), &payload(count, 4_000), ttl(600)) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind().code(), "full");
    assert!(count > 800, "only {count} sessions of 4,000 bytes in 8 MiB");
    assert!(
        (0..count).all(|number| read(&sessions, &key(number)).unwrap() == payload(number, 4_000))
    );
    // Logging out works in a full store, and makes room.
    for number in 0..count / 2 {
        sessions.destroy(&key(number)).unwrap();
    }
    for number in 0..count / 4 {
        sessions.create(&key(10_000 + number), &payload(number, 4_000), ttl(600)).unwrap();
    }
    let sessions = ground.rebuild(sessions);
    assert!(
        (count / 2..count)
            .all(|number| read(&sessions, &key(number)).unwrap() == payload(number, 4_000))
    );
}

#[test]
fn a_copy_of_a_directory_in_use_has_a_control_plane_of_its_own() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"original", ttl(600)).unwrap();
    let copy = Ground::new();
    std::fs::create_dir(copy.path()).unwrap();
    for entry in std::fs::read_dir(ground.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(copy.path(), permissions).unwrap();
    let other = copy.open();
    assert_eq!(read(&other, &key(1)).unwrap(), b"original");
    other.destroy(&key(1)).unwrap();
    assert_eq!(read(&sessions, &key(1)).unwrap(), b"original");
    sound(&sessions);
    sound(&other);
}

#[test]
fn a_control_plane_that_was_removed_under_a_living_process_is_not_replaced() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"cart", ttl(600)).unwrap();
    std::fs::remove_dir_all(control_of(&ground.path())).unwrap();
    let error =
        open(&ground.path(), ground.clock.clone(), &EngineOptions::default()).err().unwrap();
    assert_eq!(error.kind().code(), "io");
    assert!(format!("{error}").contains("still use"), "{error}");
    assert_eq!(read(&sessions, &key(1)).unwrap(), b"cart");
    let lease = sessions.begin(&key(1), WAIT).unwrap().lease;
    lease.commit(b"paid", ttl(600)).unwrap();
    drop(sessions);
    assert_eq!(read(&ground.open(), &key(1)).unwrap(), b"paid");
}

#[test]
fn writes_are_synced_when_the_interval_is_over() {
    let ground = Ground::new();
    let sessions = ground.open();
    sessions.create(&key(1), b"cart", ttl(600)).unwrap();
    let syncs = detail(&sessions, "syncs");
    ground.clock.advance(Duration::from_millis(999));
    sessions.create(&key(2), b"cart", ttl(600)).unwrap();
    assert_eq!(detail(&sessions, "syncs"), syncs);
    assert_eq!(detail(&sessions, "oldest_unsynced_byte_age"), 999);
    ground.clock.advance(Duration::from_millis(1));
    // It goes on in the background; a later call notices its end.
    let deadline = std::time::Instant::now() + WAIT;
    while detail(&sessions, "syncs") == syncs {
        assert!(std::time::Instant::now() < deadline, "nobody syncs");
        sessions.touch(&key(1), ttl(600)).unwrap();
    }
    sessions.sync().unwrap();
    assert_eq!(detail(&sessions, "syncs"), syncs + 2);
}

/// A measurement: `cargo test --release -p sessile-engine --test disk -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement of a minute"]
fn a_rebuild_of_550_000_sessions_takes_below_two_seconds() {
    let ground = Ground::new();
    let sessions = ground
        .open_with(&EngineOptions { sync: Some(SyncMode::Never), ..EngineOptions::default() });
    for number in 0..550_000 {
        sessions.create(&key(number), &payload(number, 1_500), ttl(600)).unwrap();
    }
    drop(sessions);
    for _ in 0..3 {
        std::fs::remove_dir_all(control_of(&ground.path())).unwrap();
        let start = std::time::Instant::now();
        let sessions = ground.open();
        let took = start.elapsed();
        println!("opened after {took:.2?}");
        assert_eq!(sessions.stat().unwrap().sessions, 550_000);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}
