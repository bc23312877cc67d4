//! What the laboratory has found of rebuilds, each in the fewest steps.

use std::rc::Rc;
use std::time::Duration;

use sessile_core::{Absence, Budget, Clock, Limits, OwnerChange, Sessions, Store, Ttl};

use super::history::{START, StoreDisk, open_in};
use crate::power_tests::{key, rebuilt, remove_control, value};
use crate::tests::disk::apply;
use crate::{Engine, EngineOptions, SyncMode, open};

fn ttl(seconds: u64) -> Ttl {
    Ttl::sliding(Duration::from_secs(seconds)).unwrap()
}

fn commit(engine: &Engine, payload: u8, seconds: u64) {
    let held = engine.begin(&key(1), Duration::ZERO).unwrap().0;
    engine.commit(held, &[payload; 2_000], ttl(seconds), OwnerChange::Keep).unwrap();
}

struct Site {
    folder: tempfile::TempDir,
    disk: Rc<StoreDisk>,
    clock: Clock,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let disk = StoreDisk::new(Default::default(), drop);
        Site { folder, disk, clock: Clock::manual(START) }
    }

    fn open(&self) -> Engine {
        let tier = SyncMode::Interval(Duration::from_secs(1));
        open_in(self.folder.path(), &self.disk, &self.clock, (tier, 0)).unwrap()
    }

    fn moment(&self) -> u64 {
        self.disk.data.lock().unwrap().moment
    }

    /// What the store is when of the unsynced writes only those after a moment are on the disk.
    fn rebuilt_with_those_after(&self, moment: u64) -> (tempfile::TempDir, Engine) {
        let disk = self.disk.data.lock().unwrap();
        let mut image = disk.synced.clone();
        for (sector, writes) in &disk.pending {
            if let Some(last) = writes.last().filter(|last| last.moment > moment) {
                apply(&mut image, *sector, &last.bytes);
            }
        }
        rebuilt(&self.folder.path().join("store"), &image, &self.clock)
    }
}

/// A rebuild zeroes what would outlive the record that overrules it. After the loss of a control
/// plane it had found that record in the page cache only, and a power cut left neither.
#[test]
fn a_rebuild_takes_nothing_away_before_the_disk_has_what_overrules_it() {
    let site = Site::new();
    let engine = site.open();
    engine.create(&key(1), &[1; 2_000], ttl(5)).unwrap();
    engine.touch(&key(1), ttl(3_600)).unwrap();
    engine.sync().unwrap();
    site.clock.advance(Duration::from_secs(10));
    commit(&engine, 2, 60);
    drop(engine);
    remove_control(&site.folder.path().join("store"));
    let before = site.moment();
    drop(site.open());
    let (copy, after) = site.rebuilt_with_those_after(before);
    assert!(value(&after, 1).is_some(), "a session that was on the disk is gone");
    drop(after);
    remove_control(copy.path());
}

/// A power cut had kept the note of a touch and lost the record that it was for. The next record
/// got the sequence of the lost one, and the note with it.
#[test]
fn a_note_of_a_touch_does_not_count_for_a_record_that_was_written_after_a_power_cut() {
    let site = Site::new();
    let engine = site.open();
    engine.create(&key(1), &[1; 2_000], ttl(3_600)).unwrap();
    engine.sync().unwrap();
    commit(&engine, 2, 3_600);
    let before = site.moment();
    engine.touch(&key(1), ttl(60)).unwrap();
    let (copy, after) = site.rebuilt_with_those_after(before);
    assert_eq!(value(&after, 1), Some(vec![1; 2_000]));
    commit(&after, 3, 3_600);
    drop(after);
    remove_control(copy.path());
    site.clock.advance(Duration::from_secs(120));
    let again = open(copy.path(), site.clock.clone(), &EngineOptions::default()).unwrap();
    assert_eq!(value(&again, 1), Some(vec![3; 2_000]));
    drop(again);
    remove_control(copy.path());
}

/// The rebuild left a tombstone for a session that had only ended here: it lived on elsewhere, and
/// was taken for one that was logged out. One whose life a touch has shortened gives its room back.
#[test]
fn an_end_is_no_log_out_after_a_rebuild() {
    let site = Site::new();
    let engine = site.open();
    for number in [1, 2, 3] {
        engine.create(&key(number), &[1; 2_000], ttl(3_600)).unwrap();
    }
    let sessions = Sessions::new("engine".to_owned(), engine, Limits::default());
    let mut begun = sessions.begin(&key(1), Duration::ZERO).unwrap();
    begun.lease.end().unwrap();
    begun.lease.release().unwrap();
    sessions.touch(&key(2), ttl(1)).unwrap();
    sessions.sync().unwrap();
    drop(sessions);
    remove_control(&site.folder.path().join("store"));
    site.clock.advance(Duration::from_secs(70));
    let engine = site.open();
    engine.sweep(Budget { records_max: 100, time_max: Duration::from_secs(10) }).unwrap();
    let found = |number| engine.peek(&key(number)).unwrap();
    let (ended, shortened, untouched) = (found(1), found(2), found(3));
    assert!(ended.record.is_none() && ended.absence == Absence::Unknown);
    assert!(shortened.record.is_none() && shortened.absence == Absence::Destroyed);
    assert!(untouched.record.is_some(), "the log was read");
}
