//! What is special to the engine: its limits, its memory, its locks, its files. The contract is the suite's business.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests are not recognised as tests"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use sessile_core::{Budget, Clock, DetailValue, Key, Limits, Sessions, Timestamp, Ttl};
use sessile_engine::{Options, open};

const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);

fn folder() -> tempfile::TempDir {
    tempfile::TempDir::new_in("/dev/shm").unwrap()
}

fn reopen(path: &Path, clock: &Clock, options: Options) -> Sessions {
    let limits = Limits { payload_bytes_max: 128 << 20, ..Limits::default() };
    Sessions::new("sessile", open(path, clock.clone(), options).unwrap(), limits)
}

fn store(folder: &tempfile::TempDir) -> (Sessions, Clock) {
    let clock = Clock::manual(START);
    (reopen(&folder.path().join("store"), &clock, Options::default()), clock)
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
    match sessions.details().unwrap().into_iter().find(|detail| detail.name == name).unwrap().value {
        DetailValue::Count(value) | DetailValue::Bytes(value) | DetailValue::Milliseconds(value) => value,
        DetailValue::Text(text) => panic!("{name} is {text}"),
    }
}

fn sound(sessions: &Sessions) {
    let verified = sessions.verify(&mut |_| ()).unwrap();
    assert!(verified.clean(), "{:?}", verified.problems);
}

#[test]
fn payloads_of_every_kind_of_size_come_back_whole() {
    let folder = folder();
    let (sessions, _) = store(&folder);
    for (number, bytes) in [0, 1, 7, 8, 64, 65_471, 65_472, 65_473, 200_001, 64 << 20].into_iter().enumerate() {
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
    let sessions = reopen(&path, &clock, Options { size_bytes_max: 8 << 20 });
    let full = |result: sessile_core::Result<()>| result.is_err_and(|error| error.kind().code() == "full");
    let mut stored = 0;
    while !full(sessions.create(&key(stored), &payload(stored, 1_500), ttl(600))) {
        stored += 1;
        assert!(stored < 10_000, "the limit does not hold");
    }
    assert!(stored > 2_000, "full at {stored} sessions of 1,500 bytes in 8 MiB");
    let all_there = |sessions: &Sessions| {
        for number in 0..stored {
            let read = sessions.peek(&key(number)).unwrap().unwrap_or_else(|| panic!("session {number} is gone"));
            assert!(read.payload == payload(number, 1_500), "session {number} is damaged");
        }
    };
    all_there(&sessions);
    assert!(full(sessions.begin(&key(0), Duration::ZERO).unwrap().lease.commit(&payload(9, 40_000), ttl(600))));
    assert!(full(sessions.create(&key(stored), &payload(0, 3 << 20), ttl(600))));
    all_there(&sessions);
    // What is destroyed makes room, without any sweep.
    sessions.destroy(&key(0)).unwrap();
    sessions.begin(&key(1), Duration::ZERO).unwrap().lease.commit(&payload(1, 1_500), ttl(600)).unwrap();
    sessions.create(&key(0), &payload(0, 1_500), ttl(600)).unwrap();
    sound(&sessions);
    // Another process raises the limit: this one may grow at once. Lowered again, nothing is lost.
    let other = reopen(&path, &clock, Options { size_bytes_max: 32 << 20 });
    for number in stored..stored + 2_000 {
        sessions.create(&key(number), &payload(number, 1_500), ttl(600)).unwrap();
    }
    drop(reopen(&path, &clock, Options { size_bytes_max: 4 << 20 }));
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
    assert!(after * 10 < before * 3, "{before} bytes before, {after} after nine tenths have expired");
    assert!(detail(&sessions, "maintenance_records_examined_in_one_call_max") <= 4);
    assert_eq!(sessions.stat().unwrap().expired, 0);
    sound(&sessions);
}

/// A waiter that had waited for more than a millisecond and gave up left a mark on the lock, and `create` took the
/// free lock for a taken one.
#[test]
fn a_waiter_that_gave_up_does_not_keep_an_id_from_being_created() {
    let folder = folder();
    let (sessions, _) = store(&folder);
    sessions.create(&key(1), b"x", ttl(600)).unwrap();
    let begun = sessions.begin(&key(1), Duration::ZERO).unwrap();
    assert!(sessions.begin(&key(1), Duration::from_millis(30)).is_err());
    sessions.destroy(&key(1)).unwrap();
    drop(begun);
    sessions.create(&key(1), b"y", ttl(600)).unwrap();
    let start = Instant::now();
    sessions.begin(&key(1), Duration::from_secs(5)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_control_plane_that_was_removed_under_a_living_process_is_not_replaced() {
    let folder = folder();
    let (sessions, clock) = store(&folder);
    let path = folder.path().join("store");
    sessions.create(&key(1), b"x", ttl(600)).unwrap();
    std::fs::remove_file(path.join("control")).unwrap();
    let error = open(&path, clock.clone(), Options::default()).err().unwrap();
    assert_eq!(error.kind().code(), "io");
    assert!(error.to_string().contains("still use it"), "{error}");
    // Who is attached goes on; when the last one has left, a new store takes the place.
    assert_eq!(sessions.peek(&key(1)).unwrap().unwrap().payload, b"x");
    drop(sessions);
    let sessions = reopen(&path, &clock, Options::default());
    assert!(sessions.peek(&key(1)).unwrap().is_none());
}

#[test]
fn foreign_directories_and_formats_are_refused() {
    let folder = folder();
    let clock = Clock::manual(START);
    let refused = |path: &Path, code: &str| {
        let error = open(path, clock.clone(), Options::default()).err().unwrap();
        assert_eq!(error.kind().code(), code, "{error}");
    };
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("precious"), "x").unwrap();
    refused(&full, "incompatible");
    assert!(full.join("precious").exists());
    let newer = folder.path().join("newer");
    drop(reopen(&newer, &clock, Options::default()));
    let format = std::fs::read_to_string(newer.join("format")).unwrap();
    for (from, to) in [("format 1", "format 2"), ("order little", "order big"), ("incompatible 0", "incompatible 4")] {
        std::fs::write(newer.join("format"), format.replace(from, to)).unwrap();
        refused(&newer, "incompatible");
    }
    std::fs::write(newer.join("format"), &format).unwrap();
    drop(reopen(&newer, &clock, Options::default()));
    std::fs::OpenOptions::new().write(true).open(newer.join("control")).unwrap().set_len(100).unwrap();
    refused(&newer, "corrupt");
    let disk = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    refused(&disk.path().join("store"), "unsupported");
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
    let data = std::fs::OpenOptions::new().write(true).open(folder.path().join("store/data")).unwrap();
    data.write_all_at(&77_777_u64.to_le_bytes(), 7 * 8).unwrap();
    let verified = sessions.verify(&mut |_| ()).unwrap();
    assert_eq!(verified.problems.len(), 2, "{:?}", verified.problems); // the record, and its slot that nothing leads to
    let corrupt = (0..100).filter(|number| sessions.peek(&key(*number)).is_err()).count();
    assert_eq!(corrupt, 1);
    let damaged = (0..100).find(|number| sessions.peek(&key(*number)).is_err()).unwrap();
    sessions.destroy(&key(damaged)).unwrap();
    sessions.create(&key(damaged), b"new", ttl(600)).unwrap();
    sound(&sessions);
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
    let mut removed = 0;
    loop {
        let swept = sessions.sweep(Budget::default()).unwrap();
        removed += swept.removed;
        if swept.complete {
            break;
        }
    }
    assert!(removed > 0);
    assert_eq!(detail(&sessions, "data_file"), empty);
    sound(&sessions);
}
