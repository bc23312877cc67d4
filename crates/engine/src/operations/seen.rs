//! What an operator sees of all processes at once: the locks that are held, and what was counted.
//!
//! Invariant: reads words and takes no lock; a count of a dead process stays, because its slot
//! keeps it for the next owner.

use sessile_core::{Bin, HeldLock, Totals};

use crate::{memory::*, storage::*, table::*};

const TRIES: usize = 10;

impl Plane {
    pub fn locks_held(&self, most: usize) -> Vec<HeldLock> {
        let mut locks = Vec::new();
        for number in 0..self.entry_count() {
            if locks.len() == most {
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

    pub fn totals(&self) -> Totals {
        let words =
            |word| (0..PROCESSES_MAX).map(move |slot| self.process_word(slot, word).load(Relaxed));
        let sum = |word| words(word).fold(0, u64::saturating_add);
        Totals {
            requests: sum(process_word::REQUESTS),
            hits: sum(process_word::HITS),
            commits: sum(process_word::COMMITS),
            failed_saves: self.header(header::FAILED_SAVES).load(Relaxed),
            lock_waits: sum(process_word::LOCK_WAITS),
            lock_wait_us: sum(process_word::LOCK_WAIT_US),
            lock_wait_us_max: words(process_word::LOCK_WAIT_US_MOST).max().unwrap_or(0),
        }
    }
}
