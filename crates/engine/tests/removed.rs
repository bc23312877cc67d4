//! Files that are removed below a store in use, and what a removed store leaves.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests are not recognised as tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sessile_core::{Begun, Clock, Error, Filter, Key, Limits, Sessions, Timestamp, Ttl};
use sessile_engine::{EngineOptions, drop_store, open};

/// How long an attached process may not notice.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);

struct Ground {
    folder: tempfile::TempDir,
    control: tempfile::TempDir,
    clock: Clock,
}

impl Ground {
    /// One in memory, one on a disk.
    fn both() -> [Ground; 2] {
        ["/dev/shm", "/var/tmp"].map(|parent| Ground {
            folder: tempfile::TempDir::new_in(parent).unwrap(),
            control: tempfile::TempDir::new_in("/dev/shm").unwrap(),
            clock: Clock::manual(Timestamp::from_ms(1_800_000_000_000)),
        })
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn open_at(&self, path: &Path) -> Result<Sessions, Error> {
        let control = Some(self.control.path().to_owned());
        let options = EngineOptions { control, ..EngineOptions::default() };
        let engine = open(path, self.clock.clone(), &options)?;
        Ok(Sessions::new("sessile", engine, Limits::default()))
    }

    fn open(&self) -> Sessions {
        self.open_at(&self.store()).unwrap()
    }
}

fn key(id: &str) -> Key {
    Key::session(id).unwrap()
}

fn ttl() -> Ttl {
    Ttl::sliding(Duration::from_secs(600)).unwrap()
}

fn begin(sessions: &Sessions, id: &str) -> Result<Begun, Error> {
    sessions.begin(&key(id), Duration::ZERO)
}

fn remove_files(store: &Path) {
    for file in fs::read_dir(store).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
}

fn remove_all(store: &Path) {
    fs::remove_dir_all(store).unwrap();
}

fn move_away(store: &Path) {
    fs::rename(store, store.with_extension("old")).unwrap();
}

/// `rm -rf dir/*`, a tmp cleaner or RemoveIPC= below running workers: new workers made a second
/// store, and both held one session.
#[test]
fn a_process_refuses_a_store_that_was_removed_or_has_another_one_in_its_place() {
    for replaced in [false, true] {
        for remove in [remove_files, remove_all, move_away] {
            for ground in Ground::both() {
                let old = ground.open();
                old.create(&key("read"), b"before", ttl()).unwrap();
                let begun = begin(&old, "both").unwrap();
                remove(&ground.store());
                let new = replaced.then(|| ground.open());
                let also = new.as_ref().map(|new| begin(new, "both").unwrap());
                ground.clock.advance(NOTICED_WITHIN);
                // Without another store at the old path, one that has moved may be used on.
                let moved = ground.store().with_extension("old").exists() && !replaced;
                let judged = |done: Result<(), Error>| match done {
                    Ok(()) => assert!(moved, "a removed store was used"),
                    Err(error) => {
                        let text = format!("{error:#}");
                        assert!(!moved && text.contains("was removed"), "{text}");
                    }
                };
                judged(old.peek(&key("read")).map(drop));
                judged(begin(&old, "read").map(drop));
                judged(begin(&old, "absent").map(drop));
                judged(begun.lease.commit(b"after", ttl()));
                judged(old.create(&key("new"), b"new", ttl()));
                judged(old.destroy(&key("read")));
                // `sessile metrics` called a removed store up, and counted its sessions.
                judged(old.stat().map(drop));
                judged(old.details().map(drop));
                judged(old.list(None, &Filter::default()).map(drop));
                judged(old.locks(1).map(drop));
                if let Some(also) = also {
                    also.lease.commit(b"the only one", ttl()).unwrap();
                }
            }
        }
    }
}

impl Ground {
    fn planes(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(self.control.path()).unwrap();
        let mut planes: Vec<PathBuf> = found.map(|entry| entry.unwrap().path()).collect();
        planes.sort();
        planes
    }
}

/// The control plane of a store that was removed stayed in memory until the next boot.
#[test]
fn the_control_plane_of_a_removed_store_goes_when_another_store_is_opened() {
    let remove_data = |store: &Path| fs::remove_file(store.join("data")).unwrap();
    let remove_parent = |store: &Path| fs::remove_dir_all(store.parent().unwrap()).unwrap();
    let removals: [&dyn Fn(&Path); 4] = [&remove_files, &remove_all, &remove_data, &remove_parent];
    for remove in removals {
        let [_, ground] = Ground::both();
        let folder = ground.folder.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let store = folder.join("store");
        let attached = ground.open_at(&store).unwrap();
        remove(&store);
        drop(ground.open());
        assert_eq!(ground.planes().len(), 2, "a process is attached to it");
        drop(attached);
        drop(ground.open());
        assert_eq!(ground.planes().len(), 1, "nobody is attached to it");
    }
}

/// A store that has moved, or is reached by a link, loses at most its control plane.
#[test]
fn the_control_plane_of_a_store_that_is_there_stays() {
    let [_, ground] = Ground::both();
    let (store, moved) = (ground.store(), ground.folder.path().join("moved"));
    let create = || {
        let sessions = ground.open();
        sessions.create(&key("one"), b"kept", ttl()).unwrap();
    };
    create();
    let plane = ground.planes();
    let open_another = || drop(ground.open_at(&ground.folder.path().join("another")).unwrap());
    open_another();
    assert!(ground.planes().contains(&plane[0]), "its store is there");
    fs::rename(&store, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &store).unwrap();
    open_another();
    assert!(ground.planes().contains(&plane[0]), "a link leads to its store");
    fs::remove_file(&store).unwrap();
    open_another();
    assert!(!ground.planes().contains(&plane[0]), "its store is not where it was");
    let sessions = ground.open_at(&moved).unwrap();
    assert_eq!(sessions.peek(&key("one")).unwrap().unwrap().payload, b"kept");
}

/// A process that waited for the lock of a store that was being dropped would be attached to files
/// without names.
#[test]
fn a_store_is_dropped_whole_while_others_open_it() {
    for (ground, stays) in Ground::both().into_iter().chain(Ground::both()).zip([0, 0, 1, 1]) {
        // The directory stays, as one does that is a mount point.
        fs::create_dir(ground.store()).unwrap();
        (0..stays).for_each(|_| fs::write(ground.store().join("format.other"), "").unwrap());
        let (over, opened, mut dropped) = (AtomicBool::new(false), AtomicU32::new(0), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    opened.fetch_add(is_usable(&ground).into(), Relaxed);
                }
            });
            let deadline = Instant::now() + Duration::from_secs(60);
            while (dropped < 30 || opened.load(Relaxed) < 10) && Instant::now() < deadline {
                dropped += u32::from(drop_store(&ground.store()).is_ok());
            }
            over.store(true, Relaxed);
        });
        assert!(
            dropped >= 30 && opened.load(Relaxed) >= 10,
            "{opened:?} opened, {dropped} dropped"
        );
        assert!(is_usable(&ground), "the last one to open it finds a whole store");
        drop_store(&ground.store()).unwrap();
        let left = fs::read_dir(ground.store()).map_or(0, Iterator::count);
        assert!(left == stays && ground.planes().is_empty(), "{left} files are left");
    }
}

/// Opens the store; what is acknowledged there is to be read. False when it is dropped meanwhile.
fn is_usable(ground: &Ground) -> bool {
    let Ok(sessions) = ground.open_at(&ground.store()) else { return false };
    sessions.destroy(&key("one")).unwrap();
    sessions.create(&key("one"), b"kept", ttl()).unwrap();
    sessions.peek(&key("one")).unwrap().unwrap().payload == b"kept"
}
