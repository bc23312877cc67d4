//! Giving a session a new id, which may be on another server.
//!
//! Invariant: at each moment exactly one of the two ids has the record, wherever this is cut short. The record is first
//! stored under the new id as *pending*: it is one if, and only if, the old id's item is an alias to it. So the step that
//! moves the session is the one that replaces the old record by the alias, by its CAS number.
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

use std::time::Duration;

use sessile_core::{ErrorKind, Key, Result};

use super::acquire::{Answer, Grant};
use super::cas::Cas;
use super::change::{Verdict, destroyed, stale, taken, takes_id};
use super::contest::{ATTEMPTS_MAX, busy, step_aside};
use super::failure::{fault, unexpected};
use super::item::{self, Header, Kind};
use super::look::{Base, Meaning, Read, kind_of, looked_up, writer_of};
use super::reply::{Item, Reply};
use super::request::Batch;
use super::{Held, Memcached, writer};
use crate::owner::check_process;

/// The record that moves.
struct Moving {
    header: Header,
    payload: Vec<u8>,
    /// The CAS number of the item under the new id.
    new_cas: Cas,
}

impl Memcached {
    pub(super) fn rename(&self, held: &mut Held, new: &Key, grace: Duration) -> Result<()> {
        check_process(held.pid)?;
        if held.key == *new {
            return Err(taken()); // hashed ids: the check before us could not see it
        }
        let grant = self.take_new_id(held, new)?;
        let lifted = self.lift_fence(new, grant.fence, held.fence);
        let read = match lifted.and_then(|()| self.move_record(held, new, grace, &grant.data)) {
            Ok(read) => read,
            Err(error) => {
                // Who got no answer does not know whether the alias is there: then the pending record is the session.
                if *error.kind() != ErrorKind::Unreachable {
                    self.undo(new, &grant.data);
                }
                self.leave_or_remember(new, &held.token);
                return Err(error);
            }
        };
        let old = std::mem::replace(&mut held.key, new.clone());
        (held.read, held.lock_cas) = (read, grant.lock_cas);
        // The session has moved; the old lock only keeps away who will be led on.
        self.leave_or_remember(&old, &held.token);
        Ok(())
    }

    /// The lock of the new id, if it is free.
    fn take_new_id(&self, held: &Held, new: &Key) -> Result<Grant> {
        let answer = match self.take(new, &held.token, held.since, None)? {
            // It was there and went: once more, and then whoever is there has it.
            Answer::Free => self.take(new, &held.token, held.since, None)?,
            answer => answer,
        };
        let Answer::Granted(grant) = answer else { return Err(taken()) };
        let meaning = self.meaning(new, grant.data.clone());
        let free = meaning.map(|meaning| !takes_id(&meaning, self.clock.now()));
        // Our own, pending, from an attempt whose answer was lost, reads as nothing: its old id does not lead here.
        match free {
            Ok(true) => Ok(grant),
            Ok(false) => {
                self.leave_or_remember(new, &held.token);
                Err(taken())
            }
            Err(error) => {
                self.leave_or_remember(new, &held.token);
                Err(error)
            }
        }
    }

    /// Steps 2 to 5. What the lease goes by under the new id.
    fn move_record(&self, held: &mut Held, new: &Key, grace: Duration, there: &Item) -> Result<Read> {
        let mut new_cas = there.cas;
        for attempt in 0..ATTEMPTS_MAX {
            step_aside(attempt);
            let Some((header, payload, old_cas)) = self.read_old(held)? else {
                return self.move_nothing(held, there);
            };
            let pending = Header { kind: Kind::Pending, ..header };
            new_cas = self.put(new, &pending, &item::pend(held.key.id(), &payload), new_cas)?;
            if self.put_alias(held, new, grace, old_cas)? {
                return Ok(self.settle(new, Moving { header, payload, new_cas }));
            }
        }
        Err(busy())
    }

    /// The record under the old id as it is now, and its CAS number. `None` for a lease on nothing.
    fn read_old(&self, held: &mut Held) -> Result<Option<(Header, Vec<u8>, Cas)>> {
        let item = self.data_of(&held.key)?;
        let unchanged = item.as_ref().is_some_and(|item| item.cas == held.read.cas);
        if !unchanged {
            match self.judge(held, item.clone())? {
                Verdict::Touched(read) => held.read = read,
                Verdict::Committed => return Err(stale()), // a lease that has committed is over
            }
        }
        if held.read.base.is_none() {
            return Ok(None);
        }
        let item = item.ok_or_else(unexpected)?;
        let cas = item.cas;
        match self.meaning(&held.key, item)? {
            Meaning::Live(header, payload) => Ok(Some((header, payload, cas))),
            _ => Err(stale()),
        }
    }

    /// Without a record only the lock moves; the empty item of the old id goes, unless it was destroyed meanwhile.
    fn move_nothing(&self, held: &Held, there: &Item) -> Result<Read> {
        if held.read.placeholder {
            let mut batch = Batch::default();
            batch.delete(&self.names.data(&held.key), held.read.cas);
            let [deleted] = self.servers.call(&held.key, &batch)?;
            if matches!(deleted, Reply::Refused) {
                return Err(destroyed());
            }
        }
        let placeholder = there.value.is_empty() && !there.stale;
        Ok(Read { cas: there.cas, writer: writer_of(there), base: None, placeholder })
    }

    /// Step 3 and 5: stores an item under the new id; its new CAS number.
    fn put(&self, new: &Key, header: &Header, payload: &[u8], cas: Cas) -> Result<Cas> {
        let name = self.names.data(new);
        let mut batch = Batch::default();
        batch.cas(&name, header.kind.byte(), self.life(header.expires), &header.encode(payload), cas);
        batch.get(&name);
        let [stored, now] = self.servers.call(new, &batch)?;
        if let Reply::Failed(why) = stored {
            return Err(fault(why, payload.len(), self.payload_bytes_max));
        }
        // The mark tells: the answer to an earlier sending may have been lost.
        let item = looked_up(now)?.filter(|item| !item.stale && writer_of(item) == Some(header.writer));
        item.map(|item| item.cas).ok_or_else(taken)
    }

    /// Step 4. False when the old record was touched since it was read.
    fn put_alias(&self, held: &Held, new: &Key, grace: Duration, old_cas: Cas) -> Result<bool> {
        let until = self.clock.now().plus(grace);
        let forget = until.plus(self.remembered());
        let mark = writer(&held.token);
        let alias = Header { expires: until, ends: Some(forget), ..Header::new(Kind::Alias, mark) };
        let name = self.names.data(&held.key);
        let mut batch = Batch::default();
        batch.cas(&name, Kind::Alias.byte(), self.life(forget), &alias.encode(new.id().as_bytes()), old_cas);
        let [stored] = self.servers.call(&held.key, &batch)?;
        match stored {
            Reply::Done(_) => return Ok(true),
            Reply::Failed(why) => return Err(fault(why, 0, self.payload_bytes_max)),
            _ => {}
        }
        // Ours, if the answer to an earlier sending was lost; destroyed, touched or taken over otherwise.
        let now = self.data_of(&held.key)?;
        let ours = |item: &Item| kind_of(item) == Some(Kind::Alias) && writer_of(item) == Some(mark);
        if now.as_ref().is_some_and(ours) {
            return Ok(true);
        }
        self.judge(held, now).map(|_| false)
    }

    /// Step 5. The session has moved; whoever changed it since under its new id has found it there.
    fn settle(&self, new: &Key, moving: Moving) -> Read {
        let Moving { header, payload, new_cas } = moving;
        let live = Header { kind: Kind::Live, ..header };
        // Pending, it is a record too, as long as the alias is there. And if it was destroyed already, the commit will be
        // told so. So this step may fail.
        let cas = self.put(new, &live, &payload, new_cas).unwrap_or(new_cas);
        Read { cas, writer: Some(header.writer), base: Some(Base::of(&live)), placeholder: false }
    }

    /// Lifts the counter of the new id's server above the fence of the lease that moves there.
    fn lift_fence(&self, new: &Key, drawn: u64, fence: u64) -> Result<()> {
        if drawn >= fence {
            return Ok(());
        }
        let mut batch = Batch::default();
        batch.count(&self.names.fence(), fence, fence - drawn);
        let [counted] = self.servers.call(new, &batch)?;
        looked_up(counted)?.map(drop).ok_or_else(unexpected)
    }

    /// Removes what a regeneration that failed has left under the new id: what is pending is no record, and an empty item
    /// of no use.
    fn undo(&self, new: &Key, there: &Item) {
        let Ok(Some(item)) = self.data_of(new) else { return };
        let empty = item.cas == there.cas && item.value.is_empty();
        if empty || kind_of(&item) == Some(Kind::Pending) {
            let mut batch = Batch::default();
            batch.delete(&self.names.data(new), item.cas);
            // If it stays, it goes by itself.
            let _ = self.servers.call::<1>(new, &batch);
        }
    }
}
