//! A lease: a held entry, and how its lock is taken, checked and given up.

use std::time::Duration;

use sessile_core::{Error, ErrorKind, Head, Holder, Owner, Result, Timestamp};

use crate::{memory::*, storage::*, table::*};

/// Tries of one call to find the entry of a key. So many changes by others mean that the index
/// leads to an entry that does not belong there.
const ENTRY_TRIES_MAX: usize = 10_000;
/// A fence tells since when its holder holds.
const FENCE_TIME_SHIFT: u32 = 20;

pub struct HeldEntry {
    pub(super) entry: u32,
    pub(super) bin: u32,
    pub(super) lock: LockWord,
    pub(super) digest: KeyDigest,
    pub(super) fence: u64,
    /// A commit is refused when the version of this state has changed.
    pub(super) state: EntryState,
    pub(super) old: Option<OldHead>,
}

// With the owner of the session beside it, a lease has 128 bytes: more are copied by a call.
const _: () = assert!(size_of::<Option<HeldEntry>>() <= 96);
const _: () = assert!(BLOCKS_MAX * ENTRIES_OF_BLOCK <= 1 << 32 && BINS_MAX < 1 << 32);

/// What a commit takes over from the record that was read. Not all of its head: a lease is moved
/// from call to call in each request.
#[derive(Clone, Copy)]
pub struct OldHead {
    version: u64,
    created: Timestamp,
    ends: Option<Timestamp>,
    pub(super) owner: Option<Owner>,
}

impl OldHead {
    pub fn of(Head { version, created, ends, owner, .. }: Head) -> OldHead {
        OldHead { version, created, ends, owner }
    }

    /// A head for [`Head::next`], which reads neither when it was written nor when it expires.
    /// `touched` is the end that a touch has set meanwhile.
    pub fn to_head(self, touched: Option<Timestamp>) -> Head {
        let OldHead { version, created, ends, owner } = self;
        let ends = touched.or(ends);
        Head { version, created, written: created, expires: created, ends, owner }
    }
}

/// Tries again while the entry of a key changes.
/// Error: `Corrupt` after too many tries.
#[inline(always)]
pub fn retry<T>(mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    for _ in 0..ENTRY_TRIES_MAX {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
    }
    Err(corrupt())
}

impl TableEntry<'_> {
    /// Raises the fence of an entry for its new holder. By compare-and-swap: `destroy` may have
    /// voided our lock, and the next holder be here too.
    pub fn next_fence(self, now: Timestamp) -> u64 {
        loop {
            let last = self.fence().load(Relaxed);
            let next = (last + 1).max(now.as_ms() << FENCE_TIME_SHIFT);
            if self.fence().cas(last, next) {
                return next;
            }
        }
    }

    /// Whether the lock under which `found` was read is safe from the log-outs before that read.
    /// `before` was read before the lock was taken. A log-out that changed the state in between may
    /// have read the lock and void it yet. If it has done so, others hold the session, with smaller
    /// fences.
    pub fn keeps_lock(self, mine: LockWord, before: EntryState, found: EntryState) -> bool {
        let may_be_voided = found.kind() == EntryKind::Destroyed && found != before;
        self.is_held(mine)
            && !found.is_being_destroyed()
            && (!may_be_voided || mutated(Mutation::TrustsVoidLock))
    }

    pub fn belongs_to(self, digest: KeyDigest) -> bool {
        self.state().kind() != EntryKind::Free && self.digest() == digest
    }

    pub fn is_held(self, mine: LockWord) -> bool {
        LockWord(self.lock().load(SeqCst)).bare() == mine
    }

    pub fn timed_out(self, plane: &Plane, owner: LockWord, waited: Duration) -> Error {
        let holder = self.holder_of(plane, owner);
        Error::from(ErrorKind::LockTimeout { holder, waited })
            .advice("raise the wait, or look at what that process does")
    }

    pub fn holder_of(self, plane: &Plane, owner: LockWord) -> Holder {
        let owner = owner.owner().filter(|(process, _)| *process < PROCESSES_MAX);
        let pid = owner.and_then(|(process, _)| {
            let pid = plane.process_word(process, process_word::PID).load(Relaxed);
            u32::try_from(pid).ok()
        });
        let since = Timestamp::from_ms(self.fence().load(Relaxed) >> FENCE_TIME_SHIFT);
        Holder { pid, host: None, since: Some(since) }
    }
}

impl Plane {
    /// Error: `Stale` for a lease of the parent process, `Destroyed` for a voided one.
    pub fn check_lease<'a>(
        &'a self,
        me: &AttachedProcess,
        held: &HeldEntry,
    ) -> Result<TableEntry<'a>> {
        if !me.owns(held.lock) {
            let why = "the lease belongs to the process that this one was forked from";
            return Err(Error::new(ErrorKind::Stale, why));
        }
        let entry = self.entry(held.entry.into());
        if !entry.is_held(held.lock) {
            return Err(ErrorKind::Destroyed.into());
        }
        Ok(entry)
    }
}

impl RecordWriter {
    /// Locks the entry of a free key; `Exists` also while its lock is held.
    pub fn lock_vacant<'a>(
        &self,
        plane: &'a Plane,
        digest: KeyDigest,
    ) -> Result<(TableEntry<'a>, LockWord, EntryState)> {
        retry(|| {
            let entry = match plane.find_or_take(self, digest)? {
                KeyEntry::New(entry, mine, state) => {
                    entry.fence().add(1);
                    return Ok(Some((entry, mine, state)));
                }
                KeyEntry::Existing(entry, _) => entry,
            };
            let before = entry.state();
            let Some(mine) = self.try_lock(plane, entry.lock()) else {
                let held = entry.belongs_to(digest);
                return if held { Err(ErrorKind::Exists.into()) } else { Ok(None) };
            };
            // Like a holder's: on a disk it tells which of two processes that died here was the
            // later.
            entry.fence().add(1);
            let viewed = self
                .end_destroy(plane, entry)
                .and_then(|()| entry.view_entry(plane, digest, ReadDepth::Header, LOCKED_TRIES));
            let refused = match viewed {
                Ok(EntryView::Stored(stored, _)) if stored.takes_id(plane.now()) => {
                    Err(ErrorKind::Exists.into())
                }
                Ok(EntryView::Stored(_, found)) if !entry.keeps_lock(mine, before, found.state) => {
                    Ok(None)
                }
                Ok(EntryView::Stored(_, found)) => return Ok(Some((entry, mine, found.state))),
                Ok(EntryView::Leaving) => {
                    return entry.finish_removal(plane, mine).map(|()| None);
                }
                Ok(EntryView::Elsewhere | EntryView::Contended) => Ok(None),
                Err(error) => Err(error),
            };
            entry.lock().unlock(mine);
            refused
        })
    }
}

impl AttachedProcess {
    pub fn release(&self, plane: &Plane, held: &HeldEntry) -> Result<()> {
        let entry = plane.entry(held.entry.into());
        // In a forked child the lock is its parent's.
        if !self.owns(held.lock) || !entry.is_held(held.lock) {
            return Ok(());
        }
        self.give_up(plane, entry, held.lock)
    }

    pub fn give_up(&self, plane: &Plane, entry: TableEntry<'_>, mine: LockWord) -> Result<()> {
        let state = entry.state();
        if entry.is_held(mine)
            && state.kind() == EntryKind::Empty
            && self.remove_session(plane, entry, mine, state)?
        {
            return Ok(());
        }
        entry.lock().unlock(mine);
        Ok(())
    }
}
