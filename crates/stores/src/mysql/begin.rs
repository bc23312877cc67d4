//! Begin: takes the lock of a session, and reads its row.
//!
//! `GET_LOCK` queues its waiters in order of arrival. The holder reads the record with a row lock,
//! because a commit gives the named lock up while it still has the row to itself (`commit.rs`).
//! Without the named lock nothing is read. A large payload is read without a row lock: the row
//! would stay locked until the reader has taken it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sessile_core::{ErrorKind, Found, Key, Result, Stored, follow_aliases};

use super::Mysql;
use super::connection::{Connection, unexpected};
use super::failure::{Attempt, LOCK_WAIT, MysqlFailure};
use super::lock::{Held, READ_ONLY_BIT, RELEASE, SESSION_FENCE, holder, release};
use super::row::{Row, decode, decode_head};
use super::statement::Message;
use super::statements::{HEAD_COLUMNS, READ_IF_LOCKED, Statements};
use crate::connections::deadline::Deadline;
use crate::connections::pool::PooledConnection;
use crate::locks::byte_lock::pause_after;
use crate::sql::row::Columns;
use crate::sql::value::{Value, key_values};

#[derive(Clone, Copy)]
pub(super) struct LockRequest<'a> {
    name: &'a str,
    key: &'a Key,
    wait: Duration,
    /// Another lock, to give up before.
    given_up: Option<&'a str>,
}

impl<'a> LockRequest<'a> {
    pub fn if_free(name: &'a str, key: &'a Key) -> LockRequest<'a> {
        LockRequest { name, key, wait: Duration::ZERO, given_up: None }
    }

    fn message(&self) -> Message {
        self.given_up.map_or_else(Message::default, |old| Message::of(RELEASE, &[Value::Word(old)]))
    }

    /// Draws the fence, under the lock; NULL when the time is over. MariaDB looks at six decimals.
    fn wait(&self, statements: &Statements) -> String {
        let (seconds, us) = (self.wait.as_secs(), self.wait.subsec_micros());
        format!("IF(GET_LOCK(?, {seconds}.{us:06}) = 1, {}, NULL)", statements.fence)
    }
}

/// The fence, which grows with each holder, and what was read under the lock.
type LockedRow = (u64, Stored, Vec<u8>);

pub(super) fn begin(store: &Mysql, asked: &Key, wait_max: Duration) -> Result<(Held, u64, Found)> {
    let (start, deadline) = (Instant::now(), store.pool.deadline(wait_max));
    store.pool.retry(deadline, |mut connection| {
        let mut given_up: Option<String> = None;
        let (locked, moved_to) = follow_aliases(asked, |key| -> Attempt<_> {
            let lock = store.locks.name(key);
            let old = given_up.take();
            let request =
                LockRequest { name: &lock, key, wait: wait_max, given_up: old.as_deref() };
            let row = lock_and_read(store, &mut connection, request, (start, deadline))?;
            let Some((fence, stored, payload)) = row else {
                return Ok(ControlFlow::Break(Err(lock)));
            };
            connection.has_begun(stored != Stored::Nothing);
            let begun = store.clock.now();
            Ok(match stored.clone().look_up(payload, begun) {
                ControlFlow::Continue(target) => {
                    given_up = Some(lock);
                    ControlFlow::Continue(target)
                }
                ControlFlow::Break(found) => {
                    ControlFlow::Break(Ok((key.clone(), lock, stored, begun, fence, found)))
                }
            })
        })?;
        match locked {
            Ok((key, lock, stored, begun, fence, found)) => {
                let held = Held { key, lock, stored, begun, connection };
                Ok((held, fence, Found { moved_to, ..found }))
            }
            Err(lock) => {
                let waited = start.elapsed();
                let holder = holder(&mut connection, &lock, &store.clock).unwrap_or_default();
                store.pool.give_back(connection);
                Err(ErrorKind::LockTimeout { holder, waited }.into())
            }
        }
    })
}

/// Waits for a lock until `request.wait` after `start`, and reads the row under it. `None` when the
/// time was over.
fn lock_and_read(
    store: &Mysql,
    connection: &mut Connection,
    mut request: LockRequest<'_>,
    (start, deadline): (Instant, Deadline),
) -> Attempt<Option<LockedRow>> {
    if request.given_up.is_none() && connection.expects_to_find() {
        if let Some(row) = lock_and_read_at_once(connection, request, &store.statements().begin)? {
            return Ok(Some(row));
        }
        connection.has_begun(false);
    }
    let wait_max = request.wait;
    loop {
        let left = wait_max.saturating_sub(start.elapsed());
        // MySQL takes whole seconds only. Zero is one try.
        request.wait =
            if connection.facts.is_mariadb() { left } else { Duration::from_secs(left.as_secs()) };
        connection.set_deadline(deadline.of_answer(request.wait));
        match lock_and_read_once(connection, request, store.statements()) {
            Ok(Some(row)) => return Ok(Some(row)),
            Ok(None) => {}
            // The lock was had, but another transaction keeps the row. Counts as a lock that is not
            // free.
            Err(failure) if failure.is(&[LOCK_WAIT]) => release(connection, request.name)?,
            Err(failure) => return Err(failure),
        }
        request.given_up = None;
        let left = wait_max.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        if request.wait.is_zero() {
            std::thread::sleep(pause_after(start.elapsed()).min(left));
        }
    }
}

/// The common case by one prepared statement. `None`: the session is not there, or large, or not
/// free, and the lock is not held.
///
/// The row is read before the lock is taken, and does not change until the lock is had: the read
/// locks it until the statement ends. Nothing is waited for meanwhile, neither the lock nor a row
/// that others have locked. Columns are worked out in their order, so the fence is drawn under the
/// lock.
fn lock_and_read_at_once(
    connection: &mut Connection,
    LockRequest { name, key, .. }: LockRequest<'_>,
    begin: &str,
) -> Attempt<Option<LockedRow>> {
    let [bin, id] = key_values(key);
    let values = [Value::Word(name), bin, id];
    let row = connection.if_prepared(|connection| connection.fetch(begin, &values))?.flatten();
    let Some(row) = row.filter(|row| !row.is_null(0)) else { return Ok(None) };
    let fence = fence(connection, Some(&row), 1)?.ok_or_else(unexpected)?;
    let read = decode(Some(row), 2, 0, key);
    keep_if_readable(connection, name, fence, read)
}

/// `None` when the time was over.
fn lock_and_read_once(
    connection: &mut Connection,
    request: LockRequest<'_>,
    statements: &Statements,
) -> Attempt<Option<LockedRow>> {
    if connection.facts.is_mariadb() && connection.prepares() {
        let row = connection
            .if_prepared(|connection| lock_and_read_by_name(connection, request, statements))?;
        if let Some(row) = row {
            return Ok(row);
        }
        // The server may have refused after it took the lock: taken once more, the lock would
        // outlast its release.
        release(connection, request.name)?;
    }
    let selects = [statements.await_commit.as_str(), &statements.select_if_locked];
    let Some((fence, row)) = lock_and_select(connection, request, statements, &selects)? else {
        return Ok(None);
    };
    let read = decode(row, 0, HEAD_COLUMNS, request.key);
    keep_if_readable(connection, request.name, fence, read)
}

/// By a statement that the server keeps under a name. MariaDB works out the values before it looks
/// at the statement: the lock is waited for while no table is open and no snapshot taken. Without
/// the lock the id is NULL, and no row is waited for.
fn lock_and_read_by_name(
    connection: &mut Connection,
    request: LockRequest<'_>,
    statements: &Statements,
) -> Attempt<Option<LockedRow>> {
    let LockRequest { name, key, .. } = request;
    let mut message = request.message();
    if connection.knows_read != Some(statements.name_owners) {
        message.add_verbatim(&statements.prepare_read);
    }
    let execute = format!(
        "EXECUTE {READ_IF_LOCKED} USING {}, ?, IF(IS_USED_LOCK(?) = CONNECTION_ID(), ?, NULL)",
        request.wait(statements)
    );
    let ([bin, id], lock) = (key_values(key), Value::Word(name));
    message.add(&execute, &[lock, bin, lock, id]);
    let row = connection.run(&message)?.row();
    connection.knows_read = Some(statements.name_owners);
    let Some(fence) = fence(connection, row.as_ref(), 0)? else { return Ok(None) };
    // No kind, no row. A payload that is too large for this way is NULL.
    let row = row.filter(|row| !row.is_null(1));
    // After the fence and the head.
    const PAYLOAD: usize = 1 + HEAD_COLUMNS;
    let is_live = |row: &Row| row.integer(1).is_ok_and(|kind| kind == Some(0));
    let large = |row: &Row| is_live(row) && row.is_null(PAYLOAD);
    let read = if row.as_ref().is_some_and(large) {
        decode(connection.row(&statements.select, &key_values(key))?, 0, HEAD_COLUMNS, key)
    } else {
        decode(row, 1, PAYLOAD, key)
    };
    keep_if_readable(connection, name, fence, read)
}

/// Without the payload. `None` when the lock is not free.
pub(super) fn lock_and_read_head(
    connection: &mut Connection,
    request: LockRequest<'_>,
    statements: &Statements,
) -> Attempt<Option<Stored>> {
    let selects = [statements.select_head.as_str()];
    let Some((fence, row)) = lock_and_select(connection, request, statements, &selects)? else {
        return Ok(None);
    };
    let read = decode_head(row, request.key).map(|stored| (stored, Vec::new()));
    Ok(keep_if_readable(connection, request.name, fence, read)?.map(|(_, stored, _)| stored))
}

fn lock_and_select(
    connection: &mut Connection,
    request: LockRequest<'_>,
    statements: &Statements,
    selects: &[&str],
) -> Attempt<Option<(u64, Option<Row>)>> {
    let mut message = request.message();
    let wait = request.wait(statements);
    message.add(&format!("SET {SESSION_FENCE} = {wait}"), &[Value::Word(request.name)]);
    selects.iter().for_each(|select| message.add(select, &key_values(request.key)));
    message.add(&format!("SELECT {SESSION_FENCE}"), &[]);
    let mut results = connection.run(&message)?;
    let fence = fence(connection, results.row().as_ref(), 0)?;
    Ok(fence.map(|fence| (fence, results.row())))
}

/// A server that has become read-only since the connection was opened is a primary that was
/// demoted: what begins there cannot be saved.
fn fence(connection: &Connection, row: Option<&Row>, column: usize) -> Attempt<Option<u64>> {
    let fence = row.ok_or_else(unexpected)?.integer(column)?.map(i64::unsigned_abs);
    let read_only = fence.is_some_and(|fence| fence & READ_ONLY_BIT != 0);
    if read_only && !connection.facts.read_only {
        return Err(MysqlFailure::demoted());
    }
    Ok(fence.map(|fence| fence & !READ_ONLY_BIT))
}

/// A lock over a row that cannot be read is not kept.
fn keep_if_readable(
    connection: &mut Connection,
    name: &str,
    fence: u64,
    read: Result<(Stored, Vec<u8>)>,
) -> Attempt<Option<LockedRow>> {
    match read {
        Ok((stored, payload)) => Ok(Some((fence, stored, payload))),
        Err(error) => {
            release(connection, name)?;
            Err(error.into())
        }
    }
}
