//! Giving a session a new id, which may be on another server.
//!
//! Invariant: at each moment exactly one of the two ids has the record, wherever this is cut short.
//! The record is first stored under the new id as *pending*: it is one if, and only if, the old
//! id's item is an alias to it. So the step that moves the session is the one that replaces the old
//! record by the alias, by its CAS number.
//!
//! ```text
//!    step                                   cut short after it, the record is
//! 1  new: add the lock, read what is there  under the old id
//! 2  old: read the record                   under the old id
//! 3  new: store it, pending                 under the old id
//! 4  old: replace it by the alias           under the new id
//! 5  new: store it, live                    under the new id
//! 6  old: delete the lock                   under the new id
//! ```
//!
//! Cut short after step 4, the record needs the alias until somebody changes it. So the alias lives
//! as long as the record, and a request that finds it spent completes step 5 before the old id may
//! get another item ([`Bounded::complete`]).

use std::time::Duration;

use sessile_core::{ErrorKind, Key, Result, Stored};

use super::Held;
use super::begin::{GrantedLock, LockAttempt};
use super::bounded::Bounded;
use super::commit::{ItemChange, stale};
use super::data::{self, ALIAS, PENDING};
use super::failure::unexpected;
use super::read::ReadItem;
use super::reply::{Cas, Item, Reply};
use super::request::Commands;
use crate::locks::check_process;
use crate::locks::token::mark;

pub fn regenerate(store: &Bounded<'_>, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
    check_process(held.pid)?;
    if held.key == *new {
        return Err(ErrorKind::Exists.into()); // hashed ids: the check before us could not see it
    }
    let granted = store.lock_new_id(held, new)?;
    let lifted = store.lift_fence(new, granted.fence, held.fence);
    let moved = lifted.and_then(|()| store.move_record(held, new, grace, &granted.data));
    let read = moved.inspect_err(|error| {
        // Without an answer it is unknown whether the alias is there: then the pending record is
        // the session.
        if *error.kind() != ErrorKind::Unreachable {
            store.undo(new, &granted.data);
        }
        store.give_up_or_remember(new, &held.token);
    })?;
    let old = std::mem::replace(&mut held.key, new.clone());
    (held.read, held.lock_cas) = (read, granted.lock_cas);
    // The session has moved; the old lock only keeps away requests that will be led on.
    store.give_up_or_remember(&old, &held.token);
    Ok(())
}

impl Bounded<'_> {
    fn lock_new_id(&self, held: &Held, new: &Key) -> Result<GrantedLock> {
        let LockAttempt::Granted(granted) = self.try_lock(new, &held.token, held.since, None)?
        else {
            return Err(ErrorKind::Exists.into());
        };
        // Our own, pending, from an attempt whose answer was lost, reads as nothing: its old id
        // does not lead here.
        let free = match self.decode(new, granted.data.clone()) {
            Ok((stored, _)) if stored.takes_id(self.clock.now()) => Err(ErrorKind::Exists.into()),
            decoded => decoded,
        };
        free.inspect_err(|_| self.give_up_or_remember(new, &held.token))?;
        Ok(granted)
    }

    /// Steps 2 to 5. What the lease goes by under the new id.
    fn move_record(
        &self,
        held: &mut Held,
        new: &Key,
        grace: Duration,
        there: &Item,
    ) -> Result<ReadItem> {
        let mut new_cas = there.cas;
        self.contend(|| {
            let Some(item) = self.read_old(held)? else {
                return self.move_nothing(held, there).map(Some);
            };
            let (old_cas, mark) = (item.cas, item.writer().unwrap_or(0));
            let (Stored::Live(head), payload) = self.decode(&held.key, item)? else {
                return Err(stale());
            };
            let pending = data::encode_pending(&head, mark, &held.key, &payload);
            let commands = self.put_value(new, &pending, head.expires, Some(new_cas));
            new_cas = self.put_new(new, commands, mark, payload.len())?;
            if !self.put_alias(held, new, grace, old_cas)? {
                return Ok(None);
            }
            // This step may fail: a pending record is one as long as the alias is there, later
            // changes have found it, and if it was destroyed, the commit is told so.
            let commands = self.put(new, &Stored::Live(head), mark, &payload, Some(new_cas));
            let cas = self.put_new(new, commands, mark, payload.len()).unwrap_or(new_cas);
            Ok(Some(ReadItem { cas, writer: Some(mark), head: Some(head), placeholder: false }))
        })
    }

    /// The item under the old id as it is now. `None` for a lease on nothing.
    fn read_old(&self, held: &mut Held) -> Result<Option<Item>> {
        let item = self.data_of(&held.key)?;
        if item.as_ref().is_none_or(|item| item.cas != held.read.cas) {
            match self.check_item(held, item.clone())? {
                ItemChange::Touched(read) => held.read = read,
                ItemChange::Committed => return Err(stale()), // a lease that has committed is over
            }
        }
        Ok(item.filter(|_| held.read.head.is_some()))
    }

    /// Without a record only the lock moves; the empty item of the old id goes, unless it was
    /// destroyed meanwhile.
    fn move_nothing(&self, held: &Held, there: &Item) -> Result<ReadItem> {
        if held.read.placeholder {
            let name = self.data_name(&held.key);
            let commands = Commands::default().delete(&name, held.read.cas);
            let [deleted] = self.send(&held.key, commands)?;
            if matches!(deleted, Reply::Refused) {
                return Err(ErrorKind::Destroyed.into());
            }
        }
        Ok(ReadItem::new(there, None))
    }

    /// Steps 3 and 5: stores an item under the new id; its new CAS number.
    fn put_new(
        &self,
        new: &Key,
        commands: Commands,
        mark: u64,
        payload_bytes: usize,
    ) -> Result<Cas> {
        let [stored, now] = self.send(new, commands.get(&self.data_name(new)))?;
        self.is_stored(new, stored, payload_bytes)?;
        // The mark tells: the answer to an earlier sending may have been lost.
        let item = now.item()?.filter(|item| item.writer() == Some(mark));
        item.map(|item| item.cas).ok_or_else(|| ErrorKind::Exists.into())
    }

    /// Step 4. False when the old record was touched since it was read.
    fn put_alias(&self, held: &Held, new: &Key, grace: Duration, old_cas: Cas) -> Result<bool> {
        let (mark, alias) =
            (mark(&held.token), Stored::alias(new.clone(), grace, self.clock.now()));
        // As long as a pending record may need it.
        let due = alias.due().max(held.read.head.map(|head| head.expires)).unwrap_or_default();
        let value = data::encode(&alias, mark, b"");
        let commands = self.put_value(&held.key, &value, due, Some(old_cas));
        let [stored] = self.send(&held.key, commands)?;
        if self.is_stored(&held.key, stored, 0)? {
            return Ok(true);
        }
        // Ours, if the answer to an earlier sending was lost; destroyed, touched or taken over
        // otherwise.
        let item = self.data_of(&held.key)?;
        let ours = |item: &Item| item.is(ALIAS) && item.writer() == Some(mark);
        if item.as_ref().is_some_and(ours) {
            return Ok(true);
        }
        self.check_item(held, item).map(|_| false)
    }

    /// Makes a pending record a live one, before the alias without which it is none may go.
    pub fn complete(&self, new: &Key, old: &Key) -> Result<()> {
        let item = self.data_of(new)?.filter(|item| item.is(PENDING)).unwrap_or_default();
        let (cas, mark) = (item.cas, item.writer().unwrap_or(0));
        let pending = item.decode(new)?.filter(|it| it.pending_from.as_ref() == Some(old));
        let Some(data::Decoded { stored, payload, .. }) = pending else { return Ok(()) };
        let commands = self.put(new, &stored, mark, &payload, Some(cas));
        let [completed] = self.send(new, commands)?;
        // Refused: others have changed the record, and so completed it.
        self.is_stored(new, completed, payload.len()).map(drop)
    }

    /// Lifts the counter of the new id's server above the fence of the lease that moves there.
    fn lift_fence(&self, new: &Key, drawn: u64, fence: u64) -> Result<()> {
        if drawn >= fence {
            return Ok(());
        }
        let commands = Commands::default().count(&self.fence_name(), fence, fence - drawn);
        let [counted] = self.send(new, commands)?;
        counted.item()?.map(drop).ok_or_else(unexpected)
    }

    /// Removes what a failed regeneration has left under the new id: a pending item is no record,
    /// an empty one of no use.
    fn undo(&self, new: &Key, there: &Item) {
        let Ok(Some(item)) = self.data_of(new) else { return };
        let empty = item.cas == there.cas && item.value.is_empty();
        if empty || item.is(PENDING) {
            let commands = Commands::default().delete(&self.data_name(new), item.cas);
            // If it stays, it goes by itself.
            let _ = self.send::<1>(new, commands);
        }
    }
}
