//! What an operator sees of all processes at once: the locks that are held, and what was counted.
//!
//! Invariant: reads words and takes no lock; a count of a dead process stays, because the line of
//! its slot keeps it for the next owner.

use sessile_core::{Bin, HeldLock, SharedCounts};

use crate::{memory::*, storage::*, table::*};

const TRIES: usize = 10;

impl Plane {
    pub fn locks_held(&self, limit: usize) -> Vec<HeldLock> {
        let mut locks = Vec::new();
        for number in 0..self.entry_count() {
            if locks.len() == limit {
                break;
            }
            let entry = self.entry(number);
            let lock = LockWord(entry.lock().load(Relaxed));
            if entry.state().kind() == EntryKind::Free || lock.owner().is_none() {
                continue;
            }
            let digest = entry.digest();
            // A new session has no record yet, and its bin is not known.
            let bin = match entry.read_entry(self, digest, ReadDepth::Header, TRIES) {
                Ok(EntryRead::Record(snapshot)) => self.bin_of(snapshot.header.bin),
                _ => None,
            };
            locks.push(HeldLock {
                key: shown_key(bin.unwrap_or(Bin::SESSION), digest).ok(),
                holder: entry.holder_of(self, lock),
                has_waiters: Some(lock.has(LockWord::WAITING)),
            });
        }
        locks
    }

    pub fn shared_counts(&self) -> SharedCounts {
        let failed_saves = self.header(header::FAILED_SAVES).load(Relaxed);
        let mut counts = SharedCounts { failed_saves, ..SharedCounts::default() };
        for slot in 0..PROCESSES_MAX {
            let words = self.counters(slot).each_ref().map(|word| word.load(Relaxed));
            let [requests, hits, commits, lock_waits, lock_wait_us, lock_wait_us_max, ..] = words;
            counts.add(&SharedCounts {
                requests,
                hits,
                commits,
                failed_saves: 0,
                lock_waits,
                lock_wait_us,
                lock_wait_us_max,
            });
        }
        counts
    }
}
