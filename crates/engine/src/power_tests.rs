//! Tests: what a power cut leaves, and what a sync that fails asks for. The file of the log is one
//! that remembers what was written since the last sync; a cut keeps an arbitrary part of that,
//! sector by sector.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sessile_core::{Clock, Key, OwnerChange, Store, Timestamp, Ttl};

use crate::memory::{PAGE_BYTES, Relaxed, header};
use crate::storage::KernelFile;
use crate::tests::disk::{Disk, Recorder};
use crate::{Engine, EngineOptions, open};

pub const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);

pub fn recorded(path: &Path, clock: &Clock) -> (Engine, Arc<Mutex<Disk>>) {
    let disk = Arc::new(Mutex::new(Disk::default()));
    (opened_on(&disk, path, clock), disk)
}

/// As a process of its own has it.
pub fn opened_on(disk: &Arc<Mutex<Disk>>, path: &Path, clock: &Clock) -> Engine {
    let mut engine = open(path, clock.clone(), &EngineOptions::default()).unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path.join("data")).unwrap();
    let file = Box::new(KernelFile::new(file.try_clone().unwrap().into(), file.into()));
    let recorder = Recorder::new(file, Arc::clone(disk), Box::new(drop));
    engine.plane.log.as_mut().unwrap().file = Box::new(recorder);
    engine
}

pub fn key(number: usize) -> Key {
    Key::session(&format!("session-{number}")).unwrap()
}

pub fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(3_600)).unwrap()
}

pub fn remove_control(store: &Path) {
    let text = std::fs::read_to_string(store.join("plane")).unwrap();
    std::fs::remove_dir_all(text.lines().next().unwrap().strip_prefix("control ").unwrap())
        .unwrap();
}

pub fn value(engine: &Engine, number: usize) -> Option<Vec<u8>> {
    engine.peek(&key(number)).unwrap().record.map(|record| record.payload)
}

/// What a rebuild makes of an image of the log.
pub fn rebuilt(store: &Path, image: &[u8], clock: &Clock) -> (tempfile::TempDir, Engine) {
    let copy = tempfile::TempDir::new_in("/var/tmp").unwrap();
    for name in ["format", "bins", "sealed"] {
        std::fs::copy(store.join(name), copy.path().join(name)).unwrap();
    }
    std::fs::write(copy.path().join("data"), image).unwrap();
    let engine = open(copy.path(), clock.clone(), &EngineOptions::default()).unwrap();
    let verified = engine.verify(&mut |_| ()).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    (copy, engine)
}

/// What each session was at the last sync, and everything that it has been since.
type History = HashMap<usize, Vec<Option<Vec<u8>>>>;

fn change(engine: &Engine, random: &mut fastrand::Rng, history: &mut History) {
    let number = random.usize(0..40);
    let past = history.entry(number).or_insert_with(|| vec![None]);
    if random.u8(0..10) == 0 {
        engine.destroy(&key(number)).unwrap();
        past.push(None);
    } else {
        let bytes = if random.u8(0..50) == 0 { 150_000 } else { random.usize(0..9_000) };
        let payload = vec![random.u8(..); bytes];
        let locked = engine.begin(&key(number), Duration::ZERO).unwrap();
        engine.commit(locked.0, &payload, ttl(), OwnerChange::Keep).unwrap();
        past.push(Some(payload));
    }
}

#[test]
fn a_power_cut_leaves_every_session_as_it_was_at_the_last_sync_or_later() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..12 {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let (path, clock) = (folder.path().join("store"), Clock::manual(START));
        let (engine, disk) = recorded(&path, &clock);
        let mut history = History::new();
        for _ in 0..random.usize(1..6) {
            // Enough to empty segments and use them again.
            (0..random.usize(1..800)).for_each(|_| change(&engine, &mut random, &mut history));
            engine.sync().unwrap();
            history.values_mut().for_each(|past| drop(past.drain(..past.len() - 1)));
        }
        (0..random.usize(0..800)).for_each(|_| change(&engine, &mut random, &mut history));
        for _ in 0..4 {
            let image = disk.lock().unwrap().cut(&mut random);
            let (copy, after) = rebuilt(&path, &image, &clock);
            for (number, past) in &history {
                let found = value(&after, *number);
                assert!(
                    past.contains(&found),
                    "seed {seed}: session {number} is older than the last sync"
                );
            }
            drop(after);
            remove_control(copy.path());
        }
        drop(engine);
        remove_control(&path);
    }
}

#[test]
fn the_disk_begins_with_whole_pages_that_are_written_each_once() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, clock) = (folder.path().join("store"), Clock::manual(START));
    let (engine, disk) = recorded(&path, &clock);
    (0..600).for_each(|number| engine.create(&key(number), &[1; 1_500], ttl()).unwrap());
    let disk = disk.lock().unwrap();
    let (written, end) = (disk.written, disk.end);
    let mut begun = disk.begun.clone();
    begun.sort_unstable();
    let pages = |(offset, bytes): &(u64, u64)| {
        offset % PAGE_BYTES == 0 && bytes % PAGE_BYTES == 0 && offset + bytes <= end
    };
    assert!(begun.iter().all(pages), "{begun:?}");
    assert!(begun.is_sorted_by(|one, next| one.0 + one.1 <= next.0), "a page twice: {begun:?}");
    let asked: u64 = begun.iter().map(|(_, bytes)| bytes).sum();
    assert!(asked > written * 9 / 10, "{asked} of {written} bytes");
    drop(disk);
    drop(engine);
    remove_control(&path);
}

#[test]
fn the_disk_is_asked_for_nothing_more_while_a_sync_is_under_way() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, clock) = (folder.path().join("store"), Clock::manual(START));
    let (engine, disk) = recorded(&path, &clock);
    let syncing = engine.plane.header(header::SYNCING_SINCE);
    for (since, asked, numbers) in [(START.as_ms(), false, 0..300), (0, true, 300..600)] {
        syncing.store(since, Relaxed);
        numbers.for_each(|number| engine.create(&key(number), &[1; 1_500], ttl()).unwrap());
        assert_eq!(!disk.lock().unwrap().begun.is_empty(), asked);
    }
    drop(engine);
    remove_control(&path);
}

#[test]
fn after_a_sync_that_failed_everything_is_written_again() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, clock) = (folder.path().join("store"), Clock::manual(START));
    let (engine, disk) = recorded(&path, &clock);
    let word = |word| engine.plane.header(word).load(Relaxed);
    (0..50)
        .for_each(|number| engine.create(&key(number), &vec![number as u8; 2_000], ttl()).unwrap());
    disk.lock().unwrap().fails = Some(0);
    engine.sync().unwrap_err();
    assert_eq!(word(header::SYNCS_DONE), 0);
    assert!(word(header::DIRTY_SINCE) != 0 && word(header::SYNC_FAILED) != 0);
    engine.sync().unwrap();
    assert!(word(header::SYNCS_DONE) != 0 && word(header::SYNC_FAILED) == 0);
    let synced = disk.lock().unwrap().synced.clone();
    let lost = (0..50_u8).find(|number| {
        !synced.windows(2_000).step_by(128).any(|window| window == [*number; 2_000])
    });
    assert_eq!(lost, None, "a session is not on the disk although a sync has ended well");
    drop(engine);
    remove_control(&path);
}

#[test]
fn a_clock_that_is_set_back_puts_no_sync_off() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, clock) = (folder.path().join("store"), Clock::manual(START));
    let (engine, disk) = recorded(&path, &clock);
    engine.create(&key(1), b"before", ttl()).unwrap();
    clock.set(START.minus(Duration::from_secs(3_600)));
    engine.create(&key(2), b"after", ttl()).unwrap();
    clock.advance(Duration::from_secs(2));
    engine.create(&key(3), b"two seconds later", ttl()).unwrap();
    assert!(disk.lock().unwrap().syncs > 0);
    drop(engine);
    remove_control(&path);
}

#[test]
fn a_sync_without_a_known_end_is_waited_for_after_an_interval() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, clock) = (folder.path().join("store"), Clock::manual(START));
    let (engine, disk) = recorded(&path, &clock);
    // As another process leaves it that has begun one and died.
    engine.plane.header(header::SYNCING_SINCE).store(START.as_ms(), Relaxed);
    engine.plane.header(header::SYNC_BEGUN_AT).store(START.as_ms() + 900, Relaxed);
    for (number, (advance, syncs)) in [(1_800, 0), (100, 1), (10, 1)].into_iter().enumerate() {
        clock.advance(Duration::from_millis(advance));
        engine.create(&key(number), b"new", ttl()).unwrap();
        assert_eq!(disk.lock().unwrap().syncs, syncs);
    }
    drop(engine);
    remove_control(&path);
}

/// While a sync that a process had begun had no end, another one ended. That process began none
/// from then on, and alone on a store it synced nothing more.
#[test]
fn a_sync_that_does_not_end_keeps_its_process_from_no_later_one() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, clock) = (folder.path().join("store"), Clock::manual(START));
    let (engine, disk) = recorded(&path, &clock);
    disk.lock().unwrap().background_calls = Some(u8::MAX);
    let create = |number| engine.create(&key(number), b"new", ttl()).unwrap();
    create(1);
    clock.advance(Duration::from_secs(1));
    create(2);
    assert_eq!(disk.lock().unwrap().syncs, 0, "one was begun, and has no end");
    engine.sync().unwrap();
    create(3);
    clock.advance(Duration::from_secs(1));
    create(4);
    assert_eq!(disk.lock().unwrap().syncs, 2);
    drop(engine);
    remove_control(&path);
}

#[test]
fn a_stopped_process_that_syncs_stops_nobody() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, clock) = (folder.path().join("store"), Clock::manual(START));
    let (engine, disk) = recorded(&path, &clock);
    let stopped = opened_on(&disk, &path, &clock);
    let process = stopped.me().unwrap();
    let _held = process.try_hold(&stopped.plane, stopped.plane.header(header::SYNC_LOCK)).unwrap();
    engine.create(&key(1), b"new", ttl()).unwrap();
    engine.sync().unwrap();
    assert_eq!(disk.lock().unwrap().syncs, 1);
    drop(engine);
    remove_control(&path);
}

/// A container that is made anew has lost the control plane and not the page cache. All of the log
/// was written again then, and from the beginning if that was killed.
#[test]
fn a_lost_control_plane_has_only_that_written_again_of_which_no_sync_is_known() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let (path, clock) = (folder.path().join("store"), Clock::manual(START));
    let (engine, disk) = recorded(&path, &clock);
    (0..600).for_each(|number| engine.create(&key(number), &[1; 1_500], ttl()).unwrap());
    engine.sync().unwrap();
    (0..100).for_each(|_| engine.touch(&key(0), ttl()).unwrap());
    (600..620).for_each(|number| engine.create(&key(number), &[2; 1_500], ttl()).unwrap());
    drop(engine);
    remove_control(&path);
    let before = disk.lock().unwrap().written;
    let engine = opened_on(&disk, &path, &clock);
    engine.sync().unwrap();
    let again = disk.lock().unwrap().written - before;
    assert!((20 * 1_500..25 * 2_000).contains(&again), "{again} bytes");
    drop(engine);
    remove_control(&path);
}
