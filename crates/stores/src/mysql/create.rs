//! Create: a new record, under the lock of its id.

use std::time::Duration;

use sessile_core::{ErrorKind, Head, Key, Result, Stored, Ttl};

use super::Mysql;
use super::begin::{LockRequest, lock_and_read_head};
use super::connection::Connection;
use super::failure::{Attempt, DEADLOCK, DUPLICATE};
use super::lock::{RELEASE, release};
use super::statement::Message;
use super::statements::row_values;
use super::transaction::{check_size, repeat_on_collision, write_with_care};
use crate::connections::pool::AttemptFailure;
use crate::sql::value::Value;

/// Holding the lock meanwhile keeps out a `begin` that would read nothing and then commit over it.
pub(super) fn create(store: &Mysql, key: &Key, payload: &[u8], ttl: Ttl) -> Result<()> {
    let lock = store.locks.name(key);
    let created = store.pool.retry(store.pool.deadline(Duration::ZERO), |mut connection| {
        let request = LockRequest::if_free(&lock, key);
        let Some(there) = lock_and_read_head(&mut connection, request, store.statements())? else {
            store.pool.give_back(connection);
            return Err(ErrorKind::Exists.into());
        };
        let new = (key, payload, ttl);
        let created = create_under_lock(store, &mut connection, &lock, there, new);
        if created.is_ok() || release(&mut connection, &lock).is_ok() {
            store.pool.give_back(connection);
        }
        match created {
            Err(failure) if failure.is_demotion() && !failure.leaves_doubt() => Err(failure),
            // A second attempt might find the record of this one.
            created => Ok(created),
        }
    })?;
    Ok(created?)
}

fn create_under_lock(
    store: &Mysql,
    connection: &mut Connection,
    lock: &str,
    there: Stored,
    (key, payload, ttl): (&Key, &[u8], Ttl),
) -> Attempt<()> {
    check_size(connection, payload)?;
    let (now, statements) = (store.clock.now(), store.statements());
    if there.takes_id(now) {
        return Err(ErrorKind::Exists.into());
    }
    let new = Stored::Live(Head::next(None, ttl, now));
    if there == Stored::Nothing && connection.takes_text(payload) {
        let values = row_values(key, &new, Some(payload), now);
        let message = Message::of(&statements.insert, &values).then(RELEASE, &[Value::Word(lock)]);
        match connection.run(&message) {
            // Most likely a tombstone, or another node's change.
            Err(failure) if failure.is(&[DUPLICATE, DEADLOCK]) => {}
            done => return done.map(drop),
        }
    }
    repeat_on_collision(connection, |connection| {
        write_with_care(connection, statements, (key, lock), payload, now, |there| {
            if there.takes_id(now) { Err(ErrorKind::Exists.into()) } else { Ok(new.clone()) }
        })
    })
}
