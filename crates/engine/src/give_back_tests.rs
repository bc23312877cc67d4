//! Tests: what is given back of an emptied segment, and in which order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use sessile_core::{Budget, Clock, Result, Store};

use crate::memory::{DataFile, SEGMENT_BYTES, SyncStart};
use crate::power_tests::{START, key, remove_control, ttl};
use crate::storage::{KernelFile, SegmentUse};
use crate::{Engine, EngineOptions, open};

const ALL: Budget = Budget { records_max: u64::MAX, time_max: Duration::from_secs(60) };

/// A process dies where it would give room back.
struct DiesAtPunch(KernelFile);

impl DataFile for DiesAtPunch {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.write(bytes, offset)
    }

    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        self.0.read(into, offset)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn begin_write_back(&self, offset: u64, bytes: u64) {
        self.0.begin_write_back(offset, bytes);
    }

    fn begin_sync(&self) -> SyncStart {
        self.0.begin_sync()
    }

    fn end_of_sync(&self) -> Option<Result<()>> {
        self.0.end_of_sync()
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        self.0.allocate(offset, bytes)
    }

    fn punch(&self, offset: u64, bytes: u64) {
        self.0.punch(offset, bytes);
        std::panic::panic_any(offset / SEGMENT_BYTES);
    }

    fn length(&self) -> Result<u64> {
        self.0.length()
    }
}

const SESSIONS: usize = 2_000;

fn filled(path: &Path) -> Engine {
    let engine = open(path, Clock::manual(START), &EngineOptions::default()).unwrap();
    (0..SESSIONS).for_each(|number| engine.create(&key(number), &[1; 1_500], ttl()).unwrap());
    engine
}

fn empty(engine: &Engine) {
    (0..SESSIONS).for_each(|number| engine.destroy(&key(number)).unwrap());
}

#[test]
fn a_process_that_dies_giving_room_back_leaves_no_emptied_segment_without_room() {
    let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
    let path = folder.path().join("store");
    let mut engine = filled(&path);
    empty(&engine);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path.join("data")).unwrap();
    let file = KernelFile::new(file.try_clone().unwrap().into(), file.into());
    engine.plane.log.as_mut().unwrap().file = Box::new(DiesAtPunch(file));
    engine.sync().unwrap();
    let died = catch_unwind(AssertUnwindSafe(|| engine.sweep(ALL).map(drop))).unwrap_err();
    let segment = *died.downcast_ref::<u64>().unwrap();
    assert!(engine.plane.segment_state(segment).usage() == SegmentUse::Unbacked);
    drop(engine);
    remove_control(&path);
}

#[test]
fn the_stamps_of_a_segment_that_was_given_back_keep_their_memory() {
    let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let engine = filled(&folder.path().join("store"));
    let (data, stamps) = (engine.plane.data.occupied(), engine.plane.stamps.occupied());
    empty(&engine);
    engine.sweep(ALL).unwrap();
    assert!(engine.plane.data.occupied() < data / 4);
    // A process that comes late may read one: without memory, on a full file system, it would get
    // SIGBUS.
    assert_eq!(engine.plane.stamps.occupied(), stamps);
}
