//! Begin: takes the lock of a session, and reads its row.
//!
//! Invariants: the row is read by a statement that began after the lock was granted, so it sees
//! what the last holder has written; a connection on which a begin failed is not used again, unless
//! the server has said that it holds nothing.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sessile_core::{Found, Key, Result, follow_aliases};

use super::Postgres;
use super::connection::{Call, Connection};
use super::failure::{Attempt, code};
use super::lock::{Held, Lease, pooled_by_transaction, timed_out};
use super::row::{self, KeyRow};
use super::statements::Sql;
use crate::connections::deadline::Deadline;
use crate::connections::pool::AttemptFailure;
use crate::sql::row::{Columns, unsigned};
use crate::sql::value::{Value, key_values};

pub(super) fn begin(
    store: &Postgres,
    asked: &Key,
    wait_max: Duration,
) -> Result<(Held, u64, Found)> {
    let (start, deadline) = (Instant::now(), store.pool.deadline(wait_max));
    store.pool.retry(deadline, |mut connection| {
        match lock_and_follow(store, &mut connection, asked, (start, wait_max), deadline) {
            Ok(Ok((lease, fence, found))) => Ok((Held { lease, connection }, fence, found)),
            Ok(Err(lock)) => {
                let error = timed_out(store, &mut connection, lock, start.elapsed());
                store.pool.give_back(connection);
                Err(error.into())
            }
            Err(failure) => {
                // A lock may have been granted before the failure.
                if !failure.breaks_connection() && connection.run_one(Sql::UnlockAll, &[]).is_ok() {
                    store.pool.give_back(connection);
                }
                Err(failure)
            }
        }
    })
}

/// Follows an id within its grace, from lock to lock. When the time is over, the inner error is the
/// lock that was not free.
fn lock_and_follow(
    store: &Postgres,
    connection: &mut Connection,
    asked: &Key,
    (start, wait_max): (Instant, Duration),
    deadline: Deadline,
) -> Attempt<std::result::Result<(Lease, u64, Found), i64>> {
    let mut given_up = None;
    let (locked, moved_to) = follow_aliases(asked, |key| -> Attempt<_> {
        let lock = connection.names.lock_of(key);
        let left = wait_max.saturating_sub(start.elapsed());
        connection.set_deadline(deadline.of_answer(left));
        let locked = lock_and_read(connection, given_up, lock, key, left)?;
        let Some((fence, row, payload)) = locked else { return Ok(ControlFlow::Break(Err(lock))) };
        given_up = Some(lock);
        let lease = Lease::new(key.clone(), lock, row.stored, store.clock.now())?;
        let looked_up = lease.stored.clone().look_up(payload, lease.begun);
        Ok(looked_up.map_break(|found| Ok((lease, fence, found))))
    })?;
    Ok(locked.map(|(lease, fence, found)| (lease, fence, Found { moved_to, ..found })))
}

/// One round trip: takes the lock, and reads the row in a statement of its own. `None` when the
/// time was over; a table that is locked for so long counts as a lock that is not free.
///
/// Both are one transaction, so that the server answers once. Under READ COMMITTED the second
/// statement has a snapshot of its own, taken when it is bound, after the first was carried out.
fn lock_and_read(
    connection: &mut Connection,
    given_up: Option<i64>,
    lock: i64,
    key: &Key,
    wait: Duration,
) -> Attempt<Option<(u64, KeyRow, Vec<u8>)>> {
    // Rounded up: the server may not give up before the time is over. Zero is one try.
    let wait_ms = wait.as_nanos().div_ceil(1_000_000).to_string();
    let values = [lock.into(), Value::Word(&wait_ms), given_up.into()];
    let calls = [Call(Sql::Lock, &values), Call(Sql::Read, &key_values(key))];
    let [taken, read] = match connection.run(calls) {
        // The second code: the role's statement_timeout is shorter than the wait.
        Err(failure)
            if failure.is(code::LOCK_NOT_AVAILABLE) || failure.is(code::QUERY_CANCELED) =>
        {
            return Ok(None);
        }
        done => done?,
    };
    if given_up.is_some() && !taken.is_true() {
        connection.retire();
    }
    let taken = taken.row()?;
    if taken.integer(2)? != Some(connection.backend) {
        return Err(pooled_by_transaction().into());
    }
    if taken.integer(1)?.is_none() {
        return Ok(None);
    }
    let (row, payload) = row::decode(&read, key)?;
    Ok(Some((unsigned(taken, 1)?, row, payload)))
}
