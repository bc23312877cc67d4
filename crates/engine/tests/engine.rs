//! What is special to the engine: its limits, its memory, its locks, its files. The contract is the
//! suite's business.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are not recognised as tests"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use sessile_core::{
    Bin, Budget, Clock, Detail, ErrorKind, Filter, Key, Limits, Listed, Sessions, Timestamp, Ttl,
};
use sessile_engine::{EngineOptions, open};

const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);

fn folder() -> tempfile::TempDir {
    tempfile::TempDir::new_in("/dev/shm").unwrap()
}

fn reopen(path: &Path, clock: &Clock, options: EngineOptions) -> Sessions {
    let limits = Limits { payload_bytes_max: 128 << 20, ..Limits::default() };
    Sessions::new("sessile", open(path, clock.clone(), &options).unwrap(), limits)
}

fn sized(size_bytes_max: u64) -> EngineOptions {
    EngineOptions { size_bytes_max, ..EngineOptions::default() }
}

fn store(folder: &tempfile::TempDir) -> (Sessions, Clock) {
    let clock = Clock::manual(START);
    (reopen(&folder.path().join("store"), &clock, EngineOptions::default()), clock)
}

fn key(number: usize) -> Key {
    Key::session(&format!("session-{number}")).unwrap()
}

fn ttl(seconds: u64) -> Ttl {
    Ttl::sliding(Duration::from_secs(seconds)).unwrap()
}

fn payload(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + number) as u8).collect()
}

fn detail(sessions: &Sessions, name: &str) -> u64 {
    match sessions.details().unwrap().into_iter().find(|detail| detail.0 == name).unwrap().1 {
        Detail::Count(value) | Detail::Bytes(value) | Detail::Milliseconds(value) => value,
        Detail::Text(text) => panic!("{name} is {text}"),
    }
}

fn sound(sessions: &Sessions) {
    let verified = sessions.verify(&mut |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
}

/// Sweeps until a pass is complete; returns how many records were removed.
fn sweep_all(sessions: &Sessions) -> u64 {
    let mut removed = 0;
    for _ in 0..10_000 {
        let swept = sessions.sweep(Budget::default()).unwrap();
        removed += swept.removed;
        if swept.complete {
            return removed;
        }
    }
    panic!("the sweep does not end");
}

#[test]
fn payloads_of_every_kind_of_size_come_back_whole() {
    let folder = folder();
    let (sessions, _) = store(&folder);
    for (number, bytes) in
        [0, 1, 7, 8, 64, 65_471, 65_472, 65_473, 200_001, 64 << 20].into_iter().enumerate()
    {
        sessions.create(&key(number), &payload(number, bytes), ttl(600)).unwrap();
        let read = sessions.peek(&key(number)).unwrap().unwrap();
        assert!(read.payload == payload(number, bytes), "{bytes} bytes differ");
    }
    sound(&sessions);
}

#[test]
fn a_full_store_refuses_and_keeps_every_session_and_goes_on_when_it_may_grow() {
    let folder = folder();
    let clock = Clock::manual(START);
    let path = folder.path().join("store");
    let sessions = reopen(&path, &clock, sized(8 << 20));
    let full =
        |result: sessile_core::Result<()>| result.is_err_and(|error| error.kind().code() == "full");
    let mut stored = 0;
    while !full(sessions.create(&key(stored), &payload(stored, 1_500), ttl(600))) {
        stored += 1;
        assert!(stored < 10_000, "the limit does not hold");
    }
    assert!(stored > 2_000, "full at {stored} sessions of 1,500 bytes in 8 MiB");
    let all_there = |sessions: &Sessions| {
        for number in 0..stored {
            let read = sessions
                .peek(&key(number))
                .unwrap()
                .unwrap_or_else(|| panic!("session {number} is gone"));
            assert!(read.payload == payload(number, 1_500), "session {number} is damaged");
        }
    };
    all_there(&sessions);
    assert!(full(
        sessions
            .begin(&key(0), Duration::ZERO)
            .unwrap()
            .lease
            .commit(&payload(9, 40_000), ttl(600))
    ));
    assert!(full(sessions.create(&key(stored), &payload(0, 3 << 20), ttl(600))));
    all_there(&sessions);
    // What is destroyed makes room, without any sweep.
    sessions.destroy(&key(0)).unwrap();
    sessions
        .begin(&key(1), Duration::ZERO)
        .unwrap()
        .lease
        .commit(&payload(1, 1_500), ttl(600))
        .unwrap();
    sessions.create(&key(0), &payload(0, 1_500), ttl(600)).unwrap();
    sound(&sessions);
    // Another process raises the limit: this one may grow at once. Lowered again, nothing is lost.
    let other = reopen(&path, &clock, sized(32 << 20));
    for number in stored..stored + 2_000 {
        sessions.create(&key(number), &payload(number, 1_500), ttl(600)).unwrap();
    }
    drop(reopen(&path, &clock, sized(4 << 20)));
    assert!(full(other.create(&key(99_999), &payload(0, 1 << 20), ttl(600))));
    all_there(&sessions);
    sound(&other);
}

#[test]
fn memory_is_given_back_after_as_many_calls_as_there_are_expired_records() {
    let folder = folder();
    let (sessions, clock) = store(&folder);
    let count = 20_000;
    for number in 0..count {
        let seconds = if number % 10 == 0 { 36_000 } else { 60 };
        sessions.create(&key(number), &payload(number, 1_500), ttl(seconds)).unwrap();
    }
    let before = detail(&sessions, "data_file");
    clock.advance(Duration::from_secs(61));
    for call in 0..count {
        let number = call / 10 * 10;
        let begun = sessions.begin(&key(number), Duration::ZERO).unwrap();
        assert!(begun.record.unwrap().payload == payload(number, 1_500));
        begun.lease.commit(&payload(number, 1_500), ttl(36_000)).unwrap();
    }
    let after = detail(&sessions, "data_file");
    assert!(
        after * 10 < before * 3,
        "{before} bytes before, {after} after nine tenths have expired"
    );
    assert!(detail(&sessions, "maintenance_records_examined_in_one_call_max") <= 4);
    assert_eq!(sessions.stat().unwrap().expired, 0);
    sound(&sessions);
}

/// A waiter that had waited for more than a millisecond and gave up left a mark on the lock, and
/// `create` took the free lock for a taken one.
#[test]
fn a_waiter_that_gave_up_does_not_keep_an_id_from_being_created() {
    let folder = folder();
    let (sessions, _) = store(&folder);
    let begin_after = |key: &Key| {
        sessions.create(key, b"x", ttl(600)).unwrap();
        let begun = sessions.begin(key, Duration::ZERO).unwrap();
        assert!(sessions.begin(key, Duration::from_millis(30)).is_err());
        sessions.destroy(key).unwrap();
        drop(begun);
        sessions.create(key, b"y", ttl(600)).unwrap();
        let start = Instant::now();
        sessions.begin(key, Duration::from_secs(5)).unwrap();
        start.elapsed()
    };
    // Once of several times, if the machine is busy with the tests beside this one.
    assert!((1..6).any(|number| begin_after(&key(number)) < Duration::from_secs(1)));
}

#[test]
fn a_control_plane_that_was_removed_under_a_living_process_is_not_replaced() {
    let folder = folder();
    let (sessions, clock) = store(&folder);
    let path = folder.path().join("store");
    sessions.create(&key(1), b"x", ttl(600)).unwrap();
    std::fs::remove_file(path.join("control")).unwrap();
    let error = open(&path, clock.clone(), &EngineOptions::default()).err().unwrap();
    assert_eq!(error.kind().code(), "io");
    assert!(error.to_string().contains("still use"), "{error}");
    // Who is attached goes on; when the last one has left, a new store takes the place.
    assert_eq!(sessions.peek(&key(1)).unwrap().unwrap().payload, b"x");
    drop(sessions);
    let sessions = reopen(&path, &clock, EngineOptions::default());
    assert!(sessions.peek(&key(1)).unwrap().is_none());
}

#[test]
fn foreign_directories_and_formats_are_refused() {
    let folder = folder();
    let clock = Clock::manual(START);
    let refused = |path: &Path, code: &str| {
        let error = open(path, clock.clone(), &EngineOptions::default()).err().unwrap();
        assert_eq!(error.kind().code(), code, "{error}");
    };
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("precious"), "x").unwrap();
    refused(&full, "incompatible");
    assert!(full.join("precious").exists());
    let newer = folder.path().join("newer");
    drop(reopen(&newer, &clock, EngineOptions::default()));
    let format = std::fs::read_to_string(newer.join("format")).unwrap();
    for (from, to) in [
        ("format 3", "format 5"),
        ("order little", "order big"),
        ("incompatible 0", "incompatible 4"),
    ] {
        std::fs::write(newer.join("format"), format.replace(from, to)).unwrap();
        refused(&newer, "incompatible");
    }
    std::fs::write(newer.join("format"), &format).unwrap();
    drop(reopen(&newer, &clock, EngineOptions::default()));
    std::fs::OpenOptions::new()
        .write(true)
        .open(newer.join("control"))
        .unwrap()
        .set_len(100)
        .unwrap();
    refused(&newer, "corrupt");
    // In memory the data lie in slots, on a disk in a log.
    let disk = tempfile::TempDir::new_in("/var/tmp").unwrap();
    std::fs::write(disk.path().join("format"), &format).unwrap();
    refused(disk.path(), "incompatible");
}

#[test]
fn verify_finds_what_was_damaged() {
    let folder = folder();
    let (sessions, _) = store(&folder);
    for number in 0..100 {
        sessions.create(&key(number), &payload(number, 300), ttl(600)).unwrap();
    }
    sound(&sessions);
    // The header of the first record: who it belongs to, in word 7.
    use std::os::unix::fs::FileExt;
    let data =
        std::fs::OpenOptions::new().write(true).open(folder.path().join("store/data")).unwrap();
    data.write_all_at(&77_777_u64.to_le_bytes(), 7 * 8).unwrap();
    let verified = sessions.verify(&mut |_| ()).unwrap();
    assert_eq!(verified.problems.len(), 1, "{:?}", verified.problems);
    let corrupt = (0..100).filter(|number| sessions.peek(&key(*number)).is_err()).count();
    assert_eq!(corrupt, 1);
    let damaged = (0..100).find(|number| sessions.peek(&key(*number)).is_err()).unwrap();
    sessions.destroy(&key(damaged)).unwrap();
    sessions.create(&key(damaged), b"new", ttl(600)).unwrap();
    sound(&sessions);
}

/// More zeros before the second half, capitals and the digest of another bin's record led there.
#[test]
fn only_what_a_listing_shows_is_the_key_of_a_listing() {
    let folder = folder();
    let (sessions, _) = store(&folder);
    let other = Bin::new("other").unwrap();
    for number in 0..20 {
        sessions.create(&key(number), b"x", ttl(60)).unwrap();
    }
    for listed in sessions.list(None, &Filter::default()).unwrap().entries {
        let id = listed.key.id();
        let (first, second) = id.split_at(16);
        let texts = [format!("{first}0{second}"), id.to_uppercase()];
        let mut wrong = vec![Key::in_bin(other.clone(), id).unwrap()];
        wrong.extend(texts.iter().filter(|text| *text != id).map(|id| Key::session(id).unwrap()));
        for wrong in wrong.iter().map(Key::as_listed) {
            assert_eq!(sessions.peek(&wrong).unwrap(), None);
            sessions.destroy(&wrong).unwrap();
        }
        let listed = listed.key.as_listed();
        assert!(sessions.peek(&listed).unwrap().is_some());
        sessions.destroy(&listed).unwrap();
        assert_eq!(sessions.peek(&listed).unwrap(), None);
    }
}

/// A session that had got a new id since it was listed was shown and destroyed under the key of
/// another bin, and `begin` locked what any key of a listing named.
#[test]
fn the_key_of_a_listing_leads_only_into_its_bin() {
    let folder = folder();
    let (sessions, _) = store(&folder);
    let grace = Duration::from_secs(30);
    for number in [1, 2] {
        sessions.create(&key(number), b"x", ttl(60)).unwrap();
    }
    let listed = sessions.list(None, &Filter::default()).unwrap().entries;
    let mut begun = sessions.begin(&key(1), Duration::ZERO).unwrap();
    begun.lease.regenerate(&key(3), grace).unwrap();
    drop(begun);
    for Listed { key: listed, .. } in listed {
        let other = Key::in_bin(Bin::new("other").unwrap(), listed.id()).unwrap().as_listed();
        assert_eq!(sessions.peek(&other).unwrap(), None);
        assert!(sessions.begin(&other, Duration::ZERO).unwrap().record.is_none());
        sessions.destroy(&other).unwrap();
        assert!(sessions.peek(&listed.as_listed()).unwrap().is_some());
        assert!(sessions.begin(&listed.as_listed(), Duration::ZERO).unwrap().record.is_some());
        sessions.destroy(&listed.as_listed()).unwrap();
    }
    for number in 1..4 {
        assert_eq!(sessions.peek(&key(number)).unwrap(), None);
    }
    sound(&sessions);
}

/// A create or a new id under a key of a listing was no error, and made a record that its digest
/// led to: listings show digests because they log nobody in.
#[test]
fn no_session_is_made_under_the_key_of_a_listing() {
    let folder = folder();
    let (sessions, _) = store(&folder);
    let listed = sessions.listed_key(&key(1)).as_listed();
    let refused = sessions.create(&listed, b"x", ttl(60)).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    sessions.create(&key(2), b"x", ttl(60)).unwrap();
    let mut begun = sessions.begin(&key(2), Duration::ZERO).unwrap();
    let refused = begun.lease.regenerate(&listed, Duration::ZERO).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    drop(begun);
    assert_eq!(sessions.stat().unwrap().sessions, 1);
    assert!(sessions.peek(&key(2)).unwrap().is_some());
}

#[test]
fn a_sweep_gives_everything_back() {
    let folder = folder();
    let (sessions, clock) = store(&folder);
    let empty = detail(&sessions, "data_file");
    for number in 0..500 {
        sessions.create(&key(number), &payload(number, 100 * number), ttl(60)).unwrap();
    }
    clock.advance(Duration::from_secs(61));
    let removed = sweep_all(&sessions);
    assert!(removed > 0);
    assert_eq!(detail(&sessions, "data_file"), empty);
    sound(&sessions);
}

/// A file of beacons that was removed and made anew made every living process look dead, and its
/// locks were taken.
#[test]
fn a_file_of_beacons_that_was_replaced_is_refused() {
    let folder = folder();
    let (sessions, clock) = store(&folder);
    let path = folder.path().join("store");
    sessions.create(&key(1), b"x", ttl(600)).unwrap();
    let begun = sessions.begin(&key(1), Duration::ZERO).unwrap();
    for replaced in [false, true] {
        let _ = std::fs::remove_file(path.join("beacons"));
        if replaced {
            // Another file first, so that the new one cannot get the inode of the old one.
            std::fs::write(folder.path().join("other"), "").unwrap();
            std::fs::write(path.join("beacons"), "").unwrap();
        }
        assert_eq!(
            open(&path, clock.clone(), &EngineOptions::default()).err().unwrap().kind().code(),
            "io"
        );
    }
    begun.lease.commit(b"y", ttl(600)).unwrap();
}

/// The end that a touch under the lease had set was forgotten by the next commit after a
/// regeneration.
#[test]
fn an_absolute_end_survives_a_regeneration() {
    let folder = folder();
    let (sessions, clock) = store(&folder);
    sessions.create(&key(1), b"x", ttl(60)).unwrap();
    let mut begun = sessions.begin(&key(1), Duration::ZERO).unwrap();
    begun.lease.touch(ttl(60).within(Duration::from_secs(100)).unwrap()).unwrap();
    begun.lease.regenerate(&key(2), Duration::ZERO).unwrap();
    begun.lease.commit(b"y", ttl(600)).unwrap();
    let record = sessions.peek(&key(2)).unwrap().unwrap();
    assert_eq!(record.head.ends, Some(clock.now().plus(Duration::from_secs(100))));
}

/// Free entries in the middle of the table were never found again, and the table grew with each
/// round.
#[test]
fn the_table_does_not_grow_when_sessions_come_and_go() {
    let folder = folder();
    let (sessions, clock) = store(&folder);
    for number in 0..12_000 {
        sessions.create(&key(number), b"", ttl(1_000_000)).unwrap();
    }
    let mut entries = Vec::new();
    for round in 0..6 {
        for number in 0..3_000 {
            sessions.create(&key(100_000 * (round + 1) + number), b"", ttl(60)).unwrap();
        }
        clock.advance(Duration::from_secs(61));
        sweep_all(&sessions);
        entries.push(detail(&sessions, "entries"));
    }
    assert_eq!(entries.first(), entries.last(), "{entries:?}");
}

/// A move that found no room ended the sweep with an error, for good: nothing that had expired was
/// removed.
#[test]
fn a_full_store_can_be_swept() {
    let folder = folder();
    let clock = Clock::manual(START);
    let sessions = reopen(&folder.path().join("store"), &clock, sized(8 << 20));
    let mut stored = 0;
    while sessions
        .create(&key(stored), &payload(stored, 1_500), ttl(60 + stored as u64 % 2 * 6_000))
        .is_ok()
    {
        stored += 1;
    }
    clock.advance(Duration::from_secs(61));
    let removed = sweep_all(&sessions);
    let living =
        (0..stored).filter(|number| sessions.peek(&key(*number)).unwrap().is_some()).count();
    assert_eq!(living, stored / 2);
    assert!(
        removed as usize + living + 300 >= stored,
        "{removed} removed of \
                                                        {stored}"
    ); // calls remove some, too
    sessions.create(&key(99_999), &payload(0, 1_500), ttl(60)).unwrap();
    sound(&sessions);
}

/// The only segment of a class, less than half full, was moved into a new one for ever.
#[test]
fn an_idle_store_comes_to_rest() {
    let folder = folder();
    let (sessions, _) = store(&folder);
    sessions.create(&key(1), &payload(1, 300), ttl(600)).unwrap();
    sessions.create(&key(2), &payload(2, 300_000), ttl(600)).unwrap();
    for _ in 0..30_000 {
        sessions.touch(&key(1), ttl(600)).unwrap();
    }
    assert_eq!(detail(&sessions, "maintenance_records_moved"), 0);
}
