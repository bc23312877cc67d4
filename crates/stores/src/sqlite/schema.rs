//! The tables, and how a file is recognised as ours. Layout: `crates/stores/design/sqlite.md`.
//!
//! Invariants: a file that is not ours is never changed; the first process creates the tables,
//! under a lock; an older program never works on a newer schema.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use sessile_core::{Error, ErrorKind, Result};

use super::connection::{Pool, immediate};
use super::failure::failure;
use super::files::file_error;
use crate::locks::byte_lock::{Acquired, ByteLocks, LockName};
use crate::sql::check_schema;

/// "sess" in the header of the file: <https://www.sqlite.org/pragma.html#pragma_application_id>.
const APPLICATION_ID: i64 = 0x7365_7373;
const CREATE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The payload comes last: a read of the other columns touches no overflow page of it.
const CREATE: &str = "
CREATE TABLE session (
    row     INTEGER PRIMARY KEY,
    bin     TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    kind    INTEGER NOT NULL, -- 0 live, 1 destroyed, 2 regenerated
    version INTEGER NOT NULL,
    created INTEGER NOT NULL, -- this and the next four: milliseconds since 1970-01-01 UTC
    written INTEGER NOT NULL,
    expires INTEGER NOT NULL, -- live: the expiry; regenerated: the end of the grace
    ends    INTEGER,          -- live: the absolute end, if there is one
    due     INTEGER NOT NULL, -- when a sweep looks at the row: never later than it may remove it
    mark    INTEGER NOT NULL, -- destroyed: which destruction it was
    target  TEXT,             -- regenerated: the new id
    payload BLOB,             -- live: what the application stored
    UNIQUE (bin, id)
) STRICT;
CREATE INDEX session_due ON session (due);
CREATE TABLE boot (
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL      -- the last boot of the host on which the database was opened
) STRICT;
PRAGMA application_id = 0x73657373;
PRAGMA user_version = 1;
";

/// In a table of their own: a column of a STRICT table makes SQLite check the whole table under the
/// write lock. So a database that was made before owners gets them in no time. It keeps its
/// version, and a program from then can open it and go on: what that destroys and makes anew has
/// another creation, and what it removes takes its owner along.
const ADD_OWNERS: &str = "
CREATE TABLE session_owner (
    row     INTEGER PRIMARY KEY, -- of the session
    owner   TEXT    NOT NULL,    -- the digest of the owner
    created INTEGER NOT NULL     -- of the session to which the owner belongs
) STRICT;
CREATE INDEX session_owner_rows ON session_owner (owner);
CREATE TRIGGER session_owner_gone AFTER DELETE ON session BEGIN
    DELETE FROM session_owner WHERE row = OLD.row;
END;
";

/// Returns the number of this boot.
pub(super) fn create_or_check(pool: &Pool, locks: &ByteLocks) -> Result<u64> {
    let boot = boot_id();
    let known = pool.with(|connection| {
        if is_new(connection)? {
            return Ok(None);
        }
        check_ours(connection)?;
        if has_no_owners(connection)? {
            return Ok(None);
        }
        known_boot(connection, &boot)
    })?;
    if let Some(number) = known {
        return Ok(number);
    }
    // Two processes that switch a new file to the log at once would deadlock inside SQLite.
    let turn = locks.acquire(LockName::new("", "create"), CREATE_WAIT_MAX).map_err(file_error)?;
    let Acquired::Granted(_turn) = turn else {
        let why = "another process has been creating the database for 30 s";
        return Err(Error::new(ErrorKind::Unreachable, why));
    };
    pool.with(|connection| {
        if is_new(connection)? {
            let mode: String = connection
                .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
                .map_err(failure)?;
            if mode != "wal" {
                let why = "the file system does not support a write-ahead log";
                return Err(Error::new(ErrorKind::Incompatible, why)
                    .advice("use a local disk; docs/one-host.md says why"));
            }
            immediate(connection, || connection.execute_batch(CREATE).map_err(failure))?;
        }
        check_ours(connection)?;
        if has_no_owners(connection)? {
            immediate(connection, || connection.execute_batch(ADD_OWNERS).map_err(failure))?;
        }
        immediate(connection, || next_boot(connection, &boot))
    })
}

fn pragma(connection: &Connection, name: &str) -> Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0)).map_err(failure)
}

fn is_new(connection: &Connection) -> Result<bool> {
    Ok(pragma(connection, "schema_version")? == 0 && pragma(connection, "application_id")? == 0)
}

/// Whether it is ours, from before owners.
fn has_no_owners(connection: &Connection) -> Result<bool> {
    if pragma(connection, "application_id")? != APPLICATION_ID {
        return Ok(false);
    }
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'session_owner'";
    let count: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(failure)?;
    Ok(count == 0)
}

fn check_ours(connection: &Connection) -> Result<()> {
    if pragma(connection, "application_id")? != APPLICATION_ID {
        return Err(Error::new(ErrorKind::Incompatible, "the database belongs to another program")
            .advice("name another file; this one was not changed"));
    }
    check_schema("the database", pragma(connection, "user_version")?)
}

fn known_boot(connection: &Connection, boot: &str) -> Result<Option<u64>> {
    let sql = "SELECT number FROM boot WHERE id = ?1";
    let found = connection.query_row(sql, [boot], |row| row.get(0)).optional();
    Ok(found.map_err(failure)?.map(i64::unsigned_abs))
}

/// Counts a new boot. Fences contain the number, because their clock starts anew with each.
fn next_boot(connection: &Connection, boot: &str) -> Result<u64> {
    if let Some(number) = known_boot(connection, boot)? {
        return Ok(number);
    }
    let sql = "INSERT INTO boot SELECT ifnull(max(number), 0) + 1, ?1 FROM boot RETURNING number";
    let number: i64 = connection.query_row(sql, [boot], |row| row.get(0)).map_err(failure)?;
    connection.execute("DELETE FROM boot WHERE number < ?1", [number]).map_err(failure)?;
    Ok(number.unsigned_abs())
}

fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| "unknown".to_owned(), |id| id.trim().to_owned())
}
