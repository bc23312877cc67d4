//! Counters of a store that has no shared memory of its own: one page of a file on a tmpfs.
//!
//! ```text
//! line 0 ... 63, one for each process id modulo 64:
//! word  0         1     2        3             4           5             6
//!       requests  hits  commits  failed saves  lock waits  lock wait us  longest lock wait us
//! ```
//!
//! Invariants: every change is one atomic addition, so processes that share a line, forked children
//! included, lose nothing to each other, and a process that dies leaves what it has counted; the
//! file never shrinks, so its page stays valid. The engine's own counters are in its process table.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use sessile_core::{Result, SharedCounters, SharedCounts};

use super::layout::{CACHE_LINE_BYTES, LINE_WORDS, PAGE_BYTES};
use super::map::Region;
use super::sync::{Relaxed, Word};

const NAME: &str = "the file of counters";
/// A begin that takes as long has probably waited for a lock. A slow server looks the same.
const WAITED_MIN: Duration = Duration::from_millis(5);

/// A mapped file of counters.
pub struct CounterFile {
    page: Region,
    /// The offset of this process's line.
    line: u64,
}

impl CounterFile {
    /// The size of the file.
    pub const BYTES: u64 = PAGE_BYTES;

    /// Maps a file that is open for reading and writing, and gives it its page.
    ///
    /// # Errors
    ///
    /// `Full` if there is no memory for the page.
    pub fn map(file: File) -> Result<CounterFile> {
        let page = Region::map(OwnedFd::from(file), NAME, PAGE_BYTES, true)?;
        page.back(0, PAGE_BYTES)?;
        let lines = PAGE_BYTES / CACHE_LINE_BYTES;
        Ok(CounterFile { page, line: u64::from(std::process::id()) % lines * CACHE_LINE_BYTES })
    }

    /// The sums in the bytes of another user's file, which may have any length.
    pub fn counts_of(bytes: &[u8]) -> SharedCounts {
        let (words, _) = bytes.as_chunks::<8>();
        let (lines, _) = words.as_chunks::<LINE_WORDS>();
        sum(lines.iter().map(|line| line.map(u64::from_ne_bytes)))
    }

    fn line(&self) -> &[Word; LINE_WORDS] {
        self.page.line(self.line)
    }
}

impl SharedCounters for CounterFile {
    fn count_begin(&self, hit: bool, took: Duration) {
        let [requests, hits, _, _, waits, wait_us, wait_us_max, _] = self.line();
        requests.add(1);
        if hit {
            hits.add(1);
        }
        if took >= WAITED_MIN {
            let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            waits.add(1);
            wait_us.add(us);
            wait_us_max.raise(us);
        }
    }

    fn count_commit(&self) {
        let [_, _, commits, ..] = self.line();
        commits.add(1);
    }

    fn count_failed_save(&self) {
        let [_, _, _, failed_saves, ..] = self.line();
        failed_saves.add(1);
    }

    fn shared_counts(&self) -> Option<SharedCounts> {
        let lines = (0..PAGE_BYTES / CACHE_LINE_BYTES).map(|line| line * CACHE_LINE_BYTES);
        let words = |at| self.page.line(at).each_ref().map(|word| word.load(Relaxed));
        Some(sum(lines.map(words)))
    }
}

fn sum(lines: impl Iterator<Item = [u64; LINE_WORDS]>) -> SharedCounts {
    let mut counts = SharedCounts::default();
    for line in lines {
        let [requests, hits, commits, failed_saves, lock_waits, lock_wait_us, most, _] = line;
        let lock_wait_us_max = most;
        counts.add(&SharedCounts {
            requests,
            hits,
            commits,
            failed_saves,
            lock_waits,
            lock_wait_us,
            lock_wait_us_max,
        });
    }
    counts
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn file() -> File {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        rustix::fs::memfd_create("counters", flags).unwrap().into()
    }

    #[test]
    fn what_two_openers_count_is_added_up_and_stays_when_one_is_gone() {
        let file = file();
        let one = CounterFile::map(file.try_clone().unwrap()).unwrap();
        let two = CounterFile::map(file).unwrap();
        one.count_begin(true, Duration::from_micros(90));
        one.count_begin(false, Duration::from_millis(7));
        two.count_begin(true, Duration::from_millis(5));
        two.count_commit();
        one.count_failed_save();
        drop(one);
        let expected = SharedCounts {
            requests: 3,
            hits: 2,
            commits: 1,
            failed_saves: 1,
            lock_waits: 2,
            lock_wait_us: 12_000,
            lock_wait_us_max: 7_000,
        };
        assert_eq!(two.shared_counts(), Some(expected));
    }
}
