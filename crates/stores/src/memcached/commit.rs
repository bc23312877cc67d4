//! Writing the record and giving up the lock.
//!
//! Invariant: a commit replaces the very item that was read, by its CAS number, or one that differs
//! only by a touch. After any other change (a destroy, a commit, a takeover of the lock) the lease
//! is worthless; the item tells how.

use sessile_core::{Error, ErrorKind, Head, Result, Stored, Ttl};

use super::Held;
use super::begin::LockAttempt;
use super::bounded::Bounded;
use super::lock::Lock;
use super::read::ReadItem;
use super::reply::Item;
use crate::locks::check_process;
use crate::locks::token::mark;

/// What became of the item of a lease.
pub enum ItemChange {
    /// It is what this lease has committed: the answer to that was lost.
    Committed,
    /// It was touched: the lease goes by this from now on.
    Touched(ReadItem),
}

pub fn commit(store: &Bounded<'_>, mut held: Held, payload: &[u8], ttl: Ttl) -> Result<()> {
    check_process(held.pid)?;
    let committed = store.try_commit(&mut held, payload, ttl);
    committed.inspect_err(|error| {
        if *error.kind() == ErrorKind::Unreachable {
            store.servers.orphans_of(&held.key).remember(&held.key, &held.token);
        } else {
            store.give_up_or_remember(&held.key, &held.token);
        }
    })
}

impl Bounded<'_> {
    fn try_commit(&self, held: &mut Held, payload: &[u8], ttl: Ttl) -> Result<()> {
        let lock_name = self.lock_name(&held.key);
        // The lock at a write that was refused.
        let mut refused = None;
        self.contend(|| {
            if let Some(lock) = refused.take() {
                match self.recheck(held, lock)? {
                    ItemChange::Touched(read) => held.read = read,
                    ItemChange::Committed => {
                        self.give_up_or_remember(&held.key, &held.token);
                        return Ok(Some(()));
                    }
                }
            }
            let next = Stored::Live(Head::next(held.read.head, ttl, self.clock.now()));
            let over = Some(held.read.cas);
            let commands = self.put(&held.key, &next, mark(&held.token), payload, over);
            let commands = commands.delete(&lock_name, held.lock_cas).get(&lock_name);
            let [stored, _, lock] = self.send(&held.key, commands)?;
            let lock = lock.lock()?;
            if !self.is_stored(&held.key, stored, payload.len())? {
                refused = Some(lock);
                return Ok(None);
            }
            // The write is done, so a failure here is none of the commit.
            if self.give_up_seen(&held.key, &held.token, lock).is_err() {
                self.servers.orphans_of(&held.key).remember(&held.key, &held.token);
            }
            Ok(Some(()))
        })
    }

    /// After a write that was refused: why, and whether another attempt may follow. The attempt may
    /// have given the lock back; it is taken again then, and a faster one is our successor.
    fn recheck(&self, held: &mut Held, lock: Option<Lock>) -> Result<ItemChange> {
        if let Some(lock) = lock.filter(|lock| lock.is_held_by(&held.token)) {
            held.lock_cas = lock.cas_without_waiters();
            return self.check_item(held, self.data_of(&held.key)?);
        }
        match self.try_lock(&held.key, &held.token, held.since, None)? {
            LockAttempt::Granted(granted) => {
                held.lock_cas = granted.lock_cas;
                self.check_item(held, Some(granted.data))
            }
            _ => match self.check_item(held, self.data_of(&held.key)?)? {
                ItemChange::Touched(_) => Err(stale()),
                ItemChange::Committed => Ok(ItemChange::Committed),
            },
        }
    }

    /// What the item that is there now means for a lease whose item it is not. Errors: `Destroyed`,
    /// `Stale`, `Gone`, `Evicted` when the lease is worthless.
    pub fn check_item(&self, held: &Held, now: Option<Item>) -> Result<ItemChange> {
        // What came after a restart of the server is none of this lease, whatever its numbers.
        let now = now.filter(|item| item.cas.generation == held.read.cas.generation);
        let item = now.unwrap_or_default();
        if item.stale {
            return Err(ErrorKind::Destroyed.into());
        }
        let (cas, wrote) = (item.cas, item.writer());
        let Some(decoded) = item.decode(&held.key)? else { return Err(self.lost(&held.read)) };
        match decoded.stored {
            // The destruction that was there when the lease began, tidied up meanwhile.
            Stored::Tombstone { mark, .. } if mark == held.read.cas.number => {
                Ok(ItemChange::Touched(ReadItem { cas, writer: wrote, ..held.read }))
            }
            Stored::Tombstone { .. } => Err(ErrorKind::Destroyed.into()),
            Stored::Live(_) if wrote == Some(mark(&held.token)) => Ok(ItemChange::Committed),
            Stored::Live(head) if wrote == held.read.writer => {
                let head = held.read.head.map(|_| head);
                Ok(ItemChange::Touched(ReadItem { cas, head, ..held.read }))
            }
            _ => Err(stale()),
        }
    }

    fn lost(&self, read: &ReadItem) -> Error {
        let Some(head) = read.head else {
            let why = "the server has forgotten the session that was begun";
            return Error::new(ErrorKind::Gone, why).advice(
                "it was restarted or flushed, is short of memory, or the request took very long",
            );
        };
        let alive = head.expires.plus(self.lock_ttl) > self.clock.now();
        if alive && self.has_evicted() {
            let why = "the server has pushed out the record to make room";
            return Error::new(ErrorKind::Evicted, why).advice(
                "raise its -m, or keep these sessions in a store that refuses to lose them",
            );
        }
        let why = "the record is gone: it expired, or the server was restarted or flushed";
        Error::new(ErrorKind::Gone, why)
    }
}

pub fn stale() -> Error {
    Error::from(ErrorKind::Stale).advice(
        "raise lock_ttl_ms if requests may take longer than it; a server short of memory drops \
         locks, too",
    )
}
