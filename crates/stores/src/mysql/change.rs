//! Changes that need no lease, or more than its row: create, touch, destroy, regenerate.
//!
//! Invariant: what touches two rows is one transaction, which locks the old id before the new one. It is short: all that it
//! has to know travels in one or two messages.

use std::time::Duration;

use sessile_core::{Error, ErrorKind, Key, Limits, Result, Timestamp, Ttl};

use super::Mysql;
use super::connection::Link;
use super::failure::{Attempt, Fault, settled};
use super::lease::{Held, TRIES, check_size, lock_row, roll_back, write_row};
use super::lock::{RELEASE, Wanted, acquire, let_go};
use super::row::{self, Tombstone};
use super::statement::{Message, Value, of_key};
use crate::sql::{ALIAS_STEPS_MAX, Content, Seen, circle, corrupt, end_of_grace, new_head, nothing_to_touch, taken};

const LOCK_IS_TAKEN: &str = "SELECT IS_USED_LOCK(?) IS NOT NULL";

/// What became of the lock of a creation.
#[derive(Clone, Copy)]
enum Lock {
    Freed,
    Held,
}

impl Mysql {
    /// Holding the lock meanwhile keeps out a `begin` that would read nothing and then commit over it.
    pub(super) fn store_new(&self, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
        let lock = self.locks.of(key);
        // Up to here a second attempt does no harm.
        let (mut link, there) = self.trying(|mut link| {
            match acquire(&mut link, Wanted::if_free(&lock, key), &[&self.statements.select_head])? {
                Some(taken) => Ok((link, taken.content)),
                None => {
                    self.put_back(link);
                    Err(taken().into())
                }
            }
        })?;
        let created = self.create_under_lock(&mut link, key, &lock, there, payload, ttl);
        let freed = match created {
            Ok(Lock::Freed) => Ok(()),
            _ => let_go(&mut link, &lock),
        };
        if freed.is_ok() {
            self.put_back(link);
        }
        settled(created.map(drop))
    }

    fn create_under_lock(
        &self,
        link: &mut Link,
        key: &Key,
        lock: &str,
        there: Option<Content>,
        payload: &[u8],
        ttl: Ttl,
    ) -> Attempt<Lock> {
        check_size(link, payload)?;
        let now = self.clock.now();
        if there.as_ref().is_some_and(|content| content.takes_id(now)) {
            return Err(taken().into());
        }
        let head = new_head(ttl, now);
        if there.is_none() && link.takes_text(payload) {
            let (statement, values) = self.statements.put(key, &head, payload, false);
            match link.ask(&Message::new().then(statement, &values).then(RELEASE, &[Value::Word(lock)])) {
                Err(fault) if fault.is_duplicate() => {} // most likely a tombstone
                done => return done.map(|_| Lock::Freed),
            }
        }
        again_if_it_collides(link, |link| {
            let there = lock_row(link, &self.statements, key)?;
            if there.as_ref().is_some_and(|content| content.takes_id(now)) {
                roll_back(link)?;
                return Err(taken().into());
            }
            write_row(link, &self.statements, key, (&head, payload), there.is_some())?;
            link.ask(&Message::new().then("COMMIT", &[])).map(|_| Lock::Held)
        })
    }

    pub(super) fn slide(&self, asked: &Key, ttl: Ttl) -> Result<()> {
        self.with_link(|link| {
            let mut key = asked.clone();
            for _ in 0..=ALIAS_STEPS_MAX {
                let now = self.clock.now();
                let [bin, id] = of_key(&key);
                let touch = self.statements.touch(ttl, now);
                if link.ask(&Message::new().then(&touch, &[bin, id, Value::time(now)]))?.next().changed() == 1 {
                    return Ok(());
                }
                let row = link.ask(&Message::new().then(&self.statements.select_head, &[bin, id]))?.next().row();
                let content = row.map(row::decode).transpose()?;
                match content.map_or(Ok(None), |content| content.leads_to(asked.bin(), now))? {
                    Some(target) => key = target,
                    None => return Err(nothing_to_touch().into()),
                }
            }
            Err(circle().into())
        })
    }

    fn tombstone(&self, now: Timestamp) -> Result<Tombstone> {
        let mut mark = [0; 8];
        getrandom::fill(&mut mark)
            .map_err(|error| Error::new(ErrorKind::Io, "the operating system gives no random numbers").source(error))?;
        Ok(Tombstone { now, forget: now.plus(Limits::TOMBSTONE_TTL), mark: i64::from_le_bytes(mark) })
    }

    /// Destroys what an id leads to. The common case is one message.
    pub(super) fn bury(&self, link: &mut Link, asked: &Key) -> Attempt<()> {
        let now = self.clock.now();
        let tombstone = self.tombstone(now)?;
        let lock = self.locks.of(asked);
        let mut message = Message::new();
        self.statements.add_burial(&mut message, asked, tombstone);
        let message =
            message.then(LOCK_IS_TAKEN, &[Value::Word(&lock)]).then(&self.statements.select_head, &of_key(asked));
        let mut answers = link.ask(&message)?;
        if answers.next().changed() > 0 {
            return Ok(());
        }
        let held = is_taken(answers.next().row())?;
        match answers.next().row().map(row::decode).transpose()? {
            // Without a record and without a holder there is nobody who could bring the session back, and no row is
            // written: log-outs with invented ids must not fill the disk.
            None if !held => Ok(()),
            None => {
                let mut message = Message::new();
                self.statements.add_tombstone(&mut message, asked, tombstone);
                match link.ask(&message) {
                    Err(fault) if fault.is_duplicate() => Err(Fault::Moved),
                    done => done.map(drop),
                }
            }
            Some(Content::Regenerated { .. }) => {
                again_if_it_collides(link, |link| self.bury_chain(link, asked, tombstone))
            }
            Some(_) => Err(Fault::Moved),
        }
    }

    /// The id and all that it leads to, in one transaction.
    fn bury_chain(&self, link: &mut Link, asked: &Key, tombstone: Tombstone) -> Attempt<()> {
        link.ask(&Message::new().then("START TRANSACTION", &[]))?;
        let mut message = Message::new();
        let mut next = Some(asked.clone());
        for _ in 0..=ALIAS_STEPS_MAX {
            let Some(key) = next.take() else { break };
            let look = Message::new()
                .then(LOCK_IS_TAKEN, &[Value::Word(&self.locks.of(&key))])
                .then(&self.statements.lock_head, &of_key(&key));
            let mut answers = link.ask(&look)?;
            let held = is_taken(answers.next().row())?;
            match answers.next().row().map(row::decode).transpose()? {
                Some(content) => {
                    self.statements.add_burial_of_any(&mut message, &key, tombstone);
                    next = content.leads_to(asked.bin(), tombstone.now)?;
                }
                None if held => self.statements.add_tombstone(&mut message, &key, tombstone),
                None => {}
            }
        }
        if next.is_some() {
            roll_back(link)?;
            return Err(circle().into());
        }
        link.ask(&message.then("COMMIT", &[])).map(drop)
    }

    pub(super) fn rename(&self, held: &mut Held, new: &Key, grace: Duration) -> Attempt<()> {
        held.check_owner()?;
        let lock = self.locks.of(new);
        // The server lets one connection take a lock twice: both ids must not be one.
        if lock == held.lock {
            return Err(taken().into());
        }
        let statements = &self.statements;
        let Some(_) = acquire(&mut held.link, Wanted::if_free(&lock, new), &[&statements.select_head])? else {
            return Err(taken().into());
        };
        let old_lock = std::mem::replace(&mut held.lock, lock);
        let moved = {
            let Held { key, link, seen, begun, .. } = held;
            again_if_it_collides(link, |link| self.move_record(link, (key, *seen, *begun), new, grace))
        };
        let freed = match &moved {
            Ok(_) => old_lock,
            Err(_) => std::mem::replace(&mut held.lock, old_lock),
        };
        let release = let_go(&mut held.link, &freed);
        (held.seen, held.row) = moved?;
        held.key = new.clone();
        release
    }

    /// Gives the leased row the new id and lets the old one lead there, in a transaction.
    fn move_record(
        &self,
        link: &mut Link,
        (key, seen, begun): (&Key, Seen, Timestamp),
        new: &Key,
        grace: Duration,
    ) -> Attempt<(Seen, bool)> {
        let (now, statements) = (self.clock.now(), &self.statements);
        let old = lock_row(link, statements, key)?;
        let row = link.ask(&Message::new().then(&statements.lock_head, &of_key(new)))?.next().row();
        let there = row.map(row::decode).transpose()?;
        let checked = seen.check(old.as_ref(), begun, now);
        if there.as_ref().is_some_and(|content| content.takes_id(now)) || checked.is_err() {
            roll_back(link)?;
            checked?;
            return Err(taken().into());
        }
        if !checked? {
            roll_back(link)?;
            return Ok((Seen::of(there.as_ref(), now), there.is_some())); // without a record only the lock moves
        }
        let (until, forget) = end_of_grace(now, grace);
        let [bin, old_id] = of_key(key);
        let [_, new_id] = of_key(new);
        let mut message = Message::new();
        if there.is_some() {
            message.add(&statements.delete, &of_key(new));
        }
        let times = [now, now, until, forget].map(Value::time);
        let [created, written, until, forget] = times;
        let message = message
            .then(&statements.rename, &[new_id, bin, old_id])
            .then(&statements.lead, &[bin, old_id, created, written, until, forget, new_id])
            .then("COMMIT", &[]);
        link.ask(&message)?;
        Ok((seen, true))
    }
}

fn is_taken(row: Option<mysql::Row>) -> Result<bool> {
    let taken = row.and_then(|row| row.as_ref(0).map(row::integer));
    Ok(taken.ok_or_else(|| corrupt("the server does not say whether a lock is taken"))?? != 0)
}

/// Repeats a transaction that others ran into, a bounded number of times. None is left open, whatever its fault: what is done
/// next on the connection would be part of it, and lost with it.
fn again_if_it_collides<T>(link: &mut Link, mut run: impl FnMut(&mut Link) -> Attempt<T>) -> Attempt<T> {
    for _ in 0..TRIES {
        let done = run(link);
        let fault = match done {
            Err(fault) if !fault.breaks_connection() => fault,
            done => return done,
        };
        roll_back(link)?;
        if !fault.is_collision() && !fault.is_duplicate() {
            return Err(fault);
        }
    }
    Err(Fault::Moved)
}
