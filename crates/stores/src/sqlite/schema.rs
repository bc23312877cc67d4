//! The tables, how they come to be, and how a file is recognised as ours.
//!
//! Invariants: a file that is not ours is never changed; whoever opens first creates the tables, under a
//! lock, so that any number of processes may open a new file at once; an older program never works on a
//! newer schema. `docs/stores/sqlite.md` shows the layout for people.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use sessile_core::{Error, ErrorKind, Result};

use super::connection::{Pool, immediate};
use super::failure::failure;
use crate::byte_lock::{ByteLocks, LockName, Wait};

/// "sess" in the header of the file: <https://www.sqlite.org/pragma.html#pragma_application_id>.
const APPLICATION_ID: i64 = 0x7365_7373;
const VERSION: i64 = 1;
const CREATE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The columns that change seldom come first, the payload last: what looks at a row without its payload
/// (sweep, list, destroy) then never reads the overflow pages of a large one.
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

/// The path by which all processes agree on the file, whatever symbolic links lead to it.
pub(super) fn real_path(path: &Path) -> Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Ok(real) => return Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(file_error(error)),
    }
    match (path.parent().map(std::fs::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => Ok(folder.join(name)),
        (Some(Err(error)), _) => Err(file_error(error)),
        _ => Err(Error::new(ErrorKind::InvalidUrl, "the path names no file").advice("write sqlite:/directory/file.db")),
    }
}

/// Creates the empty file, readable by its owner only: whoever can read it can log in as any visitor. Never
/// opens an existing one: closing it again would drop the locks that SQLite holds on it in this process.
pub(super) fn create_file(path: &Path) -> Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_file(path),
        Err(error) => Err(file_error(error)),
    }
}

fn check_file(path: &Path) -> Result<()> {
    let found = std::fs::symlink_metadata(path).map_err(file_error)?;
    if !found.is_file() {
        return Err(Error::new(ErrorKind::Incompatible, "the path does not name a regular file"));
    }
    if found.nlink() > 1 {
        return Err(Error::new(ErrorKind::Incompatible, "the file has a second name (hard link)")
            .advice("its log would be found under one of the names only; remove the other"));
    }
    Ok(())
}

pub(super) fn file_error(error: io::Error) -> Error {
    let (kind, why) = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::Denied, "the operating system refuses access to the file or its directory")
        }
        io::ErrorKind::NotFound => (ErrorKind::Unreachable, "the directory of the file does not exist"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (ErrorKind::Full, "no space is left on the disk"),
        _ => (ErrorKind::Io, "the file or its lock file cannot be used"),
    };
    Error::new(kind, why).advice("check the path and its permissions").source(error)
}

/// Makes the tables if the file is new, refuses it if it is not ours, and returns the number of this boot.
pub(super) fn prepare(pool: &Pool, locks: &ByteLocks) -> Result<u64> {
    let boot = boot_id();
    let known = pool.take()?.with(|connection| {
        if is_new(connection)? { Ok(None) } else { check_ours(connection).and_then(|()| known_boot(connection, &boot)) }
    })?;
    if let Some(number) = known {
        return Ok(number);
    }
    // Two that switch a new file to the log at once would deadlock inside SQLite, so one does it after the other.
    let turn = locks.acquire(LockName::new("", "create"), CREATE_WAIT_MAX).map_err(file_error)?;
    let Wait::Granted(_turn) = turn else {
        return Err(Error::new(ErrorKind::Unreachable, "another process has been creating the database for 30 s"));
    };
    pool.take()?.with(|connection| {
        if is_new(connection)? {
            let mode: String =
                connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(failure)?;
            if mode != "wal" {
                return Err(Error::new(ErrorKind::Incompatible, "the file system does not support a write-ahead log")
                    .advice("use a local disk; see docs/stores/sqlite.md, Network file systems"));
            }
            immediate(connection, || connection.execute_batch(CREATE).map_err(failure))?;
        }
        check_ours(connection)?;
        immediate(connection, || next_boot(connection, &boot))
    })
}

fn pragma(connection: &Connection, name: &str) -> Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0)).map_err(failure)
}

fn is_new(connection: &Connection) -> Result<bool> {
    Ok(pragma(connection, "schema_version")? == 0 && pragma(connection, "application_id")? == 0)
}

fn check_ours(connection: &Connection) -> Result<()> {
    if pragma(connection, "application_id")? != APPLICATION_ID {
        return Err(Error::new(ErrorKind::Incompatible, "the database belongs to another program")
            .advice("name another file; this one was not changed"));
    }
    match pragma(connection, "user_version")? {
        VERSION => Ok(()),
        newer if newer > VERSION => {
            Err(Error::new(ErrorKind::Incompatible, format!("the database has schema {newer}; this is {VERSION}"))
                .advice("update this program; the file was not changed"))
        }
        _ => Err(Error::new(ErrorKind::Incompatible, "the database has a schema that no release has written")),
    }
}

fn known_boot(connection: &Connection, boot: &str) -> Result<Option<u64>> {
    let sql = "SELECT number FROM boot WHERE id = ?1";
    let found = connection.query_row(sql, [boot], |row| row.get::<_, i64>(0));
    match found {
        Ok(number) => Ok(Some(number.unsigned_abs())),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

/// Counts a new boot. Fences contain the number, because the clock that they come from starts anew.
fn next_boot(connection: &Connection, boot: &str) -> Result<u64> {
    if let Some(number) = known_boot(connection, boot)? {
        return Ok(number);
    }
    let sql = "SELECT ifnull(max(number), 0) + 1 FROM boot";
    let number: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(failure)?;
    connection.execute("DELETE FROM boot", []).map_err(failure)?;
    connection.execute("INSERT INTO boot (number, id) VALUES (?1, ?2)", (number, boot)).map_err(failure)?;
    Ok(number.unsigned_abs())
}

fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| "unknown".to_owned(), |id| id.trim().to_owned())
}
