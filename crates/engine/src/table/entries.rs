//! Entries: how a key takes one, when it must be examined, and how it becomes free again.
//!
//! Invariants: an entry is taken and freed under its lock; its state says so before it leaves the
//! index, and no process writes to it from then on. The bitmap of used entries is a hint. A due
//! time is never later than the true expiry.

use sessile_core::{Result, Timestamp};

use super::hint::Hint;
use super::index::Insertion;
use super::process::{AttachedProcess, thread_cpu};
use crate::memory::*;

pub enum KeyEntry<'a> {
    /// Locked by us, and empty in this state.
    New(TableEntry<'a>, LockWord, EntryState),
    /// In any state.
    Existing(TableEntry<'a>, Hint),
}

impl Plane {
    pub fn find_or_take<'a>(
        &'a self,
        me: &AttachedProcess,
        digest: KeyDigest,
    ) -> Result<KeyEntry<'a>> {
        self.prefetch_buckets(digest);
        if let Some((number, hint)) = self.find_to_read(digest) {
            return Ok(KeyEntry::Existing(self.entry(number), hint));
        }
        let (entry, mine) = self.take_free(me, digest)?;
        match self.insert_entry(digest, entry.number) {
            Ok(Insertion::Inserted) => {
                // Only now: a process that takes our lock over before finishes a removal, and does
                // not commit to an entry that nothing leads to.
                let state = entry.state();
                // Another entry of the key may have been freed since this one was taken.
                entry.fence().raise(self.header(header::FENCE_FLOOR).load(SeqCst));
                let empty = state.next_bare(EntryKind::Empty);
                entry.replace_state(state, empty);
                Ok(KeyEntry::New(entry, mine, empty))
            }
            Ok(Insertion::Existing(number)) => {
                entry.set_free(self, mine);
                Ok(KeyEntry::Existing(self.entry(number), Hint::NONE))
            }
            Err(error) => {
                entry.set_free(self, mine);
                Err(error)
            }
        }
    }

    fn take_free<'a>(
        &'a self,
        me: &AttachedProcess,
        digest: KeyDigest,
    ) -> Result<(TableEntry<'a>, LockWord)> {
        loop {
            let words = self.entry_count() / 64;
            let start = me.entries_from.load(Relaxed);
            // The whole circle before the table grows: one bit for each session, 122 KiB for a
            // million.
            for step in 0..words {
                let at = (start + step) % words;
                loop {
                    let (word, _) = self.used_bit(at * 64);
                    let free = u64::from(word.load(Relaxed).trailing_ones());
                    if free == 64 {
                        break;
                    }
                    me.entries_from.store(at, Relaxed);
                    if word.set(1 << free) & 1 << free != 0 {
                        continue;
                    }
                    if let Some(taken) = self.take_this(me, self.entry(at * 64 + free), digest) {
                        return Ok(taken);
                    }
                }
            }
            me.grow_table(self, words * 64)?;
        }
    }

    /// `None` when the entry is in use after all: the bit then tells the truth.
    fn take_this<'a>(
        &self,
        me: &AttachedProcess,
        entry: TableEntry<'a>,
        digest: KeyDigest,
    ) -> Option<(TableEntry<'a>, LockWord)> {
        // Examined soon, should we die on the way.
        self.due(entry.number).store(0, Relaxed);
        let mine = me.try_lock(self, entry.lock())?;
        let state = entry.state();
        if state.kind() != EntryKind::Free
            || !entry.replace_state(state, state.next_bare(EntryKind::Leaving))
        {
            entry.lock().unlock(mine);
            return None;
        }
        // Once more: a process that found the entry free may have cleared the bit before our lock.
        entry.set_used(self);
        entry.set_digest(digest);
        entry.due().store(0, Relaxed);
        let floor = self.header(header::FENCE_FLOOR).load(Relaxed);
        entry.fence().raise(floor);
        Some((entry, mine))
    }

    /// False: another process has counted the block.
    pub fn back_block(&self, block: u64) -> Result<bool> {
        if block >= BLOCKS_MAX || !self.may_grow(BLOCK_BYTES) {
            return Err(full());
        }
        self.entries.back(block * BLOCK_BYTES, BLOCK_BYTES)?;
        Ok(self.header(header::ENTRY_BLOCKS).cas(block, block + 1))
    }

    pub fn is_due(&self, number: u64, now: Timestamp) -> bool {
        self.due(number).load(Relaxed) <= now.as_ms()
    }
}

impl AttachedProcess {
    fn grow_table(&self, plane: &Plane, count: u64) -> Result<()> {
        let start = thread_cpu();
        let block = count / ENTRIES_OF_BLOCK;
        if plane.back_block(block)? {
            self.entries_from.store(count / 64, Relaxed);
        }
        self.count_cpu(plane, process_word::GROWTH_NS_MOST, start);
        Ok(())
    }
}

impl TableEntry<'_> {
    /// Takes a leaving entry out of the index, and gives it and its lock back. `Full`, when a
    /// splitting bucket has no room for its halves: it is still leaving, and unlocked.
    pub fn finish_removal(self, plane: &Plane, mine: LockWord) -> Result<()> {
        // Before the key can get another entry, which starts above.
        plane.header(header::FENCE_FLOOR).raise(self.fence().load(SeqCst));
        match plane.remove_entry(self.digest(), self.number) {
            Ok(_) => {
                self.set_free(plane, mine);
                Ok(())
            }
            Err(error) => {
                self.lock().unlock(mine);
                Err(error)
            }
        }
    }

    fn set_free(self, plane: &Plane, mine: LockWord) {
        for word in [self.touched(), self.ends()] {
            word.store(0, Relaxed);
        }
        let state = self.state();
        self.replace_state(state, state.next_bare(EntryKind::Free));
        // Under the lock: later the bit may stand for the next key.
        self.clear_used(plane);
        let waiting = LockWord(self.lock().load(Relaxed)).has(LockWord::WAITING);
        self.lock().unlock(mine);
        if waiting {
            self.lock().wake_all();
        }
    }

    pub fn set_used(self, plane: &Plane) {
        let (word, bit) = plane.used_bit(self.number);
        word.set(bit);
    }

    /// Under the lock of a free entry.
    pub fn clear_used(self, plane: &Plane) {
        let (word, bit) = plane.used_bit(self.number);
        word.clear(bit);
    }

    pub fn set_due(self, plane: &Plane, expires: Timestamp) {
        self.due().store(expires.as_ms(), Relaxed);
        plane.due(self.number).store(expires.as_ms(), Relaxed);
    }

    /// Brings the due time forward to an expiry; free while the expiry only moves into the future.
    pub fn bring_due_forward(self, plane: &Plane, expires: Timestamp) {
        let noted = self.due().load(Relaxed);
        if noted == 0 || noted > expires.as_ms() {
            self.set_due(plane, expires);
        }
    }
}
