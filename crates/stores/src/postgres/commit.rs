//! Commit: the next version of the record that the lease has read, or a new one.
//!
//! Invariants: nobody gets the lock before what was changed under it can be seen, or the next
//! holder could read the old row (`handed_over` in `statements.rs`); a commit is said to be
//! refused only when the server has ended what it did for it.

use std::time::{Duration, Instant};

use sessile_core::{Error, ErrorKind, Head, Limits, OwnerChange, Result, Stored, Timestamp, Ttl};

use super::Postgres;
use super::connection::{Call, Connection};
use super::failure::{Attempt, PostgresFailure};
use super::lock::{Held, Lease, unlock};
use super::result::StatementResult;
use super::row::{KeyRow, decode_head, read_head};
use super::statements::Sql;
use crate::connections::deadline::Deadline;
use crate::connections::doubt::in_doubt;
use crate::connections::pool::AttemptFailure;
use crate::sql::value::{Value, key_values};

/// How long a commit without an answer waits for the server to end it. A waiting server looks once
/// a second whether its client is still there (`client_connection_check_interval` in `schema.rs`).
const END_WAIT_MAX: Duration = Duration::from_millis(2_500);
const END_PAUSE: Duration = Duration::from_millis(25);

/// One round trip, which gives up the lock too. When nothing was written the lock costs another.
pub(super) fn commit(
    store: &Postgres,
    mut held: Held,
    saved: (&[u8], Ttl, OwnerChange),
) -> Result<()> {
    let (deadline, now) = (store.resume(&mut held)?, store.clock.now());
    let written = match held.lease.stored.live(held.lease.begun) {
        Some(head) => replace(&mut held, head, saved, now),
        None => insert(&mut held, saved, now),
    };
    let Held { lease, mut connection } = held;
    match written {
        Ok(written) if written.count == 1 => {
            // Otherwise the connection goes, and with it whatever it holds.
            if written.is_true() {
                store.pool.give_back(connection);
            }
            Ok(())
        }
        // The server may have carried it out all the same.
        Err(failure) if failure.breaks_connection() && !failure.is_demotion() => {
            let backend = connection.backend;
            drop(connection); // so that the server learns of it
            find_out(store, deadline, &lease, backend, (now, failure))
        }
        refused => {
            let there = refused.map(|_| read_head(&mut connection, &lease.key));
            unlock(&mut connection, lease.lock);
            store.pool.give_back(connection);
            Err(lease.refusal(&there??.stored, now))
        }
    }
}

fn replace(
    held: &mut Held,
    head: Head,
    (payload, ttl, set): (&[u8], Ttl, OwnerChange),
    now: Timestamp,
) -> Attempt<StatementResult> {
    let Held { lease, connection } = held;
    // Without the stored end, which the statement takes from the row: a touch may have changed it.
    let (expires, ends) = ttl.deadline(now, head.created, None);
    let [bin, id] = key_values(&lease.key);
    let values = [
        expires.into(),
        ends.into(),
        Value::Bytes(payload),
        now.into(),
        lease.writer.into(),
        bin,
        id,
        head.version.into(),
        head.created.into(),
        connection.backend.into(),
        lease.lock.into(),
    ];
    match set {
        OwnerChange::Keep => connection.run_one(Sql::Replace, &values),
        OwnerChange::Set(owner) => {
            let values: Vec<_> = values.into_iter().chain([owner.into()]).collect();
            connection.run_one(Sql::ReplaceOwned, &values)
        }
    }
}

fn insert(
    held: &mut Held,
    (payload, ttl, set): (&[u8], Ttl, OwnerChange),
    now: Timestamp,
) -> Attempt<StatementResult> {
    let Held { lease, connection } = held;
    // The tombstone of a session that was destroyed since may be forgotten.
    if now.since(lease.begun) >= Limits::TOMBSTONE_TTL {
        let there = read_head(connection, &lease.key)?;
        lease.stored.check_lease(&there.stored, lease.begun, now)?;
    }
    let mark = match lease.stored {
        Stored::Tombstone { mark, .. } => Some(mark.cast_signed()),
        _ => None,
    };
    let head = Head::next(None, ttl, now).with_owner(set);
    let [bin, id] = key_values(&lease.key);
    let values = [
        bin,
        id,
        lease.lock.into(),
        now.into(),
        head.expires.into(),
        head.ends.into(),
        lease.writer.into(),
        Value::Bytes(payload),
        head.created.into(),
        mark.into(),
        connection.backend.into(),
        head.owner.into(),
    ];
    connection.run_one(Sql::Insert, &values)
}

/// Finds out what became of a commit whose connection was lost with the answer.
fn find_out(
    store: &Postgres,
    deadline: Deadline,
    lease: &Lease,
    backend: i64,
    (now, failure): (Timestamp, PostgresFailure),
) -> Result<()> {
    let start = Instant::now();
    let there = loop {
        let look = |connection: &mut Connection| after_end(connection, lease, backend);
        if let Some(there) = store.pool.with(deadline, look)? {
            break there;
        }
        if start.elapsed() >= END_WAIT_MAX || deadline.left() <= END_PAUSE {
            // The server still works on the commit, or has not noticed the lost connection.
            let why = "the server did not answer the commit in time and may yet carry it out: it \
                       may be stored, now or later";
            return Err(Error::new(ErrorKind::Unreachable, why).advice(
                "begin anew and look at the session; pg_stat_activity says what the server waits \
                 for",
            ));
        }
        std::thread::sleep(END_PAUSE);
    };
    if there.writer == lease.writer {
        return Ok(());
    }
    // Unless the row is what the lease has read, others may have written over the commit.
    let checked = lease.stored.check_lease(&there.stored, lease.begun, now);
    checked.map_err(|error| if failure.leaves_doubt() { in_doubt(error) } else { error })?;
    Err(Error::new(
        ErrorKind::Stale,
        "the connection that held the lock was lost, and another request may have had it since",
    )
    .advice("begin anew; the server's log says why it ended the connection")
    .source(Error::from(failure)))
}

/// The row after the server has ended a lost commit; `None` before that.
///
/// The process that served a lease has the lock until its session ends, or until what it committed
/// can be seen. Once it does not have the lock, the next statement sees the outcome. Whether the
/// lock is free says nothing: another holder may have it by then.
fn after_end(connection: &mut Connection, lease: &Lease, backend: i64) -> Attempt<Option<KeyRow>> {
    let calls = [
        Call(Sql::HeldBy, &[lease.lock.into(), backend.into()]),
        Call(Sql::ReadHead, &key_values(&lease.key)),
    ];
    let [held, there] = connection.run(calls)?;
    Ok(if held.is_true() { None } else { Some(decode_head(&there, &lease.key)?) })
}
