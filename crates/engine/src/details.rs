//! What only the engine can tell an operator.

use sessile_core::{Detail, Result};

use crate::engine::Engine;
use crate::expiry::is_due;
use crate::flush::dirty_since;
use crate::layout::{PROCESSES_MAX, SEGMENT_BYTES, header};
use crate::process::slot;
use crate::segment::{Use, state};
use crate::sync::Ordering;
use crate::words::{Kind, Lock};

/// Locks that are listed one by one.
const LOCKS_LISTED_MAX: usize = 20;

impl Engine {
    pub(crate) fn inspect(&self) -> Result<Vec<Detail>> {
        let plane = &self.plane;
        let files = [
            ("control_file", &plane.control),
            ("entries_file", &plane.entries),
            ("index_file", &plane.index),
            ("stamps_file", &plane.stamps),
            ("data_file", &plane.data),
        ];
        let mut details =
            vec![Detail::bytes("size_limit", plane.bytes_max()), Detail::bytes("occupied", plane.occupied())];
        details.extend(files.map(|(name, region)| Detail::bytes(name, region.occupied())));
        let states: Vec<Use> = (0..plane.segment_count()).map(|segment| state(plane, segment).usage()).collect();
        let segments = |usage| states.iter().filter(|state| **state == usage).count() as u64;
        details.push(Detail::bytes("segment", SEGMENT_BYTES));
        details.push(Detail::count("segments_open", segments(Use::Open)));
        details.push(Detail::count("segments_evacuating", segments(Use::Evacuating)));
        if plane.log.is_some() {
            details.push(Detail::count("segments_emptied", segments(Use::Emptied)));
        }
        details.push(Detail::count("segments_given_back", segments(Use::Unbacked)));
        details.push(Detail::count("entries", plane.entry_count()));
        self.inspect_entries(&mut details);
        self.inspect_processes(&mut details)?;
        self.inspect_durability(&mut details);
        Ok(details)
    }

    fn inspect_durability(&self, details: &mut Vec<Detail>) {
        let plane = &self.plane;
        let Some(log) = &plane.log else {
            details.push(Detail::text("oldest_unsynced_byte", "none: shared memory is not written to a disk"));
            return;
        };
        match dirty_since(plane) {
            None => details.push(Detail::text("oldest_unsynced_byte", "none: all is on the disk")),
            Some(since) => {
                let age = plane.now().as_ms().saturating_sub(since.as_ms());
                details.push(Detail::milliseconds("oldest_unsynced_byte_age", age));
            }
        }
        let every =
            if log.interval_ms == 0 { "nothing is synced".to_owned() } else { format!("{} ms", log.interval_ms) };
        details.push(Detail::text("sync_interval_of_this_process", every));
        details.push(Detail::count("syncs", plane.header(header::SYNCS_DONE).load(Ordering::Relaxed)));
        if plane.header(header::SYNC_FAILED).load(Ordering::Relaxed) != 0 {
            details.push(Detail::text(
                "sync_failed",
                "the last sync failed; look at the kernel's log for errors of the disk",
            ));
        }
    }

    fn inspect_entries(&self, details: &mut Vec<Detail>) {
        let (plane, now) = (&self.plane, self.plane.now());
        let (mut destroyed, mut regenerated, mut due, mut locks) = (0, 0, 0, Vec::new());
        let mut locked = 0;
        for number in 0..plane.entry_count() {
            let entry = plane.entry(number);
            let kind = entry.state().kind();
            if kind == Kind::Free {
                continue;
            }
            destroyed += u64::from(kind == Kind::Destroyed);
            regenerated += u64::from(kind == Kind::Regenerated);
            due += u64::from(is_due(plane, number, now));
            let lock = Lock(entry.lock().load(Ordering::Relaxed));
            if lock.owner().is_some() {
                locked += 1;
                if locks.len() < LOCKS_LISTED_MAX {
                    let waiting = if lock.has(Lock::WAITING) { ", others wait" } else { "" };
                    locks.push(Detail::text("lock", format!("{}{waiting}", self.holder(&entry, lock))));
                }
            }
        }
        details.push(Detail::count("destroyed_remembered", destroyed));
        details.push(Detail::count("regenerated_remembered", regenerated));
        details.push(Detail::count("expiry_backlog", due));
        details.push(Detail::count("locks", locked));
        details.append(&mut locks);
    }

    fn inspect_processes(&self, details: &mut Vec<Detail>) -> Result<()> {
        let (plane, me) = (&self.plane, self.me()?);
        let (mut alive, mut dead) = (0, 0);
        for process in 0..PROCESSES_MAX {
            let life = plane.process_word(process, slot::LIFE).load(Ordering::Relaxed);
            if life & 1 == 1 {
                let is_dead = me.is_dead(plane, (process, life >> 1));
                *(if is_dead { &mut dead } else { &mut alive }) += 1;
            }
        }
        details.push(Detail::count("processes", alive));
        details.push(Detail::count("processes_dead_not_recovered", dead));
        let words = |word| (0..PROCESSES_MAX).map(move |slot| plane.process_word(slot, word).load(Ordering::Relaxed));
        let sum = |word| words(word).sum();
        let most = |word| words(word).max().unwrap_or(0);
        details.push(Detail::count("maintenance_records_examined", sum(slot::EXAMINED)));
        details.push(Detail::count("maintenance_records_examined_in_one_call_max", most(slot::EXAMINED_MOST)));
        details.push(Detail::count("maintenance_records_removed", sum(slot::REMOVED)));
        details.push(Detail::count("maintenance_records_moved", sum(slot::MOVED)));
        details.push(Detail::count("maintenance_total_us", sum(slot::MAINTENANCE_NS) / 1_000));
        details.push(Detail::count("maintenance_cpu_in_one_call_max_us", most(slot::MAINTENANCE_NS_MOST) / 1_000));
        details.push(Detail::count("growth_cpu_in_one_call_max_us", most(slot::GROWTH_NS_MOST) / 1_000));
        details.push(Detail::count("locks_taken_from_the_dead", sum(slot::STEALS)));
        Ok(())
    }
}
