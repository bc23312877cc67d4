//! `details`: what only the engine can tell an operator.

use sessile_core::Detail::{Bytes, Count, Milliseconds, Text};
use sessile_core::{Detail, Details};

use crate::{memory::*, storage::*, table::*};

const LOCKS_LISTED_MAX: usize = 20;

impl AttachedProcess {
    pub fn details(&self, plane: &Plane) -> Details {
        let mut details = vec![
            ("size_limit", Bytes(plane.bytes_max())),
            ("occupied", Bytes(plane.occupied())),
            ("control_file", Bytes(plane.control.occupied())),
            ("entries_file", Bytes(plane.entries.occupied())),
            ("index_file", Bytes(plane.index.occupied())),
            ("stamps_file", Bytes(plane.stamps.occupied())),
            ("data_file", Bytes(plane.data.occupied())),
            ("segment", Bytes(SEGMENT_BYTES)),
        ];
        for (name, usage) in [
            ("segments_open", SegmentUse::Open),
            ("segments_evacuating", SegmentUse::Evacuating),
            ("segments_emptied", SegmentUse::Emptied),
            ("segments_given_back", SegmentUse::Unbacked),
        ] {
            if plane.log.is_some() || usage != SegmentUse::Emptied {
                let segments = 0..plane.segment_count();
                let used = segments.filter(|at| plane.segment_state(*at).usage() == usage);
                details.push((name, Count(used.count() as u64)));
            }
        }
        details.push(("entries", Count(plane.entry_count())));
        plane.add_entries(&mut details);
        self.add_processes(plane, &mut details);
        plane.add_durability(&mut details);
        details
    }

    fn add_processes(&self, plane: &Plane, details: &mut Details) {
        let words =
            |word| (0..PROCESSES_MAX).map(move |slot| plane.process_word(slot, word).load(Relaxed));
        let attached = (0..).zip(words(process_word::LIFE)).filter(|(_, life)| life & 1 == 1);
        let (dead, alive): (Vec<_>, Vec<_>) =
            attached.partition(|(slot, life)| self.is_dead(plane, (*slot, life >> 1)));
        let sum = |word| words(word).sum::<u64>();
        let most = |word| words(word).max().unwrap_or(0);
        let us = |ns| Count(ns / 1_000);
        details.extend([
            ("processes", Count(alive.len() as u64)),
            ("processes_dead_not_recovered", Count(dead.len() as u64)),
            ("maintenance_records_examined", Count(sum(process_word::EXAMINED))),
            (
                "maintenance_records_examined_in_one_call_max",
                Count(most(process_word::EXAMINED_MOST)),
            ),
            ("maintenance_records_removed", Count(sum(process_word::REMOVED))),
            ("maintenance_records_moved", Count(sum(process_word::MOVED))),
            ("maintenance_total_us", us(sum(process_word::MAINTENANCE_NS))),
            ("maintenance_cpu_in_one_call_max_us", us(most(process_word::MAINTENANCE_NS_MOST))),
            ("growth_cpu_in_one_call_max_us", us(most(process_word::GROWTH_NS_MOST))),
            ("locks_taken_from_the_dead", Count(sum(process_word::STEALS))),
        ]);
    }
}

fn text(text: &str) -> Detail {
    Text(text.to_owned())
}

impl Plane {
    fn add_durability(&self, details: &mut Details) {
        let Some(log) = &self.log else {
            let none = text("none: shared memory is not written to a disk");
            details.push(("oldest_unsynced_byte", none));
            return;
        };
        details.push(match self.unsynced_since() {
            None => ("oldest_unsynced_byte", text("none: all is on the disk")),
            Some(since) => {
                let age = self.now().as_ms().saturating_sub(since.as_ms());
                ("oldest_unsynced_byte_age", Milliseconds(age))
            }
        });
        let mode = match log.sync {
            SyncMode::Never => text("nothing is synced"),
            SyncMode::Interval(interval) => Text(format!("every {} ms", interval.as_millis())),
            SyncMode::EachChange => text("before each change counts"),
        };
        details.push(("sync_of_this_process", mode));
        let word = |word| self.header(word).load(Relaxed);
        details.push(("syncs", Count(word(header::SYNCS_DONE))));
        if word(header::SYNC_FAILED) != 0 {
            let why = "the last sync failed; look at the kernel's log for errors of the disk";
            details.push(("sync_failed", text(why)));
        }
    }

    fn add_entries(&self, details: &mut Details) {
        let now = self.now();
        let (mut destroyed, mut regenerated, mut due, mut locked) = (0, 0, 0, 0);
        let mut locks = Vec::new();
        for number in 0..self.entry_count() {
            let entry = self.entry(number);
            let kind = entry.state().kind();
            if kind == EntryKind::Free {
                continue;
            }
            destroyed += u64::from(kind == EntryKind::Destroyed);
            regenerated += u64::from(kind == EntryKind::Regenerated);
            due += u64::from(self.is_due(number, now));
            let lock = LockWord(entry.lock().load(Relaxed));
            if lock.owner().is_some() {
                locked += 1;
                if locks.len() < LOCKS_LISTED_MAX {
                    let waiting = if lock.has(LockWord::WAITING) { ", others wait" } else { "" };
                    let holder = entry.holder_of(self, lock);
                    locks.push(("lock", Text(format!("{holder}{waiting}"))));
                }
            }
        }
        details.extend([
            ("destroyed_remembered", Count(destroyed)),
            ("regenerated_remembered", Count(regenerated)),
            ("expiry_backlog", Count(due)),
            ("locks", Count(locked)),
        ]);
        details.append(&mut locks);
    }
}
