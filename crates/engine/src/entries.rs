//! Entries: how one is taken for a key, and how it becomes free again.
//!
//! Invariants: an entry changes between free and taken only under its lock; before it leaves the index its state says
//! so, and from then on nobody writes to it, so no commit can go to an entry that nothing leads to. The bitmap of
//! used entries is a hint: the state decides. docs/engine.md, "Entries".

use sessile_core::{Result, Timestamp};

use crate::expiry::set_due;
use crate::hint::Hint;
use crate::index::{self, Inserted};
use crate::lane::Lane;
use crate::layout::{BLOCK_BYTES, BLOCKS_MAX, ENTRIES_OF_BLOCK, header};
use crate::lock::{try_lock, unlock, wake_all};
use crate::notes::log_destroy;
use crate::plane::{Digest, Entry, Plane};
use crate::process::{Process, slot, thread_cpu};
use crate::record::settle;
use crate::segment::full;
use crate::sync::Ordering;
use crate::words::{Kind, Location, Lock, State};
use crate::writing::discard_replaced;

/// The entry of a key that had none, or the one that it has.
pub enum Place<'a> {
    /// A new one, empty and locked by us.
    New(Entry<'a>, Lock),
    /// An existing one, in any state.
    Existing(Entry<'a>, Hint),
}

/// Finds the entry of a key, or takes a new one for it.
///
/// # Errors
///
/// `Full`.
pub fn find_or_take<'a>(plane: &'a Plane, me: &Process, digest: Digest) -> Result<Place<'a>> {
    index::ask(plane, digest);
    if let Some((number, hint)) = index::find_to_read(plane, digest) {
        return Ok(Place::Existing(plane.entry(number), hint));
    }
    let (entry, mine) = take(plane, me, digest)?;
    match index::insert(plane, digest, entry.number) {
        Ok(Inserted::New) => {
            // Only now: whoever takes the lock over from us, should we die before, finishes a removal and does not
            // commit to an entry that nothing leads to.
            let state = entry.state();
            entry.replace_state(state, state.next(Kind::Empty, Location(0)));
            Ok(Place::New(entry, mine))
        }
        Ok(Inserted::Existing(number)) => {
            set_free(plane, entry, mine);
            Ok(Place::Existing(plane.entry(number), Hint::NONE))
        }
        Err(error) => {
            set_free(plane, entry, mine);
            Err(error)
        }
    }
}

fn take<'a>(plane: &'a Plane, me: &Process, digest: Digest) -> Result<(Entry<'a>, Lock)> {
    loop {
        let words = plane.entry_count() / 64;
        let start = me.entries_from.load(Ordering::Relaxed);
        // The whole circle before the table grows: one bit for each session, 122 KiB for a million.
        for step in 0..words {
            let at = (start + step) % words;
            loop {
                let (word, _) = plane.used_bit(at * 64);
                let used = word.load(Ordering::Relaxed);
                let free = u64::from(used.trailing_ones());
                if free == 64 {
                    break;
                }
                me.entries_from.store(at, Ordering::Relaxed);
                if word.set(1 << free) & 1 << free != 0 {
                    continue;
                }
                if let Some(taken) = take_this(plane, me, plane.entry(at * 64 + free), digest) {
                    return Ok(taken);
                }
            }
        }
        grow(plane, me, words * 64)?;
    }
}

/// Takes an entry whose bit we have just set; `None` when it is in use after all (the bit then tells the truth).
fn take_this<'a>(plane: &Plane, me: &Process, entry: Entry<'a>, digest: Digest) -> Option<(Entry<'a>, Lock)> {
    // Looked at soon, should we die on the way.
    plane.due(entry.number).store(0, Ordering::Relaxed);
    let mine = try_lock(plane, me, entry.lock())?;
    let state = entry.state();
    if state.kind() != Kind::Free || !entry.replace_state(state, state.next(Kind::Leaving, Location(0))) {
        unlock(entry.lock(), mine);
        return None;
    }
    // Once more: someone who found the entry free may have cleared the bit before we had the lock.
    let (word, bit) = plane.used_bit(entry.number);
    word.set(bit);
    entry.set_digest(digest);
    entry.due().store(0, Ordering::Relaxed);
    let floor = plane.header(header::FENCE_FLOOR).load(Ordering::Relaxed);
    entry.fence().raise(floor);
    Some((entry, mine))
}

fn grow(plane: &Plane, me: &Process, count: u64) -> Result<()> {
    let block = count / ENTRIES_OF_BLOCK;
    if block >= BLOCKS_MAX || plane.occupied() + BLOCK_BYTES > plane.bytes_max() {
        return Err(full());
    }
    let start = thread_cpu();
    plane.entries.back(block * BLOCK_BYTES, BLOCK_BYTES)?;
    if plane.header(header::ENTRY_BLOCKS).cas(block, block + 1) {
        me.entries_from.store(count / 64, Ordering::Relaxed);
    }
    me.count_cpu(plane, slot::GROWTH_NS_MOST, start);
    Ok(())
}

/// Makes a locked entry free, whatever it stands for, and gives the lock back. Frees its record. False when its
/// state has changed since `seen`; it is then left as it is, and locked.
pub fn remove(lane: &Lane<'_>, entry: Entry<'_>, mine: Lock, seen: State) -> Result<bool> {
    let plane = lane.plane;
    let old = loop {
        let Some((state, old)) = settle(plane, &entry, seen) else {
            lane.done();
            return Ok(false);
        };
        lane.intend(entry.number, old);
        if entry.replace_state(state, state.next(Kind::Leaving, Location(0))) {
            break old;
        }
    };
    if let Some(old) = old {
        discard_replaced(plane, &entry, old);
    }
    lane.done();
    leave(plane, entry, mine)?;
    Ok(true)
}

/// Leaves a tombstone in place of an expired record, and gives the lock back. False as in `remove`.
///
/// # Errors
///
/// `Full` or `Io`; nothing has changed then.
pub fn bury(lane: &Lane<'_>, entry: Entry<'_>, mine: Lock, seen: State, until: Timestamp) -> Result<bool> {
    let plane = lane.plane;
    let Some((state, old)) = settle(plane, &entry, seen) else { return Ok(false) };
    lane.intend(entry.number, old);
    let until = log_destroy(lane, &entry, state, until)?;
    if !entry.replace_state(state, state.tombstone(until)) {
        lane.done();
        return Ok(false);
    }
    if let Some(old) = old {
        discard_replaced(plane, &entry, old);
    }
    lane.done();
    set_due(plane, entry, until);
    unlock(entry.lock(), mine);
    Ok(true)
}

/// The rest of the way: takes an entry that is leaving out of the index, frees it and gives the lock back.
///
/// # Errors
///
/// `Full` when a bucket that is being split has no room for its halves: the entry is still leaving, and unlocked.
pub fn leave(plane: &Plane, entry: Entry<'_>, mine: Lock) -> Result<()> {
    // Before the key can get another entry, which starts above.
    plane.header(header::FENCE_FLOOR).raise(entry.fence().load(Ordering::Relaxed));
    match index::remove(plane, entry.digest(), entry.number) {
        Ok(_) => {
            set_free(plane, entry, mine);
            Ok(())
        }
        Err(error) => {
            unlock(entry.lock(), mine);
            Err(error)
        }
    }
}

/// Makes an entry free that nothing leads to, and gives the lock back.
fn set_free(plane: &Plane, entry: Entry<'_>, mine: Lock) {
    for word in [entry.touched(), entry.ends()] {
        word.store(0, Ordering::Relaxed);
    }
    let state = entry.state();
    entry.replace_state(state, state.next(Kind::Free, Location(0)));
    // Under the lock: later it may be another's bit.
    let (word, bit) = plane.used_bit(entry.number);
    word.clear(bit);
    let waiting = Lock(entry.lock().load(Ordering::Relaxed)).has(Lock::WAITING);
    unlock(entry.lock(), mine);
    if waiting {
        wake_all(entry.lock());
    }
}
