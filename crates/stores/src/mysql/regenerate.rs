//! Regenerate: a new id for the leased record.
//!
//! Invariant: a change of two rows is one transaction, which locks the old id before the new one.
//! It is short: one or two messages.

use std::time::Duration;

use sessile_core::{ErrorKind, Key, Stored, Timestamp};

use super::Mysql;
use super::begin::{LockRequest, lock_and_read_head};
use super::failure::Attempt;
use super::lock::{Held, release};
use super::row::decode_head;
use super::statement::Message;
use super::statements::{OWNER_COLUMN, row_values};
use super::transaction::repeat_on_collision;
use crate::sql::value::key_values;

pub(super) fn regenerate(
    store: &Mysql,
    held: &mut Held,
    new: &Key,
    grace: Duration,
) -> Attempt<()> {
    store.resume(held)?;
    let lock = store.locks.name(new);
    // The server lets one connection take a lock twice: both ids must not be one.
    if lock == held.lock {
        return Err(ErrorKind::Exists.into());
    }
    let request = LockRequest::if_free(&lock, new);
    let locked = lock_and_read_head(&mut held.connection, request, store.statements());
    if matches!(locked, Ok(None)) {
        return Err(ErrorKind::Exists.into());
    }
    // A statement that failed may have taken the lock.
    match locked.and_then(|_| move_record(store, held, new, grace)) {
        Ok(only_lock) => {
            if let Some((there, now)) = only_lock {
                (held.stored, held.begun) = (there, now);
            }
            held.key = new.clone();
            let old = std::mem::replace(&mut held.lock, lock);
            // The new id has the session, whatever becomes of the connection.
            if release(&mut held.connection, &old).is_err() {
                held.connection.give_up();
            }
            Ok(())
        }
        Err(failure) => {
            if release(&mut held.connection, &lock).is_err() {
                held.connection.give_up();
            }
            Err(failure)
        }
    }
}

/// Moves the record and leaves an alias, in a transaction. Without a record only the lock moves:
/// then it returns what the new id has, and when that was read.
fn move_record(
    store: &Mysql,
    held: &mut Held,
    new: &Key,
    grace: Duration,
) -> Attempt<Option<(Stored, Timestamp)>> {
    let (now, statements) = (store.clock.now(), store.statements());
    let Held { key, stored, begun, connection, .. } = held;
    repeat_on_collision(connection, |connection| {
        let message = Message::of("START TRANSACTION", &[])
            .then(&statements.lock_head, &key_values(key))
            .then(&statements.lock_head, &key_values(new));
        let mut results = connection.run(&message)?;
        let there = decode_head(results.row(), new)?;
        let old = decode_head(results.row(), key)?;
        let record = stored.check_lease(&old, *begun, now)?;
        if there.takes_id(now) {
            return Err(ErrorKind::Exists.into());
        }
        if record.is_none() {
            connection.run(&Message::of("ROLLBACK", &[]))?;
            return Ok(Some((there, now)));
        }
        let mut message = Message::default();
        if there != Stored::Nothing {
            message.add(&statements.delete, &key_values(new));
        }
        let ([bin, old_id], [_, new_id]) = (key_values(key), key_values(new));
        let alias = Stored::alias(new.clone(), grace, now);
        let mut alias = row_values(key, &alias, None, now);
        // A listing of the owner that comes to the old id follows it: the new one may lie behind.
        if let Some(owner) = alias.get_mut(OWNER_COLUMN) {
            *owner = record.and_then(|record| record.owner).into();
        }
        let message = message
            .then(&statements.rename, &[new_id, bin, old_id])
            .then(&statements.insert, &alias)
            .then("COMMIT", &[]);
        connection.run(&message)?;
        Ok(None)
    })
}
