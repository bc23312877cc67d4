//! The lock of a session: an advisory lock of the server, held by the connection ("session level"
//! in the server's words). It ends when it is given up or with the connection, not with a
//! transaction. The server queues waiters in order of arrival and wakes them.
//!
//! Invariant: a lease whose connection was lost changes nothing, because another request may have
//! had the lock since.

use std::time::Duration;

use sessile_core::{Error, ErrorKind, Holder, Key, Result, Stored, Timestamp};

use super::Postgres;
use super::connection::{Call, Connection};
use super::result::Row;
use super::statements::Sql;
use crate::locks::check_process;
use crate::sql::random_mark;
use crate::sql::row::Columns;

/// Dropping it closes its connection, which frees the lock; in a forked child it only closes the
/// child's descriptor.
pub(super) struct Held {
    pub lease: Lease,
    pub connection: Connection,
}

pub(super) struct Lease {
    pub key: Key,
    pub lock: i64,
    pub stored: Stored,
    /// When `stored` was read.
    pub begun: Timestamp,
    /// What this lease leaves in a row that it writes, so that it recognises its own work.
    pub writer: i64,
    pid: u32,
}

impl Lease {
    pub fn new(key: Key, lock: i64, stored: Stored, begun: Timestamp) -> Result<Lease> {
        Ok(Lease { key, lock, stored, begun, writer: random_mark()?, pid: std::process::id() })
    }

    pub fn check_owner(&self) -> Result<()> {
        check_process(self.pid)
    }

    /// Why a change that matched nothing was refused.
    pub fn refusal(&self, stored: &Stored, now: Timestamp) -> Error {
        match self.stored.check_lease(stored, self.begun, now) {
            Err(refusal) => refusal,
            // The row is as it should be: another process of the server served the change.
            Ok(_) => pooled_by_transaction(),
        }
    }
}

/// If the server does not say so, the lock goes with the connection, which nobody else may use.
pub(super) fn unlock(connection: &mut Connection, lock: i64) {
    if !connection.run_one(Sql::Unlock, &[lock.into()]).is_ok_and(|unlocked| unlocked.is_true()) {
        connection.retire();
    }
}

pub(super) fn timed_out(
    store: &Postgres,
    connection: &mut Connection,
    lock: i64,
    waited: Duration,
) -> Error {
    // The lock may have been granted at the very moment at which the wait was over.
    let calls = [Call(Sql::UnlockAll, &[]), Call(Sql::Holder, &[lock.into()])];
    let holder = match connection.run(calls) {
        Ok([_, holder]) => holder.rows.first().map(|row| holder_of(store, row)),
        Err(_) => {
            connection.retire();
            None
        }
    };
    ErrorKind::LockTimeout { holder: holder.unwrap_or_default(), waited }.into()
}

fn holder_of(store: &Postgres, row: &Row) -> Holder {
    let name = row.text(0).ok().flatten().unwrap_or_default();
    let mut words = name.split(' ');
    let ours = words.next() == Some("sessile");
    let pid = words.next().and_then(|pid| pid.parse().ok()).filter(|_| ours);
    let host = words.next().filter(|host| ours && !host.is_empty()).map(str::to_owned);
    // The holder's last statement was its begin. By the server's clock, because ours may be a
    // test's.
    let held = row.integer(1).ok().flatten().map(|ms| ms.max(0).unsigned_abs());
    Holder { pid, host, since: held.map(|ms| store.clock.now().minus(Duration::from_millis(ms))) }
}

/// A lock of a session means nothing where each transaction runs in another session.
pub(super) fn pooled_by_transaction() -> Error {
    Error::new(
        ErrorKind::Incompatible,
        "a proxy in between gives each transaction another session of the server",
    )
    .advice("connect to the server itself, or let the proxy pool sessions (pool_mode = session)")
}
