//! Regenerate: a new id for the leased record.
//!
//! Three round trips: the new id's lock and a look at both rows; a transaction that moves the
//! record and leaves an alias; giving up one lock. Both locks are held meanwhile, so only a
//! destroy, a touch or a sweep can come in between; the transaction checks that.
//!
//! Invariant: whatever goes wrong, the lease ends up with exactly one of the two locks, or with a
//! connection that nobody uses after it.

use std::time::Duration;

use sessile_core::{ErrorKind, Key, Result, Stored, Timestamp};

use super::Postgres;
use super::connection::Call;
use super::failure::Attempt;
use super::lock::{Held, unlock};
use super::row::{KeyRow, decode_head, read_head};
use super::statements::Sql;
use crate::sql::value::key_values;

pub(super) fn regenerate(
    store: &Postgres,
    held: &mut Held,
    new: &Key,
    grace: Duration,
) -> Result<()> {
    store.resume(held)?;
    let lock = held.connection.names.lock_of(new);
    let now = store.clock.now();
    let rows = lock_new(held, new, lock)?;
    let moved = move_record(held, (new, lock), rows, (now, grace));
    let given_up = if moved.is_ok() { held.lease.lock } else { lock };
    unlock(&mut held.connection, given_up);
    // The record has moved; a lease that lost its connection learns that by its commit.
    if let Some(there) = moved? {
        (held.lease.stored, held.lease.begun) = (there, now);
    }
    (held.lease.key, held.lease.lock) = (new.clone(), lock);
    Ok(())
}

/// `Exists` when someone has the lock.
fn lock_new(held: &mut Held, new: &Key, lock: i64) -> Attempt<(KeyRow, KeyRow)> {
    let Held { lease, connection } = held;
    let calls = [
        Call(Sql::TryLock, &[lock.into()]),
        Call(Sql::ReadHead, &key_values(&lease.key)),
        Call(Sql::ReadHead, &key_values(new)),
    ];
    let read = connection.run(calls);
    if read.is_err() {
        connection.retire(); // the server may have granted it
    }
    let [locked, old, there] = read?;
    if !locked.is_true() {
        return Err(ErrorKind::Exists.into());
    }
    let rows = decode_head(&old, &lease.key).and_then(|old| Ok((old, decode_head(&there, new)?)));
    if rows.is_err() {
        unlock(connection, lock);
    }
    Ok(rows?)
}

/// Without a record only the lock moves: then it returns what the new id has, for the lease.
fn move_record(
    held: &mut Held,
    (new, lock): (&Key, i64),
    (old, there): (KeyRow, KeyRow),
    (now, grace): (Timestamp, Duration),
) -> Attempt<Option<Stored>> {
    let Held { lease, connection } = held;
    let record = lease.stored.check_lease(&old.stored, lease.begun, now)?;
    if there.stored.takes_id(now) {
        return Err(ErrorKind::Exists.into());
    }
    let Some(head) = record else { return Ok(Some(there.stored)) };
    let alias_ends = now.plus(grace).into();
    let forget = Stored::alias((), grace, now).due().into();
    let ([bin, old_id], [_, new_id]) = (key_values(&lease.key), key_values(new));
    let (version, created) = (head.version.into(), head.created.into());
    let backend = connection.backend.into();
    let [_, moved, _] = connection.run([
        Call(Sql::ClearNew, &[bin, new_id, now.into()]),
        Call(Sql::MoveRecord, &[new_id, lock.into(), bin, old_id, version, created, backend]),
        Call(
            Sql::LeaveAlias,
            &[
                bin,
                old_id,
                lease.lock.into(),
                now.into(),
                alias_ends,
                forget,
                new_id,
                old.number.into(),
            ],
        ),
    ])?;
    if moved.count == 1 {
        return Ok(None);
    }
    let there = read_head(connection, &lease.key)?;
    Err(lease.refusal(&there.stored, now).into())
}
