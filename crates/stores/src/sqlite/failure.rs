//! From SQLite's result codes to the kinds of the contract.
//!
//! Source: <https://www.sqlite.org/rescode.html>. The driver's message is the source of the error;
//! it may quote our SQL, never a value.

use rusqlite::ffi::ErrorCode;
use sessile_core::{Error, ErrorKind};

pub fn failure(error: rusqlite::Error) -> Error {
    let (kind, why, advice) = match &error {
        rusqlite::Error::SqliteFailure(cause, _) => describe(cause.code, cause.extended_code),
        // A column has another type than the schema says.
        _ => (
            ErrorKind::Corrupt,
            "a stored row is not what was written",
            "see docs/one-host.md, Repair",
        ),
    };
    Error::new(kind, why).advice(advice).source(error)
}

fn describe(code: ErrorCode, extended: i32) -> (ErrorKind, &'static str, &'static str) {
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            ErrorKind::Unreachable,
            "another process kept the database's write lock for 5 s",
            "look for a tool that holds a transaction open on the file",
        ),
        ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::AuthorizationForStatementDenied => (
            ErrorKind::Denied,
            "the database may not be written",
            "give the user of the workers write permission on the file and on its directory",
        ),
        ErrorCode::CannotOpen => (
            ErrorKind::Denied,
            "the database cannot be opened",
            "check that its directory exists and that the user of the workers may write in it",
        ),
        ErrorCode::DiskFull => {
            (ErrorKind::Full, "no space is left on the disk", "free space or move the database")
        }
        _ if extended == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => (
            ErrorKind::Full,
            "no space is left for the index of the log",
            "free space or move the database",
        ),
        ErrorCode::DatabaseCorrupt => {
            (ErrorKind::Corrupt, "the database is damaged", "see docs/one-host.md, Repair")
        }
        ErrorCode::NotADatabase => (
            ErrorKind::Corrupt,
            "the file is not a SQLite database",
            "name another file; this one was not changed",
        ),
        ErrorCode::OutOfMemory => {
            (ErrorKind::OutOfMemory, "SQLite has no memory left", "give the process more")
        }
        _ => (ErrorKind::Io, "SQLite failed", "see the cause"),
    }
}
